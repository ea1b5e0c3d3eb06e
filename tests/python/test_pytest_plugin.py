"""The plugin of pytest: a pytest of its own finds it by its entry point, as after an installation."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest

import adapter_gateway

REPOSITORY = pathlib.Path(__file__).parents[2]


@pytest.fixture
def run(tmp_path):
    """A function that runs pytest with these tests, and returns what it prints."""
    section = re.search(r"\[project.entry-points.(pytest11)\]\n(.+)\n", (REPOSITORY / "pyproject.toml").read_text())
    assert section is not None
    information = tmp_path / "site" / "adapter_gateway-0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: adapter-gateway\nVersion: 0\n")
    (information / "entry_points.txt").write_text(f"[{section[1]}]\n{section[2].replace(chr(34), '')}\n")

    def run(tests: str, *options: str) -> str:
        (tmp_path / "test_own.py").write_text(tests)
        packages = pathlib.Path(adapter_gateway.__file__).parents[1]
        environment = {**os.environ, "PYTHONPATH": f"{tmp_path / 'site'}{os.pathsep}{packages}"}
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "--strict-markers",
            *options,
            "test_own.py",
        ]
        return subprocess.run(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True).stdout

    return run


def test_a_test_needs_no_import(run):
    printed = run(
        """\
def test_hello(gateway):
    gateway.client.send("adapter/extensions/data", {"extension_id": "demo", "content": "hello"})
    topic, payload = next(gateway.messages("adapter/"))
    assert payload["content"] == "hello"
"""
    )
    assert "1 passed" in printed


def test_options_of_a_marker(run):
    printed = run(
        """\
import pytest
pytestmark = pytest.mark.gateway(check="strict")

@pytest.mark.gateway(encoding="msgpack")
def test_both(gateway):
    assert {"--check=strict", "--encoding=msgpack"} <= set(gateway.launcher._command())

def test_one(gateway):
    assert "--encoding=msgpack" not in gateway.launcher._command()
"""
    )
    assert "2 passed" in printed


def test_the_fixture_of_the_page_shares_a_gateway(run):
    page = (REPOSITORY / "docs" / "ci.md").read_text()
    fixture = page.split('```python\n@pytest.fixture(scope="session")\n')[1].split("```")[0]
    printed = run(
        f"""\
import adapter_gateway.testing, pytest
pids = set()

@pytest.fixture(scope="session")
{fixture}

@pytest.mark.parametrize("number", range(3))
def test_shared(shared, number):
    pids.add(shared.launcher.pid)
    assert len(pids) == 1
    shared.client.send(f"a/{{number}}", {{"n": number}})
    assert next(shared.messages(f"a/{{number}}")) == (f"a/{{number}}", {{"n": number}})

def test_of_its_own(gateway):
    assert gateway.launcher.pid not in pids
"""
    )
    assert "4 passed" in printed, printed


def test_a_failure_shows_events_and_log(run):
    printed = run(
        """\
import pytest
import time

def send(gateway, topic):
    gateway.client.send(topic, {})
    while not any(topic in line for line in gateway.log):
        time.sleep(0.01)

def test_fails(gateway):
    send(gateway, "of/nobody")
    gateway.launcher.reload()
    assert not list(gateway.log)

@pytest.fixture
def fixture(gateway):
    send(gateway, "of/a/fixture")
    raise ValueError

def test_with_a_fixture_that_fails(fixture):
    pass

@pytest.fixture
def own():
    import adapter_gateway.testing
    with adapter_gateway.testing.gateway(check="strict") as own:
        yield own

def test_with_a_gateway_of_its_own(own):
    own.client.send("strange", {})

def test_passes(gateway):
    gateway.client.send("of/a/test/that/passes", {})
"""
    )
    assert "1 passed, 1 error" in printed or "2 failed, 1 passed, 1 error" in printed
    # The test that passes is not in the report.
    for failed, topic in (
        ("test_fails", "of/nobody"),
        ("test_with_a_fixture_that_fails", "of/a/fixture"),
        ("test_with_a_gateway_of_its_own", "strange"),
    ):
        report = re.split(f" {failed} _+\n", printed)[1].split("\n____")[0]
        assert '"event": "ready"' in report and " listening on http://" in report, report
        assert topic in report, report
    assert '{"event": "settings", "state": "unchanged"}' in printed
    assert 'the topic "of/nobody" is not known' in printed and "that/passes" not in printed


def test_a_gateway_that_dies_is_an_error(run):
    printed = run(
        """\
import os, signal
def test_kills(gateway):
    os.kill(gateway.launcher.pid, signal.SIGKILL)
"""
    )
    assert "1 passed, 1 error" in printed and "GatewayEndedError: the gateway was ended by signal 9" in printed


def test_pytest_is_no_dependency():
    script = "import sys; from adapter_gateway import testing; sys.exit('pytest' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(adapter_gateway.__file__).parents[1])}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)
