"""Programs whose threads are those of gevent or of eventlet. They replace what waits, so each runs in a process of its own."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest
from conftest import TIMEOUT_S

import adapter_gateway

GEVENT = "from gevent import monkey, sleep, spawn\nmonkey.patch_all()\n"
EVENTLET = "import eventlet\nfrom eventlet import sleep, spawn\neventlet.monkey_patch()\n"
IMPORT = "from adapter_gateway import Client, Gateway, GatewayEndedError\nimport os, signal\n"

ADAPTER = """
ticks, events = [], []

def tick():
    while True:
        ticks.append(None)
        sleep(0.001)

spawn(tick)
options = dict(settings={settings!r}, listen="127.0.0.1:0", bind={bind!r}, plain={plain!r}, start_timeout=60)
for _ in range(3):
    with Gateway(on_event=lambda event: events.append(event["event"]), **options) as gateway:
        before = len(ticks)
        with Client.from_settings(options["settings"], url=gateway.url.replace("127.0.0.1", "localhost")) as client:
            client.send("t", {{}})
            assert all(client.send_many(("t", {{"n": n}}) for n in range(300)))
            messages = (sleep(0.01) or ("t", {{"n": n}}) for n in range(5))
            assert all(client.send_many(messages))
        assert gateway.stats()["accepted"] == 306 and gateway.reload()["state"] == "unchanged"
        assert len(ticks) > before, "the others stand still"
    assert gateway.stop()["published"] == 306 and gateway.status == 0
    assert events[-3:] == ["settings", "not-ready", "stopped"], events
try:
    with Gateway(**options) as gateway:
        os.kill(gateway.pid, signal.SIGKILL)
except GatewayEndedError as error:
    print(error.status)
"""


def run(script: str, options: dict[str, Any]) -> str:
    names = {"settings": str(options["settings"]), "bind": options["bind"], "plain": options["plain"]}
    environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(adapter_gateway.__file__).parents[1])}
    command = [sys.executable, "-W", "ignore", "-c", script.format(**names)]
    ended = subprocess.run(command, stdout=subprocess.PIPE, env=environment, check=True, text=True, timeout=TIMEOUT_S)
    return ended.stdout


@pytest.mark.parametrize("is_late", [False, True], ids=["first", "late"])
@pytest.mark.parametrize("patch", [GEVENT, EVENTLET], ids=["gevent", "eventlet"])
def test_an_adapter_with_green_threads(options, patch, is_late):
    options["plain"] = is_late == (patch == EVENTLET)
    head = IMPORT + patch if is_late else patch + IMPORT
    assert run(head + ADAPTER, options) == "-9\n"
