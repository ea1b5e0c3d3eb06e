"""No wait without an end, and no outcome in doubt without need: both clients with servers that misbehave."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import socket
import sys
import threading
import time

import pytest
from rig import ACCEPT, BOTH, PATIENCE_S, TOKEN, AsyncClient, answer, client_of, gateway, numbered, stand_in, words

import adapter_gateway
import adapter_gateway.aio
from adapter_gateway import GatewayError, NotSentError, OutcomeUnknownError, RefusedError

both = pytest.mark.parametrize("kind", BOTH)


def accept_all(peer):
    peer.accept_all()


def in_time(work):
    """Runs in a thread what may never end, and returns what it returned."""
    results = []

    def run():
        try:
            results.append(work())
        except BaseException as error:
            results.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert results, "it does not end"
    if isinstance(results[0], BaseException):
        raise results[0]
    return results[0]


def paused(kind, messages, pause):
    """Returns an iterable for this client, which calls `pause` before each message."""

    def blocking():
        for message in messages:
            pause()
            yield message

    async def asynchronous():
        for message in messages:
            await asyncio.get_running_loop().run_in_executor(None, pause)
            yield message

    return asynchronous() if kind is AsyncClient else blocking()


@both
@pytest.mark.parametrize("slowly", [False, True])
def test_a_gateway_that_hangs_is_given_up(kind, slowly, tmp_path):
    def send():
        with gateway(tmp_path) as running, client_of(running.ready(), kind, timeout_s=0.5) as client:
            client.send("t", {})
            running.freeze()
            messages = paused(kind, numbered(500), lambda: time.sleep(0.02)) if slowly else numbered(500)
            found = []
            with pytest.raises(NotSentError):
                for outcome in client.send_many(messages, retry_s=1.0):
                    found.append(outcome)
            return words(found)

    found = in_time(send)
    # One on each connection: nothing was known to be read.
    assert set(found) == {"unknown"} and len(found) <= 4


@both
def test_an_outage_leaves_one_message_of_each_connection_in_doubt(kind):
    def end(peer):
        pass

    outage_until = time.monotonic() + 1.0

    def end_or_accept(peer):
        if time.monotonic() > outage_until:
            peer.accept_all()

    with stand_in(end_or_accept) as server, kind(server.url, TOKEN, timeout_s=PATIENCE_S) as client:
        found = words(in_time(lambda: list(client.send_many(numbered(5000), retry_s=PATIENCE_S))))
        assert found.count("unknown") <= server.connections - 1 and found.count("accepted") >= 5000 - 20


@both
def test_503_is_sent_again_while_the_iterable_pauses(kind):
    again = threading.Event()

    def busy(peer):
        peer.request()
        peer.answer(answer(503, None, "Retry-After: 1"))
        peer.request()
        peer.answer()
        again.set()
        peer.accept_all()

    first = threading.Event()

    def pause():
        if first.is_set():
            assert again.wait(PATIENCE_S), "nothing was sent again"
        first.set()

    with stand_in(busy) as server, kind(server.url, TOKEN, timeout_s=PATIENCE_S) as client:
        assert words(client.send_many(paused(kind, numbered(3), pause))) == ["accepted"] * 3


@both
def test_an_answer_that_does_not_come_is_noticed_while_the_iterable_pauses(kind):
    ended = threading.Event()
    first = threading.Event()

    def silent(peer):
        peer.request()
        peer.request()
        ended.set()

    def pause():
        if first.is_set():
            assert ended.wait(PATIENCE_S), "the connection was not ended"
        first.set()

    with stand_in(silent, accept_all) as server, kind(server.url, TOKEN, timeout_s=0.3) as client:
        found = words(client.send_many(paused(kind, numbered(3), pause)))
        assert found == ["unknown", "accepted", "accepted"]


@both
@pytest.mark.parametrize("after", ["0", "Sun, 22 Nov 1996 05:40:43 GMT"])
def test_503_without_a_wait_is_not_asked_without_a_pause(kind, after):
    asked = []

    def busy(peer):
        while peer.request() is not None:
            asked.append(1)
            peer.answer(answer(503, None, f"Retry-After: {after}", "Date: Sun, 22 Nov 2026 05:40:43 GMT"))

    with stand_in(busy) as server, kind(server.url, TOKEN, timeout_s=PATIENCE_S) as client:
        assert words(client.send_many(numbered(1), retry_s=1.0)) == ["503"]
        assert 2 <= len(asked) <= 11


def test_an_outcome_is_not_late_while_the_other_thread_connects(monkeypatch):
    resolve, calls, had = socket.getaddrinfo, [], threading.Event()

    def slow(*arguments, **options):
        calls.append(arguments)
        if len(calls) == 2:
            had.wait(PATIENCE_S)
        return resolve(*arguments, **options)

    def close_third(peer):
        for _ in range(2):
            peer.request()
            peer.answer()
        peer.request()
        peer.answer(ACCEPT.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n"))
        peer.request()

    def messages():
        yield from numbered(4)
        deadline = time.monotonic() + PATIENCE_S
        while len(calls) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        yield from numbered(1, 4)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    with stand_in(close_third, accept_all) as server:
        with adapter_gateway.Client(server.url, TOKEN, timeout_s=PATIENCE_S) as client:
            count = 0
            for outcome in client.send_many(messages()):
                assert outcome.accepted
                count += 1
                if count == 3:
                    assert len(calls) == 2
                    had.set()
            assert count == 5


def test_an_iterator_can_be_finalised_anywhere():
    """The collection of garbage, which closes an iterator, may begin at any line."""

    def send(client):
        abandoned = [client.send_many(numbered(1)) for _ in range(250)]
        for outcomes in abandoned:
            assert next(outcomes).accepted

        def close_one(frame, event, _):
            if event == "line" and abandoned and "adapter_gateway" in frame.f_code.co_filename:
                abandoned.pop().close()
            return close_one

        sys.settrace(close_one)
        try:
            client.send("t", {})
            return words(client.send_many(numbered(3)))
        finally:
            sys.settrace(None)

    with stand_in(accept_all) as server, adapter_gateway.Client(server.url, TOKEN, timeout_s=PATIENCE_S) as client:
        assert in_time(lambda: send(client)) == ["accepted"] * 3


def forked(work):
    """Runs this in a fork, and returns whether it returned, in time."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(int(PATIENCE_S))
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1] == 0


