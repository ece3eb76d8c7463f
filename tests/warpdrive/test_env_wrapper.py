"""Replicas of an environment: order within a step, ends of episodes, and reproducibility."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest
import torch
from games import Vanish
from gpu_code import GpuCode
from gymnasium import spaces
from numba import cuda
from torch.multiprocessing.reductions import StorageWeakRef

import warpdrive as wd
from warpdrive.backends.host import workers
from warpdrive.backends.loading import usable_backends
from warpdrive.env_wrapper import EnvWrapper
from warpdrive.errors import ActionError, DefinitionError


class Reference:
    """The small environment of the tests in plain Python, with the library's part of a step, one replica."""

    def __init__(self, start: np.ndarray, ring_length: int, episode_length: int, bonus: float) -> None:
        self.start, self.ring_length, self.episode_length, self.bonus = start, ring_length, episode_length, bonus
        self.restart()

    def restart(self) -> None:
        self.position, self.visits = self.start.copy(), np.zeros(3, int)
        self.active, self.timestep, self.total = np.ones(3, bool), 0, np.zeros(3)

    def observe(self) -> np.ndarray:
        return np.array([[*(self.position / self.ring_length), self.timestep]] * 3, np.float32)

    def step(self, actions: np.ndarray) -> dict[str, Any]:
        self.timestep += 1
        self.position = (self.position + actions - 1) % self.ring_length
        self.visits += 1
        rewards = self.position + self.bonus
        self.active &= self.position != 0
        self.total += rewards
        terminated = bool(self.position[0] == self.position[1])
        truncated = self.timestep >= self.episode_length
        result = {"rewards": rewards, "terminated": terminated, "truncated": truncated, "final": None}
        if terminated or truncated:
            result |= {"final": self.observe(), "return": self.total, "length": self.timestep}
            self.restart()
        return result | {"observations": self.observe(), "visits": self.visits.copy(), "active": self.active.copy()}


@pytest.mark.parametrize("backend", usable_backends())
def test_steps_agree_with_a_reference(walkers: Callable[..., Any], random_actions: Any, backend: str) -> None:
    env = EnvWrapper(walkers(), num_envs=20, env_backend=backend, seed=3)
    observations = env.reset()
    starts = env.ctx["position"].cpu().numpy().copy()
    assert (starts == starts[0]).all()  # a pool of one: every replica starts the same way
    references = [Reference(starts[0], 7, 5, 0.5) for _ in range(20)]
    np.testing.assert_array_equal(observations.cpu().numpy(), [reference.observe() for reference in references])
    rng = np.random.default_rng(0)
    seen = {"terminated": 0, "truncated": 0}
    for _ in range(40):
        actions = random_actions(rng, 20)
        observations, rewards, terminated, truncated, info = env.step(actions)
        for i, reference in enumerate(references):
            expected = reference.step(actions[i])
            np.testing.assert_array_equal(observations[i].cpu().numpy(), expected["observations"])
            np.testing.assert_array_equal(rewards[i].cpu().numpy(), expected["rewards"])
            np.testing.assert_array_equal(env.ctx["active"][i].cpu().numpy(), expected["active"])
            np.testing.assert_array_equal(env.ctx["visits"][i].cpu().numpy(), expected["visits"])
            assert (bool(terminated[i]), bool(truncated[i])) == (expected["terminated"], expected["truncated"])
            if expected["final"] is not None:
                np.testing.assert_array_equal(info["final_observations"][i].cpu().numpy(), expected["final"])
                np.testing.assert_allclose(info["episode_return"][i].cpu().numpy(), expected["return"])
                assert int(info["episode_length"][i]) == expected["length"]
            seen["terminated"] += expected["terminated"]
            seen["truncated"] += expected["truncated"]
    assert min(seen.values()) > 20


