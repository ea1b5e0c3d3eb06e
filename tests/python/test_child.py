"""The launcher is right about its child, whatever this process does with signals, directories, threads and its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import Any
from unittest.mock import Mock

import pytest
from conftest import TIMEOUT_S
from test_both_launchers import AsyncGateway, both, wait_for
from test_launcher import wait_for_end

import adapter_gateway
from adapter_gateway import Gateway, GatewayEndedError, GatewayError

HEAD = """
import os, signal, socket, sys, threading, time
from adapter_gateway import Gateway, GatewayError

listener = socket.create_server(("127.0.0.1", 0))
options = dict(settings={settings!r}, listen=listener, bind={bind!r}, plain=True, start_timeout=60)
"""


def run(script: str, options: dict[str, Any]) -> str:
    """Runs a script that launches a gateway in a process of its own, and returns what it prints."""
    head = HEAD.format(settings=str(options["settings"]), bind=options["bind"])
    command = [sys.executable, "-c", head + script]
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True, timeout=TIMEOUT_S).stdout


# The end of the interpreter.

LEFT = """
def serve():
    gateway = Gateway(until="listening", **options)
    try:
        with gateway:
            yield gateway
    finally:
        os.write(1, f"{gateway.stop()['event']} {gateway.status}".encode())

generator = serve()
gateway = next(generator)
"""

FROZEN = """
del gateway._options["bind"]
gateway._options["connect"] = "ipc:///nonexistent/hub"
gateway._until = "ready"
# It never becomes ready, and this thread is frozen while it waits for that.
threading.Thread(target=gateway.replace, daemon=True).start()
while gateway._starting is None:
    time.sleep(0.01)
"""


@pytest.mark.parametrize("frozen", ["", FROZEN], ids=["alone", "frozen"])
def test_a_generator_ends_with_the_interpreter(options, frozen):
    assert run(LEFT + frozen, options) == "stopped 0"


SENDING = """
from adapter_gateway import Client

def send(client):
    try:
        yield
    finally:
        client.send("t", {{}})
        outcomes = list(client.send_many([("t", {{}})] * 100))
        os.write(1, b"%d" % sum(map(bool, outcomes)))

generator = send(Client({url!r}, "t0ken"))
next(generator)
"""


def test_messages_are_sent_at_the_end_of_the_interpreter(options):
    """No thread begins then: neither for the look-up of a name, nor beside the iterable."""
    with Gateway(**options) as gateway:
        assert run(SENDING.format(url=gateway.url.replace("127.0.0.1", "localhost")), options) == "100"
        assert gateway.stats()["accepted"] == 101


def test_a_signal_handler_may_stop_a_start(options, tmp_path):
    del options["bind"]
    gateway = Gateway(connect=f"ipc://{tmp_path}/nobody", **options)
    before = signal.signal(signal.SIGALRM, lambda *_: gateway.stop())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(GatewayError, match="asked to stop"):
            gateway.start()
    finally:
        signal.signal(signal.SIGALRM, before)
    wait_for(lambda: not any("gateway" in thread.name for thread in threading.enumerate()))


def test_a_launcher_that_is_not_stopped_does_not_hold_up_the_interpreter(options):
    assert run("gateway = Gateway(**options)\ngateway.start()\nprint(gateway.is_ready)", options) == "True\n"


CLOSED = """
gateway = Gateway(**options)
gateway.start()
os.closerange(3, 1000)
try:
    gateway.stop()
except GatewayError as error:
    print(gateway.status, gateway.is_ready, "it could not be followed" in str(error))
try:
    print(os.waitpid(gateway.pid, 0))
except ChildProcessError:
    print("reaped")
"""


def test_a_process_that_closes_all_descriptors_is_told(options):
    """Some that become a daemon do so. It closes what tells the gateway to go on."""
    assert run(CLOSED, options) == "0 False True\nreaped\n"


# Who reaps the child.

IGNORED = "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
REAPED = """
def reap(*_):
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass

