"""The types of values: what a schema makes of bytes, as a type checker knows it.

| variable   | stands in                          | where it is left out                     |
|------------|------------------------------------|------------------------------------------|
| `T`        | schemas                            | any value                                |
| `Sent`     | producers: what they take          | any value                                |
| `Received` | messages and who receives them     | any value                                |
| `Default`  | methods that may be given a schema | bytes, which is what there is without it |

Any and not object: of a `list[Message]` that is asked for, one of `Message[Order]` is taken, and
a function that takes a `Consumer` does not change what `subscribe` is inferred to return.

Defaults of type variables (PEP 696) came with Python 3.13; checkers know them for older ones
too, so they are told, and the interpreter is not.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=Any)
    Sent = TypeVar("Sent", contravariant=True, default=Any)
    Received = TypeVar("Received", covariant=True, default=Any)
    Default = TypeVar("Default", default=bytes)
else:
    from typing import TypeVar

    T = TypeVar("T")
    Sent = TypeVar("Sent", contravariant=True)
    Received = TypeVar("Received", covariant=True)
    Default = TypeVar("Default")

__all__ = ["Default", "Received", "Sent", "T"]
