"""The REST entrance of a local automation adapter, for Python.

`find_binary` tells where the installed program is, and `python -m adapter_gateway` runs it.
"""

from .binary import find_binary
from .client import Client
from .errors import BinaryNotFoundError, GatewayError
from .errors import NotSentError, OutcomeUnknownError, RefusedError, SendError, SettingsError
from .outcome import Outcome

__all__ = [
    "BinaryNotFoundError",
    "Client",
    "GatewayError",
    "NotSentError",
    "Outcome",
    "OutcomeUnknownError",
    "RefusedError",
    "SendError",
    "SettingsError",
    "find_binary",
]
