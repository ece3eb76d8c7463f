"""Test generated kernels on the CPU backend against numba-cuda, bit for bit. Needs no GPU.

    python benchmarks/kernel_oracle.py --kernels 2000 --processes 2
    python benchmarks/kernel_oracle.py --seed 17 --kernels 1 --shrink    # reduce a failing kernel

Each seed is a kernel (``tests/support/generated_kernels.py``). The expected results come from numba-cuda's type
inference and lowering, whose LLVM modules run on this machine (``tests/support/cuda_on_host.py``). A kernel takes about
a second of processor time. The exit code is 1 if anything differs.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from oracle import CPU, FAULTS, GPU, KINDS, REFUSED_BY_CUDA, Outcome, examine, shrunk

from warpdrive.backends.shared.cache import CACHE_VARIABLE

SHOWN = 5
"""The number of faults printed with their kernels; the others are printed as one line each."""


def outcomes(seeds: Iterable[int], folder: Path, processes: int, gpu_code: bool) -> Iterable[Outcome]:
    """Yield the outcome of the kernel of each seed, as it completes."""
    work = partial(examine, folder=folder, targets=(GPU if gpu_code else CPU,))
    if processes == 1:
        yield from map(work, seeds)
        return
    with multiprocessing.get_context("spawn").Pool(processes, warnings.simplefilter, ("ignore",), 200) as pool:
        yield from pool.imap_unordered(work, seeds)


def progress(counts: Counter[str], kernels: int, started: float) -> None:
    """Print the progress: an updated line on a terminal, every hundredth line elsewhere."""
    done = counts.total()
    if sys.stderr.isatty() or done % 20 == 0 or done == kernels:
        end = "\r" if sys.stderr.isatty() and done < kernels else "\n"
        left = (time.perf_counter() - started) / done * (kernels - done)
        print(f"{done} of {kernels} kernels, {left:.0f} s left  ", end=end, file=sys.stderr, flush=True)


def show(outcome: Outcome, folder: Path, shrink: bool, gpu_code: bool) -> None:
    """Print a fault with its kernel."""
    if shrink:
        outcome = shrunk(outcome, folder, (GPU if gpu_code else CPU,))
    print(f"\nseed {outcome.seed}: {outcome.kind}\n{outcome.detail}\n{outcome.text}", flush=True)


def main() -> int:
    """Examine kernels, print failures and counts, and return 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", type=int, default=2000, help="number of kernels (default: 2000)")
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of the first kernel; later ones count up (default: 0)"
    )
    parser.add_argument("--processes", type=int, default=1, help="parallel processes (default: 1)")
    parser.add_argument("--shrink", action="store_true", help="reduce a failing kernel to a minimal one")
    parser.add_argument(
        "--gpu-code",
        action="store_true",
        help="test the code of the Numba CUDA backend, run on the host, instead of the CPU backend",
    )
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    counts: Counter[str] = Counter()
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ[CACHE_VARIABLE] = str(folder / "cache")
        seeds = range(chosen.seed, chosen.seed + chosen.kernels)
        for outcome in outcomes(seeds, folder, chosen.processes, chosen.gpu_code):
            counts[outcome.kind] += 1
            progress(counts, chosen.kernels, started)
            if outcome.kind in FAULTS and sum(counts[kind] for kind in FAULTS) <= SHOWN:
                show(outcome, folder, chosen.shrink, chosen.gpu_code)
            elif outcome.kind in (*FAULTS, REFUSED_BY_CUDA):
                print(f"seed {outcome.seed}: {outcome.kind}: {' '.join(outcome.detail.split())[:160]}", flush=True)
    for kind in KINDS:
        print(f"{counts[kind]:6} {kind}")
    return int(any(counts[kind] for kind in FAULTS))


if __name__ == "__main__":
    sys.exit(main())
