"""The gateway as a child of this process."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from typing import Optional, TypeVar

from .base import START_TIMEOUT_S, GatewayBase
from .client import TIMEOUT_S, Client
from .endpoint import Path
from .errors import GatewayError
from .process import Event, Until

_Gateway = TypeVar("_Gateway", bound="Gateway")


class Gateway(GatewayBase):
    """Runs `adapter-gateway serve` as a child of this process, from the start of a `with` block to its end.

    >>> with Gateway(settings="user_settings.py", hub=True) as gateway:
    ...     print(gateway.url)

    When the block begins, messages are taken. When it ends, each message that was accepted has been handed to the hub.
    The gateway also ends when this process ends, whatever ends it. Lines that the gateway logs go to the logger
    `adapter_gateway`, with the level that they begin with, or INFO. If messages were accepted and not handed to the hub,
    a WARNING tells. If the gateway dies inside the block, the end of the block raises `GatewayEndedError`, unless another
    error leaves it.
    """

    def __enter__(self: _Gateway) -> _Gateway:
        self.start()
        return self

    def __exit__(self, kind: object, error: Optional[BaseException], traceback: object) -> None:
        if self._is_forked():
            return
        try:
            self.stop()
        except GatewayError:
            # What went wrong in the block tells more.
            if error is None:
                raise

    def start(self) -> None:
        """Starts the gateway, and waits until it is where `until` says.

        Raises `BinaryNotFoundError`, `GatewayEndedError` if it refuses to start, `GatewayDisabledError` if the settings
        do not switch it on, and `GatewayTimeoutError` if the hub or something else is late. Then nothing is left over.
        """
        self._start()

    def stop(self) -> Event:
        """Stops the gateway, and returns its event `stopped` with all counters, such as `accepted` and `published`, and
        `undelivered` if messages were accepted and not handed to the hub.

        It takes `drain_timeout` at most. A gateway that hangs is killed after twice that time and five seconds. Raises
        `GatewayEndedError` then, and if the gateway has ended in another way. A second call returns the same.
        """
        return self._stop()

    def wait_until(self, until: Until, timeout_s: Optional[float] = START_TIMEOUT_S) -> None:
        """Waits until the gateway is `ready`, `listening` or `started`: without an end if `timeout_s` is `None`, and while
        the settings do not switch the gateway on. Raises `GatewayTimeoutError` and `GatewayEndedError`."""
        self._wait_until(until, timeout_s)

    def events(self) -> Iterator[Event]:
        """Returns an iterator over the events from now on, until the gateway has ended.

        Each call returns an iterator of its own. Events wait in it until they are taken.
        """
        events: queue.SimpleQueue[Optional[Event]] = queue.SimpleQueue()
        return iter(self._fill(events).get, None)

    def stats(self) -> Event:
        """Returns the counters: the event `stats`."""
        return self._ask("SIGUSR1", "stats")

    def reload(self) -> Event:
        """Makes the gateway read the settings and the certificates again, and returns the event `settings`.

        Its `state` is `reloaded`, or `rejected` with a `reason`. Then the last good settings stay in force.
        """
        return self._ask("SIGHUP", "settings")

    def replace(self) -> Event:
        """Puts a new process in the place of the running one, for example after an upgrade, and refuses no connection.

        The new process listens on the same sockets. When it is where `until` says, the old one stops, and its event
        `stopped` is returned. If the new one does not start, the old one stays, and an error of `start` is raised.
        The gateway must be `replaceable`. Two processes cannot share an endpoint of `bind` or `hub`.
        """
        return self._replace()

    def client(self, certificate: Optional[Path] = None, *, timeout_s: float = TIMEOUT_S) -> Client:
        """Returns a client for the first listening socket, with the token of the settings.

        `certificate` is what the client trusts with `tls_cert`, if it is not an authority of the system. Raises
        `GatewayDisabledError` and `SettingsError`.
        """
        return self._client(Client, certificate, timeout_s)
