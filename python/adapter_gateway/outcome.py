"""What became of a message."""

from __future__ import annotations

from .errors import OutcomeUnknownError, RefusedError, SendError


class Outcome:
    """What became of one message of `send_many`: it was accepted, it was refused, or nobody knows.

    It is true in a condition if the message was accepted.
    """

    __slots__ = ("error",)

    def __init__(self, error: SendError | None) -> None:
        #: Why the message was not accepted: a `RefusedError`, an `OutcomeUnknownError`, or `None` if it was accepted.
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
        return "<Outcome accepted>" if self.error is None else f"<Outcome {type(self.error).__name__}: {self.error}>"


#: The outcome of every message that was accepted.
ACCEPTED = Outcome(None)
