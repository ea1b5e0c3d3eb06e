"""What a gateway inherits from the process that starts it: the standard input that tells of the end of that process, and
listening sockets that outlive a gateway. A fork of that process gives up its copies, which would keep a gateway or its
port alive."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
import subprocess
import time
import weakref
from collections.abc import Sequence
from typing import Any

_PORT = 12358
_DEFAULTS = (f"127.0.0.1:{_PORT}", f"[::1]:{_PORT}")

# The kernel reduces it to net.core.somaxconn.
_BACKLOG = 4096

# How long another process may take from `bind` to `listen`.
_LISTENS_WITHIN_S = 0.1
_PAUSE_S = 0.005

_ABSENT = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT)

#: Each fork calls `after_fork` of these in the new process.
_copied: weakref.WeakSet[Any] = weakref.WeakSet()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: [copied.after_fork() for copied in list(_copied)])


class Lifeline:
    """A process that stops when all copies of the other end of its standard input are closed (`--watch-stdin`)."""

    def __init__(self, command: Sequence[str], **options: Any) -> None:
        """Starts the process. The options are those of `subprocess.Popen`."""
        read_end, *self._write_ends = os.pipe()
        _copied.add(self)
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

    after_fork = close


class Listeners:
    """Open listening sockets. A gateway gets them as descriptors (`--listen fd:N`)."""

    def __init__(self, listen: Sequence[str]) -> None:
        """Listens on each of these, or on the defaults. They are of the form `ADDR:PORT`, `unix:PATH` or `fd:N`.

        Raises `OSError` if it cannot, and `ValueError` for another form.
        """
        self._sockets: list[socket.socket] = []
        self._files: list[tuple[str, os.stat_result]] = []
        _copied.add(self)
        try:
            for place in listen or _DEFAULTS:
                self._open(place, is_default=not listen)
        except BaseException:
            self.close()
            raise

    def descriptors(self) -> list[int]:
        return [one.fileno() for one in self._sockets]

    def close(self) -> None:
        """Closes the sockets, and removes the files of Unix sockets, unless others have taken their places."""
        for path, made in self._files:
            with contextlib.suppress(OSError):
                if os.path.samestat(os.lstat(path), made):
                    os.unlink(path)
        for one in self._sockets:
            one.close()
        self._sockets, self._files = [], []

    def after_fork(self) -> None:
        """Closes the copies of a fork. The files belong to the process that made them."""
        self._files = []
        self.close()

    def _open(self, place: str, is_default: bool) -> None:
        kind, _, rest = place.partition(":")
        try:
            # An abstract name begins with @, and has no permissions.
            if kind == "unix" and rest[:1] not in ("", "@"):
                self._open_unix(rest)
            elif kind == "fd":
                self._sockets.append(socket.socket(fileno=os.dup(int(rest))))
            else:
                self._open_tcp(place, is_default)
        except OSError as error:
            raise OSError(error.errno, f"cannot listen on {place}: {error.strerror}") from error

    def _open_tcp(self, place: str, is_default: bool) -> None:
        host, colon, port = place.rpartition(":")
        if not (colon and host and port.isdecimal()):
            raise ValueError(f"{place!r} is neither ADDR:PORT nor unix:PATH nor fd:N")
        host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
        found = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        before = len(self._sockets)
        absent = OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))
        for family, _, _, _, address in dict.fromkeys(found):
            try:
                # An address family has a listener of its own. Connections of a former process that linger in TIME_WAIT
                # do not keep this one from its port.
                self._sockets.append(socket.create_server(address, family=family, backlog=_BACKLOG))
                self._sockets[-1].setblocking(False)
            except OSError as error:
                if error.errno not in _ABSENT:
                    raise
                absent = error
        # A machine without IPv6 lacks one of the defaults.
        if len(self._sockets) == before and not (is_default and before):
            raise absent

    def _open_unix(self, path: str) -> None:
        one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._sockets.append(one)
        # On Linux, the file gets the mode of the descriptor. So nobody else can connect at any moment.
        os.fchmod(one.fileno(), stat.S_IRUSR | stat.S_IWUSR)
        try:
            one.bind(path)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or not _is_stale(path):
                raise
            os.unlink(path)
            one.bind(path)
        self._files.append((path, os.lstat(path)))
        one.setblocking(False)
        one.listen(_BACKLOG)


def _is_stale(path: str) -> bool:
    end = time.monotonic() + _LISTENS_WITHIN_S
    while stat.S_ISSOCK(os.lstat(path).st_mode):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            # A listener whose backlog is full makes others wait.
            probe.setblocking(False)
            if probe.connect_ex(path) != errno.ECONNREFUSED:
                return False
        if time.monotonic() >= end:
            return True
        time.sleep(_PAUSE_S)
    return False
