"""Steps per second beside others: the loop that ours is compared with is the same cartpole; nothing is kept back."""

from __future__ import annotations

import itertools

import numpy as np
from environments import Result, Workload, measured, table, workloads

import warpdrive as wd
from harness.environments.cartpole_numba import Replicas, stepper

NAMES = ("position", "velocity", "angle", "angular_velocity")


def test_the_plain_loop_is_the_same_cartpole() -> None:
    env = wd.make("cartpole", episode_length=30)
    replicas, step = Replicas.of(30, seed=1), stepper(env, parallel=False)
    ends, actions = 0, []
    for _ in range(40):
        before, time = replicas.state.copy(), replicas.time.copy()
        step(replicas)
        actions.append(replicas.actions.copy())
        for i, row in enumerate(before):
            state = {**dict(zip(NAMES, row, strict=True)), "timestep": int(time[i])}
            expected = env.reference_step(state, replicas.actions[i : i + 1])
            assert replicas.ended[i] == (expected["terminated"] or expected["timestep"] == 30)
            assert replicas.rewards[i] == 1
            if replicas.ended[i]:
                ends += 1
                assert replicas.time[i] == 0 and np.abs(replicas.state[i]).max() <= 0.05
            else:
                np.testing.assert_allclose(replicas.state[i], [expected[name] for name in NAMES], atol=1e-6)
    assert ends > 30
    assert 0.4 < np.mean(actions) < 0.6  # 1200 fair draws lie outside once in 10**11


def test_ratios_below_one_and_those_who_are_missing_are_told() -> None:
    workload = Workload("cartpole", 1000, {})
    text = table([Result(workload, {2: 6e6, 1: 4e6}, {"faster": 8e6, "slower": 1e6}, {"gone": "not installed (x)"})])
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    assert rows[2][:3] == ["`cartpole`, 1,000 replicas", "**WarpDrive, 2 cores**", "6,000,000"]
    assert rows[3][1:3] == ["**WarpDrive, 1 core**", "4,000,000"]
    assert rows[4] == ["", "faster", "8,000,000", "0.75", "0.5"]
    assert rows[5] == ["", "slower", "1,000,000", "6", "4"]
    assert rows[6][1:3] == ["gone", "not installed (x)"]
    assert len({len(row) for row in rows}) == 1


def test_a_measurement_goes_on_without_those_who_cannot_be_measured() -> None:
    def missing(replicas: int, seconds: float) -> None:
        raise ModuleNotFoundError("No module named 'x'")

    def broken(replicas: int, seconds: float) -> None:
        raise OSError("no licence\nand more")

    figures = itertools.cycle([1.0, 2.0, 3.0, 7.0])
    known = {"known": lambda replicas, seconds: lambda: next(figures)}
    found = measured(Workload("cartpole", 8, {"a": missing, "b": broken, **known}), [1], 0.01, rounds=3)
    assert found.ours[1] > 0 and found.others.pop("WarpDrive, actions given") > 0
    assert found.others.pop("WarpDrive, from logits, recorded") > 0
    assert found.others == {"known": 3.0}  # the first round is not counted
    assert found.missing == {"a": "not installed (No module named 'x')", "b": "OSError: no licence"}


def test_every_environment_is_measured() -> None:
    assert {workload.name for workload in workloads(2)} == set(wd.registered_names())
