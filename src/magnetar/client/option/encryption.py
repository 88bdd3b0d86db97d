"""End-to-end encryption: what a payload looks like to all who have no key, brokers included.

A payload, compressed if it is to be, is encrypted with AES-256-GCM under a data key and an
initialisation vector of its own. The metadata has the vector, and the data key once for each
reader, encrypted with that reader's public key. A batch is encrypted as a whole, a message in
chunks by the chunk. Properties, keys and times are not encrypted.

| data key of a producer | until                                          |
|------------------------|------------------------------------------------|
| made                   | before its first message                       |
| used                   | `ROTATE_MS` have passed                        |
| replaced               | by the next `send`; if that fails, so does it  |

Consumers remember data keys by what they look like encrypted, so that a private key is asked
for once for each data key. Where a key cannot be had or does not fit, nothing is decrypted.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from magnetar.errors import CryptoError
from magnetar.protocol.metadata import EncryptionKeys, MessageMetadata

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

__all__ = ["TAG_SIZE", "DataKey", "Opener", "Sealer"]

# As Pulsar's clients: AES-256, 96 bits of vector, 128 bits that prove nothing was changed.
KEY_SIZE: Final = 32
VECTOR_SIZE: Final = 12
TAG_SIZE: Final = 16
# Theirs too.
ROTATE_MS: Final = 4 * 60 * 60 * 1000
# Data keys that a consumer remembers; each producer has one at a time.
KNOWN_MAX: Final = 4096
# Tags, sizes and the vector, for each name; no less than they take.
_FIELDS_MAX: Final = 32


@final
class DataKey:
    """A key for payloads, with what readers need to get it."""

    def __init__(
        self, key: bytes, wrapped: list[EncryptionKeys], random: Callable[[int], bytes]
    ) -> None:
        self._cipher: Final[AESGCM] = _cipher(key)
        self._wrapped: Final = wrapped
        self._random: Final = random
        size: i64 = TAG_SIZE + _FIELDS_MAX
        for keys in wrapped:
            size += _FIELDS_MAX + len(keys.key.encode()) + len(keys.value)
        # How much larger an entry becomes at most.
        self.overhead: Final[i64] = size

    def label(self, metadata: MessageMetadata) -> None:
        """Gives the metadata the size it will have."""
        metadata.encryption_keys = self._wrapped
        metadata.encryption_param = bytes(VECTOR_SIZE)

    def seal(self, metadata: MessageMetadata, payload: bytes | memoryview) -> bytes:
        """Encrypts a payload, and says in the metadata how it is decrypted."""
        vector = self._random(VECTOR_SIZE)
        metadata.encryption_keys = self._wrapped
        metadata.encryption_param = vector
        return self._cipher.encrypt(vector, payload, None)


@final
class Sealer:
    """The data keys of one producer, one after the other. Raises CryptoError when made.

    `wrap` encrypts a data key for a name, `random` has bytes that nobody can guess.
    """

    def __init__(
        self,
        names: list[str],
        wrap: Callable[[str, bytes], EncryptionKeys],
        random: Callable[[int], bytes],
        now_ms: int,
    ) -> None:
        assert names
        self._names: Final = names
        self._wrap: Final = wrap
        self._random: Final = random
        self._made_ms: int = now_ms
        self.key: DataKey = self._make()

    def renew(self, now_ms: int) -> None:
        """Replaces the data key if it is time. Raises CryptoError, and leaves the old one."""
        if now_ms - self._made_ms >= ROTATE_MS:
            self.key = self._make()
            self._made_ms = now_ms

    def _make(self) -> DataKey:
        key = self._random(KEY_SIZE)
        return DataKey(key, [self._wrap(name, key) for name in self._names], self._random)


@final
class Opener:
    """Decrypts for one consumer; `unwrap` decrypts a data key, or raises CryptoError."""

    def __init__(self, unwrap: Callable[[EncryptionKeys], bytes]) -> None:
        self._unwrap: Final = unwrap
        # By what they look like encrypted, those used last at the end.
        self._known: Final[dict[bytes, AESGCM]] = {}

    def open(self, metadata: MessageMetadata, sealed: bytes | memoryview) -> bytes:
        """Returns the payload as it was before it was encrypted. Raises CryptoError."""
        wrapped = metadata.encryption_keys
        assert wrapped is not None
        cipher = self._find(wrapped)
        try:
            return cipher.decrypt(metadata.encryption_param or b"", sealed, None)
        except Exception as error:  # of the library's: a wrong tag, or no vector that one could use
            raise CryptoError("the payload was changed, or encrypted with another key") from error

    def _find(self, wrapped: list[EncryptionKeys]) -> "AESGCM":
        for keys in wrapped:
            cipher = self._known.pop(keys.value, None)
            if cipher is not None:
                self._known[keys.value] = cipher
                return cipher
        problem: CryptoError | None = None
        for keys in wrapped:
            try:
                cipher = _cipher(self._unwrap(keys))
            except CryptoError as error:
                problem = problem or error
                continue
            self._known[keys.value] = cipher
            if len(self._known) > KNOWN_MAX:
                del self._known[next(iter(self._known))]
            return cipher
        assert problem is not None
        raise problem


def _cipher(key: bytes) -> "AESGCM":
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    if len(key) != KEY_SIZE:
        raise CryptoError(f"a data key of {len(key)} bytes, and AES-256 needs {KEY_SIZE}")
    return AESGCM(key)
