"""Particle environments, compared with ``mpe2``'s classes."""

from __future__ import annotations

import importlib
import inspect
import math

import numpy as np
import pytest
import torch
from exhaustive import exhaustive

import warpdrive as wd
from warpdrive.checks.references import StepReference
from warpdrive.errors import DefinitionError
from warpdrive.testing import check_parity

# machines with a GPU and no network do not have it (tools/gather_wheels.py); the extra `test` does
pytest.importorskip("mpe2")

SCENARIOS = (
    "simple",
    "simple_adversary",
    "simple_crypto",
    "simple_push",
    "simple_reference",
    "simple_speaker_listener",
    "simple_world_comm",
)
VERSIONS = dict.fromkeys(("simple_spread", "simple_tag", *SCENARIOS), 3) | {"simple_speaker_listener": 4}
ORIGINALS = {name: importlib.import_module(f"mpe2.{name}_v{version}") for name, version in VERSIONS.items()}

OTHERS = {
    "simple_spread": {
        "num_agents": 5,
        "num_landmarks": 2,
        "local_ratio": 0.3,
        "collision_penalty": 1.5,
        "agent_size": 0.25,
        "acceleration": 8.0,
        "mass": 1.7,
        "damping": 0.1,
        "contact_force": 60.0,
        "contact_margin": 0.02,
        "time_step": 0.08,
        "start_range": 0.8,
        "episode_length": 40,
        "num_agent_neighbors": 2,
        "num_landmark_neighbors": 3,
    },
    "simple_adversary": {"num_good_agents": 4, "num_agent_neighbors": 5, "num_landmark_neighbors": 2},
    "simple_reference": {"local_ratio": 0.2},
    "simple_speaker_listener": {"padded": True},
    "simple_world_comm": {
        "num_good_agents": 3,
        "num_adversaries": 2,
        "num_obstacles": 2,
        "num_food": 1,
        "num_forests": 4,
    },
    "simple_tag": {
        "num_adversaries": 4,
        "num_good_agents": 3,
        "num_obstacles": 5,
        "tag_reward": 4.0,
        "tag_penalty": 6.0,
        "leaving_penalty": 0.5,
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
        "num_agent_neighbors": 3,
        "num_landmark_neighbors": 2,
    },
}


def with_actions(continuous: bool, others: bool, name: str) -> wd.Environment:
    return wd.make(name, continuous_actions=continuous, **(OTHERS.get(name, {}) if others else {}))


@pytest.mark.parametrize("continuous", [False, True], ids=["discrete", "continuous"])
@pytest.mark.parametrize("name", ORIGINALS)
def test_spaces_are_those_of_mpe2(name, continuous):
    env, original = with_actions(continuous, False, name), ORIGINALS[name].parallel_env(continuous_actions=continuous)
    agents = [agent for tag in env.policy_tags.values() for agent in tag]
    assert len(original.possible_agents) == env.num_agents and agents == list(range(env.num_agents))
    assert env.episode_length == original.unwrapped.max_cycles
    for tag, members in env.policy_tags.items():
        seen, acts = (
            space[tag] if isinstance(space, dict) else space for space in (env.observation_space, env.action_space)
        )
        for agent in members:
            assert original.observation_space(original.possible_agents[agent]) == seen
            assert original.action_space(original.possible_agents[agent]) == acts


@pytest.mark.parametrize(
    ("name", "continuous", "others"),
    [
        *exhaustive(
            [pytest.param(name, False, True, id=f"{name}-discrete-other_constants") for name in ORIGINALS],
            ("simple_speaker_listener", "simple_world_comm"),
        ),
        *exhaustive(
            [pytest.param(name, True, False, id=f"{name}-continuous-as_published") for name in ORIGINALS],
            ("simple_spread",),
        ),
    ],
)
def test_steps_agree_with_mpe2(name, continuous, others, python_backend):
    env = with_actions(continuous, others, name)
    steps = 300 if name in SCENARIOS else 600
    found = check_parity(env, episodes=0, steps=steps, whole_episodes=False, seed=1, backend=python_backend)
    assert found
    assert found.largest <= env.parity["tolerance"] and found.steps >= steps
    assert found.doubtful <= 1


