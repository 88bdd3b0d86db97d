"""One lost ack and the keys that stick because of it; and what auto_retry_acknowledgement does.

    magnetar serve
    python examples/lost_ack.py
    python examples/lost_ack.py pulsar://127.0.0.1:6650 http://127.0.0.1:8080

Consumer a of a Key_Shared subscription gets one message of each of ten keys and acks them.
Between it and the broker stands a proxy that swallows the first ACK and passes everything
else on: nobody sees that anything is wrong. Then consumer b joins and takes over some of
the keys. The broker must not hand it their next messages before a has acked the first ones
(or the order of the keys would be lost), and it never heard of that ack.

This is done twice, side by side, without retries and with them. It takes a minute, for a
client waits half of one for the answer to an ack.
"""

import asyncio
import json
import struct
import sys
import urllib.request

import magnetar
from magnetar import aio
from magnetar.protocol import pulsar_pb2 as pb

URL = sys.argv[1] if sys.argv[1:] else "pulsar://127.0.0.1:6650"
HTTP_URL = sys.argv[2] if sys.argv[2:] else "http://127.0.0.1:8080"
KEYS = [f"k{number}" for number in range(10)]
SUBSCRIPTION = "billing"
WAIT_S = 40


class Proxy:
    """Passes frames on between a client and a broker, but for the first ACK."""

    def __init__(self, url: str) -> None:
        host, _, port = url.removeprefix("pulsar://").partition(":")
        self._broker = (host, int(port))
        self.swallowed = asyncio.Event()
        self.url = ""

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"pulsar://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def close(self) -> None:
        self._server.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_broker = await asyncio.open_connection(*self._broker)
        ways = [self._copy(reader, to_broker[1]), self._copy(to_broker[0], writer)]
        tasks = [asyncio.create_task(way) for way in ways]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for end in (writer, to_broker[1]):
            end.close()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            size = await reader.readexactly(4)
            frame = await reader.readexactly(struct.unpack(">I", size)[0])
            command_size = struct.unpack_from(">I", frame)[0]
            command = pb.BaseCommand.FromString(frame[4 : 4 + command_size])
            if command.HasField("ack") and not self.swallowed.is_set():
                self.swallowed.set()
                continue
            if command.HasField("lookupTopicResponse"):  # else the client would go past us
                command.lookupTopicResponse.brokerServiceUrl = self.url
                body = command.SerializeToString()
                frame = struct.pack(">I", len(body)) + body
                size = struct.pack(">I", len(frame))
            writer.write(size + frame)
            await writer.drain()


class Story:
    """One run: what a user sees is written down, line by line."""

    def __init__(self, topic: str, *, retries: bool) -> None:
        self._topic = topic
        self._retries = retries
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)

    async def tell(self) -> None:
        self.say(f"auto_retry_acknowledgement={self._retries}")
        proxy = Proxy(URL)
        await proxy.open()
        async with aio.Client(proxy.url) as client_a, aio.Client(URL) as client_b:
            a = await self._subscribe(client_a, "a")
            producer = await client_b.create_producer(self._topic, batching_enabled=False)
            await self._publish(producer, "first")
            await a.acknowledge([await a.receive() for _ in KEYS])
            await proxy.swallowed.wait()
            self.say("a got 10 messages and acked them; the ACK was swallowed")
            b = await self._subscribe(client_b, "b")
            await self._publish(producer, "second")
            at_a, at_b = await asyncio.gather(self._keys(a, 5), self._keys(b, 5))
            stuck = sorted(set(KEYS) - {*at_a, *at_b})
            self.say(f"b joined; these keys are stuck: {' '.join(stuck)}")
            self.say(f"the broker says: {await self._holders()}")
            late = await self._keys(b, WAIT_S)
            self.say(f"after {WAIT_S} s b has got: {' '.join(sorted(late)) or 'nothing'}")
            self.say(f"the broker says: {await self._holders()}")
            if len(late) < len(stuck):
                await a.close()
                again = await self._keys(b, 5)
                self.say(
                    f"a is closed: b gets {len(again)} messages, 10 of them for the second time"
                )
        proxy.close()

    async def _subscribe(self, client: aio.Client, name: str) -> aio.Consumer:
        return await client.subscribe(
            self._topic,
            SUBSCRIPTION,
            consumer_type=magnetar.ConsumerType.KeyShared,
            consumer_name=name,
            auto_retry_acknowledgement=self._retries,
        )

    async def _publish(self, producer: aio.Producer, text: str) -> None:
        for key in KEYS:
            await producer.send(text.encode(), partition_key=key)

    async def _keys(self, consumer: aio.Consumer, seconds: float) -> list[str]:
        """Acks what comes, until nothing has come for so long; returns the keys."""
        keys: list[str] = []
        while True:
            try:
                message = await consumer.receive(timeout_millis=int(seconds * 1000))
            except magnetar.Timeout:
                return keys
            await consumer.acknowledge(message)
            keys.append(message.partition_key())
            seconds = min(seconds, 5)

    async def _holders(self) -> str:
        path = f"/admin/v2/persistent/public/default/{self._topic}/stats"
        text = await asyncio.to_thread(lambda: urllib.request.urlopen(HTTP_URL + path).read())
        consumers = json.loads(text)["subscriptions"][SUBSCRIPTION]["consumers"]
        held = {found["consumerName"]: found["unackedMessages"] for found in consumers}
        return ", ".join(f"{name} holds {held[name]}" for name in sorted(held))


async def main() -> None:
    stories = [Story("lost-ack", retries=False), Story("lost-ack-retried", retries=True)]
    async with asyncio.TaskGroup() as tasks:
        for story in stories:
            tasks.create_task(story.tell())
    for story in stories:
        print("\n".join(story.lines))


if __name__ == "__main__":
    asyncio.run(main())
