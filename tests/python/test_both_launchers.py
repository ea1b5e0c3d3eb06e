"""Both launchers at once: several that ask, processes that hang, and what a stop tells."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import threading
import time
from typing import Any, Callable

import pytest
from conftest import ENABLED, TIMEOUT_S
from test_launcher import wait_for_end

import adapter_gateway
import adapter_gateway.aio
from adapter_gateway import GatewayDisabledError, GatewayEndedError, GatewayError, GatewayTimeoutError


class AsyncGateway:
    """The launcher for asyncio, with the methods of the other one. Its event loop runs in a thread."""

    def __init__(self, **options: Any) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._gateway = adapter_gateway.aio.Gateway(**options)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._gateway, name)
        if not asyncio.iscoroutinefunction(found):
            return found
        return lambda *given: self._await(found(*given))

    def _await(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(TIMEOUT_S)

    def __enter__(self) -> AsyncGateway:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


both = pytest.mark.parametrize("kind", [adapter_gateway.Gateway, AsyncGateway])


def at_once(count: int, work: Callable[[], Any]) -> list[Any]:
    """Calls this in several threads, and returns what they returned or raised."""
    results: list[Any] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            results.append(error)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_S)
    assert len(results) == count
    return results


@both
def test_replacements_at_once_leave_one_process(kind, options, listener, tmp_path):
    options.update(connect=f"ipc://{tmp_path}/nobody", listen=listener)
    del options["bind"]
    pids = set()
    with kind(until="listening", on_event=lambda event: pids.add(event.get("pid")), **options) as one:
        assert all(result["event"] == "stopped" for result in at_once(3, one.replace))
    pids.discard(None)
    assert len(pids) == 4
    for pid in pids:
        wait_for_end(pid)


@both
def test_a_stop_ends_a_replacement(kind, options, listener, tmp_path, monkeypatch):
    pids = []
    process = adapter_gateway.gateway.GatewayProcess

    def made(*arguments: Any) -> Any:
        one = process(*arguments)
        pids.append(one.pid)
        return one

    monkeypatch.setattr("adapter_gateway.gateway.GatewayProcess", made)
    options.update(connect=f"ipc://{tmp_path}/nobody", listen=listener)
    del options["bind"]
    with kind(until="listening", **options) as gateway:
        # The new process never becomes ready.
        getattr(gateway, "_gateway", gateway)._until = "ready"
        replacing: list[Any] = []
        thread = threading.Thread(target=lambda: replacing.extend(at_once(1, gateway.replace)))
        thread.start()
        deadline = time.monotonic() + TIMEOUT_S
        while len(pids) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    thread.join(TIMEOUT_S)
    assert isinstance(replacing[0], GatewayError)
    for pid in pids:
        wait_for_end(pid)
    with pytest.raises(GatewayEndedError, match="status 0"):
        gateway.replace()


@both
def test_a_process_that_hangs_is_killed_in_time(kind, options, monkeypatch):
    monkeypatch.setattr("adapter_gateway.gateway._STOP_MARGIN_S", 0.5)
    gateway = kind(drain_timeout=0.5, **options)
    gateway.start()
    os.kill(gateway.pid, signal.SIGSTOP)
    began = time.monotonic()
    with pytest.raises(GatewayEndedError, match="was killed"):
        gateway.stop()
    # Twice `drain_timeout`, twice the margin, and what a busy machine takes.
    assert 2.0 <= time.monotonic() - began < 2.0 + 5.0


def test_the_bound_of_a_stop_is_the_documented_one():
    assert 2 * adapter_gateway.gateway._STOP_MARGIN_S == 5


@both
def test_a_stop_that_leaves_messages_undelivered_warns(kind, options, fake, caplog):
    fake(stopped='{"event":"stopped","accepted":330,"published":256,"undelivered":74}')
    with kind(**options) as gateway:
        pass
    assert gateway.stop()["undelivered"] == 74
    assert [record.levelname for record in caplog.records if "74" in record.getMessage()] == ["WARNING"]


@both
def test_what_is_no_event_is_passed_over(kind, options, fake):
    seen: list[str] = []
    noise = ["no event", "[]", "3", '{"event": 3}', "{}", "[" * 100_000, "", "\\377"]
    fake(*(f"printf '%b\\n' '{line}'" for line in noise))
    with kind(on_event=lambda event: seen.append(event["event"]), **options) as gateway:
        pass
    assert gateway.stop() == {"event": "stopped"} and seen == ["listening", "ready", "stopped"]


@both
def test_each_line_of_the_log_has_its_level(kind, options, fake, caplog):
    caplog.set_level("DEBUG", "adapter_gateway")
    lines = ["info: a", "warning: b: c", "error: d", "2026-11-22T05:40:43.123Z warning: e", "no level", "warning:f"]
    fake(*(f"echo '{line}' >&2" for line in lines))
    with kind(**options):
        pass
    told = [(record.levelname, record.getMessage()) for record in caplog.records if record.name == "adapter_gateway"]
    time = "2026-11-22T05:40:43.123Z "
    assert told == [
        ("INFO", "a"),
        ("WARNING", "b: c"),
        ("ERROR", "d"),
        ("WARNING", f"{time}e"),
        ("INFO", "no level"),
        ("INFO", "warning:f"),
    ]


@both
def test_it_waits_until_the_user_switches_it_on(kind, options, settings):
    settings.write_text("")
    with kind(until="started", **options) as gateway:
        with pytest.raises(GatewayTimeoutError, match="OPEN_REST_API"):
            gateway.wait_until("ready", 0.05)
        threading.Timer(0.2, lambda: settings.write_text(ENABLED)).start()
        gateway.wait_until("ready", None)
        assert gateway.is_ready and gateway.url


def wait_for(condition: Callable[[], bool]) -> None:
    """Waits until this is so."""
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@both
@pytest.mark.parametrize("is_inherited", [False, True])
def test_a_gateway_that_ends_is_started_again(kind, options, listener, is_inherited, caplog, monkeypatch):
    if is_inherited:
        options["listen"] = listener
    monkeypatch.setattr("adapter_gateway.gateway._FIRST_PAUSE_S", 0.05)
    seen: list[dict[str, Any]] = []
    with kind(restart=True, on_event=seen.append, **options) as gateway:
        pids = [gateway.pid]
        for _ in range(2):
            os.kill(pids[-1], signal.SIGKILL)
            wait_for(lambda: gateway.pid not in pids)
            gateway.wait_until("ready", TIMEOUT_S)
            pids.append(gateway.pid)
        assert gateway.stats()["accepted"] == 0
    ends = [event for event in seen if event["event"] == "ended"]
    assert [(end["status"], end["restart_s"]) for end in ends] == [(-9, 0.05), (-9, 0.1)]
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [line for line in told if line.startswith("the gateway")] == [
        "the gateway was ended by signal 9; it is started again in 0.05 s",
        "the gateway was ended by signal 9; it is started again in 0.1 s",
    ]
    assert gateway.stop()["event"] == seen[-1]["event"] == "stopped"
    for pid in pids:
        wait_for_end(pid)


@both
def test_an_end_that_nobody_asked_for_is_an_event(kind, options):
    seen: list[dict[str, Any]] = []
    gateway = kind(on_event=seen.append, **options)
    gateway.start()
    os.kill(gateway.pid, signal.SIGKILL)
    reason = "the gateway was ended by signal 9"
    wait_for(lambda: seen[-1] == {"event": "ended", "status": -9, "reason": reason, "restart_s": None})
    assert seen[-2] == {"event": "not-ready", "reason": reason}
    assert gateway.listeners == [] and not gateway.is_ready
    for use in (lambda: gateway.url, lambda: gateway.socket and gateway.url, gateway.client):
        with pytest.raises(GatewayEndedError, match=reason):
            use() or gateway.url
    with pytest.raises(GatewayEndedError, match=reason):
        gateway.stop()


class Shown:
    """What a parent shows that follows three events alone."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, event: dict[str, Any]) -> None:
        if event["event"] in ("ready", "not-ready", "disabled"):
            text = event.get("reason", "on")
            if self.texts[-1:] != [text]:
                self.texts.append(text)
        elif event["event"] == "ended":
            assert event["reason"] == self.texts[-1]


