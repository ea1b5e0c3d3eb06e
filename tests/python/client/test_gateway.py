"""Both clients with a real gateway and a real subscriber."""

from __future__ import annotations

import asyncio
import contextlib
import json
import multiprocessing
import os
import pickle
import socket
import threading

import pytest
from rig import BOTH, PATIENCE_S, TOKEN, AsyncClient, Subscriber, client_of, gateway, numbered, subscribed, words

import adapter_gateway
import adapter_gateway.aio
from adapter_gateway import GatewayError, NotSentError, RefusedError

both = pytest.mark.parametrize("kind", BOTH)
everywhere = pytest.mark.parametrize("over", ["http", "https", "unix"])

#: A message of each kind of refusal that does not end the connection, and one that ends it.
REFUSED = [
    (("t", b"{"), 400, "not-json", None),
    (("t", b"[]"), 422, "not-a-message", "/payload"),
    (("", {}), 422, "not-a-message", "/topic"),
    (("core/exts/operate", {"node_name": "x", "content": "run"}), 422, "not-a-message", "/payload/content"),
    (("t", {"s": "\ud800"}), 422, "not-a-message", "/payload/s"),
    (("t", {"s": "x" * 1_100_000}), 413, "body-too-large", None),
]


@both
@everywhere
def test_messages_arrive_in_order_as_they_were_sent(kind, over, tmp_path):
    with gateway(tmp_path, over=over) as running, client_of(running.ready(), kind) as client:
        with contextlib.closing(Subscriber(f"ipc://{tmp_path}/bus")) as subscriber:
            subscribed(client, subscriber)
            client.send("first", {"ü": ["x", 1.5, None]})
            assert words(client.send_many(iter(numbered(1000)))) == ["accepted"] * 1000
            client.send("last", '{"as": "it  stands"}')
            assert subscriber.receive() == ("first", {"ü": ["x", 1.5, None]})
            assert [subscriber.receive() for _ in range(1000)] == numbered(1000)
            assert subscriber.receive() == ("last", {"as": "it  stands"})
        stopped = running.stop()
        assert stopped["accepted"] == stopped["published"] == stopped["answers"]["200"]
        assert stopped["connections_accepted"] == 1


@both
@everywhere
def test_send_raises_what_was_refused(kind, over, tmp_path):
    with gateway(tmp_path, over=over) as running, client_of(running.ready(), kind) as client:
        for message, status, problem, pointer in REFUSED:
            with pytest.raises(RefusedError) as raised:
                client.send(*message)
            error = raised.value
            assert (error.status, error.type) == (status, f"urn:adapter-gateway:problem:{problem}"), error
            assert error.pointer == pointer and error.detail and str(status) in str(error)
            again = pickle.loads(pickle.dumps(error))
            assert (str(again), again.status, again.pointer) == (str(error), status, pointer)
            client.send("t", {})


@both
@everywhere
@pytest.mark.parametrize("in_flight", [1, 2, 64, 1000])
def test_refusals_of_every_kind_between_accepted_messages(kind, over, in_flight, tmp_path):
    with gateway(tmp_path, over=over) as running, client_of(running.ready(), kind) as client:
        messages, expected = [], []
        for message, status, _, _ in REFUSED * 3:
            messages += [message, *numbered(10)]
            expected += [str(status), *["accepted"] * 10]
        outcomes = list(client.send_many(messages, in_flight))
        assert words(outcomes) == expected
        for message, outcome in zip(messages, outcomes):
            assert outcome.accepted or outcome.error.message is message
        answers = running.stop()["answers"]
        # What was behind a 413 on its connection was not read before, and was sent once more: nothing came twice.
        assert answers == {"200": 180, "400": 3, "413": 3, "422": 12}


@both
def test_a_wrong_token_is_refused_for_each_message(kind, tmp_path):
    with gateway(tmp_path) as running, kind(running.ready().url, "wrong") as client:
        with pytest.raises(RefusedError) as raised:
            client.send("t", {})
        assert raised.value.status == 401 and "wrong" not in str(raised.value)
        assert words(client.send_many(numbered(200))) == ["401"] * 200


