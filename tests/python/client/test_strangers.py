"""Both clients with what is no gateway, is one that is off, or does not accept the token yet."""

from __future__ import annotations

import gc
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings

import pytest
from rig import ACCEPT, BOTH, PATIENCE_S, TOKEN, AsyncClient, answer, gateway, numbered, stand_in, words

import adapter_gateway
import adapter_gateway.aio
from adapter_gateway import NotSentError, OutcomeUnknownError, RefusedError

both = pytest.mark.parametrize("kind", BOTH)
kinds = pytest.mark.parametrize("kind", [adapter_gateway.Client, adapter_gateway.aio.Client])


def accept_all(peer):
    peer.accept_all()


def from_settings(kind, file, **options):
    """Returns a client by its settings, as `from_settings` of its class does."""
    if kind is not AsyncClient:
        return kind.from_settings(file, **options)
    client = AsyncClient("http://localhost", TOKEN)
    client._client = adapter_gateway.aio.Client.from_settings(file, **options)
    return client


# What is no gateway.


@both
@pytest.mark.parametrize("body", [b"<html>", b"", b"{}", b'{"status":"ok"}', b'"accepted"', b'{"status":"accepted"}x'])
def test_only_the_200_of_a_gateway_counts(kind, body):
    def talk(peer):
        while peer.request() is not None:
            peer.answer(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
            )

    with stand_in(talk) as server, kind(server.url, TOKEN, timeout_s=PATIENCE_S) as client:
        with pytest.raises(OutcomeUnknownError, match=f"what answers at {server.url} is no gateway"):
            client.send("t", {})
        found = []
        with pytest.raises(NotSentError, match="is no gateway") as raised:
            for outcome in client.send_many(numbered(5), retry_s=2 * PATIENCE_S):
                found.append(outcome)
        # Nothing else is told to a stranger.
        assert words(found) == ["unknown"] and "is no gateway" in str(found[0].error)
        assert raised.value.messages == numbered(4, 1) and server.connections == 2


@both
@pytest.mark.parametrize("head", ["201 Created", "204 No Content", "302 Found", "304 Not Modified"])
def test_another_success_is_that_of_a_stranger(kind, head):
    def talk(peer):
        while peer.request() is not None:
            peer.answer(f"HTTP/1.1 {head}\r\nContent-Length: 0\r\n\r\n".encode())

    with stand_in(talk) as server, kind(server.url, TOKEN, timeout_s=PATIENCE_S) as client:
        with pytest.raises(
            OutcomeUnknownError, match=f"what answers at {server.url} is no gateway: an answer {head[:3]}"
        ):
            client.send("t", {})


