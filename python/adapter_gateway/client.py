"""A client for scripts that send many messages."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Generator, Iterable
from typing import Optional, TypeVar

from .connection import Connection, Steps, connecting, run
from .endpoint import Endpoint, Message, Path, Payload
from .errors import GatewayError, SettingsError
from .outcome import Outcome
from .pipeline import Pipeline
from .sending import Sending
from .settings import endpoint_of_settings, read_token
from .work import Work

#: Seconds until an answer must have come, unless the client is made with others, and the most that it can be made with.
TIMEOUT_S = 30.0
TIMEOUT_LIMIT_S = 86_400.0

#: Seconds for which `send_many` asks again, unless it is called with others.
RETRY_S = 30.0

#: How many requests `send_many` has in flight, unless it is called with others.
IN_FLIGHT = 64

_Self = TypeVar("_Self", bound="ClientBase")
_Client = TypeVar("_Client", bound="Client")


class ClientBase:
    """The part of a client that does not depend on how one waits."""

    def __init__(
        self, address: Path, token: str, certificate: Optional[Path] = None, *, timeout_s: float = TIMEOUT_S
    ) -> None:
        if not 0 < timeout_s <= TIMEOUT_LIMIT_S:
            raise ValueError(f"timeout_s is above 0, and at most {TIMEOUT_LIMIT_S:g}")
        self._endpoint = Endpoint(address, token, certificate)
        self._timeout_s = timeout_s
        #: The settings file, which is read again when the gateway refuses the token.
        self._settings: Optional[Path] = None
        # A generator that is finalised gives its connection back, wherever the program is. So there is no lock: to add
        # and to remove at one end are indivisible.
        self._idle: deque[Connection] = deque()
        self._closed = False

    @classmethod
    def from_settings(
        cls: type[_Self],
        path: Optional[Path] = None,
        *,
        url: Optional[str] = None,
        socket: Optional[Path] = None,
        certificate: Optional[Path] = None,
        timeout_s: float = TIMEOUT_S,
    ) -> _Self:
        """Returns a client for the gateway of a settings file, by default the user's, which is never executed.

        The token is the one of the settings. The address is `https://localhost:12358`, or that of `url` or `socket`.
        The certificate of an https address is `gateway-cert.pem` beside the settings, or `certificate`.

        When the gateway refuses the token, the file is read again. With another token in it, the message is sent again.

        Raises `SettingsError`.
        """
        file, address, token, trusted = endpoint_of_settings(path, url, socket, certificate)
        client = cls(address, token, trusted, timeout_s=timeout_s)
        client._settings = file
        return client

    def __repr__(self) -> str:
        return f"<Client {self._endpoint.address}>"

    def _posting(self, topic: str, payload: Payload) -> Steps[None]:
        """Posts a message."""
        work = self._work(1, 0.0, False)
        work.pipeline.add((topic, payload))
        kept = self._take()
        work.use(kept or (yield from connecting(self._endpoint, self._timeout_s)), is_new=kept is None)
        try:
            while True:
                work.advance()
                if work.pipeline.has_outcomes:
                    break
                if work.wants_connection():
                    work.use((yield from connecting(self._endpoint, self._timeout_s)), is_new=True)
                else:
                    yield work.wait()
        finally:
            self._give_back(work.end())
        work.pipeline.outcomes()[0].check()

    def _work(self, in_flight: int, retry_s: float, reorder: bool) -> Work:
        self._check_open()
        return Work(Pipeline(self._endpoint, in_flight, retry_s, reorder), self._timeout_s, self._renewed)

    def _renewed(self, refused: Endpoint) -> Optional[Endpoint]:
        """Returns the endpoint with another token than the one that was refused, if the settings have one."""
        if self._settings is None:
            return None
        try:
            token = read_token(self._settings)
        except SettingsError:
            return None
        if token == refused.token:
            return None
        self._endpoint = refused.with_token(token)
        return self._endpoint

    def _check_open(self) -> None:
        if self._closed:
            raise GatewayError("the client is closed")

    def _take(self) -> Optional[Connection]:
        """Returns a kept connection, if there is one. If the server has ended it, that is read before anything is sent."""
        self._check_open()
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            if connection.process == os.getpid():
                return connection
            connection.close()

    def _give_back(self, connection: Optional[Connection]) -> None:
        if connection is not None:
            self._idle.append(connection)
        if self._closed:
            self._close()

    def _close(self) -> None:
        self._closed = True
        while self._idle:
            try:
                self._idle.pop().close()
            except IndexError:
                # Another thread was faster.
                break


class Client(ClientBase):
    """Posts messages to a gateway.

    `address` is the URL of the gateway (`https://localhost:12358/api/message`, where the path may be missing), or the
    path of its Unix socket (also as `unix:PATH`). `certificate` is the file that the gateway's certificate is verified
    with, `gateway-cert.pem` beside the settings; without it, the authorities that the system trusts count. There is no
    way to switch the verification off. Proxies in the environment are not used.

    `timeout_s` is how long a connection may take to be made, and an answer to come, a day at most.

    Several threads can use one client: each call of `send` and each `send_many` has a connection of its own meanwhile,
    and connections are kept for the next call. Messages of one thread stay in order. A client that a forked child
    process inherits makes connections of its own there.

    Raises `ValueError` for an address, a token or a certificate that cannot be right. It connects with the first
    message.
    """

    def send(self, topic: str, payload: Payload) -> None:
        """Posts a message, and returns when the gateway has accepted it. `payload` is an object or its JSON text.

        Raises `RefusedError` (nothing was published), `NotSentError` (the gateway did not get the message), and
        `OutcomeUnknownError` (no answer came, so the message may have been published). It is never sent twice: only
        where a kept connection ended before the request was written to its end is it written to a new one.
        """
        run(self._posting(topic, payload))

    def send_many(
        self,
        messages: Iterable[Message],
        in_flight: int = IN_FLIGHT,
        *,
        retry_s: float = RETRY_S,
        reorder: bool = False,
    ) -> Generator[Outcome, None, None]:
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
        work = self._work(in_flight, retry_s, reorder)
        sending = Sending(work, lambda: run(connecting(self._endpoint, self._timeout_s)), self._give_back)
        return sending.run(iter(messages), self._take)

    def close(self) -> None:
        """Closes the idle connections. The client is of no use afterwards; to close it twice does nothing."""
        self._close()

    def __enter__(self: _Client) -> _Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
