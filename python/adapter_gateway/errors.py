"""What became of a message, and what else can go wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

from .endpoint import Message

_SHOWN = 200


class GatewayError(Exception):
    """The base of all errors of this package."""

    def __reduce__(self) -> tuple[Any, ...]:
        # `args` holds the text alone, and not what the constructor takes.
        return type(self).__new__, (type(self),), {**self.__dict__, "args": self.args}


class SettingsError(GatewayError):
    """The settings file does not tell how to reach the gateway, or cannot be edited. The text names the file."""


class SendError(GatewayError):
    """A message was not accepted, as far as the client knows."""

    def __init__(self, text: str, message: Optional[Message] = None) -> None:
        # A server chooses the text in part, and a terminal would obey some of its characters. `OSError`, which some errors
        # are, takes a second argument for itself.
        super().__init__("".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text))
        self.message = message

    def __str__(self) -> str:
        if self.message is None:
            return super().__str__()
        shown = f"{super().__str__()}; the message: {self.message!r:.{_SHOWN}}"
        is_text = isinstance(self.message[1], (str, bytes)) and isinstance(self, RefusedError)
        return f"{shown} (text as a payload is JSON already)" if is_text else shown


class RefusedError(SendError):
    """The gateway answered with an error, and published nothing. The answer (RFC 9457) says its `status`, such as 422; its
    `type`, such as `urn:adapter-gateway:problem:not-a-message`; in `detail` what is wrong, in a sentence; in `pointer` the
    place in the message (RFC 6901), such as `/payload/content`, if the fault has one; and with each 503 in `retry_after_s`
    the seconds after which the gateway wants to be asked again."""

    def __init__(
        self,
        status: int,
        type: str = "about:blank",
        detail: str = "",
        pointer: Optional[str] = None,
        retry_after_s: Optional[float] = None,
        message: Optional[Message] = None,
    ) -> None:
        place = f" (at {pointer})" if pointer else ""
        super().__init__(f"{status} {type}: {detail}{place}", message)
        self.status, self.type, self.detail = status, type, detail
        self.pointer, self.retry_after_s = pointer, retry_after_s


class NotSentError(SendError, ConnectionError):
    """The gateway did not get the message: no connection could be made, or it ended before the last byte was sent. It
    is safe to send the message again."""

    def __init__(self, text: str, messages: Sequence[Message] = ()) -> None:
        super().__init__(text, messages[0] if messages else None)
        #: The messages that `send_many` took from the iterable and did not send, in their order.
        self.messages = list(messages)


class OutcomeUnknownError(SendError, ConnectionError):
    """The message was sent, and no answer came: the connection broke, the time was over, or a proxy got none. The
    gateway may have published the message, or not. The client never sends such a message again by itself, since it
    could arrive twice."""


class Outcome:
    """What became of one message of `send_many`: accepted, refused, or nobody knows. It is true if it was accepted."""

    __slots__ = ("message", "error")

    def __init__(self, message: Message, error: Optional[SendError]) -> None:
        #: The topic and the payload, as the iterable gave them.
        self.message = message
        #: Why the message was not accepted: a `RefusedError`, an `OutcomeUnknownError`, or `None`.
        self.error = error

    @property
    def accepted(self) -> bool:
        """Whether the gateway answered 200: it publishes the message."""
        return self.error is None

    @property
    def refused(self) -> bool:
        """Whether the gateway answered with an error: it published nothing."""
        return isinstance(self.error, RefusedError)

    @property
    def unknown(self) -> bool:
        """Whether no answer came: the gateway may have published the message, or not."""
        return isinstance(self.error, OutcomeUnknownError)

    def check(self) -> None:
        """Raises the error if the message was not accepted."""
        if self.error is not None:
            raise self.error

    def __bool__(self) -> bool:
        return self.error is None

    def __repr__(self) -> str:
        return f"<Outcome {'accepted' if self.error is None else f'{type(self.error).__name__}: {self.error}'}>"


class BinaryNotFoundError(GatewayError, FileNotFoundError):
    """The program is not where an installation puts it. The text names the places."""


class GatewayProcessError(GatewayError):
    """A process did not do what was asked of it. `log` holds the last lines of its log, `reason` what it said itself."""

    def __init__(self, what: str, reason: Optional[str], log: Sequence[str]) -> None:
        self.what, self.reason, self.log = what, reason, tuple(log)
        text = what if reason is None else f"{what}: {reason}"
        super().__init__("\n  ".join((text, *self.log)))


class GatewayEndedError(GatewayProcessError):
    """The process ended, and nobody had asked it to, or it did not end in time and was killed. `status` is the exit
    status, or the negative number of the signal that ended the process. The statuses of a start that fails are 2 for
    wrong options, 3 for a certificate or an endpoint that cannot be used, 4 for an address that cannot be listened on,
    and 5 if io_uring was asked for and is not available."""

    def __init__(self, what: str, status: Optional[int], reason: Optional[str], log: Sequence[str]) -> None:
        super().__init__(what, reason, log)
        self.status = status


class GatewayDisabledError(GatewayProcessError):
    """The gateway does not listen, because the settings do not switch it on. `reason` names the file."""


class GatewayTimeoutError(GatewayProcessError, TimeoutError):
    """What was waited for did not come in time."""
