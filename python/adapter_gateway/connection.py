"""A connection to the gateway, over a socket that never blocks.

What takes time is a generator. It yields what it waits for, so that a thread and an event loop can run the same steps.
"""

from __future__ import annotations

import os
import select
import socket
import ssl
import time
from collections.abc import Generator
from typing import Any, Callable, Optional, TypeVar, Union

from .endpoint import Endpoint
from .errors import NotSentError

_Result = TypeVar("_Result")

READ_BYTES = 64 * 1024

#: The most bytes of one TLS record (RFC 8446 section 5.1). With one record for each call, what the socket did not take
#: whole is of no use to the server.
_RECORD_BYTES = 16 * 1024

#: Seconds between two attempts at a Unix socket whose queue is full.
_QUEUE_PAUSE_S = 0.01


class Ready:
    """A wait until a socket has something to read, or room to write if that is wanted, or until a time."""

    def __init__(self, waiting: Optional[socket.socket], write: bool, until: Optional[float]) -> None:
        self.socket = waiting
        self.write = write
        self.until = until

    def block(self, also: Optional[socket.socket] = None) -> None:
        """Waits in this thread, also for something to read from another socket."""
        wait_s = None if self.until is None else max(0.0, self.until - time.monotonic())
        read = [one for one in (self.socket, also) if one is not None]
        write = [self.socket] if self.write and self.socket is not None else []
        if not hasattr(select, "poll"):
            if read:
                select.select(read, write, (), wait_s)
            else:
                time.sleep(wait_s or 0.0)
            return
        poll = select.poll()
        for one in read:
            poll.register(one, select.POLLIN | select.POLLOUT if one in write else select.POLLIN)
        poll.poll(None if wait_s is None else wait_s * 1000)


class Resolve:
    """A wait for the addresses of a host."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port

    def block(self) -> list[Any]:
        """Returns them."""
        return list(socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM))


#: What takes time. It is sent the addresses that it asked for.
Steps = Generator[Union[Ready, Resolve], Any, _Result]


def run(steps: Steps[_Result]) -> _Result:
    """Runs the steps in this thread."""
    resume: Callable[[Any], Union[Ready, Resolve]] = steps.send
    value: Any = None
    while True:
        try:
            step = resume(value)
        except StopIteration as end:
            result: _Result = end.value
            return result
        try:
            resume, value = steps.send, step.block()
        except BaseException as error:
            resume, value = steps.throw, error


class Connection:
    """One connection."""

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self._tls = connected if isinstance(connected, ssl.SSLSocket) else None
        self._poll = select.poll() if hasattr(select, "poll") else None
        if self._poll is not None:
            self._poll.register(connected, select.POLLIN)
        #: The process that made it. The answers to the requests of a parent process arrive on the same socket.
        self.process = os.getpid()
        #: The bytes that the kernel took.
        self.written = 0

    def close(self) -> None:
        """Closes. What is in flight gets no answer."""
        self.socket.close()

    def _has_arrived(self) -> bool:
        if self._poll is None:
            return bool(select.select([self.socket], (), (), 0)[0])
        return bool(self._poll.poll(0))

    @property
    def has_more(self) -> bool:
        """Whether there is something to read that the kernel does not tell of."""
        return self._tls is not None and self._tls.pending() > 0

    def read(self) -> Optional[bytes]:
        """Returns what has arrived: `None` if nothing has, no bytes at the end of the connection."""
        # TLS takes far longer than the kernel to say that nothing has.
        if self._tls is not None and not self.has_more and not self._has_arrived():
            return None
        try:
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


def connecting(endpoint: Endpoint, timeout_s: float) -> Steps[Connection]:
    """Makes a connection. Raises `NotSentError`."""
    until = time.monotonic() + timeout_s
    try:
        if endpoint.socket_path is not None:
            return Connection((yield from _connected(socket.AF_UNIX, 0, endpoint.socket_path, None, until)))
        context = endpoint.tls_context()
        tls = None if context is None else (context, endpoint.host)
        failure: OSError = OSError("the host has no address")
        for family, _, protocol, _, address in (yield Resolve(endpoint.host, endpoint.port)):
            try:
                return Connection((yield from _connected(family, protocol, address, tls, until)))
            except OSError as error:
                failure = error
        raise failure
    except (OSError, ValueError) as error:
        # `ValueError` is what the standard library raises for some hosts and paths.
        raise NotSentError(f"{endpoint.address}: {failure_reason(error)}") from error


def _connected(
    family: int, protocol: int, address: Any, tls: Optional[tuple[ssl.SSLContext, str]], until: float
) -> Steps[socket.socket]:
    made = socket.socket(family, socket.SOCK_STREAM, protocol)
    try:
        made.setblocking(False)
        while True:
            try:
                made.connect(address)
            except BlockingIOError:
                if protocol:
                    yield _step(made, True, until)
                else:
                    # The queue of a Unix socket is full. Nothing tells when it has room.
                    yield _step(None, False, min(until, time.monotonic() + _QUEUE_PAUSE_S), until)
                    continue
                error = made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if error:
                    raise OSError(error, os.strerror(error)) from None
                if time.monotonic() >= until:
                    raise TimeoutError from None
            break
        if protocol:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            context, host = tls
            made = context.wrap_socket(made, server_hostname=host, do_handshake_on_connect=False)
            yield from _handshake(made, until)
    except BaseException:
        made.close()
        raise
    return made


def _handshake(made: ssl.SSLSocket, until: float) -> Steps[None]:
    while True:
        try:
            made.do_handshake()
            return
        except ssl.SSLWantReadError:
            yield _step(made, False, until)
        except ssl.SSLWantWriteError:
            yield _step(made, True, until)


def _step(made: Optional[socket.socket], write: bool, until: float, limit: Optional[float] = None) -> Ready:
    if time.monotonic() >= (until if limit is None else limit):
        raise TimeoutError
    return Ready(made, write, until)


def failure_reason(error: BaseException) -> str:
    """Returns what went wrong with a connection, in words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of the gateway is not trusted: {error.verify_message}"
    if isinstance(error, (socket.timeout, TimeoutError)):
        return "no connection within the time"
    return str(error) or type(error).__name__
