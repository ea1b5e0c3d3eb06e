"""The same names for asyncio."""

from .client import Client
from .gateway import EventStream, Gateway

__all__ = ["Client", "EventStream", "Gateway"]