@pytest.mark.parametrize(
    ("name", "parameters"),
    exhaustive(
        [
            ("simple_spread", {"num_agents": 3, "num_landmarks": 1, "start_range": 0.5}),
            ("simple_tag", {"num_good_agents": 2, "num_obstacles": 0, "adversary_size": 0.3, "start_range": 0.5}),
        ],
        ("simple_tag",),
    ),
)
def test_success_ends_episodes_as_in_mpe2(name, parameters):
    env = wd.make(name, terminate_on_success=True, **parameters)
    found = check_parity(env, episodes=100, whole_episodes=True, seed=1)
    assert found and found.doubtful <= 1
    assert 20 < found.terminated < found.episodes


@pytest.mark.parametrize("name", exhaustive(ORIGINALS, ("simple_tag",)))
def test_episodes_agree_with_mpe2(name, python_backend):
    env = wd.make(name)
    found = check_parity(env, episodes=20, whole_episodes=True, seed=2, backend=python_backend)
    assert found
    assert found.largest <= env.parity["episode_tolerance"]
    assert found.episodes >= 20 and found.doubtful <= 1


def state_of(name, world):
    """Return the state of a world of ``mpe2`` by the names of our arrays."""
    agents, landmarks = ([entity.state for entity in group] for group in (world.agents, world.landmarks))
    speakers = {"simple_speaker_listener": 1, "simple_world_comm": 1, "simple_reference": 2, "simple_crypto": 3}
    state = {"communication": [agent.c for agent in agents[: speakers.get(name, 0)]]}
    first = world.agents[0]
    if name in ("simple_adversary", "simple_push"):
        state["goal"] = [world.landmarks.index(first.goal_a)]
    elif name == "simple_speaker_listener":
        state["goal"] = [world.landmarks.index(first.goal_b)]
    elif name == "simple_reference":
        state["goal"] = [world.landmarks.index(agent.goal_b) for agent in world.agents]
    elif name == "simple_crypto":
        key = [np.array_equal(landmark.color, world.agents[2].key) for landmark in world.landmarks].index(True)
        return {**state, "goal": [world.landmarks.index(first.goal_a), key]}
    fixed = "obstacle" if name == "simple_tag" else "landmark"
    for i, axis in enumerate("xy"):
        state[f"loc_{axis}"] = [agent.p_pos[i] for agent in agents]
        state[f"velocity_{axis}"] = [agent.p_vel[i] for agent in agents]
        state[f"{fixed}_{axis}"] = [landmark.p_pos[i] for landmark in landmarks]
    return {key: values for key, values in state.items() if len(values)}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ORIGINALS)
def test_games_agree_with_the_public_environment(name):
    """Its start states are loaded; then both play the same actions, without the reference of the package."""
    original = ORIGINALS[name].parallel_env()
    wrapper = wd.EnvWrapper(wd.make(name), 1, "cpu")
    rng = np.random.default_rng(0)
    for episode in range(3):
        seen, _ = original.reset(seed=episode)
        wrapper.reset()
        for key, values in state_of(name, original.unwrapped.world).items():
            wrapper.ctx[key][0] = torch.from_numpy(np.array(values)).to(wrapper.ctx[key].dtype)
        names = {tag: [original.possible_agents[i] for i in ids] for tag, ids in wrapper.env.policy_tags.items()}
        while original.agents:
            actions = {agent: int(rng.integers(original.action_space(agent).n)) for agent in original.agents}
            by_tag = {tag: torch.tensor([[actions[i] for i in ids]], dtype=torch.int32) for tag, ids in names.items()}
            separate = isinstance(wrapper.env.action_space, dict)
            given = by_tag if separate else torch.cat(list(by_tag.values()), dim=1)
            seen, rewards, _, truncations, _ = original.step(actions)
            found, ours, _, truncated, info = wrapper.step(given)
            np.testing.assert_allclose(ours[0].numpy(), list(rewards.values()), atol=1e-3)
            assert truncated.item() == all(truncations.values())
            found = info["final_observations"] if truncated else found
            for tag, agents in names.items():
                rows = found[tag] if isinstance(found, dict) else found
                np.testing.assert_allclose(rows[0].numpy(), [seen[agent] for agent in agents], atol=1e-3)


