"""The launcher starts, watches and stops the real program."""

from __future__ import annotations

import os
import pathlib
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import Any

import pytest
from conftest import ENABLED, TIMEOUT_S

from adapter_gateway import (
    BinaryNotFoundError,
    Gateway,
    GatewayDisabledError,
    GatewayEndedError,
    GatewayError,
    GatewayOptions,
    GatewayTimeoutError,
)
from adapter_gateway.command import arguments


def test_a_block_serves_from_its_beginning_to_its_end(options, post):
    with Gateway(**options) as gateway:
        assert gateway.is_ready and gateway.status is None
        assert post(gateway.url) == 200
        assert gateway.certificate is None and gateway.socket is None
        url = gateway.url
        assert gateway.listeners == [
            {"event": "listening", "url": url, "pid": gateway.pid, "io": gateway.listeners[0]["io"]}
        ]
    stopped = gateway.stop()
    assert (gateway.status, stopped["accepted"], stopped["published"]) == (0, 1, 1)
    assert not gateway.is_ready
    with pytest.raises(OSError):
        post(url)


def test_clients_trust_the_certificate(options, post):
    with Gateway(**{**options, "plain": False}) as gateway:
        assert gateway.url.startswith("https://")
        assert post(gateway.url, gateway.certificate) == 200


