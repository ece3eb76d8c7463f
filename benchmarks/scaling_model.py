"""What an update costs, as a function of replicas, agents, processes and machines: fitted to what was measured.

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
    """What was measured with one size.

    Attributes:
        workload: its name; constants are those of a workload.
        processes: how many trained together.
        sync: how, ``"gradients"`` or ``"rollouts"``.
        replicas: of each process.
        agents: of each replica.
        steps: of each replica in a rollout.
        gradient_steps: of an update.
        messages: of an update, that a process took part in.
        bytes: of an update, that process 1 put in: gradients, sums and experience.
        rollout, update: seconds, medians over rollouts and updates.
        jitter: the standard deviation of the time of both together, over the mean.
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
        """The steps of agents in a process's rollout."""
        return self.steps * self.replicas * self.agents


@dataclass(frozen=True)
class Costs:
    """Of a workload, in seconds: a step of a rollout, in it an agent's; a gradient step, and an update's row."""

    step: float
    agent_step: float
    gradient_step: float
    row: float

    def rollout(self, point: Point) -> float:
        """Seconds."""
        return point.steps * self.step + point.rows * self.agent_step

    def update(self, point: Point) -> float:
        """Seconds, without messages."""
        times = point.processes if point.sync == "rollouts" else 1
        return point.gradient_steps * self.gradient_step + times * point.rows * self.row


@dataclass(frozen=True)
class Network:
    """What messages between processes cost, in seconds: each, and each byte that a process puts in."""

    message: float
    byte: float

    def seconds(self, point: Point) -> float:
        """Of an update's messages."""
        if point.processes == 1:
            return 0.0
        arriving = point.processes - 1 if point.sync == "rollouts" else 1
        return point.messages * self.message + arriving * point.bytes * self.byte


def fitted_costs(points: Sequence[Point]) -> Costs:
    """Fit the costs of a workload to processes alone of at least two sizes, in the least squares of relative errors."""
    alone = [point for point in points if point.processes == 1]
    rollout = _line([(point.steps, point.rows, point.rollout) for point in alone])
    update = _line([(point.gradient_steps, point.rows, point.update) for point in alone])
    return Costs(*rollout, *update)


def fitted_message(points: Sequence[Point], byte: float) -> float:
    """Seconds of a message: what updates of several processes take longer than the same work alone.

    Args:
        points: of which those with ``sync: gradients`` count that have a point alone of the same sizes.
        byte: seconds of a byte.
    """
    found = []
    for point in points:
        alone = [other for other in points if other.processes == 1 and _sizes(other) == _sizes(point)]
        if point.processes > 1 and point.sync == "gradients" and alone:
            found.append((point.update - alone[0].update - point.bytes * byte) / point.messages)
    return statistics.median(found)


def nccl_seconds(messages: int, sent: int, gpus: int, machines: int) -> float:
    """Seconds of an update's all-reduces through nccl, on paper.

    A message: twice what the model says with which nccl chooses its algorithms, for a tree and the protocol LL
    (NVIDIA/nccl, src/graph/tuning.cc, 2026): 6.8 us, and there and back 0.6 us for each NVLink that is passed within a
    machine and 5 us for each level of the tree over machines. Twice, because users measure that: 34 us between the 8
    A100 of a DGX, for which the model of the ring says 15 (NVIDIA/nccl-tests, issue 123).

    Bytes: each goes out and comes in once, through 50 GB/s of InfiniBand for each GPU, or 450 GB/s of NVLink within one
    machine (NVIDIA's data sheet of DGX H200: eight ports of 400 Gb/s; NVLink 900 GB/s, both directions together).

    Args:
        messages: how many.
        sent: bytes that a process puts in.
        gpus: in all.
        machines: that they are in.
    """
    model = 1e-6 * (6.8 + 2 * ((gpus // machines - 1) * 0.6 + math.floor(math.log2(machines)) * 5.0))
    return messages * 2 * model + 2 * sent / (450e9 if machines == 1 else 50e9)


def efficiency(alone: float, processes: int, messages: float, jitter: float) -> float:
    """Throughput per process, over that of a process alone.

    All wait for the slowest. The expected maximum of ``n`` normal numbers is at most ``sqrt(2 ln n)`` deviations.

    Args:
        alone: seconds of a rollout and an update.
        processes: how many.
        messages: seconds of an update's messages.
        jitter: the standard deviation of ``alone`` over ``alone``.
    """
    return 1.0 / (1.0 + jitter * math.sqrt(2.0 * math.log(processes)) + messages / alone)


def _sizes(point: Point) -> tuple[str, int, int, int]:
    return point.workload, point.replicas, point.agents, point.steps


def _line(points: Sequence[tuple[float, float, float]]) -> tuple[float, float]:
    """``a, b`` with ``a x + b y = z``, neither of them negative."""
    table = np.array(points, np.float64)
    weighted = table[:, :2] / table[:, 2:]
    both, *_ = np.linalg.lstsq(weighted, np.ones(len(table)), rcond=None)
    if (both >= 0).all():
        return float(both[0]), float(both[1])
    only = int(both.argmax())  # one of them is too small to be seen
    alone = [0.0, 0.0]
    alone[only] = float(weighted[:, only].sum() / (weighted[:, only] ** 2).sum())
    return alone[0], alone[1]
