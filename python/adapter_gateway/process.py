"""One gateway as a child process: what it has told so far, how it ended, and when another one is started in its place."""

from __future__ import annotations

import collections
import contextlib
import functools
import json
import logging
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal, Optional

from .deliveries import Deliveries
from .errors import GatewayDisabledError, GatewayEndedError, GatewayTimeoutError
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

#: The bytes of one read, which empties a pipe whose size nobody has changed, and the most reads that are made at once.
_READ_BYTES = 64 * 1024
_READS = 16

#: The status of a process that others have reaped, as in asyncio.
_UNKNOWN_STATUS = 255

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


class _Lines:
    """The lines that arrive at a pipe."""

    def __init__(self, pipe: Any, take: Callable[[bytes], None]) -> None:
        os.set_blocking(pipe.fileno(), False)
        self.pipe = pipe
        self._take = take
        self._rest = b""

    def take_in(self, is_last: bool) -> bool:
        """Takes what is in the pipe, and waits for nothing. Returns whether more may come."""
        is_over = is_last
        with contextlib.suppress(BlockingIOError):
            for _ in range(_READS):
                data = os.read(self.pipe.fileno(), _READ_BYTES)
                self._rest += data
                is_over = is_over or not data
                if len(data) < _READ_BYTES:
                    break
        *lines, self._rest = self._rest.split(b"\n")
        if is_over:
            self.pipe.close()
            lines += [self._rest] if self._rest else []
        for line in lines:
            self._take(line)
        return not is_over


