"""`magnetar serve`: a broker in the foreground, until it is told to stop."""

import argparse
import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Coroutine
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import magnetar
from magnetar.cli.build import build
from magnetar.cli.exit_code import DONE, REFUSED
from magnetar.cli.interrupt import uninterrupted
from magnetar.cli.serve_log import LEVELS, check_log, start_log
from magnetar.errors import MagnetarError, SettingsError

if TYPE_CHECKING:
    from magnetar.admin.http.server import HttpServer
    from magnetar.broker.setting.settings import BrokerSettings
    from magnetar.broker.shell.server import BrokerServer
    from magnetar.websocket.service import WebSocketService

__all__ = ["READY", "STOPPING", "Plan", "notify", "plan_of", "run"]

log = logging.getLogger("magnetar.serve")

# The stack of each thread beside the loop's.
THREAD_STACK_BYTES: Final = 1 << 20


DEFAULT_CONFIG = "magnetar.toml"
# What a service manager is told.
READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"


def run(arguments: list[str]) -> int:
    """Serves until told to stop; the exit code."""
    try:
        with uninterrupted():
            plan = plan_of(arguments)
    except MagnetarError as error:
        return _refuse(str(error))
    # What is not installed is told before anything is opened: a store is not to be left so.
    import magnetar.admin.http.server  # noqa: F401

    start_log(plan.log_level, plan.log_format)
    return _run(_serve(plan))


def plan_of(arguments: list[str]) -> "Plan":
    """Returns what these arguments, the environment and files of settings ask for.

    Raises SettingsError, and SystemExit for what is no option.
    """
    given = _parser().parse_args(arguments)
    # On the command line alone: it is meant for one start.
    return Plan(_options(given), given.config, given.broker_conf, accept_loss=given.accept_loss)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="magnetar serve",
        description="Run the broker until SIGTERM or Ctrl-C. One line on "
        "standard output says when, and where.",
        epilog="Every option can be given as a variable MAGNETAR_<OPTION> too, and every setting "
        "in magnetar.toml, in a broker.conf or as MAGNETAR_<SETTING>; "
        "docs/reference/configuration.md lists them.",
    )
    add = parser.add_argument
    add("--data", metavar="DIR", help="data directory (default: ./magnetar-data)")
    add("--host", help="address to listen on (default: 127.0.0.1)")
    add("--port", help="port for clients; 0 picks a free one (default: 6650; none with TLS)")
    add(
        "--http-port",
        metavar="PORT",
        help="port for admin REST; 0 picks a free one (default: 8080; none with TLS)",
    )
    add(
        "--tls-port",
        metavar="PORT",
        help="port for clients over TLS (default: 6651 with a certificate)",
    )
    add(
        "--https-port",
        metavar="PORT",
        help="port for admin REST over TLS (default: 8443 with a certificate)",
    )
    add(
        "--advertised-host",
        metavar="NAME",
        help="host name that clients are told to connect to: the name in the certificate",
    )
    add(
        "--insecure",
        action="store_true",
        help="serve other machines without TLS: tokens and messages can be read on the network",
    )
    add(
        "--config",
        type=Path,
        metavar="FILE",
        help="file with settings (default: ./magnetar.toml, if it exists)",
    )
    add(
        "--broker-conf",
        type=Path,
        metavar="FILE",
        help="file with settings in Apache Pulsar's broker.conf format",
    )
    add(
        "--accept-loss",
        action="store_true",
        help="start with what is left if the catalog was lost or damaged",
    )
    add("--memory", action="store_true", help="store nothing on disk (for tests)")
    add("--log-level", metavar="LEVEL", help=f"{', '.join(LEVELS)} (default: info)")
    add(
        "--log-format",
        metavar="FORMAT",
        help="text, or json: one object on each line (default: text)",
    )
    add(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="any setting, e.g. --set ttl_seconds=60; may be repeated",
    )
    return parser


def _options(given: argparse.Namespace) -> dict[str, str]:
    options: dict[str, str] = {}
    for item in given.set:
        name, equals, value = item.partition("=")
        if not equals:
            raise SettingsError("--set", f"{item!r} is not a setting: write it as NAME=VALUE")
        options[name] = value
    ours = ("data", "host", "port", "http_port", "tls_port", "https_port", "advertised_host")
    for name in (*ours, "log_level", "log_format"):
        if getattr(given, name) is not None:
            options[name] = getattr(given, name)
    if given.memory:
        options["memory"] = "true"
    if given.insecure:
        options["insecure"] = "true"
    return options


