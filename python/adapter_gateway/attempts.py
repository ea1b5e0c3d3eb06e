"""When to connect anew, and when to give up. Nothing here reads a clock."""

from __future__ import annotations

from .errors import NotSentError
from .pipeline import Pipeline

#: Seconds between two attempts.
PAUSE_S = 0.1


class Attempts:
    """The attempts of one `send_many` to connect since the gateway answered last."""

    def __init__(self, retry_s: float) -> None:
        self._retry_s = retry_s
        self._failing_since: float | None = None
        self._reason = ""
        #: When the next attempt may be made.
        self.next_at = 0.0

    def failed(self, reason: str, now: float) -> None:
        """A connection could not be made, or ended before it was of use."""
        self._reason = reason
        self.next_at = now + PAUSE_S
        if self._failing_since is None:
            self._failing_since = now

    def succeeded(self) -> None:
        """The gateway answered."""
        self._failing_since = None

    def may_connect(self, now: float, pipeline: Pipeline) -> bool:
        """Returns whether to connect now. Raises `NotSentError` after the time to try."""
        if self._failing_since is not None and now - self._failing_since >= self._retry_s:
            raise NotSentError(self._reason, pipeline.unsent_messages())
        return now >= self.next_at
