"""Uses of the package that mypy and pyright accept. Nothing runs this file."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TypedDict

from adapter_gateway import Client, Gateway, GatewayOptions, RefusedError, SendError, aio, testing


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
    async with aio.Gateway(plain=True) as gateway:
        await gateway.wait_until("listening", timeout_s=1)
        async for event in gateway.events():
            print(event["event"])


def launch(options: GatewayOptions) -> None:
    with Gateway(settings="user_settings.py", hub=True, start_timeout=5) as gateway, gateway.client() as client:
        client.send("t", {})
    Gateway(**options)
    with Gateway(until="started", restart=True) as gateway:
        gateway.wait_until("ready", None)
        for event in gateway.events():
            print(event["event"])


def test(options: GatewayOptions) -> str:
    with testing.gateway(encoding="msgpack", plain=False) as gateway, testing.gateway(**options):
        gateway.client.send("t", {})
        for topic, payload in gateway.messages("t", timeout_s=1):
            print(topic, payload["content"], gateway.hub_publishers, gateway.hub_subscribers)
    return gateway.url + gateway.token
