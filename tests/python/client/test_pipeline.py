"""The bookkeeping of `send_many`, without a socket or a clock."""

from __future__ import annotations

import pytest
from rig import ACCEPT, answer, numbered, words

from adapter_gateway import RefusedError
from adapter_gateway.answers import AnswerReader, MalformedAnswer
from adapter_gateway.endpoint import Endpoint
from adapter_gateway.pipeline import Pipeline

UNAVAILABLE = answer(503, None, "Retry-After: 2")
ENDPOINT = Endpoint("http://localhost:1", "token", None)


def pipeline(count=0, in_flight=64, retry_s=30.0, reorder=False, answered=True):
    made = Pipeline(ENDPOINT, lambda _: (None, False), in_flight, retry_s, reorder)
    made.connected(AnswerReader(), True)
    made.answered = answered
    for message in numbered(count):
        made.add(message)
    return made


def sent(requests):
    """Returns the numbers of the messages in some requests."""
    return [int(part.split(b"}")[0]) for part in requests.split(b'"n":')[1:]]


def test_an_error_shows_its_message():
    made = pipeline()
    made.add(("t", "hello"))
    made.add(("t", {"content": "x" * 1000}))
    made.requests(0)
    made.receive(answer(400) + answer(422), 0)
    text, mapping = made.outcomes()
    with pytest.raises(RefusedError, match=r"; the message: \('t', 'hello'\) \(text as a payload is JSON already\)$"):
        text.check()
    with pytest.raises(RefusedError, match=r"; the message: \('t', \{'content': 'x{150,}$"):
        mapping.check()


def test_no_more_than_in_flight_is_sent():
    made = pipeline(5, in_flight=5)
    made._window = 3
    assert sent(made.requests(0)) == [0, 1, 2]
    assert made.requests(0) == b""
    made.receive(ACCEPT * 2, 0)
    assert words(made.outcomes()) == ["accepted"] * 2
    assert sent(made.requests(0)) == [3, 4]
    assert made.room() == 2


def test_a_refused_message_does_not_hold_up_others():
    made = pipeline(3)
    made.requests(0)
    made.receive(ACCEPT + answer(422, {"type": "urn:x", "detail": "wrong", "pointer": "/payload"}) + ACCEPT, 0)
    outcomes = list(made.outcomes())
    assert words(outcomes) == ["accepted", "422", "accepted"]
    error = outcomes[1].error
    assert (error.type, error.detail, error.pointer, error.message) == ("urn:x", "wrong", "/payload", ("t", {"n": 1}))


def test_503_waits_and_is_sent_again_alone_and_then_in_order():
    made = pipeline(4)
    made.requests(0)
    made.receive(ACCEPT + UNAVAILABLE * 3, 10.0)
    assert words(made.outcomes()) == ["accepted"]
    assert made.requests(11.9) == b""
    assert sent(made.requests(12.0)) == [1]
    assert made.requests(12.0) == b""
    made.receive(ACCEPT, 12.1)
    assert sent(made.requests(12.1)) == [2, 3]
    made.receive(ACCEPT * 2, 12.2)
    assert words(made.outcomes()) == ["accepted"] * 3


def test_503_is_final_for_a_message_that_was_overtaken():
    made = pipeline(3)
    made.requests(0)
    made.receive(UNAVAILABLE + ACCEPT + UNAVAILABLE, 10.0)
    assert words(made.outcomes()) == ["503", "accepted"]
    assert sent(made.requests(12.0)) == [2]


def test_a_refusal_that_was_overtaken_holds_up_what_follows_too():
    made = pipeline(3)
    made.requests(0)
    for message in numbered(4, 3):
        made.add(message)
    made.receive(UNAVAILABLE + ACCEPT, 10.0)
    # An answer is missing, though the pause is over.
    assert made.requests(13.0) == b""
    made.receive(ACCEPT, 13.0)
    assert sent(made.requests(13.0)) == [3]
    made.receive(ACCEPT, 13.1)
    assert sent(made.requests(13.1)) == [4, 5]


def test_an_overtaken_message_is_sent_again_if_the_order_does_not_matter():
    made = pipeline(3, reorder=True)
    made.requests(0)
    made.receive(UNAVAILABLE + ACCEPT + UNAVAILABLE, 10.0)
    assert not made.has_outcomes
    assert sent(made.requests(12.0)) == [0]
    made.receive(ACCEPT, 12.1)
    assert sent(made.requests(12.1)) == [2]
    made.receive(ACCEPT, 12.2)
    assert words(made.outcomes()) == ["accepted"] * 3


