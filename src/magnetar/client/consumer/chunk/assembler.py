"""Messages that come in chunks, put together again (PIP-107).

Of each message (its `chunked_name`) that is not whole there is one context. Chunks of one copy of a
message come in order; what is further back in the topic is older. A producer that connects
again sends what was not confirmed once more, so that chunks, or all of a message, can be
there twice; one that dies leaves a message without its end.

| context   | has      | the chunk that follows      | a later chunk 0        | its time is up |
|-----------|----------|-----------------------------|------------------------|----------------|
| growing   | bytes    | is added; the last: *whole* | replaces it: *garbage* | *garbage*      |
| broken    | ids only | its id is noted             | replaces it: *garbage* | *garbage*      |
| evicted   | ids only | its id is noted             | its id is noted        | *again*        |
| discarded | nothing  | *garbage*                   | begins a new one       | forgotten      |

*Garbage* is acked: nothing can come of it. *Again* is redelivered. A context

- breaks when a chunk is missing, or if it begins with another than chunk 0. Where consumers
  share, the rest may have gone elsewhere and come later: its chunks are asked for again, a
  few times, until its time is up;
- is evicted, the oldest first, when there are too many or they have too many bytes; it is
  discarded instead if the consumer is to ack the oldest then.

| a chunk of a growing context                 | is                                            |
|----------------------------------------------|-----------------------------------------------|
| known by its id, chunk 0                     | redelivered, as is the rest: begins anew       |
| known by its id, another                     | passed over                                   |
| further on, of those that were added         | sent twice: *garbage*                         |
| further on, past the next                    | missing others: the context breaks            |
| further back, and not known                  | of an older copy: *late*, redelivered in time  |

The time of a growing context is up when its next chunk has not come for `expire_ms` although
it could have: the consumer got messages that were published so much later, or nothing new.
A message that merely waits behind others, or for a consumer that is busy, is not given up.
What comes again has the time that it had: when that has all been here again, it goes on from
where it was. In between it stands still. There may be no connection, or another consumer has had
the message, all of it, and holds it for as long as it likes. What comes back from where others
could have it, or on a new connection, has a share of its time left in any case, or it would be
given up while its next chunk is under way.

A copy of chunks of a message that became whole here is *garbage*, too: the message does not need
them, whatever comes of it. To ask for them again would bring back the message as well, which the
application has. A message that a restarted producer gave the same uuid is no copy: it was
published at another time, which is part of the name.

An ack by an id from elsewhere tells where a message begins and ends, not where its other chunks
are. Those that are here are acked with it, and the context is discarded. Where one consumer gets
everything, a chunk that comes between those two, and whose chunk 0 did not come, is *garbage*:
it is of that message, or of one that cannot become whole.

When everything is to come again (a lost connection, a call for redelivery) contexts are
cleared. What stood where is remembered until it comes, since whoever acks cumulatively
meanwhile must not ack it.

What does not fit together (numbers out of range, another size than before, more
bytes than announced or allowed) is *refused*, and changes nothing but its own message.

Invariant: `size` is what all growing contexts hold, `growing` how many there are.
"""

from io import BytesIO
from typing import Final, final

from mypy_extensions import i64

from magnetar.client.consumer.chunk.context import (
    BROKEN,
    DISCARDED,
    EVICTED,
    GROWING,
    TRIES,
    ChunkContext,
)
from magnetar.client.consumer.withdrawal import Withdrawal
from magnetar.protocol.metadata import MessageMetadata

__all__ = ["KEPT", "REFUSED", "WHOLE", "ChunkAssembler", "Whole"]

# What came of a chunk.
KEPT: Final = 0
WHOLE: Final = 1
REFUSED: Final = 2

