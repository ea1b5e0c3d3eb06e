"""The page on the index works for a stranger: its examples run with the settings file that its command makes."""

from __future__ import annotations

import functools
import os
import pathlib
import re
import signal
import socket
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


@pytest.fixture
def adapter(folder):
    script = (REPOSITORY / "docs" / "examples" / "adapter.py").read_text()
    for port in ("16130", "16103"):
        script = script.replace(f"tcp://127.0.0.1:{port}", f"ipc://{folder}/{port}")
    return script


def test_the_adapter_starts_with_settings_that_are_no_python(folder, adapter):
    settings = folder / "user_settings.py"
    settings.write_text("OPEN_REST_API = (\n")
    told = run(adapter.replace("12358", "0").replace("hub=True", "hub = True"), folder, str(settings))
    assert told.startswith(f"the check box is empty: {settings}:1:") and told.endswith("published 0 of 0\n")


def test_the_adapter_names_a_port_that_is_taken(folder, adapter):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        hub = adapter.replace("12358", "0").replace(f"ipc://{folder}/16130", f"tcp://127.0.0.1:{port}")
        cases = [
            (
                adapter.replace("12358", port),
                f"127.0.0.1:{port}: Address already in use; end the program that has the port",
            ),
            (hub, "it cannot start: the gateway ended with status 3: "),
        ]
        for script, told in cases:
            ended = subprocess.run(
                [sys.executable, "-c", script], stdin=subprocess.DEVNULL, capture_output=True, text=True
            )
            assert ended.returncode == 1 and "Traceback" not in ended.stderr, ended
            assert any(line.startswith(told) for line in ended.stderr.splitlines()), ended


def test_ctrl_c_ends_the_adapter_as_quit_does(folder, adapter):
    command = [sys.executable, "-c", adapter.replace("12358", "0"), str(folder / "user_settings.py")]
    pipe = subprocess.PIPE
    # As at a terminal. What a shell starts in the background ignores the signal.
    default = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, preexec_fn=default) as running:
        assert running.stdin is not None and running.stdout is not None
        # It answers when the start is over. Another thread may print at the same time that the gateway is on.
        running.stdin.write("show\n")
        running.stdin.flush()
        told = ""
        while "the gateway is the process" not in told:
            assert (line := running.stdout.readline()), told
            told += line
        running.send_signal(signal.SIGINT)
        output, log = running.communicate(timeout=TIMEOUT_S)
    assert "stopping" in output and output.endswith("\npublished 0 of 0\n"), output
    assert running.returncode == 0 and "Traceback" not in log, log


SLOW = """
import sys, time

class Slow:
    \"\"\"A terminal that takes its time for each piece.\"\"\"

    def write(self, text):
        sys.__stdout__.write(text)
        time.sleep(0.02)

    flush = sys.__stdout__.flush

sys.stdout = Slow()
"""


def test_the_adapter_prints_whole_lines_from_both_of_its_threads(folder, adapter):
    command = [sys.executable, "-c", SLOW + adapter.replace("12358", "0"), str(folder / "user_settings.py")]
    given = {"input": "off\nshow\non\nshow\n" * 3, "stdout": subprocess.PIPE, "text": True}
    told = subprocess.run(command, check=True, timeout=TIMEOUT_S, **given).stdout
    beginnings = "the check box is|the REST interface is|browsers and|post to|the gateway is the|that failed:|published"
    assert told.count("the REST interface is") > 1
    assert [len(re.findall(beginnings, line)) for line in told.splitlines()] == [1] * told.count("\n"), told


def test_asyncio(folder):
    assert run(AIO, folder) == ""