@both
@everywhere
def test_large_payloads(kind, over, tmp_path):
    with gateway(tmp_path, over=over) as running, client_of(running.ready(), kind) as client:
        messages = [("t", {"s": "x" * (1_000_000 - number)}) for number in range(20)]
        assert words(client.send_many(messages)) == ["accepted"] * 20
        client.send(*messages[0])
        assert running.stop()["published"] == 21


@both
def test_a_certificate_that_is_not_trusted_ends_the_attempt(kind, tmp_path, monkeypatch):
    with gateway(tmp_path, over="https") as running:
        other = tmp_path / "other"
        other.mkdir()
        with gateway(other, over="https") as second:
            second.ready()
            for certificate in (None, second.certificate):
                with kind(running.ready().url, TOKEN, certificate) as client:
                    for post in (lambda: client.send("t", {}), lambda: list(client.send_many(numbered(1)))):
                        with pytest.raises(NotSentError, match="not trusted"):
                            post()
        look_up = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", lambda host, *rest, **more: look_up("127.0.0.1", *rest, **more))
        with kind(running.url.replace("127.0.0.1", "other.example"), TOKEN, running.certificate) as client:
            cure = "has other names; start the gateway with `--cert-name other.example`, and trust its new gateway-cert.pem"
            with pytest.raises(NotSentError, match=cure):
                client.send("t", {})