def _refuse(reason: str) -> int:
    print(f"magnetar: {reason}", file=sys.stderr)
    return REFUSED


class Plan:
    """What to serve, from all sources."""

    def __init__(
        self,
        options: dict[str, str],
        config: Path | None,
        broker_conf: Path | None,
        *,
        accept_loss: bool = False,
    ) -> None:
        from magnetar.broker.setting.settings_load import load_settings, reserved_values

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
        values = self._of_broker_conf(loaded.options) | values
        self.data = Path(values.get("data", "magnetar-data"))
        self.memory = _flag("memory", values.get("memory", "false"))
        self.accept_loss = accept_loss
        self.log_level = values.get("log_level", "info")
        self.log_format = values.get("log_format", "text")
        check_log(self.log_level, self.log_format)
        self.host = values.get("host", "127.0.0.1")
        self.advertised_host = values.get("advertised_host", "")
        tls = bool(self.settings.tls_certificate_file)
        # With a certificate plain ports are opened only if somebody asks for them here.
        self.port = _port("port", values.get("port", "" if tls else "6650"))
        self.http_port = _port("http_port", values.get("http_port", "" if tls else "8080"))
        self.tls_port = _port("tls_port", values.get("tls_port", "6651" if tls else ""))
        self.https_port = _port("https_port", values.get("https_port", "8443" if tls else ""))
        for name, port in (("tls_port", self.tls_port), ("https_port", self.https_port)):
            if port is not None and not tls:
                raise SettingsError(name, "TLS needs tls_certificate_file and tls_key_file")
        if self.port is None and self.tls_port is None:
            raise SettingsError(
                "port", "there is no port for clients, with or without TLS: give one"
            )
        if not _is_loopback(self.host):
            self._check_reach(_flag("insecure", values.get("insecure", "false")))

    def _of_broker_conf(self, options: dict[str, str]) -> dict[str, str]:
        """Returns what it says of ports and names; every such file has the plain ports in it."""
        plain = [name for name in ("port", "http_port") if name in options]
        if self.settings.tls_certificate_file and plain:
            self.notices.append(
                "without effect, since with a certificate plain ports are opened by --port and "
                "--http-port alone: brokerServicePort, webServicePort"
            )
            return {name: options[name] for name in options if name not in plain}
        return options

    def _check_reach(self, insecure: bool) -> None:
        """Raises SettingsError if other machines could connect without proof, or without TLS."""
        if not self.settings.authentication:
            raise SettingsError(
                "host",
                f"{self.host} is open to other machines, and anybody there could do everything: "
                "set authentication, with tokens (`magnetar tokens init`) or client certificates; "
                "docs/security.md tells how",
            )
        plain = self.port is not None or self.http_port is not None
        if plain and not insecure:
            raise SettingsError(
                "host",
                f"{self.host} is open to other machines, and tokens and messages would travel in "
                "the clear: give tls_certificate_file and tls_key_file and leave --port and "
                "--http-port out, or say --insecure",
            )


def _read(path: Path, option: str) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(option, f"cannot read {path}: {error}") from error


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _port(name: str, text: str) -> int | None:
    """Returns a port; None if the text is empty. Raises SettingsError."""
    if not text:
        return None
    if not text.isdecimal() or int(text) > 65535:
        raise SettingsError(name, f"{text!r} is not a port: give 0 to 65535")
    return int(text)


