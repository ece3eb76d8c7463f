"""HostEnv: rollouts of other libraries' environments, compared with results that follow from the recorded actions."""

from __future__ import annotations

import functools
import gc

import gymnasium
import numpy as np
import pytest
import torch
from exhaustive import exhaustive
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from host_environments import Chain, Relay, make_chains
from torch.multiprocessing.reductions import StorageWeakRef

import warpdrive as wd
from warpdrive.errors import DefinitionError
from warpdrive.interop.host.space_conversion import ActionConversion, ObservationConversion

NUM_STEPS, NUM_ENVS = 23, 5

CHAINS = {
    "a class": (Chain, {}),
    "processes": (Chain, {"workers": 2}),
    "threads": (Chain, {"workers": 3, "worker_type": "thread"}),
    "reset in the next step": (make_chains, {}),
    "reset in the same step": (functools.partial(make_chains, mode=AutoresetMode.SAME_STEP), {}),
    "reset on request": (functools.partial(make_chains, mode=AutoresetMode.DISABLED), {}),
    "a vectorized environment": (make_chains(NUM_ENVS, AutoresetMode.SAME_STEP), {}),
}


def rollout_of(env, num_steps=NUM_STEPS):
    rollout = env.allocate_rollout(num_steps)
    for _ in range(num_steps):
        env.step_rollout(rollout)
    return rollout


@pytest.mark.parametrize(
    "kind", exhaustive(CHAINS, ("processes", "reset in the next step", "a vectorized environment"))
)
def test_rollouts_of_a_gymnasium_environment(kind):
    make, options = CHAINS[kind]
    env = wd.HostEnv(make, NUM_ENVS, env_backend="cpu", seed=3, **options)
    try:
        _check_chain(env, rollout_of(env), skips=kind == "reset in the next step")
    finally:
        env.close()


def _check_chain(env, rollout, skips):
    seen = rollout.observations[:, :, 0].numpy()
    actions, rewards = rollout.actions[:, :, 0].numpy() - 1, rollout.rewards[:, :, 0].numpy()
    length_sum, return_sum, episodes = 0, 0.0, 0
    for replica in range(NUM_ENVS):
        start, time, last, total, skip = seen[0, replica, 0], 0, 0, 0.0, False
        starts = [start]
        for t in range(NUM_STEPS):
            if skip:
                assert not rollout.active[t, replica, 0]
                assert rewards[t, replica] == 0
                start, time, last, total, skip = seen[t + 1, replica, 0], 0, 0, 0.0, False
                starts.append(start)
                continue
            np.testing.assert_array_equal(seen[t, replica], np.array([start, time, last], np.float32))
            if rollout.action_mask is not None:
                assert rollout.action_mask[t, replica, 0].tolist() == [True, time % 2 == 1, True]
                assert rollout.action_mask[t, replica, 0, rollout.actions[t, replica, 0]]
            time, last = time + 1, int(actions[t, replica])
            np.testing.assert_allclose(rewards[t, replica], start + 10 * time + last, rtol=1e-6)
            total += rewards[t, replica]
            ended = time >= 3 + start // 0.25
            assert rollout.terminated[t, replica] == (ended and last != 1)
            assert rollout.truncated[t, replica] == (ended and last == 1)
            if ended and last == 1:
                final = rollout.final_observations[rollout.final_slot[t, replica], replica, 0]
                np.testing.assert_array_equal(final.numpy(), np.array([start, time, last], np.float32))
            if ended:
                episodes, length_sum, return_sum = episodes + 1, length_sum + time, return_sum + total
                skip = skips
                if not skips:
                    start, time, last, total = seen[t + 1, replica, 0], 0, 0, 0.0
                    starts.append(start)
        assert len(set(starts)) == len(starts)
    statistics = env.episode_statistics()
    assert int(statistics["episodes"]) == episodes > NUM_ENVS
    assert int(statistics["length"]) == length_sum
    np.testing.assert_allclose(float(statistics["return"][0]), return_sum, rtol=1e-6)


def test_seeds_determine_rollouts_whatever_steps_the_replicas():
    def rewards(seed, **options):
        env = wd.HostEnv(Chain, NUM_ENVS, env_backend="cpu", seed=seed, **options)
        try:
            return rollout_of(env).rewards.clone()
        finally:
            env.close()

    first = rewards(3)
    assert torch.equal(first, rewards(3))
    assert torch.equal(first, rewards(3, workers=2))
    assert not torch.equal(first, rewards(4))
    whole = wd.HostEnv(Chain, 4, env_backend="cpu", seed=9)
    half = wd.HostEnv(Chain, 2, env_backend="cpu", seed=9, first_env=2)  # as the second of two processes
    assert torch.equal(whole.observations("agent")[2:], half.observations("agent"))
    assert torch.equal(whole.reset(seed=5), wd.HostEnv(Chain, 4, env_backend="cpu", seed=5).reset(seed=5))


