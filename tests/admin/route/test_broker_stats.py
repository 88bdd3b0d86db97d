"""Stats of the whole broker over REST."""

from collections.abc import Callable
from pathlib import Path

from support.broker_process import BrokerProcess
from support.served import Served

from magnetar import __version__
from magnetar.broker.setting.settings import BrokerSettings
from magnetar.errors import DiskError
from magnetar.rest.admin_client import AdminClient


def test_all_loaded_topics_in_one_answer(served: Served) -> None:
    """More of them than are looked at in one turn."""
    namespace = served.namespace()
    names = [f"{namespace}/t{number}" for number in range(45)]
    for name in names:
        assert served.http.put(f"/persistent/{name}").status_code == 204
    served.http.put(f"/persistent/{names[0]}/subscription/s")
    served.publish(names[0], 3)
    bundles = served.http.get("/broker-stats/topics").json()[namespace].values()
    topics = {name: stats for one in bundles for name, stats in one["persistent"].items()}
    assert set(topics) == {f"persistent://{name}" for name in names}
    first = topics[f"persistent://{names[0]}"]
    assert first["producerCount"] == len(first["publishers"])
    assert first["subscriptions"]["s"]["msgBacklogMessages"] == 3
    assert first["subscriptions"]["s"]["earliestMsgPublishTimeInBacklog"] == 0
    one = served.http.get(f"/persistent/{names[0]}/stats").json()
    assert set(one) < set(first)


def test_the_age_of_backlogs_if_it_is_asked_for(served: Served, topic: str) -> None:
    served.http.put(f"/persistent/{topic}/subscription/s")
    served.publish(topic, 1)
    options = "getEarliestTimeInBacklog=true&subscriptionBacklogSize=true"
    found = served.http.get(f"/broker-stats/topics?{options}").json()
    (bundle,) = found[topic.rpartition("/")[0]].values()
    subscription = bundle["persistent"][f"persistent://{topic}"]["subscriptions"]["s"]
    one = served.http.get(f"/persistent/{topic}/stats?{options}").json()["subscriptions"]["s"]
    assert subscription["earliestMsgPublishTimeInBacklog"] > 0
    for field in ("earliestMsgPublishTimeInBacklog", "backlogSize"):
        assert subscription[field] == one[field]


def test_what_a_broker_carries(own_broker: Callable[[BrokerSettings], Served]) -> None:
    served = own_broker(BrokerSettings())
    with served.client() as client:
        client.create_producer("persistent://public/default/t")
        client.subscribe("persistent://public/default/t", "s")
        found = served.http.get("/broker-stats/load-report").json()
    assert (found["numTopics"], found["numProducers"], found["numConsumers"]) == (1, 1, 1)
    assert found["numConnections"] == 1
    assert found["brokerVersionString"] == __version__
    assert found["startTimestamp"] == served.broker.started_ms
    assert found["webServiceUrl"] == served.http_url
    assert found["storage"]["freeBytes"] is None
    served.call(lambda: served.broker.store.setbacks.failed("an index", OSError("no room")))
    error = DiskError("write", "log", "the disk is gone")
    served.call(lambda: served.broker.store.log.journal.failed(error))
    storage = served.http.get("/broker-stats/load-report").json()["storage"]
    assert "the disk is gone" in storage["readOnlyReason"]
    assert storage["retrying"] == {"an index": "no room"}


def test_on_a_disk_the_free_space_is_told(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker, AdminClient(broker.http_url) as admin:
        found = admin.get("/admin/v2/broker-stats/load-report")
    assert isinstance(found, dict)
    assert found["storage"]["freeBytes"] > found["storage"]["watermarkBytes"]
    assert found["storage"]["full"] is False