def test_the_certificate_is_where_the_options_say(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert Gateway().certificate == tmp_path / "adapter" / "gateway-cert.pem"
    monkeypatch.setenv("XDG_CONFIG_HOME", "not-absolute")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Gateway().certificate == tmp_path / ".config" / "adapter" / "gateway-cert.pem"
    assert Gateway(settings="a/b.py").certificate == pathlib.Path.cwd() / "a" / "gateway-cert.pem"
    assert Gateway(cert_dir="c").certificate == pathlib.Path.cwd() / "c" / "gateway-cert.pem"
    assert Gateway(tls_cert="own.pem", tls_key="key.pem").certificate is None


def test_a_relative_socket_is_where_the_gateway_was_made(options, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    gateway = Gateway(**{**options, "listen": "unix:socket"})
    monkeypatch.chdir("/")
    with gateway, gateway.client() as client:
        client.send("t", {})
        assert gateway.socket == str(tmp_path / "socket")
    assert list(Gateway(listen=["unix:@name", "127.0.0.1:0"])._options["listen"]) == ["unix:@name", "127.0.0.1:0"]


def test_with_a_hub_the_bus_is_connected_first(options, post):
    events: list[dict[str, Any]] = []
    del options["bind"]
    hub = {"hub": True, "hub_publishers": "tcp://127.0.0.1:*", "hub_subscribers": "tcp://127.0.0.1:*"}
    with Gateway(on_event=events.append, **hub, **options) as gateway:
        assert gateway.is_ready
        assert {"listening", "ready"} <= {event["event"] for event in events}
        assert post(gateway.url) == 200
    assert events[-1]["event"] == "stopped"


def test_a_hub_that_is_missing_is_named(options, tmp_path):
    del options["bind"]
    missing = f"ipc://{tmp_path}/nobody"
    with pytest.raises(GatewayTimeoutError, match=f"no hub at {missing}: .+`hub=True`") as late:
        Gateway(connect=missing, **{**options, "start_timeout": 2}).start()
    assert isinstance(late.value, TimeoutError)
    assert any("listening on" in line for line in late.value.log)
    # Who brings the hub up later waits for less.
    with Gateway(connect=missing, until="listening", **options) as gateway:
        assert not gateway.is_ready and gateway.url


def test_a_start_that_fails_says_why(options):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        options["listen"] = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(GatewayEndedError, match="cannot listen on") as failed:
            Gateway(**options).start()
    assert failed.value.status == 4
    assert failed.value.reason is not None and "cannot listen on" in failed.value.reason
    assert failed.value.log


def test_wrong_options_are_told_by_the_program(options):
    with pytest.raises(TypeError, match="pain"):
        Gateway(pain=True)
    with pytest.raises(GatewayEndedError, match="--workers") as failed:
        Gateway(workers=-1, **options).start()
    assert failed.value.status == 2 and failed.value.reason is None
    with pytest.raises(GatewayEndedError, match="--drain-timeout.* 0.001 to 86400"):
        Gateway(drain_timeout="-2", **options).start()
    assert Gateway(drain_timeout="2")._stop_timeout_s == Gateway(drain_timeout=2)._stop_timeout_s


def test_options_become_words():
    options: GatewayOptions = {
        "settings": pathlib.Path("a b/c.py"),
        "listen": ["127.0.0.1:0", "unix:/tmp/x"],
        "plain": True,
        "hub": False,
        "connect": "tcp://h:1",
        "workers": 2,
        "head_timeout": 0.5,
        "encoding": None,
    }
    assert arguments(options) == [
        "--settings=a b/c.py",
        "--listen=127.0.0.1:0",
        "--listen=unix:/tmp/x",
        "--plain",
        "--connect=tcp://h:1",
        "--workers=2",
        "--head-timeout=0.5",
    ]


def test_a_program_that_is_missing_is_an_error(options, monkeypatch, tmp_path):
    monkeypatch.setenv("ADAPTER_GATEWAY", str(tmp_path / "missing"))
    with pytest.raises(BinaryNotFoundError, match="ADAPTER_GATEWAY"):
        Gateway(**options).start()


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [("connect", "ipc:///\0", "the program cannot be run: .*null"), ("listen", None, "a socket of `listen` is closed")],
)
def test_an_option_that_no_program_can_be_given_is_an_error(options, listener, name, value, reason):
    listener.close()
    with pytest.raises(GatewayError, match=reason):
        Gateway(**{**options, name: value or listener}).start()


def test_settings_that_do_not_switch_it_on(options, settings):
    settings.write_text("")
    with pytest.raises(GatewayDisabledError, match="OPEN_REST_API") as disabled:
        Gateway(**options).start()
    assert str(settings) in (disabled.value.reason or "")
    with Gateway(until="started", **options) as gateway:
        assert gateway.listeners == []
        with pytest.raises(GatewayDisabledError):
            gateway.url  # noqa: B018
        settings.write_text(ENABLED)
        assert gateway.reload()["state"] == "reloaded"
        gateway.wait_until("ready", TIMEOUT_S)
        assert gateway.url


def test_counters(options, post):
    with Gateway(**options) as gateway:
        assert gateway.stats()["accepted"] == 0
        post(gateway.url)
        assert gateway.stats()["accepted"] == 1
        assert post(gateway.url, token="wrong") == 401
        assert gateway.stats()["answers"] == {"200": 1, "401": 1}


def test_reload(options, settings, post):
    with Gateway(**options) as gateway:
        settings.write_text("OPEN_REST_API = True\nTOKEN = 'other'\n")
        assert gateway.reload()["state"] == "reloaded"
        assert (post(gateway.url), post(gateway.url, token="other")) == (401, 200)
        settings.write_text("OPEN_REST_API = (")
        rejected = gateway.reload()
        assert rejected["state"] == "rejected" and str(settings) in rejected["reason"]


def test_events_in_a_queue(options):
    events: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    with Gateway(on_event=events.put, **options) as gateway:
        gateway.stats()
    names = [events.get_nowait()["event"] for _ in range(events.qsize())]
    assert names == ["bus", "listening", "ready", "stats", "not-ready", "stopped"]


def test_a_function_that_fails_or_waits_holds_nothing_up(options, caplog):
    errors: list[str] = []

    def on_event(event: dict[str, Any]) -> None:
        if event["event"] == "stats":
            try:
                gateway.stats()
            except GatewayError as error:
                errors.append(str(error))
        raise ValueError(event["event"])

    with Gateway(on_event=on_event, **options) as gateway:
        gateway.stats()
    assert errors == ["a function that takes events cannot wait for the gateway; wait in another thread"]
    assert "ValueError: stopped" in caplog.text


def test_the_log_goes_to_the_logger(options, caplog):
    caplog.set_level("INFO", "adapter_gateway")
    with Gateway(**options) as gateway:
        url = gateway.url
    assert f"listening on {url}" in caplog.text


def test_a_crash_is_told(options):
    with pytest.raises(GatewayEndedError, match="signal 9") as crash, Gateway(**options) as gateway:
        os.kill(gateway.pid, signal.SIGKILL)
        with pytest.raises(GatewayEndedError, match="signal 9"):
            gateway.stats()
    assert crash.value.status == -signal.SIGKILL == gateway.status
    # An error of the block is not hidden.
    with pytest.raises(KeyError), Gateway(**options) as gateway:
        os.kill(gateway.pid, signal.SIGKILL)
        raise KeyError


def test_a_gateway_that_does_not_stop_is_killed(options, monkeypatch):
    monkeypatch.setattr("adapter_gateway.gateway._STOP_MARGIN_S", 0.1)
    gateway = Gateway(drain_timeout=0.1, **options)
    gateway.start()
    os.kill(gateway.pid, signal.SIGSTOP)
    with pytest.raises(GatewayEndedError, match="was killed") as killed:
        gateway.stop()
    assert killed.value.status == -signal.SIGKILL


def test_a_service_manager_may_ask_too(options, post):
    """It sends SIGTERM to every process. The gateway must not take the launcher's stop for a second request."""
    with Gateway(**options) as gateway:
        post(gateway.url)
        os.kill(gateway.pid, signal.SIGTERM)
    assert gateway.stop()["published"] == 1


def test_it_is_started_once(options):
    gateway = Gateway(**options)
    for use in (gateway.stop, gateway.stats, lambda: gateway.pid, lambda: gateway.url):
        with pytest.raises(GatewayError, match="not started"):
            use()
    with gateway, pytest.raises(GatewayError, match="before"):
        gateway.start()


PARENT = """
{first}
import os, sys, time
from adapter_gateway import Gateway

gateway = Gateway(settings={settings!r}, listen="127.0.0.1:0", bind={bind!r}, plain=True, start_timeout=60)
gateway.start()
{before}
print(gateway.pid, flush=True)
{after}
"""

FORK = """
child = os.fork()
if child == 0:
    time.sleep(100)
"""


def parent(options: dict[str, Any], before: str, after: str, first: str = "") -> subprocess.Popen[str]:
    """Starts another process, which starts a gateway and prints its process id."""
    settings, bind = str(options["settings"]), options["bind"]
    script = PARENT.format(settings=settings, bind=bind, before=before, after=after, first=first)
    return subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)


