"""``python -m warpdrive`` is the command ``warpdrive``."""

import sys
from importlib import import_module

if __name__ == "__main__":
    sys.exit(import_module("warpdrive.training.command_line").main())
