"""The cooperative benchmark: episodes in the original packages, the unit of returns, and the table."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cooperative
import numpy as np
import pytest

import warpdrive as wd
from harness.cooperative.originals import Matrix, play
from harness.cooperative.report import (
    BEGIN,
    END,
    Reference,
    draw_family,
    half_interval,
    merged,
    read,
    references,
    table,
)
from harness.cooperative.run import Run, finished, is_current, train
from harness.cooperative.settings import SETTINGS, algorithms_of, configuration
from harness.cooperative.tasks import FAMILIES, TASKS
from warpdrive.training.config.load import load_config
from warpdrive.training.config.schema import POLICY_CONFIGS

CLIMBING = TASKS["matrix-climbing"]


class Constant:
    """Policy that always takes the same action of each agent."""

    def __init__(self, actions: list[int]) -> None:
        self.actions = actions

    def reset(self) -> None:
        """Do nothing."""

    def act(self, observations: Any, deterministic: bool, action_mask: Any) -> Any:
        """Return the actions for ``[episodes, agents, ...]`` observations."""
        assert observations.shape[1] == len(self.actions)
        return np.tile(self.actions, (len(observations), 1))


@pytest.mark.parametrize(("actions", "expected"), [([0, 0], 275), ([1, 1], 175), ([0, 1], -750)])
def test_returns_of_matrix_games_count_the_common_payoff_once(actions: list[int], expected: float) -> None:
    rewards = play(lambda: Matrix([[11, -30, 0], [-30, 7, 0], [0, 6, 5]]), {"agent": Constant(actions)}, 3, True)
    assert [CLIMBING.team_return(total) for total in rewards] == [expected] * 3


def test_players_that_stand_still_load_nothing() -> None:
    pytest.importorskip("lbforaging")
    assert play(TASKS["lbf-10x10-3p-3f"].original, {"agent": Constant([0, 0, 0])}, 2, True).tolist() == [0.0, 0.0]


def test_returns_of_simple_spread_are_in_the_former_unit() -> None:
    """By hand: distances of 2 for 25 steps, no collisions; each agent got -2 - 1 in every step, also for itself."""
    half = 3 * 25 * 0.5 * -2  # mpe2 weights distances by 0.5
    assert TASKS["mpe-spread"].team_return(half) == 3 * 25 * (-2 - 1)


def test_the_bound_of_speaker_listener_is_above_a_listener_of_mpe2_that_knows_the_goal() -> None:
    """It brakes by the drift that the search predicts, and is close to the search."""
    module = pytest.importorskip("mpe2.simple_speaker_listener_v4")
    bound = pytest.importorskip("harness.cooperative.bound")
    played, bounds = [], []
    for seed in range(5):
        env = module.parallel_env(max_cycles=25)
        env.reset(seed=seed)
        speaker, listener = env.unwrapped.world.agents
        goal, played_here = speaker.goal_b.state.p_pos, 0.0
        bounds.append(-2 * bound.least_cost(listener.state.p_pos, goal, width=1000))
        while env.agents:
            body = listener.state
            drift = body.p_pos + body.p_vel * 0.1 + bound.DRIFT * (0.75 * body.p_vel + bound.PUSHES)
            action = int(np.argmin(((drift - goal) ** 2).sum(axis=1)))
            played_here += sum(env.step({"speaker_0": 0, "listener_0": action})[1].values())
        played.append(played_here)
    assert all(ours < best for ours, best in zip(played, bounds, strict=True))
    assert sum(played) > 1.1 * sum(bounds)


def test_scripted_agents_accelerate_towards_a_landmark_and_brake_on_it() -> None:
    pytest.importorskip("mpe2.simple_speaker_listener_v4")
    towards = pytest.importorskip("harness.cooperative.scripted").towards
    assert [towards(np.array(offset), np.zeros(2)) for offset in ((-1, 0), (1, 0.5), (0, -1), (0.2, 1))] == [1, 2, 3, 4]
    assert [towards(np.zeros(2), np.array(velocity)) for velocity in ((-2, 0), (2, 0), (0, -2), (0, 2))] == [2, 1, 4, 3]
    assert towards(np.zeros(2), np.zeros(2)) == 0


@pytest.mark.parametrize("family", FAMILIES)
def test_settings_are_run_configurations(family: str) -> None:
    known = [task for task in TASKS.values() if task.family == family and task.environment in wd.registered_names()]
    for task in known:
        for algorithm in algorithms_of(task):
            config = configuration(task, algorithm, 0, "runs")
            if config["policy"][task.learning[0]]["algorithm"] in POLICY_CONFIGS:
                load_config(config)
    assert set(SETTINGS) == set(FAMILIES)


def test_schedules_are_scaled_with_the_steps() -> None:
    config = configuration(TASKS["mpe-spread"], "mappo", 0, "runs", 0.1)
    assert config["trainer"]["total_steps"] == 300_000
    assert config["policy"]["agent"]["lr"] == [[0, 3e-3], [300_000, 2e-4]]
    assert config["policy"]["agent"]["model"] == {"hidden": [64, 64]}


def test_finished_runs_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["matrix-climbing", "--algorithms", "ippo", "--quick", "--folder", str(tmp_path)]
    assert cooperative.main(arguments) == 0
    run = finished(tmp_path, CLIMBING, "ippo", 0, cooperative.QUICK_STEPS)
    assert run is not None and -750 <= run.score <= 275 and run.curve and run.episodes == 2
    assert finished(tmp_path, CLIMBING, "ippo", 0, 1.0) is None and not is_current(run)  # another number of steps
    result = tmp_path / "matrix-climbing" / "ippo" / "0" / "result.json"
    written = result.stat().st_mtime_ns
    assert cooperative.main(arguments) == 0
    assert result.stat().st_mtime_ns == written
    assert cooperative.main([*arguments, "--list"]) == 0
    assert f"{run.score:.2f} in" in capsys.readouterr().out


def test_stored_runs_can_be_reproduced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listed = ["matrix-climbing", "--algorithms", "ippo", "--seeds", "1", "--folder", str(tmp_path), "--list"]
    assert cooperative.main(listed) == 0
    assert "to do" not in capsys.readouterr().out
    assert cooperative.main([*listed, "--reproduce"]) == 0
    assert "to do" in capsys.readouterr().out


def test_stopped_runs_are_not_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(self: wd.Trainer) -> Any:
        return SimpleNamespace(env_steps=1600)

    monkeypatch.setattr(wd.Trainer, "train", stopped)
    with pytest.raises(RuntimeError, match="stopped after 1,600 environment steps"):
        train(tmp_path, "matrix-climbing", "ippo", 0, 1.0, 2)
    assert not list(tmp_path.rglob("result.json"))


def test_the_table_has_the_mean_and_the_interval_over_the_seeds() -> None:
    scores = [1.0, 2.0, 3.0]
    runs = [Run("lbf-8x8-2p-2f-coop", "qmix", seed, 10, 2.0, 100, 0.0, score) for seed, score in enumerate(scores)]
    published = {("lbf-8x8-2p-2f-coop", "qmix"): Reference("", "", 1.5, 0.25, "")}
    lines = table(runs, published, {}).splitlines()
    row = "| `lbf-8x8-2p-2f-coop` | QMIX | 1.50 ± 0.25 | not run | 2.00 ± 2.48 | 0.00 | 10 | 2.0 | 3 |"
    assert lines[0] == BEGIN and lines[-1] == END and row in lines  # 4.303 / sqrt(3) = 2.48
    assert lines.count("Training of all 3 runs took 6 minutes of processor time: QMIX 6.") == 2  # family and total
    assert half_interval([1.0]) is None
    newer = Run("lbf-8x8-2p-2f-coop", "qmix", 1, 10, 2.0, 100, 0.0, 7.0)
    assert [run.greedy for run in merged(runs, [newer])] == [1.0, 7.0, 3.0]


def test_the_curves_of_a_family_name_its_algorithms(tmp_path: Path) -> None:
    curve = [(1000, 1.0), (2000, 3.0)]
    runs = [Run("matrix-climbing", name, 0, 2000, 0.1, 2, 3.0, 3.0, curve=curve) for name in ("ippo", "vdn")]
    draw_family(tmp_path / "curves.svg", "matrix", runs)
    drawn = (tmp_path / "curves.svg").read_text(encoding="utf-8")
    assert ">matrix-climbing<" in drawn and ">IPPO<" in drawn and ">VDN<" in drawn and ">QMIX<" not in drawn


def test_the_tables_have_only_runs_with_the_present_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = read(cooperative.RESULTS / "cooperative.json")
    assert stored and all(is_current(run) for run in stored)
    monkeypatch.setitem(SETTINGS["matrix"]["ippo"], "policy", SETTINGS["matrix"]["ippo"]["policy"] | {"lr": 0.1})
    changed = [run for run in stored if not is_current(run)]
    assert changed and all(run.task.startswith("matrix") and run.algorithm == "ippo" for run in changed)


def test_published_values_name_tasks_and_sources() -> None:
    for (task, algorithm), row in references(cooperative.RESULTS / "cooperative_published.csv").items():
        assert task in TASKS and algorithm in cooperative.ALGORITHMS and row.source
