"""How the functions of the user are called that get events and the log."""

from __future__ import annotations

import collections
import functools
import logging
import sys
import threading
from collections.abc import Callable
from typing import Optional

DELIVERY_TIMEOUT_S = 5.0
"""How long who waits for an event also waits until the functions of the user have had it."""

_log = logging.getLogger("adapter_gateway")


class Deliveries:
    """Calls functions of the user, one after the other, in a thread of its own and with no lock held: one that takes long,
    or never returns, holds up nothing else."""

    def __init__(self) -> None:
        self.make_lock()
        #: The call that is being made, and those behind it. `None` ends the thread.
        self._calls: collections.deque[Optional[Callable[[], object]]] = collections.deque()
        self._thread: Optional[threading.Thread] = None
        #: What a function raised that is no `Exception`. The next one who waits gets it.
        self.raised: Optional[BaseException] = None

    def make_lock(self) -> None:
        """Makes the lock that guards what the threads of a gateway share, and that tells of each change of it. At the end
        of the interpreter these threads are frozen, perhaps with the lock held, so that another one is made."""
        self.changed = threading.Condition()

    def begin(self) -> None:
        self._thread = threading.Thread(target=self._run, name="adapter_gateway.events", daemon=True)
        self._thread.start()

    def call(self, function: Callable[..., object], *arguments: object) -> None:
        """Asks for a call, and waits for nothing."""
        self._add(functools.partial(function, *arguments))

    def end(self) -> None:
        """Ends the thread behind the calls that were asked for."""
        self._add(None)

    def _add(self, call: Optional[Callable[[], object]]) -> None:
        with self.changed:
            self._calls.append(call)
            self.changed.notify_all()

    def is_calling(self) -> bool:
        """Returns whether one of the functions calls this."""
        return threading.current_thread() is self._thread

    def settle(self) -> None:
        """Waits until all calls that were asked for have ended, but not for long. Raises what one of them raised."""
        with self.changed:
            last = self._calls[-1] if self._calls else None
            # At the end of the interpreter, nobody makes them.
            if not sys.is_finalizing():
                self.changed.wait_for(lambda: last not in self._calls, DELIVERY_TIMEOUT_S)
        self.check()

    def check(self) -> None:
        """Raises what a function raised that is no `Exception`, once."""
        raised, self.raised = self.raised, None
        if raised is not None:
            raise raised

    def failed(self, error: BaseException) -> None:
        """Tells of what a function raised. The others are called all the same."""
        if isinstance(error, Exception):
            _log.error("the function that takes events failed", exc_info=error)
            return
        with self.changed:
            self.raised = error
            self.changed.notify_all()

    def _run(self) -> None:
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self._calls)
                call = self._calls[0]
            try:
                if call is not None:
                    call()
            except BaseException as error:
                self.failed(error)
            with self.changed:
                self._calls.popleft()
                self.changed.notify_all()
            if call is None:
                return
