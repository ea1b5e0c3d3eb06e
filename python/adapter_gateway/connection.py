"""A connection to the gateway, over a socket that never blocks: every wait is a poll with a bound."""

from __future__ import annotations

import select
import socket
import ssl
import time

from .answers import Answer, AnswerReader, MalformedAnswer
from .endpoint import Endpoint
from .errors import NotSentError, OutcomeUnknownError

READ_BYTES = 64 * 1024

#: The most bytes of one TLS record (RFC 8446 section 5.1). With one record for each call, what the socket did not take
#: whole is of no use to the server.
_RECORD_BYTES = 16 * 1024

#: The answer that a number of `AnswerReader` stands for.
ACCEPTED_ANSWER = Answer(200, False, {}, b"")


class Connection:
    """One connection."""

    def __init__(self, endpoint: Endpoint, timeout_s: float) -> None:
        """Connects. Raises `NotSentError`."""
        self._timeout_s = timeout_s
        #: The bytes that the kernel took.
        self.written = 0
        try:
            self._socket = _connect(endpoint, timeout_s)
        except (OSError, ValueError) as error:
            # `ValueError` is what the standard library raises for some hosts and paths.
            raise NotSentError(f"{endpoint.address}: {failure_reason(error)}") from error
        self._tls = self._socket if isinstance(self._socket, ssl.SSLSocket) else None
        self._poll_in = select.poll()
        self._poll_in.register(self._socket, select.POLLIN)
        self._poll_both = select.poll()
        self._poll_both.register(self._socket, select.POLLIN | select.POLLOUT)

    def close(self) -> None:
        """Closes. What is in flight gets no answer."""
        self._socket.close()

    def is_stale(self) -> bool:
        """Returns whether the server has ended the connection, or sent what nobody asked for, between two requests."""
        if not self._poll_in.poll(0):
            return False
        try:
            # With TLS 1.3, tickets of the server may have arrived (RFC 8446 section 4.6.1), which are no data.
            return self.read() is not None
        except OSError:
            return True

    def read(self) -> bytes | None:
        """Returns what has arrived: `None` if nothing has, no bytes at the end of the connection."""
        try:
            return self._socket.recv(READ_BYTES)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None

    def write(self, data: bytes | memoryview[int]) -> int:
        """Returns how many bytes the kernel took, which may be none."""
        taken = 0
        try:
            if self._tls is None:
                taken = self._socket.send(data)
            else:
                view = memoryview(data)
                while taken < len(view):
                    taken += self._tls.send(view[taken : taken + _RECORD_BYTES])
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            pass
        finally:
            self.written += taken
        return taken

    def wait(self, write: bool, timeout_s: float) -> bool:
        """Waits until there is something to read, or room to write if that is wanted. Returns whether there is."""
        if self._tls is not None and self._tls.pending():
            return True
        return bool((self._poll_both if write else self._poll_in).poll(max(0.0, timeout_s) * 1000))

    def exchange(self, request: bytes) -> Answer:
        """Sends a request, and returns the answer.

        Raises `NotSentError` if the request was not written to its end, and else `OutcomeUnknownError`. Either way the
        connection is of no more use.
        """
        rest: bytes | memoryview[int] = request
        end = self.written + len(request)
        reader = AnswerReader()
        reason = "the connection ended before the answer"
        deadline = time.monotonic() + self._timeout_s
        try:
            while True:
                if rest:
                    taken = self.write(rest)
                    rest = memoryview(rest)[taken:] if taken < len(rest) else b""
                    if taken:
                        deadline = time.monotonic() + self._timeout_s
                if not self.wait(bool(rest), deadline - time.monotonic()):
                    reason = f"no answer came within {self._timeout_s:g} s"
                    break
                data = self.read()
                if data is None:
                    continue
                if not data:
                    break
                answers = reader.receive(data)
                if answers:
                    # An answer before the end of the request says that the server reads no more of it.
                    return self._only(answers[0] if len(answers) == 1 else 2, bool(rest))
        except MalformedAnswer as error:
            reason = str(error)
        except OSError as error:
            answer = self._last_words(reader)
            if answer is not None:
                return answer
            reason = failure_reason(error)
        if self.written < end:
            raise NotSentError(reason)
        raise OutcomeUnknownError(reason)

    def _only(self, answer: int | Answer, early: bool) -> Answer:
        if answer == 1:
            return ACCEPTED_ANSWER._replace(close=early)
        if isinstance(answer, int):
            raise MalformedAnswer("two answers came to one request")
        return answer._replace(close=True) if early else answer

    def _last_words(self, reader: AnswerReader) -> Answer | None:
        """Returns the answer that arrived before the connection broke: a server that does not want the whole request
        answers and closes."""
        try:
            while True:
                data = self.read()
                if not data:
                    return None
                answers = reader.receive(data)
                if answers:
                    return self._only(answers[0], True)
        except (OSError, MalformedAnswer):
            return None


def _connect(endpoint: Endpoint, timeout_s: float) -> socket.socket:
    if endpoint.socket_path is not None:
        connecting = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connecting.settimeout(timeout_s)
            connecting.connect(endpoint.socket_path)
        except BaseException:
            connecting.close()
            raise
    else:
        context = endpoint.tls_context()
        deadline = time.monotonic() + timeout_s
        connecting = socket.create_connection((endpoint.host, endpoint.port), timeout_s)
        try:
            connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if context is not None:
                connecting.settimeout(max(0.001, deadline - time.monotonic()))
                connecting = context.wrap_socket(connecting, server_hostname=endpoint.host)
        except BaseException:
            connecting.close()
            raise
    connecting.setblocking(False)
    return connecting


def failure_reason(error: BaseException) -> str:
    """Returns what went wrong with a connection, in words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of the gateway is not trusted: {error.verify_message}"
    if isinstance(error, (socket.timeout, TimeoutError)):
        return "no connection within the time"
    return str(error) or type(error).__name__
