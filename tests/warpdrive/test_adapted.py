"""Adapted environments beside the original, with equal seeds and actions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from exhaustive import exhaustive
from games import Spell, Vanish

import warpdrive as wd
from warpdrive.adapted import Adaptation, AdaptedEnvironment, original_of
from warpdrive.errors import DefinitionError

REPLICAS = 6
IDS = {"odd": {0: [1.0, 0.0], 2: [0.0, 1.0]}, "even": {1: [1.0]}}  # one-hot index of agents 0, 2 and 1 in their tags


def pair(walkers: Any, backend: str, adaptation: Adaptation) -> tuple[wd.EnvWrapper, wd.EnvWrapper]:
    given = {"num_envs": REPLICAS, "env_backend": backend, "seed": 3, "reset_pool_size": 5}
    return wd.EnvWrapper(walkers(), **given), wd.EnvWrapper(AdaptedEnvironment(walkers(), adaptation), **given)


@pytest.mark.parametrize("ids", [pytest.param(("odd",), marks=pytest.mark.exhaustive), ("odd", "even")])
@pytest.mark.parametrize("separate", [pytest.param((), marks=pytest.mark.exhaustive), ("odd",)])
def test_observations_are_those_of_the_environment_and_the_index_of_the_agent(
    walkers: Any, random_actions: Callable[..., Any], backend: str, ids: Any, separate: Any
) -> None:
    plain, env = pair(walkers, backend, Adaptation(agent_ids=ids, separate=separate))
    agents = {"odd_0": [0], "odd_1": [2], "even": [1]} if separate else {"odd": [0, 2], "even": [1]}
    assert env.policy_tags == agents
    rng = np.random.default_rng(0)

    def check(seen: torch.Tensor, found: Any) -> None:
        for tag, members in agents.items():
            assert found[tag].shape[1:] == (len(members), *env.observation_spaces[tag].shape)
            for row, agent in enumerate(members):
                of = tag.partition("_")[0]
                expected = [IDS[of][agent] if of in ids else []] * REPLICAS
                wanted = torch.cat([seen[:, agent].cpu(), torch.tensor(expected)], dim=1)
                torch.testing.assert_close(found[tag][:, row].cpu(), wanted)

    check(plain.reset(), env.reset())
    for _ in range(7):  # episodes have at most 5 steps
        actions = random_actions(rng, REPLICAS)
        expected, found = plain.step(actions), env.step(actions)
        check(expected[0], found[0])
        for tag, members in agents.items():
            final = found[4]["final_observations"][tag][..., :4]
            torch.testing.assert_close(final, expected[4]["final_observations"][:, members])
        torch.testing.assert_close(found[1], expected[1])


@pytest.mark.parametrize(("kind", "factor"), exhaustive([("sum", 1.0), ("mean", 0.5)], ("mean",)))
def test_rollouts_record_the_rewards_of_teams_and_statistics_those_of_agents(
    walkers: Any, backend: str, kind: Any, factor: float
) -> None:
    envs = pair(walkers, backend, Adaptation(team_rewards={"odd": kind}))
    rollouts = [env.allocate_rollout(12) for env in envs]
    for env, rollout in zip(envs, rollouts, strict=True):
        for _ in range(12):
            env.step_rollout(rollout)
    own, of_teams = (rollout.rewards.cpu() for rollout in rollouts)
    team = factor * (own[..., 0] + own[..., 2])
    torch.testing.assert_close(of_teams, torch.stack([team, own[..., 1], team], -1))
    own_statistics, statistics = (env.episode_statistics() for env in envs)
    for name, value in own_statistics.items():
        torch.testing.assert_close(statistics[name], value)


def test_non_finite_rewards_of_inactive_agents_add_nothing_to_their_team(python_backend: str) -> None:
    env = wd.EnvWrapper(AdaptedEnvironment(Vanish(), Adaptation(team_rewards={"outer": "sum"})), 4, python_backend)
    rollout = env.allocate_rollout(6)
    for _ in range(6):
        env.step_rollout(rollout)
    assert rollout.active is not None
    rewards, acted = (rollout.of(name, "outer").cpu() for name in ("rewards", "active"))
    assert torch.equal(rewards, acted.sum(-1, keepdim=True).expand_as(rewards).float()) and not acted.all()


def test_separate_tags_of_a_dict_space_have_arrays_of_their_own(python_backend: str) -> None:
    adapted = AdaptedEnvironment(Spell(), Adaptation(separate=["outer"]))
    envs = [wd.EnvWrapper(env, 4, python_backend) for env in (Spell(), adapted)]
    expected, found = (env.step(np.ones((4, 3), np.int32))[0] for env in envs)
    for key, values in expected.items():
        for tag, agents in {"outer_0": [2], "outer_1": [0], "inner": [1]}.items():
            torch.testing.assert_close(found[tag][key], values[:, agents])


def test_other_attributes_are_those_of_the_original(walkers: Any) -> None:
    original = walkers(ring_length=9)
    env = AdaptedEnvironment(original, Adaptation(team_rewards={"odd": "sum"}))
    assert env.ring_length == 9 and env.step is original.step and original_of(env) is original
    assert env.initial_state(np.random.default_rng(0)).keys() == {"position", "visits"}


def test_impossible_adaptations(walkers: Any) -> None:
    with pytest.raises(DefinitionError, match=r"found observations in Dict.*expected a Box with one axis"):
        AdaptedEnvironment(Spell(), Adaptation(agent_ids=["outer"]))
    several = walkers()
    several.action_space = dict.fromkeys(several.policy_tags, several.action_space)
    with pytest.raises(DefinitionError, match="found false, expected true for an environment whose policy tags have"):
        AdaptedEnvironment(several, Adaptation(separate=["odd"]))
