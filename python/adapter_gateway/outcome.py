"""What became of a message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Optional, Union

from .errors import Message, OutcomeUnknownError, RefusedError, SendError


class _Outcome:
    """What became of one message of `send_many`: it was accepted, it was refused, or nobody knows.

    It is true in a condition if the message was accepted.
    """

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


if TYPE_CHECKING:
    # One class each lets a type checker conclude from `refused` what `error` is.
    class Accepted(_Outcome):
        error: None
        accepted: Literal[True]
        refused: Literal[False]
        unknown: Literal[False]

        def __bool__(self) -> Literal[True]: ...

    class Refused(_Outcome):
        error: RefusedError
        accepted: Literal[False]
        refused: Literal[True]
        unknown: Literal[False]

        def __bool__(self) -> Literal[False]: ...

    class Unknown(_Outcome):
        error: OutcomeUnknownError
        accepted: Literal[False]
        refused: Literal[False]
        unknown: Literal[True]

        def __bool__(self) -> Literal[False]: ...

    Outcome = Union[Accepted, Refused, Unknown]
else:
    Outcome = _Outcome
