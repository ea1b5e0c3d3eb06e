"""One gateway as a child process, what it has told so far, and how the functions of the user are called with that."""

from __future__ import annotations

import collections
import contextlib
import functools
import json
import logging
import os
import re
import signal
import subprocess
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, Optional, get_args

from .connection import wait_for
from .errors import GatewayDisabledError, GatewayEndedError, GatewayTimeoutError

#: An event as the gateway prints it. The page of reference lists the events and their fields.
Event = dict[str, Any]

#: What to wait for. `ready`: a message that is posted is taken, because the gateway listens and the bus is connected.
#: `listening`: requests are answered, perhaps with 503, because no hub is there yet. `started`: the gateway has read the
#: settings and listens, or they do not switch it on, and the gateway waits until they do.
Until = Literal["ready", "listening", "started"]

#: How long a killed process may take to end: the kernel alone ends it, but the machine may be busy.
KILL_TIMEOUT_S = 60.0
#: How long who waits for an event also waits until the functions of the user have had it.
DELIVERY_TIMEOUT_S = 5.0
LOG_LINES = 20
#: The bytes of one read, which empties a pipe whatever its size: this is the most that Linux gives without privileges.
_READ_BYTES = 1024 * 1024
_INHERITED = "--listen=fd:"
#: The reason of `not-ready` where no hub is there.
_NO_BUS = "the bus is not connected"
#: The status of a process that others have reaped, as in asyncio.
_UNKNOWN_STATUS = 255
#: The level that a line of the log begins with, behind the time of `--log-time`.
_LEVEL = re.compile(r"(?P<time>\d\S*[Zz] )?(?P<level>info|warning|error): ")

_log = logging.getLogger("adapter_gateway")
#: What tells gateways of the end of this process. A fork gives up its copies, which would keep them alive.
_stdins: weakref.WeakSet[Any] = weakref.WeakSet()

os.register_at_fork(after_in_child=lambda: [stdin.close() for stdin in list(_stdins)])


class State(NamedTuple):
    """Whether a message that is posted now is taken, and if not, why: in a sentence for people."""

    is_on: bool
    reason: Optional[str]


class Deliveries:
    """Calls functions of the user in order, in a thread of its own, with no lock held: a slow one holds up nothing."""

    def __init__(self) -> None:
        #: Its lock guards what the threads of a gateway share, and it tells of each change of that.
        self.changed = threading.Condition()
        #: The call that is being made, and those behind it.
        self._calls: collections.deque[Optional[Callable[[], object]]] = collections.deque()
        self.thread: Optional[threading.Thread] = None

    def begin(self) -> None:
        """Starts the thread, or lets that of a start that failed go on, if it is still in a function."""
        with self.changed:
            if None in self._calls:
                self._calls.remove(None)
                return
            thread = threading.Thread(target=self._run, name="adapter_gateway.events", daemon=True)
            thread.start()
            self.thread = thread

    def call(self, function: Optional[Callable[..., object]], *arguments: object) -> None:
        """Asks for a call, and waits for nothing. `None` ends the thread behind the calls before."""
        with self.changed:
            self._calls.append(function and functools.partial(function, *arguments))
            self.changed.notify_all()

    def settle(self) -> None:
        """Waits until all calls that were asked for have ended, but not for long."""
        with self.changed:
            last = self._calls[-1] if self._calls else None
            self.changed.wait_for(lambda: last not in self._calls, DELIVERY_TIMEOUT_S)

    def _run(self) -> None:
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self._calls)
                call = self._calls[0]
                if call is None:
                    self._calls.popleft()
                    self.changed.notify_all()
                    return
            try:
                call()
            except BaseException:
                # A handler of the log may raise too.
                try:
                    _log.exception("the function that takes events failed")
                except BaseException:
                    with contextlib.suppress(BaseException):
                        traceback.print_exc()
            with self.changed:
                self._calls.popleft()
                self.changed.notify_all()


