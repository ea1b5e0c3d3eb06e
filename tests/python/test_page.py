"""The page on the index works for a stranger: its examples run with the settings file that its command makes."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest
from conftest import TIMEOUT_S

import adapter_gateway
from adapter_gateway import Gateway, find_binary

REPOSITORY = pathlib.Path(__file__).parents[2]
PAGE = (REPOSITORY / "python" / "README.md").read_text()
LAUNCHER, CLIENT, AIO = (part.split("```")[0] for part in PAGE.split("```python\n")[1:])
ENABLE = next(line for line in PAGE.splitlines() if line.startswith("adapter-gateway enable "))


def test_the_page_is_short_and_leads_nowhere():
    assert 700 <= len(PAGE.split()) <= 900
    assert "](" not in PAGE, "a relative link leads nowhere on the index"


@pytest.fixture
def folder(tmp_path):
    words = [str(find_binary()), *ENABLE.split()[1:]]
    subprocess.run(words, cwd=tmp_path, check=True, stdout=subprocess.DEVNULL, timeout=TIMEOUT_S)
    return tmp_path


def run(script: str, folder: pathlib.Path, *arguments: str) -> str:
    bus = f'bind="ipc://{folder}/bus", listen="127.0.0.1:0", start_timeout={TIMEOUT_S}'
    command = [sys.executable, "-c", script.replace("hub=True", bus), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(adapter_gateway.__file__).parents[1])}
    given = {"cwd": folder, "env": environment, "stdin": subprocess.DEVNULL, "text": True}
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=TIMEOUT_S, **given).stdout


def test_the_launcher(folder):
    assert run(LAUNCHER, folder).endswith("accepted: 1\n")


def test_the_client(folder):
    with Gateway(settings=folder / "user_settings.py", listen="127.0.0.1:0", bind=f"ipc://{folder}/bus") as gateway:
        script = CLIENT.replace('"user_settings.py"', f'"user_settings.py", url="{gateway.url}"')
        assert run(script, folder) == ""
        assert gateway.stats()["accepted"] == 10_001


def test_ctrl_c_reaches_the_parent_without_the_package_alone(folder):
    """The end of the script would be a second request, which loses what waits."""
    script = (REPOSITORY / "docs" / "examples" / "parent.py").read_text()
    end = "    gateway.stdin.close()"
    assert end in script
    script = script.replace(end, f"    assert os.getsid(gateway.pid) == gateway.pid\n{end}")
    assert run(script, folder).endswith("every accepted message was published\n")


def test_the_adapter_starts_with_settings_that_are_no_python(folder):
    settings = folder / "user_settings.py"
    settings.write_text("OPEN_REST_API = (\n")
    script = (REPOSITORY / "docs" / "examples" / "adapter.py").read_text().replace("12358", "0")
    for port in ("16130", "16103"):
        script = script.replace(f"tcp://127.0.0.1:{port}", f"ipc://{folder}/{port}")
    told = run(script.replace("hub=True", "hub = True"), folder, str(settings))
    assert told.startswith(f"the check box is empty: {settings}:1:") and told.endswith("published 0 of 0\n")


def test_asyncio(folder):
    assert run(AIO, folder) == ""
