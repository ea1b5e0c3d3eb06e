"""Answers as they arrive, in pieces of any size. Nothing here reads a socket or a clock."""

from __future__ import annotations

import contextlib
import json
import re
from typing import NamedTuple, Optional

from .endpoint import Message
from .errors import RefusedError

#: The most bytes of the head and of the body of an answer. The gateway needs some hundred; a proxy may add some.
HEAD_BYTES = 64 * 1024
BODY_BYTES = 1024 * 1024
#: What the gateway says with 200, and in plain text where it gets http at a port of https.
_ACCEPTED = b'{"status":"accepted"}'
_HTTPS_ONLY = b"This port speaks https: use https:// in the address, not http://."
#: The type of the problem of a gateway that was switched off, and what is told then.
DISABLED = "urn:adapter-gateway:problem:disabled"
OFF = "the gateway is off: its settings have switched it off"
_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9][0-9])(?: [^\r\n]*)?\Z")
_LENGTH = re.compile(r"[0-9]{1,19}\Z", re.ASCII)


class MalformedAnswer(Exception):
    """What arrived is no answer of a gateway: no answer of HTTP/1.1 whose end can be found, or that of another server."""


class Answer(NamedTuple):
    status: int
    #: Whether the server ends the connection after this answer. It reads no request behind it (RFC 9112 section 9.6).
    close: bool
    #: The fields that are used here, with their names in lower case.
    fields: dict[str, str]
    body: bytes

    @property
    def is_of_proxy(self) -> bool:
        """Whether a proxy answers in place of the gateway, whose errors are problems. A 503 says that it passed nothing on."""
        return self.status >= 500 and self.status != 503 and not self._is_problem()

    def _is_problem(self) -> bool:
        return self.fields.get("content-type", "").partition(";")[0].strip().lower() == "application/problem+json"

    def refusal(self, message: Optional[Message] = None, told: Optional[str] = None) -> RefusedError:
        """Returns the error that the answer stands for. `told` replaces what the answer says itself."""
        problem: object = None
        if self._is_problem():
            with contextlib.suppress(ValueError, RecursionError):
                problem = json.loads(self.body)
        members = problem if isinstance(problem, dict) else {}
        texts = {name: value for name, value in members.items() if isinstance(value, str)}
        kind, pointer = texts.get("type", "about:blank"), texts.get("pointer")
        detail = OFF if kind == DISABLED else told or texts.get("detail")
        if detail is None:
            # The page of a stranger may quote the URL, which has the token in it.
            detail = f"an answer of {len(self.body)} bytes that says nothing about the problem (RFC 9457)"
            if self.body.strip() == _HTTPS_ONLY:
                detail = _HTTPS_ONLY.decode()
            elif self.status == 400:
                detail += "; is it an https address?"
        # RFC 9110 section 10.2.3. The gateway never gives a date instead of seconds.
        after = self.fields.get("retry-after", "")
        retry_after_s = float(after) if _LENGTH.match(after) else None
        return RefusedError(self.status, kind, detail, pointer, retry_after_s, message)


class AnswerReader:
    """Finds the answers in the bytes of one connection. Most answers are 200, and differ in their `Date` at most, once
    a second. So the last one is kept with its bytes, and what repeats them is counted and not read again."""

    def __init__(self) -> None:
        self._held = b""
        self._accepted: Answer | None = None
        self._accepted_data = b""

    def receive(self, data: bytes) -> list[tuple[Answer, int]]:
        """Returns the answers that this completes, in order, and how often each came. Raises `MalformedAnswer`."""
        data = self._held + data
        found: list[tuple[Answer, int]] = []
        end: int | None = 0
        while end is not None:
            at = end
            if self._accepted is not None:
                size = len(self._accepted_data)
                count = (len(data) - at) // size
                # Most of the time the rest is nothing else.
                if not data.startswith(self._accepted_data * count, at):
                    count = next(it for it in range(count) if not data.startswith(self._accepted_data, at + it * size))
                if count:
                    found.append((self._accepted, count))
                at += count * size
            end = self._read(data, at, found) if at < len(data) else None
        self._held = data[at:]
        return found

    def _read(self, data: bytes, at: int, found: list[tuple[Answer, int]]) -> int | None:
        """Reads one answer. Returns where it ends, or `None` if it has not arrived wholly."""
        head_end = data.find(b"\r\n\r\n", at, at + HEAD_BYTES)
        if head_end < 0:
            if len(data) - at >= HEAD_BYTES:
                raise MalformedAnswer("the head of an answer is too large")
            if not data.startswith(b"HTTP/1."[: len(data) - at], at):
                raise MalformedAnswer("what answers does not speak HTTP/1.1")
            return None
        status_line, *lines = data[at:head_end].split(b"\r\n")
        match = _STATUS_LINE.match(status_line)
        if match is None:
            raise MalformedAnswer("what answers does not speak HTTP/1.1")
        status = int(match[2])
        fields = _fields(lines)
        body_at = head_end + 4
        if status == 101 or 200 < status < 400:
            # Nobody asked for another protocol, and the gateway neither redirects nor has another 2xx.
            raise MalformedAnswer(f"an answer {status} is not that of the gateway")
        if status < 200:
            # RFC 9110 section 15.2: an interim answer may come although nobody asked for it.
            return body_at
        # The gateway gives each answer its length (RFC 9112 section 6.3). A body without one could be cut off unnoticed.
        length = fields.get("content-length", "")
        if "transfer-encoding" in fields or not _LENGTH.match(length):
            raise MalformedAnswer("an answer has no Content-Length")
        if int(length) > BODY_BYTES:
            raise MalformedAnswer("the body of an answer is too large")
        end = body_at + int(length)
        if end > len(data):
            return None
        options = {option.strip().lower() for option in fields.get("connection", "").split(",")}
        # RFC 9112 section 9.3.
        close = "close" in options or (match[1] == b"0" and "keep-alive" not in options)
        if status == 200 and data[body_at:end].rstrip() != _ACCEPTED:
            raise MalformedAnswer("an answer 200 is not that of the gateway")
        answer = Answer(status, close, fields, data[body_at:end])
        if status == 200 and not close:
            self._accepted, self._accepted_data = answer, data[at:end]
        found.append((answer, 1))
        return end


def _fields(lines: list[bytes]) -> dict[str, str]:
    fields: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.decode("latin-1").partition(":")
        if not colon or not name or name != name.strip():
            raise MalformedAnswer("a field line of an answer is malformed")
        key = name.lower()
        # RFC 9110 section 5.3: repeated fields are one list.
        fields[key] = f"{fields[key]}, {value.strip()}" if key in fields else value.strip()
    return fields
