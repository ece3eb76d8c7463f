"""Particle environments, compared with ``mpe2``'s classes and with their references in NumPy."""

from __future__ import annotations

import importlib
import inspect
import math
import re

import numpy as np
import pytest
import torch

import warpdrive as wd
from warpdrive.checks.references import StepReference
from warpdrive.envs.particles import original as mpe2
from warpdrive.errors import DefinitionError
from warpdrive.testing import check_parity

# machines with a GPU and no network do not have it (tools/gather_wheels.py); the extra `test` does
pytest.importorskip("mpe2")

ORIGINALS = {name: importlib.import_module(f"mpe2.{name}_v3") for name in ("simple_spread", "simple_tag")}

STEPS = {"simple_spread": mpe2.spread_step, "simple_tag": mpe2.tag_step}

OTHERS = {
    "simple_spread": {
        "num_agents": 5,
        "num_landmarks": 2,
        "local_ratio": 0.3,
        "agent_size": 0.25,
        "acceleration": 8.0,
        "mass": 1.7,
        "damping": 0.1,
        "contact_force": 60.0,
        "contact_margin": 0.02,
        "time_step": 0.08,
        "start_range": 0.8,
        "episode_length": 40,
    },
    "simple_tag": {
        "num_adversaries": 4,
        "num_good_agents": 3,
        "num_obstacles": 5,
        "adversary_size": 0.12,
        "good_agent_size": 0.08,
        "obstacle_size": 0.15,
        "adversary_acceleration": 6.0,
        "good_agent_acceleration": 8.0,
        "adversary_speed": 0.6,
        "good_agent_speed": 2.5,
        "mass": 0.6,
        "damping": 0.1,
        "contact_force": 60.0,
        "contact_margin": 0.02,
        "time_step": 0.12,
        "start_range": 1.1,
        "obstacle_range": 0.8,
        "episode_length": 40,
    },
}


def with_actions(continuous: bool, others: bool, name: str) -> wd.Environment:
    return wd.make(name, continuous_actions=continuous, **(OTHERS[name] if others else {}))


@pytest.mark.parametrize("continuous", [False, True], ids=["discrete", "continuous"])
@pytest.mark.parametrize("name", ORIGINALS)
def test_spaces_are_those_of_mpe2(name, continuous):
    env, original = with_actions(continuous, False, name), ORIGINALS[name].parallel_env(continuous_actions=continuous)
    agents = [agent for tag in env.policy_tags.values() for agent in tag]
    assert len(original.possible_agents) == env.num_agents and agents == list(range(env.num_agents))
    assert env.episode_length == original.unwrapped.max_cycles
    for tag, members in env.policy_tags.items():
        seen = env.observation_space[tag] if isinstance(env.observation_space, dict) else env.observation_space
        for agent in members:
            assert original.observation_space(original.possible_agents[agent]) == seen
            assert original.action_space(original.possible_agents[agent]) == env.action_space


@pytest.mark.parametrize(
    ("continuous", "others"),
    [(False, True), (True, False)],
    ids=["discrete-other_constants", "continuous-as_published"],
)
@pytest.mark.parametrize("name", ORIGINALS)
def test_steps_agree_with_mpe2(name, continuous, others, python_backend):
    env = with_actions(continuous, others, name)
    found = check_parity(env, episodes=0, steps=600, whole_episodes=False, seed=1, backend=python_backend)
    assert found
    assert found.largest <= env.parity["tolerance"] and found.steps >= 600
    assert found.doubtful <= 1


@pytest.mark.parametrize("name", ORIGINALS)
def test_episodes_agree_with_mpe2(name, python_backend):
    env = wd.make(name)
    found = check_parity(env, episodes=50, steps=2000, whole_episodes=True, seed=2, replicas=50, backend=python_backend)
    assert found
    assert found.largest <= env.parity["episode_tolerance"]
    assert found.episodes >= 50 and found.doubtful <= 1


@pytest.mark.parametrize("name", ORIGINALS)
def test_the_environment_under_test_is_mpe2s_own(name):
    """The twin, which holds only mpe2's scenario and world, does what its public environment does."""
    original = ORIGINALS[name].parallel_env(continuous_actions=True)
    original.reset(seed=3)
    env = wd.make(name, continuous_actions=True)
    step, world = STEPS[name](env), original.unwrapped.world
    rng = np.random.default_rng(0)
    fixed = "obstacle" if name == "simple_tag" else "landmark"

    def state():
        agents, landmarks = ([entity.state for entity in group] for group in (world.agents, world.landmarks))
        return {
            "loc_x": np.array([s.p_pos[0] for s in agents]),
            "loc_y": np.array([s.p_pos[1] for s in agents]),
            "velocity_x": np.array([s.p_vel[0] for s in agents]),
            "velocity_y": np.array([s.p_vel[1] for s in agents]),
            f"{fixed}_x": np.array([s.p_pos[0] for s in landmarks]),
            f"{fixed}_y": np.array([s.p_pos[1] for s in landmarks]),
            "timestep": 0,
        }

    for _ in range(10):
        actions = rng.uniform(-0.5, 1.5, (env.num_agents, 5)).astype(np.float32)
        expected = step(state(), actions)
        observations, rewards, *_ = original.step(dict(zip(original.possible_agents, actions, strict=True)))
        seen = [row for key, rows in expected.items() if key.startswith("observations") for row in rows]
        for row, agent in zip(seen, original.possible_agents, strict=True):
            np.testing.assert_allclose(observations[agent], row, atol=1e-6)
        np.testing.assert_allclose(list(rewards.values()), expected["rewards"], atol=1e-6)


