"""Rollouts in one native call compared with rollouts step by step: the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from exhaustive import exhaustive
from gymnasium import spaces
from numba import cuda

import warpdrive as wd
from warpdrive.backends.host import workers
from warpdrive.env_wrapper import EnvWrapper
from warpdrive.observations import tensors
from warpdrive.training.config.load import load_config
from warpdrive.training.trainer import Trainer, make_env


@wd.kernel
def move(place, active, actions, rewards, timestep):  # type: ignore[no-untyped-def]
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    place[env, agent] = (place[env, agent] + actions[env, agent]) % 5
    rewards[env, agent] = place[env, agent]
    if timestep[env] > 2 and place[env, agent] == 4:
        active[env, agent] = False


@wd.kernel
def look(place, observations_far, observations_here, observations_near, timestep):  # type: ignore[no-untyped-def]
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    for k in range(3):
        observations_far[env, agent, k] = 200 * (place[env, k] > 2)
    observations_here[env, agent] = place[env, agent]
    observations_near[env, agent, 0] = np.float32(0.1) * place[env, agent]
    observations_near[env, agent, 1] = timestep[env]


class Walkers(wd.Environment):
    """Three agents of two tags whose ids are interleaved; they may leave, and observe bytes, a number and floats."""

    name = "walkers"
    step, observe = move, look

    def __init__(self) -> None:
        self.num_agents, self.episode_length = 3, 7
        self.policy_tags = {"outer": [2, 0], "inner": [1]}
        self.observation_space = spaces.Dict(
            far=spaces.Box(0, 255, (3,), np.uint8),
            here=spaces.Discrete(5),
            near=spaces.Box(np.array([0, 0], np.float32), np.array([1, np.inf], np.float32)),
        )
        self.action_space = spaces.Discrete(3)

    def initial_state(self, rng: np.random.Generator) -> dict[str, Any]:
        return {"place": rng.integers(0, 5, 3, dtype=np.int32), "active": np.ones(3, bool)}


SIZES = ["trainer.env_backend=cpu", "trainer.num_envs=70", "trainer.train_batch_size=1400"]
EXPLORING = "{algorithm: dqn, batch_size: 8, epsilon: 0.5}"
SCALED = {"hidden": [9], "scale_observations": True, "normalize_observations": True}
CASES = {
    "discrete": ("cartpole", ["policy.agent.model.trunk=shared"]),
    "gaussian": ("pendulum", ["policy.agent.model.normalize_observations=true"]),
    "greedy": ("cartpole", [f"policy.agent={EXPLORING}"]),
    "of two tags": ("tag_gridworld", []),
    "with memory": ("cartpole_recurrent", ["policy.agent.model.units=20"]),
    "with two memories": ("pendulum", ["policy.agent.model={type: gru, hidden: [], units: 9, trunk: separate}"]),
}

USUAL = ("of two tags", "of agents that leave")


def trainer_of(case: str) -> Trainer:
    if case in CASES:
        name, overrides = CASES[case]
        config = load_config(name, [*SIZES, *overrides])
        return Trainer(make_env(config), config)
    model = {"type": "mingru", "units": 6, "trunk": "separate"} if "forget" in case else {"type": "fully_connected"}
    settings = {"algorithm": "ppo", "minibatches": 2, "model": {**SCALED, **model}}
    sizes = {"num_envs": 70, "train_batch_size": 1400, "total_steps": 14000}
    return Trainer(
        EnvWrapper(Walkers(), 70, "cpu"), {"trainer": sizes, "policy": {"outer": settings, "inner": settings}}
    )


def two_rollouts(case: str, is_native: bool) -> list[torch.Tensor]:
    """State of the replicas and all that is recorded, in rollouts before and after an update."""
    trainer, found = trainer_of(case), []
    loop = trainer.learner._loop
    if not is_native:
        loop.native = None
    for rollouts in range(2):
        if rollouts:
            trainer.update()
        trainer.collect()
        assert loop._steps.__module__.endswith("compiled.rollout") == is_native
        recorded = [value for name, value in vars(trainer.rollout).items() if name != "agents"]
        for value in recorded:
            found += [part.clone() for part in tensors(value)] if isinstance(value, torch.Tensor | dict) else []
        found.append(trainer.env.ctx.save_state())
    return found


@pytest.mark.parametrize("case", exhaustive([*CASES, "of agents that leave", "of agents that forget"], USUAL))
def test_all_steps_at_once_equal_steps_one_by_one(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = two_rollouts(case, is_native=False)
    for threads in (1, 3):
        monkeypatch.setattr(workers, "_num_threads", threads)
        found = two_rollouts(case, is_native=True)
        assert len(found) == len(expected) > 10
        assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


@pytest.mark.parametrize(
    "override",
    [
        "trainer.update=torch",
        "policy.agent.model={type: lstm, state_dependent_std: true}",
        "policy.agent.model.state_dependent_std=true",
    ],
)
def test_other_models_step_by_step(override: str) -> None:
    config = load_config("pendulum", [*SIZES, override])
    trainer = Trainer(make_env(config), config)
    trainer.collect()
    assert not trainer.learner._loop._steps.__module__.endswith("compiled.rollout")
