"""The same names for asyncio."""

from .client import Client

__all__ = ["Client"]
