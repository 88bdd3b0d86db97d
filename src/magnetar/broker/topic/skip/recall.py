"""Taking skipped messages back from the consumers that hold them, before the skip is answered (I5).

Who holds a skipped entry is asked for it in the way that its client understands:

| its client     | is told        | and has given it back when                                 |
|----------------|----------------|------------------------------------------------------------|
| knows WITHDRAW | WITHDRAW       | it answers WITHDRAWN, which names what nobody was handed   |
| does not       | CLOSE_CONSUMER | it has subscribed again and sends FLOW: its queue is empty |

SUBSCRIBE alone does not tell, for the C++ client hands out what it has queued until that is
answered. A consumer that is closed for this keeps what else it holds until its client
subscribes, and its acks count until then. After that all of it goes where it goes when a consumer
leaves: to the next delivery, in order, and not counted as a redelivery. Clients that do not know
WITHDRAW have one more queue where they read partitions, which this does not empty: they are not
closed there, since it would bring them everything twice and take back nothing.

| a withdrawal is | left by                          | becomes                                   |
|-----------------|----------------------------------|-------------------------------------------|
| open            | the client's answer              | answered                                  |
|                 | FLOW, or the client's close      | emptied: its queue is gone, whole          |
|                 | the end of the connection, or    | lost: nobody knows what it still hands out |
|                 | at once where nothing can be done, or had ended before                        |
|                 | the end of the wait              | open, and named as unconfirmed            |

A skip waits for its own withdrawals, for those of others that concern its messages (of two
operators who skip the same one both are told the truth), and for *strays*: consumers that the
broker closed for another reason, an unload perhaps, and whose clients have not come back. They
may hand out what they have, and nobody knows any more what that is.
"""

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, final

from magnetar.ack import AckDelta
from magnetar.ack.record import record_size, remaining_indexes
from magnetar.broker.host import Host, Timer
from magnetar.broker.peer import unsigned
from magnetar.broker.promise import Promise
from magnetar.broker.topic.consumer import Consumer
from magnetar.broker.topic.dispatch.absent import Absent, Absentees
from magnetar.model.message_id_data import MessageIdData
from magnetar.model.position_key import NARROW_ENTRY_MASK
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.wire.ack_set import all_unacked, bits_to_words, words_to_bits
from magnetar.wire.integer import signed
from magnetar.wire.runs import run_numbers, runs_of

if TYPE_CHECKING:
    from magnetar.broker.topic.subscription import Subscription

__all__ = ["ANSWERED", "EMPTIED", "LOST", "OPEN", "Recall", "Strays", "Withdrawal"]

OPEN: Final = 0
ANSWERED: Final = 1
EMPTIED: Final = 2
LOST: Final = 3

# A consumer is asked for so many entries at a time: a few milliseconds of work. Its client looks
# through its whole queue for each question, so there should not be many of them.
ENTRIES_MAX: Final = 5000
# So many are gathered first and put in order, for ids come in any: then most are told as runs.
GATHERED_MAX: Final = 20_000
# And for so many batches of which a part is taken back, each of which has an id of its own.
PARTS_MAX: Final = 2000
# Who leaves so many questions without an answer will answer none.
UNANSWERED_MAX: Final = 1000
# So many that lost their connection are remembered, of all subscriptions.
LOST_MAX: Final = 10_000


