"""The connection of one `send_many` and the messages on it."""

from __future__ import annotations

import os
import time
from typing import Optional, Union

from .answers import MalformedAnswer
from .connection import READ_BYTES, Connect, Connection, Pool, Wait, Waiter, failure_reason
from .errors import GatewayError, NotSentError
from .pipeline import Pipeline


class Work:
    """What one `send_many` does on its connections, one after the other. `begin` and `step` wait, nothing else does."""

    def __init__(self, pool: Pool, in_flight: int, retry_s: float, reorder: bool) -> None:
        pool.check_open()
        self.pipeline = Pipeline(pool.endpoint, in_flight, retry_s, reorder)
        self._pool = pool
        self._process = os.getpid()
        self._connection: Optional[Connection] = None
        self._rest: Union[bytes, memoryview[int]] = b""
        #: When bytes were written last, or an answer came, for the time that an answer may take.
        self._moved_at = 0.0

    def is_forked(self) -> bool:
        """Returns whether this is the copy of a fork, on whose connection another process goes on."""
        return os.getpid() != self._process

    def check_process(self) -> None:
        if self.is_forked():
            raise GatewayError("the outcomes belong to the process that asked for them")

    def renew(self) -> None:
        """Looks for another token in the settings, since the one that was used is refused."""
        self.pipeline.renew(self._pool.renewed(self.pipeline.endpoint))

    async def begin(self, waiter: Waiter) -> None:
        """Gets a connection. Raises `NotSentError`."""
        kept = self._pool.take()
        self._use(kept or await waiter(self._connect()), is_new=kept is None)

    async def step(self, waiter: Waiter) -> None:
        """Waits until `advance` has something to do, or connects anew. Raises `NotSentError` after the time to try."""
        connection, pipeline = self._connection, self.pipeline
        if connection is None and pipeline.may_connect(time.monotonic()):
            try:
                self._use(await waiter(self._connect()), is_new=True)
            except NotSentError as error:
                pipeline.failed(str(error), time.monotonic())
        elif connection is None:
            await waiter(Wait(None, write=False, until=pipeline.send_at(is_connected=False)))
        else:
            until = self._late_at() if pipeline.in_flight else pipeline.send_at(is_connected=True)
            await waiter(Wait(connection.socket, bool(self._rest), until))

    def end(self) -> None:
        """Ends. The connection is kept if it can be used further."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self.pipeline.in_flight or self._rest or self.pipeline.closing or self.is_forked():
            connection.close()
        else:
            self._pool.give_back(connection)

    def advance(self) -> None:
        """Reads what has arrived, and writes what can be written. What has arrived comes first: an answer may say that
        the connection ends."""
        self.check_process()
        self._read_all()
        if self.pipeline.wants_token:
            self.renew()
        self._write()
        if self._connection is not None and self.pipeline.in_flight and self._late_at() <= time.monotonic():
            self._break(f"no answer came within {self._pool.timeout_s:g} s")

    def _use(self, connection: Connection, is_new: bool) -> None:
        connection.written = 0
        self._connection = connection
        self._moved_at = time.monotonic()
        self.pipeline.connected(connection.reader, is_new)

    def _connect(self) -> Connect:
        return Connect(self._pool.endpoint, self._pool.timeout_s)

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
                self._read_all()
                self._break(failure_reason(error))
                return
            if taken:
                self._moved_at = time.monotonic()
            if taken < len(self._rest):
                self._rest = memoryview(self._rest)[taken:]
                return
            self._rest = b""

    def _read_all(self) -> None:
        while self._read():
            pass

    def _read(self) -> bool:
        """Reads a piece of what has arrived. Returns whether there may be more."""
        connection, pipeline = self._connection, self.pipeline
        if connection is None:
            return False
        waiting = pipeline.in_flight
        try:
            data = connection.read()
            if data is None:
                return False
            now = time.monotonic()
            if data:
                pipeline.receive(data, now)
        except (OSError, MalformedAnswer) as error:
            self._break(failure_reason(error))
            return False
        if pipeline.in_flight < waiting:
            self._moved_at = now
        if pipeline.closing:
            self._drop()
        elif not data:
            self._break("the connection ended before the answer")
        return self._connection is not None and (len(data) == READ_BYTES or connection.has_more)

    def _break(self, reason: str) -> None:
        """The connection ended before the answers."""
        if self._connection is not None:
            self.pipeline.broken(self._connection.written, reason, time.monotonic())
            self._drop()

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection, self._rest = None, b""
