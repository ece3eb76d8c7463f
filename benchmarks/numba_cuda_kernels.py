"""Compare eight kernels of ``numba.cuda`` programs, run by ``warpdrive.numba_cuda``, with other ways to run on a CPU.

    python benchmarks/numba_cuda_kernels.py                # with loops by hand, compiled with njit(parallel=True)
    python benchmarks/numba_cuda_kernels.py --simulator    # with numba's simulator also, about 10 minutes

Launches include waiting for the end. The simulator runs each kernel once, at a size that takes it about a minute; ours
runs the same size. Last, a program that launches one kernel is timed in a new process. Writes
benchmarks/results/numba_cuda_kernels.md.
"""

from __future__ import annotations

import argparse
import datetime
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

import warpdrive.numba_cuda
from harness.measure import machine, medians
from harness.new_process import compiling, seconds

warpdrive.numba_cuda.install()

from harness.numba_cuda import by_hand, programs  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "numba_cuda_kernels.md"
REST = 0.2


class Case(NamedTuple):
    """A kernel with the size to compare at, and the one that takes the simulator about a minute."""

    title: str
    name: str
    size: int
    simulated: int


CASES = [
    Case("saxpy", "saxpy", 1 << 24, 1 << 19),
    Case("reduction", "reduction", 1 << 24, 1 << 15),
    Case("tiled product", "product", 1024, 112),
    Case("Laplace stencil", "laplace", 4096, 768),
    Case("Black-Scholes", "black_scholes", 1 << 20, 1 << 19),
    Case("histogram", "histogram", 1 << 24, 1 << 16),
    Case("scan", "scan", 1 << 24, 1 << 15),
    Case("N-body", "n_body", 1 << 14, 2560),
]

SIMULATED = """
import sys, time
sys.path.insert(0, {folder!r})
from harness.numba_cuda import programs
program = programs.{name}({size})
start = time.perf_counter()
program.launch()
print(time.perf_counter() - start)
"""

STARTED = """
import time
import numba
loaded = time.perf_counter()
import warpdrive.numba_cuda
warpdrive.numba_cuda.install()
import numpy as np
from numba import cuda

@cuda.jit
def kernel(values):
    i = cuda.grid(1)
    if i < values.size:
        values[i] *= 2

values = cuda.to_device(np.ones(1000, np.float32))
kernel[4, 256](values)
assert values.copy_to_host().sum() == 2000
print(time.perf_counter() - loaded)
"""


def timed(work: Callable[[], object]) -> Callable[[], float]:
    """Return a benchmark of one call, repeated for at least 50 ms, in seconds; it begins with a rest."""

    def measure() -> float:
        time.sleep(REST)
        calls, start = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - start) < 0.05:
            work()
            calls += 1
        return elapsed / calls

    return measure


def comparison(rounds: int, only: list[str]) -> list[str]:
    """Return the table of launches and loops by hand, whose results must agree."""
    lines = ["| kernel | size | launch, ms | by hand, ms | time, by hand = 1 |", "| --- | ---: | ---: | ---: | ---: |"]
    for case in _chosen(only):
        program, computed = getattr(programs, case.name)(case.size), getattr(by_hand, case.name)
        program.launch()
        np.testing.assert_allclose(program.result(), computed(*program.arguments), rtol=2e-4, atol=1e-6)
        candidates = {"launch": timed(program.launch), "by hand": timed(lambda: computed(*program.arguments))}  # noqa: B023
        found = medians(candidates, rounds)
        figures = f"{1e3 * found['launch']:.2f} | {1e3 * found['by hand']:.2f}"
        ratio = found["launch"] / found["by hand"]
        lines.append(f"| {case.title} | {case.size:,} | {figures} | {ratio:.2f} |")
        print(lines[-1], file=sys.stderr, flush=True)
    return lines


def simulation(only: list[str]) -> list[str]:
    """Return the table of launches and the simulator."""
    lines = ["| kernel | size | launch, ms | simulator, s | times faster |", "| --- | ---: | ---: | ---: | ---: |"]
    folder = str(Path(__file__).parent)
    for case in _chosen(only):
        program = SIMULATED.format(folder=folder, name=case.name, size=case.simulated)
        environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        simulator = float(done.stdout.splitlines()[-1])
        ours = getattr(programs, case.name)(case.simulated)
        ours.launch()
        launch = medians({"launch": timed(ours.launch)}, 5)["launch"]
        lines.append(
            f"| {case.title} | {case.simulated:,} | {1e3 * launch:.3f} | {simulator:.1f} | {simulator / launch:,.0f} |"
        )
        print(lines[-1], file=sys.stderr, flush=True)
    return lines


def starts(rounds: int) -> str:
    """Return the time from the end of ``import numba`` to the result of a first launch, in new processes."""
    with tempfile.TemporaryDirectory() as cache:
        (Path(cache) / "program.py").write_text(STARTED)  # kernels need the file of their source
        program = f"import runpy; runpy.run_path({cache + '/program.py'!r})"
        found = medians({"compiling": lambda: compiling(program), "cached": lambda: seconds(program, cache)}, rounds)
    return (
        f"A program with one small kernel has its result {found['compiling']:.2f} s after `import numba`, and "
        f"{found['cached']:.2f} s if the kernel is in the compile cache."
    )


def _chosen(only: list[str]) -> list[Case]:
    return [case for case in CASES if not only or case.name in only]


def main() -> None:
    """Print the tables and write them to a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="measurements of each candidate (default: 7)")
    parser.add_argument("--simulator", action="store_true", help="compare with numba's simulator")
    parser.add_argument("--only", nargs="+", default=[], choices=[case.name for case in CASES], help="some kernels")
    parser.add_argument("--note", default="", help="remark for the head of the page")
    options = parser.parse_args()
    command = "`python benchmarks/numba_cuda_kernels.py" + " --simulator`" * options.simulator
    command = command if command.endswith("`") else command + "`"
    parts = [
        "# Kernels of numba.cuda programs on the CPU",
        f"{datetime.date.today()}, {command}, medians of {options.rounds} alternating rounds. {options.note}".strip(),
        machine(),
        "\n".join(comparison(options.rounds, options.only)),
        *(["\n".join(simulation(options.only))] if options.simulator else []),
        starts(options.rounds),
    ]
    print("\n\n".join(parts))
    if not options.only:
        RESULTS.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
