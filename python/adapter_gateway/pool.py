"""Where a client posts, and the connections that it keeps."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from typing import Optional

from .connection import Connect, Connection
from .endpoint import Endpoint, Path
from .errors import GatewayError, SettingsError
from .settings import read_token


class Pool:
    """The endpoint of a client, and its connections that nobody uses now."""

    def __init__(self, endpoint: Endpoint, timeout_s: float) -> None:
        self.endpoint = endpoint
        self.timeout_s = timeout_s
        #: The settings file, which is read again when the gateway refuses the token, and which version of it was read.
        self._settings: Optional[Path] = None
        self._version: Optional[tuple[int, ...]] = None
        # A generator that is finalised gives its connection back, wherever the program is. So there is no lock: to add
        # and to remove at one end are indivisible.
        self._idle: deque[Connection] = deque()
        self._closed = False

    def watch(self, settings: Path) -> None:
        """Makes this file the source of further tokens."""
        self._settings = settings
        self.endpoint.token_name = f"TOKEN in {settings}"

    def check_open(self) -> None:
        """Raises `GatewayError` after `close`."""
        if self._closed:
            raise GatewayError("the client is closed")

    def connect(self) -> Connect:
        return Connect(self.endpoint, self.timeout_s)

    def take(self) -> Optional[Connection]:
        """Returns a kept connection, if there is one. If the server has ended it, that is read before anything is sent."""
        self.check_open()
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            if connection.process == os.getpid():
                return connection
            connection.close()

    def give_back(self, connection: Connection) -> None:
        self._idle.append(connection)
        if self._closed:
            self.close()

    def close(self) -> None:
        """Closes the connections, those that are given back later too."""
        self._closed = True
        while self._idle:
            try:
                self._idle.pop().close()
            except IndexError:
                # Another thread was faster.
                break

    def renewed(self, refused: Endpoint) -> Optional[Endpoint]:
        """Returns the endpoint with another token than the one that was refused, if the settings have one. The file is
        read once for each of its changes."""
        if self._settings is not None:
            with contextlib.suppress(OSError, SettingsError, ValueError):
                found = os.stat(self._settings)
                version = (found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_size)
                if version != self._version:
                    self._version = version
                    self.endpoint = self.endpoint.with_token(read_token(self._settings))
        return None if self.endpoint.token == refused.token else self.endpoint
