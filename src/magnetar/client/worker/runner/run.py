"""`run`: workers as a program, until SIGTERM or Ctrl-C."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Any, Unpack

from magnetar.client.door import aio
from magnetar.client.door.blocking import Client
from magnetar.client.door.threads.loop_thread import new_event_loop
from magnetar.client.option.keywords import ClientKeywords
from magnetar.client.worker.runner.aio import AsyncWorker
from magnetar.client.worker.runner.threads import ThreadWorker
from magnetar.errors import UsageError

__all__ = ["run"]

SERVICE_URL = "pulsar://localhost:6650"
SIGNALS = (signal.SIGTERM, signal.SIGINT)


def run(
    *workers: AsyncWorker | ThreadWorker, url: str | None = None, **options: Unpack[ClientKeywords]
) -> None:
    """Runs workers until SIGTERM or SIGINT (Ctrl-C), and returns when they have stopped.

    A signal lets each finish what it has in hand, for as long as its `grace_s` says; a second
    one gives that up. If a worker fails, the others are stopped and its error is raised. The
    broker is that of `url`, else of the environment's MAGNETAR_URL, else the one on this
    machine; `options` are those of a client.

    Args:
        workers: Workers, made by @magnetar.worker.
        url: Service URL; without it that of MAGNETAR_URL, else of the broker on this machine.
        authentication: Proves who the client is: a token, a certificate or a password.
        operation_timeout_seconds: Time for a lookup, for making a producer and for subscribing.
        io_threads: Accepted and ignored: a client has one loop.
        message_listener_threads: Threads that call message listeners; the blocking client only.
        concurrent_lookup_requests: Accepted and ignored: lookups have no limit.
        log_conf_file_path: Accepted and ignored, as in the official client.
        stats_interval_in_seconds: How often statistics are logged; 0 logs none.
        use_tls: Accepted and ignored: the scheme of the service URL decides.
        tls_trust_certs_file_path: CA certificates, a PEM file; without it the system's are trusted.
        tls_allow_insecure_connection: Accept any certificate of the broker, without checking it.
        tls_validate_hostname: Check that the broker's certificate names its host.
        logger: A logging.Logger, or a ConsoleLogger or FileLogger as in the official client.
        connection_timeout_ms: Time for a TCP connection and the handshake on it.
        listener_name: The advertised listener whose address the broker answers lookups with.
        tls_private_key_file_path: The private key of the client's certificate, a PEM file.
        tls_certificate_file_path: The client's certificate, a PEM file.
        keep_alive_interval_seconds: Time between pings; a connection that leaves one unanswered is
            dropped.
        initial_backoff_ms: Wait before the first attempt to reconnect; it doubles each time.
        max_backoff_ms: Longest wait between two attempts to reconnect.
        telemetry: OpenTelemetry metrics and traces: magnetar.client.telemetry.telemetry.Telemetry.
        wait_for_broker: Try again for operation_timeout_seconds when no broker takes the client's
            first connection, instead of failing at once: for programs that start with their broker.
    """
    if not workers:
        raise UsageError("run needs a worker: decorate a function with @magnetar.worker")
    for one in workers:
        if not isinstance(one, (AsyncWorker, ThreadWorker)):
            raise UsageError(f"{one!r} is no worker: decorate the function with @magnetar.worker")
    where = url or os.environ.get("MAGNETAR_URL") or SERVICE_URL
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_run_all(workers, where, options))


async def _run_all(
    workers: tuple[AsyncWorker | ThreadWorker, ...], url: str, options: ClientKeywords
) -> None:
    async with AsyncExitStack() as clients:
        tasks = [_start(one, clients, url, options) for one in workers]
        with _stopped_by_signals(workers):
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for one in workers:
                one.stop()
            await asyncio.wait(tasks)
    for task in tasks:
        task.result()


def _start(
    worker: AsyncWorker | ThreadWorker,
    clients: AsyncExitStack,
    url: str,
    options: ClientKeywords,
) -> "asyncio.Task[None]":
    """Begins a worker on a client of its own, which is closed when all are done."""
    if isinstance(worker, AsyncWorker):
        client = aio.Client(url, **options)
        clients.push_async_callback(client.close)
        return asyncio.create_task(worker.run(client))
    blocking = Client(url, **options)
    clients.push_async_callback(asyncio.to_thread, blocking.close)
    return asyncio.create_task(asyncio.to_thread(worker.begin(blocking).work))


@contextmanager
def _stopped_by_signals(workers: tuple[AsyncWorker | ThreadWorker, ...]) -> Iterator[None]:
    """The first signal stops the workers, the second one gives up what they have in hand."""
    told = False

    def stop() -> None:
        nonlocal told
        for one in workers:
            one.stop(0 if told else None)
        told = True

    if threading.current_thread() is not threading.main_thread():
        yield  # where signals do not come
        return
    loop = asyncio.get_running_loop()
    before = {number: _listen(loop, number, stop) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)


def _listen(loop: asyncio.AbstractEventLoop, number: int, call: Callable[[], None]) -> Any:
    """Has a function called on the loop for a signal, and returns what was called before."""
    before = signal.getsignal(number)
    try:
        loop.add_signal_handler(number, call)
    except NotImplementedError:  # Windows
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(call))
    return before