def test_503_is_final_once_nothing_was_accepted_for_too_long():
    made = pipeline(2, retry_s=3.0)
    made.requests(0)
    made.receive(UNAVAILABLE * 2, 10.0)
    made.requests(12.0)
    made.receive(UNAVAILABLE, 12.0)
    assert not made.has_outcomes
    made.requests(14.0)
    made.receive(UNAVAILABLE, 14.0)
    assert words(made.outcomes()) == ["503"]
    # The next one is tried once, without a wait.
    assert sent(made.requests(14.0)) == [1]
    made.receive(UNAVAILABLE, 14.1)
    assert words(made.outcomes()) == ["503"]


def test_503_is_final_at_once_if_nothing_is_to_be_tried_again():
    made = pipeline(2, retry_s=0.0)
    made.requests(0)
    made.receive(UNAVAILABLE * 2, 10.0)
    assert words(made.outcomes()) == ["503"] * 2


def test_what_was_sent_behind_a_closing_answer_is_sent_again():
    made = pipeline(4)
    made.requests(0)
    made.receive(ACCEPT + answer(413, None, "Connection: close"), 0)
    assert words(made.outcomes()) == ["accepted", "413"]
    assert made.closing and made.requests(0) == b""
    made.connected(AnswerReader(), True)
    # Until the server has answered, one message alone is sent.
    assert sent(made.requests(0)) == [2]
    made.receive(ACCEPT, 0)
    assert sent(made.requests(0)) == [3]


def test_a_closing_answer_200_accepts_its_message():
    made = pipeline(2)
    made.requests(0)
    made.receive(ACCEPT.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n"), 0)
    assert words(made.outcomes()) == ["accepted"]
    made.connected(AnswerReader(), True)
    assert sent(made.requests(0)) == [1]


def test_a_503_that_closes_is_sent_again_before_what_came_behind_it():
    made = pipeline(3)
    made.requests(0)
    made.receive(answer(503, None, "Connection: close"), 0)
    made.connected(AnswerReader(), True)
    assert sent(made.requests(1.0)) == [0]
    made.receive(ACCEPT, 1.0)
    assert sent(made.requests(1.0)) == [1, 2]


def test_a_broken_connection_leaves_what_was_written_unknown_and_the_rest_unsent():
    made = pipeline(4)
    requests = made.requests(0)
    size = len(requests) // 4
    made.receive(ACCEPT, 0)
    # The third request was written but for its last byte.
    made.broken(3 * size - 1, "reset", 0)
    outcomes = list(made.outcomes())
    assert words(outcomes) == ["accepted", "unknown"]
    assert outcomes[1].error.message == ("t", {"n": 1}) and "reset" in str(outcomes[1].error)
    made.connected(AnswerReader(), True)
    # Until the server has answered, one message alone is sent.
    assert sent(made.requests(0)) == [2]
    made.receive(ACCEPT, 0)
    assert sent(made.requests(0)) == [3]


def test_503_is_final_for_a_message_that_an_unknown_one_may_have_overtaken():
    made = pipeline(2)
    size = len(made.requests(0))
    made.receive(UNAVAILABLE, 0)
    made.broken(size, "reset", 0)
    assert words(made.outcomes()) == ["503", "unknown"]


def test_bytes_in_flight_are_bounded():
    made = pipeline()
    while made.room():
        made.add(("t", {"n": "x" * 700_000}))
    assert len(made._unsent) == 3
    made.requests(0)
    assert made.in_flight == 2
    made.receive(ACCEPT, 0)
    assert made.room() == 0
    for outcome in made.outcomes():
        assert outcome.accepted and made.room() == 0
    assert made.room() > 0


@pytest.mark.parametrize("data", [ACCEPT * 2, answer(413, None, "Connection: close") + ACCEPT])
def test_answers_that_belong_to_no_request(data):
    made = pipeline(1)
    made.requests(0)
    with pytest.raises(MalformedAnswer):
        made.receive(data, 0)


def test_what_is_no_json_is_not_taken():
    made = pipeline()
    for payload in ({"n": float("nan")}, {"n": object()}, {"n": {1, 2}}):
        with pytest.raises((TypeError, ValueError)):
            made.add(("t", payload))
    assert made.unsent == 0 and not made.has_outcomes


def test_in_flight_is_at_least_one():
    with pytest.raises(ValueError):
        pipeline(in_flight=0)


def test_what_a_final_refusal_concerns_is_sent_at_no_moment():
    made = pipeline(1)
    made.requests(0)
    made.receive(answer(401, None), 0)
    made.renew(0.0)
    found = []
    refuse_all = made._refuse_all

    def refuse_all_later(error):
        # This is what another thread finds between the two steps of `add`.
        found.append((made.unsent, made.may_connect(1.0), made.requests(1.0)))
        refuse_all(error)

    made._refuse_all = refuse_all_later
    made.add(numbered(1)[0])
    assert found == [(1, False, b"")]
    assert words(made.outcomes()) == ["401"] * 2