def test_given_actions_partial_resets_and_restored_states():
    env = wd.HostEnv(Chain, 3, env_backend="cpu")
    before = env.observations("agent")[:, 0].clone()
    state = env.save_state()
    seen, rewards, terminated, _, _ = env.step(np.array([[0], [1], [2]]))
    assert seen[:, 0, 1].tolist() == [1, 1, 1]
    assert seen[:, 0, 2].tolist() == [-1, 0, 1]
    np.testing.assert_allclose(rewards[:, 0], before[:, 0].numpy() + 10 + [-1, 0, 1], rtol=1e-6)
    assert not terminated.any()
    env.reset(where=torch.tensor([False, True, False]))
    assert env.observations("agent")[:, 0, 1].tolist() == [1, 0, 1]
    assert env.ctx["timestep"].tolist() == [1, 0, 1]
    assert env.observations("agent")[1, 0, 0] != before[1, 0]
    env.load_state(state)  # of a new HostEnv: the same episodes again
    assert torch.equal(env.observations("agent")[:, 0], before)


def test_rollouts_of_a_pettingzoo_environment():
    env = wd.HostEnv(Relay, 2, env_backend="cpu", seed=1)
    assert env.policy_tags == {"runner": [0, 2], "judge": [1]}
    assert env.env.agents == ["runner_0", "judge", "runner_1"]
    assert env.observation_spaces["runner"] == spaces.Box(-1, 10, (2,), np.float32)
    rollout = env.allocate_rollout(20, global_state=True)
    for _ in range(20):
        env.step_rollout(rollout)
    runners, judges = rollout.of("observations", "runner"), rollout.of("observations", "judge")
    for replica in range(2):
        time, episode = 0, 1
        for t in range(20):
            start = float(runners[t, replica, 0, 0])
            present = [True, True, time < 2]
            assert rollout.active[t, replica].tolist() == present
            assert runners[t, replica, 0].tolist() == [start, time]
            assert judges["picture"][t, replica, 0].flatten().tolist() == [time] * 4
            assert judges["plain"][t, replica, 0].tolist() == [start, time]
            assert rollout.global_state["state"][t, replica].tolist() == [start, time, sum(present)]
            assert rollout.action_mask[t, replica, 0, :2].tolist() == [True, time % 2 == 1]
            time += 1
            rewards = [float(time + number) * here for number, here in enumerate(present)]
            assert rollout.rewards[t, replica].tolist() == rewards
            long = episode % 3 == 0
            ended = time == (5 if long else 4)
            assert bool(rollout.terminated[t, replica]) == (ended and long)
            assert bool(rollout.truncated[t, replica]) == (ended and not long)
            stays = [not ended, not ended or not long, time < 2 and not ended]
            assert rollout.still_active[t, replica].tolist() == stays
            if ended and not long:
                slot = rollout.final_slot[t, replica]
                final = rollout.of("final_observations", "judge")["plain"][slot, replica, 0]
                assert final.tolist() == [start, 4]
                assert rollout.final_global_state["state"][slot, replica].tolist() == [start, 4, 0]
            if ended:
                time, episode = 0, episode + 1


def test_recorded_episodes_have_pictures():
    env = wd.HostEnv(Relay, 2, env_backend="cpu", render_mode="rgb_array")
    recording = env.like(2, seed=4, rendered=True).record([1])
    assert recording.states["frame"][:, 0, 0, 0, 0].tolist() == [0, 1, 2, 3, 4]
    assert recording.lengths.tolist() == [4]
    chain = wd.HostEnv(Chain, 1, env_backend="cpu", render_mode="rgb_array").like(1, seed=4, rendered=True).record()
    assert chain.states["frame"][:, 0, 0, 0, 0].tolist() == list(range(int(chain.lengths[0]) + 1))


NESTED = spaces.Dict(
    {
        "pose": spaces.Tuple((spaces.Box(-1, 1, (2, 3), np.float64), spaces.Discrete(4, start=2))),
        "on": spaces.MultiBinary(3),
        "map": spaces.MultiDiscrete([3, 4], start=[1, -1]),
        "count": spaces.Box(0, 9, (1,), np.int64),
    }
)


