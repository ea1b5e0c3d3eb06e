"""The gateway as a child of this process."""

from __future__ import annotations

import contextlib
import logging
import os
import pathlib
import queue
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Optional, TypeVar

from .client import TIMEOUT_S, Client, ClientBase
from .command import FILES, GatewayOptions, Unpack, arguments, find_binary, texts
from .endpoint import Path
from .errors import GatewayDisabledError, GatewayEndedError, GatewayError
from .process import Deliveries, Event, GatewayProcess, Until, rest_s
from .settings import CERTIFICATE, default_path, read_token

ANSWER_TIMEOUT_S = 10.0
"""How long the answer to a signal may take."""

START_TIMEOUT_S = 10.0
"""How long a start may take, if nothing else is said."""

_DRAIN_TIMEOUT_S = 5.0
"""What `drain_timeout` is if it is not given."""

_STOP_MARGIN_S = 2.5
"""How long each of the two requests to stop may take, beside `drain_timeout`."""

_FIRST_PAUSE_S, _PAUSE_LIMIT_S = 0.5, 60.0
"""How long before the first of several starts that follow on each other, which doubles from start to start, and the most."""

_RESTARTS = 10
"""How many starts follow on each other at most."""

_STABLE_S = 60.0
"""How long a gateway has run for the count of starts to begin anew."""

_log = logging.getLogger("adapter_gateway")

_Client = TypeVar("_Client", bound=ClientBase)
_Queue = TypeVar("_Queue", bound=Any)
_Result = TypeVar("_Result")
_Gateway = TypeVar("_Gateway", bound="Gateway")


def _pauses_s() -> Iterator[float]:
    return (min(_FIRST_PAUSE_S * 2.0**number, _PAUSE_LIMIT_S) for number in range(_RESTARTS))


