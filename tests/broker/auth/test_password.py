"""Files of users: what htpasswd writes, and what is refused of it."""

import shutil
import subprocess

import bcrypt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.broker.auth.apr1 import apr1
from magnetar.broker.auth.password import read_passwords
from magnetar.errors import SettingsError

# What httpd's own tools and its manual have for "myPassword" (`htpasswd -nb`).
BCRYPT = "$2y$05$c4WoMPo3SXsafkva.HHa6uXQZWr7oboPiC2bT/r7q1BB8I2s0BRqC"
MD5 = "$apr1$r31.....$HqJZimcKQFAMYayBlzkrA/"
SHA = "{SHA}VBPuJHI7uixaa6LQGWx4s+5GKNE="
BCRYPT_SALT = "$2b$04$abcdefghijklmnopqrstuu"
FILE = f"# of May\n\nb:{BCRYPT}\nm:{MD5}\ns:{SHA}\n"


@pytest.mark.parametrize("user", ["b", "m", "s"])
def test_each_kind_takes_its_password_and_no_other(user: str) -> None:
    passwords = read_passwords("f", FILE)
    assert len(passwords) == 3
    assert passwords.check(user, b"myPassword")
    for wrong in (b"", b"mypassword", b"myPassword ", b"myPassword\0", b"\0", b"\xff"):
        assert not passwords.check(user, wrong)


def test_nobody_has_no_password() -> None:
    passwords = read_passwords("f", FILE)
    for user in ("", "x", "B"):
        assert not passwords.check(user, b"myPassword")


def test_passwords_beyond_the_length_that_bcrypt_looks_at() -> None:
    long = b"x" * 100
    known = bcrypt.hashpw(long[:72], BCRYPT_SALT.encode()).decode()
    assert read_passwords("f", f"u:{known}").check("u", long)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("worker", "not USER:PASSWORD"),
        (f":{SHA}", "not USER:PASSWORD"),
        (f"u:{SHA}:more", "not USER:PASSWORD"),
        (f"a:{SHA}", "names the user 'a' again"),
        ("u:rqXexS6ZhobKA", "neither bcrypt, MD5 nor SHA"),
        ("u:plain", "neither bcrypt, MD5 nor SHA"),
        ("u:", "neither bcrypt, MD5 nor SHA"),
        ("u:{SHA}VBPu", "htpasswd -s"),
        ("u:{SHA}***", "htpasswd -s"),
        ("u:$apr1$r31", "htpasswd -m"),
        ("u:$apr1$123456789$HqJZimcKQFAMYayBlzkrA/", "htpasswd -m"),
        (f"u:{BCRYPT[:-1]}", "htpasswd -B"),
        (f"u:{BCRYPT.replace('$05$', '$xx$')}", "htpasswd -B"),
        (f"u:{BCRYPT.replace('$c4', '$!!')}", "htpasswd -B"),
        (f"u:{BCRYPT.replace('$05$', '$31$')}", "cost of 31"),
        ("u:{SHA}\u00e9", "not what htpasswd makes"),
    ],
)
def test_a_line_that_is_none_is_told_by_its_number(line: str, reason: str) -> None:
    with pytest.raises(SettingsError, match=f"line 2.*{reason}") as caught:
        read_passwords("basic_auth_file", f"a:{SHA}\n{line}\n")
    assert caught.value.key == "basic_auth_file"
    assert SHA not in str(caught.value)


def test_a_file_without_users_lets_nobody_in_and_says_so() -> None:
    with pytest.raises(SettingsError, match="no users"):
        read_passwords("f", "# nobody\n")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="OpenSSL is the referee")
@given(
    password=st.text(st.characters(exclude_characters="\0\r\n", codec="utf-8"), min_size=1),
    salt=st.text("./0123456789ABCabc", min_size=1, max_size=8),
)
def test_md5_is_what_openssl_makes(password: str, salt: str) -> None:
    made = subprocess.run(
        ["openssl", "passwd", "-apr1", "-salt", salt, "-stdin"],
        input=password.encode()[:255],
        capture_output=True,
        check=True,
    )
    assert apr1(password.encode()[:255], salt.encode()) == made.stdout.rstrip(b"\n")
