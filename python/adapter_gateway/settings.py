"""The user settings file, as the gateway reads it: parsed as Python and never executed."""

from __future__ import annotations

import ast
import contextlib
import errno
import itertools
import os
import pathlib
import pwd
import shlex
import stat
import time
from collections.abc import Iterable, Iterator
from typing import Optional

from .endpoint import Path
from .errors import SettingsError

_FILE_BYTES = 1 << 20
_ELSEWHERE = "; on another machine, write its TOKEN into the file"
#: Errors that may pass, such as a lease of another program, and for how long they are no answer.
_PASSING = (errno.EAGAIN, errno.EINTR, errno.EMFILE, errno.ENFILE, errno.ESTALE, errno.EIO)
_PASSING_S = 1.0
#: The certificate that the gateway makes beside the settings file.
CERTIFICATE = "gateway-cert.pem"


def default_path() -> pathlib.Path:
    """Returns where the user's settings file is. Raises `SettingsError` if no environment variable tells."""
    home = os.environ.get("HOME")
    if not home:
        with contextlib.suppress(KeyError):
            home = pwd.getpwuid(os.getuid()).pw_dir
    # The XDG Base Directory Specification has relative directories ignored.
    for directory, below in ((os.environ.get("XDG_CONFIG_HOME", ""), "."), (home or "", ".config")):
        if os.path.isabs(directory):
            return pathlib.Path(directory, below, "adapter", "user_settings.py")
    raise SettingsError("neither XDG_CONFIG_HOME nor HOME names a directory: where is the settings file?")


def is_enabled(settings: Optional[Path] = None) -> bool:
    """Returns whether the settings switch the gateway on, such as the first state of a check box. Raises
    `SettingsError` for a file that cannot be understood. Without a file, the gateway is off."""
    file = settings or default_path()
    is_open, token = _read(file, False) if os.path.exists(file) else (False, "")
    return is_open and token != ""


def read_token(settings: Optional[Path] = None) -> str:
    """Returns the token of the settings, unless they switch the gateway off. Raises `SettingsError`. A file with the
    token alone is enough for a client, which may be on another machine than the gateway."""
    file = settings or default_path()
    is_open, token = _read(file, True)
    if not is_open:
        raise _off(file, "OPEN_REST_API is not set to True, so the gateway does not listen", elsewhere="")
    if not token:
        raise _off(file, "TOKEN is not set, or empty")
    return token


def _off(file: Path, reason: str, elsewhere: str = _ELSEWHERE) -> SettingsError:
    cure = f"`adapter-gateway enable --settings {shlex.quote(str(file))}` switches the gateway on"
    return SettingsError(f"{file}: {reason}; {cure}{elsewhere}")


def _read(file: Path, open_by_default: bool) -> tuple[bool, str]:
    """Returns whether the file switches the gateway on, and the token, each of which is checked whatever the other one
    says, as the program does. `open_by_default` is what a file says that does not assign `OPEN_REST_API`."""
    bindings = dict(binding for statement in _parsed(file).body for binding in _bindings(statement))

    def literal(name: str, default: Optional[bool]) -> object:
        value = bindings.get(name, ast.Constant(default))
        with contextlib.suppress(ValueError, TypeError, MemoryError, RecursionError):
            return ast.literal_eval(value)
        raise SettingsError(f"{file}:{value.lineno}: {name} is not a literal")

    is_open, token = literal("OPEN_REST_API", open_by_default) is True, literal("TOKEN", None)
    if not isinstance(token, (str, type(None))):
        raise SettingsError(f"{file}: TOKEN is not a string")
    if any("\ud800" <= character <= "\udfff" for character in token or ""):
        raise SettingsError(f"{file}: TOKEN holds a lone surrogate, which is no character")
    return is_open, token or ""


def _parsed(file: Path) -> ast.Module:
    give_up_at = time.monotonic() + _PASSING_S
    while True:
        try:
            # Without this flag, a FIFO is opened only when somebody writes to it.
            with open(file, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)) as opened:
                if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                    raise SettingsError(f"{file}: it is not a regular file")
                source = opened.read(_FILE_BYTES + 1)
                break
        except FileNotFoundError as error:
            raise _off(file, str(error.strerror)) from error
        except OSError as error:
            if error.errno not in _PASSING or time.monotonic() >= give_up_at:
                raise SettingsError(f"{file}: {error.strerror}") from error
            time.sleep(0.01)
    if len(source) > _FILE_BYTES:
        raise SettingsError(f"{file}: the file is too large")
    try:
        return ast.parse(source)
    except SyntaxError as error:
        # The line is not quoted: it may hold the token.
        raise SettingsError(f"{file}:{error.lineno}:{error.offset}: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise SettingsError(f"{file}: Python refuses the file ({type(error).__name__})") from None


def _bindings(statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    """Yields what a statement of the module binds names to, in the order in which it does."""
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            yield from _bound(target, statement.value)
    elif isinstance(statement, (ast.AnnAssign, ast.AugAssign)) and statement.value is not None:
        yield from _bound(statement.target, statement.value if isinstance(statement, ast.AnnAssign) else None)


def _bound(target: ast.expr, value: Optional[ast.expr]) -> Iterator[tuple[str, ast.expr]]:
    """Yields what an assignment binds names to. Where only execution would tell, that is the name itself, which is no
    literal."""
    if isinstance(target, ast.Name):
        yield target.id, value or target
    elif isinstance(target, ast.Starred):
        yield from _bound(target.value, None)
    elif isinstance(target, (ast.Tuple, ast.List)):
        parts: Iterable[Optional[ast.expr]] = itertools.repeat(None)
        if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts):
            if not any(isinstance(element, ast.Starred) for element in (*target.elts, *value.elts)):
                parts = value.elts
        for element, part in zip(target.elts, parts):
            yield from _bound(element, part)
