from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import pytest
from exhaustive import exhaustive

from warpdrive.envs.tag_continuous import TagContinuous
from warpdrive.errors import DefinitionError
from warpdrive.testing import check_parity

NOTHING = (0, 0)


def angle_between(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.abs((a - b + math.pi) % (2 * math.pi) - math.pi)


GAMES = {
    "one_against_two": {"num_taggers": 1, "num_runners": 2, "grid_length": 1.0, "tagging_distance": 0.1},
    "crowded": {
        "num_taggers": 4,
        "num_runners": 12,
        "grid_length": 5.0,
        "tagging_distance": 0.08,
        "episode_length": 25,
        "num_other_agents_observed": 6,
        "skill_level_runner": 0.5,
        "edge_hit_penalty": -0.25,
        "step_penalty_for_tagger": -0.125,
        "step_reward_for_runner": 0.0625,
    },
    "paper": {
        "num_taggers": 10,
        "num_runners": 100,
        "grid_length": 20.0,
        "episode_length": 20,
        "tagging_distance": 0.02,
        "max_acceleration": 0.1,
        "min_acceleration": -0.1,
        "max_turn": 2.356,
        "min_turn": -2.356,
        "num_acceleration_levels": 20,
        "num_turn_levels": 20,
        "num_other_agents_observed": 10,
        "tag_reward_for_tagger": 10.0,
        "tag_penalty_for_runner": -10.0,
    },
    "more_places_than_agents": {"num_runners": 3, "num_other_agents_observed": 6, "tagging_distance": 0.2},
}


OBSERVED = [
    ("one_against_two", True),
    ("one_against_two", False),
    ("crowded", True),
    ("paper", False),
    ("more_places_than_agents", False),
]
"""Games, with full or partial observations."""


def games(exits: bool, usual: tuple[str, ...]) -> list[Any]:
    cases = [
        pytest.param(game, full, exits, id=f"{game}-{'full' if full else 'partial'}-{'exits' if exits else 'stays'}")
        for game, full in OBSERVED
    ]
    return exhaustive(cases, usual)


@pytest.mark.parametrize(("game", "full", "exits"), [*games(True, ("crowded", "paper")), *games(False, ("crowded",))])
class TestKernelsFollowTheReference:
    """Random actions in four replicas."""

    @staticmethod
    def made(game, full, exits):
        return TagContinuous(**GAMES[game], use_full_observation=full, runner_exits_game_after_tagged=exits)

    def test_single_steps(self, python_backend, game, full, exits):
        env = self.made(game, full, exits)
        options = {"whole_episodes": False, "replicas": 4, "seed": 1, "backend": python_backend}
        found = check_parity(env, episodes=0, steps=240, **options)
        assert found and found.doubtful <= 1, found

    def test_whole_episodes(self, python_backend, game, full, exits):
        """The reference follows a trajectory of its own, until a decision depends on rounding."""
        env = self.made(game, full, exits)
        options = {"whole_episodes": True, "replicas": 4, "seed": 2, "backend": python_backend, "tolerance": 2e-4}
        found = check_parity(env, episodes=4, **options)
        assert found and found.doubtful <= 1, found

    def test_random_play_reaches_all_rules(self, replicas_of, game, full, exits):
        env = self.made(game, full, exits)
        tags = doubles = edges = outside = terminations = survivals = 0
        for outcome in replicas_of(env, num_envs=4, reset_pool_size=3).random_steps(60):
            rewards = outcome.rewards[~env.is_runner] / env.tag_reward_for_tagger
            tags += (rewards > 0.5).sum()
            doubles += (rewards > 1.5).sum()
            edges += np.isin(outcome.after["loc_x"], [0, np.float32(env.grid_length)]).sum()
            outside += (~outcome.after["in_game"]).sum() + outcome.terminated
            terminations += outcome.terminated
            survivals += outcome.truncated and outcome.before["active"][env.is_runner].any()
            assert outcome.truncated == (outcome.before["timestep"] + 1 == env.episode_length)
        assert tags > 0 and edges > 0
        assert exits == (outside > 0)
        assert not terminations or exits
        if game == "crowded":
            assert doubles > 0 and survivals > 0
        if game == "one_against_two":
            assert exits == (terminations > 0)


def placed(taggers, runners, **parameters) -> tuple[TagContinuous, list[int], list[int]]:
    """An environment with agents at the given (x, y, direction), the ids of the taggers and of the runners."""
    parameters = {"num_taggers": len(taggers), "num_runners": len(runners), **parameters}
    tags = TagContinuous(**parameters).policy_tags
    start = np.zeros((len(taggers) + len(runners), 3))
    start[tags["tagger"]], start[tags["runner"]] = taggers, runners
    x, y, direction = start.T.tolist()
    env = TagContinuous(**parameters, starting_location_x=x, starting_location_y=y, starting_directions=direction)
    assert env.policy_tags == tags
    return env, tags["tagger"], tags["runner"]


def actions_of(env: TagContinuous, chosen: dict[int, tuple[int, int]] | None = None) -> list[list[tuple[int, int]]]:
    return [[(chosen or {}).get(agent, NOTHING) for agent in range(env.num_agents)]]


class TestMotion:
    # accelerations: 0 nothing, 1: -1, 2: 0, 3: +1; turns: 0 nothing, 1: -pi/2, 2: 0, 3: +pi/2
    LEVELS: ClassVar = {"num_acceleration_levels": 3, "num_turn_levels": 3, "max_speed": 2.0}

    def test_accelerating_and_turning(self, replicas_of):
        env, (tagger,), (runner,) = placed([(5, 5, 0)], [(2, 2, math.pi)], **self.LEVELS)
        replicas = replicas_of(env)
        (first,) = replicas.step(actions_of(env, {tagger: (3, 0)}))
        # a = 1, v = 1, one to the right; the runner does nothing
        moved = [first.after[name][tagger] for name in ("acceleration", "speed", "loc_x", "loc_y")]
        assert moved == [1.0, 1.0, 6.0, 5.0]
        assert [first.after["loc_x"][runner], first.after["loc_y"][runner]] == [2.0, 2.0]
        (second,) = replicas.step(actions_of(env, {tagger: (2, 3)}))
        # a stays 1, so v = 2 = max_speed, and a is put back to 0; two upwards
        moved = [second.after[name][tagger] for name in ("acceleration", "speed", "loc_x", "loc_y")]
        np.testing.assert_allclose(moved, [0.0, 2.0, 6.0, 7.0], atol=1e-6)
        (third,) = replicas.step(actions_of(env, {tagger: (1, 1)}))
        # a = -1, v = 1; to the right again
        moved = [third.after[name][tagger] for name in ("acceleration", "speed", "loc_x", "loc_y")]
        np.testing.assert_allclose(moved, [-1.0, 1.0, 7.0, 7.0], atol=1e-6)
        (fourth,) = replicas.step(actions_of(env))
        # a is still -1, v = 0, and a is put back to 0
        moved = [fourth.after[name][tagger] for name in ("acceleration", "speed", "loc_x", "loc_y")]
        np.testing.assert_allclose(moved, [0.0, 0.0, 7.0, 7.0], atol=1e-6)

    def test_directions_stay_between_0_and_2_pi(self, replicas_of):
        env, (tagger,), (runner,) = placed([(5, 5, 0)], [(2, 2, 1.5 * math.pi)], **self.LEVELS)
        (outcome,) = replicas_of(env).step(actions_of(env, {tagger: (0, 1), runner: (0, 3)}))
        assert outcome.after["direction"][tagger] == pytest.approx(1.5 * math.pi, abs=1e-6)
        assert angle_between(outcome.after["direction"][runner], 0.0) < 1e-6

    def test_skill_limits_speed(self, replicas_of):
        env, (tagger,), (runner,) = placed(
            [(1, 1, 0)], [(5, 5, 0)], **self.LEVELS, skill_level_tagger=0.25, skill_level_runner=0.375
        )
        (outcome,) = replicas_of(env).step(actions_of(env, {tagger: (3, 0), runner: (3, 0)}))
        assert outcome.after["speed"][tagger] == 0.5 and outcome.after["speed"][runner] == 0.75
        assert outcome.after["acceleration"].tolist() == [0.0, 0.0]

    def test_the_edge_stops_and_costs(self, replicas_of):
        env, (tagger,), (runner,) = placed(
            [(9.5, 5, 0)],
            [(5, 9, math.pi / 2)],
            **self.LEVELS,
            edge_hit_penalty=-0.25,
            step_penalty_for_tagger=-0.5,
            step_reward_for_runner=0.125,
        )
        (outcome,) = replicas_of(env).step(actions_of(env, {tagger: (3, 0), runner: (3, 0)}))
        assert outcome.after["loc_x"][tagger] == 10.0
        # the tagger ran against the edge: -0.25 - 0.5; the runner arrived exactly on it: 0.125
        assert outcome.after["loc_y"][runner] == 10.0
        assert outcome.rewards[tagger] == -0.75 and outcome.rewards[runner] == 0.125


class TestTagging:
    REWARDS: ClassVar = {
        "tagging_distance": 0.02,  # 0.2 on a square of 10
        "tag_reward_for_tagger": 8.0,
        "tag_penalty_for_runner": -3.0,
        "step_penalty_for_tagger": -0.5,
        "step_reward_for_runner": 0.125,
        "end_of_game_reward_for_runner": 2.0,
    }
    ONE_LEVEL: ClassVar = {"num_acceleration_levels": 1, "min_acceleration": 1.0, "episode_length": 3}
    # as `test_cuda_twins.py`, which needs the same kernels
    PARTIAL: ClassVar = {"use_full_observation": False, "num_other_agents_observed": 6, "episode_length": 20}

    def test_two_runners_tagged_by_one_tagger_pay_it_twice_and_leave(self, replicas_of):
        env, (tagger,), (one, two, far) = placed(
            [(5, 5, 0)], [(5, 5.125, 0), (5.125, 5, 0), (9, 9, 0)], **self.REWARDS, **self.PARTIAL
        )
        replicas = replicas_of(env)
        (outcome,) = replicas.step(actions_of(env))
        assert outcome.rewards[tagger] == 8.0 + 8.0 - 0.5
        assert outcome.rewards[one] == outcome.rewards[two] == -3.0 + 0.125
        assert outcome.rewards[far] == 0.125
        assert outcome.after["active"][[tagger, one, two, far]].tolist() == [True, False, False, True]
        assert outcome.after["runners_left"] == 1 and not outcome.terminated
        # they still see the step that tagged them
        assert outcome.observations[one].any() and outcome.observations[two].any()

        (outcome,) = replicas.step(actions_of(env, dict.fromkeys(range(4), (10, 5))))
        assert outcome.rewards[one] == outcome.rewards[two] == 0.0
        assert not outcome.observations[[one, two]].any()
        assert outcome.after["loc_x"][one] == 5.0 and outcome.after["speed"][one] == 0.0
        assert outcome.rewards[tagger] == -0.5  # nobody to tag

    def test_tagged_runners_stay_if_they_do_not_exit(self, replicas_of):
        env, (tagger,), (runner, far) = placed(
            [(5, 5, 0)],
            [(5, 5.125, 0), (9, 9, 0)],
            **self.REWARDS,
            **self.ONE_LEVEL,
            runner_exits_game_after_tagged=False,
        )
        replicas = replicas_of(env)
        for _ in range(2):
            (outcome,) = replicas.step(actions_of(env))
            assert outcome.rewards[[tagger, runner, far]].tolist() == [7.5, -2.875, 0.125]
            assert not outcome.terminated and outcome.after["active"].all()

    def test_a_runner_at_exactly_the_tagging_distance_is_not_tagged(self, replicas_of):
        env, _, (runner,) = placed(
            [(5, 5, 0)], [(5, 7.5, 0)], **TestMotion.LEVELS, **{**self.REWARDS, "tagging_distance": 0.25}
        )
        (outcome,) = replicas_of(env).step(actions_of(env))
        assert outcome.rewards[runner] == 0.125

    def test_the_nearest_tagger_is_rewarded_and_the_lowest_id_on_ties(self, replicas_of):
        env, (low, high, near), _ = placed([(5, 4.875, 0), (5, 5.125, 0), (5, 6, 0)], [(5, 5, 0)], **self.REWARDS)
        (outcome,) = replicas_of(env).step(actions_of(env))
        assert outcome.rewards[[low, high, near]].tolist() == [7.5, -0.5, -0.5]
        env, (low, high, near), _ = placed([(5, 4.875, 0), (5, 5.125, 0), (5, 5.0625, 0)], [(5, 5, 0)], **self.REWARDS)
        (outcome,) = replicas_of(env).step(actions_of(env))
        assert outcome.rewards[[low, high, near]].tolist() == [-0.5, -0.5, 7.5]
        assert outcome.terminated

    def test_tagging_the_last_runner_terminates_and_the_game_starts_anew(self, replicas_of):
        env, _, _ = placed([(5, 5, 0)], [(5, 5.125, 0)], **TestMotion.LEVELS, **self.REWARDS)
        (outcome,) = replicas_of(env).step(actions_of(env))
        assert outcome.terminated and not outcome.truncated
        assert outcome.after["active"].all() and outcome.after["in_game"].all()
        assert outcome.after["runners_left"] == 1 and outcome.after["timestep"] == 0

    @pytest.mark.parametrize(("exits", "reward_of_tagged"), [(True, -2.875), (False, -0.875)])
    def test_runners_in_the_game_after_the_last_step_are_rewarded(self, replicas_of, exits, reward_of_tagged):
        # the tagger comes 1 nearer in step 3, which is the last
        env, (tagger,), (near, far) = placed(
            [(5, 5, 0)],
            [(6.125, 5, 0), (9, 9, 0)],
            **self.REWARDS,
            **self.ONE_LEVEL,
            runner_exits_game_after_tagged=exits,
        )
        replicas = replicas_of(env)
        for _ in range(2):
            (first,) = replicas.step(actions_of(env))
            assert first.rewards[near] == first.rewards[far] == 0.125 and not first.done
        (last,) = replicas.step(actions_of(env, {tagger: (1, 0)}))
        assert last.rewards[far] == 0.125 + 2.0
        assert last.rewards[near] == reward_of_tagged
        assert last.rewards[tagger] == 7.5
        assert last.truncated and not last.terminated


class TestObservations:
    SIDE = 8.0
    UNIT = 1 / (math.sqrt(2) * SIDE)
    GAME: ClassVar = {"grid_length": SIDE, "max_speed": 2.0, "num_acceleration_levels": 3, "episode_length": 4}

    def started(self, replicas_of, **parameters):
        env, (tagger,), (one, two) = placed(
            [(4, 4, 0)], [(4, 6, math.pi / 2), (3, 4, math.pi)], **self.GAME, **parameters
        )
        return env, replicas_of(env), tagger, one, two

    def test_full(self, replicas_of):
        env, replicas, tagger, one, two = self.started(replicas_of)
        (outcome,) = replicas.step(actions_of(env, {one: (3, 0)}))
        # runner one moved up by 1 with acceleration 1, from (4, 6) to (4, 7)
        rows = {  # dx, dy, dspeed / 2, dacceleration / 2, ddirection / 2 pi, runner, in the game; as the tagger sees it
            one: [0, 3 * self.UNIT, 0.5, 0.5, 0.25, 1, 1],
            two: [-1 * self.UNIT, 0, 0, 0, 0.5, 1, 1],
        }
        blocks = np.array([rows[agent] for agent in sorted(rows)]).T
        np.testing.assert_allclose(outcome.observations[tagger], [*blocks.ravel(), 0.25], atol=1e-6)
        rows = {  # as runner one sees it
            tagger: [0, -3 * self.UNIT, -0.5, -0.5, -0.25, 0, 1],
            two: [-1 * self.UNIT, -3 * self.UNIT, -0.5, -0.5, 0.25, 1, 1],
        }
        blocks = np.array([rows[agent] for agent in sorted(rows)]).T
        np.testing.assert_allclose(outcome.observations[one], [*blocks.ravel(), 0.25], atol=1e-6)

    def test_partial_is_in_order_of_distance_and_padded(self, replicas_of):
        env, replicas, tagger, one, _ = self.started(
            replicas_of, use_full_observation=False, num_other_agents_observed=3
        )
        (outcome,) = replicas.step(actions_of(env, {one: (3, 0)}))
        expected = [
            *(-1 * self.UNIT, 0, 0),  # dx of runner two (distance 1), of runner one (distance 3), of nobody
            *(0, 3 * self.UNIT, 0),
            *(0, 0.5, 0),
            *(0, 0.5, 0),
            *(0.5, 0.25, 0),
            *(1, 1, 0),
            *(1, 1, 0),
            0.25,
        ]
        np.testing.assert_allclose(outcome.observations[tagger], expected, atol=1e-6)

    def test_partial_keeps_only_the_nearest_and_the_lowest_id_on_ties(self, replicas_of):
        env, (tagger,), _ = placed(
            [(4, 4, 0)], [(4, 5, 0), (5, 4, 0), (4, 3, 0)], use_full_observation=False, num_other_agents_observed=2
        )
        observed = replicas_of(env).first_observations[0, tagger]
        unit = 1 / (math.sqrt(2) * 10)
        np.testing.assert_allclose(observed[:4], [0, unit, unit, 0], atol=1e-7)  # dx, then dy

    def test_agents_out_of_the_game(self, replicas_of):
        for full in (True, False):
            env, (tagger,), (tagged, other) = placed(
                [(4, 4, 0)], [(4, 4, 0), (6, 6, 0)], **self.GAME, use_full_observation=full, num_other_agents_observed=3
            )
            replicas = replicas_of(env)
            replicas.step(actions_of(env))
            (outcome,) = replicas.step(actions_of(env))
            if full:
                # whoever is out sees who the others are and that they are in the game, and nothing else
                others = sorted([tagger, other])
                roles = [float(agent == other) for agent in others]
                assert outcome.observations[tagged].tolist() == [0.0] * 10 + roles + [1.0, 1.0] + [0.0]
                flags = [float(agent != tagged) for agent in sorted([tagged, other])]
                assert outcome.observations[tagger][12:14].tolist() == flags
            else:
                assert not outcome.observations[tagged].any()
                flags = outcome.observations[tagger][18:21]
                assert flags.tolist() == [1.0, 0.0, 0.0]  # only the other runner is left to be seen


def test_keys_of_people_choose_the_extreme_changes_and_none_without_a_key():
    env = TagContinuous(min_acceleration=-0.5, max_turn=1.0)
    tables = env.acceleration_table, env.turn_table
    assert "" not in env.controls and tables[0][0] == tables[1][0] == 0
    for key, extreme in {"up": 1.0, "down": -0.5, "left": 1.0, "right": -np.pi / 2}.items():
        ((component, level),) = env.controls[key].items()
        assert tables[component][level] == np.float32(extreme)


class TestStartStates:
    def test_everyone_at_rest_and_in_the_game(self):
        env = TagContinuous(num_taggers=20, num_runners=180, grid_length=4.0)
        state = env.initial_state(np.random.default_rng(0))
        for name in ("loc_x", "loc_y"):
            assert state[name].dtype == np.float32
            assert 0 <= state[name].min() < 0.2 and 3.8 < state[name].max() <= 4
        assert not state["speed"].any() and not state["acceleration"].any()
        assert state["in_game"].all() and state["active"].all() and state["runners_left"] == 180
        np.testing.assert_allclose(np.unique(state["direction"]), np.arange(4) * math.pi / 2, atol=1e-6)

    def test_start_states_differ_and_a_seed_fixes_them(self):
        rng = np.random.default_rng(0)
        env = TagContinuous()
        assert (env.initial_state(rng)["loc_x"] != env.initial_state(rng)["loc_x"]).any()
        env = TagContinuous(seed=4)
        np.testing.assert_array_equal(env.initial_state(rng)["loc_x"], env.initial_state(rng)["loc_x"])

    def test_given_start(self):
        env = TagContinuous(num_runners=1, starting_location_y=[1, 2], starting_directions=[0.5, 7.0])
        state = env.initial_state(np.random.default_rng(0))
        assert state["loc_y"].tolist() == [1.0, 2.0] and state["direction"].tolist() == [0.5, 7.0]
        assert state["loc_x"][0] != state["loc_x"][1]

    def test_roles_belong_to_the_parameters(self):
        def taggers(seed):
            return TagContinuous(num_taggers=10, num_runners=90, seed=seed).policy_tags["tagger"]

        assert taggers(None) == taggers(None) == sorted(set(taggers(None)))
        assert taggers(1) == taggers(1) != taggers(2)
        tags = TagContinuous(num_taggers=10, num_runners=90).policy_tags
        assert sorted(tags["tagger"] + tags["runner"]) == list(range(100)) and len(tags["tagger"]) == 10


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"num_taggers": 0}, "num_taggers is 0, but it must be a whole number of 1 or more"),
        ({"num_runners": 1.5}, "num_runners is 1.5"),
        ({"grid_length": 0}, "grid_length is 0, but it must be a finite number greater than 0"),
        ({"grid_length": 10**400}, "grid_length is 1000.*, but it must be a finite number greater than 0"),
        ({"grid_length": float("inf")}, "grid_length is inf"),
        ({"episode_length": "100"}, "episode_length is '100'"),
        ({"seed": 1.0}, "seed is 1.0"),
        ({"max_speed": -1}, "max_speed is -1"),
        ({"skill_level_runner": -0.5}, "skill_level_runner is -0.5"),
        ({"skill_level_tagger": -0.5}, "skill_level_tagger is -0.5"),
        ({"max_acceleration": -2}, "max_acceleration is -2, but it must be a finite number of -1 or more"),
        ({"min_turn": 2}, "max_turn is 1.57"),
        ({"num_acceleration_levels": 0}, "num_acceleration_levels is 0"),
        ({"num_turn_levels": 0}, "num_turn_levels is 0"),
        ({"edge_hit_penalty": 0.1}, "edge_hit_penalty is 0.1, but it must be a finite number of 0 or less"),
        ({"use_full_observation": None}, "use_full_observation is None"),
        ({"num_other_agents_observed": 0}, "num_other_agents_observed is 0"),
        ({"tagging_distance": 0}, "tagging_distance is 0, but it must be .* greater than 0 and of 1 or less"),
        ({"tagging_distance": 1.5}, "tagging_distance is 1.5"),
        ({"tag_reward_for_tagger": -1}, "tag_reward_for_tagger is -1"),
        ({"step_penalty_for_tagger": 1}, "step_penalty_for_tagger is 1"),
        ({"tag_penalty_for_runner": 1}, "tag_penalty_for_runner is 1"),
        ({"step_reward_for_runner": -1}, "step_reward_for_runner is -1"),
        ({"end_of_game_reward_for_runner": -1}, "end_of_game_reward_for_runner is -1"),
        ({"runner_exits_game_after_tagged": 0}, "runner_exits_game_after_tagged is 0"),
        ({"num_runners": 1, "starting_location_x": [0, 11]}, "a list of 2 finite numbers from 0 to 10"),
        ({"num_runners": 1, "starting_directions": [0, float("nan")]}, "a list of 2 finite numbers, one for each"),
    ],
)
def test_a_bad_parameter_is_named_with_what_is_allowed(parameters, message):
    with pytest.raises(DefinitionError, match=message):
        TagContinuous(**parameters)
