"""An answer that takes long to make, so it is made in steps over several turns."""

from mypy_extensions import i64

__all__ = ["LongAnswer"]


class LongAnswer:
    """Base of long answers. The session makes steps until it is done, and handles nothing else."""

    def __init__(self) -> None:
        self.done: bool = False

    def step(self) -> i64:
        """Does some of the work, and returns its cost in units (`turns.py`).

        The last step sends the answer and sets `done`.
        """
        raise NotImplementedError

    def cancel(self) -> None:
        """The connection is gone: nobody waits for the answer any more."""
