"""Runs the program: `python -m adapter_gateway serve` is `adapter-gateway serve`."""

import os
import sys

from .binary import find_binary
from .errors import BinaryNotFoundError


def main() -> None:
    """Becomes the program, so that signals, standard input and the exit status are its own."""
    try:
        binary = find_binary()
    except BinaryNotFoundError as error:
        sys.exit(f"adapter-gateway: {error}")
    os.execv(binary, [str(binary), *sys.argv[1:]])


if __name__ == "__main__":
    main()
