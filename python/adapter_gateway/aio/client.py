"""A client for asyncio programs that send many messages."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from types import TracebackType

from ..client import IN_FLIGHT, RETRY_S, TIMEOUT_S
from ..endpoint import Endpoint, Message, Payload
from ..errors import GatewayError, NotSentError
from ..outcome import Outcome
from ..pipeline import Pipeline, refused
from ..settings import endpoint_of_settings
from .connection import Connection
from .sending import Sending

#: The most connections for calls of `send` at the same time. Further calls wait for one.
_CONNECTIONS = 64


class Client:
    """Posts messages to a gateway. The arguments and the meaning of all methods are those of `adapter_gateway.Client`.

    Several tasks of one event loop can use one client. Up to 64 calls of `send` have a connection of their own
    meanwhile, and further ones wait for it.
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
        self._idle: list[Connection] = []
        self._permits: asyncio.Semaphore | None = None
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
        """Returns a client for the gateway of a settings file, as `adapter_gateway.Client.from_settings` does."""
        return cls(*endpoint_of_settings(path, url, socket, certificate), timeout_s=timeout_s)

    async def send(self, topic: str, payload: Payload) -> None:
        """Posts a message, and returns when the gateway has accepted it. `payload` is an object or its JSON text.

        Raises `RefusedError` (nothing was published), `NotSentError` (the gateway did not get the message), and
        `OutcomeUnknownError` (no answer came, so the message may have been published). A call that is cancelled leaves
        its message unknown.
        """
        request = self._endpoint.request(topic, payload)
        self._open_for_use()
        if self._permits is None:
            # Python 3.9 binds a semaphore to the event loop that runs when it is made.
            self._permits = asyncio.Semaphore(_CONNECTIONS)
        async with self._permits:
            answer = None
            connection = self._take()
            if connection is not None:
                try:
                    answer = await connection.exchange(request, self._timeout_s)
                except NotSentError:
                    connection.close()
                except BaseException:
                    connection.close()
                    raise
            if answer is None:
                connection = await Connection.open(self._endpoint, self._timeout_s)
                try:
                    answer = await connection.exchange(request, self._timeout_s)
                except BaseException:
                    connection.close()
                    raise
            assert connection is not None
            if answer.close:
                connection.close()
            else:
                self._give_back(connection)
        if answer.status != 200:
            raise refused(answer)

    def send_many(
        self,
        messages: Iterable[Message] | AsyncIterable[Message],
        in_flight: int = IN_FLIGHT,
        *,
        retry_s: float = RETRY_S,
        reorder: bool = False,
    ) -> AsyncIterator[Outcome]:
        """Posts the messages of an iterable, which may be asynchronous, and yields the outcome of each, in order.

        It does what `adapter_gateway.Client.send_many` does. With an asynchronous iterable, an outcome is yielded as
        soon as its answer has come, whether or not the iterable gives another message. What was handed to the event
        loop and not answered counts as written. If the loop over the outcomes is left early, close the iterator
        (`contextlib.aclosing`), which closes the connection.
        """
        self._open_for_use()
        return self._pipelined(Pipeline(self._endpoint, in_flight, retry_s, reorder), messages, retry_s)

    async def _pipelined(
        self, pipeline: Pipeline, messages: Iterable[Message] | AsyncIterable[Message], retry_s: float
    ) -> AsyncIterator[Outcome]:
        sending = Sending(pipeline, self._endpoint, self._timeout_s, retry_s)
        await sending.begin(self._take())
        try:
            async for outcome in sending.run(messages):
                yield outcome
        finally:
            connection = await sending.end()
            if connection is not None:
                self._give_back(connection)

    async def close(self) -> None:
        """Closes the idle connections. The client is of no use afterwards; to close it twice does nothing."""
        self._closed = True
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<Client {self._endpoint.address}>"

    def _open_for_use(self) -> None:
        if self._closed:
            raise GatewayError("the client is closed")

    def _take(self) -> Connection | None:
        """Returns a kept connection that the server has not ended, if there is one."""
        self._open_for_use()
        while self._idle:
            connection = self._idle.pop()
            if connection.lost is None:
                return connection
            connection.close()
        return None

    def _give_back(self, connection: Connection) -> None:
        if self._closed or connection.lost is not None:
            connection.close()
        else:
            self._idle.append(connection)
