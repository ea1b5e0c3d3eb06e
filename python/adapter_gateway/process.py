"""One gateway as a child process, the threads that read what it says, and when another one is started in its place."""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from typing import Optional

from .errors import GatewayError
from .inherited import Lifeline
from .state import KILL_TIMEOUT_S, Event, GatewayState, Until

#: The level that a line of the log begins with, behind the time of `--log-time`.
_LEVEL = re.compile(r"(?P<time>\d\S*[Zz] )?(?P<level>info|warning|error): ")

#: Seconds before the first of several starts, which double from start to start, and the most.
FIRST_PAUSE_S = 0.5
PAUSE_LIMIT_S = 60.0

#: How many starts follow on each other at most, and the seconds after which a gateway has run for long enough for the
#: count to begin anew.
LIMIT = 10
STABLE_S = 60.0

_log = logging.getLogger("adapter_gateway")

Sink = Callable[[Optional[Event]], None]
"""Takes each event, and `None` when the process has ended."""


class GatewayProcess:
    """A child process. Two threads read its streams to their ends, so that nothing that it writes blocks it."""

    def __init__(
        self, command: Sequence[str], descriptors: Sequence[int], on_log: Optional[Callable[[str], object]] = None
    ) -> None:
        """Starts the process, which inherits the descriptors. The function gets each line of the log."""
        self._on_log = on_log
        self.state = GatewayState()
        #: Set when the process was asked to stop.
        self.is_let_go = threading.Event()
        self._lifeline = Lifeline()
        try:
            self._popen = subprocess.Popen(
                command,
                stdin=self._lifeline.read_end,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=descriptors,
                # A terminal sends Ctrl-C to each process of its foreground group. This process is to decide.
                start_new_session=True,
            )
        except BaseException:
            self._lifeline.close()
            raise
        finally:
            os.close(self._lifeline.read_end)
        # Its lock guards all below, and the state. The sink is called under it, so who waits for an event goes on when
        # the sink has had it.
        self._changed = threading.Condition()
        self._undelivered: list[Optional[Event]] = []
        self._sink: Optional[Sink] = None
        self._is_delivering = False
        threading.Thread(target=self._read, name=f"adapter-gateway {self.pid}", daemon=True).start()

    @property
    def pid(self) -> int:
        return self._popen.pid

    def attach(self, sink: Sink) -> None:
        """Passes each event to this function, also those that have come already."""
        with self._changed:
            self._sink = sink
            self._deliver()

    def wait_for(self, has_come: Callable[[], bool], timeout_s: Optional[float]) -> bool:
        """Waits until this is so, for this time at most, and returns whether it is."""
        with self._changed:
            self._check_may_wait()
            return self._changed.wait_for(has_come, timeout_s)

    def wait_until(self, until: Until, timeout_s: Optional[float], is_start: bool = False) -> None:
        """Waits until this state is reached. Raises an error if it is not reached; at a start, also if it is not because
        of the settings."""
        with self._changed:
            if not self.wait_for(lambda: self.state.has_reached(until, is_start), timeout_s):
                raise self.state.late(f"`{until}`", timeout_s)

    def ask(self, signal_number: signal.Signals, answer: str, timeout_s: float) -> Event:
        """Sends a signal, and returns the next event with the name of the answer."""
        with self._changed:
            self._check_may_wait()
            before = self.state.counts[answer]
            self._popen.send_signal(signal_number)
            if not self.wait_for(lambda: self.state.has_come(answer, before), timeout_s):
                raise self.state.late(f"the event `{answer}`", timeout_s)
            return self.state.last[answer]

    def let_go(self) -> None:
        """Asks the process to stop, and waits for nothing."""
        self.is_let_go.set()
        self._lifeline.close()

    def stop(self, timeout_s: float) -> Event:
        """Stops the process, and returns its last event. Raises an error if it ended in another way.

        A process that does not stop is asked once more after this time, and is killed after twice this time.
        """
        with self._changed:
            self._check_may_wait()
        # The end of standard input asks once. A signal would count as the second request, which ends the process at
        # once, if a service manager has sent its own to all processes.
        self.let_go()
        if not self._has_ended(timeout_s):
            # Somebody has a copy of the pipe.
            self._popen.terminate()
            if not self._has_ended(timeout_s):
                self._popen.kill()
                self._has_ended(KILL_TIMEOUT_S)
                raise self.state.killed(timeout_s)
        return self.state.stopped()

    def _check_may_wait(self) -> None:
        # The caller holds the lock. So if an event is being delivered, it is by this thread.
        if self._is_delivering:
            raise GatewayError("a function that takes events cannot wait for the gateway; wait in another thread")

    def _has_ended(self, timeout_s: float) -> bool:
        return self.wait_for(lambda: self.state.status is not None, timeout_s)

    def _read(self) -> None:
        assert self._popen.stdout is not None
        log = threading.Thread(target=self._read_log, name=f"adapter-gateway {self.pid} log", daemon=True)
        log.start()
        with self._popen.stdout as lines:
            for line in lines:
                self._take(line)
        log.join()
        status = self._popen.wait()
        with self._changed:
            self.state.status = status
            self._undelivered.append(None)
            self._deliver()
            self._changed.notify_all()

    def _take(self, line: bytes) -> None:
        event = self.state.event(line)
        if event is None:
            return
        if event["event"] == "stopped" and event.get("undelivered"):
            _log.warning("messages that were accepted and not handed to the bus: %s", event["undelivered"])
        with self._changed:
            self.state.apply(event)
            self._undelivered.append(event)
            self._deliver()
            self._changed.notify_all()

    def _read_log(self) -> None:
        assert self._popen.stderr is not None
        with self._popen.stderr as lines:
            for line in lines:
                text = line.decode(errors="replace").rstrip("\n")
                with self._changed:
                    self.state.log.append(text)
                if self._on_log is not None:
                    self._on_log(text)
                told = _LEVEL.match(text)
                level = getattr(logging, told["level"].upper()) if told else logging.INFO
                _log.log(level, "%s", (told["time"] or "") + text[told.end() :] if told else text)

    def _deliver(self) -> None:
        """Passes on what has come. The caller holds the lock."""
        if self._sink is None or self._is_delivering:
            return
        self._is_delivering = True
        try:
            while self._undelivered:
                self._sink(self._undelivered.pop(0))
        finally:
            self._is_delivering = False


class Restarts:
    """The starts that followed on each other."""

    def __init__(self) -> None:
        self._count = 0
        #: When the process that runs was started. A start that fails has none.
        self._started_at: Optional[float] = time.monotonic()

    def pause_s(self) -> Optional[float]:
        """Returns the seconds until the next start, and `None` if there is none."""
        if self._started_at is not None and time.monotonic() - self._started_at >= STABLE_S:
            self._count = 0
        self._started_at = None
        if self._count >= LIMIT:
            return None
        self._count += 1
        return min(FIRST_PAUSE_S * 2.0 ** (self._count - 1), PAUSE_LIMIT_S)

    def started(self) -> None:
        self._started_at = time.monotonic()
