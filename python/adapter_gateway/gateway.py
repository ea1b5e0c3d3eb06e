"""The gateway as a child of this process."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import pathlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Optional, TypeVar

from .client import TIMEOUT_S, Client, ClientBase
from .command import GatewayOptions, Unpack, arguments, find_binary, may_be_refused, texts, with_absolute_paths
from .endpoint import Path
from .errors import GatewayDisabledError, GatewayError
from .process import Deliveries, Event, GatewayProcess, State, Until
from .settings import CERTIFICATE, default_path, read_token

#: How long the answer to a signal may take, and a start, if nothing else is said.
ANSWER_TIMEOUT_S = START_TIMEOUT_S = 10.0
_DRAIN_TIMEOUT_S = 5.0
#: How long each of the two requests to stop may take, beside `drain_timeout`.
_STOP_MARGIN_S = 2.5
#: How long before a gateway that has ended is started again: first, and at most. It doubles from start to start.
_FIRST_PAUSE_S, _PAUSE_LIMIT_S = 0.5, 60.0
#: How long a gateway has run for the pause to be the first one again.
_STABLE_S = 60.0

_log = logging.getLogger("adapter_gateway")
_Client = TypeVar("_Client", bound=ClientBase)
_Gateway = TypeVar("_Gateway", bound="Gateway")


class GatewayBase:
    """A gateway, and what is done with it that does not wait."""

    def __init__(
        self,
        *,
        on_event: Optional[Callable[[Event], object]] = None,
        on_state: Optional[Callable[[State], object]] = None,
        until: Until = "ready",
        start_timeout: float = START_TIMEOUT_S,
        restart: bool = False,
        **options: Unpack[GatewayOptions],
    ) -> None:
        """Keeps what the start needs.

        `on_event` is called with each event, in their order. It must return soon, and call no method that waits, because
        who waits for the gateway waits for it too, for five seconds at most. What it raises is logged, and ends nothing.
        `on_state` is called in the same way with `state`, when that changes.
        `until` says what the start waits for, for `start_timeout` seconds at most: `ready`, `listening` or `started`.
        With `restart`, a gateway that ends although nobody asked it to is started again, after pauses of a minute at most.
        The other arguments are the options of `adapter-gateway serve`; `TypeError` is raised for one that it does not have.
        """
        unknown = sorted(set(options) - GatewayOptions.__optional_keys__)
        if unknown:
            raise TypeError(f"serve has no option {', '.join(unknown)}")
        self._on_event, self._on_state = on_event, on_state
        self._on_log: Optional[Callable[[str], object]] = None
        self._until: Until = until
        self._start_timeout_s = start_timeout
        self._restart = restart
        self._pause_s = _FIRST_PAUSE_S
        self._options: dict[str, Any] = with_absolute_paths(options)
        #: How long a stop may take on a busy machine.
        self._stop_timeout_s = float(options.get("drain_timeout") or _DRAIN_TIMEOUT_S) + _STOP_MARGIN_S
        #: The process that starts it. A fork may have come since it was made.
        self._owner: Optional[int] = None
        self._process: Optional[GatewayProcess] = None
        #: The process that is about to be the one that counts.
        self._starting: Optional[GatewayProcess] = None
        #: Its events, which count if it takes the place of another one.
        self._held: list[Event] = []
        self._told = self.state
        #: Set when the gateway is asked to stop, which gives up each attempt to start a process.
        self._is_to_stop = threading.Event()
        #: The event of the end of the process, while another one is to take its place.
        self._loss: Optional[Event] = None
        #: Held by one start, replacement or stop at a time. A signal handler may stop what its thread has begun.
        self._turn = threading.RLock()
        #: Held by who waits for the answer to a signal.
        self._asking = threading.RLock()
        self._deliveries = Deliveries()

    @property
    def url(self) -> str:
        """Where messages are posted: the URL of the first listening socket. Raises `GatewayDisabledError` while the
        settings do not switch the gateway on, and `GatewayEndedError`."""
        url = str(self._first_listener()["url"])
        # No client connects to all addresses at once, and no certificate names them.
        return url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")

    @property
    def socket(self) -> Optional[str]:
        """The path of the first Unix socket that the gateway listens on, if it has one."""
        return next((one["socket"] for one in self.listeners if one.get("socket")), None)

    @property
    def listeners(self) -> list[Event]:
        """The `listening` event of each listening socket. There are none while the gateway is disabled, or has ended."""
        return list(self._running().listeners)

    @property
    def certificate(self) -> Optional[pathlib.Path]:
        """The certificate that clients trust: the one that the gateway makes for itself. There is none with `plain`,
        and none with `tls_cert`, where clients trust whoever signed that certificate."""
        if self._options.get("plain") or self._options.get("tls_cert") is not None:
            return None
        return pathlib.Path(self._options.get("cert_dir") or self._settings().parent, CERTIFICATE)

    @property
    def is_ready(self) -> bool:
        """Whether a message that is posted now is taken."""
        return self.state.is_on

    @property
    def state(self) -> State:
        """Whether a message that is posted now is taken, and if not, why: in a sentence for people."""
        try:
            return self._running().state
        except GatewayError as error:
            return State(False, str(error))

    @property
    def status(self) -> Optional[int]:
        """The exit status, the negative number of the signal that ended the process, or `None` while it runs. It is 255
        if nobody knows it, because this process ignores SIGCHLD, or other code in it waits for all children."""
        return self._running().status

    @property
    def pid(self) -> int:
        """The process id of the gateway."""
        return self._running().pid

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[None]:
        """Surrounds what waits. It settles what the functions of the user have been called with."""
        self._check_process()
        if self._deliveries.thread is threading.current_thread():
            raise GatewayError("a function that takes events cannot wait for the gateway; wait in another thread")
        if sys.is_finalizing():
            # A thread of the user may be frozen with a lock held.
            self._turn, self._deliveries.changed = threading.RLock(), threading.Condition()
        try:
            yield
        finally:
            self._deliveries.settle()

    def _wait_for(
        self,
        what: str,
        has_come: Callable[[], object],
        timeout_s: Optional[float],
        process: Optional[GatewayProcess] = None,
    ) -> None:
        """Waits for what this process brings about, or the one that counts, whichever that is. Raises an error if it
        has not come in time, or can no longer come."""

        def is_over() -> bool:
            found = process or self._running()
            return found.status is not None and (found is process or self._loss is None)

        with self._deliveries.changed:
            self._deliveries.changed.wait_for(lambda: has_come() or is_over(), timeout_s)
            if not has_come():
                found = process or self._running()
                raise found.ended() if is_over() else found.late(what, timeout_s)

    def _ask(self, number: signal.Signals, answer: str) -> Event:
        with self._waiting(), self._asking, self._deliveries.changed:
            process = self._running()
            # A signal ends a process that does not handle it yet.
            self._wait_for("the first event", lambda: process.last, ANSWER_TIMEOUT_S, process)
            before = process.ask(number, answer)
            what = f"the event `{answer}`"
            self._wait_for(what, lambda: process.last.get(answer) is not before, ANSWER_TIMEOUT_S, process)
            return process.last[answer]

    def _start_process(self, is_given_up: threading.Event) -> None:
        """Starts a process, and makes it the one that counts when it is where `until` says, unless this was given up."""
        old, process = self._process, self._spawned()

        def has_started() -> bool:
            if self._is_to_stop.is_set() or is_given_up.is_set():
                raise GatewayError("the gateway was asked to stop")
            if process.status is not None:
                raise process.ended()
            may_be_off = self._until == "started" and not (old and old.listeners)
            if not may_be_off:
                process.check_enabled()
            return process.has_reached(self._until)

        try:
            self._wait_for(f"`{self._until}`", has_started, self._start_timeout_s, process)
            self._deliveries.settle()
            with self._deliveries.changed:
                # It may have ended meanwhile.
                has_started()
                self._put(process)
        except BaseException as error:
            with self._deliveries.changed:
                self._starting = None
                self._tell_state()
            with contextlib.suppress(GatewayError):
                process.stop(self._stop_timeout_s)
            if isinstance(error, GatewayDisabledError):
                # Its log may arrive after the event.
                raise GatewayDisabledError(error.what, error.reason, process.log) from None
            raise

    def _replace(self, is_given_up: threading.Event) -> Event:
        with self._waiting(), self._turn:
            old = self._running()
            if old.status is not None:
                raise old.ended()
            places = texts(self._options.get("listen") or "")
            if not all(place.startswith("fd:") for place in places):
                raise GatewayError("only a gateway that listens on sockets of this process alone can be replaced")
            self._start_process(is_given_up)
            return old.stop(self._stop_timeout_s)

    def _give_up(self, attempt: threading.Event) -> None:
        """Ends an attempt to start a process, or with `_is_to_stop` all of them. Who waits for it is told."""
        with self._deliveries.changed:
            attempt.set()
            if self._is_to_stop.is_set() and self._loss is not None:
                # No other process follows.
                self._running().tell({**self._loss, "restart_s": None})
                self._loss = None
            self._deliveries.changed.notify_all()

    def _spawned(self) -> GatewayProcess:
        # No event comes before the process is known.
        with self._deliveries.changed, may_be_refused():
            self._held = []
            self._starting = GatewayProcess(self._command(), self._deliveries, self._take, self._on_log, self._take_end)
            return self._starting

    def _put(self, process: GatewayProcess) -> None:
        """Makes this process the one that counts. Call it with the lock held."""
        self._process, self._starting, self._loss = process, None, None
        for event in self._held:
            self._deliveries.call(self._deliver, self._on_event, event)
        self._tell_state()
        self._deliveries.changed.notify_all()

    def _take_end(self, ended: GatewayProcess) -> None:
        """Tells of the end of a process. If nobody asked for it, starts another one in its place with `restart`."""
        with self._deliveries.changed:
            # Whoever sees the status can also wait for the calls that tell of it.
            ended.finish()
            if self._process is not ended:
                # A start that fails is told by its error.
                return
            if time.monotonic() - ended.started_at >= _STABLE_S:
                self._pause_s = _FIRST_PAUSE_S
            if not self._is_to_stop.is_set() and (ended.status != 0 or ended.failure):
                self._tell_loss(ended, ended.ended())
            self._tell_state()
        while (loss := self._loss) is not None and self._process is ended:
            with self._deliveries.changed:
                self._deliveries.changed.wait_for(lambda: self._loss is None, loss["restart_s"])
            with self._turn, self._deliveries.changed:
                if self._loss is not None:
                    try:
                        # Its events count from the first one on.
                        self._put(self._spawned())
                    except Exception as error:
                        self._tell_loss(ended, error)
        with self._turn, self._deliveries.changed:
            if self._process is ended:
                self._end()

    def _tell_loss(self, ended: GatewayProcess, error: Exception) -> None:
        """Tells why no gateway runs, and after how many seconds the next attempt to start one is made, if there is one."""
        reason, *_ = str(error).splitlines()
        pause_s = self._pause_s if self._restart else None
        told = {"event": "ended", "status": getattr(error, "status", None), "reason": reason, "restart_s": pause_s}
        # Who follows only what is ready learns of it too.
        ended.tell({"event": "not-ready", "reason": reason})
        ended.tell(told)
        if pause_s is not None:
            self._loss = told
            self._deliveries.call(_log.warning, "%s; it is started again in %g s", reason, pause_s)
            self._pause_s = min(2 * pause_s, _PAUSE_LIMIT_S)

    def _end(self) -> None:
        self._deliveries.call(None)
        atexit.unregister(self._stop_at_exit)

    def _stop_at_exit(self) -> None:
        """Stops the gateway while its threads still run. The end of the interpreter freezes them."""
        with contextlib.suppress(GatewayError):
            Gateway.stop(self)

    def _client(self, kind: type[_Client], certificate: Optional[Path], timeout_s: float) -> _Client:
        settings = self._settings()
        address = f"unix:{self.socket}" if self._first_listener().get("socket") else self.url
        if certificate is None and address.startswith("https:"):
            certificate = self.certificate
        client = kind(address, read_token(settings), certificate, timeout_s=timeout_s)
        client._pool.watch(settings)
        return client

    def _take(self, process: GatewayProcess, event: Event) -> None:
        # A process that was replaced, or whose start was given up, tells nothing more.
        if process is self._starting and self._process is not None:
            self._held.append(event)
        elif process in (self._process, self._starting):
            self._deliveries.call(self._deliver, self._on_event, event)
            # `ready` follows a hub that is connected.
            if event.get("state") != "connected":
                self._tell_state()

    def _tell_state(self) -> None:
        state = self.state
        if state != self._told:
            self._told = state
            self._deliveries.call(self._deliver, self._on_state, state)

    def _deliver(self, function: Optional[Callable[[Any], object]], told: Any) -> None:
        if function is not None:
            function(told)

    def _settings(self) -> pathlib.Path:
        return pathlib.Path(self._options.get("settings") or default_path())

    def _first_listener(self) -> Event:
        process = self._running()
        if process.status is not None:
            raise process.ended()
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
        if self._owner not in (None, os.getpid()):
            raise GatewayError("the gateway belongs to the process that started it")

    def _running(self) -> GatewayProcess:
        # In this order, because another thread may put the one in the place of the other meanwhile.
        starting, process = self._starting, self._process
        found = process or starting
        if found is None:
            raise GatewayError("the gateway is not started")
        return found

    def _command(self) -> list[str]:
        words = [str(find_binary()), "serve", *arguments(self._options), "--watch-stdin"]
        with contextlib.suppress(AttributeError, OSError):
            # A fork in a C library keeps a copy of the pipe. So the gateway also watches this process, from kernel 5.3 on.
            os.close(os.pidfd_open(os.getpid()))
            words.append("--watch-parent")
        return words


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

    def start(self: GatewayBase) -> None:
        """Starts the gateway, and waits until it is where `until` says. Raises `BinaryNotFoundError`,
        `GatewayEndedError` if it refuses to start, `GatewayDisabledError` if the settings do not switch it on, and
        `GatewayTimeoutError` if the hub or something else is late. Then nothing is left over."""
        with self._waiting(), self._turn:
            if self._process is not None:
                raise GatewayError("the gateway was started before")
            self._is_to_stop.clear()
            with may_be_refused():
                self._deliveries.begin()
            self._owner = os.getpid()
            atexit.register(self._stop_at_exit)
            try:
                self._start_process(self._is_to_stop)
            except BaseException:
                self._owner = None
                self._end()
                raise

    def stop(self: GatewayBase) -> Event:
        """Stops the gateway, within `drain_timeout`, and returns its event `stopped`. A second call returns the same. A
        gateway that hangs is killed after twice that time and five seconds. Raises `GatewayEndedError` then, and if the
        gateway has ended in another way."""
        with self._waiting():
            self._give_up(self._is_to_stop)
            with self._turn:
                return self._running().stop(self._stop_timeout_s)

    def wait_until(self: GatewayBase, until: Until, timeout_s: Optional[float] = START_TIMEOUT_S) -> None:
        """Waits until the gateway is `ready`, `listening` or `started`: without an end if `timeout_s` is `None`, and while
        the settings do not switch the gateway on. Raises `GatewayTimeoutError` and `GatewayEndedError`."""
        with self._waiting():
            self._wait_for(f"`{until}`", lambda: self._running().has_reached(until), timeout_s)

    def stats(self: GatewayBase) -> Event:
        """Returns the counters: the event `stats`."""
        # At SIGUSR1, a person is also shown the subscriptions.
        return self._ask(signal.SIGUSR2, "stats")

    def reload(self: GatewayBase) -> Event:
        """Makes the gateway read the settings and the certificates again, and returns the event `settings`. Its `state`
        is `reloaded`, `unchanged`, or `rejected` with a `reason`. Then the last good settings stay in force."""
        return self._ask(signal.SIGHUP, "settings")

    def replace(self: GatewayBase) -> Event:
        """Puts a new process in the place of the running one, for example after an upgrade, and refuses no connection.
        When the new process is where `until` says, the old one stops, and its event `stopped` is returned. If the new
        one does not start, or is disabled while the old one listens, the old one stays, and an error of `start` is
        raised. All that `listen` has must be sockets of this process, or `fd:N`, so that both can accept from them."""
        return self._replace(threading.Event())

    def client(self, certificate: Optional[Path] = None, *, timeout_s: float = TIMEOUT_S) -> Client:
        """Returns a client for the first listening socket, with the token of the settings. `certificate` is what the
        client trusts with `tls_cert`, if it is not an authority of the system. Raises `GatewayDisabledError` and
        `SettingsError`."""
        return self._client(Client, certificate, timeout_s)