signal.signal(signal.SIGCHLD, reap)
"""
WITHOUT_PIDFD = "del os.pidfd_open\n"

KILLED = """
def kill():
    os.kill(gateway.pid, signal.SIGKILL)
    while gateway.status is None:
        time.sleep(0.01)

try:
    with Gateway(**options) as gateway:
        kill()
except GatewayError as error:
    print(type(error).__name__, gateway.status == error.status != 0)

with Gateway(restart=True, **options) as gateway:
    pid = gateway.pid
    kill()
    while gateway.pid == pid:
        time.sleep(0.01)
    gateway.wait_until("ready", 60)
print(gateway.status, gateway.stop()["event"])

options["listen"] = "nowhere.invalid:0"
try:
    Gateway(**options).start()
except GatewayError as error:
    print(error.status, "nowhere" in str(error))
"""


@pytest.mark.parametrize("pidfd", ["", WITHOUT_PIDFD], ids=["pidfd", "without"])
@pytest.mark.parametrize("reaps", ["", IGNORED, REAPED], ids=["usual", "ignored", "reaped"])
def test_a_child_that_others_reap(options, reaps, pidfd):
    told = run(reaps + pidfd + KILLED, options)
    assert told == "GatewayEndedError True\n0 stopped\n4 True\n"


def test_a_status_that_nobody_knows_is_not_invented(options):
    script = "try:\n    with Gateway(**options) as gateway:\n        os.kill(gateway.pid, signal.SIGKILL)\n"
    script += "except GatewayError as error:\n    print(error)\nprint(gateway.status)"
    told = run(IGNORED + script, options)
    assert (
        told.splitlines()[0]
        == "the gateway ended, and its exit status is not known: SIGCHLD is ignored, or others read it"
    )
    assert told.splitlines()[-1] == "255"


def test_a_child_that_cannot_be_waited_for_has_ended(options, monkeypatch):
    monkeypatch.setattr(os, "waitpid", Mock(side_effect=MemoryError("no more")))
    gateway = Gateway(**options)
    gateway.start()
    os.kill(gateway.pid, signal.SIGKILL)
    wait_for(lambda: gateway.status is not None)
    assert gateway.status == 255
    with pytest.raises(GatewayEndedError, match="it could not be followed: .*no more"):
        gateway.stop()
    wait_for(lambda: not any("gateway" in thread.name for thread in threading.enumerate()))


@both
def test_a_child_that_is_outlived_by_its_own_children_has_ended(kind, options, fake):
    fake("sleep 1000 &", "echo $! >&2")
    with kind(**options) as gateway:
        pass
    assert gateway.stop() == {"event": "stopped"}
    process = getattr(gateway, "_gateway", gateway)._process
    os.kill(int(process.log[0]), signal.SIGKILL)


def test_a_thread_that_cannot_be_started_leaves_no_child(options, monkeypatch):
    pids = []
    start, popen = threading.Thread.start, subprocess.Popen

    def refused(thread: threading.Thread) -> None:
        if pids:
            raise RuntimeError("can't start new thread")
        start(thread)

    def made(*arguments: Any, **given: Any) -> Any:
        process = popen(*arguments, **given)
        pids.append(process.pid)
        return process

    monkeypatch.setattr(threading.Thread, "start", refused)
    monkeypatch.setattr(subprocess, "Popen", made)
    with pytest.raises(GatewayError, match="can't start new thread"):
        Gateway(**options).start()
    wait_for_end(pids[0])
    with pytest.raises(GatewayError, match="can't start new thread"):
        asyncio.run(adapter_gateway.aio.Gateway(**options).start())


def test_a_start_without_a_thread_can_be_repeated(options, monkeypatch):
    seen: list[str] = []
    gateway = Gateway(on_event=lambda event: seen.append(event["event"]), **options)
    with monkeypatch.context() as patched, pytest.raises(GatewayError, match="no thread"):
        patched.setattr(threading.Thread, "start", Mock(side_effect=RuntimeError("no thread")))
        patched.setattr("adapter_gateway.process.DELIVERY_TIMEOUT_S", TIMEOUT_S)
        gateway.start()
    with gateway:
        assert seen == ["bus", "listening", "ready"]


@both
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "for another processor, or damaged"),
        (b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\0\x08\0\x01" + bytes(43), "for another processor, or damaged"),
        (b"#!/nonexistent/loader\n", "without its loader or interpreter"),
        (b"\0" * 100, "for another processor, or damaged"),
    ],
    ids=["empty", "processor", "loader", "zeros"],
)
def test_a_program_that_the_system_does_not_run(kind, options, tmp_path, monkeypatch, content, reason):
    program = tmp_path / "program"
    program.write_bytes(content)
    program.chmod(0o755)
    monkeypatch.setenv("ADAPTER_GATEWAY", str(program))
    with pytest.raises(GatewayError, match=f"the program cannot be run: .*{program}.* .it is {reason}"):
        kind(**options).start()
    with pytest.raises(GatewayError, match=reason):
        adapter_gateway.enable(options["settings"])
    wait_for(lambda: not any("gateway" in thread.name for thread in threading.enumerate()))


class Lost(BaseException):
    """What ends a thread from outside, as GreenletExit does."""


@both
@pytest.mark.parametrize("error", [MemoryError, Lost])
def test_what_ends_the_reading_thread_reaches_who_waits(kind, options, monkeypatch, error):
    seen: list[str] = []
    options["settings"].write_text("")
    gateway = kind(on_event=lambda event: seen.append(event["event"]), until="started", **options)
    gateway.start()
    monkeypatch.setattr("adapter_gateway.process.wait_for", Mock(side_effect=error("no more")))
    # The next event ends the wait that has begun, unless the log has done so already.
    threading.Timer(0.1, lambda: gateway.status is None and os.kill(gateway.pid, signal.SIGHUP)).start()
    with pytest.raises(GatewayEndedError, match="it could not be followed: .*no more"):
        gateway.wait_until("ready", None)
    assert gateway.stop()["event"] == "stopped" and gateway.status == 0
    assert seen[-2:] == ["not-ready", "ended"]


# Questions.

ANSWERING = """#!{python}
import itertools, json, signal, sys, time

