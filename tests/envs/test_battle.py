"""``battle``, compared with its reference in NumPy and with results by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from warpdrive.checks import check_environment_kernels
from warpdrive.envs.battle import Battle
from warpdrive.envs.battle.original import VIEW, MAgent2
from warpdrive.errors import DefinitionError

LEFT, RIGHT, UP, DOWN = (-1, 0), (1, 0), (0, -1), (0, 1)
STAY = 0


def mover(env, way):
    return next(a for a in range(1, env.num_moves + 1) if (env.action_x[a], env.action_y[a]) == way)


def attacker(env, way):
    return next(a for a in range(env.num_moves + 1, env.action_space.n) if (env.action_x[a], env.action_y[a]) == way)


def put(replicas, places, health=None):
    """Put agents on cells (x, y), or out of the battle where the place is None."""
    ctx, env = replicas.wrapper.ctx, replicas.env
    cells = env.bare_cells.copy()
    for agent, place in enumerate(places):
        left = env.most_health if health is None else health[agent]
        ctx["active"][0, agent] = place is not None
        ctx["health"][0, agent] = left if place else 0
        if place:
            ctx["loc_x"][0, agent], ctx["loc_y"][0, agent] = place
            side = 1 if agent < env.agents_per_team else -1
            cells[place[1] + env.margin, place[0] + env.margin] = side * (left + 1)
    ctx["cells"][0] = torch.from_numpy(cells)


def fighting(env, rng, num_envs):
    """Actions of which most are attacks, so that agents fall."""
    shape = (num_envs, env.num_agents)
    attacks = rng.integers(env.num_moves + 1, env.action_space.n, shape)
    return np.where(rng.random(shape) < 0.7, attacks, rng.integers(env.action_space.n, size=shape)).astype(np.int32)


CROWDED = {"agents_per_team": 12, "map_size": 10, "spacing": 1, "gap": 0, "damage": 8.0, "episode_length": 30}


@pytest.mark.parametrize(
    ("config", "steps"),
    [
        pytest.param({}, 6, marks=pytest.mark.exhaustive),
        (
            {
                **CROWDED,
                "walls": [(4, 0), (0, 9)],
                "minimap": True,
                "recovery": 1.5,
                "random_starts": True,
                "see_health": False,
                "attack_range": 3.2,
                "view_range": 2,
            },
            40,
        ),
        pytest.param(
            {"agents_per_team": 2000, "map_size": 130, "view_range": 1, "random_starts": True},
            2,
            marks=pytest.mark.exhaustive,
        ),
    ],
    ids=["usual", "unusual", "4000_agents"],
)
def test_episodes_are_those_of_the_reference(replicas_of, config, steps):
    env = Battle(**config)
    replicas = replicas_of(env, 2 if env.num_agents < 1000 else 1)
    rng = np.random.default_rng(0)
    expected = [replicas.state(e) for e in range(replicas.num_envs)]
    fallen = ended = 0
    for _ in range(steps):
        for outcome in replicas.step(fighting(env, rng, replicas.num_envs)):
            e = outcome.env
            reference = env.reference_step(expected[e], outcome.actions)
            np.testing.assert_allclose(outcome.observations, reference["observations"], atol=1e-6)
            np.testing.assert_allclose(outcome.rewards, reference["rewards"], atol=1e-5)
            assert outcome.terminated == reference["terminated"]
            fallen += int((outcome.before["active"] & ~reference["active"]).sum())
            ended += outcome.done
            if not outcome.done:
                for name in ("loc_x", "loc_y", "health", "active", "cells", "hits", "claims"):
                    np.testing.assert_array_equal(outcome.after[name], reference[name], err_msg=name)
            expected[e] = outcome.after if outcome.done else reference
    if config.get("agents_per_team") == CROWDED["agents_per_team"]:
        assert fallen > 10 and ended >= 2


SMALL = {"agents_per_team": 3, "map_size": 9, "spacing": 1, "gap": 1, "view_range": 2, "minimap": True}
"""One size for all that is worked out by hand, so that it is compiled once."""


def test_hits_add_up_and_one_of_the_attackers_is_paid_for_the_kill(replicas_of):
    env = Battle(**SMALL)
    replicas = replicas_of(env)
    places = [(3, 4), (5, 4), (4, 3), (4, 4), (8, 8), (0, 0)]
    put(replicas, places, [100, 100, 100, 60, 100, 50])
    hit = [attacker(env, RIGHT), attacker(env, LEFT), attacker(env, DOWN), attacker(env, UP), STAY, STAY]
    outcome = replicas.step([hit])[0]  # agent 3 has no health left, and stands: 60 - 3 * 20 + 1
    assert outcome.after["health"].tolist() == [100, 100, 81, 1, 100, 51]  # 100 - 20 + 1; 50 + 1
    struck = -0.005 - 0.1 + 0.2
    np.testing.assert_allclose(outcome.rewards, [struck] * 4 + [-0.005] * 2, atol=1e-6)

    outcome = replicas.step([hit])[0]  # it strikes as it falls
    assert outcome.after["health"].tolist() == [100, 100, 62, 0, 100, 52]
    assert outcome.after["active"].tolist() == [True, True, True, False, True, True]
    # step 2: the order is that of (member + 2) % 3, so agent 1 is first
    np.testing.assert_allclose(outcome.rewards, [struck, -0.105 + 5.0, struck, -0.1, -0.005, -0.005], atol=1e-6)
    assert not outcome.observations[3].any()
    again = replicas.step([hit])[0]  # into the void, now
    np.testing.assert_allclose(again.rewards, [-0.105, -0.105, -0.105, 0, -0.005, -0.005], atol=1e-6)


def in_any_order(env, state, rng):
    """Actions whose effects do not depend on their order: nobody shares a goal, and who is to fall does nothing."""
    team = np.arange(env.num_agents) >= env.agents_per_team
    actions, hits = np.zeros(env.num_agents, np.int64), np.zeros(env.num_agents, np.int64)
    who_is_at = {(state["loc_x"][agent], state["loc_y"][agent]): agent for agent in np.flatnonzero(state["active"])}
    goals = set(who_is_at)
    for agent in rng.permutation(list(who_is_at.values())):
        around = zip(state["loc_x"][agent] + env.action_x, state["loc_y"][agent] + env.action_y, strict=True)
        places = list(around)
        strikes = [a for a in range(13, 21) if team[who_is_at.get(places[a], agent)] != team[agent]]
        action = rng.choice(strikes) if strikes and rng.random() < 0.8 else rng.integers(21)
        target = who_is_at.get(places[action])
        if action > env.num_moves and target is not None and team[target] != team[agent]:
            left = state["health"][target] - env.damage_of_hit * (hits[target] + 1)
            if left < 0 and (hits[target] or actions[target]):
                continue
            hits[target] += 1 if left >= 0 else env.num_agents
        elif action <= env.num_moves:
            if hits[agent] >= env.num_agents or places[action] in goals:
                continue
            goals.add(places[action])
        if hits[agent] < env.num_agents:
            actions[agent] = action
    return actions


def test_steps_that_have_no_order_are_those_of_magent2(replicas_of):
    """MAgent2 plays, and the kernels step from each of its states."""
    pytest.importorskip("magent2")
    map_size = 20
    game = MAgent2(map_size, seed=3)
    env, rng = game.env, np.random.default_rng(3)
    replicas = replicas_of(env)
    off_map = np.pad(np.zeros((map_size, map_size), bool), VIEW, constant_values=True)
    side = np.arange(2 * VIEW + 1) - VIEW
    circle = np.add.outer(side**2, side**2) <= VIEW**2
    state, fallen = game.state(), 0
    for _ in range(300):
        for name, values in state.items():
            replicas.wrapper.ctx[name][0] = torch.from_numpy(values)
        actions = in_any_order(env, state, rng)
        outcome = replicas.step(actions[None])[0]
        rewards, is_won = game.step(actions)
        np.testing.assert_allclose(outcome.rewards, rewards, atol=1e-6)
        assert outcome.terminated == is_won
        if is_won:
            break
        fallen += int(state["active"].sum())
        state, views = game.state(), game.views()
        fallen -= int(state["active"].sum())
        for name in ("health", "active", "cells"):
            np.testing.assert_array_equal(outcome.after[name], state[name], err_msg=name)
        for agent in np.flatnonzero(state["active"]):
            x, y = state["loc_x"][agent], state["loc_y"][agent]
            seen = circle & ~off_map[y : y + 2 * VIEW + 1, x : x + 2 * VIEW + 1]
            found = np.where(seen, outcome.observations[agent], 0)
            np.testing.assert_allclose(found, views[agent], atol=1e-4)  # MAgent2 adds up health in floats
    assert fallen > 5


def test_minimap_is_that_of_magent2_without_its_mark_of_the_own_square():
    battle_v4 = pytest.importorskip("magent2.environments.battle_v4")
    width, map_size = 2 * VIEW + 1, 39  # squares of 3 x 3 cells in both
    views, _ = battle_v4.parallel_env(map_size=map_size, minimap_mode=True).reset(seed=0)
    game = MAgent2(map_size, minimap=True)
    state = game.state()
    seen = game.env.reference_observe(state)
    for agent, view in enumerate(views.values()):
        shares = view[..., [3, 6]].transpose(2, 0, 1).copy()
        shares[:, state["loc_y"][agent] * width // map_size, state["loc_x"][agent] * width // map_size] -= 1
        np.testing.assert_allclose(seen[agent, 5:7], shares, atol=1e-6)
        location = seen[agent, 7:].transpose(1, 2, 0) * (map_size - 1) / map_size
        np.testing.assert_allclose(location, view[..., 7:], atol=1e-6)


def test_friends_walls_and_what_is_off_the_map_are_not_hurt(replicas_of):
    env = Battle(**SMALL, walls=[(1, 1)])
    replicas = replicas_of(env)
    put(replicas, [(0, 0), (0, 1), None, (8, 8), (8, 0), None])
    actions = [attacker(env, DOWN), attacker(env, RIGHT), STAY, attacker(env, RIGHT), STAY, STAY]
    outcome = replicas.step([actions])[0]
    assert outcome.after["health"].tolist() == [100, 100, 0, 100, 100, 0]
    np.testing.assert_allclose(outcome.rewards, [-0.105, -0.105, 0, -0.105, -0.005, 0], atol=1e-6)


def test_one_of_those_who_want_a_cell_gets_it_and_each_team_in_turn(replicas_of):
    env = Battle(**SMALL)
    replicas = replicas_of(env)
    winners = []
    for _ in range(4):
        put(replicas, [(1, 2), None, None, (3, 2), None, None])
        actions = [mover(env, RIGHT), STAY, STAY, mover(env, LEFT), STAY, STAY]
        after = replicas.step([actions])[0].after
        red, blue = after["loc_x"][0], after["loc_x"][3]
        assert (red, blue) in [(2, 3), (1, 2)]
        winners.append("red" if red == 2 else "blue")
    assert winners in (["red", "blue"] * 2, ["blue", "red"] * 2)


def test_nobody_moves_off_the_map_into_walls_or_where_someone_was(replicas_of):
    env = Battle(**SMALL, walls=[(2, 0)])
    replicas = replicas_of(env)
    put(replicas, [(0, 0), (1, 0), None, (7, 2), (8, 2), None])
    there = [0, 1, 3, 4]

    def places_after(*ways):
        actions = np.zeros((1, 6), np.int32)
        actions[0, there] = [mover(env, way) for way in ways]
        after = replicas.step(actions)[0].after
        return [(int(after["loc_x"][agent]), int(after["loc_y"][agent])) for agent in there]

    assert places_after(UP, RIGHT, RIGHT, (2, 0)) == [(0, 0), (1, 0), (7, 2), (8, 2)]
    assert places_after(DOWN, DOWN, RIGHT, DOWN) == [(0, 1), (1, 1), (7, 2), (8, 3)]


def test_what_agents_see(replicas_of):
    env = Battle(**SMALL, walls=[(1, 2)])
    replicas = replicas_of(env)
    put(replicas, [(1, 1), (2, 1), None, (3, 3), None, None], [100, 40, 0, 70, 0, 0])
    red, _, fallen, blue, *_ = replicas.step([[STAY] * 6])[0].observations
    walls = np.zeros((5, 5))
    walls[0], walls[:, 0], walls[3, 2] = 1, 1, 1
    np.testing.assert_array_equal(red[0], walls)
    assert [tuple(i) for i in np.argwhere(red[1])] == [(2, 2), (2, 3)]
    assert [tuple(i) for i in np.argwhere(red[2])] == [(4, 4)]
    np.testing.assert_allclose(red[3][2, 2:4], [1.0, 0.41], atol=1e-6)
    np.testing.assert_allclose(red[4][4, 4], 0.71, atol=1e-6)
    assert [tuple(i) for i in np.argwhere(blue[2])] == [(0, 0), (0, 1)]
    # the map in 5 x 5 squares: of x and y from 0 to 8, 1 lies in square 0, 2 and 3 lie in square 1
    np.testing.assert_allclose([red[5][0, 0], red[5][0, 1], red[6][1, 1], blue[5][1, 1]], [1 / 3] * 4)
    assert np.count_nonzero(red[5]) == 2 and np.count_nonzero(red[6]) == 1
    np.testing.assert_allclose([red[7], red[8]], np.full((2, 5, 5), 0.125))
    assert not fallen.any()


@pytest.mark.parametrize("loser", [0, 3])
def test_the_battle_ends_with_a_team(replicas_of, loser):
    env = Battle(**SMALL)
    replicas = replicas_of(env)
    health = [100, 0, 0, 100, 0, 0]
    health[loser] = 10
    put(replicas, [(1, 1), None, None, (2, 1), None, None], health)
    actions = [attacker(env, RIGHT), STAY, STAY, attacker(env, LEFT), STAY, STAY]
    actions[loser] = STAY
    outcome = replicas.step([actions])[0]
    assert outcome.terminated and not outcome.truncated
    np.testing.assert_allclose(outcome.rewards[[loser, 3 - loser]], [-0.1, 4.895], atol=1e-6)


def test_random_starts_are_apart_and_anywhere(replicas_of):
    """Each of 30 cells is where 800 draws of 4 agents fall 107 times on average; 50 would be 5.9 deviations off."""
    env = Battle(agents_per_team=2, map_size=6, walls=[(x, 0) for x in range(6)], random_starts=True, view_range=1)
    replicas = replicas_of(env, 800)
    ctx = replicas.wrapper.ctx
    cells = (ctx["loc_y"] * 6 + ctx["loc_x"]).cpu().numpy()
    assert (np.sort(cells)[:, 1:] > np.sort(cells)[:, :-1]).all()
    counts = np.bincount(cells.ravel(), minlength=36)
    assert not counts[:6].any() and (counts[6:] > 50).all() and (counts[6:] < 170).all()
    assert not ctx["claims"].any()
    np.testing.assert_array_equal((ctx["cells"] == 101).sum((1, 2)).cpu(), 2)
    np.testing.assert_array_equal((ctx["cells"] == -101).sum((1, 2)).cpu(), 2)


@pytest.mark.exhaustive
def test_the_order_of_threads_does_not_matter():
    """Kernels run access by access; where two touch one element, again in other orders of the threads."""
    env = Battle(agents_per_team=4, map_size=6, random_starts=True, view_range=1, damage=5.0, minimap=True)
    report = check_environment_kernels(env, steps=5, nan=True)
    assert report.clean and not report.notes, str(report)


def test_blocks_mirror_each_other():
    env = Battle()
    x, y = env.start_x, env.start_y
    assert (x[:81] + x[81:] == 44).all() and (y[:81] == y[81:]).all()
    assert len(set(zip(x.tolist(), y.tolist(), strict=True))) == 162
    assert x[:81].min() == 2 and x[:81].max() == 18 and y.min() == 14 and y.max() == 30
    assert env.action_space.n == 21 and env.observation_space.shape == (5, 13, 13)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"agents_per_team": 0}, "agents_per_team is 0"),
        ({"map_size": 30}, "map_size is 30, but two blocks of 81 agents .* need 40 cells"),
        ({"random_starts": True, "map_size": 17}, "289 cells without walls.*at most 72 agents"),
        ({"health": 0.0}, "health is 0.0"),
        ({"damage": 0.25}, "damage is 0.25, but it must be a multiple of 0.1"),
        ({"recovery": -0.1}, "recovery is -0.1"),
        ({"move_range": 0.5}, "move_range is 0.5"),
        ({"view_range": 0}, "view_range is 0"),
        ({"walls": [(45, 0)]}, "walls is .* from 0 to 44"),
        ({"walls": [(1,)]}, "walls is"),
        ({"walls": [(1, 2, 3, 4)]}, r"walls is \[\(1, 2, 3, 4\)\], but it must be a list of cells"),
        ({"walls": [1, 2]}, r"walls is \[1, 2\]"),
        ({"walls": [[[1, 2], [3, 4]]]}, r"walls is \[\[\[1, 2\], \[3, 4\]\]\]"),
        ({"walls": [(18, 14)]}, r"walls has the cell \(18, 14\), but agent 0 starts there"),
        ({"minimap": 1}, "minimap is 1"),
    ],
)
def test_wrong_parameters_are_refused(config, message):
    with pytest.raises(DefinitionError, match=message):
        Battle(**config)
