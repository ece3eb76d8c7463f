"""Cost model of an update as a function of replicas, agents, processes and machines, fitted to measurements.

With ``T`` steps of ``E`` replicas of ``A`` agents in each of ``P`` processes, ``G`` gradient steps, ``M`` messages of
``B`` bytes in all, and ``X`` bytes of experience that a process sends:

    rollout  = T (step + E A agent_step)
    update   = G gradient_step + T E A row + [P > 1] (M message + B byte)             sync: gradients
    update   = G gradient_step + P T E A row + [P > 1] (M message + (P - 1) X byte)   sync: rollouts
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Point:
    """Measurement of one size.

    Attributes:
        workload: The name of the workload; constants are fitted per workload.
        processes: The number of processes.
        sync: ``"gradients"`` or ``"rollouts"``.
        replicas: The number of replicas per process.
        agents: The number of agents per replica.
        steps: The number of steps of each replica in a rollout.
        gradient_steps: The number of gradient steps per update.
        messages: The number of messages per update in which a process takes part.
        bytes: The number of bytes per update that process 1 contributes: gradients, sums and experience.
        rollout, update: The durations in seconds, medians over rollouts and updates.
        jitter: The coefficient of variation of the duration of both together.
    """

    workload: str
    processes: int
    sync: str
    replicas: int
    agents: int
    steps: int
    gradient_steps: int
    messages: int
    bytes: int
    rollout: float
    update: float
    jitter: float

    @property
    def rows(self) -> int:
        """The number of agent steps in a process's rollout."""
        return self.steps * self.replicas * self.agents


@dataclass(frozen=True)
class Costs:
    """Costs of a workload in seconds: of a rollout step, an agent in it, a gradient step, and a row of an update."""

    step: float
    agent_step: float
    gradient_step: float
    row: float

    def rollout(self, point: Point) -> float:
        """Return the duration of a rollout in seconds."""
        return point.steps * self.step + point.rows * self.agent_step

    def update(self, point: Point) -> float:
        """Return the duration of an update in seconds, without messages."""
        times = point.processes if point.sync == "rollouts" else 1
        return point.gradient_steps * self.gradient_step + times * point.rows * self.row


@dataclass(frozen=True)
class Network:
    """Costs of messages between processes in seconds: per message, and per byte contributed by a process."""

    message: float
    byte: float

    def seconds(self, point: Point) -> float:
        """Return the duration of an update's messages in seconds."""
        if point.processes == 1:
            return 0.0
        arriving = point.processes - 1 if point.sync == "rollouts" else 1
        return point.messages * self.message + arriving * point.bytes * self.byte


def fitted_costs(points: Sequence[Point]) -> Costs:
    """Fit the costs of a workload to single-process runs of at least two sizes, by least squares of relative errors."""
    alone = [point for point in points if point.processes == 1]
    rollout = _line([(point.steps, point.rows, point.rollout) for point in alone])
    update = _line([(point.gradient_steps, point.rows, point.update) for point in alone])
    return Costs(*rollout, *update)


def fitted_message(points: Sequence[Point], byte: float) -> float:
    """Return the seconds per message: the excess duration of multi-process updates over the same work in one process.

    Args:
        points: The measurements; used are those with ``sync: gradients`` that have a single-process point of equal
            sizes.
        byte: The seconds per byte.
    """
    found = []
    for point in points:
        alone = [other for other in points if other.processes == 1 and _sizes(other) == _sizes(point)]
        if point.processes > 1 and point.sync == "gradients" and alone:
            found.append((point.update - alone[0].update - point.bytes * byte) / point.messages)
    return statistics.median(found)


def nccl_seconds(messages: int, sent: int, gpus: int, machines: int) -> float:
    """Return a theoretical estimate of the seconds of an update's all-reduces through nccl.

    A message: twice what the model says with which nccl chooses its algorithms, for a tree and the protocol LL
    (NVIDIA/nccl, src/graph/tuning.cc, 2026): 6.8 us, and there and back 0.6 us for each NVLink that is passed within a
    machine and 5 us for each level of the tree over machines. Twice, because users measure that: 34 us between the 8
    A100 of a DGX, for which the model of the ring says 15 (NVIDIA/nccl-tests, issue 123).

    Bytes: each goes out and comes in once, through 50 GB/s of InfiniBand for each GPU, or 450 GB/s of NVLink within one
    machine (NVIDIA's data sheet of DGX H200: eight ports of 400 Gb/s; NVLink 900 GB/s, both directions together).

    Args:
        messages: The number of messages.
        sent: The number of bytes that a process contributes.
        gpus: The total number of GPUs.
        machines: The number of machines.
    """
    model = 1e-6 * (6.8 + 2 * ((gpus // machines - 1) * 0.6 + math.floor(math.log2(machines)) * 5.0))
    return messages * 2 * model + 2 * sent / (450e9 if machines == 1 else 50e9)


def efficiency(alone: float, processes: int, messages: float, jitter: float) -> float:
    """Return the throughput per process, relative to that of a single process.

    All processes wait for the slowest. The expected maximum of ``n`` normal variables is at most ``sqrt(2 ln n)``
    standard deviations.

    Args:
        alone: The seconds of a rollout and an update.
        processes: The number of processes.
        messages: The seconds of an update's messages.
        jitter: The coefficient of variation of ``alone``.
    """
    return 1.0 / (1.0 + jitter * math.sqrt(2.0 * math.log(processes)) + messages / alone)


def _sizes(point: Point) -> tuple[str, int, int, int]:
    return point.workload, point.replicas, point.agents, point.steps


def _line(points: Sequence[tuple[float, float, float]]) -> tuple[float, float]:
    """Return the non-negative least squares solution ``a, b`` of ``a x + b y = z``."""
    table = np.array(points, np.float64)
    weighted = table[:, :2] / table[:, 2:]
    both, *_ = np.linalg.lstsq(weighted, np.ones(len(table)), rcond=None)
    if (both >= 0).all():
        return float(both[0]), float(both[1])
    only = int(both.argmax())  # one of them is too small to be resolved
    alone = [0.0, 0.0]
    alone[only] = float(weighted[:, only].sum() / (weighted[:, only] ** 2).sum())
    return alone[0], alone[1]
