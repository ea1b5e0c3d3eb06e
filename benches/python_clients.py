"""Compares Python clients of the gateway: messages a second, in one run, against one gateway.

    python3 benches/python_clients.py --gateway target/release/adapter-gateway

It needs `pip install aiohttp httpx requests`; a client that is not installed is left out and named. Each client posts
dicts, one after the other, each with another content, and fails on an answer that is not 200. At the end the gateway
must have published as many messages as the clients counted. The clients take turns, round by round, and a ratio is
taken within a round.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))

import adapter_gateway
import adapter_gateway.aio

TOKEN = "a-token-of-the-bench"
TOPIC = "adapter/extensions/data"
AIMS = (
    ("send_many", "requests.Session", 100.0),
    ("send_many", "aiohttp", 15.0),
    ("send", "http.client", 0.9),
    ("send_many, Unix socket", "send_many", 1.0),
    ("send, Unix socket", "send", 1.0),
)


def payloads() -> Iterator[Dict[str, str]]:
    """Yields payloads without end."""
    number = 0
    while True:
        number += 1
        yield {"extension_id": "demo", "content": f"hello {number}"}


def messages(deadline: float) -> Iterator[Tuple[str, Dict[str, str]]]:
    """Yields messages until the time is over."""
    for payload in payloads():
        if time.perf_counter() >= deadline:
            return
        yield TOPIC, payload


class Gateway:
    """A gateway on a free port and a Unix socket, whose messages nobody subscribes to."""

    def __init__(self, program: str, tls: bool) -> None:
        self._directory = tempfile.TemporaryDirectory()
        directory = pathlib.Path(self._directory.name)
        settings = directory / "user_settings.py"
        settings.touch(mode=0o600)
        settings.write_text(f"OPEN_REST_API = True\nTOKEN = {TOKEN!r}\n")
        self.socket = None if tls else directory / "http"
        options = ["--settings", str(settings), "--listen", "127.0.0.1:0", "--bind", f"ipc://{directory}/bus"]
        options += [] if tls else ["--plain", "--listen", f"unix:{self.socket}"]
        self.certificate = directory / "gateway-cert.pem" if tls else None
        self._process = subprocess.Popen(
            [program, "serve", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = json.loads(line)
            if event["event"] == "listening" and "socket" not in event:
                self.url = event["url"]
            if event["event"] == "ready":
                return
        raise SystemExit(f"the gateway does not start: {self._process.communicate()[1]}")

    def stop(self) -> int:
        """Stops it. Returns how many messages it published."""
        self._process.terminate()
        lines = self._process.communicate()[0].splitlines()
        self._directory.cleanup()
        published = json.loads(lines[-1])["published"]
        assert isinstance(published, int)
        return published


def one_by_one(post: Callable[[Dict[str, str]], object], deadline: float) -> int:
    """Posts until the time is over. Returns how many messages were posted."""
    count = 0
    for payload in payloads():
        post(payload)
        count += 1
        if time.perf_counter() >= deadline:
            break
    return count


def with_requests(gateway: Gateway, deadline: float) -> int:
    import requests

    verify = str(gateway.certificate) if gateway.certificate else True

    def post(payload: Dict[str, str]) -> None:
        body = {"topic": TOPIC, "payload": payload}
        requests.post(gateway.url, params={"token": TOKEN}, json=body, verify=verify, timeout=10).raise_for_status()

    return one_by_one(post, deadline)


def with_requests_session(gateway: Gateway, deadline: float) -> int:
    import requests

    verify = str(gateway.certificate) if gateway.certificate else True
    with requests.Session() as session:

        def post(payload: Dict[str, str]) -> None:
            body = {"topic": TOPIC, "payload": payload}
            session.post(gateway.url, params={"token": TOKEN}, json=body, verify=verify, timeout=10).raise_for_status()

        return one_by_one(post, deadline)


def with_httpx(gateway: Gateway, deadline: float) -> int:
    import httpx

    with httpx.Client(verify=ssl_context(gateway) or True, timeout=10) as client:

        def post(payload: Dict[str, str]) -> None:
            body = {"topic": TOPIC, "payload": payload}
            client.post(gateway.url, params={"token": TOKEN}, json=body).raise_for_status()

        return one_by_one(post, deadline)


def with_aiohttp(gateway: Gateway, deadline: float) -> int:
    import aiohttp

    async def run() -> int:
        source, count = payloads(), 0
        # With 64 tasks, each with a connection, aiohttp posts more than with one task.
        async with aiohttp.ClientSession() as session:

            async def post_some() -> None:
                nonlocal count
                context = ssl_context(gateway)
                while time.perf_counter() < deadline:
                    body = {"topic": TOPIC, "payload": next(source)}
                    options: Dict[str, Any] = {"ssl": context} if context else {}
                    async with session.post(gateway.url, params={"token": TOKEN}, json=body, **options) as answer:
                        answer.raise_for_status()
                        await answer.read()
                    count += 1

            await asyncio.gather(*(post_some() for _ in range(AIOHTTP_TASKS)))
        return count

    return asyncio.run(run())


AIOHTTP_TASKS = 64


def with_http_client(gateway: Gateway, deadline: float) -> int:
    parts = urllib.parse.urlsplit(gateway.url)
    context = ssl_context(gateway)
    host = parts.hostname or ""
    connection = (
        http.client.HTTPSConnection(host, parts.port, context=context)
        if context
        else http.client.HTTPConnection(host, parts.port)
    )
    connection.connect()
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def post(payload: Dict[str, str]) -> None:
        body = json.dumps({"topic": TOPIC, "payload": payload})
        target = f"{parts.path}?token={TOKEN}"
        connection.request("POST", target, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200

    try:
        return one_by_one(post, deadline)
    finally:
        connection.close()


def with_send(gateway: Gateway, deadline: float, address: Any = None) -> int:
    certificate = None if address else gateway.certificate
    with adapter_gateway.Client(address or gateway.url, TOKEN, certificate) as client:
        return one_by_one(lambda payload: client.send(TOPIC, payload), deadline)


def with_send_many(gateway: Gateway, deadline: float, address: Any = None) -> int:
    certificate = None if address else gateway.certificate
    count = 0
    with adapter_gateway.Client(address or gateway.url, TOKEN, certificate) as client:
        for outcome in client.send_many(messages(deadline)):
            outcome.check()
            count += 1
    return count


def with_aio_send(gateway: Gateway, deadline: float) -> int:
    async def run() -> int:
        count = 0
        async with adapter_gateway.aio.Client(gateway.url, TOKEN, gateway.certificate) as client:
            for topic, payload in messages(deadline):
                await client.send(topic, payload)
                count += 1
        return count

    return asyncio.run(run())


def with_aio_send_many(gateway: Gateway, deadline: float) -> int:
    async def run() -> int:
        count = 0
        async with adapter_gateway.aio.Client(gateway.url, TOKEN, gateway.certificate) as client:
            async for outcome in client.send_many(messages(deadline)):
                outcome.check()
                count += 1
        return count

    return asyncio.run(run())


def ssl_context(gateway: Gateway) -> Any:
    import ssl

    return ssl.create_default_context(cafile=str(gateway.certificate)) if gateway.certificate else None


def clients(gateway: Gateway) -> Dict[str, Callable[[float], int]]:
    """Returns each client with a function that posts until a time, and returns how many messages it posted."""
    from functools import partial

    found: Dict[str, Callable[[float], int]] = {
        "requests": partial(with_requests, gateway),
        "requests.Session": partial(with_requests_session, gateway),
        "httpx.Client": partial(with_httpx, gateway),
        "aiohttp": partial(with_aiohttp, gateway),
        "http.client": partial(with_http_client, gateway),
        "send": partial(with_send, gateway),
        "aio send": partial(with_aio_send, gateway),
        "send_many": partial(with_send_many, gateway),
        "aio send_many": partial(with_aio_send_many, gateway),
    }
    if gateway.socket is not None:
        found["send, Unix socket"] = partial(with_send, gateway, address=gateway.socket)
        found["send_many, Unix socket"] = partial(with_send_many, gateway, address=gateway.socket)
    return found


def warm_up(gateway: Gateway) -> Tuple[int, Set[str]]:
    """Imports each client and posts a message or none. Returns how many were posted, and what is not installed."""
    sent, absent = 0, set()
    for name, run in clients(gateway).items():
        try:
            sent += run(time.perf_counter())
        except ModuleNotFoundError as error:
            absent.add(name)
            print(f"skipped: {name}: {error.name} is not installed", file=sys.stderr)
    return sent, absent


def measure(gateway: Gateway, rounds: int, seconds: float, only: Optional[List[str]]) -> Dict[str, List[float]]:
    """Returns the messages a second of each client, round by round."""
    rates: Dict[str, List[float]] = {}
    sent, absent = warm_up(gateway)
    for number in range(rounds):
        order = [item for item in clients(gateway).items() if item[0] not in absent and (not only or item[0] in only)]
        for name, run in reversed(order) if number % 2 else order:
            start = time.perf_counter()
            count = run(start + seconds)
            rates.setdefault(name, []).append(count / (time.perf_counter() - start))
            sent += count
    published = gateway.stop()
    assert published == sent, f"the gateway published {published} messages, and the clients sent {sent}"
    return rates


def show(title: str, rates: Dict[str, List[float]]) -> None:
    """Prints the tables in Markdown."""
    print(f"### {title}\n\n| client | messages a second | beside `requests.Session` |\n|---|--:|--:|")
    for name, values in sorted(rates.items(), key=lambda item: statistics.median(item[1])):
        beside = ratio(rates, name, "requests.Session")
        print(f"| {name} | {statistics.median(values):,.0f} | {f'{beside[0]:.1f}' if beside else ''} |")
    print("\n| client | beside | ratio of messages a second | range | aim | met |\n|---|---|--:|--:|--:|---|")
    for name, other, aim in AIMS:
        found = ratio(rates, name, other)
        if found:
            median, low, high = found
            met = "yes" if median >= aim else "no"
            print(f"| {name} | {other} | {median:.2f} | {low:.2f}-{high:.2f} | ≥ {aim:g} | {met} |")
    print()


def ratio(rates: Dict[str, List[float]], name: str, other: str) -> Optional[Tuple[float, float, float]]:
    """Returns the median, the least and the largest ratio of two clients in the rounds."""
    if name not in rates or other not in rates:
        return None
    ratios = [mine / theirs for mine, theirs in zip(rates[name], rates[other])]
    return statistics.median(ratios), min(ratios), max(ratios)


def main() -> None:
    parser = argparse.ArgumentParser(description="Compares Python clients of the gateway.")
    parser.add_argument("--gateway", default="target/release/adapter-gateway", help="the program")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.7, help="how long a client posts in a round")
    parser.add_argument("--tls", action="store_true", help="https instead of http")
    parser.add_argument("--only", action="append", help="only this client; can be repeated")
    options = parser.parse_args()
    gateway = Gateway(options.gateway, options.tls)
    rates = measure(gateway, options.rounds, options.seconds, options.only)
    show("https" if options.tls else "http", rates)


if __name__ == "__main__":
    main()
