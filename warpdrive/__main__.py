"""Entry point of ``python -m warpdrive``, equivalent to the command ``warpdrive``."""

import os
import sys
from importlib import import_module

if __name__ == "__main__":
    if sys.path[0] in ("", os.getcwd()):  # as for the command: a run's folder brings no modules
        del sys.path[0]
    sys.exit(import_module("warpdrive.training.cli.main").main())
