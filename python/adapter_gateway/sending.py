"""`send_many` over a blocking iterable, with a second thread for an iterable that takes its time."""

from __future__ import annotations

import contextlib
import functools
import itertools
import queue
import socket
import threading
import time
from collections.abc import Generator, Iterator
from typing import Optional

from .connection import Wait, block, run
from .endpoint import Message
from .errors import NotSentError
from .outcome import Outcome
from .work import Work

#: Seconds that the iterable may take to give messages, before the second thread does the work meanwhile.
_LINGER_S = 0.002


class Sending:
    """The turns of the two threads at one work: who has the baton does it.

    The caller has it while it waits for answers. While it is in the iterable, the second thread may have it. A generator
    can be finalised at any place of any thread. So its end waits for nothing, and takes no lock that is held.
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        self._pipeline = work.pipeline
        self._baton = threading.Lock()
        #: What the second thread waits for. Its `put` can be called in a finaliser.
        self._calls: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._wakers: Optional[tuple[socket.socket, socket.socket]] = None
        self._is_armed = False
        #: Whether the caller is in the iterable, for how many times, and whether the second thread has the baton.
        self._is_filling = False
        self._round = 0
        self._is_attended = False
        self._has_ended = False

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
                self._take_baton()
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
        self._round += 1
        self._is_filling = True
        try:
            if not self._is_armed and (room > 1 or pipeline.is_busy):
                self._arm()
            for message in itertools.islice(messages, room):
                if pipeline.verdict is not None:
                    self._work.renew()
                pipeline.add(message)
                taken += 1
                if self._is_attended or pipeline.is_full:
                    return True
            return taken == room
        finally:
            self._is_filling = False

    def _take_baton(self) -> None:
        self._work.check_process()
        if not self._baton.acquire(blocking=False):
            self._wake()
            self._baton.acquire()

    def _wake(self) -> None:
        if self._wakers is not None:
            # A full socket wakes as well, and a closed one belongs to nobody.
            with contextlib.suppress(OSError):
                self._wakers[1].send(b"\0")

    def _end(self) -> None:
        self._has_ended = True
        if self._work.is_forked():
            # The second thread is not in this process.
            self._work.end()
            return
        self._calls.put(None)
        if not self._close():
            self._wake()

    def _close(self) -> bool:
        """Gives the connection back, unless the other thread has the baton, which then does so."""
        if not self._baton.acquire(blocking=False):
            return False
        try:
            self._work.end()
        finally:
            self._baton.release()
        return True

    # The second thread.

    def _arm(self) -> None:
        """Has the second thread look after a while whether the iterable takes its time."""
        self._is_armed = True
        if self._wakers is None:
            self._wakers = socket.socketpair()
            for waker in self._wakers:
                waker.setblocking(False)
            threading.Thread(target=self._attend, name="adapter_gateway.send_many", daemon=True).start()
        self._calls.put(None)

    def _attend(self) -> None:
        assert self._wakers is not None
        try:
            while not self._has_ended:
                self._calls.get()
                self._watch(self._wakers[0])
        finally:
            self._close()
            for waker in self._wakers:
                waker.close()

    def _watch(self, waker: socket.socket) -> None:
        """Looks at the caller until it is no longer in the iterable, and works while it is there for long."""
        while not self._has_ended:
            before = self._round
            time.sleep(_LINGER_S)
            if not self._is_filling:
                self._is_armed = False
                # The caller may have entered the iterable in between, and found this thread to be armed.
                if not self._is_filling:
                    return
                self._is_armed = True
            elif self._round == before and self._baton.acquire(blocking=False):
                self._is_attended = True
                try:
                    self._work_until_wanted(waker)
                finally:
                    self._is_attended = False
                    self._baton.release()

    def _work_until_wanted(self, waker: socket.socket) -> None:
        try:
            while self._is_filling and not self._has_ended:
                self._work.advance()
                run(self._work.step(functools.partial(block, also=waker)))
                with contextlib.suppress(BlockingIOError):
                    waker.recv(4096)
        except NotSentError:
            # The caller finds the same.
            Wait(None, False, None).block(waker)
