"""Amounts as people read them."""

__all__ = ["age_text", "bytes_text", "count_text", "rate_text", "short_name"]


def age_text(seconds: float) -> str:
    """Returns how long ago, in the two units that matter.

    >>> [age_text(s) for s in (0.4, 59, 61, 3 * 3600 + 300, 50 * 3600)]
    ['0 s', '59 s', '1 min', '3 h 5 min', '2 d 2 h']
    """
    whole = max(int(seconds), 0)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min"
    if whole < 86_400:
        return _two(whole // 3600, "h", whole % 3600 // 60, "min")
    return _two(whole // 86_400, "d", whole % 86_400 // 3600, "h")


def _two(first: int, unit: str, second: int, smaller: str) -> str:
    return f"{first} {unit} {second} {smaller}" if second else f"{first} {unit}"


def bytes_text(size: float) -> str:
    """Returns a size in the unit that leaves the fewest digits.

    >>> [bytes_text(b) for b in (0, 1023, 1536, 40 << 30)]
    ['0 B', '1023 B', '1.5 KiB', '40 GiB']
    """
    amount = float(size)
    units = ["TiB", "GiB", "MiB", "KiB", "B"]
    unit = units.pop()
    while amount >= 1024 and units:
        amount, unit = amount / 1024, units.pop()
    digits = 0 if unit == "B" or amount >= 10 else 1
    return f"{amount:.{digits}f} {unit}"


def rate_text(rate: float) -> str:
    """Returns so many a second as text, with tenths where they matter.

    >>> [rate_text(r) for r in (0, 0.04, 9.96, 1234.5)]
    ['0', '<0.1', '10', '1,234']
    """
    if not rate:
        return "0"
    if rate < 0.1:
        return "<0.1"
    return f"{rate:.1f}" if rate < 9.95 else f"{rate:,.0f}"


def count_text(count: int | None) -> str:
    return "-" if count is None else f"{count:,}"


def short_name(topic: str, namespace: str) -> str:
    """Returns a topic as one would type it there.

    >>> short_name("persistent://a/b/t", "a/b"), short_name("persistent://a/b/t", "public/default")
    ('t', 'a/b/t')
    """
    name = topic.removeprefix("persistent://")
    return name.removeprefix(f"{namespace}/")
