"""The messages of one `send_many`: which are to be sent, which wait for their answer, what became of each, and when the
next attempt is made. Nothing here reads a socket or a clock. What is sent again is sent before what comes behind it,
and a message that the gateway refused for the moment is not sent again once one behind it was accepted."""

from __future__ import annotations

import contextlib
import copy
from collections import deque
from collections.abc import Iterator
from typing import Callable, Optional

from .answers import DISABLED, OFF, Answer, AnswerReader, MalformedAnswer
from .endpoint import Endpoint, Message, content
from .errors import NotSentError, Outcome, OutcomeUnknownError, RefusedError

#: The most bytes of requests that wait for their answers. One request may be larger.
IN_FLIGHT_BYTES = 1024 * 1024
#: Seconds to wait after a 503 that does not say how long, and the fewest and the most that are waited.
RETRY_AFTER_S = 1.0
RETRY_AFTER_MINIMUM_S = 0.1
RETRY_AFTER_LIMIT_S = 60.0
PAUSE_S = 0.1
#: Seconds before the same token is tried once more, because the gateway may not have read it yet.
TOKEN_PAUSE_S = 0.5
#: Finds the endpoint with another token, if there is one, and whether the gateway may not have read its token yet.
Renewed = Callable[[Endpoint], tuple[Optional[Endpoint], bool]]


class Entry(Outcome):
    """A message that was taken from the iterable. When it is done, it is its own outcome."""

    __slots__ = ("content", "end", "is_done")

    def __init__(self, message: Message, content: bytes) -> None:
        # While it is to be sent again, the error is the last refusal.
        super().__init__(message, None)
        self.content = content
        #: Where the request ends, in bytes since the start of its connection.
        self.end = 0
        self.is_done = False


