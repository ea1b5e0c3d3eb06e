"""The gateway for tests, and the fixture of pytest, with the real program."""

from __future__ import annotations

import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest
from conftest import TIMEOUT_S

import adapter_gateway
from adapter_gateway import GatewayDisabledError, GatewayTimeoutError, RefusedError, testing

REPOSITORY = pathlib.Path(__file__).parents[2]
HELLO = ("adapter/extensions/data", {"extension_id": "demo", "content": "hello"})


@pytest.fixture
def gateway():
    with testing.gateway() as gateway:
        yield gateway


def test_all_that_it_gives(gateway):
    gateway.client.send(*HELLO)
    assert next(gateway.messages()) == HELLO
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/api/message", gateway.url)
    for side in (gateway.hub_publishers, gateway.hub_subscribers):
        assert re.fullmatch(r"tcp://127\.0\.0\.1:\d+", side)
    assert gateway.token in gateway.settings.read_text() and gateway.settings.stat().st_mode & 0o777 == 0o600
    assert gateway.certificate is None
    assert sorted(event["event"] for event in gateway.events) == ["bus", "bus", "listening", "ready"]
    assert any(line.startswith("info: publishers may connect to ") for line in gateway.log)
    assert gateway.launcher.stats()["accepted"] == 1


def test_each_iterator_has_all_messages_since_the_beginning(gateway):
    for number in range(3):
        gateway.client.send("a", {"n": number})
        gateway.client.send("b", {"n": number})
    everything = gateway.messages(timeout_s=TIMEOUT_S)
    found = [next(everything) for _ in range(6)]
    assert found == [(topic, {"n": n}) for n in range(3) for topic in "ab"]
    some = gateway.messages("b", TIMEOUT_S)
    assert [next(some)[1]["n"] for _ in range(3)] == [0, 1, 2]
    with pytest.raises(GatewayTimeoutError, match="a message whose topic begins with 'c' did not come within 0 s"):
        next(gateway.messages("c", timeout_s=0))


def test_a_message_that_does_not_come_is_an_error(gateway):
    gateway.client.send("b", {})
    next(gateway.messages())
    late = "a message whose topic begins with 'a' did not come within 0.1 s: messages with other topics: 1\n"
    with pytest.raises(GatewayTimeoutError, match=late) as error:
        next(gateway.messages("a", timeout_s=0.1))
    assert isinstance(error.value, TimeoutError) and error.value.log


def test_an_iterator_goes_on_behind_a_message_that_came_late(gateway):
    messages = gateway.messages("a", timeout_s=0)
    for number in range(3):
        with pytest.raises(GatewayTimeoutError, match="whose topic begins with 'a'"):
            next(messages)
        gateway.client.send("b", {})
        gateway.client.send("a", {"n": number})
        everything = gateway.messages(timeout_s=TIMEOUT_S)
        for _ in range(2 * (number + 1)):
            next(everything)
        assert next(messages) == ("a", {"n": number})
    with pytest.raises(GatewayTimeoutError, match="messages with other topics: 3"):
        next(iter(messages))


def test_topics_and_payloads_are_as_they_were_sent(gateway):
    sent = [("back\\slash\\u{41}", {"a": "\n\t\\"}), ("\u202e\u2028é😀\U000e0041", {"é": [1.5, None, True]})]
    for message in sent:
        gateway.client.send(*message)
    messages = gateway.messages(timeout_s=TIMEOUT_S)
    assert [next(messages), next(messages)] == sent