# More chunks than any producer makes of a message of 2 GiB.
COUNT_MAX: Final = 1_000_000
# What an id costs here, beside the bytes of its chunk.
CHUNK_OVERHEAD: Final = 128
# Contexts without bytes; beyond it the oldest are forgotten, and come again some day.
SET_ASIDE_MAX: Final = 10_000
# Messages that were acked by ids from elsewhere, of which chunks may come; beyond it they expire.
ACKED_MAX: Final = 1000
# Messages that became whole, of which copies may come; beyond it those are *broken* at first.
COMPLETE_MAX: Final = 1000
# For evicted messages of those who never give up incomplete ones.
AGAIN_MS: Final = 60_000


@final
class Whole:
    """A message as it was before it was split, still compressed; the ids of its chunks.

    `before` is the entry that was received before its first chunk, -1 if there was none.
    """

    def __init__(self, payload: bytes, keys: list[int], before: int, count: i64) -> None:
        self.payload: Final = payload
        self.keys: Final = keys
        self.before: Final = before
        self.redelivery_count: Final[i64] = count


@final
class _Complete:
    """What is known of a message that became whole: where it ends, and how large it is."""

    def __init__(self, context: ChunkContext) -> None:
        self.last: Final = context.keys[-1]
        self.total: Final[i64] = context.total

    def has_copy(self, key: int, total: i64) -> bool:
        return key > self.last and total == self.total


