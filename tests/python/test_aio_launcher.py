"""The launcher for asyncio does the same as the other one."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import subprocess
import sys
from typing import Any

import pytest
from conftest import ENABLED, TIMEOUT_S
from test_launcher import wait_for_end

import adapter_gateway
from adapter_gateway import GatewayDisabledError, GatewayEndedError, GatewayError, GatewayTimeoutError
from adapter_gateway.aio import Gateway


def arguments(method):
    _, *others = inspect.signature(method).parameters.values()
    return others


def test_both_have_the_same_names_and_arguments():
    for name, one in inspect.getmembers(adapter_gateway.Gateway, callable):
        if not name.startswith("_"):
            other = getattr(Gateway, name)
            assert arguments(one) == arguments(other), name
            assert inspect.iscoroutinefunction(other) == (name != "client"), name


def test_a_block_serves_from_its_beginning_to_its_end(options, post):
    events: list[dict[str, Any]] = []

    async def main() -> None:
        gateway = Gateway(on_event=events.append, **{**options, "plain": False})
        async with gateway:
            assert gateway.is_ready and gateway.pid == gateway.listeners[0]["pid"]
            assert await asyncio.to_thread(post, gateway.url, gateway.certificate) == 200
            assert (await gateway.stats())["accepted"] == 1
        assert (await gateway.stop())["published"] == 1
        assert gateway.status == 0

    asyncio.run(main())
    names = [event["event"] for event in events]
    assert names == ["certificate", "bus", "listening", "ready", "stats", "not-ready", "stopped"]


def test_a_start_that_fails_says_why(options, settings):
    async def main() -> None:
        with pytest.raises(GatewayEndedError, match="--workers") as failed:
            await Gateway(workers=-1, **options).start()
        assert failed.value.status == 2
        settings.write_text("")
        with pytest.raises(GatewayDisabledError, match="OPEN_REST_API"):
            await Gateway(**options).start()
        async with Gateway(until="started", **options) as gateway:
            settings.write_text(ENABLED)
            assert (await gateway.reload())["state"] == "reloaded"
            await gateway.wait_until("ready", TIMEOUT_S)
        missing = {"connect": f"{options.pop('bind')}-of-nobody", "start_timeout": 2}
        with pytest.raises(GatewayTimeoutError, match="no hub at .+-of-nobody: .+`hub=True`"):
            await Gateway(**{**options, **missing}).start()

    asyncio.run(main())


def test_a_crash_is_told(options):
    async def main() -> None:
        with pytest.raises(GatewayEndedError, match="signal 9"):
            async with Gateway(**options) as gateway:
                os.kill(gateway.pid, signal.SIGKILL)
                # The loop does not see the end before the gateway is asked.
                wait_for_end(gateway.pid)
                with pytest.raises(GatewayEndedError, match="signal 9"):
                    await gateway.stats()

    asyncio.run(main())


def test_a_gateway_that_does_not_stop_is_killed(options, monkeypatch):
    monkeypatch.setattr("adapter_gateway.gateway._STOP_MARGIN_S", 0.1)

    async def main() -> None:
        gateway = Gateway(drain_timeout=0.1, **options)
        await gateway.start()
        os.kill(gateway.pid, signal.SIGSTOP)
        with pytest.raises(GatewayEndedError, match="was killed"):
            await gateway.stop()

    asyncio.run(main())


def test_a_start_that_is_cancelled_leaves_nothing_over(options, settings):
    settings.write_text("")
    pids: list[int] = []

    async def main() -> None:
        gateway = Gateway(until="started", **options)
        await gateway.start()
        pids.append(gateway.pid)
        waiting = asyncio.ensure_future(gateway.wait_until("ready", TIMEOUT_S))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        del options["bind"]
        starting = Gateway(connect=f"ipc://{settings.parent}/nobody", **options)
        settings.write_text(ENABLED)
        listening = asyncio.Event()
        starting._on_event = lambda event: (pids.append(event["pid"]), listening.set()) if "pid" in event else None
        task = asyncio.ensure_future(starting.start())
        await asyncio.wait_for(listening.wait(), TIMEOUT_S)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(GatewayError, match="not started"):
            await starting.stop()
        await gateway.stop()

    asyncio.run(main())
    assert len(pids) == 2
    for pid in pids:
        wait_for_end(pid)


PARENT = """
import asyncio, os, sys, time
from adapter_gateway.aio import Gateway

async def main():
    gateway = Gateway(settings={settings!r}, listen="127.0.0.1:0", bind={bind!r}, plain=True, start_timeout=60)
    await gateway.start()
    print(gateway.pid, flush=True)
    {after}

asyncio.run(main())
"""


@pytest.mark.parametrize("after", ["await asyncio.sleep(1000)", "os._exit(1)", "raise SystemExit(3)", ""])
def test_it_ends_with_the_parent(options, after):
    script = PARENT.format(settings=str(options["settings"]), bind=options["bind"], after=after)
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as launcher:
        assert launcher.stdout is not None
        pid = int(launcher.stdout.readline())
        if "sleep" in after:
            launcher.kill()
        wait_for_end(pid)
