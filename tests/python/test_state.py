"""Whether messages are taken, and why not: what a status line shows."""

from __future__ import annotations

import asyncio
import os
import queue
import signal
import socket
import time
from typing import Any

import pytest
from conftest import ENABLED, TIMEOUT_S
from test_both_launchers import both, wait_for

import adapter_gateway.aio
from adapter_gateway import Gateway, GatewayEndedError, State

ON = State(True, None)
STARTING = State(False, "the gateway is starting")


@both
def test_all_is_known_while_the_start_is_told(kind, options):
    found: list[Any] = []

    def look(_: Any) -> None:
        found.append(
            (gateway.is_ready, gateway.pid, gateway.url, len(gateway.listeners), gateway.status, gateway.state)
        )

    options["on_event"] = lambda event: look(event) if event["event"] == "ready" else None
    # The first state comes before the gateway listens.
    gateway = kind(on_state=lambda state: look(state) if state.is_on else None, **options)
    assert gateway.state == State(False, "the gateway is not started")
    with gateway:
        wait_for(lambda: len(found) == 2)
        assert found == [(True, gateway.pid, gateway.url, 1, None, ON)] * 2


@both
def test_each_state_is_told_once(kind, options, settings):
    states: queue.SimpleQueue[State] = queue.SimpleQueue()

    def following() -> State:
        state = states.get(timeout=TIMEOUT_S)
        assert gateway.state == state
        return state

    settings.write_text("")
    with kind(until="started", on_state=states.put, **options) as gateway:
        assert states.get(timeout=TIMEOUT_S) == STARTING
        is_on, reason = following()
        assert not is_on and "OPEN_REST_API is not set to True" in reason
        settings.write_text(ENABLED)
        assert following() == ON
        # This has two events with the same reason.
        settings.write_text("")
        assert following() == State(False, reason)
        settings.write_text(ENABLED)
        assert following() == ON
    is_on, reason = states.get(timeout=TIMEOUT_S)
    assert not is_on and reason and gateway.state == State(False, reason)
    assert states.empty()


def test_a_taken_port_is_told_once(options, settings):
    states: list[State] = []
    settings.write_text("")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        options["listen"] = f"127.0.0.1:{taken.getsockname()[1]}"
        with Gateway(until="started", on_state=states.append, **options) as gateway:
            settings.write_text(ENABLED)
            wait_for(lambda: "cannot listen on" in (gateway.state.reason or ""))
            gateway.reload()
            gateway.reload()
            assert sum("cannot listen on" in (state.reason or "") for state in states) == 1
            taken.close()
            gateway.wait_until("ready", TIMEOUT_S)
            assert states[-1] == ON


def test_a_hub_that_is_missing_or_ends_is_the_reason(options, settings, tmp_path):
    del options["bind"]
    publishers, subscribers = (f"ipc://{tmp_path}/{side}" for side in ("publishers", "subscribers"))
    hub = Gateway(
        settings="/nonexistent", hub=True, hub_publishers=publishers, hub_subscribers=subscribers, until="started"
    )
    states: list[State] = []

    def is_missing() -> bool:
        is_on, reason = gateway.state
        beginning, end = f"no hub at {publishers}: ", "; start the adapter, or run a hub here with `hub=True`"
        return not is_on and (reason or "").startswith(beginning) and (reason or "").endswith(end)

    with Gateway(until="listening", connect=publishers, on_state=states.append, **options) as gateway:
        wait_for(is_missing)
        settings.write_text("")
        wait_for(lambda: "OPEN_REST_API is not set to True" in (gateway.state.reason or ""))
        settings.write_text(ENABLED)
        wait_for(is_missing)
        with hub:
            wait_for(lambda: gateway.is_ready)
        wait_for(is_missing)
    assert not any(state.reason == "the bus is not connected" for state in states)


@both
def test_a_crash_and_the_start_behind_it_are_told(kind, options, monkeypatch):
    monkeypatch.setattr("adapter_gateway.gateway._FIRST_PAUSE_S", 0.01)
    states: list[State] = []
    with kind(on_state=states.append, restart=True, **options) as gateway:
        assert states == [STARTING, ON]
        os.kill(gateway.pid, signal.SIGKILL)
        wait_for(lambda: states[-1] == ON and len(states) > 2)
        assert states[2:] == [State(False, "the gateway was ended by signal 9"), STARTING, ON]


