"""Checks a gateway that pip has installed for the Python that runs this: it listens with the expected engine, its libzmq
keeps TCP connections alive, and a client sends messages to it over https. It needs Python's standard library alone, since
it also runs in a bare system.

    installed.py [IO]    IO: what the event `listening` must say, such as epoll
"""

import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time

import adapter_gateway

PATIENCE_S = 60


def kept_alive(port):
    """Returns whether the kernel has a keep-alive timer for a connection to the port (proc_net_tcp.rst of the kernel)."""
    with open("/proc/net/tcp") as table:
        rows = [row.split() for row in table.readlines()[1:]]
    return any(row[2].endswith(f":{port:04X}") and row[5].startswith("02:") for row in rows)


def versions(program):
    """Returns what the program says, and what the package says that runs it."""
    commands = [program, "--version"], [sys.executable, "-m", "adapter_gateway", "--version"]
    return [subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip() for command in commands]


def engine_of_a_kept_connection(program, settings):
    """Starts the gateway, waits until its connection to a hub has a keep-alive timer, and returns `io` of `listening`."""
    with socket.create_server(("127.0.0.1", 0)) as hub:
        port = hub.getsockname()[1]
        gateway = subprocess.Popen(
            [program, "serve", "--settings", settings, "--listen", "127.0.0.1:0", "--plain", "--watch-stdin",
             "--connect", f"tcp://127.0.0.1:{port}"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        events = map(json.loads, gateway.stdout)
        listening = next(event for event in events if event["event"] == "listening")
        deadline = time.monotonic() + PATIENCE_S
        while not kept_alive(port):
            assert time.monotonic() < deadline, "no connection to the hub has a keep-alive timer"
            time.sleep(0.05)
        gateway.stdin.close()
        for _ in events:
            pass
        assert gateway.wait(PATIENCE_S) == 0
    return listening["io"]


def send(settings, directory):
    """Sends messages as a script does, to a gateway that the package runs."""
    message = "adapter/extensions/data", {"extension_id": "demo", "content": "hello"}
    with adapter_gateway.Gateway(settings=settings, listen="127.0.0.1:0", bind=f"ipc://{directory}/bus") as gateway:
        with adapter_gateway.Client.from_settings(settings, url=gateway.url) as client:
            client.send(*message)
            list(client.send_many([message] * 3))
        stopped = gateway.stop()
    assert stopped["accepted"] == stopped["published"] == 4, stopped


def main(expected=None):
    program = adapter_gateway.find_binary()
    said, ran = versions(program)
    assert said.startswith("adapter-gateway ") and said == ran, (said, ran)
    with tempfile.TemporaryDirectory() as directory:
        settings = os.path.join(directory, "user_settings.py")
        with open(settings, "w") as file:
            file.write(f"OPEN_REST_API = True\nTOKEN = {secrets.token_urlsafe(24)!r}\n")
        os.chmod(settings, 0o600)
        engine = engine_of_a_kept_connection(program, settings)
        assert expected in (None, engine), engine
        send(settings, directory)
    print(f"{said} is installed as {program}. It listens with {engine}, has keep-alive timers, and took 4 messages.")


main(*sys.argv[1:])
