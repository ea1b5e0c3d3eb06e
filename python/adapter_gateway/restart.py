"""When a gateway that has ended is started again."""

from __future__ import annotations

import time
from typing import Optional

#: Seconds before the first of several starts, which double from start to start, and the most.
FIRST_PAUSE_S = 0.5
PAUSE_LIMIT_S = 60.0

#: How many starts follow on each other at most, and the seconds after which a gateway has run for long enough for the
#: count to begin anew.
LIMIT = 10
STABLE_S = 60.0


class Restarts:
    """The starts that followed on each other."""

    def __init__(self) -> None:
        self._count = 0
        #: When the process that runs was started. A start that fails has none.
        self._started_at: Optional[float] = time.monotonic()

    def pause_s(self) -> Optional[float]:
        """Returns the seconds until the next start, and `None` if there is none."""
        if self._started_at is not None and time.monotonic() - self._started_at >= STABLE_S:
            self._count = 0
        self._started_at = None
        if self._count >= LIMIT:
            return None
        self._count += 1
        return min(FIRST_PAUSE_S * 2.0 ** (self._count - 1), PAUSE_LIMIT_S)

    def started(self) -> None:
        self._started_at = time.monotonic()
