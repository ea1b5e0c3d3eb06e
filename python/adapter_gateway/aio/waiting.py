"""How asyncio waits."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from typing import Any, Callable, Optional, TypeVar, Union

from ..connection import Connect, Connection, Wait

_Result = TypeVar("_Result")

#: Seconds for which a thread waits, where the event loop cannot wait for sockets.
_THREAD_S = 0.05


async def wait(step: Union[Wait, Connect], change: Optional[asyncio.Future[None]] = None) -> Any:
    """Waits in the event loop, also for a change."""
    if isinstance(step, Connect):
        return await in_thread(step.block, Connection.close)
    loop = asyncio.get_running_loop()
    change = change or loop.create_future()
    number = -1 if step.waiting is None else step.waiting.fileno()
    until = step.until
    timer = None
    try:
        if number >= 0:
            try:
                loop.add_reader(number, tell, change)
                if step.write:
                    loop.add_writer(number, tell, change)
            except NotImplementedError:
                number = -1
                until = min(until or float("inf"), time.monotonic() + _THREAD_S)
                loop.run_in_executor(None, step._replace(until=until).block).add_done_callback(lambda _: tell(change))
        if until is not None:
            timer = loop.call_later(until - time.monotonic(), tell, change)
        await change
    finally:
        if timer is not None:
            timer.cancel()
        if number >= 0:
            loop.remove_reader(number)
            loop.remove_writer(number)
    return None


def tell(future: Optional[asyncio.Future[None]]) -> None:
    """Ends the wait for a future."""
    if future is not None and not future.done():
        future.set_result(None)


async def in_thread(work: Callable[[], _Result], discard: Callable[[_Result], object] = lambda _: None) -> _Result:
    """Runs this in a thread of its own, which goes on if the call is cancelled. What waits here ends by itself, and
    `discard` takes the result then."""
    future: concurrent.futures.Future[_Result] = concurrent.futures.Future()
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="adapter_gateway.aio", daemon=True).start()
    try:
        return await asyncio.wrap_future(future)
    except asyncio.CancelledError:
        future.add_done_callback(lambda done: done.exception() or discard(done.result()))
        raise
