"""`topics skip-messages`: by the request of PIP-423, and by acks where there is none."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
from cli.broker_cli import BrokerCli, Ran
from hypothesis import given
from hypothesis import strategies as st
from support.waiting import wait_until
from support.web import Asked, lacking

import magnetar
from magnetar.broker.setting.settings import BrokerSettings
from magnetar.cli.skip.skip_request import send_skips
from magnetar.errors import InvalidMessageIdError, NoSuchEntryError, SettingsError
from magnetar.model import MessageId, TopicName
from magnetar.model.message_id import ChunkMessageId
from magnetar.rest.admin_client import AdminClient
from magnetar.rest.admin_error import AdminError
from magnetar.rest.id_text import (
    id_text,
    parse_base64,
    parse_id,
    parse_triplet,
    place_json,
)
from magnetar.rest.path import subscription_path
from magnetar.rest.skip.skip_request import request_body
from magnetar.testing.embedded import EmbeddedBroker

numbers = count()
# How a skip is told: the request, or acks on a cluster that lacks it.
WAYS = ["request", "acks"]


class Bench:
    """A broker with a subscription whose messages are skipped."""

    def __init__(self, cli: BrokerCli, without: str, seen: list[Asked]) -> None:
        self.cli = cli
        self.seen = seen
        self._without = without
        self.topic = ""
        self._stats = "stats"

    def fill(self, *batches: list[str], partitions: int = 0) -> list[MessageId]:
        """A topic with a subscription `sub`, and messages in batches; their ids."""
        self.topic = f"persistent://public/default/skip-{next(numbers)}"
        self._stats = "partitioned-stats" if partitions else "stats"
        if partitions:
            self.cli.ok("topics", "create-partitioned-topic", self.topic, "-p", str(partitions))
        else:
            self.cli.ok("topics", "create", self.topic)
        self.cli.ok("topics", "create-subscription", self.topic, "-s", "sub")
        ids: list[MessageId] = []
        if partitions:
            # In one go, for each producer begins with a partition of its own choice.
            batches = ([text for batch in batches for text in batch],)
        for batch in batches:
            options = ["-db"] if partitions or len(batch) == 1 else []
            messages = [part for text in batch for part in ("-m", text)]
            lines = self.cli.ok("produce", self.topic, *options, *messages, "--json").splitlines()
            ids += [parse_base64(json.loads(line)["messageId"]) for line in lines]
        return ids

    def send_chunked(self) -> ChunkMessageId:
        """One more message, in three chunks."""
        with magnetar.Client(self.cli.url) as client:
            producer = client.create_producer(self.topic, chunking_enabled=True)
            id = producer.send(bytes(11 << 20))
        assert isinstance(id, ChunkMessageId)
        return id

    def skip(self, way: str, *arguments: str | Path, input: str | None = None) -> Ran:
        url = self._without if way == "acks" else self.cli.admin_url
        return self.cli.run(
            "topics",
            "skip-messages",
            self.topic,
            "-s",
            "sub",
            *arguments,
            input=input,
            admin_url=url,
        )

    def left(self) -> list[str]:
        """What a consumer still gets, which must be as much as the broker says."""
        stats = json.loads(self.cli.ok("topics", self._stats, self.topic, "--json"))
        count = stats["subscriptions"]["sub"]["msgBacklogMessages"]
        with self.consumer() as consumer:
            found = [consumer.receive(30_000).data().decode() for _ in range(count)]
            with pytest.raises(magnetar.Timeout):
                consumer.receive(20)
        return sorted(found)

    @contextmanager
    def consumer(
        self, kind: magnetar.ConsumerType = magnetar.ConsumerType.Shared
    ) -> Iterator[magnetar.Consumer]:
        with magnetar.Client(self.cli.url) as client:
            yield client.subscribe(self.topic, "sub", kind)


@pytest.fixture(scope="module")
def bench(cli: BrokerCli) -> Iterator[Bench]:
    seen: list[Asked] = []
    with lacking(cli.admin_url, "/skipByMessageIds", seen) as url:
        yield Bench(cli, url, seen)


@pytest.mark.parametrize("way", WAYS)
def test_triplets_and_base64_are_mixed_in_one_request(bench: Bench, way: str) -> None:
    ids = bench.fill(["a", "b", "c"], ["d"], ["e"], ["f", "g"])
    bench.seen.clear()
    ran = bench.skip(
        way,
        *("--messageId-triplet", id_text(ids[1])),
        *("--messageId-triplet", id_text(ids[3])),
        *("--messageId-base64", ids[0].to_base64()),
        *("--messageId-base64", ids[6].to_base64()),
    )
    assert ran.code == 0, ran
    assert "skipped 4 ids on sub" in ran.out
    assert ("acked through a consumer" in ran.err) == (way == "acks")
    assert bench.left() == ["c", "e", "f"]
    if way == "acks":
        posts = [asked for asked in bench.seen if asked.method == "POST"]
        assert len(posts) == 1
        assert len(json.loads(posts[0].body)["messageIds"]) == 4


@pytest.mark.parametrize("way", WAYS)
def test_an_entry_goes_as_a_whole(bench: Bench, way: str) -> None:
    ids = bench.fill(["a", "b", "c"], ["d"])
    ran = bench.skip(way, "--messageId-triplet", f"{ids[0].ledger_id()}:{ids[0].entry_id()}")
    assert ran.code == 0, ran
    assert bench.left() == ["d"]


@pytest.mark.parametrize("way", WAYS)
def test_ids_come_from_a_file(bench: Bench, way: str, tmp_path: Path) -> None:
    ids = bench.fill(["a", "b"], ["c"], ["d"])
    line = json.dumps({"messageId": ids[3].to_base64(), "data": "d"})
    text = f"# poison\n{id_text(ids[0])}\n\n  {ids[2].to_base64()}  \n{line}\n"
    (tmp_path / "ids").write_text(text)
    ran = bench.skip(way, "--from-file", tmp_path / "ids", "--json")
    told = json.loads(ran.out)
    assert (told["ids"], told["byAcks"]) == (3, way == "acks")
    if way == "request":
        assert (told["skipped"], told["unconfirmed"], told["requests"]) == (3, 0, 1)
        assert [row["result"] for row in told["messageIds"]] == ["skipped"] * 3
    assert bench.left() == ["b"]
    assert bench.skip(way, "--from-file", "-", input=text).code == 0, "again changes nothing"
    assert bench.left() == ["b"]


def test_the_ack_state_shows_it_and_peek_leaves_it_out(bench: Bench) -> None:
    ids = bench.fill(["a", "b", "c", "d"], ["e"], ["f"])
    for id in (ids[1], ids[2], ids[4]):
        assert bench.skip("request", "--messageId-triplet", id_text(id)).code == 0
    entry = id_text(ids[0]).rpartition(":")[0]
    shown = bench.cli.ok("topics", "ack-state", bench.topic, "-s", "sub")
    assert "unacked entries 2, messages 3" in shown
    assert f"{entry}     4     2  0, 3" in shown
    peeked = bench.cli.ok("topics", "peek-messages", bench.topic, "-s", "sub", "-n", "9")
    assert peeked.splitlines()[1::2] == ["a", "d", "f"]
    page = bench.cli.ok("topics", "ack-state", bench.topic, "-s", "sub", "--from", entry)
    assert entry in page


@pytest.mark.parametrize("way", WAYS)
def test_a_dry_run_shows_each_message_and_changes_nothing(bench: Bench, way: str) -> None:
    ids = bench.fill(["a", "b", "c"], ["d"])
    given = ["--messageId-triplet", id_text(ids[1]), "--messageId-triplet", id_text(ids[3])]
    ran = bench.skip(way, *given, "--dry-run")
    assert ran.code == 0
    assert ran.lines[1::2] == ["b", "d"]
    assert [line.split()[1] for line in ran.lines[::2]] == [id_text(ids[1]), id_text(ids[3])]
    found = [json.loads(line) for line in bench.skip(way, *given, "--dry-run", "--json").lines]
    assert [one["data"] for one in found] == ["b", "d"]
    assert bench.left() == ["a", "b", "c", "d"]


def bad_ids(ids: list[MessageId]) -> dict[str, list[str]]:
    ledger, entry = ids[0].ledger_id(), ids[0].entry_id()
    partition = MessageId(3, ledger, entry).to_base64()
    return {
        "index beyond the batch": ["--messageId-triplet", f"{ledger}:{entry}:3"],
        "index of a single message": ["--messageId-triplet", f"{id_text(ids[3])}:5"],
        "entry beyond the end": ["--messageId-triplet", f"{ledger}:999"],
        "ledger that never was": ["--messageId-triplet", "1152921504606846976:0"],
        "text": ["--messageId-triplet", "one:two"],
        "negative index": ["--messageId-triplet", f"{ledger}:{entry}:-1"],
        "no base64": ["--messageId-base64", "???"],
        "no id in it": ["--messageId-base64", "AAAA"],
        "no message": ["--messageId-base64", MessageId.earliest.to_base64()],
        "another partition": ["--messageId-base64", partition],
    }


BAD = sorted(bad_ids([MessageId(ledger_id=0, entry_id=0)] * 4))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("bad", BAD)
def test_a_bad_id_is_said_and_nothing_is_skipped(bench: Bench, way: str, bad: str) -> None:
    ids = bench.fill(["a", "b", "c"], ["d"])
    wrong = bad_ids(ids)[bad]
    ran = bench.skip(way, "--messageId-triplet", id_text(ids[1]), *wrong)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("magnetar: ")
    assert ran.err.count("\n") == 1
    assert bench.left() == ["a", "b", "c", "d"]


def test_a_dry_run_finds_bad_ids(bench: Bench) -> None:
    ids = bench.fill(["a", "b", "c"], ["d"])
    given = ["--messageId-triplet", id_text(ids[0]), "--messageId-triplet"]
    ran = bench.skip("request", *given, f"{id_text(ids[3])}:0", "--dry-run")
    assert (ran.code, ran.lines[1:]) == (1, ["a"])
    assert "leave out the batch index" in ran.err
    assert bench.skip("request", *given, "1152921504606846976:0", "--dry-run").code == 2


def test_a_bad_line_of_a_file_is_named(bench: Bench) -> None:
    ids = bench.fill(["a"])
    ran = bench.skip("request", "--from-file", "-", input=f"{id_text(ids[0])}\nwhat\n")
    assert ran.code == 2
    assert "line 2" in ran.err
    ran = bench.skip("request", "--from-file", "-", input='{"id": 5}\n')
    assert (ran.code, "line 1" in ran.err) == (2, True)
    assert bench.skip("request", "--from-file", "/nowhere").code == 2
    assert bench.left() == ["a"]


@pytest.mark.parametrize("way", WAYS)
def test_there_must_be_ids_a_topic_and_a_subscription(bench: Bench, way: str) -> None:
    ids = bench.fill(["a"])
    assert bench.skip(way).code == 2
    url = bench.cli.admin_url if way == "request" else bench._without
    given = ["--messageId-triplet", id_text(ids[0])]
    for topic, subscription in ((bench.topic, "nobody"), ("nowhere", "sub")):
        ran = bench.cli.run(
            "subscriptions", "skip-messages", topic, "-s", subscription, *given, admin_url=url
        )
        assert (ran.code, ran.out) == (5, "")
        assert (
            bench.cli.run(
                "topics", "skip-messages", topic, "-s", subscription, *given, "--dry-run"
            ).code
            == 5
        )


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["Exclusive", "Failover"])
def test_exclusive_and_failover_are_refused(bench: Bench, way: str, kind: str) -> None:
    ids = bench.fill(["a"])
    with bench.consumer(magnetar.ConsumerType[kind]):
        ran = bench.skip(way, "--messageId-triplet", id_text(ids[0]))
    assert (ran.code, ran.out) == (6, "")
    assert "405" in ran.err
    assert kind in ran.err
    assert bench.left() == ["a"]


@pytest.mark.parametrize("way", WAYS)
def test_key_shared_is_joined_as_such(bench: Bench, way: str) -> None:
    ids = bench.fill(["a"], ["b"], ["c"])
    with bench.consumer(magnetar.ConsumerType.KeyShared) as consumer:
        held = consumer.receive(30_000)
        ran = bench.skip(way, "--messageId-triplet", id_text(ids[1]))
        assert ran.code == 0, ran
        assert ("Key_Shared" in ran.err) == (way == "acks")
        consumer.acknowledge(held)
    assert bench.left() == ["c"]


@pytest.mark.parametrize("way", WAYS)
def test_a_shared_consumer_goes_on(bench: Bench, way: str) -> None:
    """Nothing comes to the consumer that acks: it has no permits."""
    ids = bench.fill(["a"], ["b"], ["c"])
    with bench.consumer() as consumer:
        first = [consumer.receive(30_000) for _ in range(3)]
        assert bench.skip(way, "--messageId-triplet", id_text(ids[1])).code == 0
        stats = json.loads(bench.cli.ok("topics", "stats", bench.topic, "--json"))
        assert len(stats["subscriptions"]["sub"]["consumers"]) == 1
        assert stats["subscriptions"]["sub"]["msgBacklog"] == 2
        assert sorted(message.data() for message in first) == [b"a", b"b", b"c"]
    assert bench.left() == ["a", "c"]


@pytest.mark.parametrize("way", WAYS)
def test_partitions(bench: Bench, way: str) -> None:
    ids = bench.fill(*([str(i)] for i in range(6)), partitions=3)
    assert len({id.partition() for id in ids}) == 3
    ran = bench.skip(
        way,
        *("--messageId-triplet", id_text(ids[0])),
        *("--messageId-base64", ids[1].to_base64()),
        *("--messageId-triplet", id_text(ids[2])),
    )
    assert ran.code == 0, ran
    assert bench.left() == ["3", "4", "5"]
    wrong = MessageId((ids[3].partition() + 1) % 3, ids[3].ledger_id(), ids[3].entry_id())
    assert bench.skip(way, "--messageId-base64", wrong.to_base64()).code == 2
    assert bench.left() == ["3", "4", "5"]


@pytest.mark.parametrize("way", WAYS)
def test_what_is_gone_is_skipped_already(bench: Bench, way: str) -> None:
    ids = bench.fill(["a"], ["b"])
    bench.cli.ok("topics", "truncate", bench.topic)
    bench.cli.ok("produce", bench.topic, "-m", "c", "-db")
    internal = json.loads(bench.cli.ok("topics", "stats-internal", bench.topic, "--json"))
    assert ids[0].ledger_id() not in [one["ledgerId"] for one in internal["ledgers"]]
    ran = bench.skip(way, "--messageId-triplet", id_text(ids[0]))
    assert ran.code == 0, ran
    assert ("deleted already" in ran.err) == (way == "acks")
    shown = bench.skip(way, "--messageId-triplet", id_text(ids[0]), "--dry-run")
    assert (shown.code, "gone" in shown.out) == (0, True)
    assert bench.left() == ["c"]


@pytest.mark.parametrize("way", WAYS)
def test_all_chunks_go(bench: Bench, way: str) -> None:
    bench.fill(["a"])
    id = bench.send_chunked()
    ran = bench.skip(way, "--messageId-base64", id.to_base64())
    assert ran.code == 0, ran
    assert bench.left() == ["a"]
    stats = json.loads(bench.cli.ok("topics", "stats", bench.topic, "--json"))
    assert stats["subscriptions"]["sub"]["msgBacklog"] == 1


@pytest.mark.parametrize("way", WAYS)
def test_any_chunk_stands_for_its_message_and_a_dry_run_says_so(bench: Bench, way: str) -> None:
    bench.fill(["a"])
    id = bench.send_chunked()
    shown = bench.skip(way, "--dry-run", "--messageId-triplet", id_text(id))
    assert shown.code == 0, shown
    assert "is chunk 3 of 3 of one message" in shown.err
    shown = bench.skip(way, "--dry-run", "--messageId-base64", id.to_base64())
    assert "is chunk" not in shown.err
    ran = bench.skip(way, "--messageId-triplet", id_text(id))
    assert ran.code == 0, ran
    stats = json.loads(bench.cli.ok("topics", "stats", bench.topic, "--json"))
    assert stats["subscriptions"]["sub"]["msgBacklog"] == 1


def test_acks_that_stop_halfway_say_what_is_done(bench: Bench) -> None:
    """The partitions are used in two ways, and whoever joins as one is refused by the other."""
    ids = bench.fill(*([str(i)] for i in range(4)), partitions=2)
    last = next(id for id in ids if id.partition() != ids[0].partition())
    named = [part for id in (ids[0], last) for part in ("--messageId-triplet", id_text(id))]
    with magnetar.Client(bench.cli.url) as client:
        for id, kind in ((ids[0], "KeyShared"), (last, "Shared")):
            topic = f"{bench.topic}-partition-{id.partition()}"
            client.subscribe(topic, "sub", magnetar.ConsumerType[kind], receiver_queue_size=0)
        ran = bench.skip("acks", *named)
        assert ran.code != 0
        assert "not as one step" in ran.err
        assert "messages of 1 of 2 topics or partitions are skipped" in ran.err
    assert len(bench.left()) == 3
    assert bench.skip("acks", *named).code == 0
    assert len(bench.left()) == 2


def test_a_broker_that_acks_no_batch_indexes_is_not_fooled() -> None:
    """It would take the ack of an index and forget it, so it is asked first."""
    with (
        EmbeddedBroker(BrokerSettings(batch_index_ack=False)) as broker,
        lacking(broker.http_url, "/skipByMessageIds") as without,
        lacking(without, "/configuration/runtime") as silent,
    ):
        cli = BrokerCli(broker.url, broker.http_url)
        bench = Bench(cli, without, [])
        ids = bench.fill(["a", "b"], ["c"])
        for way in WAYS:
            ran = bench.skip(way, "--messageId-triplet", id_text(ids[0]))
            assert (ran.code, ran.out) == (6, "")
            assert "405" in ran.err
        assert bench.left() == ["a", "b", "c"]
        assert bench.skip("acks", "--messageId-triplet", id_text(ids[2])).code == 0
        assert bench.left() == ["a", "b"]
        # Of one that does not tell the operator is warned: such an ack is kept by the client alone.
        bench = Bench(cli, silent, [])
        ids = bench.fill(["a", "b"])
        ran = bench.skip("acks", "--messageId-triplet", id_text(ids[0]))
        assert (ran.code, "cannot see whether" in ran.err) == (0, True)
        assert bench.left() == ["a", "b"]


# ---- Ids -------------------------------------------------------------------------


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1), st.none() | st.integers(0, 2**31 - 1))
def test_triplets_read_back(ledger: int, entry: int, index: int | None) -> None:
    text = f"{ledger}:{entry}" if index is None else f"{ledger}:{entry}:{index}"
    id = parse_triplet(text)
    assert id_text(id) == text
    assert parse_id(text) == id
    assert place_json("-m", text)["ledgerId"] == ledger
    body = request_body([id])
    assert body["type"] == "messageId"
    if ledger < 2**63 - 1:
        assert parse_id(id.to_base64()) == id


@given(st.text())
def test_any_text_is_an_id_or_refused(text: str) -> None:
    for read in (parse_triplet, parse_base64, parse_id):
        try:
            id = read(text)
        except InvalidMessageIdError as error:
            assert str(error).startswith("not a message id: ")
        else:
            assert id.ledger_id() >= 0
            assert id.entry_id() >= 0


def test_ids_that_say_more_go_as_bytes() -> None:
    plain = MessageId(ledger_id=1, entry_id=2)
    chunked = ChunkMessageId(plain, MessageId(ledger_id=1, entry_id=5))
    for other in (MessageId(3, 1, 2), chunked):
        body = request_body([plain, other])
        assert body == {
            "type": "byteArray",
            "messageIds": [plain.to_base64(), other.to_base64()],
        }


def test_a_position_is_a_name_or_an_id() -> None:
    assert place_json("-m", "earliest")["entryId"] == -1
    assert place_json("-m", "latest")["entryId"] == 2**63 - 1
    assert place_json("-m", "1:2:3")["batchIndex"] == 3
    assert place_json("-m", MessageId(7, 1, 2).to_base64())["partitionIndex"] == 7
    with pytest.raises(SettingsError, match="earliest, latest or ledger:entry"):
        place_json("-m", "middle")


# ---- What consumers have queued --------------------------------------------------


def test_it_says_from_whom_a_message_was_taken_back(bench: Bench) -> None:
    ids = bench.fill(["a"], ["b"], ["c"])
    with magnetar.Client(bench.cli.url) as client:
        consumer = client.subscribe(
            bench.topic, "sub", magnetar.ConsumerType.Shared, consumer_name="worker"
        )
        assert consumer.receive(30_000).data() == b"a"
        (part,) = consumer._consumer.parts.values()
        wait_until(lambda: part.core.queue_length() == 2, lambda: "not all are queued")
        texts = [arg for id in ids[:2] for arg in ("--messageId-triplet", id_text(id))]
        rows = json.loads(bench.skip("request", *texts, "--json").out)["messageIds"]
        assert [row.get("takenBackFrom") for row in rows] == [None, ["worker"]]
        assert [row.get("handedOutTo") for row in rows] == [["worker"], None]
        left = bench.skip(
            "request", "--messageId-triplet", id_text(ids[2]), "--no-recall", "--json"
        )
        assert "takenBackFrom" not in json.loads(left.out)["messageIds"][0]
        assert consumer.receive(30_000).data() == b"c"


# ---- Lists that are too long -----------------------------------------------------


@pytest.mark.parametrize("partitions", [0, 3])
def test_a_list_that_is_too_long_goes_in_several_requests(
    bench: Bench, partitions: int, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = [f"{number}" for number in range(30)]
    ids = bench.fill(*[[text] for text in texts], partitions=partitions)
    topic = TopicName.parse(bench.topic)
    with AdminClient(bench.cli.admin_url) as admin:
        skipped = send_skips(admin, topic, "sub", ids[:-1], recall=None, bytes_max=300)
        assert skipped.requests >= 3
        assert (skipped.skipped, len(skipped.message_ids)) == (29, 29)
        assert "are too many for one request" in capsys.readouterr().err
    assert len(bench.left()) == 1


def test_of_a_list_that_is_too_long_nothing_goes_if_an_id_is_bad(bench: Bench) -> None:
    ids = bench.fill(*[[f"{number}"] for number in range(9)])
    bad = MessageId(ledger_id=ids[0].ledger_id(), entry_id=10_000)
    topic = TopicName.parse(bench.topic)
    with AdminClient(bench.cli.admin_url) as admin, pytest.raises(NoSuchEntryError):
        send_skips(admin, topic, "sub", [*ids, bad], recall=None, bytes_max=100)
    assert len(bench.left()) == 9


def test_four_hundred_thousand_ids_are_answered_and_not_cut_off(bench: Bench) -> None:
    """The broker reads all of a body that it does not take, so that its sender sees the answer."""
    bench.fill(["a"])
    topic = TopicName.parse(bench.topic)
    path = subscription_path(topic, "sub", "skipByMessageIds")
    body = {"type": "messageId", "messageIds": [{"ledgerId": 1 << 40, "entryId": 1}] * 400_000}
    with AdminClient(bench.cli.admin_url) as admin, pytest.raises(AdminError) as told:
        admin.post(path, body)
    assert told.value.status == 413
    assert "send it in several requests" in str(told.value)
