"""Workloads of ``gpu.py`` in order of importance, and the records of their results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

CALLER, RECORDED, POLICIES, UPDATE, TRAINING = "step", "recorded step", "with policies", "update", "training"
KINDS = {
    CALLER: "`env.step` with actions on the device",
    RECORDED: "`env.step_rollout`: uniform actions are sampled and the step is recorded in the same launch",
    POLICIES: "rollouts of the trainer: actions are sampled from the policies, and the steps are recorded",
    UPDATE: "updates on one rollout, as in the run configuration",
    TRAINING: "alternating rollouts and updates, as in the run configuration",
}

CONFIGURATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "cartpole": ("cartpole", {}),
    "pendulum": ("pendulum", {}),
    "tag_gridworld, 5 agents": ("tag_gridworld_published", {}),
    "tag_gridworld, 1000 agents": ("tag_gridworld_published", {"num_taggers": 999, "use_full_observation": False}),
    "tag_continuous, 110 agents": ("tag_continuous", {}),
    "tag_continuous, 1000 agents": ("tag_continuous", {"num_taggers": 100, "num_runners": 900}),
    "atari, Pong from the screen": ("atari/pong", {}),
    "atari, Pong from memory": ("atari/pong_ram", {}),
}
"""Run configurations and overrides of environment parameters, by title."""

IMPORTANCE: list[tuple[str, int]] = [
    ("cartpole", 1_000_000),
    ("tag_gridworld, 5 agents", 10_000),
    ("tag_continuous, 1000 agents", 2_000),
    ("tag_gridworld, 1000 agents", 2_000),
    ("tag_gridworld, 5 agents", 100_000),
    ("tag_continuous, 110 agents", 1_000),
    ("pendulum", 1_000_000),
    ("atari, Pong from the screen", 4_096),
    ("atari, Pong from memory", 32_768),
    ("cartpole", 100_000),
    ("tag_gridworld, 5 agents", 1_000),
    ("tag_continuous, 110 agents", 10_000),
    ("tag_continuous, 110 agents", 100),
    ("cartpole", 10_000),
    ("cartpole", 1_000),
    ("pendulum", 100_000),
    ("pendulum", 10_000),
    ("pendulum", 1_000),
    ("atari, Pong from memory", 4_096),
    ("atari, Pong from the screen", 32_768),
    *((f"atari, Pong from {source}", replicas) for replicas in (1_024, 1) for source in ("memory", "the screen")),
]
QUICK: list[tuple[str, int]] = [
    ("cartpole", 500),
    ("tag_gridworld, 5 agents", 100),
    ("tag_continuous, 110 agents", 5),
    ("pendulum", 50),
    ("atari, Pong from memory", 8),
]
IN_CUDA_C = ("cartpole", "tag_gridworld", "tag_continuous")
"""Prefixes of the titles of environments with kernel functions in CUDA C."""

MAX_ROWS_IN_A_ROLLOUT = 1 << 24


@dataclass(frozen=True)
class Unit:
    """Measurements that share replicas of an environment on a backend.

    Attributes:
        title: A key of ``CONFIGURATIONS``.
        replicas: The number of replicas.
        backend: The ``env_backend``, or ``"jax"``.
        graphs: The use of CUDA graphs (True, False), in the order of measurement.
    """

    title: str
    replicas: int
    backend: str
    graphs: tuple[bool, ...] = (False,)

    @property
    def expected(self) -> list[tuple[str, bool]]:
        """The expected rows: the quantity measured, and True if as a CUDA graph."""
        if self.backend == "jax":
            return [(RECORDED, False)]
        return [(kind, graph) for graph in self.graphs for kind in KINDS]


@dataclass
class Row:
    """One measurement. ``limit`` is None if the number of bytes is unknown; a row has a rate or an ``error``."""

    title: str
    agents: int
    replicas: int
    backend: str
    graph: bool
    kind: str
    steps_per_second: float | None = None
    bytes_per_step: float | None = None
    limit: float | None = None
    error: str | None = None

    @property
    def share(self) -> float | None:
        """The fraction of the limit reached."""
        return self.steps_per_second / self.limit if self.steps_per_second and self.limit else None


@dataclass
class Setup:
    """Cost of setting up a unit; bytes are None if the device does not report them.

    ``replicas_at_once`` is ``EnvWrapper.replicas_at_once``: the occupancy by the recorded step, in replicas.
    """

    title: str
    replicas: int
    backend: str
    seconds_to_first_step: float | None = None
    memory_reported: int | None = None
    memory_used: int | None = None
    memory_of_training: int | None = None
    replicas_at_once: int | None = None
    rollout_length: int | None = None
    training: dict[str, Any] = field(default_factory=dict)


def units(backends: Sequence[str], *, quick: bool, on_gpu: bool) -> list[Unit]:
    """Return the units to measure, the most important ones first."""
    return list(_units(QUICK if quick else IMPORTANCE, backends, (True, False) if on_gpu else (False,)))


def _units(workloads: Iterable[tuple[str, int]], backends: Sequence[str], graphs: tuple[bool, ...]) -> Iterator[Unit]:
    for title, replicas in workloads:
        for backend in backends:
            if backend == "jax":
                if title == "cartpole":
                    yield Unit(title, replicas, backend)
            elif backend != "pycuda" or title.startswith(IN_CUDA_C):
                yield Unit(title, replicas, backend, graphs)


def rollout_length(replicas: int, agents: int) -> int:
    """Return the number of steps per update: fewer for many replicas, so that they fit into memory."""
    return max(4, min(32, MAX_ROWS_IN_A_ROLLOUT // (replicas * agents)))
