"""The REST entrance of a local automation adapter, for Python.

`Gateway` runs the gateway as a child of this process, and `Client` posts messages to one; `adapter_gateway.aio` has both
for asyncio, and `adapter_gateway.testing` a gateway for tests. `enable` and `disable` switch the gateway on and off in the
user settings, `is_enabled` and `read_token` tell what is there. `find_binary` tells where the installed program is, and
`python -m adapter_gateway` runs it.
"""

import sys

if sys.implementation.name != "cpython":
    raise ImportError(f"adapter_gateway needs CPython, and this is {sys.implementation.name}")
if sys.platform == "win32":
    raise ImportError("adapter_gateway needs Linux; elsewhere, post with any HTTP client")

from typing import TYPE_CHECKING, Any

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
from .process import Event, State
from .settings import is_enabled, read_token

if TYPE_CHECKING:
    from . import aio as aio
    from . import testing as testing

__all__ = ["Client", "Event", "Gateway", "GatewayOptions", "Outcome", "State"]
__all__ += ["disable", "enable", "find_binary", "is_enabled", "read_token"]
__all__ += ["BinaryNotFoundError", "GatewayDisabledError", "GatewayEndedError", "GatewayError", "GatewayProcessError"]
__all__ += ["GatewayTimeoutError", "NotSentError", "OutcomeUnknownError", "RefusedError", "SendError", "SettingsError"]


def __getattr__(name: str) -> Any:
    if name not in ("aio", "testing"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Most programs need neither asyncio nor what tests need.
    import importlib

    return importlib.import_module(f"{__name__}.{name}")
