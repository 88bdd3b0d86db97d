"""The errors of clients against those of the official client."""

import pickle

import _pulsar
import pulsar
import pytest

from magnetar import errors
from magnetar.client.errors import Result, error_of, result_of
from magnetar.model.enums import ServerError

OFFICIAL = {
    name: error
    for name, error in vars(pulsar.exceptions).items()
    if isinstance(error, type) and issubclass(error, pulsar.PulsarException)
}
SUBCLASSES = sorted(set(OFFICIAL) - {"PulsarException"})


def test_there_are_as_many_as_the_official_client_has_results() -> None:
    assert len(SUBCLASSES) == len(pulsar.Result.__members__) - 1 == 45


@pytest.mark.parametrize("name", SUBCLASSES)
def test_every_official_error_has_its_name_and_its_place(name: str) -> None:
    ours = getattr(errors, name)
    assert OFFICIAL[name].__bases__ == (pulsar.PulsarException,)
    assert ours.__bases__[0] is errors.PulsarException
    assert issubclass(ours, errors.MagnetarError)
    assert str(ours("why")) == str(OFFICIAL[name]("why")) == "why"
    assert str(ours()) == name  # the official one says nothing then
    back = pickle.loads(pickle.dumps(ours("why")))
    assert (type(back), back.args) == (ours, ("why",))


def test_results_have_the_official_names_numbers_and_texts() -> None:
    for name, official in pulsar.Result.__members__.items():
        assert Result[name] == official.value
        assert str(Result[name]) == str(official)
        assert repr(Result[name]) == repr(official)
    assert len(Result) == len(pulsar.Result.__members__)


@pytest.mark.parametrize("name", SUBCLASSES)
def test_an_error_and_its_result_have_one_name(name: str) -> None:
    assert result_of(getattr(errors, name)("why")).name == name


@pytest.mark.parametrize("code", ServerError, ids=lambda code: code.name)
def test_every_refusal_of_a_broker_becomes_an_error_of_its_own(code: ServerError) -> None:
    error = error_of(code, "the reason")
    assert str(error) == "the reason"
    assert issubclass(type(error), errors.PulsarException)
    others = {type(error_of(other, "")) for other in ServerError if other is not code}
    assert type(error) not in others


def test_a_number_that_nobody_knows_yet_is_told() -> None:
    assert repr(error_of(77, "no")) == "UnknownError('no (error 77)')"


def test_our_own_errors_are_the_official_ones_too() -> None:
    assert result_of(errors.InvalidTopicNameError("a", "b")) is Result.InvalidTopicName
    assert result_of(errors.MessageTooLargeError(2, 1, "c")) is Result.MessageTooBig
    assert result_of(errors.SettingsError("a", "b")) is Result.InvalidConfiguration
    assert result_of(errors.SchemaDecodeError("a", "b")) is Result.InvalidMessage
    with pytest.raises(errors.InvalidTopicName, match="invalid topic name 'a': b"):
        raise errors.InvalidTopicNameError("a", "b")


def test_errors_without_a_number_are_unknown_and_none_is_ok() -> None:
    assert result_of(None) is Result.Ok
    assert result_of(OSError()) is Result.UnknownError
    assert result_of(errors.StoreClosedError()) is Result.UnknownError


def test_errors_that_stand_for_builtin_ones_can_be_caught_as_those() -> None:
    assert issubclass(errors.SchemaTypeError, TypeError)
    assert issubclass(errors.UnknownFieldError, AttributeError)
    assert issubclass(errors.SchemaDecodeError, ValueError)
    assert issubclass(errors.SettingsError, ValueError)
    assert issubclass(errors.InvalidUrl, ValueError)
    with pytest.raises(ValueError, match="Invalid scheme"):  # what the official client raises
        pulsar.Client("gopher://localhost")


def test_the_official_names_are_those_of_its_extension() -> None:
    """If a release adds an error, this fails before a user finds out."""
    raised = {
        name
        for name, value in vars(_pulsar).items()
        if isinstance(value, type) and issubclass(value, Exception)
    }
    assert raised == set(OFFICIAL)
