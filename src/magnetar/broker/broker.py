"""The broker: everything that exists.

It owns the topics that are loaded, knows the names of those that are not, and carries
outcomes of the journal to whoever waits for them. `upkeep` does what falls due.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, final

from magnetar.ack import Ledgers
from magnetar.broker.auth.access import CONSUME, PRODUCE, Access
from magnetar.broker.auth.roles import Authentication
from magnetar.broker.commits import Commits
from magnetar.broker.host import Host
from magnetar.broker.latency import Latency
from magnetar.broker.namespace.directory import Directory, TopicNote
from magnetar.broker.namespace.namespace_topics import NamespaceTopics
from magnetar.broker.namespace.topic_watch import TopicWatchers
from magnetar.broker.policy.effective_policies import EffectivePolicies
from magnetar.broker.promise import Promise, broken, kept
from magnetar.broker.rare_warning import RareWarning
from magnetar.broker.rate.broker_rates import BrokerRates
from magnetar.broker.schema.schema import SchemaInfo, SchemaPolicy, SchemaRegistry, schema_topic
from magnetar.broker.schema.schema_work import SchemaWork
from magnetar.broker.setting.listeners import read_listeners
from magnetar.broker.setting.settings import BrokerSettings
from magnetar.broker.topic.ack.ack_budget import AckBudget
from magnetar.broker.topic.compaction.compactions import Compactions
from magnetar.broker.topic.consumer import Consumer
from magnetar.broker.topic.non_persistent import NonPersistentTopic
from magnetar.broker.topic.persistent_topic import PersistentTopic
from magnetar.broker.topic.producer import Producer
from magnetar.broker.topic.publish.deduplication import load_deduplication
from magnetar.broker.topic.publish.publish_limit import PublishLimit
from magnetar.broker.topic.skip.recall import Strays
from magnetar.broker.topic.subscription import Subscription
from magnetar.broker.topic.topic import Topic
from magnetar.broker.topic_loading import TopicLoading
from magnetar.broker.transaction.transactions import Transactions
from magnetar.broker.turn.inbound import Inbound
from magnetar.broker.turn.looks import Looks
from magnetar.broker.turn.outbound import Outbound
from magnetar.broker.turn.pieces import Pieces
from magnetar.broker.turn.rounds import Rounds
from magnetar.broker.turn.slices import Step, in_slices
from magnetar.broker.turn.turns import Turns
from magnetar.broker.upkeep import Upkeep
from magnetar.errors import BrokerError, StorageError
from magnetar.model import ServerError, TopicName
from magnetar.storage.catalog.catalog import Catalog
from magnetar.storage.cursor.cursor_load import StoredBatchSizes, is_long_to_load
from magnetar.storage.log.journal import Outcome
from magnetar.storage.store import Store

__all__ = ["Broker"]

SCHEMAS: Final = "schemas"
# There is a limit to partitions where none is set.
PARTITIONS_MAX: Final = 10_000
# A topic and its subscriptions, which refer to each other.
TOPIC_OBJECTS: Final = 100
EVERY: Final = 1 << 30


@final
class Broker:
    """See the module. Everything here runs on one thread."""

    def __init__(
        self,
        host: Host,
        store: Store,
        catalog: Catalog,
        settings: BrokerSettings,
        authentication: Authentication | None = None,
    ) -> None:
        self.host: Final = host
        self.store: Final = store
        self.settings: Final = settings
        # What opening the store wrote is settled; nobody will say so again.
        self.commits: Final = Commits(store.ticket_last + 1)
        self.latency: Final = Latency()
        self.publish_limit: Final = PublishLimit(settings)
        self.ack_budget: Final = AckBudget(settings, host)
        self.outbound: Final = Outbound(host, settings.max_outbound_bytes)
        self.inbound: Final = Inbound(host, settings.max_inbound_bytes)
        self.turns: Final = Turns(host)
        self.pieces: Final = Pieces()
        self.rounds: Final = Rounds(host)
        self.looks: Final = Looks(host, self.pieces)
        self.compactions: Final = Compactions()
        self._catalog: Final = catalog
        catalog.on_change = self.note_catalog
        self.directory: Final = Directory(catalog, settings)
        self.rates: Final = BrokerRates(host, settings, self.directory.groups)
        self.listeners: Final = read_listeners(
            settings.advertised_listeners, settings.internal_listener_name
        )
        # None lets everybody in.
        self.authentication: Final = authentication
        self.access: Final = Access(
            self.directory,
            settings.super_user_roles,
            enabled=authentication is not None and settings.authorization,
        )
        self.schemas: Final = SchemaRegistry(
            lambda prefix: catalog.items(SCHEMAS, prefix),
            lambda key, value: catalog.put(SCHEMAS, key, value),
            lambda key: catalog.delete(SCHEMAS, key),
            host.now_ms,
            strategy=settings.schema_compatibility,
            size_max=settings.schema_size_max,
            versions_max=settings.max_schema_bytes_per_topic,
        )
        self.schema_work: Final = SchemaWork(host)
        self.started_ms: Final = host.now_ms()
        # Topics that are loaded, and the ids of all that are stored.
        self.topics: Final[dict[str, Topic]] = {}
        self.topic_ids: Final[dict[str, int]] = {}
        # Those that are on their way into memory.
        self.loadings: Final[dict[str, TopicLoading]] = {}
        self.namespace_topics: Final = NamespaceTopics()
        self.watchers: Final = TopicWatchers(host, lambda topic: topic in self.topic_ids)
        self.sessions: int = 0
        self.strays: Final = Strays(host)
        self.refused_connections: int = 0
        # Objects that refer to each other, of sessions and topics that are gone (`garbage.py`).
        self.left_behind: int = 0
        # Of peers that have not connected yet, and of those that did not prove who they are.
        self.strangers: Final = RareWarning(host)
        self.refused_log_ins: Final = RareWarning(host)
        # Batches that cannot have as many messages as they say.
        self.batches_refused: int = 0
        self._fresh: list[Topic] = []
        self._names_given: int = 0
        self._keys_given: int = 0
        self.upkeep: Final = Upkeep(self)
        self.transactions: Final = Transactions(self)
        for id, name in store.topics().items():
            self._remember(name, id)

    def start(self) -> None:
        """Begins the regular work."""
        self.note_catalog()
        self.upkeep.start()
        self.transactions.start()

    def stop(self) -> None:
        """Ends the regular work, and closes every topic."""
        self.upkeep.stop()
        self.pieces.subscriptions = EVERY  # nobody is to have a turn in between
        self.transactions.stop()
        for topic in list(self.topics.values()):
            topic.close()

    # ---- Names ---------------------------------------------------------------

    def _remember(self, name: str, id: int) -> None:
        self.topic_ids[name] = id
        namespace = TopicName.parse(name).namespace
        self.namespace_topics.add(namespace, name, persistent=True)

    def _forget(self, name: str) -> None:
        self.topic_ids.pop(name, None)
        self.namespace_topics.remove(TopicName.parse(name).namespace, name, persistent=True)

    def _put_away(self, topic: Topic) -> None:
        """The topic is not loaded any more; one that is not stored is gone."""
        name = str(topic.name)
        self.topics.pop(name, None)
        self.left_behind += TOPIC_OBJECTS
        if not topic.name.persistent:
            self.namespace_topics.remove(topic.name.namespace, name, persistent=False)

    def exists(self, name: TopicName) -> bool:
        return str(name) in self.topic_ids or str(name) in self.topics

    def names(self, namespace: str, *, persistent: bool = True, others: bool = False) -> list[str]:
        """The topics of a namespace, partitions one by one, in order."""
        found = self.namespace_topics.in_order(namespace, persistent=persistent, others=others)
        return list(found)

    def count_names(self, namespace: str) -> int:
        """How many topics of a namespace are stored."""
        return self.namespace_topics.count(namespace)

    def require_short(self, noun: str, name: str) -> None:
        """Raises BrokerError for a name that is too long to be kept and shown everywhere."""
        limit = self.settings.max_name_length
        size = len(name.encode())
        if 0 < limit < size:
            raise BrokerError(
                ServerError.NotAllowedError,
                f"the name of the {noun} has {size} bytes, and {limit} are allowed: "
                f"{name[:40]!r}...",
            )

    def new_producer_name(self) -> str:
        self._names_given += 1
        return f"{self.settings.cluster_name}-{self.started_ms}-{self._names_given}"

    def new_consumer_key(self) -> int:
        self._keys_given += 1
        return self._keys_given

    # ---- Topics --------------------------------------------------------------

    def partitions(self, name: TopicName, *, may_create: bool) -> int:
        """How many partitions a topic has, 0 if it has none. Raises BrokerError."""
        self.directory.require_namespace(name.namespace)
        if name.partition >= 0:
            return 0
        found = self.directory.partitioned.get(str(name))
        if found is not None:
            return found
        if self.exists(name):
            return 0
        policies = self.directory.effective(name)
        if not may_create or not policies.auto_create_topics:
            raise self._not_found(name)
        if policies.auto_create_partitions > 0:
            # Who waits for one that cannot be made is told so when he asks for it.
            self.create_partitioned(name, policies.auto_create_partitions)
            return policies.auto_create_partitions
        return 0

    def _not_found(self, name: TopicName) -> BrokerError:
        return BrokerError(
            ServerError.TopicNotFound,
            f"Topic {name} not found: create it first, or allow automatic creation",
        )

    def topic(self, name: TopicName, *, may_create: bool) -> Topic:
        """The topic, loaded or created if need be. Raises BrokerError."""
        topic = self.topics.get(str(name))
        if topic is not None:
            if topic.closed:
                raise BrokerError(ServerError.ServiceNotReady, f"{name} is unloading: try again")
            return topic
        self.directory.require_namespace(name.namespace)
        if not name.persistent:
            return self._create_non_persistent(name)
        id = self.topic_ids.get(str(name))
        if id is not None:
            return self._load(name, id)
        self._check_creation(name, may_create)
        return self.create_topic(name)

    def find(self, name: TopicName) -> Topic:
        """The topic if there is one. Raises BrokerError."""
        return self.topic(name, may_create=False)

    def _check_creation(self, name: TopicName, may_create: bool) -> None:
        if str(name) in self.directory.partitioned:
            raise BrokerError(
                ServerError.NotAllowedError,
                f"{name} is partitioned: use its partitions, as clients do by themselves",
            )
        whole = name.partitioned
        partitions = self.directory.partitioned.get(str(whole), 0)
        if name.partition >= 0 and name.partition < partitions:
            return
        if not may_create or not self.directory.effective(name).auto_create_topics:
            raise self._not_found(name)
        if name.partition >= 0 and partitions > 0:
            raise BrokerError(
                ServerError.TopicNotFound, f"{whole} has {partitions} partitions, so no {name}"
            )

    def create_topic(self, name: TopicName, properties: dict[str, str] | None = None) -> Topic:
        """A new persistent topic; durable when `store.ticket_last` is. Raises BrokerError."""
        self.directory.require_namespace(name.namespace)
        self.require_short("topic", str(name))
        policies = self.directory.effective(name)
        self._require_room(name, policies, 1)
        try:
            id = self.store.create_topic(str(name))
        except StorageError as error:
            raise BrokerError(ServerError.PersistenceError, str(error)) from error
        ledgers = Ledgers(StoredBatchSizes(self.store.log.state), born=id)
        topic = PersistentTopic(self, name, id, ledgers, policies)
        if properties:
            self.directory.put_note(str(name), TopicNote(properties=properties))
        self._remember(str(name), id)
        self.topics[str(name)] = topic
        topic.wait_for(self.store.ticket_last).when_done(lambda error: self._created(topic, error))
        self._follow_policies(topic)
        self.host.kick()
        self.watchers.note(name, created=True)
        return topic

    def _require_room(self, name: TopicName, policies: EffectivePolicies, count: int) -> None:
        """Raises BrokerError if there may not be so many more topics beside this one."""
        if not self.settings.persistent:
            raise BrokerError(ServerError.NotAllowedError, "persistent topics are switched off")
        limit = policies.limits.max_topics_per_namespace
        there = self.namespace_topics.count(name.namespace)
        if 0 < limit < there + count:
            raise BrokerError(
                ServerError.NotAllowedError,
                f"{name.namespace} has {there} topics, and {limit} are the most that it may have",
            )

    def _created(self, topic: Topic, error: Exception | None) -> None:
        if error is None:
            return
        name = str(topic.name)
        if self.topics.get(name) is topic:
            topic.deleted = True
            topic.close()
            self.topics.pop(name, None)
            self.left_behind += TOPIC_OBJECTS
            self._forget(name)
            self.watchers.note(topic.name, created=False)

    def _create_non_persistent(self, name: TopicName) -> Topic:
        if not self.settings.non_persistent:
            raise BrokerError(ServerError.NotAllowedError, "non-persistent topics are switched off")
        self.require_short("topic", str(name))
        topic = NonPersistentTopic(self, name, self.directory.effective(name))
        self.topics[str(name)] = topic
        self.namespace_topics.add(name.namespace, str(name), persistent=False)
        return topic

    def prepare(self, name: TopicName) -> TopicLoading | None:
        """The loading of a topic that is long to load; None if that is done, or soon done."""
        text = str(name)
        id = self.topic_ids.get(text)
        if id is None or text in self.topics:
            return None
        loading = self.loadings.get(text)
        if loading is None and is_long_to_load(self.store.log.state, id, self.pieces.loads):
            loading = self.loadings[text] = TopicLoading(self, name, id)
        return loading

    def _load(self, name: TopicName, id: int) -> Topic:
        loading = self.loadings.get(str(name)) or TopicLoading(self, name, id)
        loading.finish()
        return self.topics[str(name)]

    def have_loaded(self, topic: Topic) -> None:
        """All that the store has of a topic is in memory. Raises StorageError."""
        topic.policies = self.directory.effective(topic.name)
        self._follow_policies(topic)
        self.loadings.pop(str(topic.name), None)
        self.topics[str(topic.name)] = topic

    def create_partitioned(
        self, name: TopicName, partitions: int, properties: dict[str, str] | None = None
    ) -> Promise[None]:
        """A partitioned topic and all its partitions; more partitions if it exists.

        Raises BrokerError. Partitions are made a few at a time; the promise is kept when all
        are there, durable when `store.ticket_last` is. Who asks for one before that makes it.
        """
        limit = self.settings.max_partitions_per_topic or PARTITIONS_MAX
        if partitions > limit:
            raise BrokerError(
                ServerError.NotAllowedError, f"a topic may have {limit} partitions at most"
            )
        self.require_short("topic", str(name.with_partition(partitions - 1)))
        missing: list[TopicName] = []
        if name.persistent:
            wanted = [name.with_partition(number) for number in range(partitions)]
            missing = [partition for partition in wanted if not self.exists(partition)]
        if missing:
            self._require_room(name, self.directory.effective(name), len(missing))
        self.directory.put_partitioned(str(name), partitions, properties)
        return self._create_all(missing)

    def _create_all(self, names: list[TopicName]) -> Promise[None]:
        promise: Promise[None] = Promise()

        def create(name: TopicName) -> Promise[None]:
            try:
                if not promise.done and not self.exists(name):
                    self.create_topic(name)
            except BrokerError as error:
                promise.fail(error)
            return kept(None)

        steps: list[Step] = [partial(create, name) for name in names]
        in_slices(self.host, steps, self.pieces.topics).then(promise.keep, promise.fail)
        return promise

    def save_topic(self, topic: Topic) -> None:
        """Keeps what the catalog has of a topic."""
        if topic.name.persistent:
            note = self.directory.note(str(topic.name))
            self.directory.put_note(
                str(topic.name),
                TopicNote(
                    terminated=topic.terminated,
                    epoch=topic.admission.epoch,
                    properties=note.properties,
                ),
            )

    def policies_changed(self, namespace: str) -> Promise[None]:
        """Policies of a namespace, or of a topic in it, are new.

        Topics follow them a few at a time; kept when all do.
        """
        return self._each_topic({namespace}, self._take_policies)

    def group_changed(self, group: str) -> Promise[None]:
        """A resource group is new, or has other rates; kept when all topics follow them."""
        self.rates.group_changed(group)
        return self._each_topic(self.directory.namespaces_in(group), self._take_policies)

    def _take_policies(self, topic: Topic) -> Promise[None]:
        # One that is closed is loaded with them, if it is.
        if not topic.closed:
            topic.policies = self.directory.effective(topic.name)
            self._follow_policies(topic)
        return kept(None)

    def permissions_changed(self, namespace: str) -> Promise[None]:
        """Permissions of a namespace, or in it, are new: closes what they no longer allow.

        Clients come back at once, and are told then. Kept when all is closed.
        """
        return self._close_forbidden({namespace})

    def admins_changed(self, tenant: str) -> Promise[None]:
        """A tenant has other admins: what they had by that may be forbidden now."""
        return self._close_forbidden(set(self.directory.namespaces_of(tenant)))

    def _close_forbidden(self, namespaces: set[str]) -> Promise[None]:
        if not self.access.enabled:
            return kept(None)
        return self._each_topic(namespaces, self._close_forbidden_of)

    def _each_topic(
        self, namespaces: set[str], work: Callable[[Topic], Promise[None]]
    ) -> Promise[None]:
        """Does something to the loaded topics of namespaces, a few at a time."""
        steps: list[Step] = [
            partial(work, topic)
            for topic in self.topics.values()
            if topic.name.namespace in namespaces
        ]
        return in_slices(self.host, steps, self.pieces.topics)

    def _close_forbidden_of(self, topic: Topic) -> Promise[None]:
        steps: list[Step] = [
            partial(self._close_producer, topic, producer)
            for producer in topic.admission.everybody()
        ]
        for subscription in topic.subscriptions.values():
            for consumer in subscription.consumers:
                steps.append(partial(self._close_consumer, subscription, consumer))
        return in_slices(self.host, steps, self.pieces.consumers)

    def _close_producer(self, topic: Topic, producer: Producer) -> Promise[None]:
        if not self.access.on_topic(producer.peer.principal, PRODUCE, topic.name):
            topic.admission.dismiss(producer)
        return kept(None)

    def _close_consumer(self, subscription: Subscription, consumer: Consumer) -> Promise[None]:
        name, principal = subscription.topic.name, consumer.peer.principal
        if not consumer.closed and not self.access.on_topic(
            principal, CONSUME, name, subscription.name
        ):
            left = subscription.leave(consumer)
            consumer.tell_closed()
            return left
        return kept(None)

    def _follow_policies(self, topic: Topic) -> None:
        """Does what policies say at once, not in its time."""
        topic.rates.follow()
        if topic.name.persistent:
            wanted = topic.policies.deduplication
            if wanted and topic.deduplication is None:
                topic.deduplication = load_deduplication(topic)
            elif not wanted and topic.deduplication is not None:
                topic.deduplication.delete()
                topic.deduplication = None
        for subscription in topic.subscriptions.values():
            subscription.policies_changed()

    def schema_policy(self, name: TopicName) -> SchemaPolicy:
        policies = self.directory.effective(name)
        return SchemaPolicy(
            strategy=policies.schema_compatibility,
            allow_auto_update=policies.auto_update_schema,
            validation_enforced=policies.schema_validation_enforced,
        )

    def add_producer_schema(self, name: TopicName, schema: SchemaInfo | None) -> Promise[bytes]:
        """The version of a schema that a producer brings; see `SchemaRegistry`."""
        topic = schema_topic(name)
        work = self.schemas.producer_steps(topic, schema, self.schema_policy(name))
        return self.schema_work.run(topic, work, 0 if schema is None else len(schema.data))

    def add_consumer_schema(
        self, name: TopicName, schema: SchemaInfo | None, *, idle: bool
    ) -> Promise[None]:
        """Whether a consumer may have the schema that it brings; see `SchemaRegistry`."""
        topic = schema_topic(name)
        work = self.schemas.consumer_steps(topic, schema, self.schema_policy(name), idle=idle)
        return self.schema_work.run(topic, work, 0 if schema is None else len(schema.data))

    # ---- Closing topics ------------------------------------------------------

    def unload(self, name: TopicName) -> Promise[None]:
        """Closes a topic; it is loaded again when a client comes back."""
        topic = self.topics.get(str(name))
        if topic is None:
            return kept(None) if self.exists(name) else broken(self._not_found(name))
        if topic.deleted:
            # It must stay known until it is gone, or it would be loaded once more.
            return broken(BrokerError(ServerError.ServiceNotReady, f"{name} is being deleted"))
        promise: Promise[None] = Promise()

        def closed(done: None) -> None:
            if self.topics.get(str(name)) is topic:
                self._put_away(topic)
            promise.keep(None)

        topic.close().then(closed, promise.fail)
        return promise

    def delete_topic(self, name: TopicName, *, force: bool, delete_schema: bool) -> Promise[None]:
        """Deletes a topic with all that is in it."""
        promise: Promise[None] = Promise()
        try:
            topic = self.find(name)
        except BrokerError as error:
            return broken(error)
        if not force and (topic.subscriptions or topic.producers):
            return broken(
                BrokerError(
                    ServerError.NotAllowedError,
                    f"{name} has {len(topic.producers)} producers and {len(topic.subscriptions)} "
                    "subscriptions: delete them first, or force it",
                )
            )
        topic.deleted = True

        def closed(done: None) -> None:
            self._delete_closed(topic, promise, delete_schema)

        topic.close().then(closed, promise.fail)
        return promise

    def _delete_closed(self, topic: Topic, promise: Promise[None], delete_schema: bool) -> None:
        name = str(topic.name)

        def settled(error: Exception | None) -> None:
            self._put_away(topic)
            if error is not None:
                promise.fail(error)
                return
            if topic.name.persistent:
                self._forget(name)
                self.watchers.note(topic.name, created=False)
            try:
                if topic.name.persistent:
                    self.directory.forget_topic(name)
                if delete_schema:
                    self.schemas.purge(schema_topic(topic.name))
            except StorageError as failed:
                promise.fail(failed)
                return
            promise.keep(None)

        if not topic.name.persistent:
            settled(None)
            return
        try:
            ticket = self.store.delete_topic(topic.id)
        except StorageError as error:
            settled(error)
            return
        self.host.kick()
        topic.wait_for(ticket).when_done(settled)

    # ---- The catalog ---------------------------------------------------------

    def note_catalog(self) -> None:
        """Has the journal know what the catalog is now, so that no older one is taken for it."""
        if self.store.note_catalog(self._catalog.mark):
            self.host.kick()

    @property
    def quiet(self) -> bool:
        """Whether nobody waits for a turn or for the disk."""
        return len(self.turns) == 0 and len(self.commits) == 0

    # ---- Outcomes ------------------------------------------------------------

    def take_outcome(self, outcome: Outcome) -> None:
        """The journal says what became of records."""
        if outcome.error is not None:
            self.host.warn(f"the journal failed: {outcome.error}")
        self.latency.begin(self.host.ticks_us())
        faults = self.commits.take(outcome)
        self.latency.end()
        for topic, fault in faults:
            if topic is not None:
                topic.give_up(fault)
            else:
                self.host.fault("something that waited for the journal failed", fault)
        self.refresh()

    def refresh_later(self, topic: Topic) -> None:
        self._fresh.append(topic)

    def refresh(self) -> None:
        """Tells topics of their new entries, once for all of a group."""
        fresh = self._fresh
        self._fresh = []
        for topic in fresh:
            try:
                topic.refresh()
            except Exception as error:
                topic.give_up(error)
