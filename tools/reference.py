"""Writes what docs/reference says of the code, from the code; `--check` only compares.

A page has text of its own, and sections between two marks, which are written anew:

    <!-- settings, by tools/reference.py -->
    ...
    <!-- end -->
"""

import argparse
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cli_reference
import option_docs
import python_reference
from opentelemetry.metrics import NoOpMeterProvider

from magnetar import errors
from magnetar.admin.http.required_permission import Need
from magnetar.admin.http.routes import ROUTES
from magnetar.admin.metric import declaration
from magnetar.broker.setting.setting import BOOL, COUNT, NAMES, TEXT, Setting
from magnetar.broker.setting.settings import SECTIONS, BrokerSettings
from magnetar.broker.setting.text_limits import TEXT_LIMITS
from magnetar.cli.exit_code import EXIT_CODES, exit_code_of
from magnetar.client.telemetry.telemetry import Telemetry
from magnetar.spark.plan import options

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "docs" / "reference"
MARKED = re.compile(r"(<!-- ([a-z ]+), by tools/reference.py -->\n).*?(<!-- end -->)", re.DOTALL)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="only compare")
    check: bool = parser.parse_args().check
    written = {page: completed(page) for page in sorted(PAGES.glob("*.md"))}
    written |= {source: option_docs.completed(source) for source in option_docs.files()}
    stale = [path for path, text in written.items() if path.read_text() != text]
    for path in stale:
        if check:
            print(f"{path.relative_to(ROOT)} is not up to date: run make reference")
        else:
            path.write_text(written[path])
            print(f"wrote {path.relative_to(ROOT)}")
    undocumented = list(python_reference.undocumented())
    for name in undocumented:
        print(f"{name} has no docstring, or its option no meaning in client/option/meaning.py")
    return int(bool(undocumented) or (check and bool(stale)))


def completed(page: Path) -> str:
    """The page with its sections as they should be."""
    return MARKED.sub(_section, page.read_text())


def _section(match: re.Match[str]) -> str:
    lines = PARTS[match[2]]()
    return match[1] + "\n" + "\n".join(lines) + "\n\n" + match[3]


def table(*columns: str) -> list[str]:
    return [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]


def row(*cells: str) -> str:
    return "| " + " | ".join([cell.replace("|", "\\|") for cell in cells]) + " |"


# ---- Configuration ---------------------------------------------------------------------


def settings() -> Iterator[str]:
    for heading, section in SECTIONS.items():
        yield from ("", f"### {heading}", "")
        yield from table("setting", "default", "unit", "Pulsar's key", "what it says")
        for name, setting in section.items():
            keys = ", ".join([f"`{key}`" for key in setting.conf])
            default = _default(name)
            shown = f"`{default}`" if default else ""
            yield row(f"`{name}`", shown, _unit(setting), keys, setting.meaning)


def _default(name: str) -> str:
    value = BrokerSettings().value_of(name)
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def _unit(setting: Setting) -> str:
    return "" if setting.kind in (BOOL, COUNT, TEXT, NAMES) else setting.kind


def texts() -> Iterator[str]:
    yield from table("text", "limit", "setting", "because")
    for limit in TEXT_LIMITS:
        size = f"{limit.bytes_max:,}"
        if limit.count_max:
            size += f", and {limit.count_max} {limit.things}"
        yield row(limit.noun, size, f"`{limit.setting}`" if limit.setting else "", limit.reason)


# ---- REST ------------------------------------------------------------------------------


def routes() -> Iterator[str]:
    yield from table("method", "path", "for")
    for route in sorted(ROUTES, key=lambda route: (route.path, route.method)):
        plain = re.sub(r"\{(\w+):[^}]*\}", r"{\1}", route.path)
        yield row(route.method, f"`{plain}`", _need(route.need))


def _need(need: Need) -> str:
    if need.operation:
        return f"roles that may {need.operation} the {need.kind}"
    return ASKS[need.kind]


