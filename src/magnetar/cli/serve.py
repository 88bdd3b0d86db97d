"""`magnetar serve`: a broker in the foreground, until it is told to stop."""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

import magnetar
from magnetar.cli.console import refusals

if TYPE_CHECKING:
    from magnetar.broker.settings import BrokerSettings

__all__ = ["serve"]

log = logging.getLogger("magnetar.serve")

CANNOT_SERVE = 2
DEFAULT_CONFIG = "magnetar.toml"


def serve(
    data: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Where everything is kept. [default: ./magnetar-data]"),
    ] = None,
    host: Annotated[
        str | None, typer.Option(help="The address to listen on. [default: 127.0.0.1]")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="For clients; 0 picks a free one. [default: 6650]"),
    ] = None,
    http_port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="For admin REST; 0 picks a free one. [default: 8080]"),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Settings as TOML. [default: ./magnetar.toml, if it is there]"
        ),
    ] = None,
    broker_conf: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Settings as Apache Pulsar's broker.conf.")
    ] = None,
    memory: Annotated[
        bool | None, typer.Option("--memory", help="Keep nothing on disk: for tests.")
    ] = None,
    set: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any setting, e.g. --set ttl_seconds=60."),
    ] = None,
) -> None:
    """Serve topics to Pulsar clients, until SIGTERM or Ctrl-C.

    Every option can be given as a variable MAGNETAR_<OPTION> too, and every setting in
    magnetar.toml, in a broker.conf or as MAGNETAR_<SETTING>; docs/reference/configuration.md
    lists them. One line on stdout says when it serves, and where.
    """
    given = {
        "data": data,
        "host": host,
        "port": None if port is None else str(port),
        "http_port": None if http_port is None else str(http_port),
        "memory": None if memory is None else str(memory).lower(),
    }
    options = {name: value for name, value in given.items() if value is not None}
    for item in set or []:
        name, equals, value = item.partition("=")
        if not equals:
            refuse(f"--set {item}: write it as NAME=VALUE")
        options[name] = value
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s"
    )
    with refusals():
        plan = _Plan(options, config, broker_conf)
    _run(_serve(plan))


def refuse(reason: str) -> NoReturn:
    typer.echo(f"magnetar: {reason}", err=True)
    raise typer.Exit(CANNOT_SERVE)


class _Plan:
    """What to serve, from all sources."""

    def __init__(
        self, options: dict[str, str], config: Path | None, broker_conf: Path | None
    ) -> None:
        from magnetar.broker.settings_load import load_settings, reserved_values

        before = reserved_values(None, os.environ, {})
        config = config or (Path(before["config"]) if "config" in before else None)
        if config is None and Path(DEFAULT_CONFIG).is_file():
            config = Path(DEFAULT_CONFIG)
        toml = None if config is None else _read(config, "config")
        values = reserved_values(toml, os.environ, options)
        if broker_conf is None and "broker_conf" in values:
            broker_conf = Path(values["broker_conf"])
        conf = None if broker_conf is None else _read(broker_conf, "broker_conf")
        loaded = load_settings(toml, os.environ, conf, options)
        self.settings: BrokerSettings = loaded.settings
        self.notices: list[str] = loaded.notices
        self.data = Path(values.get("data", "magnetar-data"))
        self.memory = _flag("memory", values.get("memory", "false"))
        self.host = values.get("host", "127.0.0.1")
        self.port = _port("port", values.get("port", "6650"))
        self.http_port = _port("http_port", values.get("http_port", "8080"))


def _read(path: Path, option: str) -> str:
    from magnetar.errors import SettingsError

    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(option, f"cannot read {path}: {error}") from error


def _port(name: str, text: str) -> int:
    from magnetar.errors import SettingsError

    if not text.isdecimal() or int(text) > 65535:
        raise SettingsError(name, f"{text!r} is no port: give 0 to 65535")
    return int(text)


def _flag(name: str, text: str) -> bool:
    from magnetar.errors import SettingsError

    if text.lower() not in ("true", "false", "1", "0", "yes", "no"):
        raise SettingsError(name, f"{text!r} is neither true nor false")
    return text.lower() in ("true", "1", "yes")


def _run(serving: Coroutine[Any, Any, None]) -> None:
    try:
        import uvloop
    except ImportError:
        asyncio.run(serving)
    else:
        uvloop.run(serving)


async def _serve(plan: _Plan) -> None:
    from magnetar.admin.http import HttpServer
    from magnetar.broker.server import BrokerServer
    from magnetar.errors import MagnetarError
    from magnetar.storage import Catalog, FileDisk, MemoryDisk

    for notice in plan.notices:
        log.info("%s", notice)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    # Threads that write must not wait long for this one: see docs/internals/storage.md.
    sys.setswitchinterval(0.0005)
    try:
        disk = MemoryDisk() if plan.memory else FileDisk(plan.data)
        broker = BrokerServer(
            disk,
            lambda: Catalog(None if plan.memory else plan.data),
            plan.settings,
            host=plan.host,
            port=plan.port,
            version=f"Magnetar {magnetar.__version__}",
        )
        await broker.start()
    except (MagnetarError, OSError) as error:
        refuse(str(error))
    try:
        http = HttpServer(broker, plan.host, plan.http_port)
        await http.start()
    except OSError as error:
        await broker.stop()
        refuse(f"cannot listen on {plan.host}:{plan.http_port} for HTTP: {error}")
    print(f"ready {broker.url} {http.url}", flush=True)
    await stop.wait()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.remove_signal_handler(number)
    with contextlib.suppress(asyncio.CancelledError):
        await http.stop()
        await broker.stop()
