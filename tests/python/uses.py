"""Uses of the package that mypy and pyright accept. Nothing runs this file."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Mapping
from typing import TypedDict

from adapter_gateway import Client, Event, Gateway, GatewayOptions, RefusedError, SendError, aio, testing


class Hello(TypedDict):
    extension_id: str
    content: str


def payloads(client: Client, hello: Hello, mapping: Mapping[str, int]) -> None:
    client.send("t", hello)
    client.send("t", mapping)
    client.send("t", {"n": [1, None, {}]})
    client.send("t", '{"n": 1}')
    client.send("t", b'{"n": 1}')


def outcomes(client: Client) -> list[int]:
    statuses = []
    with contextlib.closing(client.send_many([("t", {}), ("t", "{}")])) as found:
        for outcome in found:
            if isinstance(outcome.error, RefusedError):
                statuses.append(outcome.error.status)
            elif outcome.error is not None:
                unknown: SendError = outcome.error
                print(unknown.message, outcome.message)
            elif outcome and outcome.accepted and not outcome.refused and not outcome.unknown:
                outcome.check()
    return statuses


async def asynchronously(client: aio.Client) -> None:
    outcomes = client.send_many([("t", {})])
    try:
        async for outcome in outcomes:
            outcome.check()
    finally:
        await outcomes.aclose()
    events: asyncio.Queue[Event] = asyncio.Queue()
    async with aio.Gateway(plain=True, on_event=events.put_nowait) as gateway:
        await gateway.wait_until("listening", timeout_s=1)
        print((await events.get())["event"])


def launch(options: GatewayOptions) -> None:
    with Gateway(settings="user_settings.py", hub=True, start_timeout=5) as gateway, gateway.client() as client:
        client.send("t", {})
    Gateway(**options)
    with Gateway(until="started", restart=True, on_state=lambda state: print(state.reason or "on")) as gateway:
        is_on, reason = gateway.state
        print(is_on and 1, reason is not None and len(reason))
        gateway.wait_until("ready", None)
    with socket.create_server(("127.0.0.1", 0)) as listener, Gateway(listen=["127.0.0.1:0", listener]) as gateway:
        print(gateway.replace()["event"])


def test(options: GatewayOptions) -> str:
    with testing.gateway(encoding="msgpack", plain=False) as gateway, testing.gateway(**options):
        gateway.client.send("t", {})
        for topic, payload in gateway.messages("t", timeout_s=1):
            print(topic, payload["content"], gateway.hub_publishers, gateway.hub_subscribers)
    return gateway.url + gateway.token