def test_steps_without_actions_are_steps_with_random_ones(walkers: Callable[..., Any], backend: str) -> None:
    env, given, part = (
        EnvWrapper(walkers(), num_envs, backend, seed=3, first_env=first)
        for num_envs, first in ((4000, 0), (4000, 0), (50, 1000))
    )
    counts = np.zeros((3, 3))
    for _ in range(7):
        observations, rewards, terminated, truncated, _ = env.step()
        same = given.step(env.ctx["actions"].clone())
        assert all(map(torch.equal, (observations, rewards, terminated, truncated), same))
        part.step()
        assert torch.equal(env.ctx["actions"][1000:1050], part.ctx["actions"])  # a replica's own stream
        for agent in range(3):
            counts[agent] += np.bincount(env.ctx["actions"][:, agent].cpu().numpy(), minlength=3)
    # 5 standard deviations of 28,000 draws: exceeded by chance with probability below 9 * 6e-7
    np.testing.assert_allclose(counts, 28_000 / 3, atol=5 * np.sqrt(28_000 * 2 / 9))


def test_nothing_can_be_done_after_close(walkers: Callable[..., Any]) -> None:
    env = EnvWrapper(walkers(), num_envs=10, env_backend="cpu")
    rollout = env.allocate_rollout(2)
    env.step(None)
    env.close()
    for use in (env.step, env.reset, lambda: env.step_rollout(rollout), lambda: env.ctx["rewards"]):
        with pytest.raises(DefinitionError, match="was closed, which freed its arrays: create another one"):
            use()


@pytest.mark.parametrize("backend", usable_backends())
def test_close_frees_the_memory(walkers: Callable[..., Any], backend: str) -> None:
    env = EnvWrapper(walkers(), 4, backend)
    env.step()
    env.reset(where=torch.zeros(4, dtype=torch.bool))
    env.record()
    storage = StorageWeakRef(env.ctx["rewards"].untyped_storage())
    env.close()
    gc.collect()
    assert storage.expired()


@pytest.mark.parametrize("where", [[True, False], np.ones(4, bool), torch.ones(4), torch.ones(3, dtype=torch.bool)])
def test_an_invalid_selection_resets_and_reseeds_nothing(walkers: Callable[..., Any], backend: str, where: Any) -> None:
    env = EnvWrapper(walkers(), 4, backend)
    before = env.ctx.save_state()
    with pytest.raises(DefinitionError, match=r"where is .*, expected a bool tensor \(4,\)"):
        env.reset(seed=7, where=where)
    assert env.seed == 0 and torch.equal(env.ctx.save_state(), before)


def test_parameters_belong_to_names(walkers: Callable[..., Any]) -> None:
    with pytest.raises(DefinitionError, match="env_config is for env_name"):
        EnvWrapper(walkers(), env_config={"length": 3})


def test_without_auto_reset_an_episode_goes_on(walkers: Callable[..., Any], backend: str) -> None:
    env = EnvWrapper(walkers(episode_length=2), num_envs=1, env_backend=backend, auto_reset=False)
    for expected in (False, True, True):
        _, _, _, truncated, _ = env.step(np.ones((1, 3), np.int32))
        assert bool(truncated[0]) is expected
    assert int(env.ctx["timestep"][0]) == 3


def trajectory(env: EnvWrapper, num_steps: int, rows: int) -> list[torch.Tensor]:
    rollout = env.allocate_rollout(num_steps)
    for _ in range(num_steps):
        env.step_rollout(rollout)
    tensors = [rollout.observations, rollout.actions, rollout.log_probabilities, rollout.rewards, rollout.terminated]
    return [tensor[:, :rows].clone() for tensor in tensors]  # type: ignore[union-attr]


def test_replicas_do_not_depend_on_how_many_there_are(walkers: Callable[..., Any], backend: str) -> None:
    few = trajectory(EnvWrapper(walkers(), 10, backend, seed=5, reset_pool_size=9), 30, 10)
    many = trajectory(EnvWrapper(walkers(), 1000, backend, seed=5, reset_pool_size=9), 30, 10)
    for left, right in zip(few, many, strict=True):
        assert torch.equal(left, right)


@pytest.mark.parametrize("backend", usable_backends())
def test_replicas_do_not_depend_on_how_they_are_split(walkers: Callable[..., Any], backend: str) -> None:
    whole = trajectory(EnvWrapper(walkers(), 6, backend, seed=5, reset_pool_size=9), 20, 6)
    part = trajectory(EnvWrapper(walkers(), 2, backend, seed=5, reset_pool_size=9, first_env=4), 20, 2)
    for left, right in zip(whole, part, strict=True):
        assert torch.equal(left[:, 4:], right)


