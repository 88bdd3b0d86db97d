"""The protocol's numbers: its version, and a limit on whatever a peer can make large."""

from typing import Final

PROTOCOL_VERSION: Final = 21

# What a broker allows unless it is told otherwise, and says in CONNECTED. Apache Pulsar
# has the same; Kafka's default is 1 MiB, NATS's too.
MESSAGE_SIZE_MAX: Final = 5 * 1024 * 1024
# A frame may exceed the message by its command and metadata, as in Apache Pulsar.
FRAME_OVERHEAD_MAX: Final = 10 * 1024

# The deepest message of the protocol is a chunk id in a command, two levels down.
MESSAGE_NESTING_MAX: Final = 4
