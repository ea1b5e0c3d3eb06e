"""Where messages are posted, and the bytes of each request."""

from __future__ import annotations

import copy
import functools
import json.encoder
import os
import re
import ssl
from collections.abc import Mapping
from typing import Any, Optional, Union
from urllib.parse import quote, urlsplit

Path = Union[str, os.PathLike[str]]
#: What `Client` takes as a payload: an object, or its JSON text, which is sent as it stands.
Payload = Union[Mapping[str, Any], str, bytes]
#: A message as `send_many` takes it: topic and payload.
Message = tuple[str, Payload]
#: The path of the one endpoint, for addresses that name none.
PATH = "/api/message"
UNIX_PREFIX = "unix:"
#: `HOST:PORT`, which nobody means as the path of a socket.
_WITHOUT_SCHEME = re.compile(r"(?!unix:)[^/]+:[0-9]+(/|\Z)")
#: A token that a field can carry, whatever the server makes of spaces and of other alphabets.
_BEARER = re.compile(r"[!-~]+\Z")
_UNSPEAKABLE = re.compile(r"[\0-\x20\x7f]")


def _plain(value: object) -> dict[Any, Any]:
    """Returns what the encoder takes in the place of a value that it does not know."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a {type(value).__name__} has no form in JSON")


# `NaN` and `Infinity` are no JSON (RFC 8259 section 6). Text is escaped to ASCII, which is the fastest form to make.
# `JSONEncoder.encode` makes this anew for each call, which takes as long as the encoding. Without a dictionary of what it
# is inside of, it keeps no state, and threads can share it; a circle then ends as too deep a nesting.
_encoder: Any = json.encoder
_pieces = _encoder.c_make_encoder(None, _plain, _encoder.encode_basestring_ascii, None, ":", ",", False, False, False)


@functools.lru_cache(maxsize=64, typed=True)
def _beginning(topic: str) -> tuple[str, bytes]:
    """Returns what stands before the payload, as text and as bytes. The messages of a script have few topics."""
    text = f'{{"topic":{"".join(_pieces(topic, 0))},"payload":'
    return text, text.encode("ascii")


class Endpoint:
    """The address of a gateway, the trust in its certificate, and the head of every request to it."""

    def __init__(self, address: Path, token: str, certificate: Optional[Path]) -> None:
        #: Where the token comes from, for errors.
        self.token_name = "the token that the client was made with"
        self.socket_path: Optional[str] = None
        self.host = self.tls_name = self._authority = "localhost"
        self.port = 0
        self.is_tls = False
        self._target = PATH
        text = os.fspath(address)
        if isinstance(address, str) and "://" in text and not text.startswith(UNIX_PREFIX):
            self._read_url(text)
        elif isinstance(address, str) and _WITHOUT_SCHEME.match(text):
            raise ValueError(f"is {text!r} https://{text}, http://{text} or the file unix:{text}? Write that")
        else:
            self.socket_path = text[len(UNIX_PREFIX) :] if text.startswith(UNIX_PREFIX) else text
            if not self.socket_path or "\0" in self.socket_path:
                raise ValueError("the path of the Unix socket is empty, or has a NUL in it")
        self.address = f"{UNIX_PREFIX}{self.socket_path}" if self.socket_path else text
        if certificate is not None and not self.is_tls:
            raise ValueError("a certificate is for https; this address is not https")
        # It is read for each connection, and the directory of this process may change.
        self.certificate = None if certificate is None else os.path.abspath(certificate)
        # To read all authorities takes some milliseconds.
        self._system_trust = ssl.create_default_context() if self.is_tls and certificate is None else None
        try:
            self.tls_context()
        except OSError as error:
            raise ValueError(str(error)) from None
        self._set_token(token)

    def _read_url(self, text: str) -> None:
        # `urlsplit` drops some of them.
        if _UNSPEAKABLE.search(text):
            raise ValueError("the URL has a white space or a control character in it")
        parts = urlsplit(text)
        if parts.scheme not in ("http", "https"):
            raise ValueError("the URL must begin with https:// or http://")
        if parts.query or parts.fragment or "@" in parts.netloc:
            # The URL is not shown: it may hold the token.
            raise ValueError("the URL holds a query, a fragment or a user; give the token as an argument of its own")
        if not parts.hostname:
            raise ValueError("the URL names no host")
        self.is_tls = parts.scheme == "https"
        self.host = parts.hostname
        self.port = (443 if self.is_tls else 80) if parts.port is None else parts.port
        if self.port == 0:
            raise ValueError("nothing listens on port 0")
        # The gateway and its certificate do not know the interface of an address of IPv6.
        self.tls_name = self.host.partition("%")[0]
        self._authority = re.sub(r"%[^]]*", "", parts.netloc)
        if parts.path not in ("", "/"):
            self._target = quote(parts.path, safe="/%:@!$&'()*+,;=~-._")

    def _set_token(self, token: str) -> None:
        if not token:
            raise ValueError("the token is empty")
        if any("\ud800" <= character <= "\udfff" for character in token):
            raise ValueError("the token holds a lone surrogate, which is no character")
        self.token = token
        # A URL ends in histories and in the logs of proxies, so the token is in it only if no field can carry it.
        field, query = f"Authorization: Bearer {token}\r\n", ""
        if not _BEARER.match(token):
            field, query = "", f"?token={quote(token, safe='')}"
        head = (
            f"POST {self._target}{query} HTTP/1.1\r\nHost: {self._authority}\r\n{field}"
            "Content-Type: application/json\r\nContent-Length: "
        )
        if not head.isascii():
            raise ValueError("the host of the URL is not ASCII; write it in its IDNA form")
        self.head = head.encode("ascii")

    def with_token(self, token: str) -> Endpoint:
        other = copy.copy(self)
        other._set_token(token)
        return other

    def tls_context(self) -> Optional[ssl.SSLContext]:
        """Returns what a new connection verifies the gateway with; `None` without TLS. The certificate is read anew
        each time: the gateway renews its own. Raises `OSError`, which names the file."""
        if self.certificate is None:
            return self._system_trust
        try:
            return ssl.create_default_context(cafile=self.certificate)
        except OSError as error:
            reason = "it holds no certificate" if isinstance(error, ssl.SSLError) else error.strerror
            raise OSError(f"the certificate {self.certificate} cannot be used: {reason}") from None


def content(topic: str, payload: Payload) -> bytes:
    """Returns what follows the head in the request. Raises `TypeError` or `ValueError` for what has no form in JSON."""
    if not isinstance(topic, str):
        raise TypeError(f"the topic is a str, and not a {type(topic).__name__}; it comes before the payload")
    try:
        if isinstance(payload, (str, bytes)):
            given = payload.encode() if isinstance(payload, str) else payload
            start = _beginning(topic)[1]
            return b"%d\r\n\r\n%b%b}" % (len(start) + len(given) + 1, start, given)
        before, text = _beginning(topic)[0], "".join(_pieces(payload, 0))
        return f"{len(before) + len(text) + 1}\r\n\r\n{before}{text}}}".encode("ascii")
    except RecursionError:
        raise ValueError("the message is nested too deeply, or contains itself") from None
