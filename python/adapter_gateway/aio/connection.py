"""A connection to the gateway for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Callable, cast

from ..answers import Answer, AnswerReader, MalformedAnswer
from ..connection import ACCEPTED_ANSWER, failure_reason
from ..endpoint import Endpoint
from ..errors import NotSentError, OutcomeUnknownError

#: The most bytes that are handed to the transport at once. What it cannot write at once, it keeps.
WRITE_BYTES = 64 * 1024


class Connection(asyncio.Protocol):
    """One connection. It hands what arrives, and its end, to whoever uses it at the moment."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        #: What is called with bytes that arrive. Without it, the server sent what nobody asked for.
        self.on_data: Callable[[bytes], None] | None = None
        #: What is called when something has changed: the connection ended, or there is room to write.
        self.on_change: Callable[[], None] | None = None
        #: Why the connection is of no more use.
        self.lost: str | None = None
        #: Whether the transport takes more bytes.
        self.writable = True
        #: The bytes that the transport took. The kernel may not have taken all of them.
        self.written = 0

    @classmethod
    async def open(cls, endpoint: Endpoint, timeout_s: float) -> Connection:
        """Connects. Raises `NotSentError`."""
        try:
            _, connection = await asyncio.wait_for(cls._opening(endpoint), timeout_s)
        except asyncio.TimeoutError as error:
            raise NotSentError(f"{endpoint.address}: {failure_reason(TimeoutError())}") from error
        except (OSError, ValueError) as error:
            raise NotSentError(f"{endpoint.address}: {failure_reason(error)}") from error
        return connection

    @classmethod
    def _opening(cls, endpoint: Endpoint) -> Coroutine[Any, Any, tuple[asyncio.Transport, Connection]]:
        loop = asyncio.get_running_loop()
        if endpoint.socket_path is not None:
            return loop.create_unix_connection(cls, endpoint.socket_path)
        context = endpoint.tls_context()
        name = endpoint.host if context is not None else None
        return loop.create_connection(cls, endpoint.host, endpoint.port, ssl=context, server_hostname=name)

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        # The transport is told to keep nothing: what was not written is better kept here, where it is known.
        # With 0, asyncio's TLS would never take anything.
        self._transport.set_write_buffer_limits(high=1, low=0)

    def data_received(self, data: bytes) -> None:
        if self.on_data is None:
            self._lose("the server sent what nobody asked for")
        else:
            self.on_data(data)

    def eof_received(self) -> bool:
        self._lose("the connection ended before the answer")
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._lose("the connection ended before the answer" if error is None else failure_reason(error))

    def pause_writing(self) -> None:
        self.writable = False

    def resume_writing(self) -> None:
        self.writable = True
        self._changed()

    def _lose(self, reason: str) -> None:
        if self.lost is None:
            self.lost = reason
            self._changed()

    def _changed(self) -> None:
        if self.on_change is not None:
            self.on_change()

    # What the client calls.

    def write(self, data: bytes | memoryview[int]) -> int:
        """Returns how many bytes the transport took, which may be none."""
        taken = 0
        view = memoryview(data)
        if self._transport is None or self._transport.is_closing():
            return 0
        while taken < len(view) and self.writable and self.lost is None:
            part = view[taken : taken + WRITE_BYTES]
            self._transport.write(part)
            if self._transport.is_closing():
                # The transport drops what it is given from here on, and says so later.
                break
            taken += len(part)
        self.written += taken
        return taken

    def close(self) -> None:
        """Closes. What is in flight gets no answer."""
        self._lose("the connection was closed")
        self.on_data = self.on_change = None
        if self._transport is not None:
            self._transport.abort()

    async def exchange(self, request: bytes, timeout_s: float) -> Answer:
        """Sends a request, and returns the answer.

        Raises `NotSentError` if the request was not written to its end, and else `OutcomeUnknownError`. Either way the
        connection is of no more use.
        """
        exchange = _Exchange(self, request, timeout_s)
        try:
            return await exchange.run()
        finally:
            self.on_data = self.on_change = None


class _Exchange:
    """One request and its answer."""

    def __init__(self, connection: Connection, request: bytes, timeout_s: float) -> None:
        self._connection = connection
        self._rest: bytes | memoryview[int] = request
        self._timeout_s = timeout_s
        self._reader = AnswerReader()
        self._done: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        #: Ends the exchange some time after bytes were written last.
        self._timer: asyncio.TimerHandle | None = None

    async def run(self) -> Answer:
        connection = self._connection
        connection.on_data, connection.on_change = self._receive, self._advance
        try:
            self._begin_wait()
            self._advance()
            return await self._done
        finally:
            if self._timer is not None:
                self._timer.cancel()

    def _begin_wait(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        reason = f"no answer came within {self._timeout_s:g} s"
        self._timer = asyncio.get_running_loop().call_later(self._timeout_s, self._fail, reason)

    def _receive(self, data: bytes) -> None:
        if self._done.done():
            # It is closed when it is used next.
            self._connection.close()
            return
        try:
            answers: list[int | Answer] = self._reader.receive(data)
        except MalformedAnswer as error:
            self._fail(str(error))
            return
        if not answers:
            return
        answer = answers[0]
        if len(answers) > 1 or (isinstance(answer, int) and answer > 1):
            self._fail("two answers came to one request")
            return
        full = ACCEPTED_ANSWER if isinstance(answer, int) else answer
        # An answer before the end of the request says that the server reads no more of it.
        self._done.set_result(full._replace(close=True) if self._rest else full)

    def _advance(self) -> None:
        if self._done.done():
            return
        if self._rest:
            taken = self._connection.write(self._rest)
            self._rest = memoryview(self._rest)[taken:]
            if taken:
                self._begin_wait()
        if self._connection.lost is not None:
            self._fail(self._connection.lost)

    def _fail(self, reason: str) -> None:
        if not self._done.done():
            error = NotSentError(reason) if self._rest else OutcomeUnknownError(reason)
            self._done.set_exception(error)