def test_a_fork_has_no_part_in_an_iterator():
    with stand_in(accept_all) as server, adapter_gateway.Client(server.url, TOKEN, timeout_s=PATIENCE_S) as client:
        outcomes = client.send_many(numbered(300), in_flight=8)
        next(outcomes)

        def go_on():
            with pytest.raises(GatewayError, match="process"):
                list(outcomes)
            client.send("t", {})

        assert forked(go_on)
        assert words(outcomes) == ["accepted"] * 299
        assert sum(len(bodies) for bodies in server.bodies) == 301


def test_a_fork_while_threads_send_can_send():
    with stand_in(accept_all) as server, adapter_gateway.Client(server.url, TOKEN, timeout_s=PATIENCE_S) as client:
        has_ended = threading.Event()

        def post():
            while not has_ended.is_set():
                client.send("t", {})

        threads = [threading.Thread(target=post) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            assert all(forked(lambda: client.send("t", {})) for _ in range(20))
        finally:
            has_ended.set()
            for thread in threads:
                thread.join(PATIENCE_S)


def test_one_event_loop_after_the_other():
    with stand_in(accept_all) as server:
        client = adapter_gateway.aio.Client(server.url, TOKEN, timeout_s=PATIENCE_S)

        async def post():
            await asyncio.gather(*(client.send("t", {}) for _ in range(100)))
            assert words([outcome async for outcome in client.send_many(numbered(100))]) == ["accepted"] * 100

        for _ in range(3):
            asyncio.run(post())
        asyncio.run(client.close())


def test_tasks_whose_connections_end_disturb_no_other():
    def few(peer):
        for _ in range(3):
            if peer.request() is None:
                return
            peer.answer()
        if peer.request() is not None:
            peer.answer(ACCEPT.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n"))

    async def post(url):
        async with adapter_gateway.aio.Client(url, TOKEN, timeout_s=PATIENCE_S) as client:

            async def many():
                return words([outcome async for outcome in client.send_many(numbered(60), in_flight=8)])

            found = await asyncio.gather(*(many() for _ in range(20)), *(client.send("t", {}) for _ in range(100)))
            assert found[:20] == [["accepted"] * 60] * 20

    with stand_in(few) as server:
        asyncio.run(post(server.url))


@both
@pytest.mark.parametrize("closes", [False, True])
def test_a_refused_token_is_the_outcome_of_all_behind_it(kind, closes):
    def refuse(peer):
        while peer.request() is not None:
            peer.answer(answer(401, None, *(["Connection: close"] if closes else [])))
            if closes:
                return

    with stand_in(refuse) as server, kind(server.url, "wrong", timeout_s=PATIENCE_S) as client:
        outcomes = list(client.send_many(iter(numbered(3000))))
        assert words(outcomes) == ["401"] * 3000
        assert [outcome.error.message for outcome in outcomes] == numbered(3000)
        assert server.connections == 1 and len(server.bodies[0]) == 1


@both
def test_a_token_that_changed_is_read_again(kind, tmp_path):
    with gateway(tmp_path) as running:
        made = adapter_gateway.aio.Client if kind is AsyncClient else kind
        if kind is AsyncClient:
            client = AsyncClient(running.ready().url, TOKEN)
            client._client = made.from_settings(running.settings, url=running.url)
        else:
            client = made.from_settings(running.settings, url=running.ready().url)
        with client:
            client.send("t", {})
            found = []
            for outcome in client.send_many(numbered(1000), in_flight=16):
                found.append(outcome)
                if len(found) == 400:
                    running.settings.write_text("OPEN_REST_API = True\nTOKEN = 'another-token'\n")
                    running._process.send_signal(signal.SIGHUP)
                    running.event("settings")
            assert words(found) == ["accepted"] * 1000
            running.events.pop("settings")
            running.settings.write_text("OPEN_REST_API = True\nTOKEN = 'one-more-token'\n")
            running._process.send_signal(signal.SIGHUP)
            running.event("settings")
            client.send("t", {})
            assert running.stop()["published"] == 1002


def test_a_connection_that_nobody_waits_for_any_more_is_closed(monkeypatch):
    made, release = [], threading.Event()
    connect = adapter_gateway.connection.Connect.block

    def block(self, also=None):
        made.append(connect(self))
        assert release.wait(PATIENCE_S)
        return made[0]

    async def main(url):
        client = adapter_gateway.aio.Client(url, TOKEN, timeout_s=PATIENCE_S)
        task = asyncio.ensure_future(client.send("t", {}))
        while not made:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert made[0].socket.fileno() >= 0
        release.set()
        while made[0].socket.fileno() >= 0:
            await asyncio.sleep(0.01)

    monkeypatch.setattr(adapter_gateway.connection.Connect, "block", block)
    with stand_in(accept_all) as server:
        in_time(lambda: asyncio.run(main(server.url)))


@both
def test_the_settings_are_read_once_for_each_change(kind, tmp_path, monkeypatch):
    file, valid, reads = tmp_path / "user_settings.py", "right", []
    read_token = adapter_gateway.connection.read_token
    monkeypatch.setattr("adapter_gateway.connection.read_token", lambda path: reads.append(path) or read_token(path))

    def guard(peer):
        while peer.request() is not None:
            peer.answer(ACCEPT if peer.token == valid.encode() else answer(401))

    def switch(token):
        """Replaces the file, as editors do."""
        (tmp_path / "new").write_text(f"OPEN_REST_API = True\nTOKEN = {token!r}\n")
        (tmp_path / "new").replace(file)

    switch("wrong")
    with stand_in(guard) as server:
        made = adapter_gateway.aio.Client if kind is AsyncClient else kind
        client = kind(server.url, TOKEN, timeout_s=PATIENCE_S)
        own = made.from_settings(file, url=server.url)
        if kind is AsyncClient:
            client._client = own
        else:
            client = own
        with client:
            for _ in range(3):
                with pytest.raises(RefusedError) as refused:
                    client.send("t", {})
            assert refused.value.detail == f"the gateway does not accept TOKEN in {file}" and len(reads) == 1
            switch("right")
            client.send("t", {})
            client.send("t", {})
            assert len(reads) == 2
            valid = "another"

            def messages():
                for number, message in enumerate(numbered(300)):
                    if number == 200:
                        switch("another")
                    yield message

            found = words(client.send_many(messages()))
            assert found == ["401"] * 200 + ["accepted"] * 100 and len(reads) == 3
    with stand_in(guard) as server, kind(server.url, "wrong", timeout_s=PATIENCE_S) as client:
        with pytest.raises(RefusedError, match="does not accept the token that the client was made with"):
            client.send("t", {})


@both
def test_an_accepted_outcome_carries_its_message(kind):
    with stand_in(accept_all) as server, kind(server.url, TOKEN, timeout_s=PATIENCE_S) as client:
        assert [outcome.message for outcome in client.send_many(iter(numbered(100)))] == numbered(100)


# Errors.


@both
@pytest.mark.parametrize(
    "status, error_type, text",
    [(403, RefusedError, "403 about:blank: an answer of 36 bytes")]
    # The gateway may have published the message before the proxy lost it.
    + [(status, OutcomeUnknownError, f"a proxy answers {status}") for status in (500, 502, 504)],
)
def test_the_page_of_a_proxy_is_not_shown(kind, status, error_type, text):
    def talk(peer):
        while peer.request() is not None:
            page = b"<p>/api/message?token=" + TOKEN.encode()
            peer.answer(
                b"HTTP/1.1 %d X\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % (status, len(page)) + page
            )

    with stand_in(talk) as server, kind(server.url, TOKEN, timeout_s=PATIENCE_S) as client:
        with pytest.raises(error_type, match=text) as raised:
            client.send("t", {})
        (outcome,) = client.send_many(numbered(1))
        for error in (raised.value, outcome.error):
            assert type(error) is error_type and "t0ken" not in str(error) + repr(error)


@both
def test_a_problem_that_is_nested_deeply_is_no_problem(kind):
    def talk(peer):
        while peer.request() is not None:
            page = b"[" * 200_000
            head = b"HTTP/1.1 422 Words\r\nContent-Type: application/problem+json\r\nContent-Length: %d\r\n\r\n"
            peer.answer(head % len(page) + page)

    with stand_in(talk) as server, kind(server.url, TOKEN, timeout_s=PATIENCE_S) as client:
        with pytest.raises(RefusedError, match="200000 bytes"):
            client.send("t", {})


def circle():
    made = {}
    made["itself"] = made
    return made


def deep(levels=200_000):
    made = {}
    for _ in range(levels):
        made = {"in": made}
    return made


@both
@pytest.mark.parametrize("payload", [circle(), deep()], ids=["circle", "deep"])
def test_a_payload_that_is_too_deep_is_a_value_error(kind, payload):
    with stand_in(accept_all) as server, kind(server.url, TOKEN, timeout_s=PATIENCE_S) as client:
        for _ in range(2):
            with pytest.raises(ValueError, match="too deeply"):
                client.send("t", payload)
            with pytest.raises(ValueError, match="too deeply"):
                list(client.send_many([("t", payload)]))
        client.send("t", {"a": [{}, {}]})


@both
@pytest.mark.parametrize("timeout_s", [0, -1, float("inf"), float("nan"), 1e12])
def test_a_time_that_cannot_be_waited_is_a_value_error(kind, timeout_s):
    with pytest.raises(ValueError, match="timeout_s"):
        kind("http://localhost", TOKEN, timeout_s=timeout_s)


@both
def test_a_certificate_that_is_missing_is_named(kind, tmp_path):
    path = tmp_path / "nowhere.pem"
    with pytest.raises(ValueError, match="nowhere.pem cannot be used: No such file"):
        kind("https://localhost:1", TOKEN, path)
    with gateway(tmp_path, over="https") as running:
        path.write_bytes(running.certificate.read_bytes())
        client = kind(running.ready().url, TOKEN, path)
        path.unlink()
        with client, pytest.raises(NotSentError, match="nowhere.pem cannot be used: No such file"):
            client.send("t", {})


@pytest.mark.parametrize("address", ["http://local\0host", "http://local\nhost", "http://a b/", "unix:a\0b", "/a\0b"])
def test_an_address_with_a_nul_or_a_space_is_refused(address):
    with pytest.raises(ValueError):
        adapter_gateway.Client(address, TOKEN)


MESSAGE = ("t", {"n": 1})


@pytest.mark.parametrize(
    "error",
    [
        RefusedError(503, "urn:x", "wrong", "/payload", 1.0),
        NotSentError("reset", [MESSAGE]),
        OutcomeUnknownError("reset", MESSAGE),
        adapter_gateway.GatewayEndedError("the gateway ended", 4, "why", ["line"]),
        adapter_gateway.GatewayDisabledError("the gateway is disabled", "why", ["line"]),
        adapter_gateway.GatewayTimeoutError("late", None, ["line"]),
    ],
)
def test_errors_can_be_pickled(error):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and str(again) == str(error) and vars(again) == vars(error)
    assert getattr(error, "errno", None) is None and getattr(again, "errno", None) is None
