"""A complete parent without the package: it starts a gateway, posts a message, and stops the gateway. It passes its arguments
on to the gateway, as in `python3 parent.py --plain`. ADAPTER_GATEWAY names the program."""

import json
import os
import pathlib
import queue
import secrets
import ssl
import subprocess
import sys
import tempfile
import threading
import urllib.request

GATEWAY = os.environ.get("ADAPTER_GATEWAY", "adapter-gateway")


def read_events(stdout, events):
    # Read to the end: if nobody empties the pipe, it fills up, and only the last event of each kind waits.
    for line in stdout:
        events.put(json.loads(line))
    events.put(None)


def wait_for(events, name):
    """Returns the last event of each kind, up to the first one of this name."""
    seen = {}
    while name not in seen and (event := events.get(timeout=30)) is not None:
        print("event:", json.dumps(event))
        seen[event["event"]] = event
    if name not in seen:
        raise SystemExit(f"the gateway ended without {name!r}: {seen.get('failed', {}).get('reason')}")
    return seen


with tempfile.TemporaryDirectory() as directory:
    config = pathlib.Path(directory)
    settings = config / "user_settings.py"
    token = secrets.token_urlsafe(24)
    settings.touch(mode=0o600)  # the token is for the user alone
    settings.write_text(f"OPEN_REST_API = True\nTOKEN = {token!r}\n")

    # An adapter leaves out --listen and --bind. Then the port is 12358, and the hub is tcp://127.0.0.1:16130.
    gateway = subprocess.Popen(
        [GATEWAY, "serve", "--settings", settings, "--listen", "127.0.0.1:0", "--bind", f"ipc://{config}/bus",
         "--watch-stdin", *sys.argv[1:]],
        stdin=subprocess.PIPE,  # it stays open, and ends when this process ends for any reason
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # or Ctrl-C would ask it to stop too, and the end of the script a second time
    )
    events = queue.Queue()
    threading.Thread(target=read_events, args=(gateway.stdout, events), daemon=True).start()
    url = wait_for(events, "ready")["listening"]["url"]

    message = {"topic": "core/extensions/operate", "payload": {"extension_name": "demo", "content": "start"}}
    request = urllib.request.Request(
        f"{url}?token={token}", json.dumps(message).encode(), {"Content-Type": "application/json"})
    # The certificate that the gateway made beside the settings file.
    tls = ssl.create_default_context(cafile=config / "gateway-cert.pem") if url.startswith("https:") else None
    with urllib.request.urlopen(request, timeout=10, context=tls) as answer:
        print("answer:", answer.status, answer.read().decode().strip())

    gateway.stdin.close()  # or gateway.terminate(), which sends SIGTERM; a second request would lose what waits
    stopped = wait_for(events, "stopped")["stopped"]
    status = gateway.wait(timeout=10)
    assert status == 0 and stopped["accepted"] == stopped["published"] == 1, (status, stopped)
    print("every accepted message was published")
