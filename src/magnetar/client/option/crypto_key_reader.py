"""The keys of readers and writers of encrypted messages: where they are, what they do.

Messages are encrypted with data keys (`encryption.py`), and data keys with the public keys of
those who may read: RSA with OAEP and SHA-1, which is what Pulsar's clients use. Who has the
private key gets the data key back.

Keys are read whenever one is needed, so a file may be replaced while programs run: producers
need one as they begin and every four hours, consumers for each data key that they do not know.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from magnetar.errors import CryptoError, SettingsError
from magnetar.protocol.metadata import EncryptionKeys

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.padding import OAEP

__all__ = ["CryptoKeyReader", "KeySource"]

# A function gets the name of a key, and what its user says of it, and returns PEM.
KeySource: TypeAlias = str | Callable[[str, dict[str, str]], bytes | str]


class CryptoKeyReader:
    """Where the keys are: paths of PEM files, or functions for keys by name.

    Who only sends needs no private key, and who only receives no public one: None will do.

    >>> keys = {"orders": "-----BEGIN PUBLIC KEY-----..."}
    >>> reader = CryptoKeyReader(lambda name, metadata: keys[name], None)
    """

    def __init__(
        self, public_key_path: KeySource | None, private_key_path: KeySource | None
    ) -> None:
        self._public: Final[object] = _source("public_key_path", public_key_path)
        self._private: Final[object] = _source("private_key_path", private_key_path)

    def wrap(self, name: str, data_key: bytes) -> EncryptionKeys:
        """Returns a data key, for whoever has the private key of this name. Raises CryptoError."""
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key

        what = f"the public key {name!r}"
        pem = _read(what, "public_key_path", self._public, name, {})
        try:
            key = load_pem_public_key(pem)
        except Exception as error:  # of many kinds, all of which say that it is not a key
            raise CryptoError(f"{what} cannot be read as PEM: {error}") from error
        if not isinstance(key, RSAPublicKey):
            raise _not_rsa(what, key)
        try:
            return EncryptionKeys(name, key.encrypt(data_key, _oaep()), [])
        except ValueError as error:
            raise CryptoError(f"{what} cannot encrypt: {error}") from error

    def unwrap(self, wrapped: EncryptionKeys) -> bytes:
        """Returns the data key again. Raises CryptoError."""
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        name = wrapped.key
        what = f"the private key {name!r}"
        pem = _read(what, "private_key_path", self._private, name, dict(wrapped.metadata))
        try:
            key = load_pem_private_key(pem, None)
        except Exception as error:  # as above; a key with a password is one of them
            raise CryptoError(f"{what} cannot be read as PEM: {error}") from error
        if not isinstance(key, RSAPrivateKey):
            raise _not_rsa(what, key)
        try:
            return key.decrypt(wrapped.value, _oaep())
        except ValueError as error:
            raise CryptoError(f"{what} is not of the pair that encrypted the message") from error


def _oaep() -> "OAEP":
    from cryptography.hazmat.primitives.asymmetric.padding import MGF1, OAEP
    from cryptography.hazmat.primitives.hashes import SHA1

    # Not for its strength, which OAEP does not rest on, but because all clients do so.
    return OAEP(MGF1(SHA1()), SHA1(), None)


def _source(setting: str, value: object) -> object:
    to_text = getattr(value, "__fspath__", None)
    if callable(to_text):
        value = to_text()
    if value is None or isinstance(value, str) or callable(value):
        return value
    raise SettingsError(setting, f"{value!r:.40} is neither a path nor a function")


def _read(what: str, setting: str, source: object, name: str, metadata: dict[str, str]) -> bytes:
    if source is None or source == "":
        raise CryptoError(f"there is no {what.removeprefix('the ')}: give {setting}")
    if callable(source):
        try:
            found = source(name, metadata)
        except Exception as error:  # the application's
            raise CryptoError(f"{what} cannot be had: {error!r}") from error
        if isinstance(found, str):
            found = found.encode()
        if not isinstance(found, bytes):
            raise CryptoError(f"{what} cannot be had: the function returned {found!r:.40}")
        return found
    assert isinstance(source, str)
    try:
        with open(source, "rb") as file:
            return file.read()
    except OSError as error:
        raise CryptoError(f"{what} cannot be read: {error}: check {setting}") from error


def _not_rsa(what: str, key: object) -> CryptoError:
    kind = type(key).__name__
    return CryptoError(f"{what} is no RSA key but {kind}: make an RSA pair, of 2048 bits or more")
