"""The cartpole in JAX of the benchmark equals the library's."""

from __future__ import annotations

import numpy as np
import pytest

import warpdrive as wd
from harness.environments.cartpole_jax import NAMES, move, scanned


def test_its_physics_is_ours() -> None:
    env = wd.EnvWrapper(wd.make("cartpole"), num_envs=200, env_backend="cpu", auto_reset=False)
    rng = np.random.default_rng(0)
    for scale in (0.05, 0.2, 1.0):
        before = {name: rng.uniform(-scale, scale, 200).astype(np.float32) for name in NAMES}
        for name, value in before.items():
            env.ctx[name].numpy()[:] = value
        actions = rng.integers(0, 2, (200, 1), dtype=np.int32)
        _, _, terminated, _, _ = env.step(actions)
        after, ended = move(before, actions[:, 0], env.env, np)
        for name in NAMES:
            assert after[name].dtype == np.float32
            np.testing.assert_allclose(env.ctx[name].numpy(), after[name], rtol=2e-6, atol=2e-7)
        np.testing.assert_array_equal(terminated.numpy(), ended)


def test_episodes_are_as_long_as_ours_under_random_actions() -> None:
    pytest.importorskip("jax")
    steps, carry = scanned(1000, 200)
    episodes = int(steps(carry)[-1].sum())
    env = wd.EnvWrapper(wd.make("cartpole"), num_envs=1000, env_backend="cpu")
    rollout = env.allocate_rollout(200)
    for _ in range(200):
        env.step_rollout(rollout)
    ours = int(env.episode_statistics()["episodes"])
    assert episodes == pytest.approx(ours, rel=0.03)  # of about 9000, each 22 steps long
