"""The gateway as a child of this process, for asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import weakref
from types import TracebackType
from typing import TYPE_CHECKING

from ..base import ANSWER_TIMEOUT_S, START_TIMEOUT_S, GatewayBase
from ..errors import GatewayError
from ..state import Event, GatewayState, Until
from .process import GatewayProcess

if TYPE_CHECKING:
    from typing_extensions import Self


class EventStream:
    """The events from the call of `Gateway.events` on. The iteration ends when the gateway has ended."""

    def __init__(self) -> None:
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()
        self._has_ended = False

    def __aiter__(self) -> EventStream:
        return self

    async def __anext__(self) -> Event:
        event = None if self._has_ended else await self._events.get()
        if event is None:
            self._has_ended = True
            raise StopAsyncIteration
        return event

    def _put(self, event: Event | None) -> None:
        self._events.put_nowait(event)


class Gateway(GatewayBase):
    """Runs `adapter-gateway serve` as a child of this process, from the start of an `async with` block to its end.

    >>> async with Gateway(settings="user_settings.py", hub=True) as gateway:
    ...     print(gateway.url)

    All is as with `adapter_gateway.Gateway`, except that what waits is awaited. `on_event` is called in the event loop.
    If the loop ends before the block, the gateway stops.
    """

    _process: GatewayProcess | None = None
    _streams: weakref.WeakSet[EventStream]

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._is_forked():
            return
        try:
            await self.stop()
        except GatewayError:
            # What went wrong in the block tells more.
            if error is None:
                raise

    async def start(self) -> None:
        """Starts the gateway, and waits until it is where `until` says.

        Raises `BinaryNotFoundError`, `GatewayEndedError` if it refuses to start, `GatewayDisabledError` if the settings
        do not switch it on, and `GatewayTimeoutError` if the hub or something else is late. Then nothing is left over.
        """
        if self._process is not None:
            raise GatewayError("the gateway was started before")
        self._streams = weakref.WeakSet()
        try:
            self._process = await self._started(is_first=True)
        except BaseException:
            self._close_listeners()
            raise

    async def stop(self) -> Event:
        """Stops the gateway, and returns its event `stopped` with all counters, such as `accepted` and `published`.

        It takes `drain_timeout` at most. Raises `GatewayEndedError` if the gateway has ended in another way, or if it
        had to be killed. A second call returns the same.
        """
        process = self._running()
        try:
            return await process.stop(self._stop_timeout_s())
        finally:
            self._close_listeners()

    async def wait_until(self, until: Until, timeout_s: float = START_TIMEOUT_S) -> None:
        """Waits until the gateway is `ready`, `listening` or `started`. Raises the errors of `start`."""
        await self._running().wait_until(until, timeout_s)

    def events(self) -> EventStream:
        """Returns an iterator over the events from now on, until the gateway has ended.

        Each call returns an iterator of its own. Events wait in it until they are taken.
        """
        stream = EventStream()
        self._streams.add(stream)
        if self.status is not None:
            stream._put(None)
        return stream

    async def stats(self) -> Event:
        """Returns the counters: the event `stats`."""
        return await self._running().ask(signal.SIGUSR1, "stats", ANSWER_TIMEOUT_S)

    async def reload(self) -> Event:
        """Makes the gateway read the settings and the certificates again, and returns the event `settings`.

        Its `state` is `reloaded`, or `rejected` with a `reason`. Then the last good settings stay in force.
        """
        return await self._running().ask(signal.SIGHUP, "settings", ANSWER_TIMEOUT_S)

    async def replace(self) -> Event:
        """Puts a new process in the place of the running one, for example after an upgrade, and refuses no connection.

        The new process listens on the same sockets. When it is where `until` says, the old one stops, and its event
        `stopped` is returned. If the new one does not start, the old one stays, and an error of `start` is raised.
        The gateway must be `replaceable`. Two processes cannot share an endpoint of `bind` or `hub`.
        """
        old = self._running()
        self._check_replaceable()
        new = await self._started(is_first=False)
        old.detach()
        self._process = new
        new.attach(self._deliver)
        return await old.stop(self._stop_timeout_s())

    @property
    def pid(self) -> int:
        """The process id of the gateway."""
        return self._running().pid

    async def _started(self, is_first: bool) -> GatewayProcess:
        process = await GatewayProcess.start(self._command(), self._descriptors())
        try:
            if is_first:
                # What comes before the start is complete tells why it is not.
                process.attach(self._deliver)
            await process.wait_until(self._until, self._start_timeout_s)
        except BaseException:
            with contextlib.suppress(GatewayError):
                await process.stop(self._stop_timeout_s())
            raise
        return process

    def _running(self) -> GatewayProcess:
        self._check_started(self._process is not None)
        assert self._process is not None
        return self._process

    def _state(self) -> GatewayState:
        return self._running().state

    def _deliver(self, event: Event | None) -> None:
        for stream in list(self._streams):
            stream._put(event)
        self._call(event)
