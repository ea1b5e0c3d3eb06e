"""Both clients with gateways that stop, are killed, or take nothing for a while, compared with what a subscriber saw."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

import pytest
from rig import BOTH, PATIENCE_S, TOKEN, Peer, Subscriber, client_of, gateway, numbered, stand_in, subscribed, words

from adapter_gateway import NotSentError, RefusedError

both = pytest.mark.parametrize("kind", BOTH)


def free_port():
    """Returns a port that is free at the moment."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def fixed_address(over, directory):
    """Returns an address at which one gateway can follow another."""
    return f"unix:{directory}/http" if over == "unix" else f"127.0.0.1:{free_port()}"


def numbers(seen):
    """Returns the numbers of the messages that a subscriber saw."""
    return [payload["n"] for topic, payload in seen if topic == "t"]


@both
def test_503_is_raised_by_send_with_the_time_to_wait(kind, tmp_path):
    with gateway(tmp_path, "--connect", f"ipc://{tmp_path}/hub") as running, client_of(running, kind) as client:
        with pytest.raises(RefusedError) as raised:
            client.send("t", {})
        assert (raised.value.status, raised.value.retry_after_s) == (503, 1.0)
        assert raised.value.type == "urn:adapter-gateway:problem:bus-not-connected"


@both
def test_send_many_waits_for_the_hub_and_keeps_the_order(kind, tmp_path):
    endpoint = f"ipc://{tmp_path}/hub"
    with gateway(tmp_path, "--connect", endpoint) as running, client_of(running, kind) as client:
        refused = threading.Event()

        def messages():
            for number, message in enumerate(numbered(500)):
                if number == 32:
                    refused.set()
                yield message

        found = []
        sending = threading.Thread(target=lambda: found.extend(words(client.send_many(messages(), retry_s=PATIENCE_S))))
        sending.start()
        assert refused.wait(PATIENCE_S)
        with contextlib.closing(Subscriber(endpoint, bind=True)) as subscriber:
            seen = [subscriber.receive() for _ in range(500)]
            sending.join(PATIENCE_S)
            assert seen == numbered(500) and found == ["accepted"] * 500
        assert running.stop()["answers"]["503"] >= 1


@both
def test_a_hub_that_does_not_come_refuses_every_message_in_the_end(kind, tmp_path):
    with gateway(tmp_path, "--connect", f"ipc://{tmp_path}/hub") as running, client_of(running, kind) as client:
        start = time.monotonic()
        assert words(client.send_many(numbered(300), retry_s=1.5)) == ["503"] * 300
        assert time.monotonic() - start >= 1.0


@both
@pytest.mark.parametrize("reorder", [False, True])
def test_a_full_queue_holds_the_sender_up_and_loses_nothing(kind, reorder, tmp_path):
    endpoint, count = f"ipc://{tmp_path}/bus", 1000
    with gateway(tmp_path, "--queue", "50", "--bind", endpoint) as running, client_of(running.ready(), kind) as client:
        with contextlib.closing(Subscriber(endpoint, ahead=10)) as subscriber:
            subscribed(client, subscriber)
            seen, refused, sent = [], threading.Event(), threading.Event()

            def read():
                # The subscriber stalls until messages were refused.
                refused.wait(PATIENCE_S)
                seen.extend(subscriber.all_until(sent))

            def look():
                while "503" not in running.stats()["answers"]:
                    time.sleep(0.05)
                refused.set()

            threads = [threading.Thread(target=work, daemon=True) for work in (read, look)]
            for thread in threads:
                thread.start()
            messages = [("t", {"n": number, "s": "x" * 20_000}) for number in range(count)]
            found = list(client.send_many(messages, reorder=reorder, retry_s=PATIENCE_S))
            sent.set()
            threads[0].join(PATIENCE_S)
            accepted = [number for number, outcome in enumerate(found) if outcome]
            assert len(found) == count and set(words(found)) <= {"accepted", "503"}
            if reorder:
                assert accepted == list(range(count)) and sorted(numbers(seen)) == accepted
            else:
                assert numbers(seen) == accepted


def sent_past(client, count, restart):
    """Sends messages, and calls `restart` in the middle. Returns their outcomes."""
    found = []
    for outcome in client.send_many(numbered(count), retry_s=PATIENCE_S):
        found.append(outcome)
        if len(found) == count // 2:
            restart()
    return found


