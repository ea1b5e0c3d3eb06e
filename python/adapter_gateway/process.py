"""One gateway as a child process: what it has told so far, how it ended, and when another one is started in its place."""

from __future__ import annotations

import collections
import json
import logging
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal, Optional

from .errors import GatewayDisabledError, GatewayEndedError, GatewayError, GatewayTimeoutError
from .inherited import Lifeline

Event = dict[str, Any]
"""An event as the gateway prints it. The page of reference lists the events and their fields."""

Until = Literal["ready", "listening", "started"]
"""What to wait for.

`ready`: a message that is posted is taken, because the gateway listens and the bus is connected. `listening`: requests
are answered, perhaps with 503, because no hub is there yet. `started`: the gateway has read the settings and listens, or
they do not switch it on, and the gateway waits until they do.
"""

KILL_TIMEOUT_S = 60.0
"""How long a killed process may take to end: the kernel alone ends it, but the machine may be busy."""

LOG_LINES = 20

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

Sink = Callable[["GatewayProcess", Optional[Event]], None]
"""Takes each event of a process, and `None` when the process has ended."""


class GatewayProcess:
    """A child process. Two threads read its streams to their ends, so that nothing that it writes blocks it."""

    def __init__(
        self, command: Sequence[str], descriptors: Sequence[int], on_log: Optional[Callable[[str], object]] = None
    ) -> None:
        """Starts the process, which inherits the descriptors. The function gets each line of the log."""
        self._on_log = on_log
        self.listeners: list[Event] = []
        self.is_ready = False
        self.status: Optional[int] = None
        self.log: collections.deque[str] = collections.deque(maxlen=LOG_LINES)
        #: The last event of each name, and why the settings do not switch the gateway on.
        self._last: dict[str, Event] = {}
        self._disabled: Optional[str] = None
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
        self.pid = self._popen.pid
        # Its lock guards all above and below. The sink is called under it, so who waits for an event goes on when
        # the sink has had it.
        self._changed = threading.Condition()
        self._undelivered: list[Optional[Event]] = []
        self._sink: Optional[Sink] = None
        self._is_delivering = False
        threading.Thread(target=self._read, name=f"adapter-gateway {self.pid}", daemon=True).start()

    def attach(self, sink: Sink) -> None:
        """Passes each event to this function, also those that have come already."""
        with self._changed:
            self._sink = sink
            self._deliver()

    def wait_until(self, until: Until, timeout_s: Optional[float], is_start: bool = False) -> None:
        """Waits until this state is reached. Raises an error if it is not reached; at a start, also if it is not because
        of the settings."""
        self._wait_for(f"`{until}`", lambda: self._has_reached(until, is_start), timeout_s)

    def ask(self, signal_number: signal.Signals, answer: str, timeout_s: float) -> Event:
        """Sends a signal, and returns the next event with the name of the answer."""
        with self._changed:
            self._check_may_wait()
            before = self._last.get(answer)
            self._popen.send_signal(signal_number)
            self._wait_for(f"the event `{answer}`", lambda: self._last.get(answer) is not before, timeout_s)
            return self._last[answer]

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
                what = f"the gateway was killed, since it did not stop within {timeout_s:g} s"
                raise GatewayEndedError(what, self.status, None, self.log)
        if self.status == 0 and "stopped" in self._last:
            return self._last["stopped"]
        raise self.ended()

    def check_enabled(self) -> None:
        """Raises `GatewayDisabledError` if the settings do not switch the gateway on."""
        if self._disabled is not None:
            raise GatewayDisabledError("the gateway is disabled", self._disabled, self.log)

    def ended(self) -> GatewayEndedError:
        is_signal = self.status is not None and self.status < 0
        how = f"was ended by signal {abs(self.status or 0)}" if is_signal else f"ended with status {self.status}"
        reason = self._last.get("failed", {}).get("reason")
        return GatewayEndedError(f"the gateway {how}", self.status, reason, self.log)

    def _has_reached(self, until: Until, is_start: bool) -> bool:
        if self.status is not None:
            return False
        if until == "started":
            return bool(self.listeners) or self._disabled is not None
        if until not in ("ready", "listening"):
            raise ValueError(f"{until!r} is none of ready, listening, started")
        if is_start:
            self.check_enabled()
        return self.is_ready if until == "ready" else bool(self.listeners)

    def _wait_for(self, what: str, has_come: Callable[[], bool], timeout_s: Optional[float]) -> None:
        """Waits for this long at most. Raises an error if it has not come, or can no longer come."""
        with self._changed:
            self._check_may_wait()
            if not self._changed.wait_for(lambda: has_come() or self.status is not None, timeout_s):
                reason = self._disabled
                if reason is None and not self.is_ready and self._last.get("bus", {}).get("reason"):
                    reason = f"the bus is not connected: {self._last['bus']['reason']}"
                raise GatewayTimeoutError(f"{what} did not come within {timeout_s:g} s", reason, self.log)
            if not has_come():
                raise self.ended()

    def _check_may_wait(self) -> None:
        # The caller holds the lock. So if an event is being delivered, it is by this thread.
        if self._is_delivering:
            raise GatewayError("a function that takes events cannot wait for the gateway; wait in another thread")

    def _has_ended(self, timeout_s: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self.status is not None, timeout_s)

    def _read(self) -> None:
        assert self._popen.stdout is not None
        log = threading.Thread(target=self._read_log, name=f"adapter-gateway {self.pid} log", daemon=True)
        log.start()
        with self._popen.stdout as lines:
            for line in lines:
                try:
                    event = json.loads(line)
                except (ValueError, RecursionError):
                    # The program prints nothing but events. A script around it may print more.
                    continue
                if isinstance(event, dict) and isinstance(event.get("event"), str):
                    self._take(event)
        log.join()
        status = self._popen.wait()
        with self._changed:
            self.status = status
            self.is_ready = False
            self._deliver(None)

    def _take(self, event: Event) -> None:
        name = event["event"]
        if name == "stopped" and event.get("undelivered"):
            _log.warning("messages that were accepted and not handed to the bus: %s", event["undelivered"])
        with self._changed:
            if name == "listening":
                self.listeners.append(event)
                self._disabled = None
            elif name == "disabled":
                self.listeners = []
                self._disabled = event.get("reason", "")
            elif name in ("ready", "not-ready"):
                self.is_ready = name == "ready"
            self._last[name] = event
            self._deliver(event)

    def _read_log(self) -> None:
        assert self._popen.stderr is not None
        with self._popen.stderr as lines:
            for line in lines:
                text = line.decode(errors="replace").rstrip("\n")
                with self._changed:
                    self.log.append(text)
                if self._on_log is not None:
                    self._on_log(text)
                told = _LEVEL.match(text)
                level = getattr(logging, told["level"].upper()) if told else logging.INFO
                _log.log(level, "%s", (told["time"] or "") + text[told.end() :] if told else text)

    def _deliver(self, *events: Optional[Event]) -> None:
        """Passes on what has come before and now, and tells those who wait. The caller holds the lock."""
        self._undelivered += events
        if self._sink is not None and not self._is_delivering:
            self._is_delivering = True
            try:
                while self._undelivered:
                    self._sink(self, self._undelivered.pop(0))
            finally:
                self._is_delivering = False
        self._changed.notify_all()


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