@both
def test_an_address_that_is_taken_at_the_switch_on_is_shown_and_opened_when_it_is_free(kind, options, settings):
    settings.write_text("")
    shown = Shown()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        options["listen"] = f"127.0.0.1:{taken.getsockname()[1]}"
        gateway = kind(until="started", on_event=shown, **options)
        gateway.start()
        settings.write_text(ENABLED)
        wait_for(lambda: len(shown.texts) > 1)
        with pytest.raises(GatewayError, match="cannot listen on"):
            gateway.url  # noqa: B018
    gateway.wait_until("ready", TIMEOUT_S)
    gateway.stop()
    off, reason, on, _stopped = shown.texts
    assert "OPEN_REST_API" in off and reason.startswith("cannot listen on") and on == "on"


@both
def test_a_restart_that_fails_is_shown(kind, options, fake, monkeypatch):
    monkeypatch.setattr("adapter_gateway.gateway._FIRST_PAUSE_S", 0.01)
    fake()
    shown = Shown()
    gateway = kind(restart=True, on_event=shown, **options)
    gateway.start()
    fake("exit 4", ready="""echo '{"event":"failed","status":4,"reason":"no port"}'\n""")
    os.killpg(gateway.pid, signal.SIGKILL)
    wait_for(lambda: len(shown.texts) > 2)
    with pytest.raises(GatewayEndedError, match="no port"):
        gateway.stop()
    told = ["on", "the gateway was ended by signal 9", "the gateway ended with status 4: no port"]
    assert shown.texts[:3] == told


