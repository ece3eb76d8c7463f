"""Profile the compilation of a small, a medium and a large kernel for the CPU, with an empty cache.

    python benchmarks/compile_time.py --write benchmarks/results/compile_time.md
    python benchmarks/compile_time.py --beside FOLDER --label "first release"    # another checkout, and its column head

Figures are processor time of the first launch in a new process, after that of a trivial kernel, which loads numba. With
a second checkout, both are measured alternately.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
AGENTS = 32
HEADER = """
import math

import numpy as np
from numba import cuda

import warpdrive as wd


@wd.device_function
def distance(ax, ay, bx, by):
    return math.sqrt((ax - bx) * (ax - bx) + (ay - by) * (ay - by))


@wd.device_function
def wrapped(angle):
    while angle > np.float32(math.pi):
        angle -= np.float32(2 * math.pi)
    while angle < np.float32(-math.pi):
        angle += np.float32(2 * math.pi)
    return angle


@wd.kernel
def trivial(values):
    values[0] = 1


@wd.kernel
def kernel(x, y, speed, heading, energy, rewards, alive, actions, scores):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    best = cuda.shared.array(32, np.float32)
    count = cuda.shared.array(4, np.int32)
    gain = np.float32(0)
"""
SECTIONS = (
    """
    turn = np.float32(0.1) * (actions[env, agent] % {n} - 1)
    heading[env, agent] = wrapped(heading[env, agent] + turn)
    speed[env, agent] = min(max(speed[env, agent] + turn, np.float32(0)), np.float32({n}))
    if alive[env, agent] > 0:
        x[env, agent] += speed[env, agent] * math.cos(heading[env, agent])
        y[env, agent] += speed[env, agent] * math.sin(heading[env, agent])
    cuda.syncthreads()
""",
    """
    nearest, index = np.float32(1e9), -1
    for other in range({agents}):
        if other != agent and alive[env, other] > 0:
            far = distance(x[env, agent], y[env, agent], x[env, other], y[env, other])
            if far < nearest:
                nearest = far
                index = other
    if index >= 0 and nearest < {n}:
        gain += nearest / {n}
""",
    """
    best[agent] = gain + energy[env, agent]
    cuda.syncthreads()
    left = best[(agent + {n}) % {agents}]
    right = best[(agent + {agents} - {n}) % {agents}]
    if left > right:
        energy[env, agent] -= (left - right) / {n}
    else:
        energy[env, agent] += np.float32(0.5)
    cuda.syncthreads()
""",
    """
    if agent < 4:
        count[agent] = 0
    cuda.syncthreads()
    if energy[env, agent] > {n}:
        cuda.atomic.add(count, agent % 4, 1)
    cuda.syncthreads()
    share = count[agent % 4] / np.float32({agents})
    rewards[env, agent] += gain * share
""",
    """
    if energy[env, agent] < 0:
        alive[env, agent] = 0
        rewards[env, agent] -= np.float32({n})
    for k in range(3):
        scores[env, agent, k] += share * k + left
        if scores[env, agent, k] > {n}:
            scores[env, agent, k] = right
    cuda.syncthreads()
