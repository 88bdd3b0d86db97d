"""The client of admin REST with our broker: over TLS, by a certificate and by a token."""

from collections.abc import Iterator

import pytest
from support.served import Served
from support.tokens import SECRET_SETTING, Issuer, token

from magnetar.broker.setting.settings import BrokerSettings
from magnetar.errors import ConnectError
from magnetar.rest.admin_client import AdminClient
from magnetar.rest.admin_error import AdminError
from magnetar.rest.path import namespace_path, path_of, subscription_path, topic_path


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Issuer:
    return Issuer(tmp_path_factory.mktemp("issuer"))


@pytest.fixture(scope="module")
def served(issuer: Issuer) -> Iterator[Served]:
    certificate, key = issuer.issue("broker")
    served = Served(
        BrokerSettings(
            authentication=True,
            token_secret_key=SECRET_SETTING,
            super_user_roles=("root",),
            tls_certificate_file=certificate,
            tls_key_file=key,
            tls_trust_certs_file=str(issuer.certificate),
        )
    )
    served.start()
    try:
        yield served
    finally:
        served.stop()


def test_a_certificate_says_who_asks(served: Served, issuer: Issuer) -> None:
    trust = str(issuer.certificate)
    for role, may in (("root", True), ("stranger", False)):
        certificate, key = issuer.issue(role)
        with AdminClient(
            served.http_url_tls, trust_certs=trust, certificate=certificate, key=key
        ) as admin:
            if may:
                assert admin.get(path_of("tenants")) == ["public"]
                continue
            with pytest.raises(AdminError, match="stranger") as told:
                admin.get(path_of("tenants"))
            assert told.value.status == 403


def test_whom_it_believes(served: Served, issuer: Issuer) -> None:
    with AdminClient(served.http_url_tls) as admin, pytest.raises(ConnectError, match="verify"):
        admin.get(path_of("tenants"))
    trust = str(issuer.certificate)
    strict = AdminClient(served.http_url_tls, trust_certs=trust, token=token("root"))
    lax = AdminClient(served.http_url_tls, allow_insecure=True, token=token("root"))
    with strict, lax:
        assert strict.get(path_of("tenants")) == lax.get(path_of("tenants")) == ["public"]


def test_a_topic_from_its_making_to_its_end(served: Served) -> None:
    topic = "persistent://public/rest/a topic, ü?"
    with AdminClient(served.http_url, token=token("root")) as admin:
        admin.put(namespace_path("public/rest"))
        admin.put(topic_path(topic))
        admin.put(subscription_path(topic, "s/1"))
        assert admin.get(topic_path(topic, "subscriptions")) == ["s/1"]
        stats = admin.get(topic_path(topic, "stats"))
        assert isinstance(stats, dict)
        assert list(stats["subscriptions"]) == ["s/1"]
        with pytest.raises(AdminError) as told:
            admin.put(topic_path(topic))
        assert told.value.status == 409
        admin.delete(topic_path(topic), force=True)
        with pytest.raises(AdminError) as told:
            admin.get(topic_path(topic, "stats"))
        assert told.value.status == 404
