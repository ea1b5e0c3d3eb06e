"""The messages of one `send_many`: which are to be sent, which wait for their answer, and what became of each.

Nothing here reads a socket or a clock. The order of the messages is kept: what is sent again is sent before what comes
behind it, and a message that the gateway refused for the moment is not sent again once one behind it was accepted.
"""

from __future__ import annotations

from collections import deque

from .answers import Answer, AnswerReader, MalformedAnswer
from .endpoint import Endpoint, Message
from .errors import OutcomeUnknownError, RefusedError
from .outcome import ACCEPTED, Outcome

#: The most bytes of requests that wait for their answers. One request may be larger.
IN_FLIGHT_BYTES = 1024 * 1024

#: Seconds to wait after a 503 that does not say how long, and the most that are waited.
RETRY_AFTER_S = 1.0
RETRY_AFTER_LIMIT_S = 60.0


class Entry:
    """A message that was taken from the iterable, until its outcome is yielded."""

    __slots__ = ("message", "request", "end", "refusal", "outcome")

    def __init__(self, message: Message, request: bytes) -> None:
        self.message = message
        self.request = request
        #: Where the request ends, in bytes since the start of its connection.
        self.end = 0
        #: The last 503, while the message is to be sent again.
        self.refusal: Outcome | None = None
        self.outcome: Outcome | None = None


