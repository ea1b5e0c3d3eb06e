"""The wait for descriptors, which gevent and eventlet replace."""

from __future__ import annotations

import select
from collections.abc import Sequence
from typing import Any, Optional


def wait_for(reading: Sequence[Any], writing: Sequence[Any] = (), timeout_s: Optional[float] = None) -> list[Any]:
    """Waits until one of them can be read, or written if that is wanted too, or has ended. Returns the numbers of those."""
    if not hasattr(select, "poll"):
        # eventlet takes it away, and makes this one wait for descriptors of any number.
        readable, writable, _ = select.select(reading, writing, [], timeout_s)
        return readable + writable
    poll = select.poll()
    for each in reading:
        poll.register(each, select.POLLIN | select.POLLOUT if each in writing else select.POLLIN)
    return [number for number, _ in poll.poll(None if timeout_s is None else 1000 * timeout_s)]
