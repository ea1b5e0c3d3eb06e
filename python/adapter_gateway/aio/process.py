"""One gateway as a child process, and the tasks that read what it says."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Callable, Sequence
from typing import Optional

from ..lifeline import Lifeline
from ..state import KILL_TIMEOUT_S, Event, GatewayState, Until

_PIECE_BYTES = 64 * 1024

_log = logging.getLogger("adapter_gateway")

Sink = Callable[[Optional[Event]], None]
"""Takes each event, and `None` when the process has ended."""


class GatewayProcess:
    """A child process. Tasks read both of its streams to their ends, so that nothing that it writes blocks it."""

    def __init__(self, process: asyncio.subprocess.Process, lifeline: Lifeline) -> None:
        """Use `start`."""
        self.state = GatewayState()
        self._process = process
        self._lifeline = lifeline
        self._waiters: set[asyncio.Future[None]] = set()
        self._undelivered: list[Event | None] = []
        self._sink: Sink | None = None
        self._task = asyncio.ensure_future(self._read())

    @classmethod
    async def start(cls, command: Sequence[str], descriptors: Sequence[int]) -> GatewayProcess:
        """Starts the process, which inherits the descriptors."""
        lifeline = Lifeline()
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=lifeline.read_end,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                pass_fds=descriptors,
                # A terminal sends Ctrl-C to each process of its foreground group. This process is to decide.
                start_new_session=True,
            )
        except BaseException:
            lifeline.close()
            raise
        finally:
            lifeline.close_read_end()
        return cls(process, lifeline)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def attach(self, sink: Sink) -> None:
        """Passes each event to this function, also those that have come already."""
        self._sink = sink
        self._deliver()

    def detach(self) -> None:
        """Passes no more events on."""
        self.attach(lambda event: None)

    async def wait_until(self, until: Until, timeout_s: float) -> None:
        """Waits until this state is reached. Raises an error if it is not reached."""
        if not await self._wait_for(lambda: self.state.has_reached(until), timeout_s):
            raise self.state.late(f"`{until}`", timeout_s)

    async def ask(self, signal_number: signal.Signals, answer: str, timeout_s: float) -> Event:
        """Sends a signal, and returns the next event with the name of the answer."""
        has_come = self.state.next_event(answer)
        self._send(signal_number)
        if not await self._wait_for(has_come, timeout_s):
            raise self.state.late(f"the event `{answer}`", timeout_s)
        return self.state.last[answer]

    async def stop(self, timeout_s: float) -> Event:
        """Stops the process, and returns its last event. Raises an error if it ended in another way."""
        # The end of standard input asks once. A signal would count as the second request, which ends the process at
        # once, if a service manager has sent its own to all processes.
        self._lifeline.close()
        if not await self._has_ended(timeout_s):
            # Somebody has a copy of the pipe.
            self._send(signal.SIGTERM)
            if not await self._has_ended(timeout_s):
                self._send(signal.SIGKILL)
                await self._has_ended(KILL_TIMEOUT_S)
                raise self.state.killed(timeout_s)
        return self.state.stopped()

    def _send(self, signal_number: signal.Signals) -> None:
        """Sends a signal. If the process has ended, its state will tell.

        The methods of asyncio for this, those of Python 3.12.1 among them, may take the exit status of a process that has
        just ended. What waits for the process is then told 255.
        """
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal_number)

    async def _has_ended(self, timeout_s: float) -> bool:
        return await self._wait_for(lambda: self.state.status is not None, timeout_s)

    async def _wait_for(self, has_come: Callable[[], bool], timeout_s: float) -> bool:
        """Waits until this is so, for this time at most, and returns whether it is."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while not has_come():
            left_s = deadline - loop.time()
            if left_s <= 0:
                return False
            waiter: asyncio.Future[None] = loop.create_future()
            self._waiters.add(waiter)
            try:
                await asyncio.wait({waiter}, timeout=left_s)
            finally:
                self._waiters.discard(waiter)
        return True

    async def _read(self) -> None:
        try:
            await asyncio.gather(
                self._read_stream(self._process.stdout, self._take_events),
                self._read_stream(self._process.stderr, self._take_log),
            )
            self.state.status = await self._process.wait()
            self._undelivered.append(None)
            self._deliver()
            self._notify()
        finally:
            # If the loop ends first, the gateway ends too.
            self._lifeline.close()

    async def _read_stream(self, stream: asyncio.StreamReader | None, take: Callable[[bytes], None]) -> None:
        assert stream is not None
        piece = b"first"
        while piece:
            piece = await stream.read(_PIECE_BYTES)
            take(piece)

    def _take_events(self, piece: bytes) -> None:
        for event in self.state.events(piece):
            self._undelivered.append(event)
            self._deliver()
        self._notify()

    def _take_log(self, piece: bytes) -> None:
        for line in self.state.log_lines(piece):
            _log.info("%s", line)

    def _deliver(self) -> None:
        while self._sink is not None and self._undelivered:
            self._sink(self._undelivered.pop(0))

    def _notify(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