@both
def test_a_stranger_in_the_place_of_a_gateway_is_found_out(kind):
    def end(peer):
        peer.request()
        peer.answer(ACCEPT.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n"))

    def greet(peer):
        peer.answer(b"220 mail ESMTP\r\n")
        peer.request()

    with stand_in(end, greet) as server, kind(server.url, TOKEN, timeout_s=PATIENCE_S) as client:
        found = []
        with pytest.raises(NotSentError, match="is no gateway"):
            for outcome in client.send_many(numbered(9), retry_s=2 * PATIENCE_S):
                found.append(outcome)
        assert words(found)[0] == "accepted" and set(words(found)[1:]) <= {"unknown"} and server.connections == 2


@both
def test_an_error_carries_no_escape_sequence_of_a_server(kind):
    detail = "\x1b]0;x\x07\u202e\u2028\r\n\U000e0041é"

    def talk(peer):
        while peer.request() is not None:
            peer.answer(answer(422, {"type": "urn:\x1b[2J", "detail": detail, "pointer": "/\x9b"}))

    with stand_in(talk) as server, kind(server.url, TOKEN, timeout_s=PATIENCE_S) as client:
        with pytest.raises(RefusedError) as raised:
            client.send("t", {})
        (outcome,) = client.send_many(numbered(1))
        for error in (raised.value, outcome.error):
            assert str(error).isprintable() and "\\U000e0041é (at /\\x9b); " in str(error)
            assert error.detail == detail


# A gateway that is off.


@both
def test_a_gateway_that_was_switched_off_is_called_off(kind):
    def switch_off(peer):
        peer.request()
        server._listener.shutdown(socket.SHUT_RDWR)
        problem = {"type": "urn:adapter-gateway:problem:disabled", "detail": "the REST API was switched off"}
        peer.answer(answer(503, problem, "Connection: close"))

    for post in (lambda client: client.send("t", {}), lambda client: next(client.send_many(numbered(1))).check()):
        with stand_in(switch_off) as server, kind(server.url, TOKEN, timeout_s=PATIENCE_S) as client:
            with pytest.raises(RefusedError, match="the gateway is off: its settings have switched it off") as raised:
                post(client)
            assert raised.value.status == 503
    with stand_in(switch_off) as server, kind(server.url, TOKEN, timeout_s=PATIENCE_S) as client:
        found = []
        with pytest.raises(NotSentError, match=f"{server.url}.* is off: its settings have") as raised:
            for outcome in client.send_many(numbered(5), retry_s=2 * PATIENCE_S):
                found.append(outcome)
        assert words(found) == ["503"] and raised.value.messages == numbered(4, 1)


@both
def test_a_gateway_that_is_on_again_gets_the_rest(kind):
    def off(peer):
        peer.request()
        peer.answer(answer(503, {"type": "urn:adapter-gateway:problem:disabled"}, "Connection: close"))

    with stand_in(off, accept_all) as server, kind(server.url, TOKEN, timeout_s=PATIENCE_S) as client:
        assert words(client.send_many(numbered(5))) == ["503"] + ["accepted"] * 4


# A token that the gateway has not read yet.


@pytest.fixture
def settings(tmp_path):
    file = tmp_path / "user_settings.py"
    file.write_text(f"OPEN_REST_API = True\nTOKEN = {TOKEN!r}\n")
    return file


@both
@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("closes", [False, True])
def test_a_token_that_was_just_written_is_tried_once_more(kind, many, closes, settings):
    times = []

    def late(peer):
        while peer.request() is not None:
            times.append(time.monotonic())
            peer.answer(ACCEPT if len(times) > 1 else answer(401, None, *(["Connection: close"] if closes else [])))
            if closes and len(times) == 1:
                return

    # A program that puts a file in place may keep when it was modified.
    os.utime(settings, (time.time() - 60.0,) * 2)
    with stand_in(late) as server, from_settings(kind, settings, url=server.url, timeout_s=PATIENCE_S) as client:
        if many:
            assert words(client.send_many(numbered(20))) == ["accepted"] * 20
        else:
            client.send("t", {})
    assert times[1] - times[0] >= 0.45


@both
@pytest.mark.parametrize(("young_s", "asked"), [(PATIENCE_S, 2), (0.0, 1)])
def test_a_refused_token_is_told_at_once_or_after_one_more_try(kind, young_s, asked, settings, monkeypatch):
    monkeypatch.setattr("adapter_gateway.connection._YOUNG_S", young_s)
    requests = []

    def refuse(peer):
        while peer.request() is not None:
            requests.append(1)
            peer.answer(answer(401))

    with stand_in(refuse) as server, from_settings(kind, settings, url=server.url, timeout_s=PATIENCE_S) as client:
        with pytest.raises(RefusedError, match="does not accept TOKEN in"):
            client.send("t", {})
        assert len(requests) == asked
        os.utime(settings)
        requests.clear()
        assert words(client.send_many(numbered(20))) == ["401"] * 20
        assert len(requests) == asked


@both
def test_a_rotated_token_is_accepted_by_the_gateway(kind, tmp_path, monkeypatch):
    renewed = adapter_gateway.connection.Pool.renewed

    def renewed_late(pool, refused):
        # On a busy machine, the gateway may need more than the half second to read the settings.
        found = renewed(pool, refused)
        running.event("settings")
        return found

    monkeypatch.setattr(adapter_gateway.connection.Pool, "renewed", renewed_late)
    monkeypatch.setattr("adapter_gateway.connection._YOUNG_S", PATIENCE_S)
    with gateway(tmp_path) as running:
        url = running.ready().url
        for number in range(5):
            running.events.pop("settings", None)
            (tmp_path / "new").write_text(f"OPEN_REST_API = True\nTOKEN = 'token-number-{number}'\n")
            (tmp_path / "new").replace(running.settings)
            with from_settings(kind, running.settings, url=url, timeout_s=PATIENCE_S) as client:
                client.send("t", {})
                assert words(client.send_many(numbered(10))) == ["accepted"] * 10


# Names.


@both
def test_the_time_covers_the_look_up_of_a_name(kind, monkeypatch):
    release, resolve = threading.Event(), socket.getaddrinfo

    def slow(host, *arguments, flags=0, **options):
        if not flags & socket.AI_NUMERICHOST:
            release.wait(PATIENCE_S)
        return resolve(host, *arguments, flags=flags, **options)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    start = time.monotonic()
    try:
        with kind("http://gateway.invalid:1", TOKEN, timeout_s=0.2) as client:
            for post in (lambda: client.send("t", {}), lambda: list(client.send_many(numbered(1)))):
                with pytest.raises(NotSentError, match="gateway.invalid:1: no connection within the time"):
                    post()
        assert time.monotonic() - start < PATIENCE_S / 2
    finally:
        release.set()


SENDING = """
import asyncio, sys
import adapter_gateway.aio

async def send(client):
    async with client:
        await client.send("t", {})

url, certificate, token = sys.argv[1], sys.argv[2] or None, sys.argv[3]
asyncio.run(asyncio.sleep(0))
before = set(sys.modules)
with adapter_gateway.Client(url, token, certificate) as client:
    client.send("t", {})
    for outcome in client.send_many([("t", {})]):
        outcome.check()
asyncio.run(send(adapter_gateway.aio.Client(url, token, certificate)))
print(sorted(set(sys.modules) - before))
"""


@pytest.mark.parametrize("over", ["http", "https", "unix"])
def test_a_message_imports_nothing(over, tmp_path):
    """An import takes a lock. A child that was forked meanwhile waits for that lock for ever."""
    with gateway(tmp_path, over=over) as running:
        url = running.ready().socket or running.url.replace("127.0.0.1", "localhost")
        certificate = str(running.certificate) if over == "https" else ""
        command = [sys.executable, "-c", SENDING, url, certificate, TOKEN]
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=PATIENCE_S).stdout
    assert output == "[]\n"


# Outcomes that nobody asks for.


@kinds
def test_outcomes_that_are_never_asked_for_are_warned_of(kind):
    client = kind("http://localhost:1", TOKEN)
    with pytest.warns(RuntimeWarning, match=r"send_many\(\.\.\.\) was never iterated, so nothing was sent"):
        client.send_many(numbered(1))
        gc.collect()


@both
def test_outcomes_that_are_asked_for_are_not_warned_of(kind):
    with stand_in(accept_all) as server, kind(server.url, TOKEN, timeout_s=PATIENCE_S) as client:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert words(client.send_many(numbered(3))) == ["accepted"] * 3
            outcomes = client.send_many(numbered(3))
            next(outcomes)
            outcomes.close()
            gc.collect()


def test_a_signal_does_not_end_a_wait(tmp_path):
    with gateway(tmp_path) as running, adapter_gateway.Client(running.ready().url, TOKEN) as client:
        before = signal.signal(signal.SIGALRM, lambda *_: None)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        try:
            assert words(client.send_many(numbered(500))) == ["accepted"] * 500
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