@both
def test_a_wait_outlasts_a_restart(kind, options, monkeypatch):
    monkeypatch.setattr("adapter_gateway.gateway._FIRST_PAUSE_S", 0.3)
    with kind(restart=True, **options) as gateway:
        pid = gateway.pid
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: gateway.status is not None)
        gateway.wait_until("ready", TIMEOUT_S)
        assert gateway.pid != pid and gateway.is_ready


@both
def test_a_question_does_not_end_a_process_that_starts(kind, options, monkeypatch):
    """A signal ends a process that has not begun to handle it."""
    monkeypatch.setattr("adapter_gateway.gateway._FIRST_PAUSE_S", 0.05)
    seen: list[str] = []
    with kind(restart=True, on_event=lambda event: seen.append(event["event"]), **options) as gateway:
        pid = gateway.pid
        os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + TIMEOUT_S
        while seen.count("stats") == 0:
            assert time.monotonic() < deadline
            with contextlib.suppress(GatewayEndedError):
                gateway.stats()
            time.sleep(0.001)
        assert gateway.pid != pid and seen.count("ended") == 1


def test_the_pauses_before_restarts_are_the_documented_ones():
    module = adapter_gateway.gateway
    assert (module._FIRST_PAUSE_S, module._PAUSE_LIMIT_S, module._STABLE_S) == (0.5, 60, 60)


@both
def test_restarts_go_on_after_longer_pauses(kind, options, fake, monkeypatch, caplog):
    monkeypatch.setattr("adapter_gateway.gateway._FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr("adapter_gateway.gateway._PAUSE_LIMIT_S", 0.003)
    fake()
    ends: list[dict[str, Any]] = []
    gateway = kind(restart=True, on_event=lambda event: "restart_s" in event and ends.append(event), **options)
    gateway.start()
    fake("exit 7")
    os.killpg(gateway.pid, signal.SIGKILL)
    wait_for(lambda: len(ends) >= 5)
    with pytest.raises(GatewayEndedError, match="status 7"):
        gateway.stop()
    assert [end["status"] for end in ends[:5]] == [-9, 7, 7, 7, 7]
    assert [end["restart_s"] for end in ends[:5]] == [0.001, 0.002, 0.003, 0.003, 0.003]
    assert [record.levelname for record in caplog.records if "started again" in record.getMessage()][:5] == [
        "WARNING"
    ] * 5


@both
def test_a_program_that_is_missing_for_a_moment_is_waited_for(kind, options, fake, tmp_path, monkeypatch):
    monkeypatch.setattr("adapter_gateway.gateway._FIRST_PAUSE_S", 0.001)
    fake()
    reasons: list[str] = []
    gateway = kind(restart=True, on_event=lambda event: reasons.append(event.get("reason", "")), **options)
    gateway.start()
    pid = gateway.pid
    (tmp_path / "gateway").rename(tmp_path / "moved")
    os.killpg(pid, signal.SIGKILL)
    wait_for(lambda: any("which is no program" in reason for reason in reasons))
    (tmp_path / "moved").rename(tmp_path / "gateway")
    gateway.wait_until("ready", TIMEOUT_S)
    assert gateway.pid != pid and gateway.stop()["event"] == "stopped"


@both
@pytest.mark.parametrize("moment", ["the pause", "the start"])
def test_a_stop_ends_a_restart(kind, options, fake, moment, monkeypatch):
    if moment == "the start":
        monkeypatch.setattr("adapter_gateway.gateway._FIRST_PAUSE_S", 0.01)
    seen: list[dict[str, Any]] = []
    gateway = kind(restart=True, on_event=seen.append, **options)
    gateway.start()
    fake(ready="")
    pid = gateway.pid
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: seen[-1]["event"] == "ended" if moment == "the pause" else gateway.pid != pid)
    began = time.monotonic()
    if moment == "the pause":
        with pytest.raises(GatewayEndedError, match="signal 9"):
            gateway.stop()
    else:
        assert gateway.stop()["event"] == "stopped"
    assert time.monotonic() - began < 20.0
    # By this, a loop over the events ends.
    assert seen[-1]["event"] == "stopped" or (seen[-1]["event"], seen[-1]["restart_s"]) == ("ended", None)
    assert sum(event["event"] == "ended" and event["restart_s"] is not None for event in seen) == 1
    # The threads of the gateway end, also the one that starts it again.
    wait_for(lambda: not any("gateway" in thread.name for thread in threading.enumerate()))
    assert gateway.status == (-9 if moment == "the pause" else 0)


