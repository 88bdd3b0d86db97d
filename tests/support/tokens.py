"""Keys, tokens and certificates for tests; each process makes its own."""

import base64
import datetime
import ipaddress
from functools import cache
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from cryptography.x509.oid import NameOID

from magnetar.broker.auth.roles import Authentication
from magnetar.broker.auth.token import TokenRules, make_token, secret_key, signing_key

SECRET = bytes(range(64))
SECRET_SETTING = "data:;base64," + base64.b64encode(SECRET).decode()
OTHER_SECRET = bytes(range(1, 65))

AnyPrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


def token(role: str, *, secret: bytes = SECRET, algorithm: str = "", **claims: object) -> str:
    """A token signed with a secret; the broker's, unless another one is given."""
    return make_token(signing_key("key", secret), {"sub": role, **claims}, algorithm)


def by_secret(*, certificates: bool = False, anonymous_role: str = "") -> Authentication:
    """A broker's side of such tokens."""
    return Authentication(
        secret_key("key", SECRET),
        TokenRules(),
        certificates=certificates,
        anonymous_role=anonymous_role,
    )


@cache
def rsa_key(bits: int = 2048) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, bits)


@cache
def ec_key(curve: str = "P-256") -> ec.EllipticCurvePrivateKey:
    curves: dict[str, ec.EllipticCurve] = {
        "P-256": ec.SECP256R1(),
        "P-384": ec.SECP384R1(),
        "P-521": ec.SECP521R1(),
        "K-256": ec.SECP256K1(),
    }
    return ec.generate_private_key(curves[curve])


def private_pem(key: AnyPrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def public_bytes(key: AnyPrivateKey, encoding: Encoding = Encoding.PEM) -> bytes:
    return key.public_key().public_bytes(encoding, PublicFormat.SubjectPublicKeyInfo)


class Issuer:
    """Who signs certificates; `certificate` is its own."""

    def __init__(self, directory: Path, name: str = "issuer") -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._own = self._sign(self._name, self._key, authority=True)
        self.certificate = directory / f"{name}.pem"
        self.certificate.write_bytes(self._own.public_bytes(Encoding.PEM))

    def issue(self, common_name: str, *, file: str = "") -> tuple[str, str]:
        """The paths of a certificate and its key, good for 127.0.0.1 and for clients."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        certificate = self._sign(name, key)
        stem = file or common_name
        certificate_file = self._directory / f"{stem}.pem"
        key_file = self._directory / f"{stem}.key"
        certificate_file.write_bytes(certificate.public_bytes(Encoding.PEM))
        key_file.write_bytes(private_pem(key))
        return str(certificate_file), str(key_file)

    def revoke(self, *certificate_files: str, file: str = "revoked.crl") -> str:
        """The path of a list (CRL) that revokes these certificates, and those alone."""
        now = datetime.datetime.now(datetime.UTC)
        day = datetime.timedelta(days=1)
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self._name)
            .last_update(now - day)
            .next_update(now + day)
        )
        for certificate_file in certificate_files:
            certificate = x509.load_pem_x509_certificate(Path(certificate_file).read_bytes())
            revoked = (
                x509.RevokedCertificateBuilder()
                .serial_number(certificate.serial_number)
                .revocation_date(now - day)
                .build()
            )
            builder = builder.add_revoked_certificate(revoked)
        found = self._directory / file
        found.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))
        return str(found)

    def _sign(
        self, name: x509.Name, key: ec.EllipticCurvePrivateKey, *, authority: bool = False
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        day = datetime.timedelta(days=1)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - day)
            .not_valid_after(now + day)
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        if authority:
            # Python 3.13 asks it of whoever signs.
            builder = builder.add_extension(key_usage_of_an_authority(), critical=True)
        else:
            names: list[x509.GeneralName] = [
                x509.DNSName("localhost"),
                x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
            ]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self._key, hashes.SHA256())


def key_usage_of_an_authority() -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
