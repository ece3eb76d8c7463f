"""Measure steps per second of all environments on the CPU backend, compared with other installed libraries.

    python benchmarks/environments.py            # writes benchmarks/results/environments.md
    python benchmarks/environments.py --quick    # one short run of each, print only
    python benchmarks/environments.py --peer-python PATH    # interpreter with JaxMARL, Jumanji and pgx

Libraries: Gymnasium, EnvPool, gymnax, VMAS, JaxMARL, Jumanji, pgx, PettingZoo, mpe2, MAgent2, lbforaging, matrixgames,
overcooked_ai, rware; those that are not installed are reported as missing.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

import warpdrive as wd
from harness.environments import peers
from harness.environments.peers import Measure, Peer
from harness.environments.tag import CONFIGURATIONS
from harness.measure import machine, medians, rate
from warpdrive.backends.host import workers

PAGE = Path(__file__).parent / "results" / "environments.md"
STEPS = 16
"""The number of steps of the rollout that is recorded repeatedly."""


VECTORS = {"encoding": "featurize_state"}


@dataclass(frozen=True)
class Workload:
    """An environment, the number of its replicas, and the libraries it is compared with."""

    title: str
    replicas: int
    peers: Mapping[str, Peer]
    config: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The registered name of the environment."""
        return self.title.split(",")[0]


@dataclass(frozen=True)
class Result:
    """Steps per second: WarpDrive's by cores, other libraries' by name; and the reasons for missing ones."""

    workload: Workload
    ours: Mapping[int, float]
    others: Mapping[str, float]
    missing: Mapping[str, str]


def classic(name: str, most: int = 64, **more: Peer) -> dict[str, Peer]:
    """Return the libraries that have a classic control environment."""
    return {
        f"Gymnasium, vector of up to {most:,}": peers.gymnasium_vector(name, most),
        "EnvPool": peers.envpool(name),
        "gymnax": peers.gymnax(name),
        **more,
    }


SCENARIOS = (
    "simple",
    "simple_adversary",
    "simple_crypto",
    "simple_push",
    "simple_reference",
    "simple_speaker_listener",
    "simple_world_comm",
)


def particles(name: str, cores: int) -> dict[str, Peer]:
    """Return the libraries that have a particle environment."""
    of_jax = in_jax("JaxMARL", f"MPE_{name}_v3", cores)
    return {"VMAS": peers.vmas(name), **of_jax, "mpe2, 1 replica": peers.mpe2(name)}


def in_jax(library: str, name: str, cores: int) -> dict[str, Peer]:
    """Return an environment of JaxMARL, Jumanji or pgx on one core and on ``cores``."""
    counts = sorted({1, cores})
    return {f"{library}, {n} core{'s' * (n > 1)}": peers.in_jax(library.lower(), name, n) for n in counts}


def workloads(cores: int) -> list[Workload]:
    """Return the workloads; Numba loops run on one core and on ``cores``."""
    loops = {f"plain Numba loop, {n} core{'s' * (n > 1)}": peers.numba_cartpole(n) for n in sorted({1, cores})}
    own = {"JAX, the same cartpole": peers.jax_cartpole, **loops}
    tags = [
        Workload(title, replicas, {"NumPy reference, 1 replica": peers.numpy_tag(name, config)}, config)
        for title, (name, replicas, config) in CONFIGURATIONS.items()
    ]
    foraging, warehouse = (in_jax("Jumanji", name, cores) for name in ("LevelBasedForaging", "RobotWarehouse"))
    kitchen, game = in_jax("JaxMARL", "overcooked", cores), in_jax("pgx", "connect_four", cores)
    return [
        Workload("cartpole", 16_384, classic("CartPole-v1", 16_384, **own)),
        Workload("acrobot", 16_384, classic("Acrobot-v1")),
        Workload("mountain_car", 16_384, classic("MountainCar-v0")),
        Workload("continuous_mountain_car", 16_384, classic("MountainCarContinuous-v0")),
        Workload("pendulum", 16_384, classic("Pendulum-v1")),
        Workload("simple_spread", 1024, particles("simple_spread", cores)),
        Workload("simple_tag", 1024, particles("simple_tag", cores)),
        *[Workload(name, 1024, {"mpe2, 1 replica": peers.mpe2(name)}) for name in SCENARIOS],
        Workload("lbf", 1024, {"lbforaging, 1 replica": peers.lbforaging(), **foraging}),
        Workload("rware", 1024, {"rware, 1 replica": peers.rware(), **warehouse}),
        Workload("matrix_game", 4096, {"matrixgames, 1 replica": peers.matrixgames}),
        Workload("overcooked", 1024, {"overcooked_ai, 1 replica": peers.overcooked_ai(), **kitchen}),
        Workload("overcooked, vectors", 1024, {"overcooked_ai, 1 replica": peers.overcooked_ai(**VECTORS)}, VECTORS),
        Workload("connect_four", 1024, {"PettingZoo, 1 replica": peers.connect_four, **game}),
        *[
            Workload(f"smax, {name}", 1024, in_jax("JaxMARL", f"HeuristicEnemySMAX:{name}", cores), {"scenario": name})
            for name in ("3m", "2s3z")
        ],
        Workload("atari", 64, {"ale-py, vector": peers.ale_py("pong")}),
        *tags,
        Workload("battle", 64, {"MAgent2, 1 replica": peers.magent2()}),
        Workload("flock", 16, {}),
    ]


