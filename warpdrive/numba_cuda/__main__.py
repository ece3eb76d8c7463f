"""``python -m warpdrive.numba_cuda program.py [arguments]``, or ``-m module [arguments]``."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence

from warpdrive.numba_cuda.installation import install

USAGE = """usage: python -m warpdrive.numba_cuda program.py [arguments]
       python -m warpdrive.numba_cuda -m module [arguments]

Run a program of numba.cuda without a GPU: its kernels are compiled for the CPU.
"""


def main(arguments: Sequence[str]) -> int:
    """Run the program that the arguments name, as ``__main__``.

    Args:
        arguments: Those of the command line.

    Returns:
        The exit code, 2 if no program is named.
    """
    is_module = arguments[:1] == ["-m"]
    rest = list(arguments[is_module:])
    if not rest or (rest[0].startswith("-") and not is_module):
        wants_help = bool(rest) and rest[0] in ("-h", "--help")
        print(USAGE, end="", file=sys.stdout if wants_help else sys.stderr)
        return 0 if wants_help else 2
    install()
    sys.argv = rest
    sys.path[0] = os.getcwd() if is_module else os.path.dirname(os.path.abspath(rest[0]))
    if is_module:
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(rest[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
