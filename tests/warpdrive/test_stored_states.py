"""States of replicas, restored in others of the same or another backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import warpdrive as wd
from warpdrive.backends.loading import usable_backends
from warpdrive.env_wrapper import EnvWrapper
from warpdrive.errors import DefinitionError
from warpdrive.training.checkpoint.checkpoint import read_checkpoint
from warpdrive.training.config.load import load_config
from warpdrive.training.trainer import Trainer, make_env


def after(env: EnvWrapper, actions: list[np.ndarray]) -> EnvWrapper:
    for action in actions:
        env.step(action)
    return env


def sampled(env: EnvWrapper, num_steps: int) -> wd.Rollout:
    rollout = env.allocate_rollout(num_steps)
    for _ in range(num_steps):
        env.step_rollout(rollout)
    return rollout


def arrays(env: EnvWrapper) -> dict[str, np.ndarray]:
    return {name: env.ctx[name].cpu().numpy().copy() for name in env.ctx.state_names}


@pytest.mark.parametrize("saved_on", usable_backends())
def test_a_state_saved_on_one_backend_goes_on_on_another(
    walkers: Callable[..., Any], random_actions: Any, backend: str, saved_on: str
) -> None:
    rng = np.random.default_rng(3)
    actions = [random_actions(rng, 6) for _ in range(20)]
    first = after(EnvWrapper(walkers(), 6, saved_on, seed=2, reset_pool_size=9), actions[:8])
    state = first.ctx.save_state().cpu()
    second = EnvWrapper(walkers(), 6, backend, seed=2, reset_pool_size=9)
    second.ctx.load_state(state)
    after(first, actions[8:])
    after(second, actions[8:])
    found = arrays(second)
    for name, expected in arrays(first).items():
        np.testing.assert_array_equal(found[name], expected, err_msg=name)


def test_half_of_the_replicas_start_from_states_reached_earlier(
    walkers: Callable[..., Any], random_actions: Any, backend: str
) -> None:
    """All other replicas continue unchanged; the chosen ones continue like their sources."""
    rng = np.random.default_rng(5)
    actions = [random_actions(rng, 10) for _ in range(14)]
    source = after(EnvWrapper(walkers(), 10, backend, seed=7, reset_pool_size=9), actions[:3])
    reached = source.ctx.save_state([8, 1, 6, 3, 5])  # permuted
    targets = torch.arange(10)[1::2].flip(0)  # 9, 7, 5, 3, 1: every second, backwards
    env, alone = (after(EnvWrapper(walkers(), 10, backend, seed=7, reset_pool_size=9), actions[:6]) for _ in range(2))
    env.ctx.load_state(reached, envs=targets)
    for action in actions[6:]:
        given = action.copy()
        given[[9, 7, 5, 3, 1]] = action[[8, 1, 6, 3, 5]]
        env.step(given)
        alone.step(action)
        source.step(action)
    found = arrays(env)
    for name, of_source in arrays(source).items():
        np.testing.assert_array_equal(found[name][[9, 7, 5, 3, 1]], of_source[[8, 1, 6, 3, 5]], err_msg=name)
        np.testing.assert_array_equal(found[name][::2], arrays(alone)[name][::2], err_msg=name)


def test_states_may_be_given_in_any_layout(walkers: Callable[..., Any], random_actions: Any, backend: str) -> None:
    env = after(EnvWrapper(walkers(), 8, backend, reset_pool_size=9), [random_actions(np.random.default_rng(0), 8)] * 3)
    state = env.ctx.save_state()
    places = env.ctx["position"].cpu().numpy().copy()
    env.ctx.load_state(state[::2], envs=[6, 0, 3, 1])  # rows that do not lie side by side
    places[[6, 0, 3, 1]] = places[::2]
    np.testing.assert_array_equal(env.ctx["position"].cpu().numpy(), places)
    env.ctx.load_state(state.T.contiguous().T, envs=np.arange(8)[::-1].copy())
    np.testing.assert_array_equal(env.ctx["position"].cpu().numpy(), env.ctx["position"].cpu().numpy())
    assert torch.equal(env.ctx.save_state(), state.flip(0))


def test_what_belongs_to_a_replica_may_stay(walkers: Callable[..., Any], backend: str) -> None:
    """Load one state into all replicas, each of which keeps its own random stream.

    20 replicas x 3 agents draw the same actions in 4 steps with probability 3 ** -228.
    """
    env = EnvWrapper(walkers(ring_length=100, episode_length=100), 20, backend, seed=1, reset_pool_size=9)
    sampled(env, 2)
    state = env.ctx.save_state([7])
    env.ctx.load_state(state, keep=env.own_arrays)
    own = sampled(env, 4)
    assert torch.equal(own.observations[0], own.observations[0][:1].expand(20, 3, 4))  # type: ignore[index]
    assert not (own.actions == own.actions[:, :1]).all()
    env.ctx.load_state(state)
    same = sampled(env, 4)
    assert (same.actions == same.actions[:, :1]).all()
    with pytest.raises(DefinitionError, match=r"unknown state array 'sampler.rnd'. Did you mean 'sampler.rng'"):
        env.ctx.load_state(state, keep=["sampler.rnd"])


def test_loading_leaves_the_statistics_of_the_replicas_alone(walkers: Callable[..., Any], backend: str) -> None:
    env = EnvWrapper(walkers(), 4, backend)
    for _ in range(5):  # every episode ends within 5 steps
        env.step(np.ones((4, 3), np.int32))
    state = env.ctx.save_state([2])
    env.episode_statistics()
    env.ctx.load_state(state, keep=env.own_arrays)
    assert int(env.episode_statistics()["episodes"]) == 0


def test_the_layout_does_not_depend_on_what_a_backend_runs(walkers: Callable[..., Any]) -> None:
    """A twin that draws random numbers, though the Python function does not."""
    if len(usable_backends()) < 2:
        pytest.skip("one backend")

    environment = walkers()
    environment.cuda_twins = {**environment.cuda_twins, "walk": wd.cuda_kernel("twins/walkers.cu", "random_start")}
    sizes = {EnvWrapper(environment, 2, backend).ctx.bytes_per_env for backend in usable_backends()}
    assert len(sizes) == 1


def test_a_checkpoint_made_on_one_backend_is_loaded_on_another(tmp_path: Any, backend: str) -> None:
    options = [f"saving.folder={tmp_path}", "trainer.num_envs=4", "trainer.train_batch_size=40"]
    configs = [load_config("cartpole", [*options, f"trainer.env_backend={name}"]) for name in ("cpu", backend)]
    trainer = Trainer(make_env(configs[0]), configs[0])
    trainer.collect()
    trainer.save(tmp_path / "saved")
    loaded = Trainer.load(tmp_path / "saved", env=make_env(configs[1]))
    assert torch.equal(loaded.env.ctx.save_state().cpu(), read_checkpoint(tmp_path / "saved").state["simulation"].cpu())
    trainer.collect()
    loaded.collect()
    assert torch.equal(loaded.rollout.of("actions", "agent").cpu(), trainer.rollout.of("actions", "agent"))
