"""A client for asyncio programs that send many messages."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncGenerator, AsyncIterable, Iterable
from typing import Optional, TypeVar, Union

from ..client import IN_FLIGHT, RETRY_S, ClientBase
from ..endpoint import Message, Payload
from ..outcome import Outcome
from ..work import Work
from .waiting import tell, wait

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
        """Posts a message as `adapter_gateway.Client.send` does. A call that is cancelled leaves its message unknown."""
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
        soon as its answer has come, whether or not the iterable gives another message. If the loop over the outcomes is
        left early, close the iterator (with `aclose`, or `contextlib.aclosing` from Python 3.10 on), which closes the
        connection.
        """
        return _Sending(Work(self._pool, in_flight, retry_s, reorder)).run(messages)

    async def close(self) -> None:
        """Closes the idle connections. The client is of no use afterwards; to close it twice does nothing."""
        self._pool.close()

    async def __aenter__(self: _Client) -> _Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class _Sending:
    """Two tasks at one work: one takes the messages, and one writes, reads and connects anew. A pause of the iterable, or
    of the loop over the outcomes, holds up neither."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._pipeline = work.pipeline
        #: How many messages were taken since the other task worked last.
        self._gathered = 0
        #: How many outcomes are on their way to the caller. Until the caller has them, they take the room of messages.
        self._yielding = 0
        #: What the loop over the outcomes waits for, the task that takes messages, and the one that works.
        self._news: Optional[asyncio.Future[None]] = None
        self._room: Optional[asyncio.Future[None]] = None
        self._change: Optional[asyncio.Future[None]] = None

    async def run(self, messages: Union[Iterable[Message], AsyncIterable[Message]]) -> AsyncGenerator[Outcome, None]:
        tasks: list[asyncio.Task[None]] = []
        try:
            await self._work.begin(wait)
            tasks += [asyncio.ensure_future(self._feed(messages)), asyncio.ensure_future(self._work_on())]
            for task in tasks:
                task.add_done_callback(lambda _: tell(self._news))
            feeding, working = tasks
            while True:
                ready = self._pipeline.outcomes()
                self._yielding = len(ready)
                for outcome in ready:
                    yield outcome
                self._yielding = 0
                if ready:
                    tell(self._room)
                elif working.done():
                    # Raises why it ended.
                    working.result()
                elif feeding.done() and not self._pipeline.is_busy:
                    # Raises what the iterable raised.
                    feeding.result()
                    return
                else:
                    self._news = asyncio.get_running_loop().create_future()
                    await self._news
        finally:
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)
            self._work.end()

    async def _feed(self, messages: Union[Iterable[Message], AsyncIterable[Message]]) -> None:
        if isinstance(messages, AsyncIterable):
            async for message in messages:
                if self._take(message):
                    await self._wait_for_room()
        else:
            for message in messages:
                if self._take(message):
                    await self._wait_for_room()

    def _take(self, message: Message) -> bool:
        """Takes a message. Returns whether to let the other task work before the next one is taken.

        That task alone reads, writes and closes, so no socket is closed while somebody waits for it.
        """
        if self._pipeline.verdict is not None:
            self._work.renew()
        self._pipeline.add(message)
        self._gathered += 1
        # The task runs when the iterable takes its time.
        tell(self._change)
        if self._pipeline.has_outcomes:
            tell(self._news)
        return self._gathered >= self._pipeline.half or not self._has_room()

    def _has_room(self) -> bool:
        return self._pipeline.room() > self._yielding

    async def _wait_for_room(self) -> None:
        await asyncio.sleep(0)
        while not self._has_room():
            self._room = asyncio.get_running_loop().create_future()
            await self._room

    async def _work_on(self) -> None:
        loop, pipeline = asyncio.get_running_loop(), self._pipeline
        while True:
            self._gathered = 0
            # A change from here on ends the wait below.
            self._change = change = loop.create_future()
            self._work.advance()
            if pipeline.has_outcomes or not pipeline.is_busy:
                tell(self._news)
            await self._work.step(functools.partial(wait, change=change))
