"""Connections to the gateway, over sockets that never block once they are made, and what `send_many` does on them. What
takes time is a coroutine that is told how to wait, so that a thread and an event loop can run the same steps."""

from __future__ import annotations

import codecs
import concurrent.futures
import contextlib
import functools
import os
import select
import socket
import ssl
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Awaitable, Coroutine, Sequence
from typing import Any, Callable, NamedTuple, Optional, TypeVar, Union, cast

from .answers import AnswerReader, MalformedAnswer
from .endpoint import Endpoint, Path
from .errors import GatewayError, NotSentError, SettingsError
from .pipeline import Pipeline
from .settings import read_token

_Result = TypeVar("_Result")
READ_BYTES = 64 * 1024
#: The most bytes of one TLS record (RFC 8446 section 5.1). With one record for each call, what the socket did not take
#: whole is of no use to the server.
_RECORD_BYTES = 16 * 1024
#: Codes of OpenSSL for a certificate that lacks the host, or the address.
_OTHER_NAMES = (62, 64)
#: How old the settings may be if the gateway refuses their token because it has not read them yet.
_YOUNG_S = 2.0
_QUEUE_PAUSE_S = 0.01
# It encodes the names of hosts. An import at the first one could meet a fork.
codecs.lookup("idna")


def wait_for(reading: Sequence[Any], writing: Sequence[Any] = (), timeout_s: Optional[float] = None) -> list[Any]:
    """Waits until one of them can be read, or written if that is wanted too, or has ended. Returns the numbers of those.
    gevent and eventlet replace what waits here."""
    if not hasattr(select, "poll"):
        # eventlet takes it away, and makes this one wait for descriptors of any number.
        readable, writable, _ = select.select(reading, writing, [], timeout_s)
        return readable + writable
    poll = select.poll()
    for each in reading:
        poll.register(each, select.POLLIN | select.POLLOUT if each in writing else select.POLLIN)
    return [number for number, _ in poll.poll(None if timeout_s is None else 1000 * timeout_s)]


class Wait(NamedTuple):
    """A wait until a socket has something to read, or room to write if that is wanted, or until a time."""

    waiting: Optional[socket.socket]
    write: bool
    until: Optional[float]

    def block(self, also: Optional[socket.socket] = None) -> None:
        """Waits in this thread, also for something to read from another socket."""
        reading = [one for one in (self.waiting, also) if one is not None]
        timeout_s = None if self.until is None else max(0.0, self.until - time.monotonic())
        wait_for(reading, reading[:1] if self.write else (), timeout_s)


class Connect(NamedTuple):
    """A connection that is to be made."""

    endpoint: Endpoint
    timeout_s: float

    def block(self, also: Optional[socket.socket] = None) -> Connection:
        """Makes it in this thread, whatever there is to read. Raises `NotSentError`."""
        endpoint, until = self.endpoint, time.monotonic() + self.timeout_s
        try:
            if endpoint.socket_path is not None:
                return Connection(_connected(endpoint, socket.AF_UNIX, endpoint.socket_path, until))
            failure = OSError("the host has no address")
            for family, _, _, _, address in _addresses(endpoint.host, endpoint.port, until):
                try:
                    return Connection(_connected(endpoint, family, address, until))
                except OSError as error:
                    failure = error
            raise failure
        except (OSError, ValueError, GatewayError) as error:
            # `ValueError` is what the standard library raises for some hosts and paths.
            raise NotSentError(f"{endpoint.address}: {failure_reason(error, endpoint.tls_name)}") from error


def _addresses(host: str, port: int, until: float) -> list[Any]:
    """Looks up a name. A thread does so, because nothing else bounds the time that it takes."""
    look_up = functools.partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    with contextlib.suppress(socket.gaierror):
        return look_up(flags=socket.AI_NUMERICHOST)
    if sys.is_finalizing():
        # No thread begins any more.
        return look_up()
    try:
        return started(look_up).result(_rest_s(until))
    except concurrent.futures.TimeoutError:
        raise TimeoutError from None


def started(work: Callable[[], _Result]) -> concurrent.futures.Future[_Result]:
    """Runs this in a thread of its own, for which nothing waits at the end of the program."""
    future: concurrent.futures.Future[_Result] = concurrent.futures.Future()
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    try:
        threading.Thread(target=run, name="adapter_gateway", daemon=True).start()
    except RuntimeError as error:
        raise GatewayError(str(error)) from error
    return future


#: How to wait: it does so, and returns the connection that was to be made.
Waiter = Callable[[Union[Wait, Connect]], Awaitable[Any]]


async def block(step: Union[Wait, Connect], also: Optional[socket.socket] = None) -> Any:
    return step.block(also)


