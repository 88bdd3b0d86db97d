"""The names of topics by namespace, in order, and lists of them that clients asked for.

A list is made once and shared until a topic comes or goes: it is sorted when somebody asks
for it, and whoever has it may keep it, for it is never changed. Sorting what was sorted
before, with a few names more, is one pass.

What clients found by a pattern is kept too, for many ask for the same: as long as the list
that it was found in is the present one, and within a limit.
"""

from typing import Final, TypeAlias, final

__all__ = ["FoundTopics", "NamespaceTopics", "Wanted"]

# What is kept of answers to clients, at most.
FOUND_BYTES_MAX: Final = 8 << 20

# Namespace, whether persistent topics and others are wanted, pattern, tag of the field.
Wanted: TypeAlias = tuple[str, bool, bool, str, int]


@final
class FoundTopics:
    """Topics of a list that match a pattern, and all that an answer needs of them."""

    def __init__(self, names: list[str], topics: list[str], hash: str, fields: bytes) -> None:
        # The list that they were found in.
        self.names: Final = names
        self.topics: Final = topics
        self.hash: Final = hash
        # They as a field of an answer, encoded.
        self.fields: Final = fields


@final
class NamespaceTopics:
    """See the module."""

    def __init__(self) -> None:
        self._persistent: Final[dict[str, _Names]] = {}
        self._others: Final[dict[str, _Names]] = {}
        self._both: Final[dict[str, list[str]]] = {}
        self._found: Final[dict[Wanted, FoundTopics]] = {}
        self._found_bytes: int = 0

    def add(self, namespace: str, topic: str, *, persistent: bool) -> None:
        kinds = self._persistent if persistent else self._others
        if namespace not in kinds:
            kinds[namespace] = _Names()
        kinds[namespace].add(topic)
        self._both.pop(namespace, None)

    def remove(self, namespace: str, topic: str, *, persistent: bool) -> None:
        kinds = self._persistent if persistent else self._others
        if namespace in kinds:
            kinds[namespace].remove(topic)
            self._both.pop(namespace, None)

    def count(self, namespace: str) -> int:
        """Returns how many persistent topics there are."""
        return len(self._persistent[namespace]) if namespace in self._persistent else 0

    def in_order(self, namespace: str, *, persistent: bool, others: bool) -> list[str]:
        """Returns the names in order. Nobody may change the list."""
        if persistent and others and namespace in self._others:
            found = self._both.get(namespace)
            if found is None:
                found = _in_order(self._persistent, namespace) + _in_order(self._others, namespace)
                found.sort()
                self._both[namespace] = found
            return found
        if persistent:
            return _in_order(self._persistent, namespace)
        return _in_order(self._others, namespace) if others else []

    # ---- What clients found --------------------------------------------------

    def find(self, wanted: Wanted) -> FoundTopics | None:
        """Returns what was found before, unless topics came or went since."""
        found = self._found.get(wanted)
        if found is None:
            return None
        namespace, persistent, others, _, _ = wanted
        if found.names is self.in_order(namespace, persistent=persistent, others=others):
            return found
        self._drop(wanted)
        return None

    def keep(self, wanted: Wanted, found: FoundTopics) -> None:
        """Keeps it for whoever asks next, and drops what was kept longest if need be."""
        if len(found.fields) * 2 > FOUND_BYTES_MAX:
            return
        self._drop(wanted)
        self._found[wanted] = found
        self._found_bytes += _size(found)
        while self._found_bytes > FOUND_BYTES_MAX:
            self._drop(next(iter(self._found)))

    def _drop(self, wanted: Wanted) -> None:
        found = self._found.pop(wanted, None)
        if found is not None:
            self._found_bytes -= _size(found)


@final
class _Names:
    """Names that come and go."""

    def __init__(self) -> None:
        self._all: Final[dict[str, None]] = {}
        self._sorted: list[str] = []
        self._came: list[str] = []
        self._went: bool = False

    def __len__(self) -> int:
        return len(self._all)

    def add(self, name: str) -> None:
        if name not in self._all:
            self._all[name] = None
            self._came.append(name)

    def remove(self, name: str) -> None:
        if name in self._all:
            del self._all[name]
            self._went = True

    def in_order(self) -> list[str]:
        if self._came or self._went:
            names = self._sorted + self._came
            if self._went:
                # One that went and came again is there twice.
                names = list(dict.fromkeys([name for name in names if name in self._all]))
            names.sort()
            self._sorted = names
            self._came = []
            self._went = False
        return self._sorted


def _in_order(kinds: dict[str, _Names], namespace: str) -> list[str]:
    return kinds[namespace].in_order() if namespace in kinds else []


def _size(found: FoundTopics) -> int:
    """Returns what it takes in memory, about: names are shared with the list."""
    return len(found.fields) + 8 * len(found.topics) + 500
