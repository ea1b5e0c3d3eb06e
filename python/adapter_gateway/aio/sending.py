"""How asyncio waits, and `send_many` over an iterable that may be asynchronous."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Iterable
from typing import Any, Callable, Optional, TypeVar, Union

from ..connection import Connection, Ready, Resolve, Steps
from ..endpoint import Message
from ..errors import NotSentError
from ..outcome import Outcome
from ..work import Work

_Result = TypeVar("_Result")

#: Seconds for which a thread waits, where the event loop cannot wait for sockets.
_THREAD_S = 0.05


async def run(steps: Steps[_Result]) -> _Result:
    """Runs the steps of a connection in the event loop."""
    loop = asyncio.get_running_loop()
    resume: Callable[[Any], Union[Ready, Resolve]] = steps.send
    value: Any = None
    while True:
        try:
            step = resume(value)
        except StopIteration as end:
            result: _Result = end.value
            return result
        try:
            resume = steps.send
            if isinstance(step, Resolve):
                value = await loop.run_in_executor(None, step.block)
            else:
                await wait(step, loop.create_future())
                value = None
        except BaseException as error:
            resume, value = steps.throw, error


async def wait(step: Ready, change: asyncio.Future[None]) -> None:
    """Waits as the step says, or until the change has come."""
    loop = asyncio.get_running_loop()
    number = -1 if step.socket is None else step.socket.fileno()
    timer = None
    try:
        if number >= 0:
            try:
                loop.add_reader(number, tell, change)
                if step.write:
                    loop.add_writer(number, tell, change)
            except NotImplementedError:
                number = -1
                step.until = min(step.until or float("inf"), time.monotonic() + _THREAD_S)
                loop.run_in_executor(None, step.block).add_done_callback(lambda _: tell(change))
        if step.until is not None:
            timer = loop.call_later(step.until - time.monotonic(), tell, change)
        await change
    finally:
        if timer is not None:
            timer.cancel()
        if number >= 0:
            loop.remove_reader(number)
            loop.remove_writer(number)


def tell(future: Optional[asyncio.Future[None]]) -> None:
    """Ends the wait for a future."""
    if future is not None and not future.done():
        future.set_result(None)


class Sending:
    """Two tasks at one work: one takes the messages, and one writes, reads and connects anew. A pause of the iterable, or
    of the loop over the outcomes, holds up neither."""

    def __init__(
        self, work: Work, connect: Callable[[], Awaitable[Connection]], finish: Callable[[Optional[Connection]], None]
    ) -> None:
        self._work = work
        self._pipeline = work.pipeline
        self._connect = connect
        self._finish = finish
        #: How many messages were taken since the other task worked last.
        self._gathered = 0
        #: How many outcomes are on their way to the caller. Until the caller has them, they take the room of messages.
        self._yielding = 0
        #: What the loop over the outcomes waits for, the task that takes messages, and the one that works.
        self._news: Optional[asyncio.Future[None]] = None
        self._room: Optional[asyncio.Future[None]] = None
        self._change: Optional[asyncio.Future[None]] = None

    async def run(
        self, messages: Union[Iterable[Message], AsyncIterable[Message]], take: Callable[[], Optional[Connection]]
    ) -> AsyncGenerator[Outcome, None]:
        """Yields the outcomes."""
        tasks: list[asyncio.Task[None]] = []
        try:
            kept = take()
            self._work.use(kept or await self._connect(), is_new=kept is None)
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
            self._finish(self._work.end())

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
            if pipeline.has_outcomes:
                tell(self._news)
            if self._work.wants_connection():
                try:
                    self._work.use(await self._connect(), is_new=True)
                except NotSentError as error:
                    pipeline.failed(str(error), time.monotonic())
            else:
                if not pipeline.is_busy:
                    tell(self._news)
                await wait(self._work.wait(), change)
