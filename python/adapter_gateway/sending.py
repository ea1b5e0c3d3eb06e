"""The loop of `send_many` over a blocking iterable: takes messages, writes, reads, and connects anew."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator

from .answers import MalformedAnswer
from .attempts import Attempts
from .connection import Connection
from .endpoint import Endpoint, Message
from .errors import NotSentError
from .outcome import Outcome
from .pipeline import Pipeline

#: Seconds that a message may wait for the iterable to give the next one, before it is sent alone.
_LINGER_S = 0.002


class Sending:
    """The connection of one `send_many`, and the messages on it.

    While the iterable is asked for messages, a second thread writes those that it gave already, if it takes its time.
    """

    def __init__(self, pipeline: Pipeline, endpoint: Endpoint, timeout_s: float, retry_s: float) -> None:
        self._pipeline = pipeline
        self._endpoint = endpoint
        self._timeout_s = timeout_s
        self._connection: Connection | None = None
        self._rest: bytes | memoryview[int] = b""
        #: When bytes were written last, or an answer came, for the time that an answer may take.
        self._moved_at = 0.0
        self._attempts = Attempts(retry_s)
        self._lock = threading.Lock()
        self._armed = threading.Event()
        self._is_armed = False
        self._flusher: threading.Thread | None = None
        #: Whether the other thread had to write what waited for the iterable.
        self._late = False
        self._ended = False

    def begin(self, kept: Connection | None) -> None:
        """Takes a kept connection, or makes one. Raises `NotSentError`."""
        self._use(kept if kept is not None else Connection(self._endpoint, self._timeout_s))

    def end(self) -> Connection | None:
        """Ends. Returns the connection if it can be used further."""
        with self._lock:
            self._ended = True
            self._armed.set()
            connection, self._connection = self._connection, None
        if connection is None:
            return None
        if self._pipeline.in_flight or self._rest or self._pipeline.closing:
            connection.close()
            return None
        return connection

    def run(self, messages: Iterator[Message]) -> Iterator[Outcome]:
        """Yields the outcomes."""
        pipeline = self._pipeline
        failure: Exception | None = None
        exhausted = False
        while True:
            if not exhausted:
                try:
                    exhausted = not self._fill(messages)
                except Exception as error:
                    exhausted, failure = True, error
            if not (pipeline.has_unsent or pipeline.in_flight):
                yield from pipeline.outcomes()
                if exhausted:
                    break
                continue
            with self._lock:
                self._write()
                # Half of what may be in flight is sent while the gateway works on the other half.
                if exhausted or pipeline.room() < pipeline.half:
                    self._wait()
            yield from pipeline.outcomes()
        if failure is not None:
            raise failure

    def _fill(self, messages: Iterator[Message]) -> bool:
        """Takes what there is room for. Returns whether the iterable may have more."""
        pipeline = self._pipeline
        room = min(pipeline.room(), pipeline.half)
        if room == 0:
            return True
        taken = 0
        self._late = False
        if room > 1 and not self._is_armed:
            self._arm()
        for message in itertools.islice(messages, room):
            pipeline.add(message)
            taken += 1
            if self._late or pipeline.is_full:
                return True
            if not self._is_armed and room > 1:
                self._arm()
        return taken == room

    def _arm(self) -> None:
        """Has the second thread look after a while whether the iterable takes its time."""
        self._is_armed = True
        if self._flusher is None:
            self._flusher = threading.Thread(target=self._flush_late, name="adapter_gateway.send_many", daemon=True)
            self._flusher.start()
        self._armed.set()

    def _flush_late(self) -> None:
        """Writes what waits for the iterable, and ends the wait for further messages with the next one."""
        while True:
            self._armed.wait()
            time.sleep(_LINGER_S)
            with self._lock:
                if self._ended:
                    return
                self._armed.clear()
                self._is_armed = False
                self._late = True
                if self._pipeline.has_unsent:
                    try:
                        self._write()
                    except NotSentError:
                        # The other thread finds the same.
                        pass

    def _use(self, connection: Connection) -> None:
        connection.written = 0
        self._connection = connection
        self._rest = b""
        self._moved_at = time.monotonic()
        self._pipeline.connected()

    def _connect(self, now: float) -> bool:
        """Makes a new connection. Returns whether there is one. Raises `NotSentError` after the time to try."""
        if not self._attempts.may_connect(now, self._pipeline):
            return False
        try:
            self._use(Connection(self._endpoint, self._timeout_s))
        except NotSentError as error:
            self._attempts.failed(str(error), time.monotonic())
            return False
        return True

    def _write(self) -> None:
        """Writes what can be written now, with a new connection if need be. What has arrived is read first: an answer
        may say that the connection ends."""
        pipeline = self._pipeline
        if self._connection is not None:
            self._read()
        if self._connection is None:
            now = time.monotonic()
            if not pipeline.has_unsent or now < pipeline.resume_at or not self._connect(now):
                return
        while self._connection is not None:
            if not self._rest:
                self._rest = pipeline.requests(time.monotonic())
                if not self._rest:
                    return
            try:
                taken = self._connection.write(self._rest)
            except OSError as error:
                # The answers that arrived before the end still count.
                while self._read():
                    pass
                self._break(error)
                return
            if taken:
                self._moved_at = time.monotonic()
            if taken < len(self._rest):
                self._rest = memoryview(self._rest)[taken:]
                return
            self._rest = b""

    def _read(self) -> bool:
        """Reads what has arrived. Returns whether there may be more."""
        connection, pipeline = self._connection, self._pipeline
        if connection is None:
            return False
        waiting = pipeline.in_flight
        try:
            data = connection.read()
            if data is None:
                return False
            if not data:
                self._break(None)
                return False
            now = time.monotonic()
            pipeline.receive(data, now)
        except (OSError, MalformedAnswer) as error:
            self._break(error)
            return False
        if pipeline.in_flight < waiting:
            self._moved_at = now
            self._attempts.succeeded()
        if pipeline.closing:
            self._drop()
        return self._connection is not None

    def _wait(self) -> None:
        """Waits until the socket is ready, or until the next attempt, and reads."""
        pipeline = self._pipeline
        now = time.monotonic()
        connection = self._connection
        if connection is None:
            time.sleep(max(0.0, max(self._attempts.next_at, pipeline.resume_at) - now))
            return
        if not pipeline.in_flight:
            # Nothing is sent before `resume_at`. The server may end the connection meanwhile.
            if connection.wait(False, pipeline.resume_at - now):
                self._read()
        elif now < self._moved_at + self._timeout_s:
            if connection.wait(bool(self._rest), self._moved_at + self._timeout_s - now):
                self._read()
        else:
            self._break(TimeoutError(f"no answer came within {self._timeout_s:g} s"))

    def _break(self, error: BaseException | None) -> None:
        """The connection ended before the answers."""
        reason = "the connection ended before the answer" if error is None else str(error) or type(error).__name__
        connection = self._connection
        if connection is None:
            return
        if connection.written and not self._pipeline.answered:
            self._attempts.failed(reason, time.monotonic())
        self._pipeline.broken(connection.written, reason)
        self._drop()

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self._rest = b""
