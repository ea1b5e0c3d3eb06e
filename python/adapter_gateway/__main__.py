"""Runs the program: `python -m adapter_gateway serve` is `adapter-gateway serve`."""

import os
import sys

from .command import find_binary, may_be_refused
from .errors import GatewayError

if __name__ == "__main__":
    try:
        binary = find_binary()
        with may_be_refused():
            # Signals, standard input and the exit status become those of the program.
            os.execv(binary, [str(binary), *sys.argv[1:]])
    except GatewayError as error:
        sys.exit(f"adapter-gateway: {error}")
