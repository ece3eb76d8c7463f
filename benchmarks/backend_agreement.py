"""Agreement of the environments across backends, bit for bit: the table of docs/environments/index.md.

WARPDRIVE_CUDA_ON_HOST=1 python benchmarks/backend_agreement.py                      # minutes
WARPDRIVE_CUDA_ON_HOST=1 python benchmarks/backend_agreement.py --gpu_code 1000000   # a day: GPU code runs on the host
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))  # gpu_code and state_hash lie there

from gpu_code import GpuCode
from state_hash import state_hash

import warpdrive as wd
from harness.agreement.table import row, write_table
from warpdrive.backends.interface import Backend
from warpdrive.backends.loading import load_backend, usable_backends
from warpdrive.environment import kernel_functions
from warpdrive.errors import DefinitionError

HEAD = ["| environment | backend | steps | all arrays after every step |", "| --- | --- | ---: | --- |"]
REPLICAS = 1000


def backends(name: str) -> list[Backend]:
    """Return the backends besides the CPU backend that can run an environment here; GPU code runs on the host."""
    found: list[Backend] = []
    for backend in map(load_backend, usable_backends()[1:]):
        try:
            kernel_functions(wd.make(name), backend.language)
        except DefinitionError:
            continue
        found.append(backend)
    return [*found, GpuCode()]


def title_of(backend: Backend) -> str:
    """Return a backend's name in the table."""
    return "CUDA C on the host" if backend.name == "pycuda" and backend.device.type == "cpu" else backend.name


def main() -> None:
    """Compare, print, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1_000_000, help="steps on each backend (default: 1000000)")
    parser.add_argument("--gpu_code", type=int, default=2_000, help="steps of GPU code on the host (default: 2000)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="environments; then nothing is written down")
    parser.add_argument("--no-write", action="store_true", help="print the table without writing it")
    options = parser.parse_args()
    torch.set_num_threads(1)  # its copies are small
    lines, different = list(HEAD), []
    for name in options.only or wd.registered_names():
        hashes: dict[int, str] = {}
        for backend in backends(name):
            steps = options.gpu_code if isinstance(backend, GpuCode) else options.steps
            if steps not in hashes:
                hashes[steps] = state_hash(wd.make(name), "cpu", min(REPLICAS, steps), steps)
            found = state_hash(wd.make(name), backend, min(REPLICAS, steps), steps)
            is_same = found == hashes[steps]
            lines.append(row([f"`{name}`", title_of(backend), f"{steps:,}", "identical" if is_same else "different"]))
            print(lines[-1], found[:16], flush=True)
            different += [] if is_same else [f"{name} on {title_of(backend)}"]
    if different:
        raise SystemExit("backends differ: " + ", ".join(different))
    if not options.no_write and not options.only:
        write_table("agreement of backends", lines)


if __name__ == "__main__":
    main()
