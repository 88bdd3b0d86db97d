"""What the journal knows of the catalog: how many changes there were, and what came of them.

The catalog is a file of its own, and a database forgives much: it rolls back to what it can
read, and begins anew where there is no file. So each change is counted, and all entries together
have a digest. Both stand in the catalog itself and, a moment later, in the journal.

| the catalog is             | generation | digest     | then                                  |
|----------------------------|------------|------------|---------------------------------------|
| what the journal says      | equal      | equal      | it is taken                           |
| a little ahead of it       | higher     | its own    | it is taken: the record was on its way|
| older, or missing          | lower      |            | refused                               |
| another one                | equal      | another    | refused                               |
| damaged                    |            | not its own| refused                               |
| unknown to the journal     | any        | its own    | it is taken: an older version wrote it|

The digest is a sum over the entries, each hashed with its place. So a change costs two hashes,
whatever else there is, and the order in which entries came does not matter.
"""

import hashlib
from typing import Final, final

__all__ = ["CatalogMark", "item_digest"]

DIGEST_BYTES: Final = 16
DIGEST_MASK: Final = (1 << (8 * DIGEST_BYTES)) - 1


@final
class CatalogMark:
    """The state of a catalog in two numbers.

    >>> mark = CatalogMark().changed(removed=0, added=item_digest("tenants", "public", "{}"))
    >>> mark.generation
    1
    >>> mark.follows(CatalogMark()), CatalogMark().follows(mark)
    ('', 'it is at generation 0, and the journal knows generation 1')
    """

    def __init__(self, generation: int = 0, digest: int = 0) -> None:
        self.generation: Final = generation
        self.digest: Final = digest

    def changed(self, *, removed: int, added: int) -> "CatalogMark":
        """Returns the next mark, after an entry went, came or was replaced."""
        digest = (self.digest - removed + added) & DIGEST_MASK
        return CatalogMark(self.generation + 1, digest)

    def follows(self, known: "CatalogMark") -> str:
        """Returns why a catalog with this mark cannot be what the journal knows; empty if it
        can."""
        if self.generation < known.generation:
            return (
                f"it is at generation {self.generation}, and the journal knows generation "
                f"{known.generation}"
            )
        if self.generation == known.generation and self.digest != known.digest:
            return f"its entries are not those of generation {known.generation} in the journal"
        return ""

    def encode(self) -> bytes:
        return self.digest.to_bytes(DIGEST_BYTES, "little")


def decode_mark(generation: int, body: bytes) -> CatalogMark:
    """Returns the mark that a record holds."""
    return CatalogMark(generation, int.from_bytes(body, "little"))


def item_digest(space: str, key: str, value: str) -> int:
    """Returns what one entry adds to the digest."""
    hashed = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for text in (space, key, value):
        data = text.encode(errors="surrogatepass")
        hashed.update(len(data).to_bytes(8, "little"))
        hashed.update(data)
    return int.from_bytes(hashed.digest(), "little")
