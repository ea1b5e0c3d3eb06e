"""Connections to the gateway, over sockets that never block once they are made.

What takes time is a coroutine. It is told how to wait, so that a thread and an event loop can run the same steps.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import ssl
import time
from collections import deque
from collections.abc import Awaitable, Coroutine
from typing import Any, Callable, NamedTuple, Optional, TypeVar, Union

from .answers import AnswerReader
from .endpoint import Endpoint, Path
from .errors import GatewayError, NotSentError, SettingsError
from .settings import read_token

_Result = TypeVar("_Result")

READ_BYTES = 64 * 1024

#: The most bytes of one TLS record (RFC 8446 section 5.1). With one record for each call, what the socket did not take
#: whole is of no use to the server.
_RECORD_BYTES = 16 * 1024

#: Seconds between two attempts at a Unix socket whose queue is full.
_QUEUE_PAUSE_S = 0.01


class Wait(NamedTuple):
    """A wait until a socket has something to read, or room to write if that is wanted, or until a time."""

    waiting: Optional[socket.socket]
    write: bool
    until: Optional[float]

    def block(self, also: Optional[socket.socket] = None) -> None:
        """Waits in this thread, also for something to read from another socket."""
        wait_s = None if self.until is None else max(0.0, self.until - time.monotonic())
        read = [one for one in (self.waiting, also) if one is not None]
        write = [self.waiting] if self.write and self.waiting is not None else []
        if hasattr(select, "poll"):
            poll = select.poll()
            for one in read:
                poll.register(one, select.POLLIN | select.POLLOUT if one in write else select.POLLIN)
            poll.poll(None if wait_s is None else wait_s * 1000)
        elif read:
            select.select(read, write, (), wait_s)
        else:
            time.sleep(wait_s or 0.0)


class Connect(NamedTuple):
    """A connection that is to be made."""

    endpoint: Endpoint
    timeout_s: float

    def block(self, also: Optional[socket.socket] = None) -> Connection:
        """Makes it in this thread, whatever there is to read. Raises `NotSentError`."""
        endpoint, until = self.endpoint, time.monotonic() + self.timeout_s
        try:
            if endpoint.socket_path is not None:
                return Connection(_connected(socket.AF_UNIX, endpoint.socket_path, None, until))
            context = endpoint.tls_context()
            tls = None if context is None else (context, endpoint.host)
            failure = OSError("the host has no address")
            for family, _, _, _, address in socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM):
                try:
                    return Connection(_connected(family, address, tls, until))
                except OSError as error:
                    failure = error
            raise failure
        except (OSError, ValueError) as error:
            # `ValueError` is what the standard library raises for some hosts and paths.
            raise NotSentError(f"{endpoint.address}: {failure_reason(error)}") from error


#: How to wait: it does so, and returns the connection that was to be made.
Waiter = Callable[[Union[Wait, Connect]], Awaitable[Any]]


async def block(step: Union[Wait, Connect], also: Optional[socket.socket] = None) -> Any:
    """Waits in this thread, also for something to read from another socket."""
    return step.block(also)


def run(steps: Coroutine[Any, Any, _Result]) -> _Result:
    """Runs steps that wait by `block`. So they come to their end at once, as far as Python knows."""
    try:
        steps.send(None)
    except StopIteration as end:
        result: _Result = end.value
        return result
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
        #: The bytes that the kernel took.
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
            if self._tls is not None and not self.has_more:
                socket.socket.recv(self._tls, 1, socket.MSG_PEEK)
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


def _connected(family: int, address: Any, tls: Optional[tuple[ssl.SSLContext, str]], until: float) -> socket.socket:
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
        if tls is not None:
            context, host = tls
            made.settimeout(_rest_s(until))
            made = context.wrap_socket(made, server_hostname=host)
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


def failure_reason(error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
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
        # A generator that is finalised gives its connection back, wherever the program is. So there is no lock: to add
        # and to remove at one end are indivisible.
        self._idle: deque[Connection] = deque()
        self._closed = False

    def watch(self, settings: Path) -> None:
        """Makes this file the source of further tokens."""
        self._settings = settings
        self.endpoint.token_name = f"TOKEN in {settings}"

    def check_open(self) -> None:
        if self._closed:
            raise GatewayError("the client is closed")

    def take(self) -> Optional[Connection]:
        """Returns a kept connection, if there is one. If the server has ended it, that is read before anything is sent."""
        self.check_open()
        with contextlib.suppress(IndexError):
            while (connection := self._idle.pop()).process != os.getpid():
                connection.close()
            return connection
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

    def renewed(self, refused: Endpoint) -> Optional[Endpoint]:
        """Returns the endpoint with another token than the refused one, if the settings have one. They are read once for
        each of their changes."""
        if self._settings is not None:
            with contextlib.suppress(OSError, SettingsError, ValueError):
                found = os.stat(self._settings)
                version = (found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_size)
                if version != self._version:
                    self._version = version
                    self.endpoint = self.endpoint.with_token(read_token(self._settings))
        return None if self.endpoint.token == refused.token else self.endpoint
