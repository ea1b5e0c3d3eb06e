"""The same names for asyncio."""

from .gateway import EventStream, Gateway

__all__ = ["EventStream", "Gateway"]
