"""A gateway for tests, on free ports, with a hub, a token and a settings file of its own.

>>> with adapter_gateway.testing.gateway() as gateway:
...     gateway.client.send("adapter/extensions/data", {"extension_id": "demo", "content": "hello"})
...     topic, payload = next(gateway.messages())

In pytest, the fixture `gateway` is this, without an import.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import pathlib
import re
import secrets
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import IO, Any, Optional

from .client import Client
from .command import GatewayOptions, Unpack, arguments, find_binary
from .gateway import Gateway
from .process import Event
from .settings import read_token

#: How long each step of a start may take, on a busy machine too.
START_TIMEOUT_S = 30.0
#: The time between two questions whether the subscription has arrived.
_POLL_S = 0.005
_log = logging.getLogger("adapter_gateway")
_FREE_PORT = "tcp://127.0.0.1:*"
_DEFAULTS = GatewayOptions(
    listen="127.0.0.1:0",
    plain=True,
    hub_publishers=_FREE_PORT,
    hub_subscribers=_FREE_PORT,
    # With the usual time, the hub would wait for half a second of silence. Nobody waits for messages after a test.
    drain_timeout=0.001,
)

#: A script that runs its arguments as a command, and ends it when standard input ends, whatever has ended this process.
_WITH_STDIN = '"$@" & read -r _; kill -9 $!'
#: What `listen` writes for a backslash, and for a character that would break its line.
_ESCAPE = re.compile(r"\\(?:u\{(?P<code>[0-9a-f]+)\}|(?P<letter>.))")
_LETTERS = {"t": "\t", "n": "\n", "r": "\r"}


@contextlib.contextmanager
def gateway(**options: Unpack[GatewayOptions]) -> Iterator[GatewayForTests]:
    """Runs a gateway from the beginning of a `with` block to its end. The arguments are the options of `adapter-gateway
    serve`, as `Gateway` takes them. By default the gateway speaks http. Its events and its log go to the logger
    `adapter_gateway`, which pytest shows if the test fails."""
    with tempfile.TemporaryDirectory(prefix="adapter-gateway-") as folder, contextlib.ExitStack() as stack:
        stack.callback(_log.setLevel, _log.level)
        _log.setLevel(logging.INFO)
        if options.get("settings") is None:
            options["settings"] = path = pathlib.Path(folder, "user_settings.py")
            path.touch(0o600)
            path.write_text(f"OPEN_REST_API = True\nTOKEN = {secrets.token_urlsafe(24)!r}\n")
        running = GatewayForTests(GatewayOptions(**{**_DEFAULTS, **options, "hub": True}))
        with running.launcher, running._connected():
            yield running


class GatewayForTests:
    """A gateway that runs, and a subscriber to all that it publishes."""

    #: It posts to the gateway.
    client: Client
    #: Where publishers and subscribers connect to the hub.
    hub_publishers: str
    hub_subscribers: str

    def __init__(self, options: GatewayOptions) -> None:
        #: The process, with `stats()`, `reload()` and all else that `Gateway` has.
        self.launcher = Gateway(on_event=self._take_event, start_timeout=START_TIMEOUT_S, **options)
        #: The settings file. A change counts at once.
        self.settings = pathlib.Path(options["settings"] or "")
        #: The events but `stats`, and the lines of the log, since the start.
        self.events: list[Event] = []
        self.log: list[str] = []
        self.launcher._on_log = self.log.append
        self._changed = threading.Condition()
        self._received: list[str] = []

    @property
    def url(self) -> str:
        """Where messages are posted."""
        return self.launcher.url

    @property
    def token(self) -> str:
        """The token of the settings."""
        return read_token(self.settings)

    @property
    def certificate(self) -> Optional[pathlib.Path]:
        """What clients trust, with `plain=False`."""
        return self.launcher.certificate

    def messages(self, topic: str = "", timeout_s: float = 5.0) -> Iterator[tuple[str, Any]]:
        """Returns an iterator over all messages since the start whose topic begins with this one, as topic and payload.
        If the next one does not come within this time, it raises `GatewayTimeoutError`, and can be asked again."""
        position = others = 0

        def has_more() -> bool:
            return len(self._received) > position

        def received() -> tuple[str, Any]:
            nonlocal position, others
            end = time.monotonic() + timeout_s
            with self._changed:
                while self._changed.wait_for(has_more, end - time.monotonic()):
                    name, _, payload = self._received[position].partition("\t")
                    position += 1
                    name = _ESCAPE.sub(_unescaped, name)
                    if name.startswith(topic):
                        return name, json.loads(payload)
                    others += 1
            what = f"a message whose topic begins with {topic!r}" if topic else "a message"
            reason = f"messages with other topics: {others}" if others else None
            raise self.launcher._running().late(what, timeout_s, reason)

        # A generator would end with its first error.
        return iter(received, None)

    def wait_for_subscriptions(self, count: int, timeout_s: float = 5.0) -> None:
        """Waits until the hub has this many topics that subscribers of the test's own have subscribed to, so that they
        miss no message that is posted afterwards. The same topic counts once, and `""` never, which the fixture has.
        Raises `GatewayTimeoutError`."""
        end = time.monotonic() + timeout_s
        while (seen := self.launcher.stats()["subscriptions"]) <= count:
            if time.monotonic() > end:
                raise self.launcher._running().late(f"{count} subscriptions", timeout_s, f"{max(0, seen - 1)} came")
            time.sleep(_POLL_S)

    @contextlib.contextmanager
    def _connected(self) -> Iterator[None]:
        """Finds the hub and subscribes to everything. When the block begins, messages reach the subscriber."""
        # These events precede `listening`, and the endpoints of the hub are bound last.
        bound = [event["endpoint"] for event in self.events if event.get("state") == "bound"]
        self.hub_publishers, self.hub_subscribers = bound[-2:]
        options = {"connect": self.hub_subscribers, "encoding": self.launcher._options.get("encoding")}
        listen = [str(find_binary()), "listen", *arguments(options)]
        pipe, command = subprocess.PIPE, ["/bin/sh", "-c", _WITH_STDIN, "sh", *listen]
        streams: dict[str, Any] = {"stdin": pipe, "stdout": pipe, "stderr": subprocess.DEVNULL, "encoding": "utf-8"}
        with subprocess.Popen(command, start_new_session=True, **streams) as subscriber:
            reader = threading.Thread(target=self._receive, args=(subscriber.stdout,), daemon=True)
            reader.start()
            try:
                self.wait_for_subscriptions(0, START_TIMEOUT_S)
                with self.launcher.client() as self.client:
                    yield
            finally:
                # Both end at the same time.
                self.launcher._running().let_go()
                os.killpg(subscriber.pid, signal.SIGKILL)
                reader.join()

    def _receive(self, stdout: IO[str]) -> None:
        with stdout:
            for line in stdout:
                with self._changed:
                    self._received.append(line)
                    self._changed.notify_all()

    def _take_event(self, event: Event) -> None:
        # It answers a question of the test, or of this class.
        if event["event"] != "stats":
            self.events.append(event)
            _log.info("%s", json.dumps(event))


def _unescaped(escape: re.Match[str]) -> str:
    return chr(int(escape["code"], 16)) if escape["code"] else _LETTERS.get(escape["letter"], escape["letter"])
