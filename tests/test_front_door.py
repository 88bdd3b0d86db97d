"""What `import magnetar` offers."""

import importlib.metadata
import pickle

import pytest

import magnetar
from magnetar import errors, model, protocol


@pytest.mark.parametrize("module", [magnetar, errors, model, protocol], ids=lambda m: m.__name__)
def test_public_names_exist_once_and_in_order(module: object) -> None:
    names: list[str] = module.__all__  # type: ignore[attr-defined]
    assert all(hasattr(module, name) for name in names)
    assert len(set(names)) == len(names)
    constants = sorted(n for n in names if n.isupper())
    classes = sorted(n for n in names if not n.isupper() and n[0].isupper())
    functions = sorted(n for n in names if n[0].islower())
    assert names == constants + classes + functions


def test_every_error_is_offered_and_is_one_of_ours() -> None:
    for name in errors.__all__:
        error = getattr(errors, name)
        assert getattr(magnetar, name) is error
        assert issubclass(error, magnetar.MagnetarError)


@pytest.mark.parametrize(
    "error",
    [
        magnetar.RemoteProtocolError("CommandSend.sequence_id", 12, "truncated varint"),
        magnetar.InvalidMessageIdError("why"),
        magnetar.InvalidTopicNameError("a/b", "why"),
        magnetar.MessageTooLargeError(5, 4, "do this"),
    ],
    ids=lambda e: type(e).__name__,
)
def test_errors_pickle_with_their_fields(error: Exception) -> None:
    back = pickle.loads(pickle.dumps(error))
    assert (type(back), str(back), vars(back)) == (type(error), str(error), vars(error))


def test_the_version_is_the_packages() -> None:
    assert importlib.metadata.version("magnetar") == magnetar.__version__