@final
class Withdrawal:
    """Messages that one consumer is asked to give back: of each entry, by key, their bits."""

    def __init__(
        self, subscription: "Subscription", consumer: Consumer, asked: dict[int, int]
    ) -> None:
        self.subscription: Final = subscription
        self.consumer: Final = consumer
        self.asked: Final = asked
        # Batches of which a part is asked for.
        self.parts: Final[set[int]] = set()
        self.given_back: Final[dict[int, int]] = {}
        # The whole entries, as the client was told of them.
        self._told: list[int] = []
        self.state: int = OPEN
        # Kept when it is open no more.
        self.ended: Final[Promise[None]] = Promise()

    def ask(self, key: int, bits: int, *, part: bool) -> None:
        """Asks for these bits of an entry too, which are all of it unless it is a part."""
        if part:
            if key in self.asked and key not in self.parts:
                return
            bits |= self.asked.get(key, 0)
            self.parts.add(key)
        elif self.parts:
            self.parts.discard(key)
        self.asked[key] = bits

    def begin(self) -> None:
        """Asks for them."""
        consumer = self.consumer
        self.subscription.withdrawals.append(self)
        if consumer.is_over:
            self.over(consumer.emptied)
            return
        request_id = consumer.new_withdrawal(self)
        if consumer.peer.knows_magnetar:
            consumer.peer.send(self._command(request_id))
            if len(consumer.withdrawals) > UNANSWERED_MAX:
                consumer.peer.fail(f"{UNANSWERED_MAX} times WITHDRAW, and no answer")
        elif self.subscription.topic.partition < 0:
            self.subscription.close_for_recall(consumer)
        else:
            del consumer.withdrawals[request_id]
            self.over(False)

    def _command(self, request_id: int) -> pb.CommandWithdraw:
        command = pb.CommandWithdraw(
            consumer_id=unsigned(self.consumer.id), request_id=unsigned(request_id)
        )
        ledgers = self.subscription.topic.ledgers
        for key in self.parts:
            position = ledgers.position(key)
            kept = all_unacked(self.subscription.batch_size(position)) & ~self.asked[key]
            id = command.message_ids.add(ledgerId=position.ledger_id, entryId=position.entry_id)
            id.ack_set.extend(bits_to_words(kept))
        numbers: list[int] = []
        for first, count in runs_of(sorted(self._whole())):
            numbers.append(ledgers.ledger_of(first))
            numbers.append(first & NARROW_ENTRY_MASK)
            numbers.append(count)
        command.entry_runs.extend(numbers)
        self._told = numbers
        return command

    def _whole(self) -> list[int]:
        """The entries of which all is asked for."""
        if not self.parts:
            return list(self.asked)
        return [key for key in self.asked if key not in self.parts]

    def may_be_answered_by(self, command: pb.CommandWithdrawn) -> bool:
        """Whether it names no more than was asked for: a frame has room for a hundred thousand."""
        most = len(self.asked)
        return len(command.given_back) <= most and len(command.entry_runs) <= 3 * most

    def take_answer(self, command: pb.CommandWithdrawn) -> None:
        """The client tells what it has dropped of what it was asked for."""
        ledgers = self.subscription.topic.ledgers
        for id in command.given_back:
            key = ledgers.key(signed(id.ledgerId), signed(id.entryId))
            self._give_back(key, words_to_bits(list(id.ack_set)))
        told = list(command.entry_runs)
        if told == self._told:  # as most do
            for key in self._whole():
                self.given_back[key] = self.asked[key]
        else:
            runs: list[tuple[int, int]] = []
            for i in range(0, len(told) - 2, 3):
                key = ledgers.key(signed(told[i]), signed(told[i + 1]))
                runs.append((key, signed(told[i + 2])))
            for key in run_numbers(runs, len(self.asked)):
                self._give_back(key, 0)
        self._end(ANSWERED)

    def _give_back(self, key: int, kept: int) -> None:
        """The client has dropped all of an entry but `kept`, as far as it was asked to."""
        asked = self.asked.get(key)
        if asked is not None:
            self.given_back[key] = self.given_back.get(key, 0) | (asked & ~kept)

    def over(self, emptied: bool) -> None:
        """The consumer is over, before it answered."""
        if self.state == OPEN and emptied:
            self.given_back.update(self.asked)
        self._end(EMPTIED if emptied else LOST)

    def _end(self, state: int) -> None:
        if self.state != OPEN:
            return
        self.state = state
        self._told = []
        self.subscription.withdrawals.remove(self)
        count = 0
        for bits in self.given_back.values():
            count += bits.bit_count()
        self.subscription.taken_back += count
        self.ended.keep(None)


