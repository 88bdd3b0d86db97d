"""Apache's MD5 of passwords, `$apr1$SALT$DIGEST`: a thousand rounds over salt and password.

It is `crypt`'s MD5 of 1994 with another name in it. httpd and commons-codec, which Apache Pulsar
uses, have the same; tests hold it against what OpenSSL makes.
"""

import hashlib
from typing import Final

__all__ = ["apr1"]

MAGIC: Final = b"$apr1$"
ROUNDS: Final = 1000
ALPHABET: Final = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
# Which bytes of the digest make each group of four characters, highest first.
GROUPS: Final = ((0, 6, 12), (1, 7, 13), (2, 8, 14), (3, 9, 15), (4, 10, 5))


def apr1(password: bytes, salt: bytes) -> bytes:
    """Returns the whole text that such a password is kept as.

    >>> apr1(b"secret", b"abcdefgh")
    b'$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ/'
    """
    digest = _first(password, salt)
    for number in range(ROUNDS):
        digest = _round(number, digest, password, salt)
    return MAGIC + salt + b"$" + _letters(digest)


def _first(password: bytes, salt: bytes) -> bytes:
    inner = hashlib.md5(password + salt + password).digest()
    text = password + MAGIC + salt
    left = len(password)
    while left > 0:
        text += inner[: min(16, left)]
        left -= 16
    bits = len(password)
    while bits:
        text += b"\0" if bits & 1 else password[:1]
        bits >>= 1
    return hashlib.md5(text).digest()


def _round(number: int, digest: bytes, password: bytes, salt: bytes) -> bytes:
    odd = number & 1
    text = password if odd else digest
    if number % 3:
        text += salt
    if number % 7:
        text += password
    return hashlib.md5(text + (digest if odd else password)).digest()


def _letters(digest: bytes) -> bytes:
    letters = bytearray()
    for high, middle, low in GROUPS:
        number = digest[high] << 16 | digest[middle] << 8 | digest[low]
        letters += _base64(number, 4)
    return bytes(letters + _base64(digest[11], 2))


def _base64(number: int, count: int) -> bytes:
    return bytes([ALPHABET[number >> 6 * index & 63] for index in range(count)])
