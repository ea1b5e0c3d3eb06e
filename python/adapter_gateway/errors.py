"""What can go wrong."""


class GatewayError(Exception):
    """The base of all errors of this package."""


class BinaryNotFoundError(GatewayError, FileNotFoundError):
    """The program is not where an installation puts it. The text names the places."""
