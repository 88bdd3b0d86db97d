"""Settings of access: who is let in, by what proof, and over which certificates."""

from dataclasses import dataclass, field

from mypy_extensions import trait

from magnetar.broker.setting.setting import BOOL, MS, NAMES, SECOND_MS, SECONDS, TEXT, says
from magnetar.errors import SettingsError

__all__ = ["AccessSettings"]


@trait
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AccessSettings:
    """Part of `BrokerSettings`; in the manual under "Who may do what"."""

    authentication: bool = field(
        default=False,
        metadata=says(
            BOOL,
            "whether clients must prove who they are, on both ports",
            conf={"authenticationEnabled": 1},
        ),
    )
    authorization: bool = field(
        default=True,
        metadata=says(
            BOOL,
            "whether clients that proved who they are may do only what their role was granted; "
            "has a meaning with `authentication` only",
            conf={"authorizationEnabled": 1},
        ),
    )
    super_user_roles: tuple[str, ...] = field(
        default=(),
        metadata=says(
            NAMES, "roles that may do everything", optional=True, conf={"superUserRoles": 1}
        ),
    )
    anonymous_role: str = field(
        default="",
        metadata=says(
            TEXT,
            "the role of clients that prove nothing; without one they are refused",
            optional=True,
            conf={"anonymousUserRole": 1},
        ),
    )
    authenticate_metrics: bool = field(
        default=False,
        metadata=says(
            BOOL,
            "whether `/metrics` asks who is there, too; without `authentication` it "
            "is for loopback addresses alone then",
            conf={"authenticateMetricsEndpoint": 1},
        ),
    )
    # How long a client has for a new token when its own has expired.
    authentication_refresh_ms: int = field(
        default=60_000,
        metadata=says(
            MS,
            "how long a connected client has to bring a new token after its own expired",
            low=1,
            conf={"authenticationRefreshCheckSeconds": SECOND_MS},
        ),
    )
    # A path, `file:` or `data:;base64,` of the key that tokens are checked by.
    token_secret_key: str = field(
        default="",
        metadata=says(
            TEXT,
            "the secret that tokens are signed with: a path, `file:` or `data:;base64,`",
            optional=True,
            secret=True,
            conf={"tokenSecretKey": 1},
        ),
    )
    token_public_key: str = field(
        default="",
        metadata=says(
            TEXT,
            "the public key that tokens are checked by, in PEM or DER form",
            optional=True,
            conf={"tokenPublicKey": 1},
        ),
    )
    token_role_claim: str = field(
        default="sub",
        metadata=says(TEXT, "the claim of a token that names the role", conf={"tokenAuthClaim": 1}),
    )
    token_audience_claim: str = field(
        default="aud",
        metadata=says(
            TEXT, "the claim that says for whom a token is", conf={"tokenAudienceClaim": 1}
        ),
    )
    token_audience: str = field(
        default="",
        metadata=says(
            TEXT,
            "what that claim must contain; anything, if this is not given",
            optional=True,
            conf={"tokenAudience": 1},
        ),
    )
    token_clock_skew_seconds: int = field(
        default=0, metadata=says(SECONDS, "how far the clock that made a token may be off")
    )
    token_revoked_file: str = field(
        default="",
        metadata=says(
            TEXT,
            "tokens that were taken back, one `jti ID` or `role NAME` per line; "
            "read again when it changes",
            optional=True,
        ),
    )
    basic_auth_file: str = field(
        default="",
        metadata=says(
            TEXT,
            "users with their passwords, as `htpasswd -B` writes them: a path, `file:` or "
            "`data:;base64,`; a file is read again when it changes",
            optional=True,
            secret=True,
            conf={"basicAuthConf": 1},
        ),
    )
    proxy_roles: tuple[str, ...] = field(
        default=(),
        metadata=says(
            NAMES,
            "roles of Pulsar proxies, whose word for the client behind them is believed; such a "
            "role and the client must both be allowed what the client does",
            optional=True,
            conf={"proxyRoles": 1},
        ),
    )
    authenticate_original_auth_data: bool = field(
        default=False,
        metadata=says(
            BOOL,
            "whether proxies must bring what their clients proved themselves with, and the broker "
            "looks at that instead of believing the name",
            conf={"authenticateOriginalAuthData": 1},
        ),
    )
    openid_issuers: tuple[str, ...] = field(
        default=(),
        metadata=says(
            NAMES,
            "OpenID Connect issuers whose tokens count, each as it calls itself: its address",
            optional=True,
            conf={"openIDAllowedTokenIssuers": 1},
        ),
    )
    openid_audiences: tuple[str, ...] = field(
        default=(),
        metadata=says(
            NAMES,
            "for whom a token of an issuer must be (its claim `aud`): one of these",
            optional=True,
            conf={"openIDAllowedAudiences": 1},
        ),
    )
    openid_role_claim: str = field(
        default="sub",
        metadata=says(
            TEXT,
            "the claim of an issuer's token that names the role; of a list the first counts",
            conf={"openIDRoleClaim": 1},
        ),
    )
    openid_leeway_seconds: int = field(
        default=0,
        metadata=says(
            SECONDS,
            "how far the clock of an issuer may be off",
            conf={"openIDAcceptedTimeLeewaySeconds": 1},
        ),
    )
    openid_trust_certs_file: str = field(
        default="",
        metadata=says(
            TEXT,
            "who may sign the certificates of issuers, in PEM form; else those that the machine "
            "trusts",
            optional=True,
            conf={"openIDTokenIssuerTrustCertsFilePath": 1},
        ),
    )
    openid_require_https: bool = field(
        default=True,
        metadata=says(
            BOOL,
            "whether issuers and their keys must have addresses that begin with https://",
            conf={"openIDRequireIssuersUseHttps": 1},
        ),
    )
    openid_timeout_ms: int = field(
        default=10_000,
        metadata=says(
            MS,
            "how long an issuer has for an answer",
            low=1,
            high=60_000,
            conf={"openIDHttpConnectionTimeoutMillis": 1},
        ),
    )
    openid_refresh_seconds: int = field(
        default=64_800,
        metadata=says(
            SECONDS,
            "after how long the keys of an issuer are fetched anew",
            low=1,
            conf={"openIDCacheRefreshAfterWriteSeconds": 1},
        ),
    )
    openid_expire_seconds: int = field(
        default=86_400,
        metadata=says(
            SECONDS,
            "how long keys count if their issuer cannot be reached",
            low=1,
            conf={"openIDCacheExpirationSeconds": 1},
        ),
    )
    openid_unknown_key_seconds: int = field(
        default=300,
        metadata=says(
            SECONDS,
            "how long after a fetch a token with an unknown key causes no other",
            low=1,
            conf={"openIDKeyIdCacheMissRefreshSeconds": 1},
        ),
    )
    tls_certificate_file: str = field(
        default="",
        metadata=says(
            TEXT,
            "the broker's certificate and those of its issuers, in PEM form; with "
            "it TLS ports are opened",
            optional=True,
            conf={"tlsCertificateFilePath": 1},
        ),
    )
    tls_key_file: str = field(
        default="",
        metadata=says(
            TEXT,
            "the private key of the broker's certificate",
            optional=True,
            conf={"tlsKeyFilePath": 1},
        ),
    )
    tls_trust_certs_file: str = field(
        default="",
        metadata=says(
            TEXT,
            "issuers of client certificates, whose common name is the role",
            optional=True,
            conf={"tlsTrustCertsFilePath": 1},
        ),
    )
    tls_crl_file: str = field(
        default="",
        metadata=says(
            TEXT,
            "certificates that were revoked: the lists (CRLs) of all those issuers, in PEM form",
            optional=True,
        ),
    )
    tls_require_client_certificate: bool = field(
        default=False,
        metadata=says(
            BOOL,
            "whether a TLS connection without a client certificate is refused",
            conf={"tlsRequireTrustedClientCertOnConnect": 1},
        ),
    )
    tls_refresh_seconds: int = field(
        default=300,
        metadata=says(
            SECONDS,
            "how often the files of certificates are looked at, and read again if they changed",
            conf={"tlsCertRefreshCheckDurationSec": 1},
        ),
    )

    def check_access(self) -> None:
        """Raise SettingsError where one of these settings needs another that is not there."""
        self._check_certificates()
        if self.token_secret_key and self.token_public_key:
            raise SettingsError(
                "token_public_key", "tokens are checked by one key: give a secret or a public key"
            )
        self._check_issuers()
        if self.anonymous_role and self.anonymous_role in self.proxy_roles:
            raise SettingsError(
                "proxy_roles", "the anonymous role is anybody's, and nobody's proxy"
            )
        known = self.token_secret_key or self.token_public_key or self.tls_trust_certs_file
        if self.authentication and not (known or self.basic_auth_file or self.openid_issuers):
            raise SettingsError(
                "authentication",
                "nobody could prove who they are: give token_secret_key (`magnetar tokens init` "
                "makes one), token_public_key, basic_auth_file, openid_issuers, or "
                "tls_trust_certs_file for client certificates",
            )

    def _check_certificates(self) -> None:
        if bool(self.tls_certificate_file) != bool(self.tls_key_file):
            lacks = "tls_key_file" if self.tls_certificate_file else "tls_certificate_file"
            raise SettingsError(lacks, "TLS needs a certificate and its key: give this one too")
        if self.tls_trust_certs_file and not self.tls_certificate_file:
            raise SettingsError(
                "tls_certificate_file",
                "client certificates are shown over TLS only: give the broker a certificate too",
            )
        if self.tls_require_client_certificate and not self.tls_trust_certs_file:
            raise SettingsError(
                "tls_trust_certs_file", "client certificates are required: say who may issue them"
            )
        if self.tls_crl_file and not self.tls_trust_certs_file:
            raise SettingsError(
                "tls_trust_certs_file", "certificates are revoked: say who may issue them"
            )

    def _check_issuers(self) -> None:
        if self.openid_issuers and not self.openid_audiences:
            raise SettingsError(
                "openid_audiences",
                "an issuer makes tokens for others too: say for whom they must be (their `aud`)",
            )
        for issuer in self.openid_issuers:
            if issuer.startswith("https://"):
                continue
            if self.openid_require_https or not issuer.startswith("http://"):
                raise SettingsError(
                    "openid_issuers",
                    f"{issuer!r} does not begin with https://: give its address so (for a trial, "
                    "openid_require_https = false allows http://)",
                )
