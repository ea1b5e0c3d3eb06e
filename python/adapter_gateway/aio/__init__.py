"""The same names for asyncio."""

from .client import Client
from .gateway import Gateway

__all__ = ["Client", "Gateway"]