@both
def test_a_start_that_fails_is_told(kind, options):
    states: list[State] = []
    gateway = kind(workers=-1, on_state=states.append, **options)
    with pytest.raises(GatewayEndedError):
        gateway.start()
    assert gateway.state == State(False, "the gateway is not started")
    assert not any(state.is_on for state in states)


@both
def test_a_gateway_that_is_killed_at_its_stop_is_told(kind, options, monkeypatch):
    monkeypatch.setattr("adapter_gateway.gateway._STOP_MARGIN_S", 0.1)
    events: list[dict[str, Any]] = []
    states: list[State] = []
    gateway = kind(drain_timeout=0.1, on_event=events.append, on_state=states.append, **options)
    gateway.start()
    os.kill(gateway.pid, signal.SIGSTOP)
    with pytest.raises(GatewayEndedError, match="was killed"):
        gateway.stop()
    wait_for(lambda: not states[-1].is_on)
    lost = [event["reason"] for event in events if event["event"] == "not-ready"]
    assert lost == [states[-1].reason] and lost[0].startswith("the gateway was killed, since it did not stop within")


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the thread that reads take its time when a process has ended."""
    take_end = adapter_gateway.gateway.GatewayBase._take_end

    def late(gateway: Any, ended: Any) -> None:
        time.sleep(0.2)
        take_end(gateway, ended)

    monkeypatch.setattr("adapter_gateway.gateway.GatewayBase._take_end", late)


@both
def test_a_stop_returns_when_the_last_state_was_told(kind, options, fake, late):
    fake()
    states: list[State] = []
    with kind(on_state=states.append, **options):
        assert states[-1] == ON
    assert states[states.index(ON) + 1 :] == [State(False, "the gateway has ended")]


@both
@pytest.mark.parametrize("restart", [False, True])
def test_who_knows_of_a_crash_was_told_of_it(kind, options, fake, late, restart, monkeypatch):
    """A stop right behind it hides nothing."""
    fake()
    events: list[dict[str, Any]] = []
    states: list[State] = []
    monkeypatch.setattr("adapter_gateway.gateway._FIRST_PAUSE_S", TIMEOUT_S)
    gateway = kind(restart=restart, on_event=events.append, on_state=states.append, **options)
    gateway.start()
    os.killpg(gateway.pid, signal.SIGKILL)
    wait_for(lambda: gateway.status is not None)
    with pytest.raises(GatewayEndedError, match="signal 9"):
        gateway.stop()
    reason = "the gateway was ended by signal 9"
    told = [(event["event"], event["reason"], event.get("restart_s")) for event in events if event.get("reason")]
    ends = [("ended", reason, TIMEOUT_S), ("ended", reason, None)]
    assert told[-2 - restart :] == [("not-ready", reason, None), *ends[not restart :]]
    assert events[-1]["event"] == "ended"
    assert states[states.index(ON) + 1 :] == [State(False, reason)]


def test_a_replacement_that_is_cancelled_leaves_a_gateway(options, tmp_path, listener):
    """The old one or the new one, whenever it is cancelled."""
    del options["bind"]
    options.update(listen=listener, connect=f"ipc://{tmp_path}/nobody")

    async def main() -> None:
        async with adapter_gateway.aio.Gateway(until="listening", **options) as gateway:
            replaced, seen, loop, take = 0, [], asyncio.get_running_loop(), gateway._take

            def taken(process: Any, event: Any) -> None:
                take(process, event)
                if process is gateway._starting and event["event"] == "listening":
                    loop.call_soon_threadsafe(seen[-1].set)

            gateway._take = taken  # type: ignore[method-assign]
            for attempt in range(12):
                pid, came = gateway.pid, asyncio.Event()
                seen.append(came)
                replacing = asyncio.ensure_future(gateway.replace())
                if attempt % 2:
                    await asyncio.wait_for(came.wait(), TIMEOUT_S)
                else:
                    await asyncio.sleep(0.01 * attempt)
                replacing.cancel()
                await asyncio.wait([replacing])
                # What goes on in its thread comes to an end before another call does.
                with gateway._turn:
                    pass
                assert (await gateway.stats())["event"] == "stats" and gateway.status is None
                replaced += gateway.pid != pid
            assert replaced < 12

    asyncio.run(main())