class GatewayBase:
    """A gateway, and what is done with it that does not wait."""

    def __init__(
        self,
        *,
        on_event: Optional[Callable[[Event], object]] = None,
        until: Until = "ready",
        start_timeout: float = START_TIMEOUT_S,
        restart: bool = False,
        extra_arguments: Sequence[str] = (),
        **options: Unpack[GatewayOptions],
    ) -> None:
        """Keeps what the start needs.

        `on_event` is called with each event, in their order. It must return soon, and call no method that waits, because
        who waits for the gateway waits for it too, for five seconds at most. What it raises is logged; what is no
        `Exception`, such as `SystemExit`, is raised by the method that waits for the gateway at that time, or next.
        `until` says what the start waits for, for `start_timeout` seconds at most: `ready`, `listening` or `started`.
        With `restart`, a gateway that ends although nobody asked it to is started again, ten times in a row at most.
        `extra_arguments` stand behind the options of `adapter-gateway serve`, which are the other arguments.

        Raises `TypeError` for an option that `serve` does not have.
        """
        unknown = sorted(set(options) - GatewayOptions.__optional_keys__)
        if unknown:
            raise TypeError(f"serve has no option {', '.join(unknown)}")
        self._on_event = on_event
        self._on_log: Optional[Callable[[str], object]] = None
        self._until: Until = until
        self._start_timeout_s = start_timeout
        self._restart = restart
        #: The seconds before each further start.
        self._pauses_s = _pauses_s()
        self._extra_arguments = list(extra_arguments)
        # The directory of this process may change before a file is used once more.
        absolute = {name: os.path.abspath(options[name]) for name in FILES if options.get(name)}  # type: ignore[literal-required]
        self._options: dict[str, Any] = {**options, **absolute}
        drain_timeout = options.get("drain_timeout")
        #: How long a stop may take on a busy machine.
        self._stop_timeout_s = (_DRAIN_TIMEOUT_S if drain_timeout is None else drain_timeout) + _STOP_MARGIN_S
        self._owner = os.getpid()
        self._process: Optional[GatewayProcess] = None
        #: The process that is about to be the one that counts.
        self._starting: Optional[GatewayProcess] = None
        self._is_stopping = False
        #: Whether the process has ended, and no other one takes its place.
        self._has_ended = False
        #: Held by one start, replacement or stop at a time. A signal handler may stop what its thread has begun.
        self._turn = threading.RLock()
        self._deliveries = Deliveries()
        #: The queues of the iterators over events, as long as somebody has the iterator.
        self._queues: weakref.WeakSet[Any] = weakref.WeakSet()

    @property
    def url(self) -> str:
        """Where messages are posted: the URL of the first listening socket.

        Raises `GatewayDisabledError` while the settings do not switch the gateway on.
        """
        url = str(self._first_listener()["url"])
        # No client connects to all addresses at once, and no certificate names them.
        return url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")

    @property
    def socket(self) -> Optional[str]:
        """The path of the first Unix socket that the gateway listens on, if it has one."""
        return next((one["socket"] for one in self.listeners if one.get("socket")), None)

    @property
    def listeners(self) -> list[Event]:
        """The `listening` event of each listening socket. There are none while the gateway is disabled."""
        return list(self._running().listeners)

    @property
    def certificate(self) -> Optional[pathlib.Path]:
        """The certificate that clients trust: the one that the gateway makes for itself.

        There is none with `plain`, and none with `tls_cert`, where clients trust whoever signed that certificate.
        """
        if self._options.get("plain") or self._options.get("tls_cert") is not None:
            return None
        return pathlib.Path(self._options.get("cert_dir") or self._settings().parent, CERTIFICATE)

    @property
    def is_ready(self) -> bool:
        """Whether a message that is posted now is taken."""
        return self._running().is_ready

    @property
    def status(self) -> Optional[int]:
        """The exit status, the negative number of the signal that ended the process, or `None` while it runs.

        It is 255 if nobody knows it, because this process ignores SIGCHLD, or other code in it waits for all children.
        """
        return self._running().status

    @property
    def pid(self) -> int:
        """The process id of the gateway."""
        return self._running().pid

    # What a call that waits is made of.

    @contextlib.contextmanager
    def _waiting(self, settles: bool = True) -> Iterator[None]:
        """Surrounds what waits. It settles what the functions of the user have been called with."""
        self._check_process()
        if self._deliveries.thread is threading.current_thread():
            raise GatewayError("a function that takes events cannot wait for the gateway; wait in another thread")
        if sys.is_finalizing():
            # The other threads are frozen, perhaps with a lock held.
            self._turn, self._deliveries.changed = threading.RLock(), threading.Condition()
        try:
            yield
        finally:
            if settles:
                self._deliveries.settle()

    def _ask(self, number: signal.Signals, answer: str) -> Event:
        with self._waiting(settles=self._on_event is not None):
            return self._running().ask(number, answer, ANSWER_TIMEOUT_S)

    def _has_successor(self, ended: GatewayProcess, timeout_s: Optional[float]) -> bool:
        """Waits until another process has taken the place of this one, or none will."""
        with self._deliveries.changed:
            if not sys.is_finalizing():
                self._deliveries.changed.wait_for(lambda: self._has_ended or self._process is not ended, timeout_s)
            return self._process is not ended

    def _started(self, until: Until, is_first: bool = False) -> GatewayProcess:
        process = GatewayProcess(*self._command(), self._deliveries, self._on_log, self._take_end)
        self._starting = process
        try:
            if self._is_stopping:
                raise GatewayError("the gateway was asked to stop")
            if is_first:
                # What comes before the start is complete tells why it is not.
                process.attach(self._take)
            process.wait_until(until, self._start_timeout_s, is_start=True)
            if is_first:
                self._deliveries.settle()
        except BaseException as error:
            with contextlib.suppress(GatewayError):
                process.stop(self._stop_timeout_s)
            if isinstance(error, GatewayDisabledError):
                # Its log may arrive after the event.
                raise GatewayDisabledError(error.what, error.reason, process.log) from None
            raise
        finally:
            self._starting = None
        return process

    def _give_up_start(self) -> None:
        """Ends a process that is about to start. Who waits for it is told."""
        if self._starting is not None:
            self._starting.let_go()

    def _put(self, process: GatewayProcess) -> None:
        """Makes this process the one that counts."""
        with self._deliveries.changed:
            if self._has_ended:
                self._has_ended = False
                self._deliveries.begin()
            self._process = process
            self._deliveries.changed.notify_all()
        process.attach(self._take)

    def _take_end(self, ended: GatewayProcess) -> None:
        """Starts a process in the place of one that has ended, unless it was asked to, somebody else does, or stops."""
        with self._turn:
            # A start that fails is told by its error.
            is_restarted = self._process is ended and self._restart and ended.status != 0
        error: Exception = ended.ended()
        if is_restarted and time.monotonic() - ended.started_at >= _STABLE_S:
            self._pauses_s = _pauses_s()
        while is_restarted and self._process is ended and not ended.is_let_go.is_set():
            pause_s = next(self._pauses_s, None)
            if pause_s is None:
                level, then = logging.ERROR, "it is not started again, since it ended too often"
            else:
                level, then = logging.WARNING, f"it is started again in {pause_s:g} s"
            reason, *_ = str(error).splitlines()
            self._deliveries.call(_log.log, level, "%s; %s", reason, then)
            status = getattr(error, "status", None)
            self._take({"event": "ended", "status": status, "reason": reason, "restart_s": pause_s})
            if pause_s is None or ended.is_let_go.wait(pause_s):
                break
            with self._turn:
                if self._process is not ended or ended.is_let_go.is_set():
                    continue
                try:
                    new = self._started("started")
                except Exception as failure:
                    error = failure
                    if self._is_stopping:
                        ended.let_go()
                else:
                    self._put(new)
        with self._turn, self._deliveries.changed:
            if self._process is ended:
                self._has_ended = True
                self._deliveries.changed.notify_all()
                self._deliveries.call(self._deliver, None)
                self._deliveries.call(None)

    # What does not wait.

    def _client(self, kind: type[_Client], certificate: Optional[Path], timeout_s: float) -> _Client:
        settings = self._settings()
        address = f"unix:{self.socket}" if self._first_listener().get("socket") else self.url
        if certificate is None and address.startswith("https:"):
            certificate = self.certificate
        client = kind(address, read_token(settings), certificate, timeout_s=timeout_s)
        client._pool.watch(settings)
        return client

    def _fill(self, queue: _Queue) -> _Queue:
        """Returns the queue, which gets the events from now on, and `None` at their end."""
        self._check_process()
        self._running()
        with self._deliveries.changed:
            self._queues.add(queue)
            if self._has_ended:
                queue.put_nowait(None)
        return queue

    def _take(self, event: Event) -> None:
        if self._on_event is not None or self._queues:
            self._deliveries.call(self._deliver, event)

    def _deliver(self, event: Optional[Event]) -> None:
        with self._deliveries.changed:
            for each in self._queues:
                each.put_nowait(event)
        if event is not None and self._on_event is not None:
            self._on_event(event)

    def _settings(self) -> pathlib.Path:
        return pathlib.Path(self._options.get("settings") or default_path())

    def _first_listener(self) -> Event:
        process = self._running()
        process.check_enabled()
        if not process.listeners:
            raise GatewayError("the gateway does not listen yet")
        return process.listeners[0]

    @contextlib.contextmanager
    def _leaving(self, error: Optional[BaseException]) -> Iterator[None]:
        """Surrounds the stop at the end of a block. The copy of a fork stops nothing, and is told nothing."""
        try:
            yield
        except GatewayError:
            # What went wrong in the block tells more.
            if error is None and os.getpid() == self._owner:
                raise

    def _check_process(self) -> None:
        if os.getpid() != self._owner:
            raise GatewayError("the gateway belongs to the process that started it")

    def _running(self) -> GatewayProcess:
        if self._process is None:
            raise GatewayError("the gateway is not started")
        return self._process

    def _command(self) -> tuple[list[str], list[int]]:
        """Returns the command line, and the descriptors that it names."""
        words = [str(find_binary()), "serve", *arguments(self._options), "--watch-stdin"]
        with contextlib.suppress(AttributeError, OSError):
            # A fork in a C library keeps a copy of the pipe. So the gateway also watches this process, from kernel 5.3 on.
            os.close(os.pidfd_open(os.getpid()))
            words.append("--watch-parent")
        inherited = [int(place[len("fd:") :]) for place in self._places() if place.startswith("fd:")]
        return words + self._extra_arguments, inherited

    def _places(self) -> list[str]:
        """Returns where to listen. A socket is `fd:N`. There are none for the defaults of the program."""
        return texts(self._options.get("listen") or ())


