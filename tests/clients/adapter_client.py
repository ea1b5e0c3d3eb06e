"""Runs the adapter's public client, unchanged, on the gateway's embedded hub: `adapter_client.py GATEWAY`.

codelab-adapter-client 4.4.2 connects to tcp://127.0.0.1:16130 and :16103, speaks MessagePack, and asks for no token.
"""

import os
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import AbstractContextManager
from pathlib import Path

import msgpack

from gateway import PATIENCE_S, Gateway, Lines, Subscriber, check

HUB = "tcp://127.0.0.1:16103"


def until(condition, what):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        check(time.monotonic() < deadline, "this did not happen in time:", what)
        time.sleep(0.02)


class Bus(AbstractContextManager):
    """A subscriber to everything. A thread receives the messages and keeps them, so that checks can search them."""

    def __init__(self):
        self.received = []
        self._subscriber = Subscriber(HUB)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self):
        while not self._ended.is_set():
            if (message := self._subscriber.next(timeout=0.05)) is not None:
                self.received.append((message[0], msgpack.unpackb(message[1], raw=False)))

    def has(self, topic, **fields):
        return any(topic == received and fields.items() <= payload.items() for received, payload in list(self.received))

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()
        self._subscriber.__exit__()


class Monitor(AbstractContextManager):
    """`codelab-message-monitor`, which prints `topic payload` for each message."""

    def __init__(self):
        program = Path(sys.executable).with_name("codelab-message-monitor")
        self.process = subprocess.Popen(
            [program], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
        )
        self._lines = Lines(self.process.stdout)

    def printed(self):
        while not self._lines.empty():
            self._lines.next()
        return self._lines.seen

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def post(gateway, topic, **payload):
    status, answer = gateway.post({"topic": topic, "payload": payload})
    check(status == 200, topic, status, answer)


def node_class():
    """Imports the client late, because the import reads the home directory. Returns the class of a node."""
    from codelab_adapter_client import AdapterNode

    class Echo(AdapterNode):
        """A node as a user of the adapter writes it. It answers each command."""

        NODE_ID = "eim/node_echo"

        def __init__(self):
            # The specification's topic of commands. The client has an older name for it.
            super().__init__(subscriber_list=["scratch/extensions/command", "visual/extensions/command", "core/nodes/operate"])
            self.commands = []

        def message_handle(self, topic, payload):
            if topic == "visual/extensions/command":
                if payload.get("node_id") == self.NODE_ID:
                    self.extension_message_handle(topic, payload)
            else:
                super().message_handle(topic, payload)

        def extension_message_handle(self, topic, payload):
            self.commands.append(payload)
            self.publish({"payload": {"content": f"echo {payload['content']}", "number": payload.get("number")}})

    return Echo


def monitor_prints(gateway):
    values = {"integer": 2**63, "negative": -(2**63), "fraction": 0.5, "text": "café 😀", "nothing": None, "list": [True, {}]}
    with Monitor() as monitor:

        def ready():
            post(gateway, "ci/ready")
            return any(line == "ci/ready {}" for line in monitor.printed())

        until(ready, "the monitor prints")
        post(gateway, "adapter/nodes/data", node_id="eim", content="hello", **values)
        expected = f"adapter/nodes/data {dict(node_id='eim', content='hello', **values)}"
        until(lambda: expected in monitor.printed(), expected)
        check(monitor.printed().count(expected) == 1, "printed more than once")


def node_answers_and_stops(gateway):
    node = node_class()()
    loop = threading.Thread(target=node.receive_loop, daemon=True)
    loop.start()
    with Bus() as bus:

        def ready():
            post(gateway, "visual/extensions/command", node_id=node.NODE_ID, content="ready")
            return node.commands and bus.has("adapter/nodes/data", content="echo ready")

        until(ready, "the node receives commands and its answers cross the hub")
        for number, topic in enumerate(["visual/extensions/command", "scratch/extensions/command"]):
            post(gateway, topic, node_id=node.NODE_ID, content="blink", number=number)
            answered = {"node_id": node.NODE_ID, "content": "echo blink", "number": number}
            until(lambda: bus.has("adapter/nodes/data", **answered), answered)
        post(gateway, "visual/extensions/command", node_id="eim/another", content="not for this node")
        post(gateway, "core/nodes/operate", node_name="node_another", content="stop")
        post(gateway, "core/nodes/operate", node_name="node_echo", content="start")
        time.sleep(0.5)
        check(node.is_running() and loop.is_alive(), "the node stopped without being told to")
        check(not bus.has("adapter/nodes/data", content="echo not for this node"), "another's command was answered")
        post(gateway, "core/nodes/operate", node_name="node_echo", content="stop")
        until(lambda: bus.has("core/node/statu/change", node_name=node.NODE_ID, content="stop"), "the node says it stops")
        until(lambda: not node.is_running() and not loop.is_alive(), "the node stops")


def main():
    binary = sys.argv[1]
    with tempfile.TemporaryDirectory(prefix="adapter-gateway-ci-") as home:
        # The client keeps its files in the home directory.
        os.environ["HOME"] = home
        with Gateway(binary, "--hub", "--encoding", "msgpack", bus=[]) as gateway:
            # It listens before it is connected to its hub, and answers 503 until then.
            connected = {"topic": "ci/connected", "payload": {}}
            until(lambda: gateway.post(connected)[0] == 200, "the gateway is connected to its hub")
            for test in [monitor_prints, node_answers_and_stops]:
                start = time.monotonic()
                test(gateway)
                print(f"  ok      {test.__name__} ({time.monotonic() - start:.1f} s)", flush=True)
            gateway.stop()


if __name__ == "__main__":
    main()
