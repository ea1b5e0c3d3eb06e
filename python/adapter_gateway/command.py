"""The command line of `adapter-gateway serve`: where the installed program is, and the options that it takes."""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Optional, TypedDict, Union

from .endpoint import UNIX_PREFIX, Path
from .errors import BinaryNotFoundError, GatewayError, SettingsError

if TYPE_CHECKING:
    from typing_extensions import Unpack as Unpack
else:
    # `typing.get_type_hints` works without the name too.
    Unpack = Union

_NAME = "adapter-gateway"
_VARIABLE = "ADAPTER_GATEWAY"
_CURE = f"`pip install adapter-gateway` brings it, or set {_VARIABLE} to its path"
_SWITCH_TIMEOUT_S = 60.0
_REFUSED = ": it may not be executed, by its mode or by `noexec` of its file system"
#: What the text of the system leaves open, of a file that is there.
_HINTS: dict[Optional[int], str] = {
    errno.ENOEXEC: " (it is for another processor, or damaged)",
    errno.ENOENT: " (it is without its loader or interpreter)",
}


def find_binary() -> pathlib.Path:
    """Returns the path of the program `adapter-gateway`: what the environment variable `ADAPTER_GATEWAY` names, a path or a
    command, else where pip and other installers put it, else in `PATH`. Raises `BinaryNotFoundError`."""
    if named := os.environ.get(_VARIABLE):
        found = shutil.which(named)
        if found is None:
            # A name alone is looked up in `PATH`.
            why = _REFUSED if os.path.dirname(named) and os.path.isfile(named) else ""
            raise BinaryNotFoundError(f"{_VARIABLE} is {named!r}, which is no program{why}; correct it, or unset it")
        return pathlib.Path(found)
    site = pathlib.Path(__file__).resolve().parent.parent
    scripts = sysconfig.get_path
    folders: list[Path] = [
        # With `--target`, it is in the folder of the packages.
        site / "bin",
        # In a virtual environment, with `--user` and with `--prefix`, that folder is `PREFIX/lib/pythonX.Y/site-packages`,
        # whatever Python runs. What RECORD tells is not looked at: with `--target`, pip moves the files afterwards.
        site / "../../../bin",
        # In an editable installation, and with the packages of some Linux distributions, it is with the other commands.
        scripts("scripts"),
        scripts("scripts", vars={"base": sys.base_prefix}),
        scripts("scripts", "posix_user"),
    ]
    places = list(dict.fromkeys(os.path.normpath(os.path.join(folder, _NAME)) for folder in folders))
    for place in (*places, _NAME):
        if found := shutil.which(place):
            return pathlib.Path(found)
    for place in filter(os.path.isfile, places):
        raise BinaryNotFoundError(f"{place} is no program{_REFUSED}; {_CURE}")
    where = f"no program is at {', '.join(places)}, none is in PATH, and {_VARIABLE} is not set"
    raise BinaryNotFoundError(f"{where}; {_CURE}")


def enable(settings: Optional[Path] = None) -> None:
    """Switches the gateway on in the user settings, by default in the file that `adapter-gateway serve` reads.

    It makes a random token where there is none, and the file and its folder where they are missing. Nothing else of the
    file changes, and a gateway that runs follows within a second. This runs `adapter-gateway enable`. Raises
    `SettingsError` if the file stays as it is, with the place and what to write by hand, and another `GatewayError` if the
    program cannot be run.
    """
    _switch("enable", settings)


def disable(settings: Optional[Path] = None) -> None:
    """Switches the gateway off in the user settings, as `enable` switches it on. The token stays."""
    _switch("disable", settings)


def _switch(command: str, settings: Optional[Path]) -> None:
    words = [str(find_binary()), command, *arguments({"settings": settings})]
    with may_be_refused():
        ended = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SWITCH_TIMEOUT_S)
    # Where SIGCHLD is ignored, the status is always 0.
    if ended.returncode != 0 or not ended.stdout:
        reason = ended.stderr.decode(errors="replace").strip().removeprefix("error: ")
        raise SettingsError(reason or f"{command} ended with status {ended.returncode}")


@contextlib.contextmanager
def may_be_refused() -> Iterator[None]:
    """Surrounds a start of the program. What the system refuses, such as a thread, becomes a `GatewayError`. So does
    `ValueError`, which Python raises for what no program can be given, such as a NUL."""
    try:
        yield
    except GatewayError:
        raise
    except (OSError, RuntimeError, ValueError, subprocess.SubprocessError) as error:
        hint = _HINTS.get(getattr(error, "errno", None), "")
        raise GatewayError(f"the program cannot be run: {error}{hint}") from error


Texts = Optional[Union[str, Sequence[str]]]
#: Where to listen: as on the command line, or a listening socket, which stays with who made it.
_Place = Union[str, socket.socket]


class GatewayOptions(TypedDict, total=False):
    """The options of `adapter-gateway serve`, by their names. Those that are left out, or `None`, keep their defaults.
    An option that can be repeated takes one value or several. Times are in seconds."""

    settings: Optional[Path]
    listen: Optional[Union[_Place, Sequence[_Place]]]
    plain: bool
    tls_cert: Optional[Path]
    tls_key: Optional[Path]
    cert_dir: Optional[Path]
    cert_name: Texts
    connect: Texts
    bind: Texts
    hub: bool
    hub_publishers: Optional[str]
    hub_subscribers: Optional[str]
    encoding: Optional[Literal["json", "msgpack"]]
    check: Optional[Literal["known", "strict", "envelope"]]
    vocabulary: Optional[Literal["as-sent", "older", "newer"]]
    allow_origin: Texts
    io: Optional[Literal["auto", "uring", "epoll"]]
    workers: Optional[int]
    max_body: Optional[int]
    max_head: Optional[int]
    max_connections: Optional[int]
    max_buffered: Optional[int]
    head_timeout: Optional[float]
    body_timeout: Optional[float]
    idle_timeout: Optional[float]
    drain_timeout: Optional[float]
    queue: Optional[int]
    stall_timeout: Optional[float]
    log_time: bool
    events: bool
    stats: Optional[float]


_FILES = ("settings", "tls_cert", "tls_key", "cert_dir")


def with_absolute_paths(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options for a process whose directory may change before a file is used once more."""
    absolute = {name: os.path.abspath(options[name]) for name in _FILES if options.get(name)}
    places = options.get("listen") or []
    listed = [places] if isinstance(places, (str, socket.socket)) else places
    return {**options, **absolute, "listen": [_absolute(one) for one in listed]}


def _absolute(place: _Place) -> _Place:
    path = place[len(UNIX_PREFIX) :] if isinstance(place, str) and place.startswith(UNIX_PREFIX) else ""
    # The program refuses an abstract name.
    return f"{UNIX_PREFIX}{os.path.abspath(path)}" if path and path[0] != "@" else place


def arguments(options: Mapping[str, Any]) -> list[str]:
    words: list[str] = []
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(option)
        elif value is not None and value is not False:
            words.extend(f"{option}={text}" for text in texts(value))
    return words


def texts(value: Any) -> list[str]:
    """Returns the texts of an option's value, or of its values."""
    if isinstance(value, socket.socket):
        if value.fileno() < 0:
            raise GatewayError("a socket of `listen` is closed")
        return [f"fd:{value.fileno()}"]
    if isinstance(value, (str, os.PathLike, int, float)):
        return [os.fspath(value) if isinstance(value, os.PathLike) else str(value)]
    return [text for one in value for text in texts(one)]
