"""Largest errors of the functions of wd.math, over all 2**32 arguments where there is one.

python benchmarks/mathematics.py                  # 1 hour on one core
python benchmarks/mathematics.py --only sin exp   # some of the functions

The errors are in units in the last place (ulp) of the exact result, which NumPy computes in float64. Functions of two
arguments are measured on special values and on 2**27 random pairs.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))  # float32_errors lies there

from float32_errors import BINARY, EXACT, errors, exact, kernel_of, pairs

CHUNK = 1 << 20
PAIRS = 1 << 27


def chunks(name: str, count: int) -> Iterator[tuple[np.ndarray, ...]]:
    """Yield the arguments of a function: all float32, or random pairs."""
    generator = np.random.default_rng(0)
    for first in range(0, count, CHUNK):
        if name in BINARY:
            yield pairs(name, generator, CHUNK)
        else:
            yield (np.arange(first, first + CHUNK, dtype=np.uint32).view(np.float32),)


def measured(name: str) -> str:
    """Return a row of the table: the largest error of a function, where it is, and how many results are rounded so."""
    kernel, count = kernel_of(name), PAIRS if name in BINARY else 1 << 32
    largest, where, total, inexact, start = 0.0, "", 0, 0, time.monotonic()
    for done, arguments in enumerate(chunks(name, count)):
        out = np.zeros(len(arguments[0]), np.float32)
        kernel.forall(len(out))(*arguments, out)
        found = errors(out, exact(name, *arguments))
        total += len(out)
        inexact += int((found > 0.5).sum())
        worst = int(found.argmax())
        if found[worst] > largest:
            largest, where = float(found[worst]), ", ".join(repr(float(a[worst])) for a in arguments)
        if sys.stderr.isatty() and done % 16 == 0:
            print(f"\r{name}: {total / count:.1%}, {time.monotonic() - start:.0f} s", end="", file=sys.stderr)
    if sys.stderr.isatty():
        print("\r" + " " * 40, end="\r", file=sys.stderr)
    return f"| `{name}` | {total:,} | {largest:.4f} | {where} | {1 - inexact / total:.2%} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=EXACT, default=list(EXACT), help="the functions")
    options = parser.parse_args()
    print("| function | arguments | largest error (ulp) | at | correctly rounded |")
    print("| --- | ---: | ---: | --- | ---: |")
    for name in options.only:
        print(measured(name), flush=True)


if __name__ == "__main__":
    main()
