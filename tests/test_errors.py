"""What the line of an error says: number on the wire, status, exit code, and what is retried."""

import pytest

from magnetar import errors
from magnetar.admin.http.answer import status_of
from magnetar.broker.wire_error import wire_error
from magnetar.errors import BY_CODE, RETRY_CONNECT, BrokerError, MagnetarError
from magnetar.model import ServerError

# By number: the status of REST. Those that are not here are 500.
STATUS = {
    ServerError.AuthenticationError: 401,
    ServerError.AuthorizationError: 403,
    ServerError.ConsumerBusy: 412,
    ServerError.ServiceNotReady: 503,
    ServerError.TopicNotFound: 404,
    ServerError.SubscriptionNotFound: 404,
    ServerError.ConsumerNotFound: 404,
    ServerError.TooManyRequests: 429,
    ServerError.TopicTerminatedError: 412,
    ServerError.ProducerBusy: 412,
    ServerError.InvalidTopicName: 412,
    ServerError.IncompatibleSchema: 409,
    ServerError.NotAllowedError: 412,
    ServerError.TransactionCoordinatorNotFound: 404,
    ServerError.TransactionNotFound: 404,
    ServerError.TransactionConflict: 409,
    ServerError.InvalidTxnStatus: 409,
}
# Of ours: the number that the wire has for it, and the status.
OURS: list[tuple[MagnetarError, int, int]] = [
    (errors.InvalidTopicNameError("a b", "no"), ServerError.InvalidTopicName, 412),
    (errors.SettingsError("ttl", "no"), ServerError.NotAllowedError, 412),
    (errors.NoSuchEntryError(1, 2, "no"), ServerError.NotAllowedError, 412),
    (errors.BatchIndexError(1, 2, "no"), ServerError.NotAllowedError, 400),
    (errors.MessageTooLargeError(2, 1, "no"), ServerError.NotAllowedError, 400),
    (errors.UnknownObjectError("topic", "t"), ServerError.PersistenceError, 404),
    (errors.StorageFullError(1, 2), ServerError.PersistenceError, 503),
    (errors.StorageReadOnlyError("no"), ServerError.PersistenceError, 503),
    (errors.StoreClosedError(), ServerError.PersistenceError, 503),
    (errors.DiskError("read", "f", "no"), ServerError.PersistenceError, 500),
    (errors.RemoteProtocolError("f", 0, "no"), ServerError.UnknownError, 500),
]


@pytest.mark.parametrize("code", list(ServerError), ids=lambda code: code.name)
def test_every_number_of_the_wire_has_a_class_and_a_status(code: ServerError) -> None:
    kind = BY_CODE[code]
    assert kind.code == code
    assert status_of(BrokerError(code, "no")) == status_of(kind("no")) == STATUS.get(code, 500)
    assert wire_error(BrokerError(code, "no")) == (code, "no")


def test_no_class_has_a_number_that_the_wire_does_not_have() -> None:
    assert set(BY_CODE) == set(ServerError)
    assert status_of(BrokerError(99, "from a newer broker")) == 500


@pytest.mark.parametrize(("error", "code", "status"), OURS, ids=lambda one: type(one).__name__)
def test_what_a_broker_says_of_our_own_errors(error: MagnetarError, code: int, status: int) -> None:
    assert wire_error(error) == (code, str(error))
    assert status_of(error) == status


def test_what_is_no_error_of_ours_is_unknown() -> None:
    assert wire_error(RuntimeError("oops")) == (ServerError.UnknownError, "oops")


def test_what_is_tried_again_on_the_way_to_a_broker() -> None:
    assert {kind.__name__ for kind in RETRY_CONNECT} == {
        "ConnectError",
        "LookupError",
        "ProducerBlockedQuotaExceededError",
        "ServiceUnitNotReady",
        "Timeout",
        "TooManyLookupRequestException",
    }
