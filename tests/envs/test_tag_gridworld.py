from __future__ import annotations

import numpy as np
import pytest

from warpdrive.envs.tag_gridworld import TagGridworld
from warpdrive.errors import DefinitionError

STAY, RIGHT, LEFT, UP, DOWN = range(5)


def placed(taggers, runner, **parameters) -> TagGridworld:
    """An environment whose agents start at the given (x, y)."""
    x, y = zip(*taggers, runner, strict=True)
    return TagGridworld(
        **{"num_taggers": len(taggers), "starting_location_x": x, "starting_location_y": y, **parameters}
    )


class TestKernelsFollowTheReference:
    """Whole random episodes from the start, the reference on a trajectory of its own."""

    @pytest.mark.parametrize(
        ("num_taggers", "grid_length", "episode_length", "random_starts", "use_full_observation"),
        [
            (1, 1, 7, False, True),
            (3, 4, 20, True, True),
            (3, 4, 20, True, False),
            (10, 10, 60, True, True),
            (33, 100, 12, True, False),
        ],
    )
    def test_over_random_episodes(
        self, replicas_of, num_taggers, grid_length, episode_length, random_starts, use_full_observation
    ):
        env = TagGridworld(
            num_taggers=num_taggers,
            grid_length=grid_length,
            episode_length=episode_length,
            use_full_observation=use_full_observation,
            random_starts=random_starts,
        )
        replicas = replicas_of(env, num_envs=4, reset_pool_size=3)
        expected = [replicas.state(e) for e in range(4)]
        for e in range(4):
            np.testing.assert_allclose(
                replicas.first_observations[e], env.reference_observe(expected[e]), rtol=0, atol=1e-6
            )
        tags = walls = truncations = 0
        for outcome in replicas.random_steps(3 * episode_length):
            reference = env.reference_step(expected[outcome.env], outcome.actions)
            np.testing.assert_allclose(outcome.rewards, reference["rewards"], rtol=0, atol=1e-6)
            np.testing.assert_allclose(outcome.observations, reference["observations"], rtol=0, atol=1e-6)
            assert outcome.terminated == reference["terminated"]
            assert outcome.truncated == (reference["timestep"] == episode_length)
            if outcome.done:
                expected[outcome.env] = outcome.after
                assert outcome.after["timestep"] == 0
            else:
                for name in ("loc_x", "loc_y", "timestep"):
                    np.testing.assert_array_equal(outcome.after[name], reference[name])
                expected[outcome.env] = reference
            tags += outcome.terminated
            truncations += outcome.truncated and not outcome.terminated
            x, y = outcome.before["loc_x"], outcome.before["loc_y"]
            walls += np.sum((x == 0) & (outcome.actions == LEFT)) + np.sum((y == grid_length) & (outcome.actions == UP))
        assert tags > 0 or grid_length == 100
        assert truncations > 0 or grid_length <= 4
        assert walls > 0

    def test_steps_leave_the_state_they_are_given_alone(self):
        env = placed([(2, 2)], (0, 0))
        state = {**env.initial_state(np.random.default_rng(0)), "timestep": 0}
        env.reference_step(state, np.array([RIGHT, UP]))
        assert state["loc_x"].tolist() == [2, 0] and state["loc_y"].tolist() == [2, 0] and state["timestep"] == 0


