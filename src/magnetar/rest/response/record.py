"""The base of all answers: fields that do not change, under Python's names and Pulsar's.

A field is called in Python as Pulsar's JSON calls it, in snake case: `msg_backlog` is
`msgBacklog`. Every field has a default, for servers differ in what they tell.
"""

import msgspec

__all__ = ["Record"]


class Record(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An answer, or a part of one. `to_json` is what the server's JSON looks like."""

    def to_json(self) -> object:
        """Returns the fields under Pulsar's names, as JSON has them."""
        return msgspec.to_builtins(self)
