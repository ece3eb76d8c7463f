"""``smax``, compared with a reference in NumPy, with JaxMARL's classes if installed, and with results by hand."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from environment_parameters import CONFIGURATIONS
from exhaustive import exhaustive

from warpdrive.envs.smax import Smax, units
from warpdrive.errors import DefinitionError
from warpdrive.testing import check_parity

UP, RIGHT, DOWN, LEFT, STOP, SHOOT = range(6)
MARINE, MARAUDER, STALKER, ZEALOT, ZERGLING, HYDRALISK = range(6)
PARAMETERS = [*CONFIGURATIONS["smax"], {"scenario": "2s3z", "use_self_play_reward": True, "see_enemy_actions": False}]


@pytest.mark.parametrize("parameters", exhaustive(PARAMETERS, PARAMETERS[-1:]))
def test_steps_are_those_of_the_reference(parameters, python_backend):
    found = check_parity(Smax(**parameters), episodes=20, steps=1000, seed=3, backend=python_backend)
    assert found and (found.terminated > 0 or "max_steps" in parameters)
    assert {"loc_x", "health", "cooldown", "focus", "rewards", "terminated", "action_mask", "world_state"} <= {
        *found.arrays
    }
    assert found.arrays["health"] == 0


@pytest.mark.parametrize("parameters", PARAMETERS)
def test_steps_are_those_of_jaxmarl(parameters):
    pytest.importorskip("jaxmarl")
    found = check_parity(Smax(**parameters), "warpdrive.envs.smax.original:JaxMARL", 20, 3, steps=1000)
    assert found and (found.terminated > 0 or "max_steps" in parameters)
    assert {"loc_x", "health", "cooldown", "rewards", "observations", "action_mask", "world_state"} <= {*found.arrays}


def put(replicas, places, **arrays):
    """Put the units of replica 0 on places (x, y), and set other arrays."""
    ctx = replicas.wrapper.ctx
    for name, values in zip(("loc_x", "loc_y"), np.transpose(places), strict=True):
        ctx[name][0] = torch.from_numpy(values.astype(np.float32))
    for name, values in arrays.items():
        ctx[name][0] = torch.as_tensor(values, dtype=ctx[name].dtype)


FAR = [(4, 4), (4, 28), (28, 4), (28, 28)]
TWO = {"scenario": "2m", "enemies": "agents", "won_battle_bonus": 10}
ONE_STEP = {"scenario": "2m", "enemies": "agents", "walls_cause_death": False, "world_steps_per_env_step": 1}
"""Parameters of several tests, so that they are compiled once."""


def test_units_move_at_their_speed_and_die_at_the_border(replicas_of):
    """Half a second at 3.15: 1.575."""
    replicas = replicas_of(Smax(**TWO))
    put(replicas, FAR)
    after = replicas.step([[UP, RIGHT, DOWN, LEFT]])[0].after
    np.testing.assert_allclose(after["loc_x"], [4, 5.575, 28, 26.425], rtol=1e-6)
    np.testing.assert_allclose(after["loc_y"], [5.575, 28, 2.425, 28], rtol=1e-6)
    put(replicas, [(4, 31), (1, 28), (28, 4), (28, 28)])
    outcome = replicas.step([[UP, LEFT, STOP, STOP]])[0]
    assert outcome.terminated
    assert outcome.rewards.tolist() == [0, 0, 11, 11]  # as much damage as there is, and the victory
    free = replicas_of(Smax(**ONE_STEP))
    put(free, [(4, 31.9), (0.1, 28), (28, 4), (28, 28)])
    outcome = free.step([[UP, LEFT, STOP, STOP]])[0]
    assert not outcome.done and (outcome.after["loc_y"][0], outcome.after["loc_x"][1]) == (32, 0)


def test_shots_by_hand(replicas_of):
    """A marine hits for 9 of 45, and again after 0.61 s less 1/16 s at least: once in a step of half a second."""
    replicas = replicas_of(Smax(**TWO))
    near = [(10, 10), (10, 20), (14.9, 10), (14.9, 20.5)]
    put(replicas, near)
    outcome = replicas.step([[SHOOT, SHOOT, STOP, SHOOT]])[0]
    # the second ally is too far from enemy 0; the action of the second enemy is ally 1, which enemies count first
    assert outcome.after["health"].tolist() == [45, 36, 36, 45]
    np.testing.assert_allclose(outcome.rewards, [9 / 45 / 2] * 4, rtol=1e-6)
    ready = outcome.after["cooldown"][[0, 3]]
    assert (ready > 0.61 - 1 / 16 - 7 / 16 - 1e-6).all() and (ready < 0.61 + 1 / 8 - 7 / 16 + 1e-6).all()
    np.testing.assert_allclose(outcome.after["cooldown"][[1, 2]], -0.5)
    assert replicas.step([[SHOOT, STOP, STOP, STOP]])[0].after["health"].tolist() in (
        [45, 36, 27, 45],
        [45, 36, 36, 45],
    )

    put(replicas, near, health=[9, 9, 9, 9], cooldown=np.zeros(4))
    outcome = replicas.step([[SHOOT, SHOOT + 1, SHOOT + 1, SHOOT]])[0]
    assert outcome.terminated  # all shots hit, also those of units that die: a draw
    np.testing.assert_allclose(outcome.rewards, [0.2] * 4, rtol=1e-6)


def test_overlapping_units_push_each_other_apart(replicas_of):
    """Two marines 0.5 apart overlap by a factor of 0.75 / 0.5 - 1, half of which moves each: to 0.75 at once."""
    replicas = replicas_of(Smax(**ONE_STEP))
    put(replicas, [(10, 10), (10.5, 10), (20, 20), (20.75, 20)])
    after = replicas.step([[STOP] * 4])[0].after
    np.testing.assert_allclose(after["loc_x"], [9.875, 10.625, 20, 20.75], rtol=1e-5)
    put(replicas, [(10, 10), (10.5, 10), (20, 20), (20.5, 20)], health=[0, 45, 45, 45])
    after = replicas.step([[STOP] * 4])[0].after
    np.testing.assert_allclose(after["loc_x"], [10, 10.5, 19.875, 20.625], rtol=1e-5)  # nobody pushes the dead


def test_enemies_by_hand(replicas_of):
    """They shoot at the closest ally, keep to it, follow the one they see, and otherwise cross the map."""
    replicas = replicas_of(Smax("2m_vs_1m", won_battle_bonus=0))
    put(replicas, [(12, 14), (13, 20), (16, 16)])
    for place in ((13, 20), (16.5, 16.5)):  # also when the other one comes closer
        put(replicas, [(12, 14), place, (16, 16)], cooldown=np.zeros(3))
        outcome = replicas.step([[STOP, STOP]])[0]
        assert outcome.after["last_action"][2] == SHOOT + 1 and outcome.after["focus"][2] == 0
    assert outcome.after["health"].tolist() == [27, 45, 45]
    put(replicas, [(12, 14), (16.5, 16.5), (16, 16)], health=[0, 45, 45])
    assert replicas.step([[STOP, STOP]])[0].after["focus"][2] == 1
    for place, action in (((16, 23), UP), ((24, 17), RIGHT), ((17, 9), DOWN), ((8, 15), LEFT)):
        put(replicas, [(31, 31), place, (16, 16)], health=[0, 45, 45])
        outcome = replicas.step([[STOP, STOP]])[0]
        assert outcome.after["last_action"][2] == action and outcome.after["focus"][2] == -1
    put(replicas, [(31, 31), (2, 2), (24, 16)], goal_x=[0, 0, 8], goal_y=[0, 0, 15])
    assert replicas.step([[STOP, STOP]])[0].after["last_action"][2] == LEFT


@pytest.mark.exhaustive
def test_an_action_beyond_the_opponents_stops(replicas_of):
    replicas = replicas_of(Smax("2m_vs_1m", enemies="agents"))
    put(replicas, [(10, 10), (12, 10), (14, 10)])
    assert replicas.step([[SHOOT + 1, SHOOT + 1, SHOOT]])[0].after["last_action"].tolist() == [STOP, STOP, SHOOT]
    assert replicas.state()["action_mask"].tolist() == [[True] * 6 + [False]] * 2 + [[True] * 7]


def test_starts(replicas_of):
    """Allies within 2 of (8, 16) and enemies within 2 of (24, 16), apart from pushes; others are drawn."""
    replicas = replicas_of(Smax(**TWO), 50)
    state = [replicas.state(env) for env in range(50)]
    x, y = (np.array([s[name] for s in state]) for name in ("loc_x", "loc_y"))
    assert (abs(x - np.repeat([8, 24], 2)) < 2.5).all() and (abs(y - 16) < 2.5).all() and len(np.unique(x)) == x.size
    np.testing.assert_allclose([s["goal_x"] for s in state], 32 - x, atol=1e-5)


def test_starts_of_smacv2(replicas_of):
    """Types are equal in both teams; half of the starts are mirrored, and in the others one team is in the centre."""
    replicas = replicas_of(Smax("smacv2_5_units"), 200)
    state = [replicas.state(env) for env in range(200)]
    kinds = np.array([s["unit_type"] for s in state])
    assert (kinds[:, :5] == kinds[:, 5:]).all() and set(np.unique(kinds)) == set(range(6))
    health = np.array([s["health"] for s in state])
    np.testing.assert_array_equal(health, np.array(units.HEALTH, np.float32)[kinds])
    x, y = (np.array([s[name] for s in state]) for name in ("loc_x", "loc_y"))
    mirrored = (abs(x[:, :5] + x[:, 5:] - 32) < 1e-3).all(1) & (abs(y[:, :5] - y[:, 5:]) < 1e-3).all(1)
    inside = [(abs(np.stack([x, y])[:, :, team] - 16) < 3.5).all((0, 2)) for team in (slice(5), slice(5, 10))]
    assert (mirrored | inside[0] | inside[1]).all()
    # binomial: each bound fails once in more than 10,000 seeds, and the seed is fixed
    assert 72 < mirrored.sum() < 128 and min(team.sum() for team in inside) > 20


@pytest.mark.parametrize(
    ("name", "allies", "enemies"),
    [
        ("3m", [0] * 3, [0] * 3),
        ("2s3z", [2, 2, 3, 3, 3], [2, 2, 3, 3, 3]),
        ("3s5z_vs_3s6z", [2] * 3 + [3] * 5, [2] * 3 + [3] * 6),
        ("6h_vs_8z", [5] * 6, [3] * 8),
        ("1M1g", [1, 4], [1, 4]),
        ("smacv2_10_units", [0] * 10, [0] * 10),
    ],
)
def test_scenarios(name, allies, enemies):
    assert units.scenario(name) == (allies, enemies, name.startswith("smac"))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"scenario": "3x"}, "scenario is '3x', but it must be an army such as 2s3z"),
        ({"scenario": "0m"}, "scenario is '0m'"),
        ({"scenario": "3m_vs_"}, "scenario is '3m_vs_'"),
        ({"scenario": "3m_vs_3m_vs_3m"}, "scenario is '3m_vs_3m_vs_3m'"),
        ({"scenario": 3}, "scenario is 3, but"),
        ({"scenario": "501m"}, "an army of 501 units: at most 500"),
        ({"scenario": "1000m"}, "an army of 1,000 units: at most 500"),
        ({"scenario": "smacv2_9999_units"}, "an army of 9,999 units: at most 500"),
        ({"scenario": f"smacv2_{10**20}_units"}, "scenario is 'smacv2_1"),
        ({"scenario": f"1{'0' * 5000}m"}, "scenario is '1000"),
        ({"enemies": "none"}, "enemies is 'none', expected one of heuristic, agents"),
        ({"enemies": np.array(["agents", "agents"])}, "enemies is array(['agents', 'agents']"),
        ({"attack_mode": 1}, "attack_mode is 1, expected one of closest, random"),
        ({"map_width": 0}, "map_width is 0"),
        ({"max_steps": 0}, "max_steps is 0"),
        ({"smacv2_position_generation": 1}, "smacv2_position_generation is 1, but it must be True or False"),
    ],
)
def test_wrong_arguments(parameters, message):
    with pytest.raises(DefinitionError, match=re.escape(message)):
        Smax(**parameters)
