"""Environments as PettingZoo's: its conformance suites, and steps compared with those of an EnvWrapper."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from environment_parameters import UNLIKE
from exhaustive import exhaustive

import warpdrive as wd
from warpdrive.errors import ActionError, WarpDriveError

pettingzoo = pytest.importorskip("pettingzoo")
from pettingzoo.test import api_test, max_cycles_test, parallel_api_test, parallel_seed_test, render_test  # noqa: E402
from pettingzoo.test.state_test import state_test  # noqa: E402
from pettingzoo.utils import parallel_to_aec  # noqa: E402

SMALL = {
    "battle": {"agents_per_team": 6, "map_size": 12},
    "flock": {"num_boids": 6, "num_neighbours": 3, "episode_length": 9},
    "tag_continuous": {"num_taggers": 2, "num_runners": 3},
}


@pytest.mark.parametrize("name", exhaustive(UNLIKE, ("cartpole", "tag_continuous")))
def test_every_environment_conforms(name):
    made = wd.EnvWrapper(env_name=name, env_config=SMALL.get(name, {}), env_backend="cpu", reset_pool_size=None)

    def parallel_env(**options):
        env = wd.to_pettingzoo(made, **options)
        env.close = lambda: None  # the suites close it
        return env

    def env(**options):
        return parallel_to_aec(parallel_env(**options))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on names, infinite bounds and observations of zeros
        parallel_api_test(parallel_env(), num_cycles=40)
        api_test(env(), num_cycles=20)
        state_test(env(), parallel_env(), num_cycles=5)
        max_cycles_test(SimpleNamespace(env=env, parallel_env=parallel_env))
        if name in ("cartpole", "tag_gridworld", "battle"):  # drawing is slow
            render_test(env)


@pytest.mark.parametrize("name", ["cartpole", "simple_tag"])
def test_seeds(name):
    parallel_seed_test(lambda: wd.to_pettingzoo(name, env_backend="cpu"), num_cycles=20)
    env, other = (wd.to_pettingzoo(name, env_backend="cpu") for _ in range(2))
    agent = env.possible_agents[0]
    assert not np.array_equal(env.reset()[0][agent], other.reset()[0][agent])  # no seed


def test_agents_leave_and_other_replicas_wait():
    config = {"env_config": SMALL["tag_continuous"], "env_backend": "cpu", "seed": 3, "num_envs": 2}
    replicas, twin = (wd.EnvWrapper(env_name="tag_continuous", **config) for _ in range(2))
    env = wd.to_pettingzoo(replicas, replica=1)
    observations, _ = env.reset(seed=4)
    twin.reset(seed=4)
    waiting = replicas.ctx["observations"][0].clone()
    ids = {name: index for index, name in enumerate(env.possible_agents)}
    rng, left = np.random.default_rng(0), []
    while env.agents:
        every = np.zeros((2, replicas.num_agents, 2), np.int64)
        every[1] = rng.integers(0, replicas.action_spaces["runner"].nvec, (replicas.num_agents, 2))
        before = list(env.agents)
        observations, rewards, terminated, truncated, infos = env.step({name: every[1, ids[name]] for name in before})
        every[1, [ids[name] for name in env.possible_agents if name not in before]] = 0
        expected = twin._step(torch.from_numpy(every), auto_reset=False)
        assert expected is None
        for name in before:
            assert np.array_equal(observations[name], twin.ctx["observations"][1, ids[name]].numpy())
            assert rewards[name] == twin.ctx["rewards"][1, ids[name]].item()
            ended = bool(twin.ctx["terminated"][1]) or not bool(twin.ctx["active"][1, ids[name]])
            assert terminated[name] == ended
            assert truncated[name] == bool(twin.ctx["truncated"][1])
        left += [name for name in before if name not in env.agents]
        assert set(infos) == set(before)
    assert len(left) == len(set(left)) == replicas.num_agents
    assert torch.equal(waiting, replicas.ctx["observations"][0])


def test_mistakes_are_named(monkeypatch):
    env = wd.to_pettingzoo("tag_gridworld", env_backend="cpu")
    env.reset(seed=0)
    with pytest.raises(ActionError, match="actions has none for 'tagger_1'"):
        env.step({"tagger_0": 1})
    with pytest.raises(ActionError, match=r"'tagger_0' has the shape \(2,\), expected \(\)"):
        env.step({"tagger_0": [1, 2]})
    monkeypatch.setitem(__import__("sys").modules, "pettingzoo", None)
    monkeypatch.delitem(__import__("sys").modules, "warpdrive.interop.pettingzoo")
    with pytest.raises(WarpDriveError, match=r"pip install 'warpdrive\[pettingzoo\]'"):
        wd.to_pettingzoo("cartpole")


def test_players_of_a_game_in_turns_stay_until_it_ends():
    replicas = wd.EnvWrapper(env_name="connect_four", env_config={"starts": "yellow"}, env_backend="cpu")
    env = wd.to_pettingzoo(replicas)
    _, infos = env.reset(seed=0)
    turns = []
    while env.agents:
        assert env.agents == ["red_0", "yellow_0"]
        turns.append(next(agent for agent, info in infos.items() if info["active"]))
        _, rewards, terminated, _, infos = env.step({"red_0": 2, "yellow_0": 5})
    assert turns == ["yellow_0", "red_0"] * 3 + ["yellow_0"]
    assert rewards == {"red_0": -1, "yellow_0": 1} and all(terminated.values())
