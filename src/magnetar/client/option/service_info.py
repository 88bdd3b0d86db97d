"""Clusters to choose from: where each is, and when to leave one for another.

These are values; the client acts on them. A `ServiceInfoProvider` is the exception: programs
derive from it to say themselves where the cluster is, so this file is not compiled.
"""

from collections.abc import Callable

from magnetar.client.option.authentication import Authentication
from magnetar.client.option.options import ClientOptions
from magnetar.client.option.service_url import parse_service_url
from magnetar.errors import SettingsError

__all__ = ["AutoClusterFailover", "ServiceInfo", "ServiceInfoProvider", "first_service_info"]


class ServiceInfo:
    """Where one cluster is, and how to be known there.

    >>> ServiceInfo("pulsar+ssl://broker:6651").use_tls
    True
    """

    def __init__(
        self,
        service_url: str,
        authentication: Authentication | None = None,
        tls_trust_certs_file_path: str | None = None,
    ) -> None:
        _check("service_url", service_url, str)
        if authentication is not None:
            _check("authentication", authentication, Authentication)
        if tls_trust_certs_file_path is not None:
            _check("tls_trust_certs_file_path", tls_trust_certs_file_path, str)
        self._use_tls = parse_service_url(service_url).tls
        self._service_url = service_url
        self._authentication = authentication
        self._tls_trust_certs_file_path = tls_trust_certs_file_path

    @property
    def service_url(self) -> str:
        """The service URL."""
        return self._service_url

    @property
    def use_tls(self) -> bool:
        """Whether the service URL asks for TLS."""
        return self._use_tls

    @property
    def authentication(self) -> Authentication | None:
        """Proves who the client is at this service."""
        return self._authentication

    @property
    def tls_trust_certs_file_path(self) -> str | None:
        """CA certificates, a PEM file."""
        return self._tls_trust_certs_file_path

    def __repr__(self) -> str:
        return (
            f"ServiceInfo(service_url={self.service_url!r}, use_tls={self.use_tls!r}, "
            f"tls_trust_certs_file_path={self.tls_trust_certs_file_path!r})"
        )


class ServiceInfoProvider:
    """The base for programs that know themselves where their cluster is."""

    def initial_service_info(self) -> ServiceInfo:
        """Returns where the client begins."""
        raise NotImplementedError(f"{type(self).__name__} must say where the client begins")

    def initialize(self, on_service_info_update: Callable[[ServiceInfo], None]) -> None:
        """Takes, once, the function that tells the client of changes."""
        raise NotImplementedError(f"{type(self).__name__} must take the function for changes")

    def close(self) -> None:
        """Ends: the client is closed."""
        return


class AutoClusterFailover:
    """A cluster to prefer and others for when it cannot be reached, in order."""

    def __init__(
        self,
        primary: ServiceInfo,
        secondary: list[ServiceInfo],
        check_interval_ms: int = 5000,
        failover_threshold: int = 1,
        switch_back_threshold: int = 1,
    ) -> None:
        _check("primary", primary, ServiceInfo)
        _check("secondary", secondary, list)
        if not secondary:
            raise SettingsError("secondary", "there must be at least one ServiceInfo")
        for index, service_info in enumerate(secondary):
            _check(f"secondary[{index}]", service_info, ServiceInfo)
        self.primary = primary
        self.secondary: list[ServiceInfo] = list(secondary)
        self.check_interval_ms: int = _positive("check_interval_ms", check_interval_ms)
        self.failover_threshold: int = _positive("failover_threshold", failover_threshold)
        self.switch_back_threshold: int = _positive("switch_back_threshold", switch_back_threshold)

    def __repr__(self) -> str:
        return (
            f"AutoClusterFailover(primary={self.primary!r}, secondary={self.secondary!r}, "
            f"check_interval_ms={self.check_interval_ms!r}, "
            f"failover_threshold={self.failover_threshold!r}, "
            f"switch_back_threshold={self.switch_back_threshold!r})"
        )


def first_service_info(source: object, options: ClientOptions) -> ServiceInfo:
    """Returns where a client begins, by what it was given for a service URL.

    Raises SettingsError.
    """
    if isinstance(source, str):
        auth = options.authentication
        if auth is not None and not isinstance(auth, Authentication):
            raise SettingsError("authentication", f"expected an Authentication, not {auth!r:.40}")
        return ServiceInfo(source, auth, options.tls_trust_certs_file_path)
    if not isinstance(source, AutoClusterFailover | ServiceInfoProvider):
        raise SettingsError(
            "service_url",
            f"must be a text, an AutoClusterFailover or a ServiceInfoProvider, not {source!r:.40}",
        )
    for key in ("authentication", "tls_trust_certs_file_path"):
        if getattr(options, key) is not None:
            raise SettingsError(key, "give it to each ServiceInfo, not to the client")
    if isinstance(source, AutoClusterFailover):
        return source.primary
    info: object = source.initial_service_info()
    if not isinstance(info, ServiceInfo):
        raise SettingsError("service_url", f"must begin with a ServiceInfo, not {info!r:.40}")
    return info


def _check(key: str, value: object, kind: type) -> None:
    if not isinstance(value, kind):
        raise SettingsError(key, f"must be a {kind.__name__}, not {type(value).__name__}")


def _positive(key: str, value: int) -> int:
    _check(key, value, int)
    if value <= 0:
        raise SettingsError(key, f"must be greater than 0, not {value}")
    return value