numbers = itertools.count()

def say(**event):
    print(json.dumps(event), flush=True)

def answer(*_):
    time.sleep({pause_s})
    say(event="stats", n=next(numbers))

signal.signal(signal.SIGUSR2, answer)
say(event="ready")
for _ in range({unasked}):
    say(event="stats", n="unasked")
say(event="told")
while sys.stdin.read(1):
    pass
say(event="stopped")
"""


@pytest.fixture
def answering(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that makes a script the program, which numbers its answers, and tells counters unasked before."""

    def answering(unasked: int = 0, pause_s: float = 0.0) -> None:
        script = tmp_path / "gateway"
        script.write_text(ANSWERING.format(python=sys.executable, unasked=unasked, pause_s=pause_s))
        script.chmod(0o755)
        monkeypatch.setenv("ADAPTER_GATEWAY", str(script))

    return answering


def test_an_answer_is_that_to_the_own_question(options, answering):
    answering(unasked=3)
    with Gateway(on_event=lambda _: time.sleep(0.1), **options) as gateway:
        # By now, what was told unasked has been written. The function has not had it yet.
        time.sleep(0.05)
        assert [gateway.stats()["n"] for _ in range(2)] == [0, 1]


@both
def test_a_question_is_not_answered_by_the_answer_to_another_one(kind, options, answering):
    answering(pause_s=0.2)
    answers = {}
    with kind(**options) as gateway:

        def ask(name: str) -> None:
            answers[name] = gateway.stats()["n"]

        first = threading.Thread(target=ask, args=("first",))
        first.start()
        time.sleep(0.1)
        ask("second")
        first.join(TIMEOUT_S)
    assert answers == {"first": 0, "second": 1}


# Places.