@both
@everywhere
def test_a_proxy_of_the_environment_is_not_used(kind, over, tmp_path, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        for name in ("https_proxy", "http_proxy", "all_proxy", "HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.getsockname()[1]}")
        with gateway(tmp_path, over=over) as running, client_of(running.ready(), kind) as client:
            client.send("t", {})
            assert words(client.send_many(numbered(3))) == ["accepted"] * 3
        proxy.settimeout(0)
        with pytest.raises(BlockingIOError):
            proxy.accept()


@both
def test_plain_http_at_the_https_port_is_told_so(kind, tmp_path):
    with gateway(tmp_path, over="https") as running:
        with kind(running.ready().url.replace("https", "http"), TOKEN) as client:
            with pytest.raises(RefusedError, match="This port speaks https: use https:// in the address, not http://"):
                client.send("t", {})


@both
@everywhere
def test_a_kept_connection_that_the_gateway_ended_is_replaced(kind, over, tmp_path):
    with gateway(tmp_path, "--idle-timeout", "0.2", over=over) as running, client_of(running.ready(), kind) as client:
        if kind is AsyncClient:
            pause = lambda: client._loop.run_until_complete(asyncio.sleep(0.6))  # noqa: E731
        else:
            pause = lambda: threading.Event().wait(0.6)  # noqa: E731
        client.send("t", {})
        pause()
        client.send("t", {})
        pause()
        assert words(client.send_many(numbered(100))) == ["accepted"] * 100
        pause()
        assert words(client.send_many(numbered(100))) == ["accepted"] * 100
        assert running.stop()["published"] == 202


def test_threads_share_a_client(tmp_path):
    with gateway(tmp_path) as running, client_of(running.ready(), adapter_gateway.Client) as client:
        failures = []

        def post(number):
            try:
                for _ in range(100):
                    client.send("t", {"thread": number})
                assert words(client.send_many(numbered(500))) == ["accepted"] * 500
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=post, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert failures == []
        stopped = running.stop()
        assert stopped["published"] == 8 * 600 and stopped["connections_accepted"] <= 8


def test_tasks_share_a_client(tmp_path):
    async def post(url):
        async with adapter_gateway.aio.Client(url, TOKEN, timeout_s=PATIENCE_S) as client:

            async def many():
                return words([outcome async for outcome in client.send_many(numbered(500))])

            found = await asyncio.gather(*(many() for _ in range(4)), *(client.send("t", {}) for _ in range(1000)))
            assert found[:4] == [["accepted"] * 500] * 4

    with gateway(tmp_path) as running:
        asyncio.run(post(running.ready().url))
        stopped = running.stop()
        assert stopped["published"] == 3000 and stopped["connections_accepted"] <= 68


def _post_in_child(client, queue):
    client.send("t", {"child": os.getpid()})
    queue.put(words(client.send_many(numbered(100))))


def test_a_forked_child_has_connections_of_its_own(tmp_path):
    with gateway(tmp_path) as running, client_of(running.ready(), adapter_gateway.Client) as client:
        client.send("t", {})
        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        children = [context.Process(target=_post_in_child, args=(client, queue)) for _ in range(2)]
        for child in children:
            child.start()
        for _ in range(100):
            client.send("t", {})
        for _ in children:
            assert queue.get(timeout=PATIENCE_S) == ["accepted"] * 100
        for child in children:
            child.join(PATIENCE_S)
            assert child.exitcode == 0
        assert running.stop()["connections_accepted"] == 3


@both
def test_an_exception_of_the_iterable_comes_after_the_outcomes_before_it(kind, tmp_path):
    def messages():
        yield from numbered(100)
        raise LookupError("the source is broken")

    with gateway(tmp_path) as running, client_of(running.ready(), kind) as client:
        for source, error in ((messages(), LookupError), ([*numbered(100), ("t", {"n": float("inf")})], ValueError)):
            found = []
            with pytest.raises(error):
                for outcome in client.send_many(source):
                    found.append(outcome)
            assert words(found) == ["accepted"] * 100
        client.send("t", {})


@both
def test_a_loop_that_is_left_early_takes_no_more_messages(kind, tmp_path):
    taken = []

    def endless():
        number = 0
        while True:
            number += 1
            taken.append(number)
            yield "t", {"n": number}

    with gateway(tmp_path) as running, client_of(running.ready(), kind) as client:
        outcomes = client.send_many(endless(), in_flight=10)
        for count, outcome in enumerate(outcomes, 1):
            assert outcome.accepted
            # At no time were more taken than may be in flight: between two outcomes the event loop runs as well.
            if kind is AsyncClient:
                client._loop.run_until_complete(asyncio.sleep(0.001))
            assert len(taken) <= count - 1 + 10
            if count == 1000:
                break
        outcomes.close()
        client.send("t", {})
        assert 1001 <= running.stop()["published"] <= len(taken) + 1


@both
def test_nothing_to_send(kind, tmp_path):
    with gateway(tmp_path) as running, client_of(running.ready(), kind) as client:
        assert list(client.send_many([])) == []


@both
def test_a_closed_client_says_so(kind, tmp_path):
    client = kind("http://localhost:1", TOKEN)
    if kind is AsyncClient:
        asyncio.run(client._client.close())
    else:
        client.close()
        client.close()
    for post in (lambda: client.send("t", {}), lambda: list(client.send_many(numbered(1)))):
        with pytest.raises(GatewayError, match="closed"):
            post()


@both
def test_a_settings_file_leads_to_its_gateway(kind, tmp_path):
    with gateway(tmp_path, over="https") as running:
        made = (adapter_gateway.aio.Client if kind is AsyncClient else kind).from_settings(
            running.settings, url=running.ready().url
        )
        if kind is AsyncClient:

            async def post():
                async with made:
                    await made.send("t", {})

            asyncio.run(post())
        else:
            with made:
                made.send("t", {})
        assert running.stop()["published"] == 1


def test_the_payload_is_the_json_that_was_given(tmp_path):
    with gateway(tmp_path) as running, client_of(running.ready(), adapter_gateway.Client) as client:
        with contextlib.closing(Subscriber(f"ipc://{tmp_path}/bus")) as subscriber:
            subscribed(client, subscriber)
            client.send("t", b'{"a":  1.10}')
            assert subscriber._socket.recv_multipart() == [b"t", b'{"a":  1.10}']
            client.send("t", json.dumps({"b": "ü"}, ensure_ascii=False))
            assert subscriber._socket.recv_multipart() == [b"t", '{"b": "ü"}'.encode()]
