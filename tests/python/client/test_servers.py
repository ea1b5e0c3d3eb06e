"""Both clients with a server that behaves badly, or only slowly."""

from __future__ import annotations

import asyncio
import json
import threading
import time

import pytest
from rig import ACCEPT, BOTH, PATIENCE_S, TOKEN, AsyncClient, answer, numbered, slowly, stand_in, words

import adapter_gateway.aio
from adapter_gateway import NotSentError, OutcomeUnknownError, RefusedError

both = pytest.mark.parametrize("kind", BOTH)

CLOSE = ACCEPT.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n")


def payload_numbers(bodies):
    return [json.loads(body)["payload"]["n"] for body in bodies]


def accept_all(peer):
    peer.accept_all()


@both
def test_answers_in_pieces(kind):
    def in_pieces(peer):
        data = b""
        while peer.request() is not None:
            data += ACCEPT
            for at in range(len(data)):
                peer.answer(data[at : at + 1])
            data = b""

    with stand_in(in_pieces) as server, kind(server.url, TOKEN, timeout_s=PATIENCE_S) as client:
        client.send("t", {})
        assert words(client.send_many(numbered(50))) == ["accepted"] * 50


@both
@pytest.mark.parametrize("garbage", [b"\x00\x01\x02", b"hello\r\n\r\n", ACCEPT + ACCEPT, b"HTTP/1.1 200 OK\r\n\r\n"])
def test_garbage_leaves_the_outcome_unknown(kind, garbage):
    def talk(peer):
        if peer.request() is not None:
            peer.answer(garbage)
            peer.request()

    with stand_in(talk) as server, kind(server.url, TOKEN, timeout_s=PATIENCE_S) as client:
        with pytest.raises(OutcomeUnknownError):
            client.send("t", {})
        assert words(client.send_many(numbered(1), retry_s=0))[-1:] in (["unknown"], ["accepted"])


@both
def test_an_answer_that_does_not_come_leaves_the_outcome_unknown(kind):
    def silent(peer):
        while peer.request() is not None:
            pass

    with stand_in(silent) as server, kind(server.url, TOKEN, timeout_s=0.3) as client:
        with pytest.raises(OutcomeUnknownError, match="0.3 s"):
            client.send("t", {})
        outcomes = list(client.send_many(numbered(10)))
        assert words(outcomes) == ["unknown"] * 10 and "0.3 s" in str(outcomes[0].error)
        # A connection that has answered nothing gets one message.
        assert server.connections == 1 + 10


@both
def test_interim_answers_do_not_count_as_progress(kind):
    def interim(peer):
        peer.request()
        while True:
            peer.answer(b"HTTP/1.1 102 Processing\r\n\r\n")
            time.sleep(0.05)

    with stand_in(interim) as server, kind(server.url, TOKEN, timeout_s=0.5) as client:
        with pytest.raises(OutcomeUnknownError, match="0.5 s"):
            client.send("t", {})
        assert words(client.send_many(numbered(2))) == ["unknown"] * 2


@both
def test_a_connection_that_ends_without_an_answer(kind):
    def once(peer):
        peer.request()
        peer.answer()
        peer.request()

    with stand_in(once, accept_all) as server, kind(server.url, TOKEN, timeout_s=PATIENCE_S) as client:
        client.send("t", {})
        with pytest.raises(OutcomeUnknownError):
            client.send("t", {})
        client.send("t", {})
        assert server.connections == 2


@both
def test_a_kept_connection_that_ended_is_not_used(kind):
    ended = threading.Event()

    def once(peer):
        peer.request()
        peer.answer()
        peer.close()
        ended.set()

    with stand_in(once) as server, kind(server.url, TOKEN, timeout_s=PATIENCE_S) as client:
        for count in range(1, 4):
            client.send("t", {})
            assert ended.wait(PATIENCE_S)
            ended.clear()
            if kind is AsyncClient:
                client._loop.run_until_complete(asyncio.sleep(0.05))
            assert server.connections == count


