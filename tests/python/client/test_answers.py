"""The reader of answers, without a socket."""

from __future__ import annotations

import pytest
from rig import ACCEPT, answer

from adapter_gateway.answers import HEAD_BYTES, Answer, AnswerReader, MalformedAnswer


def flat(found):
    """Returns the statuses of what a reader found."""
    return [answer.status for answer, count in found for _ in range(count)]


def other_second(answer):
    return answer.replace(b"\r\n", b"\r\nDate: Sun, 22 Nov 2026 05:40:33 GMT\r\n", 1)


STREAM = (
    ACCEPT * 3
    + answer(422)
    + other_second(ACCEPT) * 2
    + b"HTTP/1.1 102 Processing\r\nX: y\r\n\r\n"
    + ACCEPT
    + answer(503, None, "Retry-After: 7")
    + ACCEPT
)
STATUSES = [200, 200, 200, 422, 200, 200, 200, 503, 200]


def test_answers_are_found_at_every_split():
    for at in range(len(STREAM) + 1):
        reader = AnswerReader()
        assert flat(reader.receive(STREAM[:at])) + flat(reader.receive(STREAM[at:])) == STATUSES, at


def test_answers_are_found_byte_by_byte():
    reader = AnswerReader()
    found = [flat(reader.receive(STREAM[at : at + 1])) for at in range(len(STREAM))]
    assert sum(found, []) == STATUSES


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 127, 128, 129, 1000])
def test_repeated_answers_are_counted(count):
    reader = AnswerReader()
    assert flat(reader.receive(ACCEPT)) == [200]
    assert [it for _, it in reader.receive(ACCEPT * count + ACCEPT[:-1])] == [count]
    assert flat(reader.receive(ACCEPT[-1:] + answer(400))) == [200, 400]


@pytest.mark.parametrize(
    "malformed",
    [
        b"hello",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1  200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * HEAD_BYTES,
        b"\x15\x03\x01\x00\x02\x02\x46",
    ],
)
def test_what_is_no_answer_is_refused(malformed):
    with pytest.raises(MalformedAnswer):
        AnswerReader().receive(malformed)


@pytest.mark.parametrize(
    ("line", "close"),
    [
        (b"HTTP/1.1 200 OK\r\n", False),
        (b"HTTP/1.1 200 OK\r\nconnection: Keep-Alive , CLOSE\r\n", True),
        (b"HTTP/1.0 200 OK\r\n", True),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n", False),
        (b"HTTP/1.1 200\r\n", False),
    ],
)
def test_an_answer_says_whether_the_connection_ends(line, close):
    ((found, count),) = AnswerReader().receive(line + b'Content-Length: 22\r\n\r\n{"status":"accepted"}\n')
    assert (found.close, count) == (close, 1)


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ({}, None),
        ({"retry-after": "1"}, 1.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "Sun, 22 Nov 2026 05:40:43 GMT"}, None),
    ],
)
def test_retry_after(fields, seconds):
    assert Answer(503, False, fields, b"").refusal().retry_after_s == seconds
