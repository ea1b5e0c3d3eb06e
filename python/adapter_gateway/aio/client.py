"""A client for asyncio programs that send many messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Iterable
from typing import Optional, TypeVar, Union

from ..client import IN_FLIGHT, RETRY_S, ClientBase
from ..endpoint import Message, Payload
from ..outcome import Outcome
from ..work import Work
from .sending import Sending
from .waiting import wait

#: The most connections for calls of `send` at the same time. Further calls wait for one.
_CONNECTIONS = 64

_Client = TypeVar("_Client", bound="Client")


class Client(ClientBase):
    """Posts messages to a gateway. The arguments and the meaning of all methods are those of `adapter_gateway.Client`.

    Several tasks of one event loop can use one client, and one event loop after the other. Up to 64 calls of `send` have
    a connection of their own meanwhile, and further ones wait for it.
    """

    _loop: Optional[asyncio.AbstractEventLoop] = None

    async def send(self, topic: str, payload: Payload) -> None:
        """Posts a message, and returns when the gateway has accepted it. `payload` is an object or its JSON text.

        Raises `RefusedError` (nothing was published), `NotSentError` (the gateway did not get the message), and
        `OutcomeUnknownError` (no answer came, so the message may have been published). A call that is cancelled leaves
        its message unknown.
        """
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            # A semaphore belongs to one event loop.
            self._loop, self._permits = loop, asyncio.Semaphore(_CONNECTIONS)
        async with self._permits:
            await self._post(topic, payload, wait)

    def send_many(
        self,
        messages: Union[Iterable[Message], AsyncIterable[Message]],
        in_flight: int = IN_FLIGHT,
        *,
        retry_s: float = RETRY_S,
        reorder: bool = False,
    ) -> AsyncGenerator[Outcome, None]:
        """Posts the messages of an iterable, which may be asynchronous, and yields the outcome of each, in order.

        It does what `adapter_gateway.Client.send_many` does. With an asynchronous iterable, an outcome is yielded as
        soon as its answer has come, whether or not the iterable gives another message. If the loop over the outcomes is left early, close the iterator
        (with `aclose`, or `contextlib.aclosing` from Python 3.10 on), which closes the connection.
        """
        return Sending(Work(self._pool, in_flight, retry_s, reorder)).run(messages)

    async def close(self) -> None:
        """Closes the idle connections. The client is of no use afterwards; to close it twice does nothing."""
        self._pool.close()

    async def __aenter__(self: _Client) -> _Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