def ours(workload: Workload, cores: int, seconds: float) -> Measure:
    """Return a benchmark of ``env.step()``, with random actions drawn in the fused step."""
    env = made(workload, cores)
    env.step()  # compiles, for so many cores
    return lambda: rate(env.step, workload.replicas, seconds)


def recorded(workload: Workload, cores: int, seconds: float) -> Measure:
    """Return a benchmark of recorded steps with actions sampled from logits, as in training."""
    env = made(workload, cores)
    rollout = env.allocate_rollout(STEPS)

    def work() -> None:
        rollout.begin()
        for _ in range(STEPS):
            env.step_rollout(rollout)

    return lambda: rate(work, STEPS * workload.replicas, seconds)


def given(workload: Workload, cores: int, seconds: float) -> Measure:
    """Return a benchmark of ``env.step`` with precomputed random actions, without recording."""
    env = made(workload, cores)
    rollout = env.allocate_rollout(STEPS)
    for _ in range(STEPS):
        env.step_rollout(rollout)
    turns = itertools.cycle(rollout.actions.clone())
    env.step(next(turns))  # compiles, for so many cores
    return lambda: rate(lambda: env.step(next(turns)), workload.replicas, seconds)


def made(workload: Workload, cores: int) -> wd.EnvWrapper:
    """Return the replicas of a workload, which are stepped on the given number of cores."""
    workers.set_num_threads(cores)
    config = dict(workload.config)
    return wd.EnvWrapper(env_name=workload.name, env_config=config, num_envs=workload.replicas, env_backend="cpu")


def measured(workload: Workload, cores: Sequence[int], seconds: float, rounds: int) -> Result:
    """Measure a workload alternately with all other installed libraries."""
    candidates: dict[Any, Callable[[], float]] = {n: ours(workload, n, seconds) for n in cores}
    candidates["WarpDrive, actions given"] = given(workload, cores[0], seconds)
    candidates["WarpDrive, from logits, recorded"] = recorded(workload, cores[0], seconds)
    missing = {}
    for name, make in workload.peers.items():
        try:
            candidates[name] = make(workload.replicas, seconds)
        except ImportError as error:
            missing[name] = f"not installed ({error})"
        except Exception as error:  # a failure of another library must not end the benchmark
            missing[name] = f"{type(error).__name__}: {error}".splitlines()[0]
    figures = medians(candidates, rounds)
    return Result(workload, {n: figures.pop(n) for n in cores}, figures, missing)


def table(results: Sequence[Result]) -> str:
    """Return the results as a Markdown table: WarpDrive's, and other libraries' with the speedup over them."""
    cores = list(results[0].ours)
    ratios = " | ".join(f"ours on {n} / theirs" for n in cores)
    lines = [f"| environment | | steps per second | {ratios} |", f"| --- | --- | ---: |{' ---: |' * len(cores)}"]
    for result in results:
        first = f"`{result.workload.name}`{result.workload.title.removeprefix(result.workload.name)}"
        if "replicas" not in first:
            first += f", {result.workload.replicas:,} replicas"
        for n, figure in result.ours.items():
            lines.append(f"| {first} | **WarpDrive, {n} core{'s' * (n > 1)}** | {figure:,.0f} |{' |' * len(cores)}")
            first = ""
        for name, figure in result.others.items():
            compared = " | ".join(_ratio(own / figure) for own in result.ours.values())
            lines.append(f"| | {name} | {figure:,.0f} | {compared} |")
        lines += [f"| | {name} | {why} |{' |' * len(cores)}" for name, why in result.missing.items()]
    return "\n".join(lines)


def versions() -> str:
    """Return the versions of the libraries in the comparison."""
    installed = []
    for name in (
        "gymnasium",
        "envpool",
        "gymnax",
        "jax",
        "vmas",
        "mpe2",
        "lbforaging",
        "matrixgames",
        "overcooked_ai",
        "rware",
        "ale-py",
    ):
        with contextlib.suppress(PackageNotFoundError):
            installed.append(f"{name} {version(name)}")
    return ", ".join(dict.fromkeys([*installed, *sorted(peers.versions_in_jax)]))


def _ratio(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


def main() -> None:
    """Print the table and write it to a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one short run of each; nothing is written")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each candidate (default: 5)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only these environments; nothing is written")
    parser.add_argument("--note", default="", help="remark for the head of the page")
    parser.add_argument(
        "--peer-python", metavar="PATH", help="interpreter with JaxMARL, Jumanji and pgx (default: this one)"
    )
    options = parser.parse_args()
    peers.python = options.peer_python or peers.python
    rounds, seconds = (1, 0.05) if options.quick else (options.rounds, 0.3)
    torch.set_num_threads(1)  # PyTorch's idle threads would keep the cores of other measurements busy
    cores = len(os.sched_getaffinity(0))
    chosen = [workload for workload in workloads(cores) if workload.name in (options.only or [workload.name])]
    results = []
    for workload in chosen:
        results.append(measured(workload, sorted({1, cores}, reverse=True), seconds, rounds))
        print(table(results[-1:]), "\n", flush=True)
    if not options.quick and not options.only:
        head = f"{datetime.date.today()}, `python benchmarks/environments.py --rounds {rounds}`. {options.note}".strip()
        PAGE.write_text(f"{head}\n\n{machine()}, {versions()}\n\n{table(results)}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
