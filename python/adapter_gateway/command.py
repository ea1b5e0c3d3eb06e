"""The command line of `adapter-gateway serve`: where the installed program is, and the options that it takes."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Optional, TypedDict, Union

from .endpoint import Path
from .errors import BinaryNotFoundError, SettingsError

if TYPE_CHECKING:
    from typing_extensions import Unpack as Unpack
else:
    # `typing.get_type_hints` works without the name too.
    Unpack = Union

_NAME = "adapter-gateway"
_VARIABLE = "ADAPTER_GATEWAY"

#: How long a command may take that changes the settings.
_SWITCH_TIMEOUT_S = 60.0


def find_binary() -> pathlib.Path:
    """Returns the path of the program `adapter-gateway`.

    The environment variable `ADAPTER_GATEWAY`, a path or the name of a command, comes before all else. Then come the
    places where pip and other installers put the program: in a virtual environment, with `--user`, `--target` and
    `--prefix`. Last come the folders of `PATH`.

    Raises `BinaryNotFoundError` if the variable names no program, or if no place has one.
    """
    named = os.environ.get(_VARIABLE)
    if named:
        found = shutil.which(named)
        if found is None:
            raise BinaryNotFoundError(f"{_VARIABLE} is {named!r}, which is no program")
        return pathlib.Path(found)
    places = [str(place) for place in dict.fromkeys(_places())]
    for place in (*places, _NAME):
        found = shutil.which(place)
        if found is not None:
            return pathlib.Path(found)
    raise BinaryNotFoundError(f"no program is at {', '.join(places)}, none is in PATH, and {_VARIABLE} is not set")


def _places() -> Iterator[pathlib.Path]:
    """Yields where the program can be, the most exact place first."""
    # A program that only posts messages does not need this import, which takes longer than the others.
    import importlib.metadata

    site = pathlib.Path(__file__).resolve().parent.parent
    # With `--target`, pip moves the files after it has written RECORD, so RECORD names a place outside of the target,
    # where a program of another installation may be.
    yield site / "bin" / _NAME
    # The RECORD beside this package names the program in a virtual environment, with `--user` and `--prefix`, whatever
    # Python runs. If another version of the package is further back on `sys.path`, its program is not taken. In an editable
    # installation, the package is elsewhere than its RECORD.
    installed = importlib.metadata.distributions
    for distribution in (*installed(name=_NAME, path=[str(site)]), *installed(name=_NAME)):
        for file in distribution.files or ():
            if file.name == _NAME:
                # The path has `..` in it, and the folder of the packages may be a symbolic link.
                yield pathlib.Path(str(distribution.locate_file(file))).parent.resolve() / _NAME
    # The packages of some Linux distributions have no RECORD.
    yield pathlib.Path(sysconfig.get_path("scripts"), _NAME)
    yield pathlib.Path(sysconfig.get_path("scripts", vars={"base": sys.base_prefix}), _NAME)
    yield pathlib.Path(sysconfig.get_path("scripts", "posix_user"), _NAME)


def enable(settings: Optional[Path] = None) -> None:
    """Switches the gateway on in the user settings, by default in the file that `adapter-gateway serve` reads.

    It makes a random token where there is none, and the file and its folder where they are missing. Nothing else of the
    file changes, and a gateway that runs follows within a second. This runs `adapter-gateway enable`.

    Raises `SettingsError` if the file stays as it is. The text has the place, and what to write by hand.
    """
    _switch("enable", settings)


def disable(settings: Optional[Path] = None) -> None:
    """Switches the gateway off in the user settings, as `enable` switches it on. The token stays."""
    _switch("disable", settings)


def _switch(command: str, settings: Optional[Path]) -> None:
    words = [str(find_binary()), command, *arguments({"settings": settings})]
    none, pipe = subprocess.DEVNULL, subprocess.PIPE
    ended = subprocess.run(words, stdin=none, stdout=pipe, stderr=pipe, timeout=_SWITCH_TIMEOUT_S)
    # Where SIGCHLD is ignored, the status is always 0.
    if ended.returncode != 0 or not ended.stdout:
        reason = ended.stderr.decode(errors="replace").strip().removeprefix("error: ")
        raise SettingsError(reason or f"{command} ended with status {ended.returncode}")


Texts = Optional[Union[str, Sequence[str]]]


class GatewayOptions(TypedDict, total=False):
    """The options of `adapter-gateway serve`, by their names. Those that are left out, or `None`, keep their defaults.

    An option that can be repeated takes one value or several. Times are in seconds.
    """

    settings: Optional[Path]
    listen: Texts
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


#: The options that name a file or a directory.
FILES = ("settings", "tls_cert", "tls_key", "cert_dir")


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
    if isinstance(value, (str, os.PathLike)):
        return [os.fspath(value)]
    if isinstance(value, (int, float)):
        return [str(value)]
    return [text for one in value for text in texts(one)]