@both
def test_a_request_that_was_not_written_to_its_end_is_sent_anew(kind):
    def reset(peer):
        peer.socket.recv(100_000)
        peer.reset()

    large = ("t", {"n": 1, "s": "x" * 20_000_000})
    with stand_in(reset, accept_all) as server, kind(server.url, TOKEN, timeout_s=PATIENCE_S) as client:
        assert words(client.send_many([("t", {"n": 0, "s": "x" * 20_000_000}), large])) == ["accepted"] * 2
        assert payload_numbers(server.bodies[1]) == [0, 1] and server.bodies[0] == []
    with stand_in(reset) as server, kind(server.url, TOKEN, timeout_s=PATIENCE_S) as client:
        with pytest.raises(NotSentError):
            client.send(*large)


@both
def test_a_refusal_before_the_end_of_a_large_request(kind):
    def refuse(peer):
        peer.socket.recv(1000)
        peer.answer(answer(413, None, "Connection: close"))
        while peer.socket.recv(1 << 20):
            pass

    large = ("t", {"n": 0, "s": "x" * 20_000_000})
    with stand_in(refuse, accept_all) as server, kind(server.url, TOKEN, timeout_s=PATIENCE_S) as client:
        assert words(client.send_many([large, *numbered(5)])) == ["413", *["accepted"] * 5]
    with stand_in(refuse) as server, kind(server.url, TOKEN, timeout_s=PATIENCE_S) as client:
        with pytest.raises(RefusedError) as raised:
            client.send(*large)
        assert raised.value.status == 413


@both
def test_every_answer_ends_its_connection(kind):
    def once(peer):
        peer.request()
        peer.answer(CLOSE)
        peer.socket.shutdown(1)
        while peer.socket.recv(1 << 16):
            pass

    with stand_in(once) as server, kind(server.url, TOKEN, timeout_s=PATIENCE_S) as client:
        assert words(client.send_many(numbered(30))) == ["accepted"] * 30
        assert [payload_numbers(bodies) for bodies in server.bodies] == [[number] for number in range(30)]


@both
def test_the_server_that_closes_unasked_leaves_what_it_had_unknown(kind):
    def some(peer):
        for _ in range(3):
            peer.request()
            peer.answer()
        peer.request()
        peer.socket.shutdown(1)
        while peer.socket.recv(1 << 16):
            pass

    with stand_in(some, accept_all) as server, kind(server.url, TOKEN, timeout_s=PATIENCE_S) as client:
        found = words(client.send_many(numbered(100), in_flight=8))
        assert found[:3] == ["accepted"] * 3 and 1 <= found.count("unknown") <= 8
        assert found == ["accepted"] * 3 + ["unknown"] * found.count("unknown") + ["accepted"] * found[3:].count(
            "accepted"
        )
        # None was sent twice.
        assert payload_numbers(server.bodies[1]) == list(range(3 + found.count("unknown"), 100))


@both
def test_a_server_that_ends_every_connection_is_given_up(kind):
    def end(peer):
        peer.request()

    with stand_in(end) as server, kind(server.url, TOKEN, timeout_s=PATIENCE_S) as client:
        found = []
        with pytest.raises(NotSentError) as raised:
            for outcome in client.send_many(iter(numbered(100_000)), in_flight=4, retry_s=0.5):
                found.append(outcome)
        assert set(words(found)) == {"unknown"}
        assert raised.value.messages == numbered(len(raised.value.messages), len(found))


@both
def test_a_server_that_writes_much_and_reads_little_stops_nobody(kind):
    detail = {"type": "urn:test", "detail": "x" * 50_000}

    def verbose(peer):
        while peer.request() is not None:
            peer.answer(answer(422, detail))

    messages = [("t", {"n": number, "s": "x" * 5_000}) for number in range(1500)]
    with stand_in(verbose) as server, kind(server.url, TOKEN, timeout_s=PATIENCE_S) as client:
        assert words(client.send_many(messages, in_flight=1000)) == ["422"] * 1500


