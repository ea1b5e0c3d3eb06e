"""The standard input of a child, which tells it of the end of this process. A fork of this process gives up its copy, which
would keep the child alive."""

from __future__ import annotations

import contextlib
import os
import subprocess
import weakref
from collections.abc import Sequence
from typing import Any

_lifelines: weakref.WeakSet[Lifeline] = weakref.WeakSet()


def _close_copies() -> None:
    for lifeline in list(_lifelines):
        lifeline.close()


os.register_at_fork(after_in_child=_close_copies)


class Lifeline:
    """A process that stops when all copies of the other end of its standard input are closed (`--watch-stdin`)."""

    def __init__(self, command: Sequence[str], **options: Any) -> None:
        """Starts the process. The options are those of `subprocess.Popen`."""
        read_end, *self._write_ends = os.pipe()
        _lifelines.add(self)
        try:
            # A terminal sends Ctrl-C to each process of its foreground group. This process is to decide.
            self.popen = subprocess.Popen(command, stdin=read_end, start_new_session=True, **options)
        except BaseException:
            self.close()
            raise
        finally:
            os.close(read_end)

    def close(self) -> None:
        """Asks the process to stop. Another call does nothing."""
        # To remove is indivisible, whatever thread does so.
        with contextlib.suppress(IndexError):
            os.close(self._write_ends.pop())