@pytest.mark.parametrize("name", ["simple_spread", "simple_tag"])
def test_references_clip_actions_like_the_public_environment(name):
    original = ORIGINALS[name].parallel_env(continuous_actions=True)
    original.reset(seed=3)
    env = wd.make(name, continuous_actions=True)
    world = original.unwrapped.world
    rng = np.random.default_rng(0)
    for _ in range(10):
        actions = rng.uniform(-0.5, 1.5, (env.num_agents, 5)).astype(np.float32)
        state = {key: np.array(values) for key, values in state_of(name, world).items()}
        expected = env.reference_step({**state, "timestep": 0}, actions)
        observations, rewards, *_ = original.step(dict(zip(original.possible_agents, actions, strict=True)))
        seen = [row for key, rows in expected.items() if key.startswith("observations") for row in rows]
        for row, agent in zip(seen, original.possible_agents, strict=True):
            np.testing.assert_allclose(observations[agent], row, atol=1e-6)
        np.testing.assert_allclose(list(rewards.values()), expected["rewards"], atol=1e-6)


def test_comparisons_notice_other_physics():
    env = wd.make("simple_spread")
    step = wd.make("simple_spread", damping=0.2501).reference_step
    found = check_parity(env, lambda env: StepReference(env, step), episodes=0, steps=100, whole_episodes=False)
    assert not found and found.first.array.startswith("velocity")


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
        env = wd.make("simple_spread", acceleration=2.0)
        still = [0.0] * 3
        start = {"loc_x": [0.0, 10, 20], "loc_y": still, "velocity_x": [1.0] * 3, "velocity_y": still}
        moved = {(0, 1, 2): ([0.75, 0.55, 0.95], still), (0, 3, 4): ([0.75] * 3, [0, -0.2, 0.2])}
        for moves, (velocity_x, velocity_y) in moved.items():
            _, _, after = self.stepped(env, start, moves)
            np.testing.assert_allclose(after["loc_x"], [0.1, 10.1, 20.1], atol=1e-5)
            np.testing.assert_allclose(after["velocity_x"], velocity_x, atol=1e-6)
            np.testing.assert_allclose(after["velocity_y"], velocity_y, atol=1e-6)

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
        ("simple_reference", {"loc": 1.0, "landmark": 1.0}),
        ("simple_world_comm", {"loc": 1.0, "landmark": 0.9}),
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


@pytest.mark.parametrize(
    ("name", "choices"), [("simple_adversary", [2]), ("simple_reference", [3, 3]), ("simple_crypto", [2, 2])]
)
def test_goals_are_uniform_and_independent(name, choices, python_backend):
    wrapper = wd.EnvWrapper(wd.make(name), 3600, python_backend, seed=6)
    wrapper.reset()
    goals = wrapper.ctx["goal"].cpu().numpy()
    counts = np.unique(goals, axis=0, return_counts=True)[1]
    assert len(counts) == math.prod(choices)
    # each of k outcomes is binomial: 6 standard deviations are exceeded once in 10**8 by the normal approximation
    p = 1 / len(counts)
    assert np.abs(counts - 3600 * p).max() < 6 * math.sqrt(3600 * p * (1 - p))


def test_padded_spaces_of_speaker_and_listener():
    env = wd.make("simple_speaker_listener", padded=True)
    wrapper = wd.EnvWrapper(env, 100, "cpu")
    wrapper.reset()
    for _ in range(5):
        seen = wrapper.step()[0]
        assert wrapper.ctx["actions"][:, 0].max() == 2 and wrapper.ctx["actions"][:, 1].max() == 4
        assert seen[:, 0, :3].any() and not seen[:, 0, 3:].any() and seen[:, 1, 8:].any()
    assert wrapper.ctx["action_mask"][0].tolist() == [[True] * 3 + [False] * 2, [True] * 5]


