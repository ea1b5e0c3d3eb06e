"""Runs the adapter's public client, unchanged, on the gateway's embedded hub: `adapter_client.py GATEWAY`.

codelab-adapter-client 4.4.2 connects to tcp://127.0.0.1:16130 and :16103, speaks MessagePack, and asks for no token.
The extensions of docs/extensions.md run as they stand there.
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

from gateway import PATIENCE_S, Gateway, Lines, Listener, Subscriber, check

HUB = "tcp://127.0.0.1:16103"
DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "extensions.md").read_text()


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


class Program(AbstractContextManager):
    """A program that uses the client, and what it prints to both streams."""

    def __init__(self, *command):
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
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
    # It prints `topic payload` for each message.
    with Program(Path(sys.executable).with_name("codelab-message-monitor")) as monitor:

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


def block(mark):
    """Returns the block of code of the page that follows a mark."""
    return PAGE.split(f"<!-- {mark} -->\n```")[1].split("```")[0].split("\n", 1)[1]


def extension_of_the_page():
    return Program(sys.executable, "-c", block("run: extension"))


def page_extension_answers(gateway):
    """What the page says of `--vocabulary older`: names are translated for the client, except on its own topic."""
    target = "eim/node_echo"
    expected = block("seen: extension").splitlines()
    with Listener(gateway.binary, "--encoding", "msgpack") as listener, extension_of_the_page() as extension:

        def printed(line):
            while not listener.lines.empty():
                listener.next()
            return line in listener.lines.seen

        def ready():
            post(gateway, "visual/extensions/command", extension_id=target, content="ready")
            return printed(f'adapter/nodes/data\t{{"content":"echo ready","node_id":"{target}"}}')

        until(ready, "the extension answers")
        post(gateway, "scratch/extensions/command", extension_id=target, content="of a newer name")
        post(gateway, "scratch/extensions/command", node_id=target, content="of an older name")
        post(gateway, "visual/extensions/command", extension_id=target, content="hello")
        until(lambda: printed(expected[-1]), expected[-1])
        check(expected == [line for line in listener.lines.seen if "hello" in line], listener.lines.seen)
        answers = [line for line in listener.lines.seen if "echo of" in line]
        check(len(answers) == 1 and "an older name" in answers[0], answers)
        post(gateway, "core/extensions/operate", extension_name="node_echo", content="stop")
        post(gateway, "core/nodes/operate", node_id="eim/another", content="stop")
        time.sleep(0.5)
        check(extension.process.poll() is None, "the extension stopped without being told to")
        post(gateway, "core/nodes/operate", node_id="all", content="stop")
        check(extension.process.wait(PATIENCE_S) == 0, extension.printed())


def names_stay_as_sent(gateway):
    """Without `--vocabulary`, the client ignores the newer names."""
    with extension_of_the_page() as extension, Bus() as bus:

        def ready():
            post(gateway, "visual/extensions/command", node_id="eim/node_echo", content="ready")
            return bus.has("adapter/nodes/data", content="echo ready")

        until(ready, "the extension answers")
        post(gateway, "visual/extensions/command", extension_id="eim/node_echo", content="newer")
        post(gateway, "core/nodes/operate", extension_name="node_echo", content="stop")
        time.sleep(0.5)
        check(not bus.has("adapter/nodes/data", content="echo newer"), "a newer name was understood")
        check(extension.process.poll() is None, "the extension stopped by a newer name")
        post(gateway, "core/nodes/operate", node_name="node_echo", content="stop")
        check(extension.process.wait(PATIENCE_S) == 0, extension.printed())


def plain_extension_answers(gateway):
    """The extension of the page on pyzmq alone, which reads JSON."""
    expected = block("seen: pyzmq").splitlines()
    with Listener(gateway.binary) as listener, Program(sys.executable, "-c", block("run: pyzmq")):

        def answered():
            post(gateway, "visual/extensions/command", extension_id="echo", content="hello")
            while not listener.lines.empty():
                listener.next()
            return expected[-1] in listener.lines.seen

        until(answered, expected[-1])
        check(set(expected) == set(listener.lines.seen), listener.lines.seen)


def json_is_not_read(gateway):
    said = "unpack(b) received extra data."
    page = (DOCS / "troubleshooting.md").read_text()
    check(f"`{said}`" in page, "the page does not have what the client prints")
    with extension_of_the_page() as extension:

        def refused():
            post(gateway, "visual/extensions/command", node_id="eim/node_echo", content="hello")
            return said in extension.printed()

        until(refused, "the client says that it cannot read JSON")


RUNS = [
    (["--encoding", "msgpack"], [monitor_prints, node_answers_and_stops, names_stay_as_sent]),
    (["--encoding", "msgpack", "--vocabulary", "older"], [page_extension_answers]),
    ([], [json_is_not_read, plain_extension_answers]),
]


def test_of_the_page_passes(binary, home):
    """Runs the examples of docs/ci.md, as they stand, with the fixture of the package."""
    page = (DOCS / "ci.md").read_text()
    for name in ("extension", "adapter"):
        example = page.split(f"<!-- run: {name} -->\n```python\n")[1].split("```")[0]
        (Path(home) / f"test_{name}.py").write_text(example)
    environment = {**os.environ, "ADAPTER_GATEWAY": binary, "PYTHONPATH": str(DOCS.parent / "python")}
    command = [sys.executable, "-m", "pytest", "--quiet", "-p", "no:cacheprovider", "-p", "adapter_gateway.pytest_plugin"]
    subprocess.run([*command, "test_extension.py", "test_adapter.py"], cwd=home, env=environment, check=True, timeout=PATIENCE_S)


def main():
    binary = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="adapter-gateway-ci-") as home:
        # The client keeps its files in the home directory.
        os.environ["HOME"] = home
        test_of_the_page_passes(binary, home)
        for options, tests in RUNS:
            with Gateway(binary, "--hub", *options, bus=[]) as gateway:
                # It listens before it is connected to its hub, and answers 503 until then.
                connected = {"topic": "ci/connected", "payload": {}}
                until(lambda: gateway.post(connected)[0] == 200, "the gateway is connected to its hub")
                for test in tests:
                    start = time.monotonic()
                    test(gateway)
                    print(f"  ok      {test.__name__} ({time.monotonic() - start:.1f} s)", flush=True)
                gateway.stop()


if __name__ == "__main__":
    main()