def run(steps: Coroutine[Any, Any, _Result]) -> _Result:
    """Runs steps that wait by `block`. So they come to their end at once, as far as Python knows."""
    try:
        steps.send(None)
    except StopIteration as end:
        return cast(_Result, end.value)
    raise AssertionError("a step in a thread was suspended")


class Connection:
    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        self.socket = connected
        self._tls = connected if isinstance(connected, ssl.SSLSocket) else None
        #: The process that made it. The answers to the requests of a parent process arrive on the same socket.
        self.process = os.getpid()
        #: It knows the answer that repeats itself, so it is kept with the connection.
        self.reader = AnswerReader()
        self.written = 0

    def close(self) -> None:
        self.socket.close()

    @property
    def has_more(self) -> bool:
        """Whether there is something to read that the kernel does not tell of."""
        return self._tls is not None and self._tls.pending() > 0

    def read(self) -> Optional[bytes]:
        """Returns what has arrived: `None` if nothing has, no bytes at the end of the connection."""
        try:
            # TLS takes far longer than the kernel to say that nothing has.
            if self._tls is not None and not self.has_more and not wait_for([self._tls], (), 0.0):
                return None
            return self.socket.recv(READ_BYTES)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None

    def write(self, data: Union[bytes, memoryview[int]]) -> int:
        """Returns how many bytes the kernel took, which may be none."""
        taken = 0
        try:
            if self._tls is None:
                taken = self.socket.send(data)
            else:
                view = memoryview(data)
                while taken < len(view):
                    taken += self._tls.send(view[taken : taken + _RECORD_BYTES])
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            pass
        finally:
            self.written += taken
        return taken


def _connected(endpoint: Endpoint, family: int, address: Any, until: float) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.settimeout(_rest_s(until))
        while True:
            try:
                made.connect(address)
                break
            except BlockingIOError:
                # The queue of a Unix socket is full. Nothing tells when it has room.
                time.sleep(min(_QUEUE_PAUSE_S, _rest_s(until)))
        if family != socket.AF_UNIX:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        context = endpoint.tls_context()
        if context is not None:
            made.settimeout(_rest_s(until))
            made = context.wrap_socket(made, server_hostname=endpoint.tls_name)
    except BaseException:
        made.close()
        raise
    return made


def _rest_s(until: float) -> float:
    """Returns the seconds that are left. Raises `TimeoutError` if none are."""
    rest_s = until - time.monotonic()
    if rest_s <= 0:
        raise TimeoutError
    return rest_s


def failure_reason(error: BaseException, name: str = "NAME") -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in _OTHER_NAMES:
            cure = f"start the gateway with `--cert-name {name}`, and trust its new gateway-cert.pem"
            return f"the certificate of the gateway has other names; {cure}"
        return f"the certificate of the gateway is not trusted: {error.verify_message}"
    if isinstance(error, (socket.timeout, TimeoutError)):
        return "no connection within the time"
    return str(error) or type(error).__name__


class Pool:
    """The endpoint of a client, and its connections that nobody uses now."""

    def __init__(self, endpoint: Endpoint, timeout_s: float) -> None:
        self.endpoint = endpoint
        self.timeout_s = timeout_s
        #: The settings file, which is read again when the gateway refuses the token, and which version of it was read.
        self._settings: Optional[Path] = None
        self._version: Optional[tuple[int, ...]] = None
        # A finalised generator gives its connection back anywhere. So there is no lock: each change is indivisible.
        self._idle: deque[Connection] = deque()
        self._closed = False

    def watch(self, settings: Path) -> None:
        """Makes this file the source of further tokens."""
        self._settings = settings
        self.endpoint.token_name = f"TOKEN in {settings}"

    def take(self) -> Optional[Connection]:
        """Returns a kept connection, if there is one. If the server has ended it, that is read before anything is sent."""
        if self._closed:
            raise GatewayError("the client is closed")
        try:
            while (connection := self._idle.pop()).process != os.getpid():
                connection.close()
            return connection
        except IndexError:
            return None

    def give_back(self, connection: Connection) -> None:
        self._idle.append(connection)
        if self._closed:
            self.close()

    def close(self) -> None:
        """Closes the connections, those that are given back later too."""
        self._closed = True
        with contextlib.suppress(IndexError):
            while True:
                self._idle.pop().close()

    def renewed(self, refused: Endpoint) -> tuple[Optional[Endpoint], bool]:
        """Returns the endpoint with another token than the refused one, if the settings have one, and whether they are so
        young that the gateway may not have read them. They are read once for each of their changes."""
        is_young = False
        if self._settings is not None:
            with contextlib.suppress(OSError, SettingsError, ValueError):
                found = os.stat(self._settings)
                # A program that puts a file in place may keep when it was modified.
                times = (found.st_mtime, found.st_ctime)
                is_young = any(0 <= time.time() - changed_at < _YOUNG_S for changed_at in times)
                version = (found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_size)
                if version != self._version:
                    self._version = version
                    self.endpoint = self.endpoint.with_token(read_token(self._settings))
        return None if self.endpoint.token == refused.token else self.endpoint, is_young


