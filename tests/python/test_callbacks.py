"""What the functions of the user do, such as `on_event` and handlers of the log, holds up neither a launcher nor its report."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
import time
from typing import Any

import pytest
from conftest import ENABLED, TIMEOUT_S
from test_both_launchers import AsyncGateway, at_once, both, wait_for
from test_launcher import wait_for_end

import adapter_gateway.aio
from adapter_gateway import Gateway, GatewayDisabledError


class Raising:
    """A function that raises at some events, or at all, and keeps the names of all."""

    def __init__(self, error: type[BaseException], *names: str) -> None:
        self._error = error
        self._names = names
        self.seen: list[str] = []

    def __call__(self, event: dict[str, Any]) -> None:
        self.seen.append(event["event"])
        if not self._names or event["event"] in self._names:
            raise self._error("from the function")


# An event loop ends by `SystemExit`.
@pytest.mark.parametrize(("kind", "error"), [(Gateway, SystemExit), (Gateway, ValueError), (AsyncGateway, ValueError)])
def test_a_function_that_raises_holds_nothing_up(kind, options, error, monkeypatch, caplog):
    """Nobody but the log gets what it raises, and it is called with what follows."""
    monkeypatch.setattr("adapter_gateway.gateway._FIRST_PAUSE_S", 0.01)
    on_event = Raising(error)
    with kind(on_event=on_event, restart=True, **options) as gateway:
        gateway.stats()
        pid = gateway.pid
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: gateway.pid != pid)
        gateway.wait_until("ready", TIMEOUT_S)
    assert gateway.stop()["event"] == "stopped" and gateway.status == 0
    again = ["bus", "listening", "ready"]
    wait_for(lambda: on_event.seen == [*again, "stats", "not-ready", "ended", *again, "not-ready", "stopped"])
    assert caplog.text.count(f"{error.__name__}: from the function") == len(on_event.seen)


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_an_event_loop_ends_by_what_a_function_raises(options, error):
    pids: list[int] = []

    async def main() -> None:
        async with adapter_gateway.aio.Gateway(on_event=Raising(error, "stats"), **options) as gateway:
            pids.append(gateway.pid)
            await gateway.stats()
            await asyncio.sleep(TIMEOUT_S)

    with pytest.raises(error, match="from the function"):
        asyncio.run(main())
    wait_for_end(pids[0])


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shortens the time for which a function that does not return is waited for."""
    monkeypatch.setattr("adapter_gateway.process.DELIVERY_TIMEOUT_S", 0.1)


@both
def test_a_function_that_never_returns_holds_nothing_up(kind, options, soon, monkeypatch):
    monkeypatch.setattr("adapter_gateway.gateway._FIRST_PAUSE_S", 0.01)
    release, called = threading.Event(), threading.Event()

    def on_event(event: dict[str, Any]) -> None:
        called.set()
        release.wait()

    def use() -> tuple[str, str, Any]:
        gateway.start()
        pid = gateway.pid
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: gateway.pid != pid)
        gateway.wait_until("ready", TIMEOUT_S)
        return gateway.stats()["event"], gateway.stop()["event"], gateway.status

    gateway = kind(on_event=on_event, restart=True, **options)
    if kind is not Gateway:
        # In an event loop it would hold up the loop itself.
        on_event = None
        gateway._gateway._on_event = None
        called.set()
    try:
        assert at_once(1, use) == [("stats", "stopped", 0)]
        assert called.is_set()
    finally:
        release.set()


def test_a_function_may_take_a_lock_of_who_waits(options, soon):
    lock, seen = threading.Lock(), []

    def on_event(event: dict[str, Any]) -> None:
        with lock:
            seen.append(event["event"])

    def use() -> str:
        with lock:
            gateway.start()
            gateway.stats()
            return gateway.stop()["event"]

    gateway = Gateway(on_event=on_event, **options)
    assert at_once(1, use) == ["stopped"]
    wait_for(lambda: seen[-1:] == ["stopped"])
    assert seen == ["bus", "listening", "ready", "stats", "not-ready", "stopped"]


def test_a_handler_of_the_log_that_never_returns_holds_nothing_up(options, soon):
    release = threading.Event()

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            release.wait()

    logger, handler = logging.getLogger("adapter_gateway"), Handler()
    logger.addHandler(handler)
    try:
        logger.setLevel("INFO")

        def use() -> str:
            gateway.start()
            return gateway.stop()["event"]

        gateway = Gateway(**options)
        assert at_once(1, use) == ["stopped"]
    finally:
        logger.setLevel("NOTSET")
        logger.removeHandler(handler)
        release.set()


@both
@pytest.mark.parametrize("what", ["Handler", "Filter"])
@pytest.mark.parametrize("error", [ValueError, SystemExit])
def test_a_handler_or_filter_of_the_log_that_raises_ends_no_thread(kind, error, what, options, capfd):
    def fail(_: object) -> bool:
        raise error("from the log")

    logger, handler = logging.getLogger("adapter_gateway"), logging.Handler()
    handler.emit = fail  # type: ignore[method-assign, assignment]
    given: Any = handler if what == "Handler" else fail
    seen: list[str] = []
    gateway = kind(on_event=lambda event: seen.append(event["event"]), **options)
    getattr(logger, f"add{what}")(given)
    try:
        logger.setLevel("INFO")
        began = time.monotonic()
        with gateway:
            gateway.stats()
        assert time.monotonic() - began < 5
        wait_for(lambda: seen[-3:] == ["stats", "not-ready", "stopped"])
        assert f"{error.__name__}: from the log" in capfd.readouterr().err
    finally:
        getattr(logger, f"remove{what}")(given)
        logger.setLevel("NOTSET")


def test_a_slow_function_gets_all_events_in_their_order(options, settings):
    """Who waits goes on when the function has had the event that was waited for."""
    seen: list[str] = []

    def on_event(event: dict[str, Any]) -> None:
        threading.Event().wait(0.05)
        seen.append(event["event"])

    with Gateway(on_event=on_event, **options) as gateway:
        assert seen[-1] == "ready"
        gateway.stats()
        assert seen[-1] == "stats"
    assert seen[-1] == "stopped"
    settings.write_text("")
    with pytest.raises(GatewayDisabledError):
        Gateway(on_event=on_event, **options).start()
    assert "disabled" in seen


def test_a_slow_function_gets_the_events_of_two_starts_in_their_order(options, settings, soon):
    seen: list[str] = []
    calls, release = threading.Semaphore(), threading.Event()

    def on_event(event: dict[str, Any]) -> None:
        assert calls.acquire(blocking=False)
        seen.append(event["event"])
        release.wait()
        calls.release()

    settings.write_text("")
    gateway = Gateway(on_event=on_event, **options)
    with pytest.raises(GatewayDisabledError):
        gateway.start()
    settings.write_text(ENABLED)
    gateway.start()
    release.set()
    gateway.stop()
    wait_for(lambda: seen[-1] == "stopped")
    assert seen == ["bus", "disabled", "bus", "listening", "ready", "not-ready", "stopped"]
