"""A parent that replaces a running gateway by a new one on the same listening socket, three times, while a client posts
messages. ADAPTER_GATEWAY names the program."""

import json
import os
import pathlib
import secrets
import socket
import subprocess
import tempfile
import threading
import urllib.request

GATEWAY = os.environ.get("ADAPTER_GATEWAY", "adapter-gateway")


def start(listener, config):
    gateway = subprocess.Popen(
        [GATEWAY, "serve", "--settings", config / "user_settings.py", "--plain", "--listen", f"fd:{listener.fileno()}",
         "--connect", f"ipc://{config}/hub"],
        pass_fds=[listener.fileno()],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        start_new_session=True,  # Ctrl-C is for this process alone
    )
    for line in gateway.stdout:
        if json.loads(line)["event"] in ("listening", "failed"):
            print(line.strip())
            break
    # Read to the end, or the pipe fills up.
    threading.Thread(target=gateway.stdout.read, daemon=True).start()
    return gateway


with tempfile.TemporaryDirectory() as directory, socket.create_server(("127.0.0.1", 0), backlog=4096) as listener:
    config = pathlib.Path(directory)
    token = secrets.token_urlsafe(24)
    settings = config / "user_settings.py"
    settings.touch(mode=0o600)
    settings.write_text(f"OPEN_REST_API = True\nTOKEN = {token!r}\n")
    # The adapter has the hub. Here a gateway that no settings enable runs one.
    hub = subprocess.Popen([GATEWAY, "serve", "--settings", "/nonexistent", "--plain", "--hub",
                            "--hub-publishers", f"ipc://{config}/hub", "--hub-subscribers", f"ipc://{config}/out"],
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                           start_new_session=True)
    gateway = start(listener, config)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/api/message?token={token}"
    over, answers = threading.Event(), []

    def post():
        body = json.dumps({"topic": "adapter/extensions/data", "payload": {"extension_id": "demo", "content": "hello"}})
        request = urllib.request.Request(url, body.encode(), {"Content-Type": "application/json"})
        while not over.is_set():
            with urllib.request.urlopen(request, timeout=30) as answer:
                answers.append(answer.status)

    client = threading.Thread(target=post)
    client.start()
    for _ in range(3):
        new = start(listener, config)
        gateway.terminate()
        assert gateway.wait(timeout=30) == 0
        gateway = new
    over.set()
    client.join()
    for process in gateway, hub:
        process.terminate()
        assert process.wait(timeout=30) == 0
    assert answers and set(answers) == {200}, set(answers)
    print("three replacements, and every answer was 200")
