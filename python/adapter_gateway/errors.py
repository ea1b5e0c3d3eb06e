"""What can go wrong."""

from __future__ import annotations

from collections.abc import Sequence


class GatewayError(Exception):
    """The base of all errors of this package."""


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
