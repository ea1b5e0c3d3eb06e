"""What can go wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

#: The topic and the payload of a message, as they were given to `send_many`.
Message = tuple[str, Any]


class GatewayError(Exception):
    """The base of all errors of this package."""


class SettingsError(GatewayError):
    """The settings file does not tell how to reach the gateway. The text names the file."""


class SendError(GatewayError):
    """A message was not accepted, as far as the client knows."""

    def __init__(self, text: str, message: Message | None = None) -> None:
        # All arguments stay in `args`, so that the error can be pickled.
        super().__init__(text, message)
        self._text = text
        #: The topic and the payload, from `send_many`.
        self.message = message

    def __str__(self) -> str:
        return self._text


class RefusedError(SendError):
    """The gateway answered with an error, and published nothing. What the answer says is here (RFC 9457)."""

    def __init__(
        self,
        status: int,
        type: str = "about:blank",
        detail: str = "",
        pointer: str | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        place = f" (at {pointer})" if pointer else ""
        super().__init__(f"{status} {type}: {detail}{place}")
        self.args = (status, type, detail, pointer, retry_after_s)
        #: The status of the answer, such as 422.
        self.status = status
        #: The type of the problem, such as `urn:adapter-gateway:problem:not-a-message`.
        self.type = type
        #: What is wrong, in a sentence.
        self.detail = detail
        #: The place in the message (RFC 6901), such as `/payload/content`, if the fault has one.
        self.pointer = pointer
        #: The seconds after which the gateway wants to be asked again. Every 503 has them.
        self.retry_after_s = retry_after_s


class NotSentError(SendError, ConnectionError):
    """The gateway did not get the message: no connection could be made, or it ended before the last byte was sent.

    It is safe to send the message again.
    """

    def __init__(self, text: str, messages: Sequence[Message] = ()) -> None:
        super().__init__(text, messages[0] if messages else None)
        self.args = (text, messages)
        #: The messages that `send_many` took from the iterable and did not send, in their order.
        self.messages = list(messages)


class OutcomeUnknownError(SendError, ConnectionError):
    """The message was sent, and no answer came: the connection broke, or the time was over.

    The gateway may have published the message, or not. The client never sends such a message again by itself, since
    it could arrive twice.
    """


class BinaryNotFoundError(GatewayError, FileNotFoundError):
    """The program is not where an installation puts it. The text names the places."""


class GatewayProcessError(GatewayError):
    """A process did not do what was asked of it. `log` holds the last lines of its log, `reason` what it said itself."""

    def __init__(self, what: str, reason: str | None, log: Sequence[str]) -> None:
        self.reason = reason
        self.log = tuple(log)
        text = what if reason is None else f"{what}: {reason}"
        super().__init__("\n  ".join((text, *self.log)))


class GatewayEndedError(GatewayProcessError):
    """The process ended, and nobody had asked it to, or it did not end in time and was killed.

    `status` is the exit status, or the negative number of the signal that ended the process. The statuses of a start
    that fails are 2 for wrong options, 3 for a certificate or an endpoint that cannot be used, 4 for an address that
    cannot be listened on, and 5 if io_uring was asked for and is not available.
    """

    def __init__(self, what: str, status: int | None, reason: str | None, log: Sequence[str]) -> None:
        self.status = status
        super().__init__(what, reason, log)


class GatewayDisabledError(GatewayProcessError):
    """The gateway does not listen, because the settings do not switch it on. `reason` names the file."""


class GatewayTimeoutError(GatewayProcessError, TimeoutError):
    """What was waited for did not come in time."""