class GatewayProcess:
    """A child process. A thread reads what it writes, so that nothing that it writes blocks it."""

    def __init__(
        self,
        command: Sequence[str],
        descriptors: Sequence[int],
        deliveries: Deliveries,
        on_log: Optional[Callable[[str], object]],
        on_end: Callable[[GatewayProcess], None],
    ) -> None:
        """Starts the process, which inherits the descriptors. The first function gets each line of the log, and the second
        one is called at the end of the thread that reads."""
        self._deliveries = deliveries
        self._on_log = on_log
        self._on_end = on_end
        self.listeners: list[Event] = []
        self.is_ready = False
        self.status: Optional[int] = None
        self.log: collections.deque[str] = collections.deque(maxlen=LOG_LINES)
        #: The last event of each name, and why the settings do not switch the gateway on.
        self._last: dict[str, Event] = {}
        self._disabled: Optional[str] = None
        #: The events that somebody has asked for. They are empty until they have come.
        self._questions: dict[str, Event] = {}
        #: What gets each event, and those that came before there was such a function.
        self._sink: Optional[Callable[[Event], None]] = None
        self._held: list[Event] = []
        #: Set when the process was asked to stop.
        self.is_let_go = threading.Event()
        #: A descriptor that tells of the end of the process, and means no other one, where the system has such (Linux 5.3).
        self._pidfd: Optional[int] = None
        self._lifeline = Lifeline()
        try:
            self._popen = subprocess.Popen(
                command,
                bufsize=0,
                stdin=self._lifeline.read_end,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=descriptors,
                # A terminal sends Ctrl-C to each process of its foreground group. This process is to decide.
                start_new_session=True,
            )
            self.pid = self._popen.pid
            with contextlib.suppress(AttributeError, OSError):
                self._pidfd = os.pidfd_open(self.pid)
            self._streams = [_Lines(self._popen.stdout, self._take_event), _Lines(self._popen.stderr, self._take_line)]
            threading.Thread(target=self._read, name=f"adapter-gateway {self.pid}", daemon=True).start()
        except BaseException:
            self._lifeline.close()
            raise
        finally:
            os.close(self._lifeline.read_end)

    def attach(self, sink: Callable[[Event], None]) -> None:
        """Passes each event to this function, which waits for nothing, also those that have come already."""
        with self._deliveries.changed:
            self._sink = sink
            while self._held:
                sink(self._held.pop(0))

    def wait_until(self, until: Until, timeout_s: Optional[float], is_start: bool = False) -> None:
        """Waits until this state is reached. Raises an error if it is not reached; at a start, also if it is not because
        of the settings."""
        self._wait_for(f"`{until}`", lambda: self._has_reached(until, is_start), timeout_s)

    def ask(self, number: signal.Signals, answer: str, timeout_s: float) -> Event:
        """Sends a signal, and returns the event of this name that answers it."""
        what = f"the event `{answer}`"
        with self._deliveries.changed:
            # The answer to the question of another thread may have been made before this question.
            self._wait_for(what, lambda: answer not in self._questions, timeout_s)
            # So were the events that have been written.
            self._take_in(is_last=False)
            self._questions[answer] = {}
            self._signal(number)
        try:
            self._wait_for(what, lambda: self._questions[answer], timeout_s)
            return self._questions[answer]
        finally:
            with self._deliveries.changed:
                del self._questions[answer]
                self._deliveries.changed.notify_all()

    def let_go(self) -> None:
        """Asks the process to stop, and waits for nothing."""
        self.is_let_go.set()
        self._lifeline.close()

    def stop(self, timeout_s: float) -> Event:
        """Stops the process, and returns its last event. Raises an error if it ended in another way.

        A process that does not stop is asked once more after this time, and is killed after twice this time.
        """
        # The end of standard input asks once. A signal would count as the second request, which ends the process at
        # once, if a service manager has sent its own to all processes.
        self.let_go()
        if not self._wait(timeout_s):
            # Somebody has a copy of the pipe.
            self._signal(signal.SIGTERM)
            if not self._wait(timeout_s):
                self._signal(signal.SIGKILL)
                self._wait(KILL_TIMEOUT_S)
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
        if self.status == _UNKNOWN_STATUS:
            how = "ended, and its exit status is not known: SIGCHLD is ignored, or others read it"
        else:
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

    def _wait_for(self, what: str, has_come: Callable[[], object], timeout_s: Optional[float]) -> None:
        """Waits for this long at most. Raises an error if it has not come, or can no longer come, and what a function
        raised that got the events before it."""
        deliveries = self._deliveries
        with deliveries.changed:
            self._wait(timeout_s, lambda: has_come() or (self._sink is not None and deliveries.raised is not None))
            if self._sink is not None:
                deliveries.check()
            if has_come():
                return
            if self.status is not None:
                raise self.ended()
            reason = self._disabled
            if reason is None and not self.is_ready and self._last.get("bus", {}).get("reason"):
                reason = f"the bus is not connected: {self._last['bus']['reason']}"
            raise GatewayTimeoutError(f"{what} did not come within {timeout_s:g} s", reason, self.log)

    def _wait(self, timeout_s: Optional[float], is_so: Callable[[], object] = lambda: False) -> bool:
        """Waits until this is so, or the process has ended. Returns whether that came in time."""

        def is_over() -> bool:
            return bool(is_so()) or self.status is not None

        if sys.is_finalizing():
            # The thread that reads is frozen.
            end = None if timeout_s is None else time.monotonic() + timeout_s
            while not is_over() and rest_s(end) != 0:
                self._advance(rest_s(end))
            timeout_s = 0.0
        with self._deliveries.changed:
            return self._deliveries.changed.wait_for(is_over, timeout_s)

    def _signal(self, number: signal.Signals) -> None:
        with self._deliveries.changed, contextlib.suppress(ProcessLookupError):
            if self.status is not None:
                return
            if self._pidfd is None:
                os.kill(self.pid, number)
            else:
                signal.pidfd_send_signal(self._pidfd, number)

    # What the thread does that reads.

    def _read(self) -> None:
        while self.status is None:
            self._advance(None)
        self._on_end(self)

    def _advance(self, wait_s: Optional[float]) -> None:
        """Waits until the process has written something, or has ended, for this time at most, and takes that in."""
        found = []
        # Where nothing tells of the end of the process, that of its streams does.
        if self._streams or self._pidfd is not None:
            poll = select.poll()
            # Who asks a question may find the end of a stream, and close it.
            with self._deliveries.changed:
                for stream in self._streams:
                    poll.register(stream.pipe, select.POLLIN)
            if self._pidfd is not None:
                poll.register(self._pidfd, select.POLLIN)
            found = [descriptor for descriptor, _ in poll.poll(None if wait_s is None else wait_s * 1000)]
        has_ended = not self._streams if self._pidfd is None else self._pidfd in found
        status = self._reap() if has_ended else None
        with self._deliveries.changed:
            self._take_in(has_ended)
            if has_ended:
                self._end(status)

    def _take_in(self, is_last: bool) -> None:
        self._streams = [stream for stream in self._streams if stream.take_in(is_last)]

    def _reap(self) -> Optional[int]:
        """Waits for the end of the process. Returns its status, or `None` if somebody else has waited for it."""
        which = (os.P_PID, self.pid) if self._pidfd is None else (os.P_PIDFD, self._pidfd)
        with contextlib.suppress(ChildProcessError):
            ended = os.waitid(*which, os.WEXITED)
            if ended is not None:
                return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
        return None

    def _end(self, status: Optional[int]) -> None:
        if status is None:
            # SIGCHLD is ignored, or others have waited for all children. What the process told last says it too.
            status = 0 if "stopped" in self._last else self._last.get("failed", {}).get("status")
        self.status = self._popen.returncode = _UNKNOWN_STATUS if status is None else status
        self.is_ready = False
        if self._pidfd is not None:
            os.close(self._pidfd)
        self._deliveries.changed.notify_all()

    def _take_event(self, line: bytes) -> None:
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            # The program prints nothing but events. A script around it may print more.
            return
        if not isinstance(event, dict) or not isinstance(event.get("event"), str):
            return
        name = event["event"]
        if name == "listening":
            self.listeners.append(event)
            self._disabled = None
        elif name == "disabled":
            self.listeners = []
            self._disabled = event.get("reason", "")
        elif name in ("ready", "not-ready"):
            self.is_ready = name == "ready"
        elif name == "stopped" and event.get("undelivered"):
            what = "messages that were accepted and not handed to the bus: %s"
            self._deliveries.call(functools.partial(_log.warning, what, event["undelivered"]))
        self._last[name] = event
        if self._questions.get(name) == {}:
            self._questions[name] = event
        self._deliveries.changed.notify_all()
        (self._held.append if self._sink is None else self._sink)(event)

    def _take_line(self, line: bytes) -> None:
        text = line.decode(errors="replace")
        self.log.append(text)
        self._deliveries.call(functools.partial(self._tell, text))

    def _tell(self, text: str) -> None:
        if self._on_log is not None:
            self._on_log(text)
        told = _LEVEL.match(text)
        level = getattr(logging, told["level"].upper()) if told else logging.INFO
        _log.log(level, "%s", (told["time"] or "") + text[told.end() :] if told else text)


def rest_s(end: Optional[float]) -> Optional[float]:
    """Returns the seconds that are left; `None` is no end."""
    return None if end is None else max(0.0, end - time.monotonic())


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