""",
)
"""Rules of a game, repeated in a kernel with different numbers ``n``."""
RULES = {"small": 1, "middle": 5, "large": 50}

STEPS = (
    ("warpdrive.backends.cpu.compile", "lower", "names, versions, regions"),
    ("warpdrive.backends.cpu.compile", "lower_with_slots", "names, versions, regions"),
    ("warpdrive.backends.cpu.compile", "generate_functions", "writing Python"),
    ("warpdrive.backends.cpu.compile", "generate_kernel", "writing Python"),
    ("warpdrive.backends.cpu.compile", "generate_typing_twin", "writing Python"),
    ("numba.core.compiler_machinery", "PassManager.run", "numba's other passes"),
    ("numba.core.typed_passes", "BaseTypeInference.run_pass", "numba's types"),
    ("numba.core.typed_passes", "BaseNativeLowering.run_pass", "numba's lowering to LLVM's language"),
    ("numba.core.codegen", "CPUCodeLibrary.add_ir_module", "LLVM: reading"),
    ("numba.core.codegen", "CPUCodeLibrary._optimize_functions", "LLVM: optimising"),
    ("numba.core.codegen", "CPUCodeLibrary._optimize_final_module", "LLVM: optimising"),
    ("warpdrive.backends.host.compiler", "LinkedLibrary._optimize_final_module", "LLVM: optimising"),
    ("numba.core.codegen", "CPUCodeLibrary.finalize", "LLVM: linking"),
    ("numba.core.codegen", "JITCodeLibrary._finalize_specific", "LLVM: machine code"),
    ("warpdrive.backends.host.compiler", "LinkingLibrary._finalize_specific", "LLVM: machine code"),
    ("warpdrive.backends.host.compiler", "LinkedLibrary._finalize_final_module", "LLVM: linking"),
)
"""Functions, and the step that their processor time is attributed to, excluding callees in the list."""
REST = "all else"


def text_of(rules: int) -> str:
    """Return the source of a module with a kernel of ``rules`` rules."""
    body = "".join(SECTIONS[n % len(SECTIONS)].format(n=n % 9 + 2, agents=AGENTS) for n in range(rules))
    return HEADER + body.replace("\n\n", "\n")


def measure(rules: int, folder: Path) -> dict[str, float]:
    """Compile a kernel in this process and return the processor time of each step."""
    import numpy as np

    path = folder / "compiled.py"
    path.write_text(text_of(rules))
    sys.path.insert(0, str(folder))
    module = importlib.import_module("compiled")
    module.trivial[1, 1](np.zeros(1))
    times: Counter[str] = Counter()
    inner: list[float] = []
    for place, name, step in STEPS:
        _count(place, name, step, times, inner)
    floats = [np.zeros((8, AGENTS), np.float32) for _ in range(6)]
    whole = [np.ones((8, AGENTS), np.int32) for _ in range(2)]
    start = time.process_time()
    module.kernel[8, AGENTS](*floats, *whole, np.zeros((8, AGENTS, 3), np.float32))
    total = time.process_time() - start
    return {**times, REST: total - times.total()}


def _count(place: str, name: str, step: str, times: Counter[str], inner: list[float]) -> None:
    """Wrap a function, if it exists, to record its processor time."""
    try:
        owner: Any = importlib.import_module(place)
    except ImportError:
        return
    *classes, attribute = name.split(".")
    for part in classes:
        owner = getattr(owner, part, None)
    if owner is None or attribute not in vars(owner):
        return
    function = getattr(owner, attribute)

    def timed(*arguments: Any, **named: Any) -> Any:
        inner.append(0.0)
        start = time.process_time()
        try:
            return function(*arguments, **named)
        finally:
            elapsed = time.process_time() - start
            times[step] += elapsed - inner.pop()
            if inner:
                inner[-1] += elapsed

    setattr(owner, attribute, timed)


def in_new_process(size: str, root: Path) -> dict[str, float]:
    """Measure the version in ``root`` in a new process with an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "PYTHONPATH": str(root), "WARPDRIVE_CACHE_DIR": cache, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, __file__, "--only", size]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout))


def table(size: str, figures: Mapping[str, Sequence[Mapping[str, float]]]) -> list[str]:
    """Return the lines of a Markdown table: each version's medians, by step."""
    lines = text_of(RULES[size]).partition("def kernel")[2].count("\n")
    rows = [f"| {size}: {lines} lines | {' | '.join(figures)} |", "| --- |" + " ---: |" * len(figures)]
    for step in dict.fromkeys(step for found in figures.values() for figure in found for step in figure):
        medians = [statistics.median(figure.get(step, 0) for figure in found) for found in figures.values()]
        rows.append(f"| {step} | {' | '.join(f'{seconds:.2f}' for seconds in medians)} |")
    totals = [statistics.median(sum(figure.values()) for figure in found) for found in figures.values()]
    return [*rows, f"| **together** | {' | '.join(f'**{seconds:.2f}**' for seconds in totals)} |", ""]


def main() -> None:
    """Print the tables, and write them to a file if one is given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="processes per kernel and version (default: 3)")
    parser.add_argument("--beside", type=Path, metavar="FOLDER", help="checkout of another version, to compare with")
    parser.add_argument("--label", help="column head of the other version (default: the name of its folder)")
    parser.add_argument("--sizes", nargs="+", choices=RULES, default=list(RULES), help="kernels (default: all)")
    parser.add_argument("--write", type=Path, metavar="FILE", help="file to write the tables to")
    parser.add_argument("--only", choices=RULES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(measure(RULES[options.only], Path(folder))))
        return
    from harness.measure import machine

    versions = {"seconds": ROOT}
    if options.beside:
        versions[options.label or options.beside.resolve().name] = options.beside.resolve()
    lines = [machine(), "", "Seconds of processor time of a kernel's first launch, nothing cached,"]
    measured = f"medians of {options.rounds} processes" if options.rounds > 1 else "one process each"
    lines += [f"{measured}, in turns where there are two versions.", ""]
    for size in options.sizes:
        figures: dict[str, list[dict[str, float]]] = {name: [] for name in versions}
        for _ in range(options.rounds):
            for name, root in versions.items():
                figures[name].append(in_new_process(size, root))
        lines += table(size, figures)
    print("\n".join(lines))
    if options.write:
        options.write.write_text("\n".join(["# Where compile time goes", "", *lines]))


if __name__ == "__main__":
    main()
