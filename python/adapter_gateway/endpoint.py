"""Where messages are posted, and the bytes of each request."""

from __future__ import annotations

import json
import os
import ssl
from typing import Any, Dict, Union
from urllib.parse import quote, urlsplit

#: What `Client` takes as a payload: an object, or its JSON text, which is sent as it stands.
Payload = Union[Dict[str, Any], str, bytes]

#: The path of the one endpoint, for addresses that name none.
PATH = "/api/message"

#: The prefix of a Unix socket, as `--listen` has it.
UNIX_PREFIX = "unix:"

# `NaN` and `Infinity` are no JSON (RFC 8259 section 6). Text is escaped to ASCII, which is the fastest form to make.
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


class Endpoint:
    """The address of a gateway, the trust in its certificate, and the head of every request to it.

    It holds the token, so its `repr` shows the address alone.
    """

    def __init__(
        self,
        address: str | os.PathLike[str],
        token: str,
        certificate: str | os.PathLike[str] | None,
    ) -> None:
        self.socket_path: str | None = None
        self.host = "localhost"
        self.port = 0
        self.is_tls = False
        target = PATH
        authority = "localhost"
        text = os.fspath(address)
        if isinstance(address, str) and "://" in text and not text.startswith(UNIX_PREFIX):
            parts = urlsplit(text)
            if parts.scheme not in ("http", "https"):
                raise ValueError("the URL must begin with https:// or http://")
            if parts.query or parts.fragment or "@" in parts.netloc:
                # The URL is not shown: it may hold the token.
                raise ValueError(
                    "the URL holds a query, a fragment or a user; give the token as an argument of its own"
                )
            if not parts.hostname:
                raise ValueError("the URL names no host")
            self.is_tls = parts.scheme == "https"
            self.host = parts.hostname
            self.port = parts.port or (443 if self.is_tls else 80)
            authority = parts.netloc
            target = PATH if parts.path in ("", "/") else quote(parts.path, safe="/%:@!$&'()*+,;=~-._")
        else:
            self.socket_path = text[len(UNIX_PREFIX) :] if text.startswith(UNIX_PREFIX) else text
            if not self.socket_path:
                raise ValueError("the path of the Unix socket is empty")
        if certificate is not None and not self.is_tls:
            raise ValueError("a certificate is for https; this address is not https")
        if not token:
            raise ValueError("the token is empty")
        self.certificate = None if certificate is None else os.fspath(certificate)
        self._system_trust: ssl.SSLContext | None = None
        self.address = f"{UNIX_PREFIX}{self.socket_path}" if self.socket_path else f"{text}"
        head = (
            f"POST {target}?token={quote(token, safe='')} HTTP/1.1\r\nHost: {authority}\r\n"
            "Content-Type: application/json\r\nContent-Length: "
        )
        try:
            self._head = head.encode("ascii")
        except UnicodeEncodeError:
            raise ValueError("the host of the URL is not ASCII; write it in its IDNA form") from None

    def __repr__(self) -> str:
        return f"<Endpoint {self.address}>"

    def tls_context(self) -> ssl.SSLContext | None:
        """Returns what a new connection verifies the gateway with; `None` without TLS.

        The certificate is read anew each time: the gateway renews its own.
        """
        if not self.is_tls:
            return None
        if self.certificate is not None:
            return ssl.create_default_context(cafile=self.certificate)
        if self._system_trust is None:
            self._system_trust = ssl.create_default_context()
        return self._system_trust

    def request(self, topic: str, payload: Payload) -> bytes:
        """Returns the bytes of the request that posts a message.

        Raises `TypeError` or `ValueError` if the message has no form in JSON.
        """
        if isinstance(payload, bytes):
            body = b'{"topic":%b,"payload":%b}' % (_encode(topic).encode("ascii"), payload)
        elif isinstance(payload, str):
            body = b'{"topic":%b,"payload":%b}' % (_encode(topic).encode("ascii"), payload.encode())
        else:
            body = _encode({"topic": topic, "payload": payload}).encode("ascii")
        return b"%b%d\r\n\r\n%b" % (self._head, len(body), body)


#: A message as `send_many` takes it: topic and payload.
Message = tuple[str, Payload]
