"""What the events of one process tell. Nothing here does input or output."""

from __future__ import annotations

import collections
import json
from typing import Any, Literal, Optional

from .errors import GatewayDisabledError, GatewayEndedError, GatewayTimeoutError

Event = dict[str, Any]
"""An event as the gateway prints it. The page of reference lists the events and their fields."""

Until = Literal["ready", "listening", "started"]
"""What to wait for.

`ready`: a message that is posted is taken, because the gateway listens and the bus is connected. `listening`: requests
are answered, perhaps with 503, because no hub is there yet. `started`: the gateway has read the settings and listens, or
they do not switch it on, and the gateway waits until they do.
"""

KILL_TIMEOUT_S = 60.0
"""How long a killed process may take to end: the kernel alone ends it, but the machine may be busy."""

LOG_LINES = 20


class GatewayState:
    """What a process has told so far, and how it ended."""

    def __init__(self) -> None:
        self.listeners: list[Event] = []
        self.is_ready = False
        self.last: dict[str, Event] = {}
        self.counts: collections.Counter[str] = collections.Counter()
        self.log: collections.deque[str] = collections.deque(maxlen=LOG_LINES)
        self.status: Optional[int] = None
        self._disabled: Optional[str] = None

    def event(self, line: bytes) -> Optional[Event]:
        """Returns the event of a line of standard output, and `None` if it has none."""
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            # The program prints nothing but events. A script around it may print more.
            return None
        return event if isinstance(event, dict) and isinstance(event.get("event"), str) else None

    def apply(self, event: Event) -> None:
        name = event["event"]
        if name == "listening":
            self.listeners.append(event)
            self._disabled = None
        elif name == "disabled":
            self.listeners = []
            self._disabled = event.get("reason", "")
        elif name in ("ready", "not-ready"):
            self.is_ready = name == "ready"
        self.last[name] = event
        self.counts[name] += 1

    def has_reached(self, until: Until, is_start: bool) -> bool:
        """Returns whether this state has come. Raises an error if the process has ended, and at a start also if the
        settings do not switch the gateway on."""
        self._check_runs()
        if until == "started":
            return bool(self.listeners) or self._disabled is not None
        if until not in ("ready", "listening"):
            raise ValueError(f"{until!r} is none of ready, listening, started")
        if is_start:
            self.check_enabled()
        return self.is_ready if until == "ready" else bool(self.listeners)

    def has_come(self, name: str, before: int) -> bool:
        """Returns whether more events of this name than before have come. Raises an error if none can come any more."""
        if self.counts[name] > before:
            return True
        self._check_runs()
        return False

    def check_enabled(self) -> None:
        """Raises `GatewayDisabledError` if the settings do not switch the gateway on."""
        if self._disabled is not None:
            raise GatewayDisabledError("the gateway is disabled", self._disabled, self.log)

    def stopped(self) -> Event:
        """Returns the last event of a process that ended as it was asked to, or raises an error."""
        if self.status == 0 and "stopped" in self.last:
            return self.last["stopped"]
        raise self.ended()

    def killed(self, timeout_s: float) -> GatewayEndedError:
        """Returns the error for a process that did not stop in this time, twice."""
        what = f"the gateway was killed, since it did not stop within {timeout_s:g} s"
        return GatewayEndedError(what, self.status, None, self.log)

    def late(self, what: str, timeout_s: Optional[float]) -> GatewayTimeoutError:
        reason = self._disabled
        if reason is None and not self.is_ready and self.last.get("bus", {}).get("reason"):
            reason = f"the bus is not connected: {self.last['bus']['reason']}"
        return GatewayTimeoutError(f"{what} did not come within {timeout_s:g} s", reason, self.log)

    def ended(self) -> GatewayEndedError:
        is_signal = self.status is not None and self.status < 0
        how = f"was ended by signal {abs(self.status or 0)}" if is_signal else f"ended with status {self.status}"
        reason = self.last.get("failed", {}).get("reason")
        return GatewayEndedError(f"the gateway {how}", self.status, reason, self.log)

    def _check_runs(self) -> None:
        if self.status is not None:
            raise self.ended()
