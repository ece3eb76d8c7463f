"""Report resources of compiled GPU code: registers, local and shared memory, float64, compile time. Needs no GPU.

    python benchmarks/gpu_code.py    # prints a table and writes it to benchmarks/results/gpu_code.md

Every environment's recorded step is compiled for several GPU architectures by each GPU backend.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

import warpdrive as wd
from warpdrive.backends.cuda.code import Capability, CudaCode
from warpdrive.backends.cuda.packing import Packing
from warpdrive.backends.numba_cuda.compile import compile_kernel
from warpdrive.backends.numba_cuda.fused import prepare
from warpdrive.backends.pycuda.nvrtc import compile_fused
from warpdrive.backends.shared.cache import CACHE_VARIABLE
from warpdrive.kernels.fusion import Fusion

CAPABILITIES: tuple[Capability, ...] = ((8, 0), (9, 0))
CONFIGURATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in wd.registered_names()},
    "tag_continuous, 110 agents, K 10": (
        "tag_continuous",
        {"num_taggers": 10, "num_runners": 100, "use_full_observation": False, "num_other_agents_observed": 10},
    ),
    "tag_continuous, 1000 agents, K 10": (
        "tag_continuous",
        {"num_taggers": 100, "num_runners": 900, "use_full_observation": False, "num_other_agents_observed": 10},
    ),
    "tag_continuous, 3000 agents, K 10": (
        "tag_continuous",
        {"num_taggers": 100, "num_runners": 2900, "use_full_observation": False, "num_other_agents_observed": 10},
    ),
    "battle, 4000 agents": ("battle", {"agents_per_team": 2000, "map_size": 200, "random_starts": True}),
}
HEAD = [
    "| fused step | backend | for | registers | local bytes | spilled bytes | shared bytes | float64 | compile CPU s |",
    "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
]
RESULTS = Path(__file__).parent / "results" / "gpu_code.md"


class Compiler:
    """Backend that compiles each fused kernel for all requested GPU architectures, without launches."""

    device = torch.device("cpu")

    def __init__(self, name: str) -> None:
        self.name, self.language = name, {"numba": "Python", "pycuda": "CUDA C"}[name]
        self.compiled: list[tuple[str, Capability, CudaCode, float]] = []

    def bind(self, fusion: Fusion, arguments: Mapping[str, Any], blocks: int, threads: int) -> Callable[[], None]:
        """See :class:`warpdrive.backends.interface.Backend`."""
        for capability in CAPABILITIES:
            start = time.process_time()
            code = self._compile(fusion, arguments, blocks, threads, capability)
            self.compiled.append((fusion.name, capability, code, time.process_time() - start))
        return lambda: None

    def _compile(
        self, fusion: Fusion, arguments: Mapping[str, Any], blocks: int, threads: int, capability: Capability
    ) -> CudaCode:
        if self.name == "pycuda":
            return compile_fused(fusion, arguments, blocks, threads, capability)[0]
        fused = prepare(fusion.kernel(), arguments, blocks)
        return compile_kernel(fused.kernel, fused.parameters, Packing.of(threads, fused.shared_bytes), capability)


def lines(title: str, name: str, config: dict[str, Any], backend: str) -> list[str]:
    """Return the rows of the table for the recorded step of an environment."""
    compiler = Compiler(backend)
    env = wd.EnvWrapper(env_name=name, env_config=config, num_envs=7, env_backend=compiler)
    compiler.compiled.clear()  # the reset kernel is part of the step
    env.allocate_rollout(4)
    table = []
    for _, (major, minor), code, seconds in compiler.compiled:
        taken = code.resources
        assert taken is not None, "the resources of code are read with nvJitLink: pip install 'warpdrive[numba-cuda]'"
        figures = (taken.registers, taken.local_bytes, taken.spilled_bytes, taken.shared_bytes)
        cells = [f"`{title}`", backend, f"sm_{major}{minor}", *map(str, figures)]
        cells += [str(code.ptx.count(".f64")), f"{seconds:.1f}"]
        table.append(f"| {' | '.join(cells)} |")
    return table


def main() -> None:
    """Compile, print, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-write", action="store_true", help="print the table without writing it")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only these environments; nothing is written")
    options = parser.parse_args()
    versions = ", ".join(f"{name} {version(name)}" for name in ("numba-cuda", "nvidia-nvvm", "nvidia-cuda-nvrtc"))
    told = [f"`python benchmarks/gpu_code.py`: the recorded step with sampled actions; {versions}.", "", *HEAD]
    print("\n".join(told))
    with tempfile.TemporaryDirectory() as folder:
        os.environ[CACHE_VARIABLE] = folder  # so that all is compiled
        for title, (name, config) in CONFIGURATIONS.items():
            if options.only and name not in options.only:
                continue
            for backend in ["numba"] + ["pycuda"] * has_twins(name, config):
                for line in lines(title, name, config, backend):
                    print(line, flush=True)
                    told.append(line)
    if not options.no_write and not options.only:
        RESULTS.write_text("\n".join(told) + "\n")


def has_twins(name: str, config: dict[str, Any]) -> bool:
    """Return True if an environment has CUDA C versions of its kernels, and few enough agents for them."""
    env = wd.make(name, **config)
    return bool(getattr(env, "cuda_twins", {})) and env.num_agents <= 1024


if __name__ == "__main__":
    main()
