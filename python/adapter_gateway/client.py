"""A client for scripts that send many messages."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from types import TracebackType

from .connection import Connection
from .endpoint import Endpoint, Message, Payload
from .errors import GatewayError, NotSentError
from .outcome import Outcome
from .pipeline import Pipeline, refused
from .sending import Sending
from .settings import endpoint_of_settings

#: Seconds until an answer must have come, unless the client is made with others.
TIMEOUT_S = 30.0

#: Seconds for which `send_many` asks again, unless it is called with others.
RETRY_S = 30.0

#: How many requests `send_many` has in flight, unless it is called with others.
IN_FLIGHT = 64


class Client:
    """Posts messages to a gateway.

    `address` is the URL of the gateway (`https://localhost:12358/api/message`, where the path may be missing), or the
    path of its Unix socket (also as `unix:PATH`). `certificate` is the file that the gateway's certificate is verified
    with, `gateway-cert.pem` beside the settings; without it, the authorities that the system trusts count. There is no
    way to switch the verification off. Proxies in the environment are not used.

    `timeout_s` is how long a connection may take to be made, and an answer to come.

    Several threads can use one client: each call of `send` and each `send_many` has a connection of its own meanwhile,
    and connections are kept for the next call. Messages of one thread stay in order. A client that a forked child
    process inherits makes connections of its own there.

    Raises `ValueError` for an address, a token or a certificate that cannot be right. It connects with the first
    message.
    """

    def __init__(
        self,
        address: str | os.PathLike[str],
        token: str,
        certificate: str | os.PathLike[str] | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._endpoint = Endpoint(address, token, certificate)
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._process = os.getpid()
        self._closed = False

    @classmethod
    def from_settings(
        cls,
        path: str | os.PathLike[str] | None = None,
        *,
        url: str | None = None,
        socket: str | os.PathLike[str] | None = None,
        certificate: str | os.PathLike[str] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> Client:
        """Returns a client for the gateway of a settings file, by default the user's, which is never executed.

        The token is the one of the settings. The address is `https://localhost:12358`, or that of `url` or `socket`.
        The certificate of an https address is `gateway-cert.pem` beside the settings, or `certificate`.

        Raises `SettingsError`.
        """
        return cls(*endpoint_of_settings(path, url, socket, certificate), timeout_s=timeout_s)

    def send(self, topic: str, payload: Payload) -> None:
        """Posts a message, and returns when the gateway has accepted it. `payload` is an object or its JSON text.

        Raises `RefusedError` (nothing was published), `NotSentError` (the gateway did not get the message), and
        `OutcomeUnknownError` (no answer came, so the message may have been published). It is never sent twice: only
        where a kept connection ended before the request was written to its end is it written to a new one.
        """
        request = self._endpoint.request(topic, payload)
        connection = self._take()
        if connection is not None:
            try:
                answer = connection.exchange(request)
            except NotSentError:
                connection.close()
                connection = None
            except BaseException:
                connection.close()
                raise
        if connection is None:
            connection = Connection(self._endpoint, self._timeout_s)
            try:
                answer = connection.exchange(request)
            except BaseException:
                connection.close()
                raise
        if answer.close:
            connection.close()
        else:
            self._give_back(connection)
        if answer.status != 200:
            raise refused(answer)

    def send_many(
        self,
        messages: Iterable[Message],
        in_flight: int = IN_FLIGHT,
        *,
        retry_s: float = RETRY_S,
        reorder: bool = False,
    ) -> Iterator[Outcome]:
        """Posts the messages of an iterable of `(topic, payload)`, and yields the outcome of each, in order.

        Up to `in_flight` requests are sent before the answer of the first has come. The iterable may be endless or
        slow: nothing of it is taken ahead but what is in flight, and a message is sent within milliseconds after it
        was taken. The outcomes are yielded when the iterable gives its next message, or has ended.

        An answer 503 says that nothing was published and when to ask again. The message is then sent again at that
        time, for `retry_s` seconds after the gateway accepted nothing, and nothing else is sent before. If a message
        behind it was in flight and was accepted, to send it again would change the order: then its outcome is the
        503, unless `reorder` is true. With `in_flight=1` this cannot happen.

        If the connection ends, the messages that were written and not answered are unknown, and are not sent again.
        Those that the server did not read (RFC 9112 section 9.6), and those that were not written to their end, are
        sent on a new connection, as are the rest. If no connection can be made for `retry_s` seconds, `NotSentError`
        is raised, which has the messages that were taken and not sent; at the beginning it is raised at once.

        An exception of the iterable, and `TypeError` or `ValueError` for a message that is no JSON, is raised after
        the outcomes of all messages before it.

        If the loop over the outcomes is left early, the connection is closed, and what was in flight is unknown.
        """
        pipeline = Pipeline(self._endpoint, in_flight, retry_s, reorder)
        self._open_for_use()
        return self._pipelined(Sending(pipeline, self._endpoint, self._timeout_s, retry_s), iter(messages))

    def _pipelined(self, sending: Sending, messages: Iterator[Message]) -> Iterator[Outcome]:
        sending.begin(self._take())
        try:
            yield from sending.run(messages)
        finally:
            connection = sending.end()
            if connection is not None:
                self._give_back(connection)

    def close(self) -> None:
        """Closes the idle connections. The client is of no use afterwards; to close it twice does nothing."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Client {self._endpoint.address}>"

    def _open_for_use(self) -> None:
        if self._closed:
            raise GatewayError("the client is closed")

    def _take(self) -> Connection | None:
        """Returns a kept connection that the server has not ended, if there is one."""
        process = os.getpid()
        while True:
            with self._lock:
                self._open_for_use()
                if self._process != process:
                    # The answers to the requests of the parent process arrive on the same sockets.
                    self._process, self._idle = process, []
                if not self._idle:
                    return None
                connection = self._idle.pop()
            if not connection.is_stale():
                return connection
            connection.close()

    def _give_back(self, connection: Connection) -> None:
        with self._lock:
            if not self._closed and self._process == os.getpid():
                self._idle.append(connection)
                return
        connection.close()