ASKS = {
    "public": "everybody",
    "metrics": "everybody, unless `authenticate_metrics` is set",
    "anyone": "everybody who is known",
    "superuser": "superusers",
    "admin": "admins of the tenant",
}


# ---- Errors ----------------------------------------------------------------------------


def hierarchy() -> Iterator[str]:
    assert errors.__doc__ is not None
    tree = [line[4:] for line in errors.__doc__.splitlines() if line.startswith("    ")]
    yield from ("```text", *tree, "```")


def exceptions() -> Iterator[str]:
    yield from table("error", "is also", "means", "exit code")
    for name in errors.__all__:
        kind: type[errors.MagnetarError] = getattr(errors, name)
        bases = [base.__name__ for base in kind.__mro__[1:-2]]
        others = [base for base in bases if base not in ("Exception", "MagnetarError")]
        code = str(exit_code_of(kind.__new__(kind)))
        yield row(f"`{name}`", ", ".join(others), cli_reference.sentence(kind.__doc__), code)


def exit_codes() -> Iterator[str]:
    yield from table("exit code", "means")
    for code, meaning in EXIT_CODES.items():
        yield row(str(code), meaning)


# ---- Metrics ---------------------------------------------------------------------------

LABELS = ("cluster", "cluster, namespace", "and topic", "and subscription", "and reason")


def broker_metrics() -> Iterator[str]:
    yield from table("metric", "kind", "labels", "is")
    for labels, level in zip(LABELS, declaration.LEVELS, strict=True):
        for name, kind, meaning in level:
            yield row(f"`{name}`", kind, labels, meaning.removesuffix("."))
        if level is declaration.BROKER:
            for name, meaning, _ in declaration.HISTOGRAMS:
                yield row(f"`{name}`", "histogram", labels, meaning.removesuffix("."))
            yield row("`magnetar_build_info`", "gauge", "and version, python, compiled", "1")
            yield row("`pulsar_version_info`", "gauge", "and version", "1")


class _Catalogue(NoOpMeterProvider):
    """Takes down which instruments are made."""

    def __init__(self) -> None:
        self.made: list[tuple[str, str, str, str]] = []

    def get_meter(self, *arguments: Any, **named: Any) -> Any:
        return self

    def create_histogram(self, name: str, unit: str, description: str, **more: Any) -> None:
        self.made.append((name, "histogram", unit, description))

    def create_observable_counter(self, name: str, _: Any, unit: str, description: str) -> None:
        self.made.append((name, "counter", unit, description))

    def create_observable_up_down_counter(
        self, name: str, _: Any, unit: str, description: str
    ) -> None:
        self.made.append((name, "gauge", unit, description))


def client_metrics() -> Iterator[str]:
    catalogue = _Catalogue()
    Telemetry(meter_provider=catalogue, traces=False)
    yield from table("metric", "kind", "unit", "is")
    for name, kind, unit, meaning in sorted(catalogue.made):
        yield row(f"`{name}`", kind, unit.strip("{}"), meaning)


# ---- Spark -----------------------------------------------------------------------------


def spark(names: dict[str, str]) -> Callable[[], Iterator[str]]:
    def lines() -> Iterator[str]:
        yield from table("option", "means")
        for name, meaning in names.items():
            yield row(f"`{name}`", meaning)

    return lines


PARTS: dict[str, Callable[[], Iterator[str]]] = {
    "commands": cli_reference.lines,
    "settings": settings,
    "texts": texts,
    "routes": routes,
    "hierarchy": hierarchy,
    "exceptions": exceptions,
    "exit codes": exit_codes,
    "broker metrics": broker_metrics,
    "client metrics": client_metrics,
    "connection options": spark(options.CONNECTION),
    "read options": spark(options.READ),
    "write options": spark(options.WRITE),
    "skip options": spark(options.SKIP),
    **python_reference.PARTS,
}


if __name__ == "__main__":
    sys.exit(main())
