"""Checks a gateway that pip has installed for the Python that runs this: it listens with the expected engine, and its
libzmq keeps TCP connections alive. It needs Python's standard library alone, since it also runs in a bare system.

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


def main(io=None):
    program = adapter_gateway.find_binary()
    versions = [subprocess.run([*command, "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout
                for command in ([program], [sys.executable, "-m", "adapter_gateway"])]
    assert versions[0].startswith("adapter-gateway ") and versions[0] == versions[1], versions

    with tempfile.TemporaryDirectory() as directory, socket.create_server(("127.0.0.1", 0)) as hub:
        port = hub.getsockname()[1]
        settings = os.path.join(directory, "user_settings.py")
        with open(settings, "w") as file:
            file.write(f"OPEN_REST_API = True\nTOKEN = {secrets.token_urlsafe(24)!r}\n")
        os.chmod(settings, 0o600)
        gateway = subprocess.Popen(
            [program, "serve", "--settings", settings, "--listen", "127.0.0.1:0", "--plain", "--watch-stdin",
             "--connect", f"tcp://127.0.0.1:{port}"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for event in map(json.loads, gateway.stdout):
            if event["event"] == "listening":
                break
        else:
            raise AssertionError("the gateway ended before it listened")
        assert io in (None, event["io"]), event
        deadline = time.monotonic() + PATIENCE_S
        while not kept_alive(port):
            assert time.monotonic() < deadline, "no connection to the hub has a keep-alive timer"
            time.sleep(0.05)
        gateway.stdin.close()
        for _ in gateway.stdout:
            pass
        assert gateway.wait(PATIENCE_S) == 0
    print(f"{versions[0].strip()} is installed as {program}. It listens with {event['io']}, and has keep-alive timers.")


main(*sys.argv[1:])
