"""Vector environments of Stable-Baselines3, rsl_rl and skrl: shapes, ends of episodes, and their checks."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch

import warpdrive as wd
from warpdrive.errors import WarpDriveError

CARTPOLE = {"env_backend": "cpu", "env_config": {"episode_length": 12}, "seed": 0}


@pytest.mark.parametrize(
    ("module", "convert", "extra"),
    [
        ("stable_baselines3", wd.to_stable_baselines3, "stable-baselines3"),
        ("rsl_rl", wd.to_rsl_rl, "rsl-rl"),
        ("skrl", wd.to_skrl, "skrl"),
        ("torchrl", wd.to_torchrl, "torchrl"),
    ],
)
def test_a_missing_library_is_named(module, convert, extra, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, f"warpdrive.interop.{module}", raising=False)
    with pytest.raises(
        WarpDriveError, match=rf"({module}|tensordict) is not installed: pip install 'warpdrive\[{extra}\]'"
    ):
        convert("cartpole")


def test_stable_baselines3():
    pytest.importorskip("stable_baselines3")
    from stable_baselines3.common.vec_env import VecMonitor

    env, twin = (
        VecMonitor(wd.to_stable_baselines3("cartpole", 5, **CARTPOLE)),
        wd.to_gymnasium("cartpole", 5, **CARTPOLE),
    )
    env.seed(3)
    assert np.array_equal(env.reset(), twin.reset(seed=3)[0])
    rng = np.random.default_rng(0)
    ended = 0
    for _ in range(15):
        actions = rng.integers(0, 2, 5)
        observations, rewards, dones, infos = env.step(actions)
        expected = twin.step(actions)
        assert np.array_equal(observations, expected[0])
        assert np.array_equal(rewards, expected[1])
        assert np.array_equal(dones, expected[2] | expected[3])
        assert [bool(info) for info in infos] == dones.tolist()
        for row in np.flatnonzero(dones):
            assert np.array_equal(infos[row]["terminal_observation"], expected[4]["final_obs"][row])
            assert infos[row]["TimeLimit.truncated"] == (expected[3][row] and not expected[2][row])
            assert infos[row]["episode"]["r"] == infos[row]["episode"]["l"]  # by VecMonitor, from rewards of 1
            ended += 1
    assert ended
    assert env.get_attr("gravity", [0, 2]) == [9.8, 9.8]
    with pytest.raises(WarpDriveError, match="'gravity' cannot change"):
        env.set_attr("gravity", 1.0)


def test_rsl_rl():
    pytest.importorskip("rsl_rl")
    env = wd.to_rsl_rl("cartpole", 4, **CARTPOLE)
    assert (env.num_actions, env.max_episode_length, env.num_envs) == (2, 12, 4)
    assert env.get_observations()["policy"].shape == (4, 4)
    env.episode_length_buf = torch.tensor([0, 3, 6, 9])
    for _ in range(3):
        observations, rewards, dones, extras = env.step(torch.tensor([[0.1, 0.9], [0.9, 0.1], [0.1, 0.9], [0.9, 0.1]]))
    assert env.envs.replicas.actions("agent").flatten().tolist() == [1, 0, 1, 0]  # the largest output
    assert dones.tolist() == extras["time_outs"].long().tolist() == [0, 0, 0, 1]
    assert env.episode_length_buf.tolist() == [3, 6, 9, 0]
    assert observations["policy"].shape == (4, 4)
    assert rewards.tolist() == [1.0] * 4


def test_skrl():
    pytest.importorskip("skrl")
    env = wd.to_skrl("cartpole", 4, **CARTPOLE)
    first, _ = env.reset()
    observations, rewards, terminated, truncated, _ = env.step(torch.tensor([[1], [0], [1], [0]]))
    assert env.envs.replicas.actions("agent").flatten().tolist() == [1, 0, 1, 0]
    assert first.shape == observations.shape == (4, 4)
    assert {column.shape for column in (rewards, terminated, truncated)} == {torch.Size([4, 1])}
    assert torch.equal(env.reset()[0], observations)  # episodes follow one another without a reset