class Pipeline:
    """The messages under way, and the answers of one connection after the other."""

    def __init__(self, endpoint: Endpoint, renewed: Renewed, in_flight: int, retry_s: float, reorder: bool) -> None:
        if in_flight < 1:
            raise ValueError("in_flight is at least 1")
        if not retry_s >= 0:
            raise ValueError("retry_s is at least 0")
        self.endpoint = endpoint
        self._renewed = renewed
        self._limit = in_flight
        #: How many messages are written at once at most, so that the gateway works on some while others are made.
        self.half = (in_flight + 1) // 2
        self._retry_s = retry_s
        self._reorder = reorder
        #: How many messages may wait for their answers now. Each accepted message increases it by 1.
        self._window = in_flight
        #: All messages without a yielded outcome, in the order of the iterable.
        self._order: deque[Entry] = deque()
        self._unsent: deque[Entry] = deque()
        self._sent: deque[Entry] = deque()
        #: Refused with 503 or 401, and to be sent again. Nothing else is sent before them.
        self._again: list[Entry] = []
        #: Whether such a refusal came: nothing is sent until all answers have come, and then one message alone.
        self._is_held = False
        #: The bytes of the requests of all messages in `_order`.
        self._held_bytes = 0
        self._sent_bytes = self._answered_bytes = 0
        self._reader = AnswerReader()
        #: When the first 503 came since the last message was accepted.
        self._unavailable_at: Optional[float] = None
        #: Since when connections fail, and why the last one did.
        self._failing_since: Optional[float] = None
        self._failure = ""
        #: The refusal of the token, until all answers have come, and once it is final.
        self._denied: Optional[RefusedError] = None
        self.verdict: Optional[RefusedError] = None
        #: Whether the token was tried once more, and whether the gateway said last that it is off.
        self._is_tried_again = False
        self._is_off = False
        #: Whether the server ends the connection: nothing more can be sent on it.
        self.closing = False
        #: Whether the server answered anything on this connection, and whether it was made for this pipeline.
        self.answered = False
        self._is_new = True
        self.resume_at = 0.0

    @property
    def is_full(self) -> bool:
        """Whether the messages that were taken fill the memory that they may have."""
        return self._held_bytes >= 2 * IN_FLIGHT_BYTES

    def room(self) -> int:
        return 0 if self.is_full else self._limit - len(self._order)

    def add(self, message: Message) -> None:
        """Takes a message. Raises what the encoder raises, and takes nothing then."""
        if self.verdict is not None:
            self.renew(0.0)
        if not isinstance(message, (tuple, list)) or len(message) != 2:
            raise TypeError(f"a message is a pair of topic and payload, and not a {type(message).__name__}")
        entry = Entry(message, content(*message))
        # The order comes first: another thread may send, and a verdict may come meanwhile.
        self._held_bytes += len(entry.content)
        self._order.append(entry)
        self._unsent.append(entry)
        if self.verdict is not None:
            self._refuse_all(self.verdict)

    @property
    def has_outcomes(self) -> bool:
        """Whether the outcome of the next message is there."""
        return bool(self._order) and self._order[0].is_done

    def outcomes(self) -> Iterator[Outcome]:
        """Yields the outcomes that are there, in the order of the iterable, each once. One takes the room of a message until
        the next one is asked for."""
        while self.has_outcomes:
            yield self._order[0]
            entry = self._order.popleft()
            self._held_bytes -= len(entry.content)
            entry.content = b""

    @property
    def unsent(self) -> int:
        """How many messages are to be sent, now or later."""
        return len(self._unsent) + len(self._again)

    @property
    def in_flight(self) -> int:
        return len(self._sent)

    @property
    def is_busy(self) -> bool:
        return bool(self._sent or self.unsent)

    def may_connect(self, now: float) -> bool:
        """Returns whether to connect now. Raises `NotSentError` after the time to try."""
        if not self.unsent or self.verdict is not None:
            return False
        if self._failing_since is not None and now - self._failing_since >= self._retry_s:
            raise NotSentError(self._failure, [entry.message for entry in (*self._again, *self._unsent)])
        return now >= self.resume_at

    def failed(self, reason: str, now: float) -> None:
        """A connection could not be made, or ended before it was of use."""
        if self._is_off:
            self.give_up(f"{self.endpoint.address}: {OFF}")
            return
        self._failure = reason
        self.resume_at = now + PAUSE_S
        if self._failing_since is None:
            self._failing_since = now

    def give_up(self, reason: str) -> None:
        """Makes no further attempt to connect: there is no gateway."""
        self._failure, self._failing_since = reason, float("-inf")

    def connected(self, reader: AnswerReader, is_new: bool) -> None:
        """Begins another connection. The end of one that was kept says nothing about the gateway."""
        self._is_new = is_new
        self._reader = reader
        self._sent_bytes = self._answered_bytes = 0
        self.closing = self.answered = False

    def requests(self, now: float) -> bytes:
        """Returns the requests to be written now. From here on they are sent."""
        # With a verdict, another thread is about to refuse what is unsent.
        if self.closing or now < self.resume_at or self._denied is not None or self.verdict is not None:
            return b""
        if self._is_held:
            if self._sent:
                return b""
            self._is_held, self._window = False, 1
            self._unsent.extendleft(reversed(self._again))
            self._again.clear()
        unsent, sent, head, end = self._unsent, self._sent, self.endpoint.head, self._sent_bytes
        head_bytes, limit = len(head), self._answered_bytes + IN_FLIGHT_BYTES
        parts: list[bytes] = []
        # Until the server has answered, nobody knows whether it reads at all: all that is sent to it may be in doubt.
        free = (self._window if self.answered else 1) - len(sent)
        while unsent and free > 0 and (not sent or end < limit):
            entry = unsent.popleft()
            entry.end = end = end + head_bytes + len(entry.content)
            sent.append(entry)
            parts += (head, entry.content)
            free -= 1
        self._sent_bytes = end
        return b"".join(parts)

    def receive(self, data: bytes, now: float) -> None:
        """Takes in what arrived. Raises `MalformedAnswer`; then call `broken`."""
        answers = self._reader.receive(data)
        if sum(count for _, count in answers) > len(self._sent):
            # Nobody knows which of them are the answers.
            raise MalformedAnswer("more answers came than requests were sent")
        for answer, count in answers:
            if self.closing:
                raise MalformedAnswer("answers follow the last one of the connection")
            self.answered = True
            self._failing_since = None
            if answer.status == 200:
                self._accept(count)
            elif answer.is_of_proxy:
                self._unknown(self._next(), f"a proxy answers {answer.status}")
            else:
                self._refuse(answer, now)
            if answer.close:
                # RFC 9112 section 9.6: the server does not process what was sent behind this request.
                self.closing = True
                self._send_anew()

    def _next(self) -> Entry:
        entry = self._sent.popleft()
        self._answered_bytes = entry.end
        return entry

    def _accept(self, count: int) -> None:
        for _ in range(count):
            entry = self._next()
            entry.error = None
            entry.is_done = True
        self._window = min(self._limit, self._window + count)
        self._unavailable_at = self._denied = None
        self._is_tried_again = self._is_off = False
        if not self._reorder:
            self._overtaken()

    def _overtaken(self) -> None:
        """A message behind those that were refused was accepted, or may have been: they stay refused."""
        for entry in self._again:
            entry.is_done = True
        self._again.clear()

    def _refuse(self, answer: Answer, now: float) -> None:
        entry = self._next()
        detail = f"the gateway does not accept {self.endpoint.token_name}" if answer.status == 401 else None
        entry.error = error = answer.refusal(entry.message, detail)
        self._is_off = error.type == DISABLED
        self._is_held |= answer.status in (401, 503)
        if answer.status == 401:
            self._denied = error
            self._again.append(entry)
        elif answer.status == 503 and not self._is_off and self._may_wait(error.retry_after_s, now):
            self._again.append(entry)
        else:
            entry.is_done = True

    def _may_wait(self, wait_s: Optional[float], now: float) -> bool:
        """Returns whether there is time to wait as a 503 says, and does so."""
        wait_s = max(RETRY_AFTER_MINIMUM_S, min(RETRY_AFTER_S if wait_s is None else wait_s, RETRY_AFTER_LIMIT_S))
        self._unavailable_at = now if self._unavailable_at is None else self._unavailable_at
        if now - self._unavailable_at >= self._retry_s:
            return False
        self.resume_at = now + wait_s
        return True

    def renew(self, now: float) -> None:
        """Once the token is refused, and all answers have come, goes on with another token, or once more with the same.
        Otherwise the refusal is the outcome of all that comes."""
        if self._sent or (self._denied is None and self.verdict is None):
            return
        denied, self._denied = self._denied, None
        endpoint, is_young = self._renewed(self.endpoint)
        if endpoint is not None:
            self.endpoint = endpoint
            self.verdict = None
        elif denied is not None and is_young and not self._is_tried_again:
            self._is_tried_again = True
            self.resume_at = now + TOKEN_PAUSE_S
        elif denied is not None:
            self.verdict = denied
            self._refuse_all(denied)

    def _refuse_all(self, denied: RefusedError) -> None:
        self._overtaken()
        # Another thread, which takes messages, may do the same.
        with contextlib.suppress(IndexError):
            while True:
                entry = self._unsent.popleft()
                entry.error = copy.copy(denied)
                entry.error.message = entry.message
                entry.is_done = True

    def _send_anew(self) -> None:
        self._unsent.extendleft(reversed(self._sent))
        self._sent.clear()

    def broken(self, written: int, reason: str, now: float) -> None:
        """Ends the connection, of which the kernel took so many bytes. A request that was not written to its end cannot
        be complete at the server, and is sent anew."""
        if self._is_new and not self.answered:
            self.failed(reason, now)
        sent = self._sent
        while sent and sent[0].end <= written:
            self._unknown(sent.popleft(), reason)
        self._send_anew()

    def _unknown(self, entry: Entry, reason: str) -> None:
        entry.error = OutcomeUnknownError(reason, entry.message)
        entry.is_done = True
        if not self._reorder:
            self._overtaken()
