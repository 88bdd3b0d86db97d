"""What a message says of its encryption: names and results of the official Python client.

Whoever gets a message that could not be decrypted (`ConsumerCryptoFailureAction.CONSUME`) finds
here what is needed to do so: the data key, encrypted for each reader, and the vector.
"""

from typing import Final, final

from magnetar.model.enums import CompressionType
from magnetar.protocol.metadata import EncryptionKeys, MessageMetadata

__all__ = ["EncryptionContext", "EncryptionKey"]


@final
class EncryptionKey:
    """The data key of a message, encrypted with the public key of this name."""

    def __init__(self, key: EncryptionKeys) -> None:
        self._key: Final = key

    @property
    def key(self) -> str:
        """The name that its producer knows the public key by."""
        return self._key.key

    @property
    def value(self) -> bytes:
        """The data key, encrypted."""
        return self._key.value

    @property
    def metadata(self) -> dict[str, str]:
        """What the producer says of the public key."""
        return dict(self._key.metadata)

    def __str__(self) -> str:
        size = len(self.value)
        return f"EncryptionKey(key={self.key}, value_len={size}, metadata={self.metadata})"

    def __repr__(self) -> str:
        return str(self)


@final
class EncryptionContext:
    """How a message was encrypted, and whether it still is."""

    def __init__(self, context: MessageMetadata, decryption_failed: bool = False) -> None:
        self._metadata: Final = context
        self._decryption_failed: Final = decryption_failed

    def keys(self) -> list[EncryptionKey]:
        """Returns the data key, once for each reader."""
        return [EncryptionKey(key) for key in self._metadata.encryption_keys or []]

    def param(self) -> bytes:
        """Returns the initialisation vector."""
        return self._metadata.encryption_param or b""

    def algorithm(self) -> str:
        """Returns what the producer calls its algorithm; Pulsar's clients leave it empty."""
        return self._metadata.encryption_algo or ""

    def compression_type(self) -> CompressionType:
        """Returns how it was compressed before it was encrypted."""
        return CompressionType(self._metadata.compression)

    def uncompressed_message_size(self) -> int:
        """Returns the size before compression, 0 if it was not compressed."""
        return self._metadata.uncompressed_size if self._metadata.compression else 0

    def batch_size(self) -> int:
        """Returns how many messages were encrypted together, -1 if it is no batch."""
        size = self._metadata.num_messages_in_batch
        return -1 if size is None else size

    def is_decryption_failed(self) -> bool:
        """Returns whether the payload is still encrypted."""
        return self._decryption_failed

    def __str__(self) -> str:
        return (
            f"EncryptionContext(algorithm={self.algorithm()}, "
            f"compression_type={self.compression_type().name}, "
            f"uncompressed_message_size={self.uncompressed_message_size()}, "
            f"is_decryption_failed={self.is_decryption_failed()}, keys={self.keys()})"
        )

    def __repr__(self) -> str:
        return str(self)
