"""Work on many topics is done a few at a time (I10): others have their turn in between."""

import asyncio

from support.served import Served

from magnetar.admin.http.bridge import AT_ONCE, at_ease
from magnetar.broker.topic.topic import Topic

PARTITIONS = 3 * AT_ONCE
NAME = "public/default/many"


def test_others_have_their_turn_between_a_few_items() -> None:
    turns: list[int] = []
    done: list[int] = []

    async def others() -> None:
        while len(done) < PARTITIONS:
            turns.append(len(done))
            await asyncio.sleep(0)

    async def work() -> None:
        waiting = asyncio.create_task(others())
        async for item in at_ease(range(PARTITIONS)):
            done.append(item)
        await waiting

    asyncio.run(work())
    assert done == list(range(PARTITIONS))
    assert turns == [AT_ONCE, 2 * AT_ONCE]


def test_more_partitions_get_the_subscriptions_of_the_topic(served: Served) -> None:
    http = served.http
    path = f"/persistent/{NAME}/partitions"
    assert http.put(path, json=2).status_code == 204
    for number in range(3):
        made = http.put(f"/persistent/{NAME}/subscription/s{number}", json="earliest")
        assert made.status_code == 204
    assert http.post(path, json=PARTITIONS).status_code == 204

    def names() -> list[set[str]]:
        topics = [served.broker.topics[partition(number)] for number in range(PARTITIONS)]
        return [set(subscriptions_of(topic)) for topic in topics]

    assert served.call(names) == [{"s0", "s1", "s2"}] * PARTITIONS
    stats = http.get(f"/persistent/{NAME}/partitioned-stats").json()
    assert len(stats["partitions"]) == PARTITIONS
    assert set(stats["subscriptions"]) == {"s0", "s1", "s2"}
    assert http.delete(path, params={"force": "true"}).status_code == 204


def partition(number: int) -> str:
    return f"persistent://{NAME}-partition-{number}"


def subscriptions_of(topic: Topic) -> list[str]:
    return list(topic.subscriptions)