def test_observations_of_nested_spaces():
    conversion = ObservationConversion(NESTED, "nested")
    assert list(conversion.keys) == ["count", "map", "on", "pose_0", "pose_1"]
    NESTED.seed(3)
    sample = NESTED.sample()
    arrays = {key: np.zeros((1, *(space.shape or ())), space.dtype) for key, space in conversion.space.items()}
    conversion.write(sample, arrays, 0)
    assert arrays["count"].dtype == np.int32
    np.testing.assert_array_equal(arrays["pose_0"][0], sample["pose"][0].astype(np.float32))
    assert arrays["pose_1"][0] == sample["pose"][1] - 2
    np.testing.assert_array_equal(arrays["map"][0], sample["map"] - [1, -1])
    np.testing.assert_array_equal(arrays["on"][0], sample["on"])
    assert conversion.space.contains({key: array[0] for key, array in arrays.items()} | {"pose_1": arrays["pose_1"][0]})


@pytest.mark.parametrize(
    "space",
    [
        spaces.Discrete(3, start=5),
        spaces.MultiDiscrete([2, 3], start=[1, 2]),
        spaces.MultiBinary(4),
        spaces.Box(-2, 3, (2, 2), np.float64),
        spaces.Box(-1, 2, (2,), np.int64),
        spaces.Tuple((spaces.Discrete(2), spaces.MultiBinary(2))),
        spaces.Dict({"a": spaces.Box(0, 1, (2,)), "b": spaces.Box(-1, 1, (1, 2), np.float64)}),
    ],
    ids=repr,
)
def test_actions_are_elements_of_the_library_space(space):
    conversion = ActionConversion(space, "test")
    conversion.space.seed(2)
    samples = np.stack([np.asarray(conversion.space.sample()) for _ in range(20)])
    assert all(space.contains(conversion.read(sample)) for sample in samples)
    batched = gymnasium.vector.utils.batch_space(space, 20)
    assert batched.contains(conversion.read(samples, (20,)))
    each = [conversion.read(sample) for sample in samples]
    together = list(gymnasium.vector.utils.iterate(batched, conversion.read(samples, (20,))))
    assert repr(gymnasium.spaces.flatten(space, each[3])) == repr(gymnasium.spaces.flatten(space, together[3]))


def test_errors_name_what_is_wrong():
    def found(*arguments, **options):
        with pytest.raises(DefinitionError) as error:
            wd.HostEnv(*arguments, env_backend="cpu", **options)
        return str(error.value)

    assert "Did you mean 'CartPole-v" in found(gymnasium="CartPol-v1")
    assert "no module 'nowhere'" in found(pettingzoo="nowhere.env_v1")
    assert "no module 'nowhere'" in found(gymnasium="nowhere:Env-v0")
    assert "one of env, gymnasium" in found()
    assert "Did you mean 'sync'" in found(gymnasium="CartPole-v1", vectorization="synk")
    assert "workers: found -1" in found(Chain, workers=-1)
    assert "expected a gymnasium.Env" in found(3)
    assert "5 replicas were requested" in found(make_chains(2), 5)
    with pytest.raises(DefinitionError, match=r"use wd\.HostEnv"):
        wd.EnvWrapper(env_name="gymnasium", env_config={"id": "CartPole-v1"}, env_backend="cpu")


@pytest.mark.parametrize("options", [{}, {"workers": 2}, {"workers": 2, "worker_type": "thread"}])
def test_close_frees_the_memory(options):
    env = wd.HostEnv(Chain, 3, env_backend="cpu", **options)
    rollout_of(env, 2)
    storage = StorageWeakRef(env.ctx["rewards"].untyped_storage())
    env.close()
    gc.collect()
    assert storage.expired()


@pytest.mark.parametrize("workers", [0, 2])
def test_errors_of_the_environment(workers):
    env = wd.HostEnv(Chain, 3, env_backend="cpu", broken_at=2, workers=workers)
    env.step()
    with pytest.raises(DefinitionError, match="the chain is broken"):
        env.step()
    env.close()
    with pytest.raises(DefinitionError, match="closed"):
        env.step()


def test_end_of_a_worker_process():
    env = wd.HostEnv(Chain, 3, env_backend="cpu", workers=2)
    env._host._processes[1].terminate()
    env._host._processes[1].join()
    with pytest.raises(DefinitionError, match="a worker process has ended"):
        env.step()
    env.close()
