"""Both launchers at once: several that ask, processes that hang, and what a stop tells."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any, Callable

import pytest
from conftest import TIMEOUT_S
from test_launcher import wait_for_end

import adapter_gateway
import adapter_gateway.aio
from adapter_gateway import GatewayDisabledError, GatewayEndedError, GatewayError


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
        return lambda *given: asyncio.run_coroutine_threadsafe(found(*given), self._loop).result(TIMEOUT_S)

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
def test_replacements_at_once_leave_one_process(kind, options, tmp_path):
    options["connect"] = f"ipc://{tmp_path}/nobody"
    del options["bind"]
    pids = set()
    with kind(replaceable=True, until="listening", on_event=lambda event: pids.add(event.get("pid")), **options) as one:
        assert all(result["event"] == "stopped" for result in at_once(3, one.replace))
    pids.discard(None)
    assert len(pids) == 4
    for pid in pids:
        wait_for_end(pid)


@both
def test_a_stop_ends_a_replacement(kind, options, tmp_path, monkeypatch):
    pids = []
    process = adapter_gateway.base.GatewayProcess

    def made(*arguments: Any) -> Any:
        one = process(*arguments)
        pids.append(one.pid)
        return one

    monkeypatch.setattr("adapter_gateway.base.GatewayProcess", made)
    options["connect"] = f"ipc://{tmp_path}/nobody"
    del options["bind"]
    with kind(replaceable=True, until="listening", **options) as gateway:
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
    with pytest.raises(GatewayError, match="not stopped"):
        gateway.replace()


@both
def test_a_process_that_hangs_is_killed_in_time(kind, options, monkeypatch):
    monkeypatch.setattr("adapter_gateway.base._STOP_MARGIN_S", 0.5)
    gateway = kind(drain_timeout=0.5, **options)
    gateway.start()
    os.kill(gateway.pid, signal.SIGSTOP)
    began = time.monotonic()
    with pytest.raises(GatewayEndedError, match="was killed"):
        gateway.stop()
    # Twice `drain_timeout`, twice the margin, and what a busy machine takes.
    assert 2.0 <= time.monotonic() - began < 2.0 + 5.0


def test_the_bound_of_a_stop_is_the_documented_one():
    assert 2 * adapter_gateway.base._STOP_MARGIN_S == 5


@both
def test_a_stop_that_leaves_messages_undelivered_warns(kind, options, tmp_path, caplog, monkeypatch):
    script = tmp_path / "gateway"
    script.write_text(
        "#!/bin/sh\n"
        'echo \'{"event":"listening","url":"http://localhost:1/api/message","pid":1,"io":"epoll"}\'\n'
        'echo \'{"event":"ready"}\'\n'
        "cat >/dev/null\n"
        'echo \'{"event":"stopped","accepted":330,"published":256,"undelivered":74}\'\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("ADAPTER_GATEWAY", str(script))
    with kind(**options) as gateway:
        pass
    assert gateway.stop()["undelivered"] == 74
    assert [record.levelname for record in caplog.records if "74" in record.getMessage()] == ["WARNING"]


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


ELSEWHERE = """
import os, select, socket, sys
sys.modules["fcntl"] = None
for module, name in ((os, "register_at_fork"), (socket, "AF_UNIX"), (socket, "socketpair"), (select, "poll"),
                     (os, "pidfd_open"), (os, "fork")):
    if hasattr(module, name):
        delattr(module, name)
import adapter_gateway, adapter_gateway.aio
try:
    adapter_gateway.Client("/run/gateway", "token")
except ValueError as error:
    print(error)
os.name = "nt"
try:
    adapter_gateway.Gateway().start()
except adapter_gateway.GatewayError as error:
    print(error)
"""


def test_the_import_works_wherever_python_runs():
    output = subprocess.run([sys.executable, "-c", ELSEWHERE], stdout=subprocess.PIPE, check=True, text=True).stdout
    assert output == "this Python has no Unix sockets\nthe gateway runs on Linux alone\n"


def test_annotations_can_be_read():
    import inspect
    from typing import get_type_hints

    for module in (adapter_gateway, adapter_gateway.aio):
        for name in module.__all__:
            found = getattr(module, name)
            if inspect.isclass(found):
                get_type_hints(found)
                get_type_hints(found.__init__)
                for _, method in inspect.getmembers(found, inspect.isfunction):
                    get_type_hints(method)
            elif inspect.isfunction(found):
                get_type_hints(found)
