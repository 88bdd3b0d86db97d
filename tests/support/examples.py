"""How many examples hypothesis tries where a property wants more or fewer than others."""

from hypothesis import settings

# What the profile `ci` tries, to which every other number is set in relation.
USUAL = 100
MOST = 5000


def examples(wanted: int) -> int:
    """`wanted` in the profile `ci`, and as much fewer or more as another profile asks for."""
    return max(1, min(wanted * settings().max_examples // USUAL, MOST))
