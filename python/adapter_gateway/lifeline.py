"""How a gateway notices that the process that started it has ended, and what a fork of that process gives up: the copies
of descriptors that keep a gateway or its port alive."""

from __future__ import annotations

import os
import weakref
from typing import Any

_copied: weakref.WeakSet[Any] = weakref.WeakSet()


def close_after_fork(copied: Any) -> None:
    """Makes every later fork call `after_fork` of the object in the new process, as long as the object lives."""
    _copied.add(copied)


def _after_fork() -> None:
    for copied in list(_copied):
        copied.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Lifeline:
    """The standard input of a gateway (`--watch-stdin`). When all copies of its writing end are closed, it stops."""

    def __init__(self) -> None:
        self.read_end, self._write_end = os.pipe()
        close_after_fork(self)

    def close(self) -> None:
        """Asks the gateway to stop. Another call does nothing."""
        write_end, self._write_end = self._write_end, -1
        if write_end >= 0:
            os.close(write_end)

    after_fork = close


def watch_options() -> list[str]:
    """Returns the options by which the gateway ends with this process."""
    try:
        # A fork in a C library keeps a copy of the pipe. So the gateway also watches the process, from kernel 5.3 on.
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return ["--watch-stdin"]
    return ["--watch-stdin", "--watch-parent"]