def test_comparisons_notice_other_physics():
    env = wd.make("simple_spread")
    step = mpe2.spread_step(wd.make("simple_spread", damping=0.2501))
    found = check_parity(env, lambda env: StepReference(env, step), episodes=0, steps=300, whole_episodes=False)
    assert not found and found.first.array.startswith("velocity")


@pytest.mark.parametrize("others", [False, True], ids=["as_published", "other_constants"])
@pytest.mark.parametrize("name", ORIGINALS)
def test_references_agree_with_mpe2(name, others):
    env = with_actions(True, others, name)
    step, rng = STEPS[name](env), np.random.default_rng(4)
    for _ in range(200):
        state = {key: rng.uniform(-1.2, 1.2, array.shape) for key, array in env.initial_state(rng).items()}
        actions = rng.uniform(-0.5, 1.5, (env.num_agents, 5))
        ours, theirs = (f({**state, "timestep": 3}, actions) for f in (env.reference_step, step))
        assert ours.keys() == theirs.keys()
        for key in ours:
            np.testing.assert_allclose(ours[key], theirs[key], rtol=0, atol=2e-5, err_msg=key)


class TestRules:
    """Cases small enough to work out by hand."""

    @staticmethod
    def stepped(env, state, actions):
        wrapper = wd.EnvWrapper(env, 1, "cpu")
        wrapper.reset()
        for key, values in state.items():
            wrapper.ctx[key][0] = torch.tensor(values, dtype=torch.float32)
        results = wrapper.step(torch.tensor([actions], dtype=torch.int32))
        return results[0], results[1][0].tolist(), {key: wrapper.ctx[key][0].tolist() for key in state}

    def test_the_five_moves_change_velocities_and_then_places(self):
        env = wd.make("simple_spread", num_agents=5, num_landmarks=2, acceleration=2.0)
        start = {
            "loc_x": [0.0, 10, 20, 30, 40],
            "loc_y": [0.0] * 5,
            "velocity_x": [1.0] * 5,
            "velocity_y": [0.0] * 5,
        }
        _, _, after = self.stepped(env, start, [0, 1, 2, 3, 4])
        np.testing.assert_allclose(after["loc_x"], [0.1, 10.1, 20.1, 30.1, 40.1], atol=1e-5)
        np.testing.assert_allclose(after["velocity_x"], [0.75, 0.55, 0.95, 0.75, 0.75], atol=1e-6)
        np.testing.assert_allclose(after["velocity_y"], [0, 0, 0, -0.2, 0.2], atol=1e-6)

    def test_overlapping_agents_push_each_other_apart(self):
        # agent 2 is far away, where two landmarks are
        start = {"loc_x": [-0.1, 0.1, 9.0], "loc_y": [0.0] * 3, "velocity_x": [0.0] * 3, "velocity_y": [0.0] * 3}
        landmarks = {"landmark_x": [0.1, 9.0, 9.0], "landmark_y": [0.4, 0.0, 0.0]}
        _, rewards, after = self.stepped(wd.make("simple_spread"), {**start, **landmarks}, [0, 0, 0])
        # they overlap by 0.1: a force of 100 * 0.1 for 0.1 units of time
        np.testing.assert_allclose(after["velocity_x"], [-1, 1, 0], atol=1e-4)
        # half of -0.4, the landmark's distance from agent 1, and half of -1 for the collision
        np.testing.assert_allclose(rewards, [-0.7, -0.7, -0.2], atol=1e-6)

    def test_agents_in_one_place_stay_finite(self):
        start = {key: [0.25, 0.25, 0.25] for key in ("loc_x", "loc_y")}
        observations, rewards, after = self.stepped(wd.make("simple_spread"), start, [0, 0, 0])
        assert torch.isfinite(observations).all() and np.isfinite(rewards).all()
        assert after["loc_x"] == [0.25, 0.25, 0.25]

    def test_touches_are_paid_to_every_adversary_and_speeds_are_limited(self):
        env = wd.make("simple_tag")
        start = {
            "loc_x": [0.0, 0.1, 0.8, 0.05],
            "loc_y": [0.0, 0.0, 0.8, 0.0],
            "velocity_x": [0.0] * 4,
            "velocity_y": [0.0, 0.0, 3.0, 3.0],
            "obstacle_x": [-0.9, 0.9],
            "obstacle_y": [-0.9, -0.9],
        }
        _, rewards, after = self.stepped(env, start, [0, 0, 0, 0])
        # the good agent has moved to (0.05, 0.3), out of reach: only agents 0 and 1 overlap
        assert rewards == [0.0, 0.0, 0.0, 0.0]
        np.testing.assert_allclose(np.hypot(after["velocity_x"], after["velocity_y"])[2:], [1.0, 1.3], atol=1e-5)
        start["velocity_y"] = [0.0] * 4
        _, rewards, _ = self.stepped(env, start, [0, 0, 0, 0])
        assert rewards == [20.0, 20.0, 20.0, -20.0]

    @pytest.mark.parametrize(
        ("x", "paid"), [(0.85, 0.0), (0.95, 0.5), (-0.95, 0.5), (1.5, math.e), (2.0, math.exp(2)), (3.0, 10.0)]
    )
    def test_what_leaving_costs(self, x, paid):
        env = wd.make("simple_tag")
        start = {"loc_x": [-0.5, 0.0, 0.5, x], "loc_y": [-0.5] * 3 + [0.0]}
        start |= {"obstacle_x": [-0.2, 0.2], "obstacle_y": [-0.9, -0.9]}
        _, rewards, _ = self.stepped(env, start, [0, 0, 0, 0])
        assert rewards[:3] == [0.0, 0.0, 0.0] and rewards[3] == pytest.approx(-paid, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "ranges"),
    [
        ("simple_spread", {"loc": 1.0, "landmark": 1.0}),
        ("simple_tag", {"loc": 1.0, "obstacle": 0.9}),
    ],
)
def test_start_states_are_uniform_independent_and_new_in_every_episode(name, ranges, python_backend):
    wrapper = wd.EnvWrapper(wd.make(name), 4000, python_backend, seed=5)
    names = [f"{kind}_{axis}" for kind in ranges for axis in "xy"]
    first = {key: wrapper.ctx[key].cpu().numpy().copy() for key in names}
    wrapper.reset()
    columns = []
    for key, values in first.items():
        largest = ranges[key[:-2]]
        for column in values.T:
            # Kolmogorov and Smirnov: 4000 uniform numbers are further from their distribution once in 10**7
            distance = np.abs(np.sort(column) - np.linspace(-largest, largest, 4000)).max() / (2 * largest)
            assert distance < math.sqrt(math.log(2 / 1e-7) / 2 / 4000) + 1 / 4000
            columns.append(column)
        assert (values != wrapper.ctx[key].cpu().numpy()).mean() > 0.99
    correlations = np.corrcoef(columns)[np.triu_indices(len(columns), 1)]
    assert np.abs(correlations).max() < 5.7 / math.sqrt(4000)
    assert not wrapper.ctx["velocity_x"].any() and not wrapper.ctx["velocity_y"].any()


