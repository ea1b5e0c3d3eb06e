"""A whole adapter, with a console in the place of its window: `python3 adapter.py [SETTINGS]`. It runs a hub, launches the
gateway, shows its state, starts it again after a crash, and replaces it after an upgrade. It reads these commands:

    on, off    what the check box of a window does
    show       the address, the token and the certificate, for the user to copy
    upgrade    puts the new gateway in the place of the old one, after `pip install --upgrade adapter-gateway`
    quit
"""

import logging
import os
import socket
import sys

import adapter_gateway
from adapter_gateway import Gateway

LISTEN = ("127.0.0.1", 12358)
PUBLISHERS, SUBSCRIBERS = "tcp://127.0.0.1:16130", "tcp://127.0.0.1:16103"
SETTINGS = sys.argv[1] if len(sys.argv) > 1 else None  # the file of the user


def show(state):
    print("the REST interface is", "on" if state.is_on else f"off: {state.reason}", flush=True)


def tell(event):
    if event["event"] == "certificate" and event["state"] in ("made", "renewed"):
        print("browsers and copies need the new", event["path"], flush=True)


def act(gateway, command):
    if command == "on":
        adapter_gateway.enable(SETTINGS)
    elif command == "off":
        adapter_gateway.disable(SETTINGS)
    elif command == "show":
        token = adapter_gateway.read_token(SETTINGS)
        print("post to", gateway.url, "with the token", token, "and trust", gateway.certificate)
        print("the gateway is the process", gateway.pid, flush=True)
    elif command == "upgrade":
        print("the old one published", gateway.replace()["published"], flush=True)
    else:
        print(__doc__, flush=True)


try:
    print("the check box is", "set" if adapter_gateway.is_enabled(SETTINGS) else "empty", flush=True)
except adapter_gateway.SettingsError as error:
    print("the check box is empty:", error, flush=True)
logging.basicConfig(level=logging.WARNING)  # warnings of the gateway concern a person
# A hub in a process of its own goes on while the gateway is replaced. No settings switch its HTTP side on. An adapter that
# has a hub leaves it out.
hub = Gateway(settings="/nonexistent", plain=True, hub=True, hub_publishers=PUBLISHERS, hub_subscribers=SUBSCRIBERS,
              until="started", restart=True)


def run(listener):
    gateway = Gateway(settings=SETTINGS, listen=listener, connect=PUBLISHERS, until="started", restart=True, on_state=show,
                      on_event=tell)
    with gateway:
        try:
            for line in sys.stdin:
                if line.strip() == "quit":
                    break
                try:
                    act(gateway, line.strip())
                except adapter_gateway.GatewayError as error:
                    print("that failed:", str(error).splitlines()[0], flush=True)
        except KeyboardInterrupt:
            print("stopping", flush=True)
    stopped = gateway.stop()  # the block has stopped it; this returns its last event
    print("published", stopped["published"], "of", stopped["accepted"])


try:
    # The socket stays open, so that an upgrade refuses no connection.
    with socket.create_server(LISTEN, backlog=4096) as listener, hub:
        run(listener)
except adapter_gateway.GatewayError as error:
    sys.exit(f"it cannot start: {str(error).splitlines()[0]}")
except OSError as error:
    sys.exit(f"{LISTEN[0]}:{LISTEN[1]}: {os.strerror(error.errno)}; end the program that has the port, or choose another one")
except KeyboardInterrupt:
    sys.exit("stopped before it began")
