"""End-to-end encryption, which is not supported: the names say so when they are used."""

from magnetar.errors import OperationNotSupported

__all__ = ["CryptoKeyReader"]


class CryptoKeyReader:
    """The keys of encrypted messages, in the official client. Here it cannot be made."""

    def __init__(self, public_key_path: object, private_key_path: object) -> None:
        raise OperationNotSupported(
            "end-to-end encryption is not supported: encrypt in the program, or use TLS"
        )
