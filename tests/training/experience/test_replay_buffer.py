"""Replay buffer: steps of each agent, terminations and truncations, and the replacement of the oldest rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from exhaustive import exhaustive
from games import TAGS as GAME_TAGS

import warpdrive as wd
from warpdrive.observations import tensors
from warpdrive.training.experience.n_step import NStep, StepsUntilBack
from warpdrive.training.experience.replay_buffer import ReplayBuffer
from warpdrive.training.experience.transitions import Transitions, ended, transitions_of
from warpdrive.training.trainer import Trainer

Sections = Callable[..., dict[str, Any]]
TrainerOf = Callable[..., Trainer]
TAGS = {"Fuse": ("one", "others"), "Leave": ("outer", "inner"), "Aim": ("aimer", "chooser")}


@pytest.mark.parametrize("game", TAGS)
def test_transitions_against_a_plain_loop_over_the_rollout(
    sections: Sections, trainer_of: TrainerOf, game: str
) -> None:
    """Known mistake: what follows a time limit taken from the next episode, or as if nothing followed."""
    trainer = trainer_of(sections(game, TAGS[game], train_batch_size=600))
    trainer.collect()
    rollout = trainer.rollout
    steps, envs = rollout.rewards.shape[:2]
    ends = {"terminated": 0, "truncated": 0, "left": 0}
    for tag in TAGS[game]:
        ids = trainer.env.policy_tags[tag]
        found = transitions_of(rollout, tag, returns_after_leaving=False)
        shape = (steps, envs, len(ids))
        observations, following, actions = (
            column.view(*shape, *column.shape[1:])
            for column in (found.observations, found.next_observations, found.actions)  # type: ignore[union-attr]
        )
        rewards, terminal, weight = (column.view(shape) for column in (found.rewards, found.terminal, found.weight))
        by_tag = isinstance(rollout.actions, dict)
        for t in range(steps):
            for env in range(0, envs, 7):
                for column, agent in enumerate(ids):
                    taken = rollout.actions[tag][t, env, column] if by_tag else rollout.actions[t, env, agent]
                    assert torch.equal(actions[t, env, column], taken)
                    assert torch.equal(observations[t, env, column], rollout.observations[t, env, agent])
                    active = rollout.active is None or bool(rollout.active[t, env, agent])
                    assert rewards[t, env, column] == rollout.rewards[t, env, agent] * active
                    stays = rollout.still_active is None or bool(rollout.still_active[t, env, agent])
                    assert weight[t, env, column] == active
                    over, cut = bool(rollout.terminated[t, env]), bool(rollout.truncated[t, env])
                    assert terminal[t, env, column] == (over or not stays)
                    if cut and not over:
                        expected = rollout.final_observations[int(rollout.final_slot[t, env]), env, agent]
                        assert not torch.equal(expected, rollout.observations[t + 1, env, agent]) or game == "Aim"
                    else:
                        expected = rollout.observations[t + 1, env, agent]
                    assert torch.equal(following[t, env, column], expected)
                    for name, happened in (("terminated", over), ("truncated", cut), ("left", active and not stays)):
                        ends[name] += happened
    assert ends["truncated"] > 10 and (ends["terminated"] > 10) == (game == "Fuse")
    assert (ends["left"] > 10) == (game == "Leave")


@pytest.mark.parametrize("game", TAGS)
@pytest.mark.parametrize("length", exhaustive([2, 6], (2,)))
def test_steps_are_joined_within_an_episode_and_across_rollouts(
    sections: Sections, trainer_of: TrainerOf, game: str, length: int
) -> None:
    """Known mistakes: rewards of the next episode added, a time limit treated as termination."""
    n, gamma, tag = 4, 0.9, TAGS[game][0]
    trainer = trainer_of(sections(game, TAGS[game], num_envs=7, train_batch_size=7 * length))
    buffer = ReplayBuffer(tag, 10_000, trainer.env.device, NStep(n, lambda: gamma))
    single: list[dict[str, Any]] = []
    rows = 7 * len(trainer.env.policy_tags[tag])
    for _ in range(24 // length):
        trainer.collect()
        with wd.no_host_transfers(trainer.env.device):
            buffer.of(trainer.rollout)
        columns = {
            **transitions_of(trainer.rollout, tag, False).columns(),
            "ended": ended(trainer.rollout, tag, False).flatten(),
        }
        for t in range(length):
            at = slice(t * rows, (t + 1) * rows)
            single.append({name: column[at].clone() for name, column in columns.items() if column is not None})
    kept = buffer.state_dict()["columns"]
    lengths, place = set(), 0
    for t in range(24 - n + 1):
        for row in range(rows):
            expected, last = 0.0, t
            for k in range(n):
                last = t + k
                expected += gamma**k * float(single[last]["rewards"][row])
                if single[last]["ended"][row]:
                    break
            if not single[t]["weight"][row]:  # agents out of the episode take no room
                continue
            found = {name: column[place] for name, column in kept.items()}
            place += 1
            assert found["rewards"].item() == pytest.approx(expected, rel=1e-5)
            assert found["steps"] == last - t + 1
            for name in ("observations", "actions", "weight"):
                assert torch.equal(found[name], single[t][name][row])
            for name in ("next_observations", "terminal"):
                assert torch.equal(found[name], single[last][name][row])
            lengths.add(last - t + 1)
    assert lengths == set(range(1, n + 1)) and buffer.size == place == len(kept["rewards"])


@pytest.mark.parametrize(("game", "tag"), [("Leave", "outer"), ("Arrive", "inner")])
@pytest.mark.parametrize(("n", "length"), [(1, 2), (1, 6), (3, 2)])
def test_steps_before_an_agent_leaves_last_until_it_is_back_or_the_episode_ends(
    sections: Sections, trainer_of: TrainerOf, game: str, tag: str, n: int, length: int
) -> None:
    """Against a plain loop over rollouts kept apart: what is paid to an agent that has left belongs to them."""
    gamma = 0.9
    trainer = trainer_of(sections(game, GAME_TAGS[game], num_envs=7, train_batch_size=7 * length))
    buffer = ReplayBuffer(tag, 10_000, trainer.env.device, until_back=StepsUntilBack(n, lambda: gamma))
    single: list[dict[str, Any]] = []
    rows = 7 * len(trainer.env.policy_tags[tag])
    for _ in range(24 // length):
        trainer.collect()
        with wd.no_host_transfers(trainer.env.device):
            buffer.of(trainer.rollout)
        columns = {
            **transitions_of(trainer.rollout, tag, True).columns(),
            "ended": ended(trainer.rollout, tag, True).flatten(),
            "stays": trainer.rollout.of("still_active", tag).flatten(),
        }
        for t in range(length):
            at = slice(t * rows, (t + 1) * rows)
            single.append({name: column[at].clone() for name, column in columns.items() if column is not None})
    expected: list[tuple[Any, ...]] = []
    outlasted = 0
    for t in range(24):
        for row in range(rows):
            if not single[t]["weight"][row]:
                continue
            total = 0.0
            for last in range(t, 24):
                total += gamma ** (last - t) * float(single[last]["rewards"][row])
                over, stays = bool(single[last]["ended"][row]), bool(single[last]["stays"][row])
                if over or (last - t + 1 >= n and stays):
                    first, then = single[t], single[last]
                    terminal = bool(then["terminal"][row]) or (over and not stays)
                    seen = (tuple(first["observations"][row].tolist()), tuple(then["next_observations"][row].tolist()))
                    expected.append((last - t + 1, terminal, *seen, first["actions"][row].tolist(), round(total, 2)))
                    outlasted += last - t + 1 > n
                    break
    kept = buffer.state_dict()["columns"]
    found = [
        (
            int(kept["steps"][row]),
            bool(kept["terminal"][row]),
            *(tuple(kept[name][row].tolist()) for name in ("observations", "next_observations")),
            kept["actions"][row].tolist(),
            round(float(kept["rewards"][row]), 2),
        )
        for row in range(len(kept["rewards"]))
    ]
    assert sorted(found) == sorted(expected) and (outlasted > 10) == (n == 1 or game == "Leave")


def test_the_target_over_several_steps_by_hand() -> None:
    # 5 + 0.5^3 * 8 over 3 steps, 5 + 0.5 * 8 over one, and 5 where nothing follows
    one = torch.zeros(3)
    rows = Transitions(one, one, one + 5, one, torch.tensor([False, False, True]), one + 1)
    steps = torch.tensor([3.0, 1.0, 3.0])
    assert replace(rows, steps=steps).target(0.5, one + 8).tolist() == [6.0, 9.0, 5.0]
    assert rows.target(0.5, one + 8).tolist() == [9.0, 9.0, 5.0]


def test_what_an_agent_may_do_next_is_that_of_its_own_episode(sections: Sections, trainer_of: TrainerOf) -> None:
    """In Leave choice k is forbidden to agent k, and in what is seen at time k: observations say what masks are."""
    trainer = trainer_of(sections("Leave", TAGS["Leave"], train_batch_size=600))
    for _ in range(2):
        trainer.collect()
        for tag in TAGS["Leave"]:
            found = transitions_of(trainer.rollout, tag, returns_after_leaving=False)
            assert found.next_action_mask is not None and isinstance(found.next_observations, torch.Tensor)
            ids = torch.tensor(trainer.env.policy_tags[tag]).repeat(len(found) // len(trainer.env.policy_tags[tag]))
            expected = (found.next_observations == 0) & (torch.arange(6) != ids[:, None])
            counts = ~found.terminal
            assert counts.any() and torch.equal(found.next_action_mask[counts], expected[counts])


def numbered(first: int, last: int) -> Transitions:
    rows = torch.arange(first, last)
    numbers = rows.float()
    return Transitions(
        observations={"a": numbers[:, None], "b": rows},
        actions=rows.int(),
        rewards=numbers,
        next_observations={"a": numbers[:, None] + 1, "b": rows + 1},
        terminal=rows % 2 == 0,
        weight=torch.ones_like(numbers),
    )


def assert_whole(rows: Transitions) -> None:
    """Every row is still the row that was added."""
    assert isinstance(rows.observations, dict) and isinstance(rows.next_observations, dict)
    number = rows.observations["b"]
    assert torch.equal(rows.observations["a"], number[:, None].float())
    assert torch.equal(rows.next_observations["b"], number + 1)
    assert torch.equal(rows.actions, number.int()) and torch.equal(rows.rewards, number.float())
    assert torch.equal(rows.terminal, number % 2 == 0)


def test_the_newest_take_the_place_of_the_oldest() -> None:
    buffer = ReplayBuffer("agent", 10, torch.device("cpu"))
    generator = torch.Generator().manual_seed(0)
    there: list[int] = []
    for first, last in ((0, 4), (4, 7), (7, 15), (15, 25), (25, 26)):
        buffer.add(numbered(first, last))
        there = (there + list(range(first, last)))[-10:]
        assert buffer.size == len(there)
        # a row is missed with a probability below 10 * 0.9 ** 300 = 2e-13
        drawn = buffer.sample(300, generator)
        assert_whole(drawn)
        assert sorted({int(row) for row in drawn.actions}) == there


def test_a_buffer_is_filled_with_what_is_there() -> None:
    buffer = ReplayBuffer("agent", 10, torch.device("cpu"))
    assert buffer.fill() == 0 == buffer.size
    buffer.add(numbered(0, 4))
    row = 4 + 8 + 4 + 4 + 4 + 8 + 1 + 4  # bytes of the columns of `numbered`
    assert buffer.fill() == 6 * row and buffer.size == 10
    rows = [int(number) for number in buffer.state_dict()["columns"]["actions"]]
    assert rows == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]
    assert buffer.fill() == 0


def test_rows_are_drawn_uniformly() -> None:
    buffer = ReplayBuffer("agent", 50, torch.device("cpu"))
    buffer.add(numbered(0, 20))
    drawn = buffer.sample(20_000, torch.Generator().manual_seed(0)).actions
    counts = np.bincount(drawn.numpy(), minlength=20)
    # chi-squared with 19 degrees of freedom: above 53 with a probability of 5e-5, and not while the seed stays
    assert ((counts - 1000) ** 2 / 1000).sum() < 53


@pytest.mark.parametrize("added", [0, 6, 13])
def test_a_buffer_is_stored_and_put_back(added: int) -> None:
    buffer, other = (ReplayBuffer("agent", 10, torch.device("cpu")) for _ in range(2))
    other.add(numbered(90, 97))
    for first in range(0, added, 4):
        buffer.add(numbered(first, min(added, first + 4)))
    buffer.env_steps = 5
    other.load_state_dict(buffer.state_dict())
    assert other.env_steps == 5
    for each in (buffer, other):
        each.add(numbered(50, 53))
    one, same = (each.sample(100, torch.Generator().manual_seed(3)) for each in (buffer, other))
    assert_whole(one)
    torch.testing.assert_close(list(tensors(one.columns())), list(tensors(same.columns())), rtol=0, atol=0)


def test_filling_and_drawing_stay_on_the_device(sections: Sections, trainer_of: TrainerOf) -> None:
    trainer = trainer_of(sections("Leave", TAGS["Leave"], train_batch_size=600))
    buffer = ReplayBuffer("outer", 700, trainer.env.device)
    for _ in range(3):  # around the end of the buffer
        with wd.no_host_transfers(trainer.env.device):
            trainer.collect()
            buffer.of(trainer.rollout)
            rows = buffer.sample(64, trainer.policies["outer"].generator)
    assert len(rows) == 64 and buffer.env_steps == 1800 and buffer.size == 700
    assert rows.weight.min() == 1 and rows.rewards.max() == 1  # nothing of agents out of the episode
