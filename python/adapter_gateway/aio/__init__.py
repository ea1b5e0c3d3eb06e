"""The same names for asyncio."""