class GatewayProcess:
    """A child process. A thread reads what it writes, so that nothing that it writes blocks it."""

    def __init__(
        self,
        command: Sequence[str],
        deliveries: Deliveries,
        on_event: Callable[[GatewayProcess, Event], object],
        on_log: Optional[Callable[[str], object]],
        on_end: Callable[[GatewayProcess], None],
    ) -> None:
        """Starts the process, which inherits the sockets that it is to listen on. `on_event` gets each event, with the
        lock held; `on_log`, a function of the user, each line of the log. The thread that reads calls `on_end` last,
        which calls `finish`."""
        self._deliveries = deliveries
        self._on_event = on_event
        self._on_log = on_log
        self._on_end = on_end
        self.listeners: list[Event] = []
        self.is_ready = False
        self.status: Optional[int] = None
        #: Why nothing reads any more what it writes. It was asked to stop then.
        self.failure: Optional[str] = None
        self.log: collections.deque[str] = collections.deque(maxlen=LOG_LINES)
        self.last: dict[str, Event] = {}
        #: Why no message is taken, as far as it was told.
        self.reason: Optional[str] = None
        #: A descriptor that tells of the end of the process, and means no other one, where the system has such (Linux 5.3).
        self._pidfd: Optional[int] = None
        sockets = [int(word[len(_INHERITED) :]) for word in command if word.startswith(_INHERITED)]
        read_end, write_end = os.pipe()
        #: The process stops when all copies of it are closed (`--watch-stdin`).
        self._stdin = open(write_end, "wb", buffering=0)
        _stdins.add(self._stdin)
        try:
            # A terminal sends Ctrl-C to each process of its foreground group. This process is to decide.
            streams: dict[str, Any] = {"stdin": read_end, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            self._popen = subprocess.Popen(command, bufsize=0, pass_fds=sockets, start_new_session=True, **streams)
            self.pid = self._popen.pid
            self.started_at = time.monotonic()
            #: What takes a line of each stream, and the beginning of the next one.
            self._streams: dict[Any, tuple[Callable[[bytes], None], bytes]] = {
                self._popen.stdout: (self._take_event, b""),
                self._popen.stderr: (self._take_line, b""),
            }
            with contextlib.suppress(AttributeError, OSError):
                self._pidfd = os.pidfd_open(self.pid)
            for stream in self._streams:
                os.set_blocking(stream.fileno(), False)
            threading.Thread(target=self._read, name=f"adapter-gateway {self.pid}", daemon=True).start()
        except BaseException:
            self.let_go()
            raise
        finally:
            os.close(read_end)

    def has_reached(self, until: Until) -> bool:
        if until not in get_args(Until):
            raise ValueError(f"{until!r} is none of {', '.join(get_args(Until))}")
        if until == "ready":
            return self.is_ready
        return self.status is None and (bool(self.listeners) or (until == "started" and "disabled" in self.last))

    @property
    def state(self) -> State:
        if self.is_ready:
            return State(True, None)
        bus = self.last.get("bus", {})
        # What the bus tells says more.
        if self.reason in (None, _NO_BUS) and bus.get("reason"):
            cure = "start the adapter, or run a hub here with `hub=True`"
            return State(False, f"no hub at {bus['endpoint']}: {bus['reason']}; {cure}")
        return State(False, self.reason or "the gateway is starting")

    def ask(self, number: signal.Signals, answer: str) -> Optional[Event]:
        """Sends a signal, and returns the last event of this name that is no answer to it. Call it with the lock held."""
        if self.status is not None:
            raise self.ended()
        self._take_in(self._popen.stdout)
        self._signal(number)
        return self.last.get(answer)

    def let_go(self) -> None:
        """Asks the process to stop, and waits for nothing. This process may have closed all its descriptors."""
        with contextlib.suppress(OSError):
            self._stdin.close()

    def stop(self, timeout_s: float) -> Event:
        """Stops the process, and returns its last event. Raises an error if it ended in another way. A process that
        does not stop is asked once more after this time, and is killed after twice this time."""
        # A signal would be the second request, which ends the process at once, if a service manager sent one to all.
        self.let_go()
        if not self._wait_for_end(timeout_s):
            # Somebody has a copy of the pipe.
            self._signal(signal.SIGTERM)
            if not self._wait_for_end(timeout_s):
                what = f"the gateway was killed, since it did not stop within {timeout_s:g} s"
                with self._deliveries.changed:
                    if self.is_ready:
                        self.tell({"event": "not-ready", "reason": what})
                    self._signal(signal.SIGKILL)
                self._wait_for_end(KILL_TIMEOUT_S)
                raise GatewayEndedError(what, self.status, None, self.log)
        if self.status == 0 and "stopped" in self.last:
            return self.last["stopped"]
        raise self.ended()

    def check_enabled(self) -> None:
        """Raises `GatewayDisabledError` if the settings do not switch the gateway on."""
        if "disabled" in self.last and not self.listeners:
            raise GatewayDisabledError("the gateway is disabled", self.reason, self.log)

    def ended(self) -> GatewayEndedError:
        how = f"ended with status {self.status}"
        if self.status == _UNKNOWN_STATUS:
            how = "ended, and its exit status is not known: SIGCHLD is ignored, or others read it"
        elif self.status is not None and self.status < 0:
            how = f"was ended by signal {-self.status}"
        reason = self.failure or self.last.get("failed", {}).get("reason")
        return GatewayEndedError(f"the gateway {how}", self.status, reason, self.log)

    def late(self, what: str, timeout_s: Optional[float], reason: Optional[str] = None) -> GatewayTimeoutError:
        return GatewayTimeoutError(f"{what} did not come within {timeout_s:g} s", reason or self.state.reason, self.log)

    def _wait_for_end(self, timeout_s: float) -> bool:
        with self._deliveries.changed:
            return self._deliveries.changed.wait_for(lambda: self.status is not None, timeout_s)

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
        for step in (self._follow, self._reap):
            try:
                step()
            except BaseException as error:
                # Nobody takes what the process writes any more.
                self.failure = f"it could not be followed: {error!r}"
                self.let_go()
        self._on_end(self)

    def _follow(self) -> None:
        """Takes what the process writes, until it has ended."""
        streams = set(self._streams)
        ready: list[Any] = []
        # Where nothing tells of the end of the process, that of its streams does.
        while streams if self._pidfd is None else self._pidfd not in ready:
            ready = wait_for([*streams] if self._pidfd is None else [*streams, self._pidfd])
            with self._deliveries.changed:
                streams -= {one for one in streams if self._take_in(one)}

    def _take_in(self, stream: Any) -> bool:
        """Takes what a stream has, and waits for nothing. Returns whether it has ended."""
        buffer, count = bytearray(_READ_BYTES), -1
        with contextlib.suppress(BlockingIOError):
            # gevent and eventlet make other ways to read wait.
            count = os.readv(stream.fileno(), [buffer])
        take, rest = self._streams[stream]
        *lines, rest = (rest + buffer[: max(0, count)]).split(b"\n")
        self._streams[stream] = (take, rest)
        for line in lines:
            take(line)
        return count == 0

    def _reap(self) -> None:
        """Waits for the end of the process, and takes the rest of what it has written."""
        with contextlib.suppress(ChildProcessError):
            self._popen.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        with self._deliveries.changed:
            for stream in self._streams:
                self._take_in(stream)
                take, rest = self._streams[stream]
                if rest:
                    take(rest)

    def finish(self) -> None:
        """Makes the end of the process known. Call it with the lock held, and at the same time tell what depends on it."""
        if self._popen.returncode is None:
            # SIGCHLD is ignored, or others wait for all children. What the process told last says it too.
            told = self.last.get("failed", {}).get("status", _UNKNOWN_STATUS)
            self._popen.returncode = 0 if "stopped" in self.last else told
        self.status = self._popen.returncode
        self.is_ready = False
        self.reason = self.reason or "the gateway has ended"
        self.listeners = []
        with contextlib.suppress(OSError), contextlib.ExitStack() as closing:
            for stream in (self._stdin, *self._streams):
                closing.callback(stream.close)
            if self._pidfd is not None:
                closing.callback(os.close, self._pidfd)
        self._deliveries.changed.notify_all()

    def _take_event(self, line: bytes) -> None:
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            # The program prints nothing but events. A script around it may print more.
            return
        if isinstance(event, dict) and isinstance(event.get("event"), str):
            self.tell(event)

    def tell(self, event: Event) -> None:
        """Takes an event of the process, or one about it, and passes it on. Call it with the lock held."""
        name = event["event"]
        if name == "listening":
            self.listeners.append(event)
            if self.last.get("bus", {}).get("reason"):
                # It is the hub that is missing now.
                self.reason = None
        elif name in ("ready", "not-ready", "disabled"):
            self.is_ready, self.reason = name == "ready", event.get("reason")
            if name == "disabled":
                self.listeners = []
        elif name == "stopped" and event.get("undelivered"):
            what = "messages that were accepted and not handed to the bus: %s"
            self._deliveries.call(_log.warning, what, event["undelivered"])
        self.last[name] = event
        self._deliveries.changed.notify_all()
        self._on_event(self, event)

    def _take_line(self, line: bytes) -> None:
        text = line.decode(errors="replace")
        self.log.append(text)
        self._deliveries.call(self._tell, text)

    def _tell(self, text: str) -> None:
        if self._on_log is not None:
            self._on_log(text)
        told = _LEVEL.match(text)
        level = getattr(logging, told["level"].upper()) if told else logging.INFO
        _log.log(level, "%s", (told["time"] or "") + text[told.end() :] if told else text)