def test_silence_costs_nothing():
    """Eve and Bob are judged by what they say; who says nothing makes no error."""
    wrapper = wd.EnvWrapper(wd.make("simple_crypto", continuous_actions=True), 1, "cpu")
    wrapper.reset()
    wrapper.ctx["goal"][0] = torch.tensor([1, 0])
    words = torch.zeros(1, 3, 4)
    assert wrapper.step(words)[1][0].tolist() == [0, 0, 0]
    words[0, 0] = torch.tensor([0.5, 0, 0, 0])  # Eve: 0.25 + 1
    words[0, 1] = torch.tensor([0, 0.5, 0, 0])  # Bob: 0.25
    assert wrapper.step(words)[1][0].tolist() == [-1.25, 1.0, 1.0]


def test_who_sees_whom_among_forests():
    env = wd.make("simple_world_comm", **OTHERS["simple_world_comm"])
    wrapper = wd.EnvWrapper(env, 1, "cpu")
    wrapper.reset()
    # the leader is in no forest; the other adversary and agent 2 share one, agents 3 and 4 are in two others
    places = {"loc_x": [5.0, 0.1, 0.0, 3.0, 7.0], "landmark_x": [20.0, 21.0, 9.0, 0.0, 3.0, 7.0, 30.0]}
    for key, values in {**places, "loc_y": [0.0] * 5, "landmark_y": [0.0] * 7}.items():
        wrapper.ctx[key][0] = torch.tensor(values)
    still = {tag: torch.zeros(1, len(ids), dtype=torch.int32) for tag, ids in env.policy_tags.items()}
    seen = wrapper.step(still)[0]
    offsets = {tag: rows[0, :, 4 + 2 * 7 : 4 + 2 * 7 + 2 * 4 : 2] for tag, rows in seen.items()}
    np.testing.assert_allclose(offsets["leader"], [[-4.9, -5, -2, 2]], atol=1e-5)
    np.testing.assert_allclose(offsets["adversary"], [[0, -0.1, 0, 0]], atol=1e-5)
    np.testing.assert_allclose(offsets["good_agent"], [[0, 0.1, 0, 0], [0] * 4, [0] * 4], atol=1e-5)
    assert seen["adversary"][0, 0, -8:-4].tolist() == [1, -1, -1, -1]
    assert seen["leader"][0, 0, -8:-4].tolist() == [-1] * 4


OF_NEIGHBORS = {"num_agent_neighbors": 0, "num_landmark_neighbors": 0}
"""Wrong values of parameters that may be None."""
WRONG = {
    **{name: {"continuous_actions": 1, "episode_length": 0} for name in SCENARIOS},
    "simple_adversary": {"num_good_agents": 0, "continuous_actions": 1, "episode_length": 0, **OF_NEIGHBORS},
    "simple_reference": {"local_ratio": -0.1, "continuous_actions": 1, "episode_length": 0},
    "simple_speaker_listener": {"padded": 1, "continuous_actions": 1, "episode_length": 0},
    "simple_world_comm": {
        "num_good_agents": 0,
        "num_adversaries": 0,
        "num_obstacles": -1,
        "num_food": 0,
        "num_forests": 32,
        "continuous_actions": 1,
        "episode_length": 0,
    },
    "simple_spread": {
        "num_agents": 0,
        "num_landmarks": 0,
        "local_ratio": 1.1,
        "continuous_actions": 1,
        "terminate_on_success": 1,
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
        **OF_NEIGHBORS,
    },
    "simple_tag": {
        "num_adversaries": 0,
        "num_good_agents": 0,
        "num_obstacles": -1,
        "terminate_on_success": 1,
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
        **OF_NEIGHBORS,
    },
}


@pytest.mark.parametrize("name", WRONG)
def test_every_parameter_is_checked(name):
    environment = type(wd.make(name))
    assert set(inspect.signature(environment).parameters) == set(WRONG[name])
    for parameter, wrong in WRONG[name].items():
        for value in (wrong, "much", *([] if parameter in OF_NEIGHBORS else [None])):
            with pytest.raises(DefinitionError, match=f"^{parameter} is .*, but it must be "):
                environment(**{parameter: value})
