"""Skips what a machine cannot run, unless MAGNETAR_REQUIRE says that it must."""

import os

import pytest


def need(name: str, available: bool, how: str) -> None:
    """Goes on if `name` is there; else skips, or fails where it may not be missing."""
    if available:
        return
    if name in os.environ.get("MAGNETAR_REQUIRE", "").split():
        pytest.fail(f"{name} is required here and missing: {how}")
    pytest.skip(f"no {name}: {how}")
