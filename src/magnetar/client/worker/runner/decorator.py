"""`@worker`: makes a worker of a function.

    @magnetar.worker("orders", subscription="billing", concurrency=32)
    async def bill(order: Order) -> None: ...

    magnetar.run(bill)

A coroutine function becomes an AsyncWorker, any other one a ThreadWorker.
"""

import inspect
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any, Unpack, overload

from magnetar.client.option.keywords import ProducerKeywords, WorkerKeywords
from magnetar.client.schema.schema import Schema
from magnetar.client.worker.runner.aio import AsyncWorker
from magnetar.client.worker.runner.threads import ThreadWorker
from magnetar.client.worker.runner.worker import Topic
from magnetar.client.worker.settings import GRACE_S

__all__ = ["worker"]


class _Decorator:
    """What `worker(...)` returns: it takes the function."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        self._arguments: dict[str, Any] = arguments

    @overload
    def __call__(self, function: Callable[..., Coroutine[Any, Any, Any]]) -> AsyncWorker: ...
    @overload
    def __call__(self, function: Callable[..., Any]) -> ThreadWorker: ...
    def __call__(self, function: Callable[..., Any]) -> AsyncWorker | ThreadWorker:
        if inspect.iscoroutinefunction(function):
            return AsyncWorker(function, **self._arguments)
        return ThreadWorker(function, **self._arguments)


def worker(
    topic: Topic,
    *,
    subscription: str,
    concurrency: int = 1,
    schema: Schema[Any] | None = None,
    grace_s: float = GRACE_S,
    retry_after: timedelta | None = None,
    transactional: bool = False,
    transaction_timeout: float | timedelta | None = None,
    output_options: ProducerKeywords | None = None,
    **options: Unpack[WorkerKeywords],
) -> _Decorator:
    """Makes a worker of the function below: it is called with each message of a subscription.

    The function gets the value of the message, decoded by `schema`, which the broker is told of,
    else as the annotation of its parameter says: bytes, str, or a class as JSON. A parameter
    annotated with Message gets the message. When it returns
    the message is acked, when it raises it is nacked, or with `retry_after` sent to the retry
    topic. `concurrency` messages are in hand at a time; those of one key stay in order on a
    Key_Shared subscription, and all of a topic on an Exclusive or Failover one.

    With `transactional` each call has a transaction: a parameter annotated with AsyncWork (of a
    coroutine function) or ThreadWork sends in it, `await work.send("bills", b"...")`, and what was
    sent is to be seen exactly when the message is acked.

    `options` are those of `subscribe`. Unless they say otherwise the subscription is Shared,
    begins with the earliest message, and acks that fail are sent again.

    Args:
        topic: Name of the topic, a list of names, or a compiled pattern that names match.
        subscription: The subscription that all processes of the worker share.
        concurrency: Messages that are in hand at a time.
        schema: What values become bytes by, and the reverse; without one values are bytes.
        grace_s: Seconds that a stop waits for messages that are in hand.
        retry_after: Time after which a message whose function raised comes by the retry topic.
        transactional: Call the function in a transaction, which is committed with the message's
            acknowledgement.
        transaction_timeout: Seconds, or a timedelta, after which the broker aborts the transaction
            of a call; 60 without it.
        output_options: Options of the producers that a transactional worker's functions send with.
        consumer_type: Exclusive, Shared, Failover or KeyShared.
        receiver_queue_size: Messages that are fetched before the application asks for them.
        max_total_receiver_queue_size_across_partitions: The same for all partitions and topics of
            the consumer together.
        consumer_name: Name that the subscription's stats show.
        unacked_messages_timeout_ms: Time after which a message that is not acknowledged is
            delivered again; 1000 or more, None or 0 for never.
        broker_consumer_stats_cache_time_ms: Accepted and ignored: stats() asks no broker.
        negative_ack_redelivery_delay_ms: Time after which a negatively acknowledged message is
            delivered again.
        is_read_compacted: Read the compacted view of the topic, then what came later.
        properties: Properties of the consumer, which the subscription's stats show.
        pattern_auto_discovery_period: Seconds between two looks for new topics that match the
            pattern.
        initial_position: Where a new subscription begins: Latest or Earliest.
        crypto_key_reader: Loads the keys that messages are decrypted with.
        replicate_subscription_state_enabled: Asks Apache Pulsar to replicate the subscription.
        max_pending_chunked_message: Incomplete messages in chunks that are kept; 0 is no limit.
        auto_ack_oldest_chunked_message_on_queue_full: Acknowledge the oldest incomplete message
            above that limit, instead of having it delivered again.
        start_message_id_inclusive: Whether start_message_id itself is received, and seek's target.
        batch_receive_policy: When batch_receive has enough messages.
        key_shared_policy: Which keys of a KeyShared subscription this consumer gets.
        batch_index_ack_enabled: Accepted and ignored, with a warning: messages in batches are
            always acknowledged one by one.
        regex_subscription_mode: Whether a pattern matches persistent topics, non-persistent ones or
            both.
        dead_letter_policy: After how many redeliveries a message is moved to the dead letter topic.
        crypto_failure_action: What to do with a message that cannot be decrypted.
        acknowledgement_group_time_ms: Time that acknowledgements are gathered before they are sent;
            0 sends each at once.
        max_acknowledgement_group_size: Acknowledgements at which they are sent before that time.
        ack_receipt_enabled: acknowledge() returns when the broker has stored the acknowledgement,
            and raises if it did not.
        auto_retry_acknowledgement: Send acknowledgements again until the broker has confirmed them
            (PIP-377).
        max_acknowledgement_retries: How often an acknowledgement is sent again.
        auto_retry_acknowledgement_backoff: Wait before an acknowledgement is sent again; None is
            100 ms, doubling up to 10 s. A function gets the number of failures so far and returns
            milliseconds.
        on_acknowledgement_failed: Function that is called with the message ids and the error when
            acknowledgements were tried for the last time.
        max_pending_acknowledgements: Unconfirmed acknowledgements at which a consumer that retries
            them asks for no more messages.
        negative_ack_redelivery_backoff: Instead of negative_ack_redelivery_delay_ms: a wait that
            grows with each redelivery, a MultiplierRedeliveryBackoff.
        ack_timeout_redelivery_backoff: Added to unacked_messages_timeout_ms: a wait that grows with
            each redelivery, a MultiplierRedeliveryBackoff.
        retry_enabled: Subscribe to the retry topic as well; reconsume_later needs it.
        expire_time_of_incomplete_chunked_message_ms: Time after which an incomplete message in
            chunks is given up; 0 keeps it for ever.
        max_message_size_total: Bytes that one message in chunks may have, and all incomplete ones
            together.
        subscription_properties: Properties of the subscription, if this consumer creates it.
        priority_level: Consumers with a lower number get messages first; 0 comes before all others.
        auto_update_partitions_interval_seconds: How often the client looks for new partitions.
        durable: False: the subscription is deleted with its consumer, as a reader's is.
        start_message_id: Where a subscription that is not durable, or new, begins.
        interceptors: Interceptors that see each message before it is handed over, and its
            acknowledgement, in this order.
    """
    return _Decorator(
        {
            "topic": topic,
            "subscription": subscription,
            "concurrency": concurrency,
            "schema": schema,
            "grace_s": grace_s,
            "retry_after": retry_after,
            "transactional": transactional,
            "transaction_timeout": transaction_timeout,
            "output_options": output_options,
            "options": options,
        }
    )
