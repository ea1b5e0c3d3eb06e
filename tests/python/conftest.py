"""What the tests share. `ADAPTER_GATEWAY` names the program, unless the package that is tested has one."""

from __future__ import annotations

import json
import pathlib
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

TOKEN = "t0ken"
ENABLED = f"OPEN_REST_API = True\nTOKEN = {TOKEN!r}\n"
MESSAGE = {"topic": "adapter/extensions/data", "payload": {"extension_id": "demo", "content": "hello"}}

FAKE_READY = """\
echo '{"event":"listening","url":"http://localhost:1/api/message","pid":1,"io":"epoll"}'
echo '{"event":"ready"}'
"""

TIMEOUT_S = 120.0
"""How long anything may take, on a busy machine too."""


@pytest.fixture
def settings(tmp_path: pathlib.Path) -> pathlib.Path:
    """A settings file that switches the gateway on, in a folder of its own."""
    path = tmp_path / "user_settings.py"
    path.write_text(ENABLED)
    return path


@pytest.fixture
def options(settings: pathlib.Path) -> dict[str, Any]:
    """The options of a gateway that needs no hub and disturbs no other: a free port, and a bus in a folder."""
    return {
        "settings": settings,
        "listen": "127.0.0.1:0",
        "bind": f"ipc://{settings.parent}/bus",
        "plain": True,
        "start_timeout": TIMEOUT_S,
    }


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A listening socket of the tests."""
    with socket.create_server(("127.0.0.1", 0), backlog=4096) as listener:
        yield listener


@pytest.fixture
def post() -> Callable[..., int]:
    """A function that posts a message, and returns the status of the answer."""

    def post(url: str, certificate: pathlib.Path | None = None, token: str = TOKEN) -> int:
        body = json.dumps(MESSAGE).encode()
        request = urllib.request.Request(f"{url}?token={token}", body, {"Content-Type": "application/json"})
        tls = ssl.create_default_context(cafile=str(certificate)) if certificate else None
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls))
        try:
            with opener.open(request, timeout=TIMEOUT_S) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    return post


@pytest.fixture
def fake(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A function that makes a script of the shell the program. It becomes ready, runs some commands, and stops when it
    is asked to."""

    def fake(*commands: str, ready: str = FAKE_READY, stopped: str = '{"event":"stopped"}') -> None:
        script = tmp_path / "gateway"
        lines = (*commands, "cat >/dev/null", f"printf %s '{stopped}'")
        script.write_text("#!/bin/sh\n" + ready + "\n".join(lines))
        script.chmod(0o755)
        monkeypatch.setenv("ADAPTER_GATEWAY", str(script))

    return fake