class Work:
    """What one `send_many` does on its connections, one after the other. `begin` and `step` wait, nothing else does."""

    #: Whether it has begun. What was not made wholly warns of nothing.
    _is_used = True

    def __init__(self, pool: Pool, in_flight: int, retry_s: float, reorder: bool) -> None:
        self.pipeline = Pipeline(pool.endpoint, pool.renewed, in_flight, retry_s, reorder)
        self._pool = pool
        self._process = os.getpid()
        self._connection: Optional[Connection] = None
        self._rest: Union[bytes, memoryview[int]] = b""
        #: When bytes were written last, or an answer came, for the time that an answer may take.
        self._moved_at = 0.0
        self._is_used = False

    def __del__(self, _warn: Callable[..., None] = warnings.warn) -> None:
        if not self._is_used:
            _warn("send_many(...) was never iterated, so nothing was sent", RuntimeWarning, source=self)

    def is_forked(self) -> bool:
        """Returns whether this is the copy of a fork, on whose connection another process goes on."""
        return os.getpid() != self._process

    def check_process(self) -> None:
        if self.is_forked():
            raise GatewayError("the outcomes belong to the process that asked for them")

    async def begin(self, waiter: Waiter) -> None:
        """Gets a connection. Raises `NotSentError`."""
        self._is_used = True
        await self._use(self._pool.take(), waiter)

    async def step(self, waiter: Waiter) -> None:
        """Waits until `advance` has something to do, or connects anew. Raises `NotSentError` after the time to try."""
        connection, pipeline = self._connection, self.pipeline
        if connection is None and pipeline.may_connect(time.monotonic()):
            try:
                await self._use(None, waiter)
            except NotSentError as error:
                pipeline.failed(str(error), time.monotonic())
        else:
            resume_at = pipeline.resume_at if pipeline.unsent else None
            until = self._late_at() if pipeline.in_flight else resume_at
            await waiter(Wait(None if connection is None else connection.socket, bool(self._rest), until))

    def end(self) -> None:
        """Ends. The connection is kept if it can be used further."""
        self._is_used = True
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self.pipeline.in_flight or self._rest or self.pipeline.closing or self.is_forked():
            connection.close()
        else:
            self._pool.give_back(connection)

    def advance(self) -> None:
        """Reads what has arrived, and then writes what can be written: an answer may say that the connection ends."""
        self.check_process()
        self._read()
        self.pipeline.renew(time.monotonic())
        self._write()
        if self._connection is not None and self.pipeline.in_flight and self._late_at() <= time.monotonic():
            self._break(f"no answer came within {self._pool.timeout_s:g} s")

    async def _use(self, kept: Optional[Connection], waiter: Waiter) -> None:
        connection = kept or await waiter(Connect(self._pool.endpoint, self._pool.timeout_s))
        connection.written = 0
        self._connection = connection
        self._moved_at = time.monotonic()
        self.pipeline.connected(connection.reader, is_new=kept is None)

    def _late_at(self) -> float:
        return self._moved_at + self._pool.timeout_s

    def _write(self) -> None:
        while self._connection is not None:
            self._rest = self._rest or self.pipeline.requests(time.monotonic())
            if not self._rest:
                return
            try:
                taken = self._connection.write(self._rest)
            except OSError as error:
                # The answers that arrived before the end still count.
                self._read()
                self._break(failure_reason(error))
                return
            if taken:
                self._moved_at = time.monotonic()
            if taken < len(self._rest):
                self._rest = memoryview(self._rest)[taken:]
                return
            self._rest = b""

    def _read(self) -> None:
        """Reads all that has arrived."""
        pipeline = self.pipeline
        while (connection := self._connection) is not None:
            waiting = pipeline.in_flight
            try:
                data = connection.read()
                if data is None:
                    return
                now = time.monotonic()
                if data:
                    pipeline.receive(data, now)
            except OSError as error:
                self._break(failure_reason(error))
                return
            except MalformedAnswer as error:
                reason = f"what answers at {pipeline.endpoint.address} is no gateway: {error}"
                self._break(reason)
                pipeline.give_up(reason)
                return
            if pipeline.in_flight < waiting:
                self._moved_at = now
            if pipeline.closing or not data:
                self._break("the connection ended before the answer")
            elif len(data) < READ_BYTES and not connection.has_more:
                return

    def _break(self, reason: str) -> None:
        """Closes a connection that can be used no further. Why concerns the messages that are not answered."""
        if self._connection is not None:
            self.pipeline.broken(self._connection.written, reason, time.monotonic())
            self._connection.close()
            self._connection, self._rest = None, b""
