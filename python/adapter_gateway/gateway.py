"""The gateway as a child of this process."""

from __future__ import annotations

import contextlib
import queue
import signal
import weakref
from types import TracebackType
from typing import TYPE_CHECKING

from .base import ANSWER_TIMEOUT_S, START_TIMEOUT_S, GatewayBase
from .errors import GatewayError
from .process import GatewayProcess
from .state import Event, GatewayState, Until

if TYPE_CHECKING:
    from typing_extensions import Self


class EventStream:
    """The events from the call of `Gateway.events` on. The iteration ends when the gateway has ended."""

    def __init__(self) -> None:
        self._events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._has_ended = False

    def __iter__(self) -> EventStream:
        return self

    def __next__(self) -> Event:
        event = None if self._has_ended else self._events.get()
        if event is None:
            self._has_ended = True
            raise StopIteration
        return event

    def _put(self, event: Event | None) -> None:
        self._events.put(event)


class Gateway(GatewayBase):
    """Runs `adapter-gateway serve` as a child of this process, from the start of a `with` block to its end.

    >>> with Gateway(settings="user_settings.py", hub=True) as gateway:
    ...     print(gateway.url)

    When the block begins, messages are taken. When it ends, each message that was accepted has been handed to the hub.
    The gateway also ends when this process ends, whatever ends it. Lines that the gateway logs go to the logger
    `adapter_gateway`, with the level INFO.
    """

    _process: GatewayProcess | None = None
    _streams: weakref.WeakSet[EventStream]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._is_forked():
            return
        try:
            self.stop()
        except GatewayError:
            # What went wrong in the block tells more.
            if error is None:
                raise

    def start(self) -> None:
        """Starts the gateway, and waits until it is where `until` says.

        Raises `BinaryNotFoundError`, `GatewayEndedError` if it refuses to start, `GatewayDisabledError` if the settings
        do not switch it on, and `GatewayTimeoutError` if the hub or something else is late. Then nothing is left over.
        """
        if self._process is not None:
            raise GatewayError("the gateway was started before")
        self._streams = weakref.WeakSet()
        try:
            self._process = self._started(is_first=True)
        except BaseException:
            self._close_listeners()
            raise

    def stop(self) -> Event:
        """Stops the gateway, and returns its event `stopped` with all counters, such as `accepted` and `published`.

        It takes `drain_timeout` at most. Raises `GatewayEndedError` if the gateway has ended in another way, or if it
        had to be killed. A second call returns the same.
        """
        process = self._running()
        try:
            return process.stop(self._stop_timeout_s())
        finally:
            self._close_listeners()

    def wait_until(self, until: Until, timeout_s: float = START_TIMEOUT_S) -> None:
        """Waits until the gateway is `ready`, `listening` or `started`. Raises the errors of `start`."""
        self._running().wait_until(until, timeout_s)

    def events(self) -> EventStream:
        """Returns an iterator over the events from now on, until the gateway has ended.

        Each call returns an iterator of its own. Events wait in it until they are taken.
        """
        stream = EventStream()
        self._streams.add(stream)
        if self.status is not None:
            stream._put(None)
        return stream

    def stats(self) -> Event:
        """Returns the counters: the event `stats`."""
        return self._running().ask(signal.SIGUSR1, "stats", ANSWER_TIMEOUT_S)

    def reload(self) -> Event:
        """Makes the gateway read the settings and the certificates again, and returns the event `settings`.

        Its `state` is `reloaded`, or `rejected` with a `reason`. Then the last good settings stay in force.
        """
        return self._running().ask(signal.SIGHUP, "settings", ANSWER_TIMEOUT_S)

    def replace(self) -> Event:
        """Puts a new process in the place of the running one, for example after an upgrade, and refuses no connection.

        The new process listens on the same sockets. When it is where `until` says, the old one stops, and its event
        `stopped` is returned. If the new one does not start, the old one stays, and an error of `start` is raised.
        The gateway must be `replaceable`. Two processes cannot share an endpoint of `bind` or `hub`.
        """
        old = self._running()
        self._check_replaceable()
        new = self._started(is_first=False)
        old.detach()
        self._process = new
        new.attach(self._deliver)
        return old.stop(self._stop_timeout_s())

    @property
    def pid(self) -> int:
        """The process id of the gateway."""
        return self._running().pid

    def _started(self, is_first: bool) -> GatewayProcess:
        process = GatewayProcess(self._command(), self._descriptors())
        try:
            if is_first:
                # What comes before the start is complete tells why it is not.
                process.attach(self._deliver)
            process.wait_until(self._until, self._start_timeout_s)
        except BaseException:
            with contextlib.suppress(GatewayError):
                process.stop(self._stop_timeout_s())
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