WRONG = {
    "simple_spread": {
        "num_agents": 0,
        "num_landmarks": 0,
        "local_ratio": 1.1,
        "continuous_actions": 1,
        "collision_penalty": -1,
        "agent_size": 0,
        "acceleration": -1,
        "mass": 0,
        "damping": 1.1,
        "contact_force": -1,
        "contact_margin": 0,
        "time_step": 0,
        "start_range": 0,
        "episode_length": 0,
    },
    "simple_tag": {
        "num_adversaries": 0,
        "num_good_agents": 0,
        "num_obstacles": 0,
        "continuous_actions": 1,
        "tag_reward": -1,
        "tag_penalty": -1,
        "leaving_penalty": -1,
        "adversary_size": 0,
        "good_agent_size": 0,
        "obstacle_size": 0,
        "adversary_acceleration": -1,
        "good_agent_acceleration": -1,
        "adversary_speed": 0,
        "good_agent_speed": 0,
        "mass": 0,
        "damping": -0.1,
        "contact_force": -1,
        "contact_margin": 0,
        "time_step": 0,
        "start_range": 0,
        "obstacle_range": 0,
        "episode_length": 0,
    },
}


@pytest.mark.parametrize("name", WRONG)
def test_every_parameter_is_checked_and_documented(name):
    environment = type(wd.make(name))
    assert set(inspect.signature(environment).parameters) == set(WRONG[name])
    for parameter, wrong in WRONG[name].items():
        for value in (wrong, "much", None):
            with pytest.raises(DefinitionError, match=f"^{parameter} is .*, but it must be "):
                environment(**{parameter: value})
        assert re.search(rf"^ +{parameter}: ", environment.__doc__, re.MULTILINE)