def test_subscribers_of_the_test(gateway):
    listen = [adapter_gateway.find_binary(), "listen", "--connect", gateway.hub_subscribers, "--count", "1"]
    topics = ["--topic", "adapter/", "--topic", "scratch/"]
    with subprocess.Popen([*listen, *topics], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        gateway.wait_for_subscriptions(2, TIMEOUT_S)
        gateway.client.send(*HELLO)
        assert process.communicate(timeout=TIMEOUT_S)[0].startswith(b"adapter/extensions/data\t{")
    with pytest.raises(GatewayTimeoutError, match="9 subscriptions did not come within 0 s"):
        gateway.wait_for_subscriptions(9, 0)


@pytest.mark.parametrize("encoding", ["json", "msgpack"])
def test_options(encoding):
    with testing.gateway(
        encoding=encoding, check="strict", plain=False, hub_subscribers="tcp://127.0.0.1:*"
    ) as gateway:
        assert gateway.url.startswith("https:") and gateway.certificate is not None
        gateway.client.send(*HELLO)
        assert next(gateway.messages(timeout_s=TIMEOUT_S)) == HELLO
        with pytest.raises(RefusedError):
            gateway.client.send("adapter/extension/data", HELLO[1])


def test_settings_of_the_test(settings):
    with testing.gateway(settings=settings) as gateway:
        assert gateway.token == "t0ken"
        settings.write_text("OPEN_REST_API = True\nTOKEN = 'other'\n")
        assert gateway.launcher.reload()["state"] == "reloaded"
        gateway.client.send(*HELLO)
    settings.write_text("")
    with pytest.raises(GatewayDisabledError), testing.gateway(settings=settings):
        pass


@pytest.mark.parametrize("token", ["visible/&=%", "with a space", "é"])
def test_the_client_sends_every_token(settings, token):
    settings.write_text(f"OPEN_REST_API = True\nTOKEN = {token!r}\n")
    with testing.gateway(settings=settings) as gateway:
        gateway.client.send(*HELLO)
        assert gateway.launcher.stats()["answers"] == {"200": 1}


def test_a_program_without_a_path_is_tested_too(monkeypatch):
    monkeypatch.setenv("ADAPTER_GATEWAY", str(adapter_gateway.find_binary()))
    monkeypatch.setenv("PATH", "")
    with testing.gateway() as gateway:
        gateway.client.send(*HELLO)
        assert next(gateway.messages(timeout_s=TIMEOUT_S)) == HELLO


def test_wrong_options():
    with pytest.raises(TypeError, match="encodign"), testing.gateway(encodign="json"):
        pass


def test_an_end_does_not_wait_for_silence():
    with testing.gateway() as gateway:
        gateway.client.send(*HELLO)
        assert next(gateway.messages(timeout_s=TIMEOUT_S)) == HELLO
    assert (gateway.launcher.status, gateway.launcher.stop()["accepted"]) == (0, 1)
    assert not gateway.settings.parent.exists()
    assert "--drain-timeout=0.001" in gateway.launcher._command()


def test_nothing_outlives_the_tests():
    """Whatever ends the interpreter, the gateway and the subscriber end with it."""
    script = "from adapter_gateway import testing, find_binary\nwith testing.gateway() as g:\n print(g.settings.parent, flush=True); input()"
    environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(adapter_gateway.__file__).parents[1])}
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True) as tests:
        assert tests.stdout is not None
        folder = tests.stdout.readline().strip()
        try:
            found = descendants(tests.pid)
            assert {"serve", "listen"} <= {word for _, words in found for word in words}, found
        finally:
            tests.send_signal(signal.SIGKILL)
        tests.wait()
    end = time.monotonic() + TIMEOUT_S
    while any(command_line(pid) == words for pid, words in found):
        assert time.monotonic() < end, found
        time.sleep(0.01)
    # A process that was killed leaves its files.
    for file in pathlib.Path(folder).iterdir():
        file.unlink()
    os.rmdir(folder)


def descendants(parent: int) -> list[tuple[int, list[str]]]:
    children = []
    for task in pathlib.Path(f"/proc/{parent}/task").iterdir():
        children += map(int, (task / "children").read_text().split())
    return [(pid, command_line(pid)) for pid in children] + [one for pid in children for one in descendants(pid)]


def command_line(pid: int) -> list[str]:
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return []
