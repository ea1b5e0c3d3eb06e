"""The connection of one `send_many` and the messages on it. No method here waits."""

from __future__ import annotations

import os
import time
from typing import Callable, Optional, Union

from .answers import MalformedAnswer
from .connection import READ_BYTES, Connection, Ready, failure_reason
from .endpoint import Endpoint
from .errors import GatewayError
from .pipeline import Pipeline


class Work:
    """What one `send_many` does on its connections, one after the other."""

    def __init__(self, pipeline: Pipeline, timeout_s: float, renewed: Callable[[Endpoint], Optional[Endpoint]]) -> None:
        self.pipeline = pipeline
        self._timeout_s = timeout_s
        self._renewed = renewed
        self._process = os.getpid()
        self._connection: Optional[Connection] = None
        self._rest: Union[bytes, memoryview[int]] = b""
        #: When bytes were written last, or an answer came, for the time that an answer may take.
        self._moved_at = 0.0

    def is_forked(self) -> bool:
        """Returns whether this is the copy of a fork, on whose connection another process goes on."""
        return os.getpid() != self._process

    def check_process(self) -> None:
        """Raises `GatewayError` in the copy of a fork."""
        if self.is_forked():
            raise GatewayError("the outcomes belong to the process that asked for them")

    def use(self, connection: Connection, is_new: bool) -> None:
        """Goes on with this connection."""
        connection.written = 0
        self._connection = connection
        self._rest = b""
        self._moved_at = time.monotonic()
        self.pipeline.connected(is_new)

    def end(self) -> Optional[Connection]:
        """Ends. Returns the connection if it can be used further."""
        connection, self._connection = self._connection, None
        if connection is None:
            return None
        if self.pipeline.in_flight or self._rest or self.pipeline.closing or self.is_forked():
            connection.close()
            return None
        return connection

    def wants_connection(self) -> bool:
        """Returns whether a connection is to be made now. Raises `NotSentError` after the time to try."""
        return self._connection is None and self.pipeline.may_connect(time.monotonic())

    def wait(self) -> Ready:
        """Returns what to wait for before the next call of `advance`."""
        connection = self._connection
        if connection is not None and self.pipeline.in_flight:
            until: Optional[float] = self._moved_at + self._timeout_s
        else:
            until = self.pipeline.send_at(connection is not None)
        return Ready(None if connection is None else connection.socket, bool(self._rest), until)

    def advance(self) -> None:
        """Reads what has arrived, and writes what can be written. What has arrived comes first: an answer may say that
        the connection ends."""
        self.check_process()
        self._read_all()
        if self.pipeline.wants_token:
            self.pipeline.renew(self._renewed(self.pipeline.endpoint))
        if self._connection is not None:
            self._write()
        late = self._moved_at + self._timeout_s <= time.monotonic()
        if late and self._connection is not None and self.pipeline.in_flight:
            self._break(f"no answer came within {self._timeout_s:g} s")

    def _write(self) -> None:
        while self._connection is not None:
            if not self._rest:
                self._rest = self.pipeline.requests(time.monotonic())
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
        self._connection = None
        self._rest = b""
