"""How the descriptors that a process may have are shared out: files, connections, the rest.

A connection costs a descriptor, and strangers make connections; the store must have its files
all the same. So each has a share that nobody else may take, however small the limit:

| share              | of a limit of 256 | 1,024 | 20,000 | what it is for                        |
|--------------------|-------------------|-------|--------|---------------------------------------|
| `files`            | 32                | 128   | 128    | segments kept open for reading        |
| `maps`             | 32                | 128   | 2,500  | index files of sealed ledgers at hand |
| what is always open| 48                | 48    | 48     | the log, the catalog, pipes, threads  |
| for arrivals       | 64                | 256   | 4,096  | connections that are being turned away|
| `http_connections` | 16                | 92    | 1,000  | REST and metrics                      |
| `connections`      | 64                | 372   | 12,228 | clients                               |
"""

from typing import Final, final

__all__ = ["DescriptorShares"]

# Standard streams, the loop's own, the lock, the catalog with its log, files at hand for a moment.
ALWAYS_OPEN: Final = 48
# Beyond this many segments at hand the next one is opened when it is read.
FILES_MAX: Final = 128
# All that arrive at once are accepted before the first can be turned away: on each of the ports
# for clients and for HTTP, plain and TLS. With fewer that may wait a burst is held up for
# seconds, so a small process takes the chance of having none left for a moment.
PORTS: Final = 4
BACKLOG_MIN: Final = 128
BACKLOG_MAX: Final = 1024
HTTP_MAX: Final = 1000


@final
class DescriptorShares:
    """See the module.

    >>> shares = DescriptorShares(1024)
    >>> shares.files, shares.backlog, shares.http_connections, shares.connections
    (128, 128, 92, 372)
    """

    def __init__(self, limit: int) -> None:
        self.files: Final[int] = max(8, min(FILES_MAX, limit // 8))
        self.backlog: Final[int] = max(BACKLOG_MIN, min(BACKLOG_MAX, limit // 16))
        arrivals = PORTS * min(BACKLOG_MAX, limit // 16)
        self.maps: Final[int] = max(8, limit // 8)
        left = max(2, limit - ALWAYS_OPEN - self.files - self.maps - arrivals)
        self.http_connections: Final[int] = min(HTTP_MAX, max(1, left // 5))
        self.connections: Final[int] = max(1, left - self.http_connections)