class Gateway(GatewayBase):
    """Runs `adapter-gateway serve` as a child of this process, from the start of a `with` block to its end.

    >>> with Gateway(settings="user_settings.py", hub=True) as gateway:
    ...     print(gateway.url)

    When the block begins, messages are taken. When it ends, each message that was accepted has been handed to the hub, or
    a WARNING tells. The gateway also ends when this process ends. Its log goes to the logger `adapter_gateway`. If it dies
    inside the block, the end of the block raises `GatewayEndedError`, unless another error leaves it.
    """

    def __enter__(self: _Gateway) -> _Gateway:
        self.start()
        return self

    def __exit__(self, kind: object, error: Optional[BaseException], traceback: object) -> None:
        with self._leaving(error):
            self.stop()

    def start(self) -> None:
        """Starts the gateway, and waits until it is where `until` says.

        Raises `BinaryNotFoundError`, `GatewayEndedError` if it refuses to start, `GatewayDisabledError` if the settings
        do not switch it on, and `GatewayTimeoutError` if the hub or something else is late. Then nothing is left over.
        """
        with self._waiting(), self._turn:
            if self._process is not None:
                raise GatewayError("the gateway was started before")
            self._deliveries.begin()
            try:
                self._process = self._started(self._until, is_first=True)
            except BaseException:
                self._deliveries.call(None)
                raise

    def stop(self) -> Event:
        """Stops the gateway, within `drain_timeout`, and returns its event `stopped`. A second call returns the same.

        A gateway that hangs is killed after twice that time and five seconds. Raises `GatewayEndedError` then, and if the
        gateway has ended in another way.
        """
        with self._waiting():
            before, self._is_stopping = self._is_stopping, True
            self._give_up_start()
            with self._turn:
                self._is_stopping = before
                return self._running().stop(self._stop_timeout_s)

    def wait_until(self, until: Until, timeout_s: Optional[float] = START_TIMEOUT_S) -> None:
        """Waits until the gateway is `ready`, `listening` or `started`: without an end if `timeout_s` is `None`, and while
        the settings do not switch the gateway on. Raises `GatewayTimeoutError` and `GatewayEndedError`."""
        end = None if timeout_s is None else time.monotonic() + timeout_s
        with self._waiting():
            while True:
                process = self._running()
                try:
                    return process.wait_until(until, rest_s(end))
                except GatewayEndedError:
                    if not self._has_successor(process, rest_s(end)):
                        raise

    def events(self) -> Iterator[Event]:
        """Returns an iterator over the events from now on, until the gateway has ended.

        Each call returns an iterator of its own. Events wait in it until they are taken.
        """
        events: queue.SimpleQueue[Optional[Event]] = queue.SimpleQueue()
        return iter(self._fill(events).get, None)

    def stats(self) -> Event:
        """Returns the counters: the event `stats`."""
        return self._ask(signal.SIGUSR1, "stats")

    def reload(self) -> Event:
        """Makes the gateway read the settings and the certificates again, and returns the event `settings`.

        Its `state` is `reloaded`, `unchanged`, or `rejected` with a `reason`. Then the last good settings stay in force.
        """
        return self._ask(signal.SIGHUP, "settings")

    def replace(self) -> Event:
        """Puts a new process in the place of the running one, for example after an upgrade, and refuses no connection.

        When the new process is where `until` says, the old one stops, and its event `stopped` is returned. If the new one
        does not start, the old one stays, and an error of `start` is raised. All that `listen` has must be sockets of this
        process, or `fd:N`, so that both can accept from them.
        """
        with self._waiting(), self._turn:
            old = self._running()
            if old.status is not None:
                raise old.ended()
            if not self._places() or not all(place.startswith("fd:") for place in self._places()):
                raise GatewayError("only a gateway that listens on sockets of this process alone can be replaced")
            new = self._started(self._until)
            old.attach(lambda _: None)
            self._put(new)
            return old.stop(self._stop_timeout_s)

    def client(self, certificate: Optional[Path] = None, *, timeout_s: float = TIMEOUT_S) -> Client:
        """Returns a client for the first listening socket, with the token of the settings.

        `certificate` is what the client trusts with `tls_cert`, if it is not an authority of the system. Raises
        `GatewayDisabledError` and `SettingsError`.
        """
        return self._client(Client, certificate, timeout_s)
