"""Cost model of several processes: recovers known constants from synthetic data, and equals values by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.scaling.model import Costs, Network, Point, efficiency, fitted_costs, fitted_message, nccl_seconds

COSTS = Costs(step=40e-6, agent_step=0.2e-6, gradient_step=1.5e-3, row=20e-6)
NETWORK = Network(message=150e-6, byte=0.5e-9)


def point(replicas: int, processes: int = 1, sync: str = "gradients", agents: int = 5) -> Point:
    sent = 2_000_000 if processes > 1 else 0
    made = Point("game", processes, sync, replicas, agents, 32, 64, 70 * (processes > 1), sent, 0.0, 0.0, 0.0)
    return replace(made, rollout=COSTS.rollout(made), update=COSTS.update(made) + NETWORK.seconds(made))


def test_constants_are_found_again() -> None:
    points = [point(replicas, processes) for replicas in (16, 64, 256) for processes in (1, 2)]
    found = fitted_costs(points)
    for name, value in vars(COSTS).items():
        assert getattr(found, name) == pytest.approx(value)
    assert fitted_message(points, NETWORK.byte) == pytest.approx(NETWORK.message)


def test_a_cost_too_small_to_be_seen_is_not_negative() -> None:
    points = [replace(point(replicas), rollout=1e-6 * replicas - 2e-6) for replicas in (16, 64, 256)]
    found = fitted_costs(points)
    assert found.step == 0.0 and found.agent_step > 0.0


def test_an_update_by_hand() -> None:
    alone = point(16)
    assert alone.rows == 32 * 16 * 5
    assert alone.rollout == pytest.approx(32 * 40e-6 + 2560 * 0.2e-6)
    assert alone.update == pytest.approx(64 * 1.5e-3 + 2560 * 20e-6)
    assert point(16, 4).update - alone.update == pytest.approx(70 * 150e-6 + 2e6 * 0.5e-9)
    gathered = point(16, 4, "rollouts")  # the rows of all, and the experience of the three others arrives
    assert gathered.update == pytest.approx(64 * 1.5e-3 + 4 * 2560 * 20e-6 + 70 * 150e-6 + 3 * 2e6 * 0.5e-9)


def test_on_paper_by_hand() -> None:
    assert nccl_seconds(1, 0, 8, 1) == pytest.approx(2 * 15.2e-6)  # 6.8 and 14 times 0.6
    assert nccl_seconds(10, 0, 1024, 128) == pytest.approx(20 * 85.2e-6)  # and 14 levels, there and back, of 5
    assert nccl_seconds(0, 25_000_000, 16, 2) == pytest.approx(1e-3)  # 50 MB in and out of 50 GB/s
    assert efficiency(alone=0.05, processes=8, messages=0.005, jitter=0.0) == pytest.approx(1 / 1.1)
    assert efficiency(alone=0.05, processes=1, messages=0.0, jitter=0.3) == 1.0
    assert efficiency(0.05, 1024, 0.0, 0.02) == pytest.approx(1 / (1 + 0.02 * 3.7233), rel=1e-4)