class TestRules:
    """Cases small enough to work out by hand."""

    def test_the_five_moves(self, replicas_of):
        env = placed([(5, 5)] * 10, (0, 0), grid_length=10)
        (outcome,) = replicas_of(env).step([[RIGHT, LEFT, UP, DOWN, *[STAY] * 7]])
        assert outcome.after["loc_x"].tolist() == [6, 4, 5, 5, *[5] * 6, 0]
        assert outcome.after["loc_y"].tolist() == [5, 5, 6, 4, *[5] * 6, 0]

    def test_rewards_of_a_step_without_a_tag_and_of_hitting_a_wall(self, replicas_of):
        env = placed([(10, 5), (5, 5)], (0, 0), wall_hit_penalty=0.5, step_cost_for_tagger=0.125)
        (outcome,) = replicas_of(env).step([[RIGHT, RIGHT, DOWN]])
        # tagger 0 against the wall: -0.125 - 0.5; tagger 1 inside: -0.125; the runner against the wall: 0.125 - 0.5
        assert outcome.rewards.tolist() == [-0.625, -0.125, -0.375]
        assert outcome.after["loc_x"].tolist() == [10, 6, 0] and outcome.after["loc_y"].tolist() == [5, 5, 0]
        assert not outcome.done

    def test_a_tag_rewards_every_tagger_and_ends_the_episode(self, replicas_of):
        env = placed([(1, 0), (5, 5)], (0, 0), tag_reward_for_tagger=8, tag_penalty_for_runner=3, wall_hit_penalty=0.5)
        (outcome,) = replicas_of(env).step([[LEFT, STAY, DOWN]])
        # the runner hits the wall (-0.5), stays at (0, 0), and tagger 0 arrives there
        assert outcome.rewards.tolist() == [8.0, 8.0, -3.5]
        assert outcome.terminated and not outcome.truncated
        assert outcome.after["loc_x"].tolist() == [1, 5, 0]  # back at the start

    def test_agents_that_swap_cells_do_not_tag(self, replicas_of):
        (outcome,) = replicas_of(placed([(1, 0)], (0, 0))).step([[LEFT, RIGHT]])
        assert not outcome.terminated

    def test_the_time_limit_truncates_and_does_not_terminate(self, replicas_of):
        replicas = replicas_of(placed([(5, 5)], (0, 0), episode_length=2))
        (first,), (second,) = replicas.step([[STAY, STAY]]), replicas.step([[STAY, STAY]])
        assert not first.done
        assert second.truncated and not second.terminated

    def test_full_observation(self, replicas_of):
        env = placed([(2, 4), (6, 8)], (1, 0), grid_length=8, episode_length=4)
        replicas = replicas_of(env)
        locations = [0.25, 0.75, 0.125, 0.5, 1.0, 0.0]  # x / 8 of agents 0, 1, 2, then y / 8
        roles = [0.0, 0.0, 1.0]
        for agent in range(3):
            oneself = [float(other == agent) for other in range(3)]
            assert replicas.first_observations[0, agent].tolist() == [*locations, *roles, *oneself, 0.0]
        (outcome,) = replicas.step([[STAY, STAY, STAY]])
        assert outcome.observations[:, -1].tolist() == [0.25, 0.25, 0.25]  # step 1 of 4

    def test_partial_observation(self, replicas_of):
        env = placed([(8, 8), (4, 2), (2, 4)], (0, 0), grid_length=8, use_full_observation=False, episode_length=4)
        replicas = replicas_of(env)
        assert replicas.first_observations[0].tolist() == [
            [1.0, 1.0, 0.0, 0.0, 0.0, 0.0],
            [0.5, 0.25, 0.0, 0.0, 0.0, 0.0],
            [0.25, 0.5, 0.0, 0.0, 0.0, 0.0],
            [0.0, 0.0, 0.5, 0.25, 1.0, 0.0],  # taggers 1 and 2 are equally near: the lower id is seen
        ]
        (outcome,) = replicas.step([[STAY, STAY, LEFT, STAY]])
        assert outcome.observations[3].tolist() == [0.0, 0.0, 0.125, 0.5, 1.0, 0.25]  # tagger 2 is nearer now


class TestStartStates:
    def test_taggers_in_the_middle_and_the_runner_in_the_corner(self):
        state = TagGridworld(num_taggers=2, grid_length=5).initial_state(np.random.default_rng(0))
        assert state["loc_x"].tolist() == [2, 2, 0] and state["loc_y"].tolist() == [2, 2, 0]
        assert all(array.dtype == np.int32 for array in state.values())

    def test_random_starts(self):
        env = TagGridworld(num_taggers=50, grid_length=4, random_starts=True)
        rng = np.random.default_rng(0)
        first, second = env.initial_state(rng), env.initial_state(rng)
        for name in ("loc_x", "loc_y"):
            assert set(first[name][:-1]) == {1, 2, 3} and first[name][-1] == 0
            assert (first[name] != second[name]).any()

    def test_a_seed_fixes_the_random_start(self):
        env = TagGridworld(random_starts=True, seed=3)
        states = [env.initial_state(np.random.default_rng(other)) for other in (0, 1)]
        np.testing.assert_array_equal(states[0]["loc_x"], states[1]["loc_x"])

    def test_policy_tags(self):
        tags = TagGridworld(num_taggers=3).policy_tags
        assert {tag: list(agents) for tag, agents in tags.items()} == {"tagger": [0, 1, 2], "runner": [3]}


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"num_taggers": 0}, "num_taggers is 0, but it must be a whole number of 1 or more"),
        ({"num_taggers": 2.0}, "num_taggers is 2.0"),
        ({"num_taggers": True}, "num_taggers is True"),
        ({"grid_length": 40000}, "grid_length is 40000, but it must be a whole number from 1 to 32767"),
        ({"episode_length": -1}, "episode_length is -1"),
        ({"seed": -1}, "seed is -1, but it must be None or a whole number of 0 or more"),
        ({"wall_hit_penalty": -0.1}, "wall_hit_penalty is -0.1, but it must be a finite number of 0 or more"),
        ({"tag_reward_for_tagger": float("nan")}, "tag_reward_for_tagger is nan"),
        ({"tag_penalty_for_runner": "2"}, "tag_penalty_for_runner is '2'"),
        ({"step_cost_for_tagger": None}, "step_cost_for_tagger is None"),
        ({"use_full_observation": 1}, "use_full_observation is 1, but it must be True or False"),
        ({"random_starts": "yes"}, "random_starts is 'yes'"),
        ({"random_starts": True, "grid_length": 1}, "grid_length is 1, but it must be 2 or more"),
        ({"num_taggers": 1, "starting_location_x": [1, 2]}, "starting_location_y is None"),
        ({"num_taggers": 1, "starting_location_x": [1, 11], "starting_location_y": [0, 0]}, "from 0 to 10"),
        ({"num_taggers": 2, "starting_location_x": [1, 2]}, "a list of 3 whole numbers"),
        (
            {"num_taggers": 1, "starting_location_x": [1, 2], "starting_location_y": [0, 0], "random_starts": True},
            "random_starts is True",
        ),
    ],
)
def test_a_bad_parameter_is_named_with_what_is_allowed(parameters, message):
    with pytest.raises(DefinitionError, match=message.replace("(", r"\(")):
        TagGridworld(**parameters)
