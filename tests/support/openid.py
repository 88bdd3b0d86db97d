"""An OpenID Connect issuer on loopback: discovery, keys, and tokens for client credentials."""

import contextlib
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

__all__ = ["OpenidIssuer", "dripping", "issuing"]


class OpenidIssuer:
    """Knows clients with their secrets, and signs what they ask for."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.clients = {"worker": "s3cret"}
        self.keys: dict[str, rsa.RSAPrivateKey] = {}
        self.key_id = ""
        self.lives_s = 3600
        # Fields of its documents that are to be other ones than the right ones.
        self.discovery: dict[str, object] = {}
        self.listed: list[dict[str, object]] = []
        # What was asked for, by path, and what was in the forms.
        self.asked: list[str] = []
        self.forms: list[dict[str, str]] = []
        self.down = False
        self.rotate("one")

    def rotate(self, key_id: str, *, keep: bool = False) -> None:
        """Signs with another key from now on; the ones before may stay in the list."""
        key = rsa.generate_private_key(65537, 2048)
        self.keys = {**self.keys, key_id: key} if keep else {key_id: key}
        self.key_id = key_id

    def token(self, role: str, key_id: str = "", **claims: object) -> str:
        now = int(time.time())
        says: dict[str, Any] = {
            "iss": self.url,
            "sub": role,
            "aud": "magnetar",
            "iat": now,
            "exp": now + self.lives_s,
            **claims,
        }
        id = key_id or self.key_id
        says = {name: value for name, value in says.items() if value is not None}
        return jwt.encode(says, self.keys[id], "RS256", headers={"kid": id})

    def answer(self, path: str, form: dict[str, str]) -> tuple[int, object]:
        self.asked.append(path)
        if self.down:
            return 503, {"error": "down"}
        if path == "/.well-known/openid-configuration":
            known = {
                "issuer": self.url,
                "jwks_uri": f"{self.url}/keys",
                "token_endpoint": f"{self.url}/token",
            }
            return 200, known | self.discovery
        if path == "/keys":
            listed = [self._public(id) for id in self.keys]
            return 200, {"keys": [*self.listed, *listed]}
        if path == "/token":
            self.forms.append(form)
            if self.clients.get(form.get("client_id", "")) != form.get("client_secret"):
                return 401, {"error": "invalid_client"}
            token = self.token(form["client_id"], aud=form.get("audience", "magnetar"))
            return 200, {"access_token": token, "expires_in": self.lives_s, "token_type": "Bearer"}
        return 404, {}

    def _public(self, id: str) -> dict[str, object]:
        fields: dict[str, object] = RSAAlgorithm.to_jwk(self.keys[id].public_key(), as_dict=True)
        return {**fields, "kid": id, "use": "sig", "alg": "RS256"}


@contextmanager
def issuing(certificate: tuple[str, str] | None = None) -> Iterator[OpenidIssuer]:
    """One that listens; over TLS, if it is given a certificate and its key."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer({})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self._answer({name: values[0] for name, values in parse_qs(body).items()})

        def _answer(self, form: dict[str, str]) -> None:
            status, fields = issuer.answer(self.path, form)
            body = json.dumps(fields).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    scheme = "http"
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        scheme = "https"
    issuer = OpenidIssuer(f"{scheme}://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


DRIPS = {
    "nothing": b"",
    # The beginning of a record of 16 KiB.
    "a handshake": b"\x16\x03\x03\x40\x00",
    "a head": b"HTTP/1.1 200 OK\r\nX: ",
    "a body": b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n",
}
DRIP_S = 0.05


@contextmanager
def dripping(part: str) -> Iterator[str]:
    """The address of an issuer that answers a byte in a while, and never all; or not at all."""
    done = threading.Event()

    def answer(peer: socket.socket) -> None:
        with contextlib.suppress(OSError), peer:
            peer.sendall(DRIPS[part])
            while not done.wait(DRIP_S):
                if part != "nothing":
                    peer.sendall(b" ")

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = server.accept()
                threading.Thread(target=answer, args=(peer,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0), backlog=100) as server:
        threading.Thread(target=serve, daemon=True).start()
        scheme = "https" if part == "a handshake" else "http"
        try:
            yield f"{scheme}://127.0.0.1:{server.getsockname()[1]}"
        finally:
            done.set()
            server.shutdown(socket.SHUT_RDWR)  # `accept` returns
