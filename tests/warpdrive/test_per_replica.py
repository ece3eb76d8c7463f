"""Constants that differ from replica to replica."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from numba import cuda

import warpdrive as wd
from warpdrive.env_wrapper import EnvWrapper


@wd.kernel
def push(speed, actions, rewards, mass, grip, table):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    speed[env, agent] += actions[env, agent, 0] / mass[env]
    rewards[env, agent] = np.float32(grip[env, agent]) + table[agent]


@wd.kernel
def feel(speed, observations, mass):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    observations[env, agent, 0] = speed[env, agent]
    observations[env, agent, 1] = mass[env]


@wd.kernel
def push_and_wear(speed, actions, rewards, mass):
    mass[cuda.blockIdx.x] *= np.float32(0.5)


@wd.kernel
def wear_by_another_name(speed, grip):
    all_grips, agent = grip, cuda.threadIdx.x
    own = all_grips[cuda.blockIdx.x]
    own[agent] = 0


@wd.kernel
def reward_by_parity(speed, rewards, table):
    rewards[cuda.blockIdx.x, cuda.threadIdx.x] = table[1 & cuda.blockIdx.x]


class Carts(wd.Environment):
    """Two carts; in each replica they have another mass and another grip."""

    name = "carts"
    step, observe = push, feel
    cuda_twins = {name: wd.cuda_kernel("twins/carts.cu", name) for name in ("push", "feel", "push_and_wear")}  # noqa: RUF012
    mass: Any = wd.PerReplica(lambda rng: rng.uniform(0.5, 2.0))

    def __init__(self) -> None:
        self.num_agents, self.episode_length = 2, 6
        self.policy_tags = {"cart": [0, 1]}
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = spaces.Box(-1, 1, (1,), np.float32)
        self.grip: Any = wd.PerReplica(np.array([[1, 2], [3, 4], [5, 6]], np.int32))
        self.table = np.array([0.25, 0.5], np.float32)

    def initial_state(self, rng: np.random.Generator) -> dict[str, Any]:
        return {"speed": np.zeros(2, np.float32)}

    def reference_step(self, state: dict[str, Any], actions: Any) -> dict[str, Any]:
        speed = state["speed"] + actions[:, 0] / state["mass"]
        seen = np.stack([speed, np.full(2, state["mass"])], axis=1)
        rewards = state["grip"] + self.table
        after = {"speed": speed, "observations": seen, "timestep": state["timestep"] + 1}
        return after | {"rewards": rewards, "terminated": False}


def test_each_replica_has_its_own(backend: str) -> None:
    env = EnvWrapper(Carts(), 7, backend, seed=4)
    seen, rewards, *_ = env.step(np.ones((7, 2, 1), np.float32))
    masses = seen[:, 0, 1].cpu().numpy()
    assert len(set(masses.tolist())) == 7 and masses.min() >= 0.5 and masses.max() <= 2
    np.testing.assert_allclose(seen[:, :, 0].cpu().numpy(), np.repeat(1 / masses[:, None], 2, axis=1), rtol=1e-6)
    grips = [[1, 2], [3, 4], [5, 6], [1, 2], [3, 4], [5, 6], [1, 2]]  # rows are dealt in turns
    np.testing.assert_array_equal(rewards.cpu().numpy(), np.add(grips, [0.25, 0.5]))
    assert env.ctx["mass"].dtype == torch.float32 and env.ctx["grip"].dtype == torch.int32
    for _ in range(12):  # through ends of episodes
        env.step(np.ones((7, 2, 1), np.float32))
    np.testing.assert_array_equal(env.ctx["mass"].cpu().numpy(), masses)
    np.testing.assert_array_equal(env.state(3)["mass"], masses[3])


def test_what_a_replica_gets_does_not_depend_on_the_others(backend: str) -> None:
    whole = EnvWrapper(Carts(), 7, backend, seed=4)
    part = EnvWrapper(Carts(), 3, backend, seed=4, first_env=2)
    other = EnvWrapper(Carts(), 7, backend, seed=5)
    for name in ("mass", "grip"):
        assert torch.equal(whole.ctx[name][2:5], part.ctx[name])
    assert not torch.equal(whole.ctx["mass"], other.ctx["mass"])


def test_checks_give_the_reference_its_replicas_constants() -> None:
    wd.testing.check_environment(Carts(), steps=14, kernel_steps=7)  # longer than an episode


def test_nobody_writes_to_them(backend: str) -> None:
    environment = Carts()
    environment.step = push_and_wear
    with pytest.raises(wd.KernelError, match=r"'mass'.* a constant of the environment"):
        EnvWrapper(environment, 2, backend)
    environment.step = wear_by_another_name
    with pytest.raises(wd.KernelError, match=r"'grip', a constant of the environment"):
        EnvWrapper(environment, 2, "cpu")


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("grip", lambda: wd.PerReplica([]), r"PerReplica: found \[\], expected an array of one or more rows"),
        ("grip", lambda: wd.PerReplica([[1], [2, 3]]), r"found \[\[1\], \[2, 3\]\], whose rows have several shapes"),
        ("grip", lambda: wd.PerReplica(5), "PerReplica: found 5, expected an array"),
        ("grip", lambda: wd.PerReplica(lambda rng: np.zeros(rng.integers(1, 9))), "for one replica and float64 .* for"),
        ("grip", lambda: wd.PerReplica(lambda rng: "heavy"), "array 'grip' has dtype <U5"),
        ("grip", lambda: wd.PerReplica(lambda: 1.0), r"wd.PerReplica 'grip': TypeError: .* takes 0 positional"),
        ("rewards", lambda: wd.PerReplica(np.ones(3)), "attribute 'rewards' of Carts has the name of a reserved array"),
        ("speed", lambda: wd.PerReplica(np.ones(3)), "returned 'speed', which"),
    ],
)
def test_what_cannot_work(name: str, value: Any, told: str) -> None:
    with pytest.raises(wd.WarpDriveError, match=told):
        environment = Carts()
        setattr(environment, name, value())
        EnvWrapper(environment, 20, "cpu")


@pytest.mark.parametrize("values", [[7, 2**31], lambda rng: -(2**31) - 1])
def test_numbers_that_do_not_fit_into_int32_are_refused(values: Any) -> None:
    with pytest.raises(
        wd.WarpDriveError, match=r"attribute 'mass' of the environment is -?21474836\d\d, which does not"
    ):
        wd.PerReplica(values).rows("mass", seed=0, first_env=0, count=2)
    assert wd.PerReplica([2**31 - 1, -(2**31)]).rows("mass", 0, 0, 2).tolist() == [2**31 - 1, -(2**31)]


def test_a_plain_array_has_a_row_for_each_replica_or_more(backend: str) -> None:
    environment = Carts()
    environment.mass = np.linspace(1, 2, 5, dtype=np.float32)
    for replicas in (3, 5):
        seen, *_ = EnvWrapper(environment, replicas, backend).step(np.ones((replicas, 2, 1), np.float32))
        np.testing.assert_array_equal(seen[:, 0, 1].cpu().numpy(), environment.mass[:replicas])


def test_an_index_computed_from_the_replica_needs_no_row_for_each(python_backend: str) -> None:
    environment = Carts()
    environment.step = reward_by_parity
    _, rewards, *_ = EnvWrapper(environment, 5, python_backend).step(np.ones((5, 2, 1), np.float32))
    assert rewards[:, 0].tolist() == [0.25, 0.5, 0.25, 0.5, 0.25]


def test_a_plain_array_with_too_few_rows_is_refused(python_backend: str) -> None:
    """Reads would be out of bounds, as in evaluations with more replicas than in training."""
    environment = Carts()
    environment.mass = np.linspace(1, 2, 5, dtype=np.float32)
    with pytest.raises(
        wd.KernelError, match=r"reads a row of 'mass' for each replica, but it has 5 rows for 6"
    ) as told:
        EnvWrapper(environment, 6, python_backend)
    assert str(told.value).startswith(f"{__file__}:")
