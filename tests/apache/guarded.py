"""A broker that asks who everybody is, and takes passwords, tokens and an issuer's word for it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import bcrypt
import httpx
from support.broker_process import BrokerProcess
from support.openid import OpenidIssuer
from support.tokens import SECRET_SETTING, token

__all__ = ["guarded_broker"]


@contextmanager
def guarded_broker(directory: Path, issuer: OpenidIssuer) -> Iterator[BrokerProcess]:
    """`worker` may use public/default, and has the password "right"; `proxy` is a proxy.

    The issuer's certificate is of the authority in `ca.pem` of the directory.
    """
    users = directory / "users"
    users.write_text(f"worker:{bcrypt.hashpw(b'right', bcrypt.gensalt(8)).decode()}\n")
    settings = (
        "authentication=true",
        f"token_secret_key={SECRET_SETTING}",
        f"basic_auth_file={users}",
        f"openid_issuers={issuer.url}",
        "openid_audiences=urn:magnetar",
        f"openid_trust_certs_file={directory / 'ca.pem'}",
        "super_user_roles=root,proxy",
        "proxy_roles=proxy",
    )
    options = [word for setting in settings for word in ("--set", setting)]
    with BrokerProcess(directory / "data", options=options) as broker:
        httpx.post(
            f"{broker.http_url}/admin/v2/namespaces/public/default/permissions/worker",
            json=["produce", "consume"],
            headers={"Authorization": f"Bearer {token('root')}"},
        ).raise_for_status()
        yield broker
