"""Environments as Gymnasium's: conformance checks of Gymnasium, its own vectorisation as reference, its wrappers."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import vector as wrappers
from numba import cuda
from sound_environments import Bandit

import warpdrive as wd
from warpdrive import actions, registry
from warpdrive.errors import ActionError, DefinitionError
from warpdrive.interop.gymnasium import GymnasiumEnv
from warpdrive.offered import offered_environments

CARTPOLE = {"env_backend": "cpu", "env_config": {"episode_length": 12}}
MODES = list(AutoresetMode)


def cartpoles(num_envs=4, **options):
    return wd.to_gymnasium("cartpole", num_envs, **{**CARTPOLE, **options})


@pytest.mark.parametrize("mode", MODES)
def test_steps_are_those_of_gymnasiums_vectorization_of_single_replicas(mode):
    ours = cartpoles(4, autoreset_mode=mode)
    singles = [partial(GymnasiumEnv, "cartpole", first_env=index, **CARTPOLE) for index in range(4)]
    theirs = SyncVectorEnv(singles, autoreset_mode=mode)
    results = [ours.reset(seed=5), theirs.reset(seed=[5] * 4)]
    ours.action_space.seed(0)
    for _ in range(40):
        assert data_equivalence(results[0][0], results[1][0], exact=True)
        actions = ours.action_space.sample()
        results = [ours.step(actions), theirs.step(actions)]
        for one, other in zip(results[0][1:4], results[1][1:4], strict=True):
            assert np.array_equal(one, other)
        done = results[0][2] | results[0][3]
        if mode is AutoresetMode.SAME_STEP:
            assert ("final_obs" in results[0][4]) == done.any()
            for key in ("final_obs", "_final_obs", "_final_info") if done.any() else ():
                assert data_equivalence(results[0][4][key], results[1][4][key], exact=True)
        if mode is AutoresetMode.DISABLED and done.any():
            results = [envs.reset(options={"reset_mask": done.copy()}) for envs in (ours, theirs)]
    assert ours.metadata["autoreset_mode"] is mode


def test_disabled_autoreset_leaves_ended_replicas_as_they_are():
    envs = cartpoles(2, autoreset_mode="Disabled")
    first, _ = envs.reset(seed=0)
    for _ in range(12):
        last, _, terminated, truncated, _ = envs.step(np.array([1, 1]))
    again, rewards, *flags, _ = envs.step(np.array([1, 1]))
    assert (terminated | truncated).all()
    assert np.array_equal(last, again)
    assert not rewards.any()
    assert np.array_equal(flags, [terminated, truncated])
    reset, _ = envs.reset(options={"reset_mask": np.array([True, False])})
    assert np.array_equal(reset[1], last[1])
    assert not np.array_equal(reset[0], last[0])
    assert not np.array_equal(reset[0], first[0])  # the random stream continues


def test_seeds():
    one, other = cartpoles(seed=7), cartpoles()
    assert np.array_equal(one.reset()[0], other.reset(seed=7)[0])  # as if created with the seed
    assert np.array_equal(one.reset()[0], other.reset()[0])
    assert other.np_random_seed == 7
    assert not np.array_equal(one.reset(seed=1)[0], one.reset(seed=2)[0])
    assert not np.array_equal(cartpoles().reset()[0], cartpoles().reset()[0])  # no seed


def test_single_environments_conform():
    env = gymnasium.make("warpdrive/CartPole-v1", env_backend="cpu")
    check_env(env.unwrapped)
    env.reset(seed=0)
    while not any(env.step(1)[2:4]):
        pass
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(1)


def test_ids_are_registered_whichever_is_imported_first():
    for program, env_id in (
        ("import warpdrive; import gymnasium", "warpdrive/CartPole-v1"),
        ("import gymnasium, warpdrive", "warpdrive/CartPole-v1"),
        ("import gymnasium", "warpdrive:warpdrive/CartPole-v1"),  # imports the module before the colon
    ):
        find = f"{program}; print(gymnasium.envs.registration._find_spec('{env_id}').vector_entry_point)"
        found = subprocess.run([sys.executable, "-c", find], capture_output=True, text=True).stdout
        assert found == "warpdrive.interop.gymnasium_ids:make_vec\n"
    envs = gymnasium.make_vec("warpdrive/CartPole-v1", num_envs=3, env_backend="cpu", gravity=5.0)
    assert envs.num_envs == 3
    assert envs.replicas.env.gravity == 5.0
    assert gymnasium.make_vec(envs.spec).replicas.env.gravity == 5.0


def test_every_environment_has_an_id():
    ids = {spec.kwargs["env_name"] for spec in gymnasium.registry.values() if spec.namespace == "warpdrive"}
    assert set(offered_environments()) <= ids
    spec = gymnasium.spec("warpdrive/CartPole-v1")
    assert gymnasium.envs.registration.EnvSpec.from_json(spec.to_json()) == spec


def test_registered_environments_get_an_id(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))
    wd.register("own_bandit", Bandit)
    wd.register("heavy_cartpole", "warpdrive.envs.cartpole:CartPole")  # whose class has an id
    assert gymnasium.make_vec("warpdrive/Bandit-v1", num_envs=2, env_backend="cpu").replicas.env_name == "own_bandit"
    envs = gymnasium.make_vec("warpdrive/heavy_cartpole-v1", num_envs=2, env_backend="cpu", cart_mass=5.0)
    assert envs.replicas.env.cart_mass == 5.0


def test_all_agents_of_a_tag_are_rows():
    env = wd.EnvWrapper(env_name="tag_gridworld", num_envs=3, env_backend="cpu", seed=1)
    twin = wd.EnvWrapper(env_name="tag_gridworld", num_envs=3, env_backend="cpu", seed=1)
    taggers, runner = env.policy_tags["tagger"], env.policy_tags["runner"]
    seen = []
    envs = wd.to_gymnasium(
        env, tag="tagger", others={"runner": lambda obs: seen.append(obs.shape) or torch.full((3,), 2)}
    )
    assert envs.num_envs == 3 * len(taggers)
    observations, _ = envs.reset()
    assert observations in envs.observation_space
    every = torch.zeros(3, env.num_agents, dtype=torch.int32)
    rng = np.random.default_rng(0)
    for _ in range(5):
        actions = rng.integers(0, 5, envs.num_envs)
        every[:, taggers], every[:, runner] = torch.from_numpy(actions).int().view(3, -1), 2
        observations, rewards, *_ = envs.step(actions)
        expected = twin.step(every)
        assert np.array_equal(observations, expected[0][:, taggers].flatten(0, 1).numpy())
        assert np.array_equal(rewards, expected[1][:, taggers].flatten().numpy())
    assert set(seen) == {torch.Size([3, *env.observation_spaces["runner"].shape])}


@wd.kernel
def push(place, actions_pilot, actions_crew, action_mask, rewards):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    if agent == 0:
        place[env, 0] += actions_pilot[env, 0, 0]
    else:
        action_mask[env, agent, 0] = False
        place[env, agent] += actions_crew[env, agent - 1]
    rewards[env, agent] = place[env, agent]


class Ship(wd.Environment):
    """Tags whose actions differ in shape and dtype, and of which those of one are masked."""

    name, step = "ship", push
    num_agents, episode_length, policy_tags = 3, 9, {"pilot": [0], "crew": [1, 2]}
    observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = {"pilot": spaces.Box(-1.0, 1.0, (2,), np.float32), "crew": spaces.Discrete(3)}  # noqa: RUF012

    def initial_state(self, rng):
        return {"place": np.zeros(3, np.float32), "observations": np.zeros((3, 1), np.float32)}


@pytest.mark.parametrize(
    ("tag", "given", "other", "others", "expected"),
    [
        ("pilot", np.full((2, 2), 0.5, np.float32), "crew", [1, 2, 0, 1], [[0.5], [0.5]]),
        ("crew", np.array([2, 1, 0, 2]), "pilot", [[0.5, 0.0], [1.0, 0.0]], [[2, 1], [0, 2]]),
    ],
)
def test_tags_may_have_actions_of_different_shapes(tag, given, other, others, expected):
    envs = wd.to_gymnasium(Ship(), 2, tag=tag, others={other: lambda seen: torch.tensor(others)}, env_backend="cpu")
    envs.reset(seed=0)
    for number in (1, 2):
        _, rewards, *_, infos = envs.step(given)
        np.testing.assert_array_equal(rewards.reshape(2, -1), number * np.array(expected))
        assert ("action_mask" in infos) == (tag == "crew")


def test_agents_with_actions_in_a_box_have_no_mask_in_pettingzoo():
    pytest.importorskip("pettingzoo")
    env = wd.to_pettingzoo(Ship(), env_backend="cpu")
    env.reset(seed=0)
    *_, infos = env.step({"pilot_0": np.zeros(2, np.float32), "crew_0": 1, "crew_1": 2})
    assert infos["pilot_0"] == {} and infos["crew_1"]["action_mask"].tolist() == [0, 1, 1]


def test_separate_spaces_agents_and_masks():
    env = wd.EnvWrapper(env_name="simple_tag", num_envs=2, env_backend="cpu")
    with pytest.raises(DefinitionError, match="separate spaces: select some with tag"):
        wd.to_gymnasium(env)
    with pytest.raises(DefinitionError, match="agent is 99"):
        wd.to_gymnasium(env, agent=99)
    with pytest.raises(DefinitionError, match="Did you mean 'SameStep'"):
        wd.to_gymnasium(env, autoreset_mode="Samestep")
    last, runner = env.num_agents - 1, list(env.policy_tags)[-1]
    envs = wd.to_gymnasium(env, agent=last, output="torch")
    observations, _ = envs.reset(seed=0)
    assert observations.shape == (2, *env.observation_spaces[runner].shape)
    with pytest.raises(ActionError, match=r"shape \(3,\), expected \(2,\)"):
        envs.step(torch.zeros(3, dtype=torch.int64))
    envs.step(torch.tensor([3, 4]))
    assert env.actions(runner).flatten().tolist() == [3, 4]


def test_torch_outputs_stay_on_the_device(monkeypatch):
    monkeypatch.setattr(actions, "_check_range", lambda tensor, array: None)  # reads values, on the CPU only
    envs, arrays = cartpoles(64, output="torch", seed=0), cartpoles(64, seed=0)
    one, other = envs.reset(), arrays.reset()
    assert np.array_equal(one[0].numpy(), other[0])
    given = torch.randint(0, 2, (40, 64))
    envs.step(given[0])
    arrays.step(given[0].numpy())
    with wd.no_host_transfers():
        steps = [envs.step(row) for row in given[1:]]
    for row, step in zip(given[1:], steps, strict=True):  # copies: all still hold their values
        expected = arrays.step(row.numpy())
        for part, value in zip(step[:4], expected[:4], strict=True):
            assert np.array_equal(part.numpy(), value)
        for index in np.flatnonzero(expected[2] | expected[3]):
            assert np.array_equal(step[4]["final_obs"][index].numpy(), expected[4]["final_obs"][index])
    shared = cartpoles(8, output="torch", copy=False)
    observations, _ = shared.reset()
    assert observations.data_ptr() == shared.replicas.ctx["observations"].data_ptr()


NEXT_STEP, NOT_SAME_STEP = MODES[:1], [MODES[0], MODES[2]]  # the modes for which Gymnasium permits them
WRAPPERS = {
    "RecordEpisodeStatistics": ({}, MODES),
    "DictInfoToList": ({}, MODES),
    "NormalizeObservation": ({}, NEXT_STEP),
    "NormalizeReward": ({}, MODES),
    "FlattenObservation": ({}, NOT_SAME_STEP),
    "DtypeObservation": ({"dtype": np.float64}, NOT_SAME_STEP),
    "ReshapeObservation": ({"shape": (2, 2)}, NOT_SAME_STEP),
    "TransformObservation": ({"func": lambda observations: 0.5 * observations}, NEXT_STEP),
    "TransformAction": ({"func": lambda actions: 1 - actions}, MODES),
    "ClipReward": ({"min_reward": 0, "max_reward": 0.5}, MODES),
    "TransformReward": ({"func": lambda rewards: 2 * rewards}, MODES),
    "NumpyToTorch": ({}, NEXT_STEP),
}


@pytest.mark.parametrize("name", WRAPPERS)
def test_wrappers_of_gymnasium_work(name):
    if name == "NumpyToTorch":
        pytest.importorskip("array_api_compat")
    arguments, modes = WRAPPERS[name]
    for mode in modes:
        envs = getattr(wrappers, name)(cartpoles(3, autoreset_mode=mode), **arguments)
        envs.reset(seed=0)
        for _ in range(14):
            observations, rewards, terminated, truncated, infos = envs.step(envs.action_space.sample())
            done = np.logical_or(np.asarray(terminated), np.asarray(truncated))
            if name == "RecordEpisodeStatistics" and done.any():
                assert np.array_equal(infos["episode"]["r"], infos["episode"]["l"])  # the reward is 1 per step
                if mode is AutoresetMode.SAME_STEP:
                    own = infos["final_info"]["episode"]
                    assert np.array_equal(own["l"][done], infos["episode"]["l"][done])
            if mode is AutoresetMode.DISABLED and done.any():
                envs.reset(options={"reset_mask": done})
        assert isinstance(rewards, torch.Tensor if name == "NumpyToTorch" else np.ndarray)
        assert name == "NumpyToTorch" or observations in envs.observation_space


def test_videos_are_recorded(tmp_path):
    pytest.importorskip("moviepy")
    envs = cartpoles(2, render_mode="rgb_array", autoreset_mode="NextStep")
    envs = wrappers.RecordVideo(envs, str(tmp_path), step_trigger=lambda step: step == 0, video_length=3)
    envs.reset()
    for _ in range(4):
        envs.step(envs.action_space.sample())
    envs.close()
    assert list(tmp_path.glob("*.mp4"))


def test_frames():
    envs = cartpoles(2, render_mode="rgb_array")
    envs.reset(seed=0)
    first, second = envs.render()
    assert first.dtype == np.uint8
    assert first.shape == second.shape
    assert first.shape[2] == 3
    assert cartpoles(2).render() is None
