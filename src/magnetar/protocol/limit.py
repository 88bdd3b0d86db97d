"""The protocol's numbers: its version, and a limit on whatever a peer can make large."""

from typing import Final

from magnetar.wire.ack_set import WORD_BITS, WORDS_MAX

PROTOCOL_VERSION: Final = 21

# What a broker allows unless it is told otherwise, and says in CONNECTED. Apache Pulsar
# has the same; Kafka's default is 1 MiB, NATS's too.
MESSAGE_SIZE_MAX: Final = 5 * 1024 * 1024
# A frame may exceed the message by its command and metadata, as in Apache Pulsar.
FRAME_OVERHEAD_MAX: Final = 10 * 1024

# A message in a batch takes at least six bytes (its size field, and metadata that names
# the payload's size), so MESSAGE_SIZE_MAX has room for 873,813. A count beyond this
# would have us build bitsets of whatever size the peer likes.
BATCH_MESSAGES_MAX: Final = WORDS_MAX * WORD_BITS

# The deepest message of the protocol is a chunk id in a command, two levels down.
MESSAGE_NESTING_MAX: Final = 4
