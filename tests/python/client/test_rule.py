"""The rule of `docs/clients.md` for many messages, against a server that answers round by round: what arrives in which
round, and when nothing does."""

from __future__ import annotations

import json
import pathlib
import select
import subprocess
import time
from typing import Any

import pytest
from rig import ACCEPT, BOTH, PATIENCE_S, TOKEN, Peer, answer, numbered, stand_in, words
from test_strangers import from_settings

import adapter_gateway

#: How long the server looks whether more comes than a round has.
QUIET_S = 0.05

#: The answers to one round, and the fewest seconds until the next one.
Round = tuple[list[bytes], float]


class Rounds:
    """Answers these rounds, and keeps the numbers of the messages of each."""

    def __init__(self, rounds: list[Round]) -> None:
        self.seen: list[list[int]] = []
        self._rounds = rounds

    def __call__(self, peer: Peer) -> None:
        due_at, data = 0.0, b""
        for answers, pause_s in self._rounds:
            numbers: list[int] = []
            while len(numbers) < len(answers):
                number, data = request(data)
                if number is not None:
                    numbers.append(number)
                else:
                    data += peer.socket.recv(65536)
                    assert data and time.monotonic() >= due_at, f"{data!r} after {self.seen}, {numbers}"
            more, _, _ = select.select([peer.socket], [], [], QUIET_S)
            assert not more and not data, f"more came than {numbers}"
            self.seen.append(numbers)
            due_at = time.monotonic() + pause_s
            peer.answer(b"".join(answers))
        assert peer.socket.recv(65536) == b""


def at_most_64(peer: Peer) -> None:
    """Answers one message, and then as many as come while none is answered."""
    peer.request()
    peer.answer()
    data, waiting = b"", 0
    while select.select([peer.socket], [], [], 1.0 if waiting < 63 else QUIET_S)[0]:
        data += peer.socket.recv(65536)
        number, data = request(data)
        while number is not None:
            waiting += 1
            number, data = request(data)
        if not data and waiting == 0:
            return
    assert 63 <= waiting <= 64
    peer.answer(ACCEPT * waiting)
    peer.accept_all()


def request(data: bytes) -> tuple[int | None, bytes]:
    """Returns the number of the message of the first request, if it is whole, and what is behind it."""
    head, _, rest = data.partition(b"\r\n\r\n")
    size = int(head.lower().partition(b"content-length:")[2].split()[0]) if rest else 0
    if not rest or len(rest) < size:
        return None, data
    return json.loads(rest[:size])["payload"]["n"], rest[size:]


def send_many(kind: Any, settings: pathlib.Path, url: str, count: int) -> None:
    """Sends messages with a client, or with `adapter-gateway send`."""
    if kind is None:
        lines = "".join(f"{topic}\t{json.dumps(payload)}\n" for topic, payload in numbered(count))
        command = [str(adapter_gateway.find_binary()), "send", "--settings", str(settings), "--url", url]
        subprocess.run(command, input=lines.encode(), check=True, timeout=PATIENCE_S)
        return
    with from_settings(kind, settings, url=url, timeout_s=PATIENCE_S) as client:
        assert words(client.send_many(numbered(count))) == ["accepted"] * count


def accepted(*counts: int) -> list[Round]:
    return [([ACCEPT] * count, 0.0) for count in counts]


def busy(count: int, before: int = 0, *fields: str, pause_s: float) -> list[Round]:
    """Accepts some messages, and refuses the others of a round."""
    return [([ACCEPT] * before + [answer(503, None, *fields)] * (count - before), pause_s)]


CASES = {
    "one, and then all": accepted(1, 63),
    "twice as many": accepted(1) + busy(63, 10, "Retry-After: 1", pause_s=1.0) + accepted(1, 2, 4, 8, 16, 22),
    "no time is a second": busy(1, pause_s=1.0) + accepted(1, 2, 4, 8),
    "no time at all is a tenth": busy(1, 0, "Retry-After: 0", pause_s=0.1) + accepted(1, 2, 4, 1),
    "once more": accepted(1)
    + busy(18, 0, "Retry-After: 0", pause_s=0.1)
    + accepted(1, 2)
    + busy(4, 1, "Retry-After: 2", pause_s=2.0)
    + accepted(1, 2, 4, 7),
    "a token that is not read yet": [([answer(401)], 0.5), *accepted(1, 2, 4)],
}


@pytest.fixture
def settings(tmp_path):
    path = tmp_path / "user_settings.py"
    path.touch(0o600)
    path.write_text(f"OPEN_REST_API = True\nTOKEN = {TOKEN!r}\n")
    return path


@pytest.mark.parametrize("kind", [*BOTH, None])
def test_no_more_than_64_wait_for_their_answers(kind, settings):
    with stand_in(at_most_64) as server:
        send_many(kind, settings, server.url, 300)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", [*BOTH, None])
def test_the_rounds_of_many_messages(kind, case, settings):
    rounds = CASES[case]
    serve = Rounds(rounds)
    count = sum(one == ACCEPT for answers, _ in rounds for one in answers)
    with stand_in(serve) as server:
        send_many(kind, settings, server.url, count)
    expected, first = [], 0
    for answers, _ in rounds:
        expected.append(list(range(first, first + len(answers))))
        first += answers.count(ACCEPT)
    assert serve.seen == expected
