"""Topics by a pattern: where it looks, and what it finds."""

import re

from magnetar.errors import InvalidConfiguration
from magnetar.model import TopicName

__all__ = ["matching", "namespace_of", "whole_pattern"]


def whole_pattern(pattern: str) -> str:
    """Returns a topics pattern with its domain, tenant and namespace.

    >>> whole_pattern("orders-.*")
    'persistent://public/default/orders-.*'
    """
    domain, mark, rest = pattern.partition("://")
    if not mark:
        domain, rest = "persistent", pattern
    if "/" not in rest:
        rest = f"public/default/{rest}"
    return f"{domain}://{rest}"


def namespace_of(pattern: str) -> str:
    """Returns the namespace that a whole pattern looks in. Raises InvalidConfiguration."""
    parts = pattern.partition("://")[2].split("/", 2)
    if len(parts) != 3:
        raise InvalidConfiguration(
            f"topics pattern {pattern!r} has no namespace: write tenant/namespace/pattern"
        )
    return f"{parts[0]}/{parts[1]}"


def matching(pattern: "re.Pattern[str]", names: list[str]) -> list[str]:
    """Returns the topics among these that match, partitioned ones once. Domains do not count."""
    expression = re.compile(whole_pattern(pattern.pattern).partition("://")[2], pattern.flags)
    found: dict[str, None] = {}
    for name in names:
        whole = str(TopicName.parse(name).partitioned)
        if any(expression.fullmatch(one.partition("://")[2]) for one in (whole, name)):
            found[whole] = None
    return list(found)
