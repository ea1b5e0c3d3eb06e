"""Runs the program: `python -m adapter_gateway serve` is `adapter-gateway serve`."""

import os
import sys

from .command import find_binary
from .errors import BinaryNotFoundError

if __name__ == "__main__":
    try:
        binary = find_binary()
    except BinaryNotFoundError as error:
        sys.exit(f"adapter-gateway: {error}")
    # Signals, standard input and the exit status become those of the program.
    os.execv(binary, [str(binary), *sys.argv[1:]])
