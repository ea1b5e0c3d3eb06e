"""The gateway as a child process, and subscribers to what it publishes."""

import http.client
import json
import queue
import secrets
import signal
import ssl
import subprocess
import tempfile
import threading
import time
from contextlib import AbstractContextManager
from pathlib import Path
from urllib.parse import urlsplit

import zmq

PATIENCE_S = 20


def check(condition, *what):
    """Raises AssertionError unless the condition is true. The option -O of Python does not remove it."""
    if not condition:
        text = " ".join(str(part) for part in what)
        raise AssertionError(text if len(text) < 4000 else text[:4000] + "...")


class Lines:
    """The lines of a pipe. A thread reads them as they arrive."""

    def __init__(self, pipe):
        self.seen = []
        self._queue = queue.Queue()
        threading.Thread(target=self._read, args=(pipe,), daemon=True).start()

    def _read(self, pipe):
        for line in pipe:
            self._queue.put(line.rstrip("\n"))
        self._queue.put(None)

    def empty(self):
        """Returns whether no line is waiting."""
        return self._queue.empty()

    def next(self, timeout=PATIENCE_S):
        """Returns the next line, or None at the end. Raises queue.Empty if no line arrives in time."""
        line = self._queue.get(timeout=timeout)
        if line is not None:
            self.seen.append(line)
        return line


class Gateway(AbstractContextManager):
    """`serve` on a free port, with settings and a token of its own. It publishes on an endpoint in its directory. With
    `unix`, it listens on a Unix socket in that directory too. `pair` may put a certificate there before."""

    def __init__(self, binary, *options, plain=True, bus=None, unix=False, pair=None):
        self.binary = binary
        self.plain = plain
        self._directory = tempfile.TemporaryDirectory(prefix="adapter-gateway-ci-")
        self.directory = Path(self._directory.name)
        self.token = secrets.token_urlsafe(24)
        self.endpoint = f"ipc://{self.directory}/bus"
        self.socket = f"{self.directory}/gateway.sock"
        settings = self.directory / "user_settings.py"
        settings.write_text(f'OPEN_REST_API = True\nTOKEN = "{self.token}"\n')
        settings.chmod(0o600)
        if pair:
            pair(self.directory)
        self.process = subprocess.Popen(
            [binary, "serve", "--settings", settings, "--listen", "127.0.0.1:0"]
            + (["--bind", self.endpoint] if bus is None else bus)
            + (["--plain"] if plain else [])
            + (["--listen", f"unix:{self.socket}"] if unix else [])
            + list(options),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._log = Lines(self.process.stderr)
        self.events = Lines(self.process.stdout)
        try:
            self.url = self._listening()["url"]
            if unix:
                event = self._listening()
                check(event["socket"] == self.socket and event["url"] == "http://localhost/api/message", event)
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise
        self.port = urlsplit(self.url).port

    def _listening(self):
        event = self.event("listening")
        if event is not None:
            return event
        status = self.process.wait(PATIENCE_S)
        raise AssertionError(f"the gateway ended with status {status}: {self.log()}")

    def event(self, name, **fields):
        """Returns the next event of this name with these fields, or None at the end of the events."""
        while (line := self.events.next()) is not None:
            event = json.loads(line)
            if event["event"] == name and fields.items() <= event.items():
                return event
        return None

    def log(self):
        """Returns what the gateway has logged so far."""
        try:
            while self._log.next(timeout=0.2) is not None:
                pass
        except queue.Empty:
            pass
        return "\n".join(self._log.seen)

    @property
    def certificate(self):
        """The file that clients trust, or None over plain http."""
        return None if self.plain else str(self.directory / "gateway-cert.pem")

    @property
    def authority(self):
        """The file that browsers import, or None over plain http."""
        return None if self.plain else str(self.directory / "gateway-ca.pem")

    @property
    def target(self):
        """The URL to which clients post messages, with the token."""
        return f"{self.url}?token={self.token}"

    def post(self, body):
        """Posts a body with the client of the standard library. Returns the status and the body of the answer."""
        if self.plain:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        else:
            context = ssl.create_default_context(cafile=self.certificate)
            connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=PATIENCE_S, context=context)
        try:
            url = urlsplit(self.target)
            body = body if isinstance(body, bytes) else json.dumps(body).encode()
            connection.request("POST", f"{url.path}?{url.query}", body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def stop(self):
        """Asks the gateway to stop, and returns its last event."""
        self.process.send_signal(signal.SIGTERM)
        stopped = self.event("stopped")
        status = self.process.wait(PATIENCE_S)
        check(status == 0, "the gateway ended with status", status, self.log())
        check(stopped is not None, "the gateway printed no event `stopped`")
        check(self.token not in self.log() + "".join(self.events.seen), "the token was logged")
        return stopped

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()
        self._directory.cleanup()


class Subscriber(AbstractContextManager):
    """A SUB socket of another libzmq, the one of pyzmq."""

    def __init__(self, endpoint):
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.SUB)
        self.socket.setsockopt(zmq.RCVTIMEO, PATIENCE_S * 1000)
        self.socket.setsockopt(zmq.RCVHWM, 0)
        self.socket.subscribe(b"")
        self.socket.connect(endpoint)

    def next(self, timeout=PATIENCE_S):
        """Returns the next message as (topic, payload frame), or None if no message arrives in time."""
        if not self.socket.poll(timeout * 1000):
            return None
        frames = self.socket.recv_multipart()
        check(len(frames) == 2, "a message of", len(frames), "frames")
        return frames[0].decode(), frames[1]

    def __exit__(self, *_):
        self.context.destroy(linger=0)


class Listener(AbstractContextManager):
    """`listen`, the gateway's own subscriber, as a child process."""

    def __init__(self, binary, *options):
        self.process = subprocess.Popen(
            [binary, "listen", *options], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )
        self.lines = Lines(self.process.stdout)

    def next(self, timeout=PATIENCE_S):
        """Returns the next message as (topic, payload as text), or None if no message arrives in time."""
        try:
            line = self.lines.next(timeout)
        except queue.Empty:
            return None
        check(line is not None, "listen ended by itself")
        topic, payload = line.split("\t")
        return topic, payload

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            status = self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        self.process.stdout.close()
        check(status == 0, "listen ended with status", status)


def until_received(gateway, subscribers, topic="ci/ready"):
    """Posts until every subscriber receives messages. Then discards what they have received."""
    waiting = list(subscribers)
    deadline = time.monotonic() + PATIENCE_S
    number = 0
    while waiting:
        check(time.monotonic() < deadline, "a subscriber never received anything")
        number += 1
        status, answer = gateway.post({"topic": topic, "payload": {"number": number}})
        check(status == 200, status, answer)
        waiting = [subscriber for subscriber in waiting if subscriber.next(timeout=0.1) is None]
    received_until_marker(gateway, subscribers)


def received_until_marker(gateway, subscribers):
    """Posts a marker, and returns what each subscriber received before it."""
    marker = {"topic": f"ci/marker/{secrets.token_hex(8)}", "payload": {}}
    status, answer = gateway.post(marker)
    check(status == 200, status, answer)
    received = []
    for subscriber in subscribers:
        messages = []
        while (message := subscriber.next()) is not None and message[0] != marker["topic"]:
            messages.append(message)
        check(message is not None, "a message was lost: the marker was not received")
        received.append(messages)
    return received
