"""Measure the agreement of all usable backends with the CPU backend: a table of docs/environments.md.

    python benchmarks/backend_agreement.py
    WARPDRIVE_CUDA_ON_HOST=1 python benchmarks/backend_agreement.py    # without a GPU: CUDA C compiled for the host

The exit code is 1 if backends differ by more than the tolerances.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))  # reference_agreement lies there

from reference_agreement import TOLERANCES, USUAL_TOLERANCE

import warpdrive as wd
from harness.agreement.table import options_of, row, write_table
from warpdrive.backends.loading import load_backend, usable_backends
from warpdrive.checks.agreement import Agreement, Setting, compare
from warpdrive.environment import kernel_functions
from warpdrive.errors import DefinitionError

HEAD = [
    "| environment | backend | compared | steps | episodes | largest difference | allowed | doubtful decisions |",
    "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |",
]


def pairs() -> list[tuple[str, str]]:
    """Return the pairs of registered environment and backend that can run here, without the CPU backend."""
    found = []
    for name in wd.registered_names():
        for backend in usable_backends()[1:]:
            try:
                kernel_functions(wd.make(name), load_backend(backend).language)
            except DefinitionError:
                continue
            found.append((name, backend))
    return found


def line(name: str, backend: str, tolerance: float, num_steps: int, *, same_states: bool) -> tuple[str, Agreement]:
    """Return a row of the table, and the agreement it reports."""
    replicas = 1000
    found = compare(
        lambda: wd.make(name),
        Setting("cpu", replicas),
        Setting(backend, replicas),
        tolerance,
        -(-num_steps // replicas),
        sampled=True,
        same_states=same_states,
        reset_pool_size=100,
    )
    where = "CUDA C on the host" if backend == "pycuda" and load_backend(backend).device.type == "cpu" else backend
    cells = [
        f"`{name}`",
        where,
        "step by step" if same_states else "whole episodes",
        f"{found.steps:,}",
        f"{found.episodes:,}",
        f"{found.largest:.1e}",
        f"{tolerance:.0e}",
        str(len(found.doubtful)),
    ]
    return row(cells), found


def main() -> None:
    """Compare all environments, and print and write the table."""
    options = options_of(__doc__)
    torch.set_num_threads(1)  # its copies are small
    lines, mistakes = list(HEAD), []
    for name, backend in pairs():
        tolerance = TOLERANCES.get(name, USUAL_TOLERANCE)
        for same_states, allowed in ((True, tolerance.step), (False, tolerance.episode)):
            if allowed is not None:
                text, found = line(name, backend, allowed, options.steps, same_states=same_states)
                lines.append(text)
                print(text, flush=True)
                mistakes += found.wrong
    if mistakes:
        raise SystemExit("backends differ:\n" + "\n".join(mistakes[:10]))
    if not options.no_write:
        write_table("agreement of backends", lines)


if __name__ == "__main__":
    main()
