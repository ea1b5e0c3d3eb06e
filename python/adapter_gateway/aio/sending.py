"""The work of `send_many` for asyncio: takes messages, writes, reads, and connects anew."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable

from ..answers import MalformedAnswer
from ..attempts import Attempts
from ..endpoint import Endpoint, Message
from ..errors import NotSentError
from ..outcome import Outcome
from ..pipeline import Pipeline
from .connection import Connection


class Sending:
    """The connection of one `send_many`, and the messages on it.

    A task takes the messages and writes them, so that a pause of the iterable holds up nothing.
    """

    def __init__(self, pipeline: Pipeline, endpoint: Endpoint, timeout_s: float, retry_s: float) -> None:
        self._pipeline = pipeline
        self._endpoint = endpoint
        self._timeout_s = timeout_s
        self._attempts = Attempts(retry_s)
        self._loop = asyncio.get_running_loop()
        self._connection: Connection | None = None
        self._rest: bytes | memoryview[int] = b""
        #: When bytes were written last, or an answer came, for the time that an answer may take.
        self._moved_at = 0.0
        #: How many messages were taken since the last write.
        self._gathered = 0
        #: How many outcomes are on their way to the caller. Until the caller has them, they take the room of messages.
        self._yielding = 0
        self._feeding: asyncio.Task[None] | None = None
        #: What the loop over the outcomes waits for, and what the task that takes messages waits for.
        self._change: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None

    async def begin(self, kept: Connection | None) -> None:
        """Takes a kept connection, or makes one. Raises `NotSentError`."""
        self._use(kept if kept is not None else await Connection.open(self._endpoint, self._timeout_s))

    async def end(self) -> Connection | None:
        """Ends. Returns the connection if it can be used further."""
        if self._feeding is not None and not self._feeding.done():
            self._feeding.cancel()
            await asyncio.wait([self._feeding])
        connection, self._connection = self._connection, None
        if connection is None:
            return None
        connection.on_data = connection.on_change = None
        if self._pipeline.in_flight or self._rest or self._pipeline.closing:
            connection.close()
            return None
        return connection

    async def run(self, messages: Iterable[Message] | AsyncIterable[Message]) -> AsyncIterator[Outcome]:
        """Yields the outcomes."""
        pipeline = self._pipeline
        self._feeding = feeding = self._loop.create_task(self._feed(messages))
        feeding.add_done_callback(self._wake)
        while True:
            ready = pipeline.outcomes()
            self._yielding = len(ready)
            for outcome in ready:
                yield outcome
            self._yielding = 0
            if ready:
                _set(self._room)
            elif not (pipeline.has_unsent or pipeline.in_flight) and feeding.done():
                # Raises what the iterable raised.
                feeding.result()
                return
            else:
                await self._work()

    async def _feed(self, messages: Iterable[Message] | AsyncIterable[Message]) -> None:
        if isinstance(messages, AsyncIterable):
            async for message in messages:
                if self._take(message):
                    await self._wait_for_room()
        else:
            for message in messages:
                if self._take(message):
                    await self._wait_for_room()

    def _take(self, message: Message) -> bool:
        """Takes a message. Returns whether there is no room for another."""
        pipeline = self._pipeline
        pipeline.add(message)
        self._gathered += 1
        if self._gathered >= pipeline.half or pipeline.is_full:
            self._flush()
        elif self._gathered == 1:
            # Runs when the iterable takes its time.
            self._loop.call_soon(self._flush)
        return not self._has_room()

    def _has_room(self) -> bool:
        return self._pipeline.room() > self._yielding

    async def _wait_for_room(self) -> None:
        while not self._has_room():
            self._room = self._loop.create_future()
            await self._room

    def _use(self, connection: Connection) -> None:
        connection.written = 0
        connection.on_data, connection.on_change = self._receive, self._write
        self._connection = connection
        self._rest = b""
        self._moved_at = self._loop.time()
        self._pipeline.connected()

    def _flush(self) -> None:
        """Writes what was taken. Without a connection, the loop over the outcomes makes one."""
        self._gathered = 0
        if self._connection is None:
            self._wake()
        else:
            self._write()

    def _write(self) -> None:
        """Writes what can be written now."""
        connection, pipeline = self._connection, self._pipeline
        while connection is not None and connection.writable:
            if connection.lost is not None:
                self._break(connection.lost)
                return
            if not self._rest:
                self._rest = pipeline.requests(self._loop.time())
                if not self._rest:
                    break
            taken = connection.write(self._rest)
            if not taken:
                # Asyncio tells of the end of a connection, or of room, with a call of its own.
                break
            self._moved_at = self._loop.time()
            self._rest = memoryview(self._rest)[taken:] if taken < len(self._rest) else b""
        if connection is not None and connection.lost is not None:
            self._break(connection.lost)

    def _receive(self, data: bytes) -> None:
        now, pipeline = self._loop.time(), self._pipeline
        waiting = pipeline.in_flight
        try:
            pipeline.receive(data, now)
        except MalformedAnswer as error:
            self._break(str(error))
            return
        if pipeline.in_flight < waiting:
            self._moved_at = now
            self._attempts.succeeded()
        if pipeline.closing:
            self._drop()
        self._wake()

    def _break(self, reason: str) -> None:
        """The connection ended before the answers."""
        connection = self._connection
        if connection is None:
            return
        if connection.written and not self._pipeline.answered:
            self._attempts.failed(reason, self._loop.time())
        self._pipeline.broken(connection.written, reason)
        self._drop()
        self._wake()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        self._rest = b""
        if connection is not None:
            connection.close()

    async def _work(self) -> None:
        """Connects if need be, writes, and waits for a change."""
        pipeline = self._pipeline
        # A change from here on ends the wait below.
        self._change = change = self._loop.create_future()
        now = self._loop.time()
        if self._connection is None and pipeline.has_unsent and now >= pipeline.resume_at:
            if self._attempts.may_connect(now, pipeline):
                try:
                    self._use(await Connection.open(self._endpoint, self._timeout_s))
                except NotSentError as error:
                    self._attempts.failed(str(error), self._loop.time())
        self._write()
        connection = self._connection
        if connection is not None and pipeline.in_flight:
            until: float | None = self._moved_at + self._timeout_s
        elif pipeline.has_unsent:
            until = max(pipeline.resume_at, self._attempts.next_at if connection is None else 0.0)
        else:
            until = None
        timer = None if until is None else self._loop.call_at(until, self._wake)
        try:
            await change
        finally:
            if timer is not None:
                timer.cancel()
        late = self._moved_at + self._timeout_s <= self._loop.time()
        if late and connection is not None and connection is self._connection and pipeline.in_flight:
            self._break(f"no answer came within {self._timeout_s:g} s")

    def _wake(self, _: object = None) -> None:
        _set(self._change)


def _set(future: asyncio.Future[None] | None) -> None:
    if future is not None and not future.done():
        future.set_result(None)
