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
import threading

import adapter_gateway
from adapter_gateway import Gateway

LISTEN = ("127.0.0.1", 12358)
PUBLISHERS, SUBSCRIBERS = "tcp://127.0.0.1:16130", "tcp://127.0.0.1:16103"
SETTINGS = sys.argv[1] if len(sys.argv) > 1 else None  # the file of the user
LINE = threading.Lock()


def say(*words):
    with LINE:  # the gateway calls `show` and `tell` in a thread of its own
        print(*words, flush=True)


def show(state):
    say("the REST interface is", "on" if state.is_on else f"off: {state.reason}")


def tell(event):
    if event["event"] == "certificate" and event["state"] in ("made", "renewed"):
        say("browsers and copies need the new", event["path"])


def act(gateway, command):
    if command == "on":
        adapter_gateway.enable(SETTINGS)
    elif command == "off":
        adapter_gateway.disable(SETTINGS)
    elif command == "show":
        token = adapter_gateway.read_token(SETTINGS)
        say("post to", gateway.url, "with the token", token, "and trust", gateway.certificate)
        say("the gateway is the process", gateway.pid)
    elif command == "upgrade":
        say("the old one published", gateway.replace()["published"])
    else:
        say(__doc__)


try:
    say("the check box is", "set" if adapter_gateway.is_enabled(SETTINGS) else "empty")
except adapter_gateway.SettingsError as error:
    say("the check box is empty:", error)
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
                    say("that failed:", str(error).splitlines()[0])
        except KeyboardInterrupt:
            say("stopping")
    stopped = gateway.stop()  # the block has stopped it; this returns its last event
    say("published", stopped["published"], "of", stopped["accepted"])


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