@final
class ChunkAssembler:
    """See the module.

    `count_max` is how many messages may be incomplete, 0 any number; `size_max` what they,
    and each of them, may have. An `expire_ms` of 0 gives none up. After each call the caller
    takes `garbage` and `again`.
    """

    def __init__(
        self, *, count_max: i64, size_max: i64, expire_ms: int, ack_oldest: bool, single: bool
    ) -> None:
        self._count_max: Final[i64] = count_max
        self._size_max: Final[i64] = size_max
        self._expire_ms: Final = expire_ms
        self._ack_oldest: Final = ack_oldest
        # One consumer gets everything, in order: what is missing will not come.
        self._single: Final = single
        again_ms = expire_ms or AGAIN_MS
        self._again_ms: Final[int] = again_ms if single else max(again_ms // TRIES, 1)
        # The oldest first.
        self._contexts: Final[dict[str, ChunkContext]] = {}
        # Those that were cleared, or are asked for, and have not come again.
        self._expected: Final[dict[str, ChunkContext]] = {}
        self._complete: Final[dict[str, _Complete]] = {}
        # Acked by ids from elsewhere: the last chunk by the first.
        self._acked: Final[dict[int, int]] = {}
        # Chunks of older copies, and when they are to be redelivered.
        self._late: Final[dict[int, int]] = {}
        self.growing: i64 = 0
        self.size: i64 = 0
        # How far the consumer is, the latest that anything was published, and since when
        # nothing new came that could have.
        self._newest: int = -1
        self._published_ms: int = 0
        self._quiet_since_ms: int = 0
        # Since when there is no connection; -1 while there is one, and before the first.
        self._offline_since_ms: int = -1
        self._next_ms: int | None = None
        self._whole: Whole | None = None
        self._garbage: list[int] = []
        self._again: list[int] = []
        # Why the last chunk was refused.
        self.problem: str = ""

    def __len__(self) -> int:
        """Returns how many messages are known in part."""
        return len(self._contexts)

    @property
    def active(self) -> bool:
        return len(self._contexts) > 0 or len(self._expected) > 0

    def take_whole(self) -> Whole:
        whole = self._whole
        assert whole is not None
        self._whole = None
        return whole

    def take_garbage(self) -> list[int]:
        """Chunks to ack: nothing can come of them."""
        garbage = self._garbage
        if garbage:
            self._garbage = []
        return garbage

    def take_again(self) -> list[int]:
        """Chunks that the broker is to deliver again."""
        again = self._again
        if again:
            self._again = []
        return again

    # ---- Chunks --------------------------------------------------------------

    def saw(self, key: int, publish_ms: int, now_ms: int) -> None:
        """Notes that something came: where it stands, and how late it was published."""
        if key > self._newest:
            # What comes again does not show that there is more.
            self._newest = key
            self._quiet_since_ms = now_ms
        if publish_ms > self._published_ms:
            self._published_ms = publish_ms

    def add(
        self,
        key: int,
        before: int,
        metadata: MessageMetadata,
        entry: bytes,
        payload_first: i64,
        redelivery_count: i64,
        now_ms: int,
    ) -> i64:
        """Takes a chunk, `entry[payload_first:]`, and says what came of it."""
        uuid = metadata.uuid or ""
        name = metadata.chunked_name()
        count: i64 = metadata.num_chunks_from_msg or 0
        total: i64 = metadata.total_chunk_msg_size or 0
        chunk_id: i64 = -1 if metadata.chunk_id is None else metadata.chunk_id
        size: i64 = len(entry) - payload_first
        self.problem = self._judge(uuid, chunk_id, count, total, size)
        if self.problem:
            return REFUSED
        self.saw(key, metadata.publish_time, now_ms)
        expected = self._expected.pop(name, None)
        context = self._contexts.get(name)
        if chunk_id == 0:
            context = self._begin(context, name, count, total, key, before, now_ms)
            if context is None:
                return KEPT
            context.redelivery_count = redelivery_count
            # What is expected may be another copy, or the end of this one without its beginning.
            if expected is not None and key in expected.keys:
                context.follow(expected, now_ms)
        elif context is None:
            complete = self._complete.get(name)
            is_copy = complete is not None and complete.has_copy(key, total)
            if is_copy or (self._acked and self._was_acked(key)):
                self._garbage.append(key)
                return KEPT
            context = ChunkContext(name, count, total, before)
            if expected is not None and key <= expected.known:
                context.follow(expected, now_ms)
            self._set_aside(context, BROKEN, now_ms)
            context.note(key)
            return KEPT
        elif context.total != total:
            self.problem = (
                f"chunk {chunk_id} of {uuid} says {total} bytes in all, others {context.total}"
            )
            return REFUSED
        elif not self._follows(context, chunk_id, key, now_ms):
            return KEPT
        outcome = self._append(context, key, entry, payload_first, redelivery_count, now_ms)
        if outcome == WHOLE:
            self._completed(context)
        return outcome

    def _judge(self, uuid: str, chunk_id: i64, count: i64, total: i64, size: i64) -> str:
        """Returns what is wrong with the numbers of a chunk, if anything is."""
        if not uuid:
            return "a chunk that does not say of which message it is"
        if not 0 <= chunk_id < count:
            return f"chunk {chunk_id} of {uuid}, which has {count}"
        if count > COUNT_MAX:
            return f"{count} chunks of {uuid}, the limit is {COUNT_MAX}"
        if total < count or size < 1:
            return f"{count} chunks of {uuid} with {total} bytes in all, this one with {size}"
        if total > self._size_max:
            return (
                f"{total} bytes in {count} chunks of {uuid}, the limit is {self._size_max}: "
                "raise max_message_size_total to receive such messages"
            )
        return ""

    def _begin(
        self,
        context: ChunkContext | None,
        name: str,
        count: i64,
        total: i64,
        key: int,
        before: int,
        now_ms: int,
    ) -> ChunkContext | None:
        """Chunk 0 came: the context that it begins, or None if it is not its time."""
        if context is not None and context.keys:
            first = context.keys[0]
            last = context.keys[-1]
            if key > last and context.state == EVICTED:
                # All of the older copy may be there: which one is whole shows when both come again.
                context.note(key)
                return None
            if key > last:
                self._garbage.extend(context.keys)
            elif key != first and not self._single and context.state == GROWING:
                self._put_off(key, now_ms)
                return None
            elif not self._single and context.state != GROWING:
                # It is the beginning that was missing.
                self._again.extend([other for other in context.keys if other != key])
        if context is not None:
            self._forget(context)
        fresh = ChunkContext(name, count, total, before)
        fresh.data = BytesIO()
        self._contexts[name] = fresh
        self.growing += 1
        if 0 < self._count_max < self.growing:
            self._evict_oldest(fresh, now_ms)
        return fresh

    def _follows(self, context: ChunkContext, chunk_id: i64, key: int, now_ms: int) -> bool:
        """Returns whether a chunk is the one that comes next; if not, sees to it."""
        if context.state == DISCARDED:
            self._garbage.append(key)
            if chunk_id == context.count - 1:
                self._forget(context)
            return False
        if context.state != GROWING:
            context.note(key)
            return False
        following: i64 = len(context.keys)
        if key > context.keys[-1]:
            if chunk_id == following:
                return True
            if chunk_id < following:
                self._garbage.append(key)
            else:
                self._set_aside(context, BROKEN, now_ms)
                context.note(key)
        elif key not in context.keys:
            self._put_off(key, now_ms)
        return False

    def _append(
        self,
        context: ChunkContext,
        key: int,
        entry: bytes,
        payload_first: i64,
        redelivery_count: i64,
        now_ms: int,
    ) -> i64:
        size: i64 = len(entry) - payload_first
        last = len(context.keys) + 1 == context.count
        left: i64 = context.total - context.size - size
        if left < 0 or (last and left > 0):
            self.problem = (
                f"{context.size + size} bytes in {len(context.keys) + 1} of {context.count} chunks "
                f"of one message, which announced {context.total} in all"
            )
            # There is no way that it could become whole.
            self._garbage.extend(context.keys)
            self._forget(context)
            return REFUSED
        data = context.data
        assert data is not None
        data.write(memoryview(entry)[payload_first:])
        context.keys.append(key)
        context.size += size
        self.size += size + CHUNK_OVERHEAD
        context.arrive(key, self._published_ms, now_ms)
        context.redelivery_count = min(context.redelivery_count, redelivery_count)
        if last:
            self._whole = Whole(
                data.getvalue(), context.keys, context.before, context.redelivery_count
            )
            self._forget(context)
            return WHOLE
        while self.size > self._size_max and self.growing > 1:
            self._evict_oldest(context, now_ms)
        if self._expire_ms:
            self._wake_by(max(context.arrived_ms + self._expire_ms, now_ms))
        return KEPT

    def _completed(self, context: ChunkContext) -> None:
        self._complete.pop(context.name, None)
        self._complete[context.name] = _Complete(context)
        if len(self._complete) > COMPLETE_MAX:
            del self._complete[next(iter(self._complete))]

    # ---- Setting aside -------------------------------------------------------

    def _evict_oldest(self, but: ChunkContext, now_ms: int) -> None:
        others = [c for c in self._contexts.values() if c.state == GROWING and c is not but]
        context = others[0]
        if self._ack_oldest:
            self._garbage.extend(context.keys)
            self._set_aside(context, DISCARDED, now_ms)
            context.keys = []
        else:
            self._set_aside(context, EVICTED, now_ms)

    def _set_aside(self, context: ChunkContext, state: i64, now_ms: int) -> None:
        """Takes the bytes from a context, and puts it at the end of the line."""
        self._forget(context)
        context.state = state
        context.data = None
        self._contexts[context.name] = context
        if len(self._contexts) - self.growing > SET_ASIDE_MAX:
            aside = [c for c in self._contexts.values() if c.state != GROWING]
            self._forget(aside[0])
        if state == EVICTED:
            context.due_ms = -1
        if state == EVICTED or (state == BROKEN and not self._single):
            context.again_ms = now_ms + self._again_ms
        if self._expire_ms and state != EVICTED and context.due_ms < 0:
            context.due_ms = now_ms + self._expire_ms
        self._wake_by(context.again_ms)
        self._wake_by(context.due_ms)

    def _forget(self, context: ChunkContext) -> None:
        if self._contexts.get(context.name) is not context:
            return
        del self._contexts[context.name]
        if context.state == GROWING:
            self.growing -= 1
            self.size -= context.size + CHUNK_OVERHEAD * len(context.keys)

    def _put_off(self, key: int, now_ms: int) -> None:
        self._late[key] = now_ms + self._again_ms
        if len(self._late) > SET_ASIDE_MAX:
            del self._late[next(iter(self._late))]
        self._wake_by(now_ms + self._again_ms)

    def drop(self, metadata: MessageMetadata) -> None:
        """Drops the message of a chunk, which nobody wants: nothing is acked, and nothing kept."""
        context = self._contexts.get(metadata.chunked_name())
        if context is not None:
            self._forget(context)

    def forget_from(self, first: int) -> list[int]:
        """Forgets the message that begins there, which was acked; returns the chunks that were
        here."""
        for expected in list(self._expected.values()):
            if expected.keys[0] == first:
                del self._expected[expected.name]
        for context in self._contexts.values():
            if context.keys and context.keys[0] == first:
                self._forget(context)
                return context.keys
        return []

    def withdraw(self, withdrawal: Withdrawal) -> None:
        """Drops messages that the broker takes back: nothing more of them comes."""
        for context in list(self._contexts.values()):
            if withdrawal.takes_chunks(context.keys):
                self._forget(context)
        for expected in list(self._expected.values()):
            if any(key in withdrawal.kept for key in expected.keys):
                del self._expected[expected.name]
        for key in [key for key in self._late if key in withdrawal.kept]:
            del self._late[key]

    def acked_elsewhere(self, first: int, last: int) -> list[int]:
        """Discards the message between these two, which was acked; returns its other chunks that
        are here."""
        for contexts in (self._contexts, self._expected):
            for context in contexts.values():
                if context.keys and context.keys[0] == first:
                    keys = [key for key in context.keys if first < key < last]
                    self._expected.pop(context.name, None)
                    # What still comes of it is garbage.
                    self._set_aside(context, DISCARDED, context.arrived_ms)
                    context.again_ms = -1
                    context.keys = []
                    return keys
        if self._single:
            self._acked[first] = last
            if len(self._acked) > ACKED_MAX:
                del self._acked[next(iter(self._acked))]
        return []

    def _was_acked(self, key: int) -> bool:
        for first, last in self._acked.items():
            if first < key < last:
                return True
        return False

    def disconnected(self, now_ms: int) -> None:
        """Notes that nothing can come until there is a connection again."""
        self._offline_since_ms = now_ms

    def connected(self, now_ms: int) -> None:
        """Everything comes again, and has the time that it had when the connection broke."""
        self.went_elsewhere(now_ms)
        if self._offline_since_ms >= 0:
            self._quiet_since_ms += now_ms - self._offline_since_ms
            self._offline_since_ms = -1

    def went_elsewhere(self, now_ms: int) -> None:
        """Everything that is not acked comes again, when others that may have it are gone."""
        self.expect_all(now_ms)
        for context in self._expected.values():
            context.spare(self._expire_ms)

    def expect_all(self, now_ms: int) -> None:
        """Everything that is not acked comes again."""
        left_ms = now_ms if self._offline_since_ms < 0 else self._offline_since_ms
        for context in self._contexts.values():
            if context.state != DISCARDED and context.keys:
                self._expect(context, left_ms)
        self._clear_contexts()

    def _expect(self, context: ChunkContext, left_ms: int) -> None:
        context.data = None
        context.leave(self._published_ms, left_ms)
        if not self._single:
            context.spare(self._expire_ms)
        self._expected.pop(context.name, None)
        self._expected[context.name] = context
        if len(self._expected) > SET_ASIDE_MAX:
            del self._expected[next(iter(self._expected))]

    def clear(self) -> None:
        """Forgets everything: what comes now has nothing to do with what came before."""
        self._expected.clear()
        self._acked.clear()
        self._complete.clear()
        self._newest = -1
        self._clear_contexts()

    def _clear_contexts(self) -> None:
        self._contexts.clear()
        self._late.clear()
        self.growing = 0
        self.size = 0
        self._next_ms = None
        self._garbage = []
        self._again = []

    # ---- What lies before ----------------------------------------------------

    @property
    def expects(self) -> bool:
        """Whether something is to come again that was here."""
        return len(self._expected) > 0

    def passed(self, key: int) -> None:
        """Where one consumer is active: what begins before this entry comes no more."""
        for context in [one for one in self._expected.values() if one.keys[0] < key]:
            del self._expected[context.name]

    def firsts(self) -> list[int]:
        """Returns the first chunks that are known of all messages that are not whole."""
        return [
            context.keys[0]
            for contexts in (self._expected, self._contexts)
            for context in contexts.values()
            if context.keys
        ]

    def pending_keys(self, through: int) -> list[int]:
        """Returns the chunks, up to an entry, of messages that may still become whole."""
        keys: list[int] = []
        for some, _ in self._pending():
            keys.extend([key for key in some if key < through])
        return keys

    def before(self, through: int) -> int | None:
        """Returns the entry before the first of those, None if there is none of them."""
        found: int | None = None
        for keys, before in self._pending():
            if keys[0] < through and (found is None or before < found):
                found = before
        return found

    def _pending(self) -> list[tuple[list[int], int]]:
        pending: list[tuple[list[int], int]] = []
        for contexts in (self._expected, self._contexts):
            for context in contexts.values():
                if context.state in (GROWING, EVICTED) and context.keys:
                    pending.append((context.keys, context.before))
        return pending

    # ---- Time ----------------------------------------------------------------

    def next_ms(self) -> int | None:
        """Returns when `tick` is to be called."""
        return self._next_ms

    def _wake_by(self, at_ms: int) -> None:
        if at_ms >= 0 and (self._next_ms is None or at_ms < self._next_ms):
            self._next_ms = at_ms

    def tick(self, now_ms: int, reachable: bool) -> None:
        """Sees to what has fallen due; `reachable` says whether a message could come now."""
        if not reachable:
            self._quiet_since_ms = now_ms
        if self._next_ms is None or now_ms < self._next_ms:
            return
        self._next_ms = None
        for context in list(self._contexts.values()):
            if context.state == GROWING:
                self._tick_growing(context, now_ms)
            else:
                self._tick_aside(context, now_ms)
        for key, due_ms in list(self._late.items()):
            if due_ms > now_ms:
                self._wake_by(due_ms)
                continue
            del self._late[key]
            # Where there is one consumer, all that could come with it came before it.
            (self._garbage if self._single else self._again).append(key)

    def _tick_growing(self, context: ChunkContext, now_ms: int) -> None:
        if not self._expire_ms:
            return
        again = context.keys[-1] < context.known
        due_ms = (context.came_ms if again else context.arrived_ms) + self._expire_ms
        if due_ms <= now_ms:
            passed = self._published_ms - context.published_ms >= self._expire_ms
            if passed or now_ms - self._quiet_since_ms >= self._expire_ms:
                self._garbage.extend(context.keys)
                self._forget(context)
                return
            due_ms = now_ms + max(self._expire_ms // TRIES, 1)
        self._wake_by(due_ms)

    def _tick_aside(self, context: ChunkContext, now_ms: int) -> None:
        if 0 <= context.due_ms <= now_ms:
            self._garbage.extend(context.keys)
            self._forget(context)
            return
        if 0 <= context.again_ms <= now_ms and context.keys:
            self._again.extend(context.keys)
            if not self._single:
                # They are the broker's now; where there is one consumer, all of them are.
                self._expect(context, now_ms)
                self._forget(context)
                return
            context.again_ms = now_ms + self._again_ms
        self._wake_by(context.again_ms)
        self._wake_by(context.due_ms)
