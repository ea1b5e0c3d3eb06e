"""The REST entrance of a local automation adapter, for Python.

`Gateway` runs the gateway as a child of this process, and `Client` posts messages to one; `adapter_gateway.aio` has the
same for asyncio. `enable` and `disable` switch the gateway on and off in the user settings. `find_binary` tells where
the installed program is, and `python -m adapter_gateway` runs it.
"""

from .client import Client
from .command import GatewayOptions, disable, enable, find_binary
from .errors import (
    BinaryNotFoundError,
    GatewayDisabledError,
    GatewayEndedError,
    GatewayError,
    GatewayProcessError,
    GatewayTimeoutError,
    NotSentError,
    Outcome,
    OutcomeUnknownError,
    RefusedError,
    SendError,
    SettingsError,
)
from .gateway import Gateway
from .process import Event

__all__ = [
    "BinaryNotFoundError",
    "Client",
    "Event",
    "Gateway",
    "GatewayDisabledError",
    "GatewayEndedError",
    "GatewayError",
    "GatewayOptions",
    "GatewayProcessError",
    "GatewayTimeoutError",
    "NotSentError",
    "Outcome",
    "OutcomeUnknownError",
    "RefusedError",
    "SendError",
    "SettingsError",
    "disable",
    "enable",
    "find_binary",
]
