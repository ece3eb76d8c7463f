"""``python -m warpdrive.numba_cuda [options] program.py [arguments]``, or ``[options] -m module [arguments]``."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from warpdrive.checks.program_options import OPTIONAL, STEPS
from warpdrive.numba_cuda.installation import install

_DESCRIPTION = "Run a program of numba.cuda without a GPU: its kernels are compiled for the CPU."

_EPILOG = """examples:
  python -m warpdrive.numba_cuda program.py --size 1000           run a program with its arguments
  python -m warpdrive.numba_cuda --check program.py --size 10     report errors of its kernels
  python -m warpdrive.numba_cuda --check --nan -m package.module  also report NaN, in a module

With --check, every launch is first interpreted, thread by thread, on copies of its arguments, and then runs as usual.
Data races, indices out of bounds, reads of uninitialised memory, divergent barriers and undefined arithmetic are
reported on stderr when they first occur, and in a summary at the end. A launch that accesses memory out of bounds
takes its results from the interpreter, which reads 0 there and discards writes. The exit code is 1 if there are
findings, else that of the program. Interpreting takes some microseconds per access: use small problems.

In tests: 'pytest -p warpdrive.numba_cuda --check-launches'
"""


def main(arguments: Sequence[str]) -> int:
    """Run the program that the arguments name, as ``__main__``.

    Args:
        arguments: The arguments of the command line.

    Returns:
        The exit code: 1 for findings of ``--check``, 2 if no program is named; one that is not found ends with 2, too.
    """
    parser = _parser()
    given = parser.parse_args(arguments)
    rest = given.module or given.program
    if not rest:
        parser.print_usage(sys.stderr)
        return 2
    if not given.check and (given.nan or given.float64 or given.json or given.steps is not None):
        parser.error("--nan, --float64, --json and --steps are options of --check")
    if not (_is_module(rest[0]) if given.module else os.path.exists(rest[0])):
        parser.error(f"no {'module' if given.module else 'file'} {rest[0]!r}")
    if given.json and not os.path.isdir(os.path.dirname(os.path.abspath(given.json))):
        parser.error(f"--json {given.json}: there is no folder {os.path.dirname(given.json)!r}")
    if given.check:
        return _run_checked(given, rest)
    _run(rest, bool(given.module))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m warpdrive.numba_cuda",
        usage="%(prog)s [options] (program.py | -m module) [arguments]",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--check", action="store_true", help="report errors in the kernels of the program")
    parser.add_argument("--nan", action="store_true", help="report NaN and infinity written to arrays, too")
    parser.add_argument("--float64", action="store_true", help="report computations in float64, too")
    parser.add_argument("--json", metavar="FILE", help="write the findings to a file (docs/guides/checks.md)")
    parser.add_argument(
        "--steps",
        type=_number,
        default=None,
        metavar="N",
        help="steps (loop iterations and memory accesses) for which the launches of a kernel are interpreted; the "
        "others run unchecked, which the summary says (default: 1,000,000; 0: no limit)",
    )
    parser.add_argument("-m", dest="module", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    parser.add_argument("program", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def _number(text: str) -> int:
    number = int(text.replace(",", "").replace("_", ""))
    if number < 0:
        raise ValueError
    return number


def _is_module(name: str) -> bool:
    """Return True if the package of a module, or the module, is found; missing submodules are the program's errors."""
    package = name.partition(".")[0]
    return bool(package) and importlib.util.find_spec(package) is not None


def _run(rest: list[str], is_module: bool) -> None:
    install()
    sys.argv = rest
    sys.path[0] = os.getcwd() if is_module else os.path.dirname(os.path.abspath(rest[0]))
    if is_module:
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(rest[0], run_name="__main__")


def _run_checked(given: argparse.Namespace, rest: list[str]) -> int:
    install()
    from warpdrive.checks.programs import Checks, to_stderr

    kinds = [kind for kind in OPTIONAL if getattr(given, kind)]
    steps = STEPS if given.steps is None else given.steps
    checks = Checks(kinds, steps, lambda found: to_stderr(str(found)))
    code: Any = 0
    try:
        with checks.active():
            _run(rest, bool(given.module))
    except SystemExit as end:
        code = end.code
    finally:
        to_stderr(checks.summary())
        if given.json:
            text = json.dumps({"program": rest, **checks.as_dict()}, indent=2)
            Path(given.json).write_text(f"{text}\n", encoding="utf-8")
    if isinstance(code, str):
        print(code, file=sys.stderr)
        code = 1
    return code or int(not checks.is_clean)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
