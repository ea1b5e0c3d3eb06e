"""What the tests of the clients share: a gateway as a child process, a subscriber, a server that behaves as told, and
both clients behind the same blocking methods."""

from __future__ import annotations

import asyncio
import contextlib
import json
import pathlib
import signal
import socket
import subprocess
import threading
import time
from typing import Any, AsyncIterator, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

import adapter_gateway
import adapter_gateway.aio

TOKEN = "t0ken & more/%"

#: How long anything may take, on a busy machine too.
PATIENCE_S = 60.0


class Gateway:
    """A gateway. It is killed at the end of the test."""

    def __init__(self, directory: pathlib.Path, *options: str, settings: Optional[str] = None) -> None:
        self.settings = directory / "user_settings.py"
        self.settings.touch(mode=0o600)
        self.settings.write_text(settings or f"OPEN_REST_API = True\nTOKEN = {TOKEN!r}\n")
        self.certificate = directory / "gateway-cert.pem"
        self.events: Dict[str, Dict[str, Any]] = {}
        command = [str(adapter_gateway.find_binary()), "serve", "--settings", str(self.settings), *options]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = json.loads(line)
            with self._changed:
                self.events[event["event"]] = event
                self._changed.notify_all()

    def event(self, name: str) -> Dict[str, Any]:
        """Waits for an event, and returns it."""
        with self._changed:
            assert self._changed.wait_for(lambda: name in self.events, PATIENCE_S), f"no {name} in {self.events}"
            return self.events[name]

    @property
    def socket(self) -> Optional[str]:
        """The path of its Unix socket, if it listens on one."""
        return self.event("listening").get("socket")

    @property
    def url(self) -> str:
        """Where messages are posted."""
        return str(self.event("listening")["url"])

    def ready(self) -> "Gateway":
        """Waits until messages are taken."""
        self.event("ready")
        return self

    def stats(self) -> Dict[str, Any]:
        """Returns the counters of now."""
        with self._changed:
            self.events.pop("stats", None)
        self._process.send_signal(signal.SIGUSR1)
        return self.event("stats")

    def terminate(self) -> None:
        """Asks it to stop."""
        self._process.send_signal(signal.SIGTERM)

    def stop(self) -> Dict[str, Any]:
        """Stops it. Returns its last event."""
        self.terminate()
        assert self._process.wait(PATIENCE_S) == 0
        self._reader.join(PATIENCE_S)
        return self.event("stopped")

    def freeze(self) -> None:
        """Stops it as if it hung."""
        self._process.send_signal(signal.SIGSTOP)
        deadline = time.monotonic() + PATIENCE_S
        # The letter behind the name is the state of the process.
        while pathlib.Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
            assert time.monotonic() < deadline, "the gateway does not stop"
            time.sleep(0.01)

    def kill(self) -> None:
        """Kills it."""
        self._process.kill()
        self._process.wait(PATIENCE_S)


@contextlib.contextmanager
def gateway(directory: pathlib.Path, *options: str, over: str = "http") -> Iterator[Gateway]:
    """Runs a gateway that publishes on an endpoint of its own, unless the options say otherwise.

    `over` is `http`, `https`, or `unix` for a Unix socket."""
    address = f"unix:{directory}/http" if over == "unix" else "127.0.0.1:0"
    listen = () if any(option == "--listen" for option in options) else ("--listen", address)
    bus = () if any(option in ("--connect", "--bind") for option in options) else ("--bind", f"ipc://{directory}/bus")
    running = Gateway(directory, *listen, *bus, *(("--plain",) if over == "http" else ()), *options)
    try:
        running.event("listening")
        yield running
    finally:
        running.kill()


def client_of(running: Gateway, kind: type, **options: Any) -> Any:
    """Returns a client of that gateway."""
    if running.socket is not None:
        return kind(running.socket, TOKEN, **{"timeout_s": PATIENCE_S, **options})
    certificate = running.certificate if running.url.startswith("https") else None
    return kind(running.url, TOKEN, certificate, **{"timeout_s": PATIENCE_S, **options})


