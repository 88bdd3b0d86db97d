"""Planted bugs at the edges of acks: what is refused, taken back, or overtaken by a reset."""

from collections.abc import Callable
from typing import Any

from sim.plants import BROKER, CLIENT, Plant, nothing, returns

from magnetar.client.ack.entry_state import FOLLOWED, IN_FLIGHT


def _all_waits_end(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self: self.end_waits()


def _keeps_bits(original: Callable[..., Any]) -> Callable[..., Any]:
    def refused(self: Any, flight: Any, error: Exception) -> None:
        left = [acks.unacked() for acks in flight.acks]
        original(self, flight, error)
        for acks, unacked in zip(flight.acks, left, strict=True):
            acks.keep(unacked)

    return refused


def _forgets_more(original: Callable[..., Any]) -> Callable[..., Any]:
    def confirm(self: Any, acks: Any, left: int) -> None:
        if acks.state == FOLLOWED:
            acks.state = IN_FLIGHT
        original(self, acks, left)

    return confirm


def _tells_all(original: Callable[..., Any]) -> Callable[..., Any]:
    def answer_entry(self: Any, acks: Any, error: Exception | None) -> None:
        stakes, acks.stakes = acks.stakes or [], None
        for stake in stakes:
            self.tell(stake.waiter, error)

    return answer_entry


def _in_silence(original: Callable[..., Any]) -> Callable[..., Any]:
    def give_up_all(self: Any, error: Exception) -> None:
        self._callers._waiters.clear()
        self.clear(error)

    return give_up_all


def _closes_nobody(original: Callable[..., Any]) -> Callable[..., Any]:
    def close_consumers(self: Any) -> Any:
        if self.closed or self.dispatcher is None:
            return original(self)
        self.dispatcher.rewind()
        return []

    return close_consumers


def _time_goes_on(original: Callable[..., Any]) -> Callable[..., Any]:
    def follow(self: Any, earlier: Any, now_ms: int) -> None:
        original(self, earlier, now_ms)
        self.had_ms = now_ms - earlier.arrived_ms

    return follow


def _one_by_one(original: Callable[..., Any]) -> Callable[..., Any]:
    def ack_chunks(self: Any, keys: list[int], *, all_known: bool = True) -> None:
        original(self, keys, all_known=all_known)
        for key in keys:
            acks = self.records.get(key)
            if acks is not None:
                acks.chunks = None

    return ack_chunks


def _only_with_retries(original: Callable[..., Any]) -> Callable[..., Any]:
    def report_acks(self: Any) -> None:
        if self.options.auto_retry_acknowledgement or self._acks_kept is not None:
            original(self)

    return report_acks


ACK_PLANTS = [
    Plant(
        "who has no retries is not told of acks of what is gone, and spins",
        f"{CLIENT}.engine.partition_consumer:PartitionConsumer._report_acks",
        _only_with_retries,
        1,
        life="homes",
    ),
    Plant(
        "a copy of the end of a message that is here is asked for again",
        f"{CLIENT}.consumer.chunk.assembler:ChunkAssembler._completed",
        nothing,
        52000323,
        rare=True,
    ),
    Plant(
        "chunks of a message are acked one by one",
        f"{CLIENT}.ack.tracker:AckTracker.ack_chunks",
        _one_by_one,
        5002082,
        rare=True,
    ),
    Plant(
        "the time of a message in chunks goes on while another consumer has it",
        f"{CLIENT}.consumer.chunk.context:ChunkContext.follow",
        _time_goes_on,
        5006339,
        rare=True,
    ),
    Plant(
        "a reset leaves consumers, and acks from before it, where they are",
        f"{BROKER}.topic.subscription:Subscription.close_consumers",
        _closes_nobody,
        93,
    ),
    Plant(
        "the backoff of a refused ack is forgotten with the connection",
        f"{CLIENT}.ack.retry:AckRetries.lose_all",
        _all_waits_end,
        428,
        rare=True,
    ),
    Plant(
        "an ack that was taken back is sent",
        f"{CLIENT}.ack.tracker:AckTracker.take_back",
        nothing,
        9,
    ),
    Plant(
        "an ack that failed goes with the next of its batch",
        f"{CLIENT}.ack.answers:AckAnswers._refused",
        _keeps_bits,
        18,
    ),
    Plant(
        "what was acked while an ack was under way is not sent",
        f"{CLIENT}.ack.answers:AckAnswers._confirm",
        _forgets_more,
        5,
    ),
    Plant(
        "an ack that repeats a kept one is told that it is kept, whatever became of it",
        f"{CLIENT}.ack.entry_acks:EntryAcks._repeat",
        nothing,
        8100061,
        rare=True,
    ),
    Plant(
        "who waits is told of the ACK, and not of his message",
        f"{CLIENT}.ack.callers:Callers.answer_entry",
        _tells_all,
        13,
    ),
    Plant(
        "acks that are given up are not reported",
        f"{CLIENT}.ack.answers:AckAnswers.take_given_up",
        returns([]),
        124,
    ),
    Plant(
        "acks are sent into another life of the subscription",
        f"{CLIENT}.consumer.core:ConsumerCore._join",
        nothing,
        52,
    ),
    Plant(
        "acks that a reset makes pointless are dropped in silence",
        f"{CLIENT}.ack.tracker:AckTracker.give_up_all",
        _in_silence,
        0,
    ),
]