@final
class Strays:
    """Consumers that the broker closed, until their clients have emptied their queues.

    A client that loses its connection before goes on with its queue, unless it is ours: it is
    named until it is back (`absent.py`). So is one of which nobody remembers what it had.
    """

    def __init__(self, host: Host) -> None:
        self._host: Final = host
        # By topic and subscription, and by the key of the consumer.
        self._consumers: Final[dict[tuple[str, str], dict[int, Consumer]]] = {}
        self._lost: Final[dict[tuple[str, str], Absentees]] = {}
        self._lost_count: int = 0

    def add(self, topic: str, subscription: str, consumer: Consumer) -> None:
        where = (topic, subscription)
        self._consumers.setdefault(where, {})[consumer.key] = consumer
        consumer.ended.when_done(lambda error: self._is_over(where, consumer))

    def _is_over(self, where: tuple[str, str], consumer: Consumer) -> None:
        found = self._consumers.get(where, {})
        if found.pop(consumer.key, None) is None:
            return
        if not found:
            del self._consumers[where]
        kept = not consumer.emptied and not consumer.peer.knows_magnetar
        if kept and consumer.out.messages > 0:
            self._lose(where, Absent(consumer, self._host.now_ms()))

    def lose(self, topic: str, subscription: str, absent: Absent) -> None:
        """A consumer's connection ended, and nobody remembers what its client has."""
        self._lose((topic, subscription), absent)

    def _lose(self, where: tuple[str, str], absent: Absent) -> None:
        if self._lost_count >= LOST_MAX:
            self._forget_some()
        self._lost.setdefault(where, Absentees()).add(absent)
        self._lost_count += 1

    def _forget_some(self) -> None:
        """Those that are gone by now; if there are none, those of the first subscription."""
        for where in list(self._lost):
            self._expire(where)
        if self._lost_count >= LOST_MAX:
            first = next(iter(self._lost))
            self._lost_count -= len(self._lost.pop(first))

    def _expire(self, where: tuple[str, str]) -> None:
        absentees = self._lost[where]
        before = len(absentees)
        absentees.expire(self._host.now_ms())
        self._tidy(where, before)

    def _tidy(self, where: tuple[str, str], before: int) -> None:
        absentees = self._lost[where]
        self._lost_count -= before - len(absentees)
        if len(absentees) == 0:
            del self._lost[where]

    def came_back(self, topic: str, subscription: str, consumer: Consumer) -> None:
        """A client asks for messages on a new connection: what it had is gone."""
        where = (topic, subscription)
        absentees = self._lost.get(where)
        if absentees is not None:
            before = len(absentees)
            absentees.came_back(consumer)
            self._tidy(where, before)

    @property
    def any_lost(self) -> bool:
        return self._lost_count > 0

    def of(self, topic: str, subscription: str) -> list[Consumer]:
        where = (topic, subscription)
        found = list(self._consumers.get(where, {}).values())
        if where in self._lost:
            self._expire(where)
        absentees = self._lost.get(where)
        if absentees is not None:
            found += [absent.ghost for absent in absentees.all()]
        return found


