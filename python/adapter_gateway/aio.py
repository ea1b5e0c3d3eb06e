"""`Client`, `Gateway`, `enable` and `disable` for asyncio, where what waits is awaited."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Optional, TypeVar, Union

from . import command
from . import gateway as blocking
from .client import IN_FLIGHT, RETRY_S, TIMEOUT_S, ClientBase
from .connection import Connect, Connection, Wait, Work, started
from .endpoint import Message, Path, Payload
from .errors import GatewayError, Outcome
from .process import Event

if TYPE_CHECKING:
    from typing_extensions import ParamSpec

    _Arguments = ParamSpec("_Arguments")

__all__ = ["Client", "Gateway", "disable", "enable"]

#: The most connections for calls of `send` at the same time. Further calls wait for one.
_CONNECTIONS = 64
_Client = TypeVar("_Client", bound="Client")
_Gateway = TypeVar("_Gateway", bound="Gateway")
_Result = TypeVar("_Result")


class Client(ClientBase):
    """Posts messages to a gateway. The arguments and the meaning of all methods are those of `adapter_gateway.Client`.
    Several tasks of one event loop can use one client, and one event loop after the other. Up to 64 calls of `send`
    have a connection of their own meanwhile, and further ones wait for it."""

    _loop: Optional[asyncio.AbstractEventLoop] = None

    async def send(self, topic: str, payload: Payload) -> None:
        """Posts a message as `adapter_gateway.Client.send` does. A call that is cancelled leaves its message unknown."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            # A semaphore belongs to one event loop.
            self._loop, self._permits = loop, asyncio.Semaphore(_CONNECTIONS)
        async with self._permits:
            await self._post(topic, payload, wait)

    def send_many(
        self,
        messages: Union[Iterable[Message], AsyncIterable[Message]],
        in_flight: int = IN_FLIGHT,
        *,
        retry_s: float = RETRY_S,
        reorder: bool = False,
    ) -> AsyncGenerator[Outcome, None]:
        """Posts the messages of an iterable, which may be asynchronous, and yields the outcome of each, in order.

        It does what `adapter_gateway.Client.send_many` does. With an asynchronous iterable, an outcome is yielded as
        soon as its answer has come, whether or not the iterable gives another message. If the loop over the outcomes is
        left early, close the iterator (with `aclose`, or `contextlib.aclosing` from Python 3.10 on), which closes the
        connection.
        """
        return _Sending(Work(self._pool, in_flight, retry_s, reorder)).run(messages)

    async def close(self) -> None:
        """Closes the idle connections. The client is of no use afterwards; to close it twice does nothing."""
        self._pool.close()

    async def __aenter__(self: _Client) -> _Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class _Sending:
    """Two tasks at one work: one takes the messages, and one does the rest. No pause of the caller holds that up."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._pipeline = work.pipeline

    async def run(self, messages: Union[Iterable[Message], AsyncIterable[Message]]) -> AsyncGenerator[Outcome, None]:
        # They belong to the loop that runs when they are made (Python 3.9). The caller and each task wait for one.
        self._news, self._room, self._change = asyncio.Event(), asyncio.Event(), asyncio.Event()
        await self._work.begin(wait)
        tasks = feeding, working = [asyncio.ensure_future(self._feed(messages)), asyncio.ensure_future(self._work_on())]
        try:
            for task in tasks:
                task.add_done_callback(lambda _: self._news.set())
            while True:
                for outcome in self._pipeline.outcomes():
                    yield outcome
                self._room.set()
                if working.done():
                    # Raises why it ended.
                    working.result()
                elif feeding.done() and not self._pipeline.is_busy:
                    # Raises what the iterable raised.
                    feeding.result()
                    return
                self._news.clear()
                await self._news.wait()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _feed(self, messages: Union[Iterable[Message], AsyncIterable[Message]]) -> None:
        if isinstance(messages, AsyncIterable):
            async for message in messages:
                await self._take(message)
        else:
            for message in messages:
                await self._take(message)

    async def _take(self, message: Message) -> None:
        """Takes a message, and lets the other task work if that is due before the next one is taken. That task alone
        reads, writes and closes, so no socket is closed while somebody waits for it."""
        pipeline = self._pipeline
        pipeline.add(message)
        # The task runs when the iterable takes its time.
        self._change.set()
        if pipeline.has_outcomes:
            self._news.set()
        if pipeline.unsent >= pipeline.half or pipeline.room() < 1:
            await asyncio.sleep(0)
            while pipeline.room() < 1:
                self._room.clear()
                await self._room.wait()

    async def _work_on(self) -> None:
        waiter = functools.partial(wait, change=self._change)
        try:
            while True:
                # A change from here on ends the wait below.
                self._change.clear()
                self._work.advance()
                if self._pipeline.has_outcomes or not self._pipeline.is_busy:
                    self._news.set()
                await self._work.step(waiter)
        finally:
            # The caller may be cancelled once more while it waits for this task.
            self._work.end()


async def wait(step: Union[Wait, Connect], change: Optional[asyncio.Event] = None) -> Any:
    """Waits in the event loop, also for a change."""
    if isinstance(step, Connect):
        return await in_thread(step.block, Connection.close)
    loop = asyncio.get_running_loop()
    change = change or asyncio.Event()
    with contextlib.ExitStack() as ending:
        if step.waiting is not None:
            number = step.waiting.fileno()
            loop.add_reader(number, change.set)
            ending.callback(loop.remove_reader, number)
            if step.write:
                loop.add_writer(number, change.set)
                ending.callback(loop.remove_writer, number)
        if step.until is not None:
            ending.callback(loop.call_later(step.until - time.monotonic(), change.set).cancel)
        await change.wait()
    return None


async def in_thread(work: Callable[[], _Result], discard: Callable[[_Result], object] = lambda _: None) -> _Result:
    """Runs this in a thread of its own. If the call is cancelled, that goes on, and `discard` takes its result."""
    future = started(work)
    try:
        return await asyncio.wrap_future(future)
    except asyncio.CancelledError:
        future.add_done_callback(lambda done: done.exception() or discard(done.result()))
        raise


def _awaited(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, Coroutine[Any, Any, _Result]]:
    """Returns a coroutine function that calls a function in a thread."""

    @functools.wraps(function)
    async def call(*arguments: _Arguments.args, **options: _Arguments.kwargs) -> _Result:
        return await in_thread(lambda: function(*arguments, **options))

    return call


enable, disable = _awaited(command.enable), _awaited(command.disable)


class Gateway(blocking.GatewayBase):
    """Runs `adapter-gateway serve` as a child of this process, from the start of an `async with` block to its end.

    >>> async with Gateway(settings="user_settings.py", hub=True) as gateway:
    ...     print(gateway.url)

    All is as with `adapter_gateway.Gateway`, except that what waits is awaited. `on_event` is called in the event loop,
    which ends if it raises `SystemExit` or `KeyboardInterrupt`.
    """

    _loop: Optional[asyncio.AbstractEventLoop] = None

    wait_until = _awaited(blocking.Gateway.wait_until)
    stats = _awaited(blocking.Gateway.stats)
    reload = _awaited(blocking.Gateway.reload)
    stop = _awaited(blocking.Gateway.stop)

    async def __aenter__(self: _Gateway) -> _Gateway:
        await self.start()
        return self

    async def __aexit__(self, kind: object, error: Optional[BaseException], traceback: object) -> None:
        with self._leaving(error):
            self._check_process()
            await self.stop()

    async def start(self) -> None:
        """Starts the gateway as `adapter_gateway.Gateway.start` does. If it is cancelled, nothing is left over."""
        self._loop = asyncio.get_running_loop()
        starting = asyncio.wrap_future(started(lambda: blocking.Gateway.start(self)))
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            self._give_up(self._is_to_stop)
            with contextlib.suppress(GatewayError):
                await starting
                await self.stop()
            raise

    async def replace(self) -> Event:
        """Puts a new process in the place of the running one, as `adapter_gateway.Gateway.replace` does. If it is
        cancelled, the old process stays, unless the new one has taken its place already."""
        is_given_up = threading.Event()
        try:
            return await in_thread(lambda: self._replace(is_given_up))
        except asyncio.CancelledError:
            self._give_up(is_given_up)
            raise

    def client(self, certificate: Optional[Path] = None, *, timeout_s: float = TIMEOUT_S) -> Client:
        """Returns a client for the first listening socket, as `adapter_gateway.Gateway.client` does."""
        return self._client(Client, certificate, timeout_s)

    def _deliver(self, function: Optional[Callable[[Any], object]], told: Any) -> None:
        assert self._loop is not None
        # If the loop has ended, nobody takes the event.
        with contextlib.suppress(RuntimeError):
            if function is not None:
                self._loop.call_soon_threadsafe(function, told)