@both
@pytest.mark.parametrize("over", ["http", "https", "unix"])
def test_a_gateway_that_is_killed_leaves_unknown_outcomes_and_no_duplicates(kind, over, tmp_path):
    options = ("--listen", fixed_address(over, tmp_path), "--bind", f"ipc://{tmp_path}/bus")
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(gateway(tmp_path, *options, over=over))
        client = stack.enter_context(client_of(first.ready(), kind))
        subscriber = stack.enter_context(contextlib.closing(Subscriber(f"ipc://{tmp_path}/bus")))
        subscribed(client, subscriber)

        def replace():
            # A gateway that is frozen answers nothing, so there are messages in flight when it is killed.
            first.freeze()
            threading.Timer(
                0.3, lambda: (first.kill(), stack.enter_context(gateway(tmp_path, *options, over=over)))
            ).start()

        found = sent_past(client, 4000, replace)
        seen = numbers(subscriber.rest(2.0))
    assert len(found) == 4000 and set(words(found)) <= {"accepted", "unknown"}
    # The listener of a process that is being killed may still take a second connection, and reset it.
    assert 0 < words(found).count("unknown") <= 2 * 64
    assert len(seen) == len(set(seen)) and seen == sorted(seen)
    # The first gateway took its queue with it, and the second one has published before the subscriber was there again.
    assert set(seen) <= {number for number, outcome in enumerate(found) if outcome.accepted or outcome.unknown}


@both
@pytest.mark.parametrize("over", ["http", "https", "unix"])
def test_a_gateway_that_is_stopped_and_started_gets_the_rest(kind, over, tmp_path):
    hub = f"ipc://{tmp_path}/hub"
    options = ("--listen", fixed_address(over, tmp_path), "--connect", hub)
    with contextlib.ExitStack() as stack:
        subscriber = stack.enter_context(contextlib.closing(Subscriber(hub, bind=True)))
        # A socket that binds sends its subscriptions only when it is called.
        seen, sent = [], threading.Event()
        reading = threading.Thread(target=lambda: seen.extend(subscriber.all_until(sent)), daemon=True)
        reading.start()
        first = stack.enter_context(gateway(tmp_path, *options, over=over))
        client = stack.enter_context(client_of(first.ready(), kind))

        def replace():
            first.stop()
            stack.enter_context(gateway(tmp_path, *options, over=over)).ready()

        found = sent_past(client, 4000, replace)
        sent.set()
        reading.join(PATIENCE_S)
    assert len(found) == 4000 and set(words(found)) <= {"accepted", "unknown"}
    accepted = {number for number, outcome in enumerate(found) if outcome}
    assert len(accepted) >= 4000 - 64
    # The subscriber reads from both gateways in turn, so what they sent last and first may be mixed.
    assert sorted(numbers(seen)) == sorted(set(numbers(seen))) and accepted <= set(numbers(seen))


@both
def test_a_gateway_that_does_not_come_back_leaves_what_was_not_sent(kind, tmp_path):
    with gateway(tmp_path) as running, client_of(running.ready(), kind) as client:
        found = []
        with pytest.raises(NotSentError) as raised:
            for outcome in client.send_many(numbered(1000), retry_s=0.5):
                found.append(outcome)
                if len(found) == 300:
                    running.kill()
        rest = raised.value.messages
        assert rest == numbered(len(rest), len(found)) and 0 < len(rest) <= 64
        assert raised.value.message == rest[0]
        assert words(found)[:300] == ["accepted"] * 300 and set(words(found)) <= {"accepted", "unknown"}


@both
def test_what_is_no_message_is_told_with_what_is(kind):
    # It is told before a connection is made.
    with contextlib.closing(kind("http://localhost:1", TOKEN)) as client:
        for topic in ({}, 1, None, b"t"):
            with pytest.raises(
                TypeError, match=f"the topic is a str, and not a {type(topic).__name__}; it comes before"
            ):
                client.send(topic, "a")


@pytest.mark.parametrize("kind", BOTH)
def test_what_is_no_pair_is_told_with_what_is(kind):
    with stand_in(Peer.accept_all) as server, contextlib.closing(kind(server.url, TOKEN)) as client:
        for message in ({"topic": "t", "payload": {}}, "ab", ("t",), ("t", {}, 1), 5):
            with pytest.raises(TypeError, match="a message is a pair of topic and payload, and not a "):
                list(client.send_many([message]))
        assert words(client.send_many([["t", {}], ("t", {})])) == ["accepted"] * 2
        assert sum(map(len, server.bodies)) == 2


@pytest.mark.parametrize("kind", BOTH)
def test_no_gateway_is_said_at_once(kind):
    with kind(f"http://127.0.0.1:{free_port()}", TOKEN) as client:
        for post in (lambda: client.send("t", {}), lambda: list(client.send_many(numbered(1)))):
            with pytest.raises(NotSentError, match="127.0.0.1"):
                post()