def wait_for_end(pid: int) -> None:
    """Waits until the process has ended. It may still have to be reaped."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return
        if state == "Z":
            return
        assert time.monotonic() < deadline, f"process {pid} lives on"
        time.sleep(0.01)


@pytest.mark.parametrize(
    "after",
    ["time.sleep(100)", "os._exit(1)", "os.abort()", "raise SystemExit(3)", "os.execvp('sleep', ['sleep', '0'])", ""],
)
def test_it_ends_with_the_parent(options, after):
    with parent(options, "", after) as launcher:
        assert launcher.stdout is not None
        pid = int(launcher.stdout.readline())
        if "sleep(100)" in after:
            launcher.send_signal(signal.SIGKILL)
        wait_for_end(pid)


# As before kernel 5.3: without `--watch-parent`.
ONLY_STDIN = "import os; vars(os).pop('pidfd_open', None)"


@pytest.mark.parametrize("first", ["", ONLY_STDIN])
def test_a_fork_of_the_parent_does_not_keep_it_alive(options, first):
    with parent(options, FORK, "print(child, flush=True); time.sleep(100)", first) as launcher:
        assert launcher.stdout is not None
        pid, child = int(launcher.stdout.readline()), int(launcher.stdout.readline())
        launcher.send_signal(signal.SIGKILL)
        try:
            wait_for_end(pid)
        finally:
            os.kill(child, signal.SIGKILL)


INTERRUPTED = """
import signal

from adapter_gateway import Gateway

# A shell starts its background jobs with the signal ignored, and the tests may run in one.
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    with Gateway(settings={settings!r}, listen="127.0.0.1:0", bind={bind!r}, plain=True, start_timeout=60) as gateway:
        print(gateway.pid, flush=True)
        input()
except KeyboardInterrupt:
    print(gateway.stop()["event"], gateway.status)
"""


def test_a_terminal_interrupts_the_parent_alone(options):
    """Ctrl-C reaches each process of a group. The gateway must not take it for a request, and the stop for a second."""
    script = INTERRUPTED.format(settings=str(options["settings"]), bind=options["bind"])
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, start_new_session=True) as launcher:
        assert launcher.stdout is not None
        assert int(launcher.stdout.readline()) != launcher.pid
        os.killpg(launcher.pid, signal.SIGINT)
        assert launcher.stdout.read() == "stopped 0\n"


def test_a_fork_does_not_stop_the_gateway(options, post):
    with Gateway(**options) as gateway:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                gateway.__exit__(None, None, None)
                gateway.stop()
            except GatewayError as error:
                status = 0 if "belongs" in str(error) else 2
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        assert post(gateway.url) == 200


def test_several_threads_ask_at_once(options):
    answers: list[int] = []
    with Gateway(**options) as gateway:
        threads = [threading.Thread(target=lambda: answers.append(gateway.stats()["accepted"])) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(TIMEOUT_S)
    assert answers == [0] * 8