@both
def test_who_asked_for_the_end_gets_it(kind, options):
    with kind(restart=True, **options) as gateway:
        pid = gateway.pid
        os.kill(pid, signal.SIGTERM)
        wait_for(lambda: gateway.status is not None)
        with pytest.raises(GatewayEndedError, match="status 0"):
            gateway.wait_until("ready", TIMEOUT_S)
    assert gateway.pid == pid and gateway.stop()["event"] == "stopped"


@both
def test_a_disabled_gateway_shows_its_log(kind, options, settings):
    settings.write_text("")
    with pytest.raises(GatewayDisabledError) as disabled:
        kind(**options).start()
    assert any("OPEN_REST_API" in line for line in disabled.value.log)


@both
@pytest.mark.parametrize("listen", ["127.0.0.1:0", "unix"])
@pytest.mark.parametrize("plain", [True, False])
def test_it_has_a_client_for_itself(kind, options, settings, tmp_path, listen, plain):
    options["listen"] = f"unix:{tmp_path}/socket" if listen == "unix" else listen
    options["plain"] = plain
    if not plain and listen != "unix":
        options["cert_dir"] = tmp_path / "certificates"
    with kind(**options) as gateway:
        client = gateway.client(timeout_s=TIMEOUT_S)
        if kind is AsyncGateway:
            asyncio.run_coroutine_threadsafe(client.send("t", {}), gateway._loop).result(TIMEOUT_S)
        else:
            client.send("t", {})
        assert gateway.stats()["accepted"] == 1


def test_annotations_can_be_read():
    import inspect
    from typing import get_type_hints

    for module, names in ((adapter_gateway, vars(adapter_gateway)), (adapter_gateway.aio, adapter_gateway.aio.__all__)):
        for name in names:
            found = getattr(module, name)
            if inspect.isclass(found):
                get_type_hints(found)
                get_type_hints(found.__init__)
                for _, method in inspect.getmembers(found, inspect.isfunction):
                    get_type_hints(method)
            elif inspect.isfunction(found):
                get_type_hints(found)


@both
@pytest.mark.parametrize("stable_s", [0.0, 60.0])
def test_who_has_run_for_a_minute_begins_anew(kind, options, fake, stable_s, monkeypatch):
    monkeypatch.setattr("adapter_gateway.gateway._FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr("adapter_gateway.gateway._STABLE_S", stable_s)
    fake()
    pauses_s: list[float] = []

    def on_event(event: dict[str, Any]) -> None:
        if event["event"] == "ended":
            pauses_s.append(event["restart_s"])

    with kind(restart=True, on_event=on_event, **options) as gateway:
        for _ in range(3):
            pid = gateway.pid
            os.killpg(pid, signal.SIGKILL)
            wait_for(lambda: gateway.pid != pid)  # noqa: B023
            gateway.wait_until("ready", TIMEOUT_S)
    assert pauses_s == ([0.001] * 3 if stable_s == 0 else [0.001, 0.002, 0.004])
