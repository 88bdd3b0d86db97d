"""A tracker of acks with its clock and its wire."""

from collections.abc import Callable

from magnetar.client.ack.answers import GivenUp
from magnetar.client.ack.entry_acks import Cumulative
from magnetar.client.ack.retry import AckRetries, RetryPolicy
from magnetar.client.ack.settings import AckSettings
from magnetar.client.ack.tracker import AckTracker
from magnetar.client.option.backoff import MultiplierRedeliveryBackoff
from magnetar.protocol import Command, CommandAck, CommandAckResponse
from magnetar.wire.ack_set import all_unacked


class Bench:
    """A tracker that is connected; with `retries`, one that sends again what failed."""

    def __init__(
        self,
        *,
        group_time_ms: int = 100,
        group_size_max: int = 1000,
        receipts: bool = False,
        idle_max: int = 10_000,
        pending_max: int = 100_000,
        retries: AckRetries | None = None,
    ) -> None:
        self.now = 5_000
        self.written: list[CommandAck] = []
        self.results: list[Exception | None] = []
        settings = AckSettings(
            group_time_ms=group_time_ms,
            group_size_max=group_size_max,
            receipts=receipts,
            idle_max=idle_max,
            pending_max=pending_max,
        )
        self.acks = AckTracker(
            3, settings, now_ms=lambda: self.now, write=self.write, retries=retries
        )
        self.acks.connected()

    def write(self, commands: list[Command]) -> None:
        for command in commands:
            assert isinstance(command, CommandAck)
            self.written.append(command)

    def ack(self, entry_id: int, index: int = -1, size: int = 0, waits: bool = False) -> None:
        unacked = all_unacked(size) if size else 1
        self.acks.acknowledge(self.acks.records.find(7, entry_id, size, unacked), index)
        self.acks.joined(self.results.append if waits else None)

    def ack_through(
        self, entry_id: int, index: int = -1, size: int = 0, waits: bool = False
    ) -> None:
        self.acks.acknowledge_cumulative(Cumulative(7, entry_id, index, size))
        self.acks.joined(self.results.append if waits else None, cumulative=True)

    def sent(self) -> list[tuple[int, list[tuple[int, int | None]]]]:
        """Type, and entries with their bits, of each ACK since the last call."""
        written, self.written = self.written, []
        return [(c.ack_type, [(i.entry_id, i.ack_set) for i in c.message_ids]) for c in written]

    def answer(self, request_id: int, error: int | None = None, text: str = "no") -> None:
        response = CommandAckResponse(3, request_id, error, None if error is None else text)
        self.acks.answered(response)


class RetryBench(Bench):
    """A tracker that retries: with receipts, and waits that double from 100 ms to 1.6 s."""

    def __init__(
        self,
        *,
        max_retries: int = 16,
        receipts: bool = True,
        idle_max: int = 10_000,
        pending_max: int = 100_000,
        random: Callable[[], float] | None = None,
    ) -> None:
        policy = RetryPolicy(max_retries, MultiplierRedeliveryBackoff(100, 1600, 2.0), random)
        self.retries = AckRetries(policy)
        super().__init__(
            receipts=receipts, idle_max=idle_max, pending_max=pending_max, retries=self.retries
        )

    def write(self, commands: list[Command]) -> None:
        super().write(commands)
        assert all(command.request_id is not None for command in self.written)

    def answer_all(self, error: int | None = None) -> None:
        for request_id in list(self.acks._outbox.flights._flights):
            self.answer(request_id, error)

    def pass_time(self, ms: int) -> None:
        end = self.now + ms
        while (due := self.acks.next_ms()) is not None and due <= end:
            self.now = max(self.now, due)
            self.acks.tick(self.now)
        self.now = end

    def reconnect(self) -> None:
        self.acks.disconnected()
        self.acks.connected()

    def given_up(self) -> list[GivenUp]:
        return self.acks.take_given_up()

    def at_rest(self) -> bool:
        return self.acks.unconfirmed == 0 and len(self.retries) == 0


def tracker() -> AckTracker:
    """One that is not connected, and whose time stands still."""
    settings = AckSettings(group_time_ms=100, group_size_max=1000, receipts=False)
    return AckTracker(3, settings, now_ms=lambda: 0, write=lambda commands: None)
