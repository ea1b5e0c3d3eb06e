"""What the documents name is where they name it."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

from conftest import TIMEOUT_S

import adapter_gateway
import adapter_gateway.aio


def run(script: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(adapter_gateway.__file__).parents[1])}
    command, pipe = [sys.executable, "-c", script], subprocess.PIPE
    return subprocess.run(command, env=environment, stdout=pipe, stderr=pipe, text=True, timeout=TIMEOUT_S)


def test_help_shows_what_the_package_has():
    shown = run("import adapter_gateway; help(adapter_gateway)").stdout
    for name in ("class Gateway(", "class Client(", "enable(", "read_token(", "is_enabled(", "class RefusedError("):
        assert name in shown, name


def test_its_modules_are_there_after_one_import():
    script = "import adapter_gateway as a, sys; print('asyncio' in sys.modules, a.testing.gateway, a.aio.Client)"
    assert run(script).stdout.startswith("False <function gateway")
    assert run("import adapter_gateway; adapter_gateway.other").stderr.endswith("has no attribute 'other'\n")


def test_all_names_are_those_that_can_be_imported():
    for module in (adapter_gateway, adapter_gateway.aio):
        assert all(hasattr(module, name) for name in module.__all__)
    public = {name for name in vars(adapter_gateway) if isinstance(getattr(adapter_gateway, name), type)}
    assert public <= {*adapter_gateway.__all__, "Any"}


def test_another_python_is_refused_in_a_sentence():
    ended = run("import sys; sys.implementation.name = 'pypy'; import adapter_gateway")
    assert ended.stderr.endswith("ImportError: adapter_gateway needs CPython, and this is pypy\n")


def test_another_system_is_refused_in_a_sentence():
    ended = run("import sys; sys.platform = 'win32'; sys.modules['pwd'] = None; import adapter_gateway")
    assert ended.stderr.endswith("ImportError: adapter_gateway needs Linux; elsewhere, post with any HTTP client\n")