def _flag(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false", "1", "0", "yes", "no"):
        raise SettingsError(name, f"{text!r} is neither true nor false")
    return text.lower() in ("true", "1", "yes")


def _raise_file_limit() -> None:
    """Asks for as many descriptors as we may have: connections take one each, and so do large
    ledgers."""
    try:
        import resource
    except ImportError:
        return  # Windows has no such limit
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _run(serving: Coroutine[Any, Any, int]) -> int:
    # Modules and their functions stay: recovery would have them looked through again and again.
    # What comes after it is the matter of `garbage.py`.
    gc.freeze()
    try:
        import uvloop
    except ImportError:
        return asyncio.run(serving)
    return uvloop.run(serving)


async def _serve(plan: Plan) -> int:
    for notice in plan.notices:
        log.info("%s", notice)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    # Threads that write must not wait long for this one: see docs/internals/storage.md.
    sys.setswitchinterval(0.0005)
    # They read and write files, and the 8 MiB that each would get count where memory is limited.
    threading.stack_size(THREAD_STACK_BYTES)
    _raise_file_limit()
    from magnetar.broker.shell.garbage import GarbageRuns

    try:
        broker = await _start_broker(plan)
        https = await _start_http(plan, broker)
    except _Refused as error:
        return _refuse(str(error))
    if plan.settings.authentication and not plan.settings.super_user_roles:
        log.warning("super_user_roles is empty: nobody can make tenants or grant the first right")
    urls = [broker.service_url(plan.host), broker.http_url, broker.url_tls, broker.http_url_tls]
    _log_banner(plan, [url for url in urls if url])
    garbage = GarbageRuns(lambda: broker.broker.left_behind, lambda: broker.broker.quiet)
    garbage.start()
    print("ready", *[url for url in urls if url], flush=True)
    notify(READY)
    await stop.wait()
    notify(STOPPING)
    await _stop(broker, https)
    garbage.stop()
    return DONE


def _log_banner(plan: Plan, urls: list[str]) -> None:
    """Says what is served and where, for whoever started it and for whoever reads its log."""
    log.info("Magnetar %s, %s", magnetar.__version__, build())
    log.info(
        "data: %s", "in memory, gone with this process" if plan.memory else plan.data.absolute()
    )
    log.info("authentication: %s", _authentication(plan))
    log.info("clients and admin REST: %s", ", ".join(urls))


def _authentication(plan: Plan) -> str:
    if not plan.settings.authentication:
        return "off, and everybody on this machine may do everything"
    roles = ", ".join(plan.settings.super_user_roles) or "nobody"
    return f"on, and these may do everything: {roles}"


class _Refused(Exception):
    """Why it does not come up."""


async def _start_broker(plan: Plan) -> "BrokerServer":
    from magnetar.broker.shell.server import BrokerServer
    from magnetar.storage import Catalog, FileDisk, MemoryDisk
    from magnetar.storage.catalog.catalog_guard import open_catalog

    def catalog() -> Catalog:
        if plan.memory:
            return Catalog()
        known = broker.store.catalog_mark
        return open_catalog(plan.data, known, accept_loss=plan.accept_loss)

    try:
        broker = BrokerServer(
            MemoryDisk() if plan.memory else FileDisk(plan.data),
            catalog,
            plan.settings,
            host=plan.host,
            port=plan.port,
            tls_port=plan.tls_port,
            advertised_host=plan.advertised_host,
            version=f"Magnetar {magnetar.__version__}",
        )
        await broker.start()
    except MagnetarError as error:
        reason = str(error)
        known = plan.memory or isinstance(error, SettingsError) or str(plan.data) in reason
        raise _Refused(reason if known else f"{plan.data}: {reason}") from None
    except OSError as error:
        ports = "/".join(str(port) for port in (plan.port, plan.tls_port) if port is not None)
        why = error.strerror or error
        raise _Refused(f"cannot listen on {plan.host}:{ports}: {why}") from None
    return broker


async def _start_http(plan: Plan, broker: "BrokerServer") -> "list[HttpServer]":
    """Stops the broker if it cannot be done."""
    from magnetar.admin.http.server import HttpServer

    started: list[HttpServer] = []
    try:
        websockets = _websockets(plan, broker)
    except SettingsError as error:
        await _stop(broker, started)
        raise _Refused(str(error)) from None
    for port, tls in ((plan.http_port, False), (plan.https_port, True)):
        if port is None:
            continue
        http = HttpServer(broker, plan.host, port, tls=tls, websockets=websockets)
        try:
            await http.start()
        except OSError as error:
            await _stop(broker, started)
            why = error.strerror or error
            raise _Refused(f"cannot listen on {plan.host}:{port} for HTTP: {why}") from None
        started.append(http)
    return started


def _websockets(plan: Plan, broker: "BrokerServer") -> "WebSocketService | None":
    if not plan.settings.websocket:
        return None
    from magnetar.websocket.service import WebSocketService

    return WebSocketService(broker)


def notify(state: str) -> None:
    """Tells the service manager that something is so now: systemd's `Type=notify`.

    It names a socket in NOTIFY_SOCKET. Without it nothing is told.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]  # one that is in no file system
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.sendto(state.encode(), address)
    except OSError as error:
        log.warning("the service manager was not told %s: %s", state, error)


async def _stop(broker: "BrokerServer", https: "list[HttpServer]") -> None:
    for http in https:
        await http.stop()
    await broker.stop()