@final
class Recall:
    """All that one skip waits for: see the module."""

    def __init__(self, host: Host) -> None:
        self._host: Final = host
        self.withdrawals: Final[list[Withdrawal]] = []
        # By topic, those that were closed and were not back when the wait began.
        self.strays: Final[dict[int, list[Consumer]]] = {}
        self._promise: Final[Promise[None]] = Promise()
        self._timer: Timer | None = None
        # What is to be asked for, by consumer; and what of that is in order.
        self._gathering: Final[dict[int, Withdrawal]] = {}
        self._ready: Final[deque[Withdrawal]] = deque()

    def take_back(
        self, subscription: "Subscription", delta: AckDelta, *, single: bool = False
    ) -> None:
        """Looks who holds something of what was skipped, and is known to until it is let go of.

        `single` says that none of its entries is a batch.
        """
        dispatcher = subscription.dispatcher
        if dispatcher is None:
            return
        ledgers = subscription.topic.ledgers
        for ledger_id, entries, records in delta.ledgers:
            for entry_id in entries:
                key = ledgers.key(ledger_id, entry_id)
                if (owner := dispatcher.holder(key)) is not None:
                    bits = 1 if single else all_unacked(subscription.size_at(ledger_id, entry_id))
                    self._gather(subscription, owner, key, bits, part=False)
            for entry_id, record in records:
                key = ledgers.key(ledger_id, entry_id)
                if (owner := dispatcher.holder(key)) is not None:
                    bits = all_unacked(record_size(record)) & ~remaining_indexes(record)
                    self._gather(subscription, owner, key, bits, part=True)

    def take_overtaken(self, subscription: "Subscription", ids: list[MessageIdData]) -> None:
        """Asks for what consumers have that it is not counted for: see `overtaken.py`."""
        dispatcher = subscription.dispatcher
        if dispatcher is None or not dispatcher.has_overtaken:
            return
        found: dict[int, list[Consumer]] = {}
        whole: set[int] = set()
        for id in ids:
            key = subscription.topic.ledgers.key(id.ledger_id, id.entry_id)
            holders = found.setdefault(key, [])
            while (holder := dispatcher.take_overtaken(key)) is not None:
                holders.append(holder)
            index = int(id.batch_index)
            if index < 0:
                whole.add(key)
                bits = all_unacked(subscription.size_at(id.ledger_id, id.entry_id))
            else:
                bits = 1 << index
            for holder in holders:
                self._gather(subscription, holder, key, bits, part=index >= 0)
        # Who is asked for a message of a batch has the others still, which the next may skip.
        for key, holders in found.items():
            for holder in holders:
                if key not in whole:
                    dispatcher.has_still(key, holder)
        while self.ask_next():
            pass

    def _gather(
        self, subscription: "Subscription", consumer: Consumer, key: int, bits: int, *, part: bool
    ) -> None:
        withdrawal = self._gathering.get(consumer.key)
        if withdrawal is None:
            withdrawal = Withdrawal(subscription, consumer, {})
            self._gathering[consumer.key] = withdrawal
        withdrawal.ask(key, bits, part=part)
        if len(withdrawal.asked) >= GATHERED_MAX or len(withdrawal.parts) >= PARTS_MAX:
            del self._gathering[consumer.key]
            self._cut(withdrawal)

    def ask_next(self) -> bool:
        """Asks the next one who holds something; returns whether there are more."""
        if not self._ready:
            for number in self._gathering:
                self._cut(self._gathering.pop(number))
                break
        if self._ready:
            withdrawal = self._ready.popleft()
            self.withdrawals.append(withdrawal)
            withdrawal.begin()
        return len(self._ready) > 0 or len(self._gathering) > 0

    def _cut(self, gathered: Withdrawal) -> None:
        """Makes questions of what was gathered, in order."""
        if len(gathered.asked) <= ENTRIES_MAX:
            self._ready.append(gathered)
            return
        asked, parts = gathered.asked, gathered.parts
        keys = sorted(asked)
        for first in range(0, len(keys), ENTRIES_MAX):
            some = {key: asked[key] for key in keys[first : first + ENTRIES_MAX]}
            question = Withdrawal(gathered.subscription, gathered.consumer, some)
            if parts:
                question.parts.update([key for key in some if key in parts])
            self._ready.append(question)

    def join(self, subscription: "Subscription", keys: Iterable[int]) -> None:
        """Waits also for what others took back of these entries, and for strays."""
        mine = set(self.withdrawals)
        others = [one for one in subscription.withdrawals if one not in mine]
        if others:
            named = set(keys)
            self.withdrawals.extend(one for one in others if not named.isdisjoint(one.asked))
        topic = subscription.topic
        strays = topic.broker.strays.of(str(topic.name), subscription.name)
        if strays:
            self.strays[topic.id] = strays

    def confirmed(self, wait_ms: int) -> Promise[None]:
        """Kept when all is given back, or after so long."""
        self._timer = self._host.call_later(wait_ms, self._give_up)
        for withdrawal in self.withdrawals:
            withdrawal.ended.when_done(lambda error: self._look())
        for consumers in self.strays.values():
            for consumer in consumers:
                consumer.ended.when_done(lambda error: self._look())
        self._look()
        return self._promise

    def _look(self) -> None:
        if any(one.state == OPEN for one in self.withdrawals):
            return
        if any(not one.is_over for some in self.strays.values() for one in some):
            return
        self._end()

    def _give_up(self) -> None:
        """Who was closed and does not come back leaves what he holds to others."""
        self._timer = None
        for withdrawal in self.withdrawals:
            if withdrawal.state == OPEN and withdrawal.consumer.recalled:
                withdrawal.subscription.leave(withdrawal.consumer)
        self._end()

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._promise.keep(None)