class Pipeline:
    """The messages under way, and the answers of one connection after the other."""

    def __init__(self, endpoint: Endpoint, in_flight: int, retry_s: float, reorder: bool) -> None:
        if in_flight < 1:
            raise ValueError("in_flight is at least 1")
        self._endpoint = endpoint
        self._limit = in_flight
        #: How many messages are written at once at most, so that the gateway works on some while others are made.
        self.half = (in_flight + 1) // 2
        self._retry_s = retry_s
        self._reorder = reorder
        #: How many messages may wait for their answers now. A 503 makes it 1, each accepted message increases it by 1.
        self._window = in_flight
        #: All messages without a yielded outcome, in the order of the iterable.
        self._order: deque[Entry] = deque()
        self._unsent: deque[Entry] = deque()
        self._sent: deque[Entry] = deque()
        #: Refused with 503 and to be sent again. Nothing else is sent before them.
        self._again: list[Entry] = []
        #: The bytes of the requests of all messages in `_order`.
        self._held_bytes = 0
        self._sent_bytes = 0
        self._answered_bytes = 0
        self._reader = AnswerReader()
        #: When the first 503 came since the last message was accepted.
        self._unavailable_at: float | None = None
        #: Whether the server ends the connection: nothing more can be sent on it.
        self.closing = False
        #: Whether the server answered anything on this connection.
        self.answered = False
        #: Nothing is sent before this time.
        self.resume_at = 0.0

    # What the iterable gives.

    @property
    def is_full(self) -> bool:
        """Whether the messages that were taken fill the memory that they may have."""
        return self._held_bytes >= 2 * IN_FLIGHT_BYTES

    def room(self) -> int:
        """Returns how many messages may be taken from the iterable."""
        return 0 if self.is_full else self._limit - len(self._order)

    def add(self, message: Message) -> None:
        """Takes a message. Raises what the encoder raises, and takes nothing then."""
        topic, payload = message
        entry = Entry(message, self._endpoint.request(topic, payload))
        self._order.append(entry)
        self._unsent.append(entry)
        self._held_bytes += len(entry.request)

    def outcomes(self) -> list[Outcome]:
        """Returns the outcomes that are there, in the order of the iterable, each once."""
        order = self._order
        ready = []
        while order:
            outcome = order[0].outcome
            if outcome is None:
                break
            self._held_bytes -= len(order.popleft().request)
            ready.append(outcome)
        return ready

    def unsent_messages(self) -> list[Message]:
        """Returns the messages that are not sent, in their order."""
        return [entry.message for entry in (*self._again, *self._unsent)]

    # What the connection does.

    @property
    def has_unsent(self) -> bool:
        """Whether messages are to be sent, now or later."""
        return bool(self._unsent or self._again)

    @property
    def in_flight(self) -> int:
        """How many messages wait for their answers."""
        return len(self._sent)

    def connected(self) -> None:
        """Begins a new connection."""
        self._reader = AnswerReader()
        self._sent_bytes = self._answered_bytes = 0
        self.closing = self.answered = False

    def requests(self, now: float) -> bytes:
        """Returns the requests to be written now. From here on they are sent."""
        if self.closing or now < self.resume_at:
            return b""
        if self._again:
            if self._sent:
                return b""
            self._unsent.extendleft(reversed(self._again))
            self._again.clear()
        unsent, sent = self._unsent, self._sent
        parts = []
        free = self._window - len(sent)
        while unsent and free > 0 and (not sent or self._sent_bytes - self._answered_bytes < IN_FLIGHT_BYTES):
            entry = unsent.popleft()
            self._sent_bytes += len(entry.request)
            entry.end = self._sent_bytes
            sent.append(entry)
            parts.append(entry.request)
            free -= 1
        return b"".join(parts)

    def receive(self, data: bytes, now: float) -> None:
        """Takes in what arrived.

        Raises `MalformedAnswer`; then call `broken`.
        """
        for found in self._reader.receive(data):
            if self.closing:
                raise MalformedAnswer("answers follow the last one of the connection")
            self.answered = True
            if not isinstance(found, Answer):
                self._accepted(found)
            else:
                self._answer(found, now)

    def _next(self) -> Entry:
        if not self._sent:
            raise MalformedAnswer("an answer came to no request")
        entry = self._sent.popleft()
        self._answered_bytes = entry.end
        return entry

    def _accepted(self, count: int) -> None:
        for _ in range(count):
            self._next().outcome = ACCEPTED
        self._window = min(self._limit, self._window + count)
        self._unavailable_at = None
        if not self._reorder:
            self._overtaken()

    def _overtaken(self) -> None:
        """A message behind those that were refused with 503 was accepted, or may have been: they stay refused."""
        for entry in self._again:
            entry.outcome = entry.refusal
        self._again.clear()

    def _answer(self, answer: Answer, now: float) -> None:
        if answer.status == 200:
            self._accepted(1)
        else:
            entry = self._next()
            error = refused(answer)
            error.message = entry.message
            if answer.status == 503:
                self._unavailable(entry, error, now)
            else:
                entry.outcome = Outcome(error)
        if answer.close:
            # RFC 9112 section 9.6: the server does not process what was sent behind this request.
            self.closing = True
            self._send_anew(self._sent)

    def _unavailable(self, entry: Entry, error: RefusedError, now: float) -> None:
        wait_s = RETRY_AFTER_S if error.retry_after_s is None else min(error.retry_after_s, RETRY_AFTER_LIMIT_S)
        if self._unavailable_at is None:
            self._unavailable_at = now
        self._window = 1
        if now + wait_s - self._unavailable_at <= self._retry_s:
            entry.refusal = Outcome(error)
            self._again.append(entry)
            self.resume_at = now + wait_s
        else:
            entry.outcome = Outcome(error)

    def _send_anew(self, entries: deque[Entry]) -> None:
        self._unsent.extendleft(reversed(entries))
        entries.clear()

    def broken(self, written: int, reason: str) -> None:
        """Ends the connection, of which the kernel took so many bytes.

        A request that was not written to its end cannot be complete at the server, and is sent anew.
        """
        sent = self._sent
        while sent and sent[0].end <= written:
            entry = sent.popleft()
            entry.outcome = Outcome(OutcomeUnknownError(reason, entry.message))
            if not self._reorder:
                self._overtaken()
        self._send_anew(sent)
        self.closing = True


def refused(answer: Answer) -> RefusedError:
    """Returns the error that an answer stands for."""
    problem = answer.problem()
    kind, detail, pointer = (problem.get(name) for name in ("type", "detail", "pointer"))
    text = detail if isinstance(detail, str) else answer.body[:200].decode("utf-8", "replace").strip()
    return RefusedError(
        answer.status,
        kind if isinstance(kind, str) else "about:blank",
        text,
        pointer if isinstance(pointer, str) else None,
        answer.retry_after_s(),
    )
