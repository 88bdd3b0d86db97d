"""The little of a broker's admin REST that jobs use."""

import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from magnetar.errors import AuthorizationError, ConnectError, SettingsError, TopicNotFound
from magnetar.model import TopicName
from magnetar.spark.plan.options import ConnectionOptions

__all__ = ["Rest", "subscription_path", "topic_path"]


class Rest:
    """Asks the REST of a broker; raises what went wrong as an error of ours."""

    def __init__(self, connection: ConnectionOptions) -> None:
        self._url = connection.admin_url
        self._token = connection.auth_token
        self._timeout_s = connection.operation_timeout_s
        self._tls: ssl.SSLContext | None = None
        if self._url.startswith("https:"):
            self._tls = ssl.create_default_context(
                cafile=connection.tls_trust_certs_file_path or None
            )
            if connection.tls_allow_insecure_connection:
                self._tls.check_hostname = False
                self._tls.verify_mode = ssl.CERT_NONE

    def get(self, path: str) -> Any:
        return self._ask("GET", path, None)

    def post(self, path: str, body: object) -> Any:
        return self._ask("POST", path, body)

    def put(self, path: str, body: object) -> Any:
        return self._ask("PUT", path, body)

    def delete(self, path: str) -> Any:
        return self._ask("DELETE", path, None)

    def _ask(self, method: str, path: str, body: object) -> Any:
        headers = {"Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        data = None if body is None else json.dumps(body).encode()
        url = f"{self._url}/admin/v2/{path}"
        try:
            request = urllib.request.Request(url, data, headers, method=method)
        except ValueError as error:
            raise SettingsError("adminUrl", f"{self._url}: {error}") from None
        try:
            with urllib.request.urlopen(
                request, timeout=self._timeout_s, context=self._tls
            ) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                said = (
                    f"{method} {url}: HTTP {error.code} {error.read(500).decode(errors='replace')}"
                )
            if error.code in (401, 403):
                raise AuthorizationError(said) from None
            if error.code == 404:
                raise TopicNotFound(said) from None
            raise ConnectError(said) from None
        except OSError as error:
            raise ConnectError(f"adminUrl does not answer: {url}: {error}") from error
        return json.loads(text) if text else None

    # ---- Topics --------------------------------------------------------------

    def ledgers(self, topic: str) -> list[tuple[int, int]]:
        """The ids of a topic's ledgers, and how many entries each has."""
        stats = self.get(f"{topic_path(topic)}/internalStats")
        found = [(int(one["ledgerId"]), int(one["entries"])) for one in stats["ledgers"]]
        if found:
            # Apache's broker counts the entries of the open ledger elsewhere.
            found[-1] = (found[-1][0], max(found[-1][1], int(stats["currentLedgerEntries"])))
        return found

    def deduplicates(self, topic: str) -> bool:
        """Whether the broker is to drop what a producer sends again, on this topic."""
        said = self.get(f"{topic_path(topic)}/deduplicationEnabled?applied=true")
        return said is True

    def is_deduplicating(self, partition: str) -> bool:
        """Whether it does so, on a topic partition that is in use."""
        stats = self.get(f"{topic_path(partition)}/stats")
        return bool(stats["deduplicationStatus"] == "Enabled")

    def message_size_max(self, topic: str) -> int:
        """How large the topic lets entries be; 0 if it does not say."""
        return int(self.get(f"{topic_path(topic)}/maxMessageSize?applied=true") or 0)

    def delay_max_ms(self, topic: str) -> int:
        """For how long the topic lets messages be delayed; 0 is for ever."""
        found = self.get(f"{topic_path(topic)}/delayedDelivery?applied=true") or {}
        return int(found.get("maxDeliveryDelayInMillis") or 0)

    def deduplicate(self, topic: str) -> None:
        """Sets the policy on the topic."""
        self.post(f"{topic_path(topic)}/deduplicationEnabled", True)


def topic_path(topic: str) -> str:
    name = TopicName.parse(topic)
    local = urllib.parse.quote(name.local_name, safe="")
    return f"{name.domain}/{name.namespace}/{local}"


def subscription_path(topic: str, subscription: str) -> str:
    return f"{topic_path(topic)}/subscription/{urllib.parse.quote(subscription, safe='')}"