@both
def test_a_relative_path_means_the_same_file_for_ever(kind, options, settings, listener, tmp_path, monkeypatch):
    monkeypatch.setattr("adapter_gateway.gateway._FIRST_PAUSE_S", 0.01)
    monkeypatch.chdir(tmp_path)
    options["connect"] = f"ipc://{tmp_path}/hub"
    del options["bind"]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / settings.name).write_text("OPEN_REST_API = False\n")
    options.update(settings=settings.name, plain=False, cert_dir="certificates", listen=listener)
    with kind(restart=True, until="listening", **options) as gateway:
        monkeypatch.chdir(elsewhere)
        assert gateway.certificate == tmp_path / "certificates" / "gateway-cert.pem"
        client = gateway.client()
        assert client._pool.endpoint.token_name == f"TOKEN in {settings}"
        gateway.replace()
        assert gateway.listeners and gateway.certificate.exists()
        pid = gateway.pid
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: gateway.pid != pid)
        gateway.wait_until("listening", TIMEOUT_S)


@both
@pytest.mark.parametrize("wildcard", ["0.0.0.0", "::"])
@pytest.mark.parametrize("is_inherited", [False, True])
def test_a_wildcard_address_has_a_url_and_a_client(kind, options, wildcard, is_inherited, post):
    is_ipv6 = wildcard == "::"
    options.update(listen="[::]:0" if is_ipv6 else "0.0.0.0:0", plain=False)
    with contextlib.ExitStack() as stack:
        if is_inherited:
            family = socket.AF_INET6 if is_ipv6 else socket.AF_INET
            options["listen"] = stack.enter_context(socket.create_server((wildcard, 0), family=family))
        gateway = stack.enter_context(kind(**options))
        host = "[::1]" if is_ipv6 else "127.0.0.1"
        assert gateway.url.startswith(f"https://{host}:")
        assert post(gateway.url, gateway.certificate) == 200
        client = gateway.client(timeout_s=TIMEOUT_S)
        sent = client.send("t", {})
        if kind is AsyncGateway:
            gateway._await(sent)
        assert gateway.stats()["accepted"] == 2


# Forks.


def test_a_fork_is_told_that_it_cannot_wait(options):
    def is_told(work: Any) -> bool:
        try:
            work()
        except GatewayError as error:
            return "belongs" in str(error)
        return False

    with Gateway(**options) as gateway:
        child = os.fork()
        if child == 0:
            works = [gateway.stats, gateway.reload, gateway.replace, lambda: gateway.wait_until("ready", None)]
            os._exit(0 if all(map(is_told, [*works, gateway.stop])) and gateway.url else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert gateway.stats()["accepted"] == 0


BEHIND = """
gateway = Gateway(**options)
if os.fork():
    os._exit(os.WEXITSTATUS(os.wait()[1]))
with gateway:
    print(gateway.stats()["accepted"], flush=True)
    child = os.fork()
    if child == 0:
        try:
            gateway.start()
        except GatewayError as error:
            os._exit("belongs" in str(error))
    print(os.WEXITSTATUS(os.waitpid(child, 0)[1]), flush=True)
print(gateway.status, flush=True)
"""


def test_the_owner_is_who_starts(options):
    """Daemons and servers fork between what makes the gateway and what starts it."""
    assert run(BEHIND, options) == "0\n1\n0\n"


@both
def test_a_killed_child_leaves_no_descriptor(kind, options):
    """With restarts, they would add up."""

    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    gateway = kind(**options)
    before = descriptors()
    with pytest.raises(GatewayEndedError), gateway:
        os.kill(gateway.pid, signal.SIGKILL)
        wait_for(lambda: descriptors() <= before)


def test_a_killed_child_ends_a_question(options):
    with pytest.raises(GatewayEndedError), Gateway(**options) as gateway:
        os.kill(gateway.pid, signal.SIGSTOP)
        threading.Timer(0.2, os.kill, (gateway.pid, signal.SIGKILL)).start()
        with pytest.raises(GatewayEndedError, match="signal 9"):
            gateway.stats()
