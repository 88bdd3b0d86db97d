"""A proxy in front of a broker, through which tests break connections."""

import asyncio
import contextlib
import ssl
import struct
from collections.abc import Callable, Coroutine
from typing import Any, Self

from magnetar.protocol import pulsar_pb2 as pb


class Proxy:
    """Passes connections on, breaks them, and leaves out what it is told to.

    Lookups that come through it lead back to it, so everything else comes through it too.
    `passes` is asked about each command of the broker, by its type.
    """

    def __init__(self, url: str, tls: ssl.SSLContext | None = None, port: int = 0) -> None:
        host, _, target_port = url.removeprefix("pulsar://").partition(":")
        self._target = (host, int(target_port))
        self._tls = tls
        self.url = ""
        self.port = port
        self.passes: Callable[[pb.BaseCommand], bool] = lambda command: True
        self.heard: list[pb.BaseCommand] = []
        self.accepted = 0
        self.refusing = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(
            self._accept, "127.0.0.1", self.port, ssl=self._tls
        )
        self.port = self._server.sockets[0].getsockname()[1]
        scheme = "pulsar" if self._tls is None else "pulsar+ssl"
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, *error: object) -> None:
        self._server.close()
        self.cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Breaks every connection."""
        for writer in self._writers:
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.accepted += 1
        try:
            if not self.refusing:
                with contextlib.suppress(OSError):  # nobody is behind it now
                    await self._pass_on(reader, writer)
        finally:
            writer.transport.abort()
            self._tasks.discard(task)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back_reader, back_writer = await asyncio.open_connection(*self._target)
        self._writers |= {writer, back_writer}
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await self._both(
                    self._copy(reader, back_writer, self.heard.append),
                    self._copy(back_reader, writer, None),
                )
        finally:
            back_writer.transport.abort()
            self._writers -= {writer, back_writer}

    async def _both(self, *ways: Coroutine[Any, Any, None]) -> None:
        tasks = [asyncio.ensure_future(way) for way in ways]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _copy(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        hear: Callable[[pb.BaseCommand], object] | None,
    ) -> None:
        while True:
            (size,) = struct.unpack(">I", await reader.readexactly(4))
            frame = await reader.readexactly(size)
            (command_size,) = struct.unpack_from(">I", frame)
            command = pb.BaseCommand.FromString(frame[4 : 4 + command_size])
            if hear is not None:
                hear(command)
            elif not self.passes(command):
                continue
            if command.HasField("lookupTopicResponse"):
                frame = self._lead_back(command)
            await self.send(writer, struct.pack(">I", len(frame)) + frame)

    async def send(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        """Passes one frame on."""
        writer.write(data)
        await writer.drain()

    def _lead_back(self, command: pb.BaseCommand) -> bytes:
        answer = command.lookupTopicResponse
        if self._tls is None:
            answer.brokerServiceUrl = self.url
        else:
            answer.brokerServiceUrlTls = self.url
        encoded = command.SerializeToString()
        return struct.pack(">I", len(encoded)) + encoded
