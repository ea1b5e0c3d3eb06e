"""The REST entrance of a local automation adapter, for Python.

`find_binary` tells where the installed program is, and `python -m adapter_gateway` runs it.
"""

from .binary import find_binary
from .errors import BinaryNotFoundError, GatewayError

__all__ = [
    "BinaryNotFoundError",
    "GatewayError",
    "find_binary",
]
