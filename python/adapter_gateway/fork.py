"""What a fork of this process gives up: the copies of descriptors that keep a gateway or its port alive."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forked(Protocol):
    """Something that a fork has a copy of."""

    def after_fork(self) -> None:
        """Closes the copies, in the process that a fork made."""


_copied: weakref.WeakSet[Forked] = weakref.WeakSet()


def close_after_fork(copied: Forked) -> None:
    """Makes every later fork call `after_fork`, as long as the object lives."""
    _copied.add(copied)


def _after_fork() -> None:
    for copied in list(_copied):
        copied.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