@both
def test_503_waits_as_long_as_it_says(kind):
    times = []

    def busy(peer):
        peer.request()
        times.append(time.monotonic())
        peer.answer(answer(503, None, "Retry-After: 1"))
        peer.request()
        times.append(time.monotonic())
        peer.answer()
        peer.accept_all()

    with stand_in(busy) as server, kind(server.url, TOKEN, timeout_s=PATIENCE_S) as client:
        assert words(client.send_many(numbered(5), in_flight=1)) == ["accepted"] * 5
        assert times[1] - times[0] >= 1.0
        assert payload_numbers(server.bodies[0]) == [0, 0, 1, 2, 3, 4]


@both
def test_messages_are_sent_while_the_iterable_pauses(kind):
    if kind is AsyncClient:
        pytest.skip("an iterable that blocks holds up the whole event loop")
    received = threading.Semaphore(0)

    def count(peer):
        while peer.request() is not None:
            received.release()
            peer.answer()

    def messages():
        for message in numbered(5):
            yield message
        for _ in range(5):
            assert received.acquire(timeout=PATIENCE_S)
        yield numbered(1, 5)[0]

    with stand_in(count) as server, kind(server.url, TOKEN, timeout_s=PATIENCE_S) as client:
        assert words(client.send_many(messages())) == ["accepted"] * 6


@both
def test_an_outcome_comes_with_the_next_message_of_a_slow_iterable(kind):
    if kind is AsyncClient:
        pytest.skip("an iterable that blocks holds up the whole event loop")
    answered = threading.Semaphore(0)
    found = []

    def count(peer):
        while peer.request() is not None:
            peer.answer()
            answered.release()

    def messages():
        for number, message in enumerate(numbered(5)):
            # The next message brings the outcome, or the one after it if the thread that writes late has not run yet.
            assert len(found) >= number - 2
            yield message
            assert answered.acquire(timeout=PATIENCE_S)
            time.sleep(0.02)

    with stand_in(count) as server, kind(server.url, TOKEN, timeout_s=PATIENCE_S) as client:
        for outcome in client.send_many(messages()):
            found.append(outcome)
        assert words(found) == ["accepted"] * 5


def test_an_asynchronous_iterable_that_pauses_holds_nothing_up():
    async def run(url):
        outcomes = asyncio.Queue()

        async def one_by_one():
            # The next message is given when the outcome of the one before has come.
            return await asyncio.wait_for(outcomes.get(), PATIENCE_S)

        async with adapter_gateway.aio.Client(url, TOKEN, timeout_s=PATIENCE_S) as client:
            outcomes.put_nowait(None)
            count = 0
            async for outcome in client.send_many(slowly(numbered(20), one_by_one)):
                assert outcome
                count += 1
                outcomes.put_nowait(outcome)
            assert count == 20

    with stand_in(accept_all) as server:
        asyncio.run(run(server.url))


def test_a_call_that_is_cancelled_leaves_the_client_of_use():
    def slow_once(peer):
        peer.request()
        peer.request()

    async def run(url):
        async with adapter_gateway.aio.Client(url, TOKEN, timeout_s=PATIENCE_S) as client:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(client.send("t", {}), 0.2)
            await client.send("t", {})

    with stand_in(slow_once, accept_all) as server:
        asyncio.run(run(server.url))
        assert server.connections == 2


def test_outcomes_that_are_cancelled_twice_leave_the_connection_of_use():
    async def run(url):
        has_begun, is_ending = asyncio.Event(), asyncio.Event()

        async def messages():
            try:
                yield "t", {}
                await asyncio.Event().wait()
            finally:
                is_ending.set()
                await asyncio.Event().wait()

        async def post():
            async for outcome in client.send_many(messages()):
                outcome.check()
                has_begun.set()

        async with adapter_gateway.aio.Client(url, TOKEN, timeout_s=PATIENCE_S) as client:
            posting = asyncio.ensure_future(post())
            for event in (has_begun, is_ending):
                await event.wait()
                posting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await posting
            await client.send("t", {})

    with stand_in(accept_all) as server:
        asyncio.run(run(server.url))
        assert server.connections == 1