def test_results_do_not_depend_on_the_number_of_cores(walkers: Callable[..., Any], backend: str) -> None:
    available = workers.get_num_threads()
    try:
        results = []
        for cores in {1, available}:
            workers.set_num_threads(cores)
            results.append(trajectory(EnvWrapper(walkers(), 37, backend, seed=1, reset_pool_size=9), 20, 37))
    finally:
        workers.set_num_threads(available)
    for left, right in zip(results[0], results[-1], strict=True):
        assert torch.equal(left, right)


def test_another_seed_gives_other_results(walkers: Callable[..., Any], backend: str) -> None:
    first, second = (
        trajectory(EnvWrapper(walkers(), 10, backend, seed=seed, reset_pool_size=9), 20, 10)[1] for seed in (1, 2)
    )
    assert not torch.equal(first, second)


def test_a_pool_that_nobody_sized_is_large_where_start_states_differ(
    walkers: Callable[..., Any], backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Walkers draw their positions; the first two alike mean that all are, and large states are fewer."""
    drawn = EnvWrapper(walkers(), 10, backend, seed=1, reset_pool_size=None)
    same = EnvWrapper(walkers(), 10, backend, seed=1, reset_pool_size=500)
    assert drawn.reset_pool_size == 500 and torch.equal(drawn.ctx["pool.position"], same.ctx["pool.position"])
    assert torch.equal(drawn.reset(), same.reset())
    monkeypatch.setattr("warpdrive.fused_step.replica_arrays._MAX_BYTES_OF_STARTS", 5000)
    assert 2 <= EnvWrapper(walkers(), 10, backend, reset_pool_size=None).reset_pool_size <= 25
    env, start = walkers(), walkers().initial_state(np.random.default_rng(0))
    env.initial_state = lambda rng: start
    assert EnvWrapper(env, 10, backend, reset_pool_size=None).reset_pool_size == 1


def test_start_states_of_a_pool_are_all_used_and_kept_whole(walkers: Callable[..., Any], backend: str) -> None:
    """Each of 9 start states is missed by 2000 draws with probability (8/9)**2000 < 1e-102."""
    env = EnvWrapper(walkers(), 2000, backend, reset_pool_size=9)
    env.reset()
    pool = {tuple(row) for row in env.ctx["pool.position"].cpu().numpy()}
    assert {tuple(row) for row in env.ctx["position"].cpu().numpy()} == pool


def test_two_environments_in_one_process_keep_their_own_kernels(walkers: Callable[..., Any], backend: str) -> None:
    short = EnvWrapper(walkers(), 2, backend)
    long = EnvWrapper(walkers(ring_length=50, bonus=0.0), 2, backend)
    for env, bonus in ((short, 0.5), (long, 0.0), (short, 0.5)):
        _, rewards, *_ = env.step(np.ones((2, 3), np.int32))
        np.testing.assert_array_equal(rewards.cpu().numpy(), env.ctx["position"].cpu().numpy() + bonus)


@pytest.mark.parametrize("backend", usable_backends())
def test_saved_simulations_go_on_as_they_were(walkers: Callable[..., Any], random_actions: Any, backend: str) -> None:
    env = EnvWrapper(walkers(), 8, backend, seed=2, reset_pool_size=9)
    rng = np.random.default_rng(1)
    actions = [random_actions(rng, 8) for _ in range(20)]
    for action in actions[:7]:
        env.step(action)
    state = env.ctx.save_state()
    first = [env.step(action)[0].clone() for action in actions[7:]]
    env.ctx.load_state(state)
    second = [env.step(action)[0].clone() for action in actions[7:]]
    assert all(torch.equal(left, right) for left, right in zip(first, second, strict=True))


@wd.kernel
def random_start(position, rng, ring_length):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    position[env, agent] = wd.random.integer(rng, env, agent, ring_length)


@pytest.mark.parametrize("backend", usable_backends())
def test_a_reset_kernel_draws_starts_on_the_device(walkers: Callable[..., Any], backend: str) -> None:
    """Fixed seed; a share of 3000 draws is over 6 standard deviations off with p < 1e-8."""
    environment = walkers()
    environment.reset = random_start
    env = EnvWrapper(environment, 1000, backend)
    position = env.ctx["position"].cpu().numpy()
    shares = np.bincount(position.ravel(), minlength=7) / position.size
    assert np.abs(shares - 1 / 7).max() < 6 * np.sqrt(1 / 7 * 6 / 7 / position.size)
    np.testing.assert_array_equal(
        env.ctx["observations"].cpu().numpy()[:, 0, :3], position.astype(np.float32) / np.float32(7)
    )
    before = position.copy()
    env.reset()
    assert (before != env.ctx["position"].cpu().numpy()).any()


@pytest.mark.parametrize("backend", usable_backends())
def test_statistics_add_up(walkers: Callable[..., Any], random_actions: Any, backend: str) -> None:
    env = EnvWrapper(walkers(), 16, backend)
    rng = np.random.default_rng(4)
    episodes, terminations, lengths, returns = 0, 0, 0, np.zeros(3)
    for _ in range(30):
        _, _, terminated, truncated, info = env.step(random_actions(rng, 16))
        done = (terminated | truncated).cpu().numpy()
        episodes += int(done.sum())
        terminations += int(terminated.sum())
        lengths += int(info["episode_length"].cpu().numpy()[done].sum())
        returns += info["episode_return"].cpu().numpy()[done].sum(axis=0)
    statistics = env.episode_statistics()
    assert (int(statistics["episodes"]), int(statistics["terminated"])) == (episodes, terminations)
    assert int(statistics["length"]) == lengths
    np.testing.assert_allclose(statistics["return"].cpu().numpy(), returns, rtol=1e-5)
    assert int(env.episode_statistics()["episodes"]) == 0
    env.reset()
    env.ctx["episode.running_return"][0, 0] = -torch.inf
    for _ in range(5):
        env.step(np.ones((16, 3), np.int32))
    statistics = env.episode_statistics()
    assert (int(statistics["episodes"]), int(statistics["length"])) == (16, 16 * 5)
    assert torch.isneginf(statistics["return"]).tolist() == [True, False, False]


@pytest.mark.parametrize("mode", ["SameStep", "NextStep", "Disabled"])
def test_returns_leave_out_nan_of_agents_out_of_the_episode(python_backend: str, mode: str) -> None:
    env = EnvWrapper(Vanish(), 4, python_backend)
    envs = wd.to_gymnasium(env, autoreset_mode=mode)
    envs.reset()
    for _ in range(6):
        assert np.isfinite(envs.step(envs.action_space.sample())[1]).all()
    assert env.ctx["episode.last_return"].tolist() == [[2.0, 3.0, 4.0]] * 4


@pytest.mark.parametrize(
    ("name", "hint"), [("num_env", r"Did you mean 'num_envs'\?"), ("walls", "Parameters of the environment are ")]
)
def test_an_unknown_argument_gets_the_nearest_one(walkers: Callable[..., Any], name: str, hint: str) -> None:
    with pytest.raises(TypeError, match=f"EnvWrapper: unexpected keyword argument '{name}'. {hint}"):
        EnvWrapper(walkers(), **{name: 8})


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (np.zeros((4, 2), np.int32), r"actions has the shape \(4, 2\), expected \(4, 3\)"),
        (np.zeros((4, 3), np.float32), "actions has the dtype torch.float32, expected integers"),
        (np.full((4, 3), 3, np.int32), "actions has the value 3, expected 0 to 2"),
        (np.full((4, 3), -1, np.int32), "actions has the value -1, expected 0 to 2"),
        ([[0, 0, 0]] * 4, "actions is a list"),
        (np.full((4, 3), None), "actions has the dtype object, expected integers"),
        ({"odd": 1}, "actions is a dict"),
        (1, "actions is an int"),
    ],
)
def test_bad_actions_are_refused(walkers: Callable[..., Any], backend: str, actions: Any, message: str) -> None:
    env = EnvWrapper(walkers(), 4, backend)
    with pytest.raises(ActionError, match=message):
        env.step(actions)
    env.step(np.ones((4, 3), np.int64))  # and the environment goes on


@wd.kernel
def step_by_tag(level, actions_pusher, actions_turner, observations_pusher, observations_turner, rewards):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    if agent < 2:
        level[env, agent] += actions_pusher[env, agent]
        observations_pusher[env, agent, 0] = level[env, agent]
    else:
        level[env, agent] += 10 * actions_turner[env, agent - 2, 0] + actions_turner[env, agent - 2, 1]
        for k in range(3):
            observations_turner[env, agent - 2, k] = level[env, k]
    rewards[env, agent] = level[env, agent]


class ByTag(wd.Environment):
    """Two tags with observation and action spaces of their own."""

    name = "2048 by-tag.v1"  # any characters
    step = step_by_tag
    cuda_twins = {"step_by_tag": wd.cuda_kernel("twins/by_tag.cu", "step_by_tag")}  # noqa: RUF012
    num_agents, episode_length = 3, 100

    def __init__(self) -> None:
        self.policy_tags = {"pusher": [0, 1], "turner": [2]}
        self.observation_space = {
            "pusher": spaces.Box(-np.inf, np.inf, (1,), np.float32),
            "turner": spaces.Box(-np.inf, np.inf, (3,), np.float32),
        }
        self.action_space = {"pusher": spaces.Discrete(4), "turner": spaces.MultiDiscrete([3, 2])}

    def initial_state(self, rng: np.random.Generator) -> dict[str, Any]:
        return {"level": np.zeros(3, np.int32)}


@pytest.mark.parametrize("backend", usable_backends())
def test_tags_may_have_spaces_of_their_own(backend: str) -> None:
    env = EnvWrapper(ByTag(), 2, backend)
    actions = {"pusher": np.array([[1, 2], [3, 0]], np.int32), "turner": np.array([[[2, 1]], [[0, 1]]], np.int32)}
    observations, rewards, *_ = env.step(actions)
    np.testing.assert_array_equal(rewards.cpu().numpy(), [[1, 2, 21], [3, 0, 1]])
    np.testing.assert_array_equal(observations["pusher"].cpu().numpy(), [[[1], [2]], [[3], [0]]])
    with pytest.raises(ActionError, match=r"'turnr', which does not exist. Did you mean 'turner'"):
        env.step({"pusher": actions["pusher"], "turnr": actions["turner"]})
    with pytest.raises(ActionError, match="actions_turner has the value 2 in component 1, expected 0 to 1"):
        env.step(actions | {"turner": np.full((2, 1, 2), 2, np.int32)})
    drawn = {"pusher": set(), "turner": set()}
    rollout = env.allocate_rollout(200)
    for _ in range(200):  # a pair is missed with probability below 22 * (15/16)**400, 2e-10
        env.step_rollout(rollout)
        drawn["pusher"] |= {tuple(pair) for pair in env.actions("pusher").tolist()}
        drawn["turner"] |= {tuple(pair) for (pair,) in env.actions("turner").tolist()}
    assert drawn["pusher"] == set(itertools.product(range(4), range(4)))
    assert drawn["turner"] == set(itertools.product(range(3), range(2)))
    assert rollout.of("observations", "turner").shape == (201, 2, 1, 3)
    assert torch.equal(env.observations("turner"), rollout.of("observations", "turner")[200])
    assert rollout.of("actions", "turner").shape == (200, 2, 1, 2)
    assert rollout.of("rewards", "turner").shape == (200, 2, 1)
    for tag in env.policy_tags:  # choices are not clipped
        assert torch.equal(env.actions(tag, drawn=True), env.actions(tag))


def test_options_of_a_box_are_refused_for_other_actions(walkers: Callable[..., Any]) -> None:
    env = EnvWrapper(walkers())
    for name in ("squash", "normalize"):
        with pytest.raises(DefinitionError, match=f"{name}: the actions of 'odd' are Discrete.3., expected a Box"):
            getattr(env, name)("odd")
        with pytest.raises(DefinitionError, match=r"unknown policy tag 'od'.* Did you mean 'odd'"):
            getattr(env, name)("od")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_agents": 0}, "num_agents is 0, expected a positive integer"),
        ({"episode_length": 2.5}, "episode_length is 2.5, expected a positive integer"),
        ({"episode_length": 1 << 31}, "episode_length is 2147483648, expected a positive integer"),
        ({"name": 5}, "name is 5, expected a string"),
        ({"policy_tags": [0, 1, 2]}, r"policy_tags is \[0, 1, 2\], expected a dict"),
        ({"policy_tags": {"all": 3}}, "policy tag 'all' is 3, expected a list of agent ids"),
        ({"policy_tags": {"all": "012"}}, "policy tag 'all' is '012', expected a list of agent ids"),
        ({"policy_tags": {"all": [0.0, 1.0, 2.0]}}, r"policy tag 'all' is \[0.0, 1.0, 2.0\], expected a list"),
        ({"policy_tags": {"odd": [0, 2]}}, "agent 1 is missing"),
        ({"policy_tags": {"odd": [0, 1, 2], "even": [1]}}, "agent 1 has two policy tags, 'odd' and 'even'"),
        ({"policy_tags": {"odd": [0, 1, 2, 3]}}, "agent 3 does not exist"),
        ({"observe": print}, "expected a function marked with @wd.kernel"),
        ({"action_space": spaces.Text(3)}, "expected a Box, Discrete or MultiDiscrete"),
        ({"action_space": spaces.MultiDiscrete([[2, 3], [2, 3]])}, "expected a space with one axis"),
        ({"action_space": spaces.Box(-1, 1, (2,), np.float64)}, "a Box of actions must be float32"),
        (
            {"action_space": spaces.Box(0, np.array([1, 0]), dtype=np.float32)},
            "its bounds must differ in every component",
        ),
        ({"action_space": {"odd": spaces.Discrete(3)}}, r"action_space has the tags \['odd'\]"),
        (
            {"bonus": "high"},
            "parameter 'bonus' of kernel function 'walk' is the attribute 'high' of Walkers, expected an int, a float",
        ),
        (
            {
                "policy_tags": {"odd": [1], "even": [0, 2]},
                "action_space": spaces.Dict(odd=spaces.Discrete(3), even=spaces.Discrete(3)),
            },
            "action_space is a Dict space whose keys are the policy tags, expected a plain dict",
        ),
        ({"bonus": 1 << 40}, "does not fit into int32"),
        ({"bonus": 1e300}, r"'bonus' of the environment is 1e\+300, which does not fit into float32"),
        ({"global_state": "position"}, "global_state is 'position', expected a list of names of arrays, each once"),
        ({"global_state": ["visits"] * 2}, "expected a list of names of arrays, each once"),
        ({"global_state": ["positions"]}, r"has the name 'positions', expected one of .* Did you mean 'position'\?"),
    ],
)
def test_definitions_that_cannot_work(
    walkers: Callable[..., Any], backend: str, change: dict[str, Any], message: str
) -> None:
    environment = walkers()
    for name, value in change.items():
        setattr(environment, name, value)
    with pytest.raises(wd.WarpDriveError, match=message):
        EnvWrapper(environment, 2, backend).step(np.ones((2, 3), np.int32))


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"position": np.zeros(3, "U2")}, "array 'position' of initial_state of Walkers has dtype <U2"),
        ({5: np.zeros(3)}, "returned an array named 5, which is not a valid name of a parameter"),
        ({"rewards": np.zeros(3, np.float32)}, "returned 'rewards', which is reserved for the library"),
        ({"final_observations": np.zeros(3)}, "returned 'final_observations', which is reserved for the library"),
        ({"num_envs": np.zeros(3)}, "returned 'num_envs', which is reserved for the library"),
        ({"on_gpu": np.zeros(3)}, "returned 'on_gpu', which is reserved for the library"),
        ({"active": np.zeros(2, bool)}, r"array 'active' is bool \(2,\), expected bool \(3,\)"),
        ({"observations": np.zeros((3, 4))}, r"'observations' is float64 \(3, 4\), expected float32 \(3, 4\)"),
    ],
)
def test_start_states_that_cannot_work(
    walkers: Callable[..., Any], backend: str, state: dict[str, Any], message: str
) -> None:
    environment = walkers()
    start = environment.initial_state(np.random.default_rng(0))
    environment.initial_state = lambda rng: start | state
    with pytest.raises(DefinitionError, match=message):
        EnvWrapper(environment, 2, backend)


@wd.kernel
def assigns_to_constant(position, actions, rewards, table):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    table[agent] = position[env, agent]


@wd.kernel
def adds_to_constant(position, actions, rewards, table):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    cuda.atomic.add(table, agent, position[env, agent])


@wd.kernel
def misnames_a_parameter(positon, actions, rewards):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    positon[env, agent] = 0


@pytest.mark.parametrize(
    ("kernel", "line", "message"),
    [
        (assigns_to_constant, 3, "assigns to 'table', a constant of the environment"),
        (adds_to_constant, 3, "assigns to 'table', a constant of the environment"),
        (misnames_a_parameter, 1, "parameter 'positon' of kernel function .* Did you mean 'position'"),
    ],
)
def test_kernel_functions_that_cannot_be_bound(
    walkers: Callable[..., Any], python_backend: str, kernel: wd.Kernel, line: int, message: str
) -> None:
    environment = walkers()
    environment.step = kernel
    with pytest.raises(wd.KernelError, match=message) as caught:
        EnvWrapper(environment, 2, python_backend)
    place = f"{__file__}:{kernel.source.tree.lineno + line - 1}"
    assert str(caught.value).startswith(place)


@wd.kernel
def pay_on_gpus(rewards, on_gpu):
    rewards[cuda.blockIdx.x, cuda.threadIdx.x] = 2 if on_gpu else 1


def test_kernels_are_told_whether_they_run_on_a_gpu(walkers: Callable[..., Any], python_backend: str) -> None:
    """The code for GPUs, which also runs on the host here, has the constant compiled in."""
    environment = walkers()
    environment.step = pay_on_gpus
    for backend in (python_backend, GpuCode()):
        env = EnvWrapper(environment, 2, backend)
        is_gpu = backend != python_backend or env.device.type == "cuda"
        assert (env.step()[1] == 1 + is_gpu).all()


@wd.kernel
def pay_cuda(rewards, cuda):
    rewards[numba.cuda.blockIdx.x, numba.cuda.threadIdx.x] = cuda


@wd.kernel
def pay_rows(rewards, observations__rows):
    rewards[cuda.blockIdx.x, cuda.threadIdx.x] = observations__rows


def test_parameters_with_names_that_generated_code_uses(walkers: Callable[..., Any], python_backend: str) -> None:
    environment = walkers()
    environment.step, environment.cuda, environment.observations__rows = pay_cuda, 3, 4
    assert (EnvWrapper(environment, 2, python_backend).step(np.ones((2, 3), np.int32))[1] == 3).all()
    environment.step = pay_rows
    told = "'observations__rows' is the name of an array of the library, and of a parameter"
    with pytest.raises(wd.KernelError, match=told):
        EnvWrapper(environment, 2, python_backend).step(np.ones((2, 3), np.int32))


def test_numbers_that_cannot_work(walkers: Callable[..., Any]) -> None:
    for name in ("num_envs", "reset_pool_size"):
        with pytest.raises(DefinitionError, match=f"{name} is 0, expected an integer from 1 to"):
            EnvWrapper(walkers(), **{name: 0})
    for seed in (-1, 1.5, None, 1 << 64):
        with pytest.raises(DefinitionError, match=f"seed is {seed}, expected an integer from 0 to 2"):
            EnvWrapper(walkers(), seed=seed)
    with pytest.raises(DefinitionError, match="first_env is -1, expected an integer from 0"):
        EnvWrapper(walkers(), first_env=-1)
    with pytest.raises(wd.WarpDriveError, match=r"env_backend is 'cqu'.* Did you mean 'cpu'"):
        EnvWrapper(walkers(), env_backend="cqu")
    with pytest.raises(DefinitionError, match="replica 1 does not exist"):
        EnvWrapper(walkers()).state(1)
