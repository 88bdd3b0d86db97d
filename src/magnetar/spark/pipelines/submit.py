"""A pipeline as a job to submit: `spark-submit` runs a file, `python -m` a module.

    spark-submit --master spark://host:7077 audit.py --url pulsar://host:6650 -t orders -s billing

It is the command of the same name, and has its options; those that all commands have, such as
--url, may stand anywhere among them.
"""

import importlib
import sys

__all__ = ["submitted"]

# Options that stand before the name of a command.
_OF_ALL = ("--url", "--admin-url", "--token", "--tls-trust-certs", "--profile")


def submitted(name: str) -> None:
    """Runs the command of a pipeline with the arguments of this process."""
    first, rest = arranged(sys.argv[1:])
    sys.argv = ["magnetar", *first, "pipeline", name, *rest]
    # Found by name: commands know pipelines, and not the other way round.
    importlib.import_module("magnetar.cli.main").main()


def arranged(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Returns the options that all commands have, and the others.

    >>> arranged(["-t", "orders", "--url", "pulsar://a:1", "--token=x"])
    (['--url', 'pulsar://a:1', '--token=x'], ['-t', 'orders'])
    """
    first: list[str] = []
    rest: list[str] = []
    left = iter(arguments)
    for argument in left:
        if argument.partition("=")[0] not in _OF_ALL:
            rest.append(argument)
            continue
        first.append(argument)
        if "=" not in argument:
            first += [value for value in [next(left, None)] if value is not None]
    return first, rest