class AsyncClient:
    """The client for asyncio, with the methods of the other one."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._client = adapter_gateway.aio.Client(*arguments, **options)

    def send(self, topic: str, payload: Any) -> None:
        self._loop.run_until_complete(self._client.send(topic, payload))

    def send_many(self, messages: Iterable[Any], in_flight: int = 64, **options: Any) -> Iterator[Any]:
        outcomes = self._client.send_many(messages, in_flight, **options)
        try:
            while True:
                try:
                    outcome = self._loop.run_until_complete(outcomes.__anext__())
                except StopAsyncIteration:
                    return
                yield outcome
        finally:
            self._loop.run_until_complete(outcomes.aclose())  # type: ignore[attr-defined]

    def close(self) -> None:
        if not self._loop.is_closed():
            self._loop.run_until_complete(self._client.close())
            self._loop.run_until_complete(asyncio.sleep(0))
            self._loop.close()

    def __enter__(self) -> "AsyncClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


BOTH = [adapter_gateway.Client, AsyncClient]


async def slowly(messages: Iterable[Any], pause: Callable[[], Any]) -> AsyncIterator[Any]:
    """Yields what an iterable does, with an await between."""
    for message in messages:
        await pause()
        yield message


class Subscriber:
    """A subscriber to everything. libzmq takes `ahead` messages before they are received; 0 is no bound."""

    def __init__(self, endpoint: str, bind: bool = False, ahead: int = 0) -> None:
        import zmq

        self._socket = zmq.Context.instance().socket(zmq.SUB)
        self._socket.setsockopt(zmq.RCVTIMEO, int(PATIENCE_S * 1000))
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.RCVHWM, ahead)
        self._socket.setsockopt(zmq.SUBSCRIBE, b"")
        if bind:
            self._socket.bind(endpoint)
        else:
            self._socket.connect(endpoint)

    def receive(self) -> Tuple[str, Any]:
        """Waits for a message, and returns it."""
        topic, payload = self._socket.recv_multipart()
        return topic.decode(), json.loads(payload)

    def rest(self, quiet_s: float = 1.0) -> List[Tuple[str, Any]]:
        """Returns what comes until nothing has come for some time."""
        seen = []
        while self._socket.poll(int(quiet_s * 1000)):
            seen.append(self.receive())
        return seen

    def all_until(self, sent: threading.Event) -> List[Tuple[str, Any]]:
        """Returns what comes until everything was sent, and what comes then until nothing has come for some time."""
        seen = []
        while not sent.is_set():
            seen.extend(self.rest(0.1))
        return seen + self.rest()

    def close(self) -> None:
        self._socket.close()


def subscribed(client: Any, subscriber: Subscriber) -> None:
    """Waits until a subscriber sees what the client sends."""
    for _ in range(int(PATIENCE_S * 20)):
        client.send("sync", {})
        if subscriber._socket.poll(50):
            break
    else:
        raise AssertionError("the subscriber sees nothing")
    subscriber.rest(0.2)


class StandIn:
    """A server of which each connection is served by the next of some functions, the last one also further ones."""

    def __init__(self, *scripts: Callable[["Peer"], None]) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._scripts = scripts
        self.connections = 0
        self.bodies: List[List[bytes]] = []
        self.failures: List[BaseException] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                accepted, _ = self._listener.accept()
                accepted.settimeout(PATIENCE_S)
                script = self._scripts[min(self.connections, len(self._scripts) - 1)]
                self.connections += 1
                bodies: List[bytes] = []
                self.bodies.append(bodies)
                threading.Thread(target=self._serve, args=(script, Peer(accepted, bodies)), daemon=True).start()

    def _serve(self, script: Callable[["Peer"], None], peer: "Peer") -> None:
        try:
            script(peer)
        except OSError:
            pass
        except BaseException as error:
            self.failures.append(error)
        finally:
            peer.close()

    def close(self) -> None:
        self._listener.close()
        assert not self.failures, self.failures


ACCEPT = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 21\r\n\r\n{"status":"accepted"}'


def answer(status: int, body: Any = None, *fields: str) -> bytes:
    """Returns an answer with a problem document."""
    content = json.dumps({"type": f"urn:test:{status}", "detail": "no"} if body is None else body).encode()
    lines = ["Content-Type: application/problem+json", f"Content-Length: {len(content)}", *fields]
    return (
        f"HTTP/1.1 {status} Words\r\n".encode() + "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n" + content
    )


class Peer:
    """A connection of the stand-in."""

    def __init__(self, accepted: socket.socket, bodies: List[bytes]) -> None:
        self.socket = accepted
        self.bodies = bodies
        #: The token of the last request.
        self.token = b""
        self._file = accepted.makefile("rb")

    def request(self) -> Optional[bytes]:
        """Returns the body of the next request; `None` at the end of the connection."""
        length = 0
        line = self._file.readline()
        if not line:
            return None
        assert line.startswith((b"POST /api/message HTTP/1.1", b"POST /api/message?token=")), line
        self.token = line.split(b" ")[1].partition(b"=")[2]
        while line not in (b"\r\n", b""):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
            elif name == b"Authorization":
                self.token = value.strip().partition(b"Bearer ")[2]
            line = self._file.readline()
        body = self._file.read(length)
        if len(body) < length:
            return None
        self.bodies.append(body)
        return body

    def answer(self, data: bytes = ACCEPT) -> None:
        self.socket.sendall(data)

    def accept_all(self) -> None:
        """Accepts every request until the client ends the connection."""
        while self.request() is not None:
            self.answer()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self._file.close()
        self.socket.close()

    def reset(self) -> None:
        """Ends the connection with a reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self._file.close()
        self.socket.close()


@contextlib.contextmanager
def stand_in(*scripts: Callable[[Peer], None]) -> Iterator[StandIn]:
    """Runs a stand-in."""
    server = StandIn(*scripts)
    try:
        yield server
    finally:
        server.close()


def numbered(count: int, start: int = 0) -> List[Tuple[str, Dict[str, int]]]:
    """Returns messages that differ."""
    return [("t", {"n": number}) for number in range(start, start + count)]


def words(outcomes: Iterable[Any]) -> List[str]:
    """Returns each outcome as a word, or as the status of its refusal."""
    return [
        "accepted" if outcome.accepted else str(outcome.error.status) if outcome.refused else "unknown"
        for outcome in outcomes
    ]
