"""A refusal of admin REST."""

from magnetar.errors import MagnetarError

__all__ = ["AdminError"]


class AdminError(MagnetarError):
    """Admin REST refuses a request, and says why."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(status, reason)
        self.status = status
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.reason} (HTTP {self.status})"
