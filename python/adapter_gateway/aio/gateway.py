"""The gateway as a child of this process, for asyncio: what waits does so in a thread."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Optional, TypeVar

from .. import gateway
from ..client import TIMEOUT_S
from ..endpoint import Path
from ..errors import GatewayError
from ..process import Event
from .client import Client, in_thread

_Gateway = TypeVar("_Gateway", bound="Gateway")
_Result = TypeVar("_Result")

if TYPE_CHECKING:
    from typing_extensions import Concatenate, ParamSpec

    _Arguments = ParamSpec("_Arguments")


def _awaited(
    method: Callable[Concatenate[Any, _Arguments], _Result],
) -> Callable[Concatenate[Any, _Arguments], Coroutine[Any, Any, _Result]]:
    """Returns a coroutine function that calls a method in a thread."""

    @functools.wraps(method)
    async def call(self: Any, /, *arguments: _Arguments.args, **options: _Arguments.kwargs) -> _Result:
        return await in_thread(lambda: method(self, *arguments, **options))

    return call


class Gateway(gateway.GatewayBase):
    """Runs `adapter-gateway serve` as a child of this process, from the start of an `async with` block to its end.

    >>> async with Gateway(settings="user_settings.py", hub=True) as gateway:
    ...     print(gateway.url)

    All is as with `adapter_gateway.Gateway`, except that what waits is awaited. `on_event` is called in the event loop,
    which ends if it raises `SystemExit` or `KeyboardInterrupt`. If the loop ends before the block, the gateway stops.
    """

    _loop: Optional[asyncio.AbstractEventLoop] = None
    _guard: Optional[asyncio.Task[None]] = None

    wait_until = _awaited(gateway.Gateway.wait_until)
    stats = _awaited(gateway.Gateway.stats)
    reload = _awaited(gateway.Gateway.reload)
    _stop = _awaited(gateway.Gateway.stop)

    async def __aenter__(self: _Gateway) -> _Gateway:
        await self.start()
        return self

    async def __aexit__(self, kind: object, error: Optional[BaseException], traceback: object) -> None:
        if self._is_forked():
            return
        try:
            await self.stop()
        except GatewayError:
            # What went wrong in the block tells more.
            if error is None:
                raise

    async def start(self) -> None:
        """Starts the gateway as `adapter_gateway.Gateway.start` does. If it is cancelled, nothing is left over."""
        self._loop = asyncio.get_running_loop()
        try:
            await _awaited(gateway.Gateway.start)(self)
        except asyncio.CancelledError:
            self._is_stopping = True
            with contextlib.suppress(GatewayError):
                await self._stop()
            raise
        self._guard = self._loop.create_task(self._end_with_loop())

    async def stop(self) -> Event:
        """Stops the gateway, and returns its event `stopped`, as `adapter_gateway.Gateway.stop` does."""
        try:
            return await self._stop()
        finally:
            if self._guard is not None:
                self._guard.cancel()

    def events(self) -> AsyncIterator[Event]:
        """Returns an iterator over the events from now on, until the gateway has ended.

        Each call returns an iterator of its own. Events wait in it until they are taken.
        """
        return _until_none(self._fill(asyncio.Queue()))

    async def replace(self) -> Event:
        """Puts a new process in the place of the running one, as `adapter_gateway.Gateway.replace` does.

        If it is cancelled, the old process stays, unless the new one has taken its place already.
        """
        try:
            return await _awaited(gateway.Gateway.replace)(self)
        except asyncio.CancelledError:
            self._give_up_start()
            raise

    def client(self, certificate: Optional[Path] = None, *, timeout_s: float = TIMEOUT_S) -> Client:
        """Returns a client for the first listening socket, as `adapter_gateway.Gateway.client` does."""
        return self._client(Client, certificate, timeout_s)

    async def _end_with_loop(self) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            if self._process is not None:
                self._process.let_go()

    def _deliver(self, event: Optional[Event]) -> None:
        assert self._loop is not None
        # If the loop has ended, nobody takes the event.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._deliver_in_loop, event)

    def _deliver_in_loop(self, event: Optional[Event]) -> None:
        try:
            super()._deliver(event)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            self._deliveries.failed(error)


async def _until_none(events: asyncio.Queue[Optional[Event]]) -> AsyncIterator[Event]:
    while (event := await events.get()) is not None:
        yield event
