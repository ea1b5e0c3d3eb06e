"""A client for scripts that send many messages."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import pathlib
import queue
import socket
import sys
import threading
import time
from collections.abc import Generator, Iterable, Iterator
from typing import Optional, TypeVar

from .connection import Pool, Wait, Waiter, Work, block, run
from .endpoint import Endpoint, Message, Path, Payload
from .errors import NotSentError, Outcome, SettingsError
from .settings import CERTIFICATE, default_path, read_token

URL = "https://localhost:12358/api/message"
#: Seconds until an answer must have come, unless the client is made with others, and the most that it can be made with.
TIMEOUT_S = 30.0
TIMEOUT_LIMIT_S = 86_400.0
#: Seconds for which `send_many` asks again, unless it is called with others.
RETRY_S = 30.0
#: How many requests `send_many` has in flight, unless it is called with others.
IN_FLIGHT = 64
#: Seconds that the iterable may take to give messages, before the second thread does the work meanwhile.
_LINGER_S = 0.002
_Self = TypeVar("_Self", bound="ClientBase")


class ClientBase:
    """The part of a client that does not depend on how one waits."""

    def __init__(
        self, address: Path, token: str, certificate: Optional[Path] = None, *, timeout_s: float = TIMEOUT_S
    ) -> None:
        if not 0 < timeout_s <= TIMEOUT_LIMIT_S:
            raise ValueError(f"timeout_s is above 0, and at most {TIMEOUT_LIMIT_S:g}")
        self._pool = Pool(Endpoint(address, token, certificate), timeout_s)

    @classmethod
    def from_settings(
        cls: type[_Self],
        path: Optional[Path] = None,
        *,
        url: Optional[str] = None,
        socket: Optional[Path] = None,
        certificate: Optional[Path] = None,
        timeout_s: float = TIMEOUT_S,
    ) -> _Self:
        """Returns a client for the gateway of a settings file, by default the user's, which is never executed.

        The token is the one of the settings. The address is `https://localhost:12358`, or that of `url` or `socket`.
        The certificate of an https address is `gateway-cert.pem` beside the settings, or `certificate`. When the gateway
        refuses the token, the file is read again, once for each of its changes. With another token in it, the message is
        sent again. Raises `SettingsError`.
        """
        if url is not None and socket is not None:
            raise ValueError("url and socket exclude each other")
        # The directory of this process may change before the file is read once more.
        file = default_path() if path is None else pathlib.Path(os.path.abspath(path))
        token = read_token(file)
        address = (url or URL) if socket is None else pathlib.Path(socket)
        if certificate is None and isinstance(address, str) and address.startswith("https:"):
            certificate = file.parent / CERTIFICATE
            if not certificate.exists():
                raise SettingsError(f"{certificate}: there is no certificate; the gateway makes it on its first start")
        client = cls(address, token, certificate, timeout_s=timeout_s)
        client._pool.watch(file)
        return client

    def __repr__(self) -> str:
        return f"<Client {self._pool.endpoint.address}>"

    async def _post(self, topic: str, payload: Payload, waiter: Waiter) -> None:
        work = Work(self._pool, 1, 0.0, False)
        try:
            work.pipeline.add((topic, payload))
            await work.begin(waiter)
            work.advance()
            while not work.pipeline.has_outcomes:
                await work.step(waiter)
                work.advance()
        finally:
            work.end()
        next(work.pipeline.outcomes()).check()


class Client(ClientBase):
    """Posts messages to a gateway.

    `address` is the URL of the gateway (`https://localhost:12358/api/message`, where the path may be missing), or the
    path of its Unix socket (also as `unix:PATH`). `certificate` is the file that the gateway's certificate is verified
    with, `gateway-cert.pem` beside the settings; without it, the authorities that the system trusts count. There is no
    way to switch the verification off. Proxies in the environment are not used. `timeout_s` is how long a connection may
    take to be made, and an answer to come, a day at most.

    Several threads can use one client: each call of `send` and each `send_many` has a connection of its own meanwhile,
    and connections are kept for the next call. Messages of one thread stay in order. A client that a forked child
    process inherits makes connections of its own there. Raises `ValueError` for an address, a token or a certificate that
    cannot be right. It connects with the first message.
    """

    def send(self, topic: str, payload: Payload) -> None:
        """Posts a message, and returns when the gateway has accepted it. `payload` is an object or its JSON text.
        Raises `RefusedError` (nothing was published), `NotSentError` (the gateway did not get the message), and
        `OutcomeUnknownError` (no answer came, so the message may have been published). It is never sent twice: only
        where a kept connection ended before the request was written to its end is it written to a new one."""
        run(self._post(topic, payload, block))

    def send_many(
        self,
        messages: Iterable[Message],
        in_flight: int = IN_FLIGHT,
        *,
        retry_s: float = RETRY_S,
        reorder: bool = False,
    ) -> Generator[Outcome, None, None]:
        """Posts the messages of an iterable of `(topic, payload)`, and yields the outcome of each, in order.

        Up to `in_flight` requests are sent before the answer of the first has come. The iterable may be endless or
        slow: nothing of it is taken ahead but what is in flight, and a message is sent within milliseconds after it
        was taken. The outcomes are yielded when the iterable gives its next message, or has ended.

        After a 503, the message is sent again for `retry_s` seconds, unless one behind it was accepted meanwhile, which
        `reorder` permits.

        If the connection ends, the messages that were written and not answered are unknown, and the rest is sent on a
        new one. If no connection can be made for `retry_s` seconds, `NotSentError` is raised, which has the messages
        that were taken and not sent; at the beginning it is raised at once.

        An exception of the iterable, and `TypeError` or `ValueError` for a message that is no JSON, is raised after
        the outcomes of all messages before it. If the loop over the outcomes is left early, the connection is closed, and
        what was in flight is unknown.
        """
        return _Sending(Work(self._pool, in_flight, retry_s, reorder)).run(iter(messages))

    def close(self) -> None:
        """Closes the idle connections. The client is of no use afterwards; to close it twice does nothing."""
        self._pool.close()

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Sending:
    """The turns of the two threads at one work: who has the baton does it. The caller has it while it waits for
    answers. While it is in the iterable, the second thread may have it. A generator can be finalised at any place of
    any thread. So its end waits for nothing, and takes no lock that is held."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._pipeline = work.pipeline
        self._baton = threading.Lock()
        #: Counted up when the caller enters the iterable, and when it comes back. So it is odd meanwhile.
        self._round = 0
        #: Makes the second thread look at the caller, and `None` ends it. Its `put` can be called in a finaliser.
        self._calls: queue.SimpleQueue[Optional[bool]] = queue.SimpleQueue()
        self._wakers: Optional[tuple[socket.socket, socket.socket]] = None

    def run(self, messages: Iterator[Message]) -> Generator[Outcome, None, None]:
        pipeline = self._pipeline
        failure: Optional[Exception] = None
        is_exhausted = False
        try:
            run(self._work.begin(block))
            while not is_exhausted or pipeline.is_busy or pipeline.has_outcomes:
                # Half of what may be in flight is taken while the gateway works on the other half.
                if not is_exhausted and pipeline.room() >= pipeline.half:
                    try:
                        is_exhausted = not self._fill(messages)
                    except Exception as error:
                        is_exhausted, failure = True, error
                yield from pipeline.outcomes()
                self._work.check_process()
                if not self._baton.acquire(blocking=False):
                    self._wake()
                    self._baton.acquire()
                try:
                    self._work.advance()
                    has_room = not is_exhausted and pipeline.room() >= pipeline.half
                    if not has_room and pipeline.is_busy and not pipeline.has_outcomes:
                        run(self._work.step(block))
                        self._work.advance()
                finally:
                    self._baton.release()
                yield from pipeline.outcomes()
            if failure is not None:
                raise failure
        finally:
            self._end()

    def _fill(self, messages: Iterator[Message]) -> bool:
        """Takes what there is room for. Returns whether the iterable may have more."""
        pipeline = self._pipeline
        room = min(pipeline.room(), pipeline.half)
        taken = 0
        if self._wakers is None and (room > 1 or pipeline.is_busy) and not sys.is_finalizing():
            self._wakers = socket.socketpair()
            for waker in self._wakers:
                waker.setblocking(False)
            threading.Thread(target=self._attend, name="adapter_gateway.send_many", daemon=True).start()
        self._round += 1
        try:
            if self._wakers is not None and self._calls.empty():
                self._calls.put(True)
            for message in itertools.islice(messages, room):
                pipeline.add(message)
                taken += 1
                # With the baton, the second thread sends it. The outcomes are due then.
                if self._baton.locked() or pipeline.is_full:
                    return True
            return taken == room
        finally:
            self._round += 1

    def _wake(self) -> None:
        if self._wakers is not None:
            # A full socket wakes as well, and a closed one belongs to nobody.
            with contextlib.suppress(OSError):
                self._wakers[1].send(b"\0")

    def _end(self) -> None:
        # An interrupt may have come in the middle of `_fill`.
        self._round = 0
        if self._work.is_forked():
            # The second thread is not in this process.
            self._work.end()
        else:
            self._calls.put(None)
            self._wake()
            self._close()

    def _close(self) -> None:
        """Gives the connection back, unless the other thread has the baton, which then does so."""
        if self._baton.acquire(blocking=False):
            try:
                self._work.end()
            finally:
                self._baton.release()

    def _attend(self) -> None:
        """Works while the caller is in the iterable for long. This is the second thread."""
        assert self._wakers is not None
        waker = self._wakers[0]
        try:
            while self._calls.get():
                number = self._round
                time.sleep(_LINGER_S)
                if number % 2 and number == self._round and self._baton.acquire(blocking=False):
                    try:
                        while number == self._round:
                            self._work.advance()
                            run(self._work.step(functools.partial(block, also=waker)))
                            with contextlib.suppress(BlockingIOError):
                                waker.recv(4096)
                    except NotSentError:
                        # The caller finds the same.
                        Wait(None, False, None).block(waker)
                    finally:
                        self._baton.release()
        finally:
            self._close()
            for waker in self._wakers:
                waker.close()
