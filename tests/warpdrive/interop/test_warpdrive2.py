"""Programs of WarpDrive 2 by the names of its modules."""

from __future__ import annotations

import importlib
import json
import pickle
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import warpdrive as wd
from warpdrive.errors import DefinitionError, TrainingError, TrustError
from warpdrive.interop.warpdrive2 import processes
from warpdrive.interop.warpdrive2.cuda_source import CudaSource

PROGRAMS = "warpdrive2_environments"


@pytest.fixture(autouse=True)
def _installed() -> Iterator[None]:
    wd.interop.warpdrive2.install()
    yield
    wd.interop.warpdrive2.uninstall()
    for name in [name for name in sys.modules if name.startswith(PROGRAMS)]:
        del sys.modules[name]


@pytest.fixture
def registrar() -> Any:
    from warp_drive.utils.env_registrar import EnvironmentRegistrar

    found = EnvironmentRegistrar()
    for name in ("Sprint", "Aim"):
        found.add_cuda_env_src_path(name, f"{PROGRAMS}.{name.lower()}_step_numba", env_backend="numba")
    return found


def environment(name: str, **parameters: Any) -> Any:
    return getattr(importlib.import_module(f"{PROGRAMS}.{name.lower()}"), name)(**parameters)


def replicas(name: str, registrar: Any, num_envs: int, env_backend: str = "numba", **parameters: Any) -> Any:
    from warp_drive.env_wrapper import EnvWrapper

    env = environment(name, **parameters)
    return EnvWrapper(env_obj=env, num_envs=num_envs, env_backend=env_backend, env_registrar=registrar)


@pytest.mark.parametrize("backend", ["numba", "pycuda"])
def test_a_kernel_agrees_with_the_step_in_python_over_episodes_of_several_sizes(backend, registrar):
    from warp_drive.env_cpu_gpu_consistency_checker import EnvironmentCPUvsGPU

    sizes = {"three": {"num_agents": 3, "track": 20.0}, "five": {"num_agents": 5}}
    sprint = importlib.import_module(f"{PROGRAMS}.sprint").Sprint
    checker = EnvironmentCPUvsGPU(
        dual_mode_env_class=sprint, env_configs=sizes, gpu_env_backend=backend, env_registrar=registrar
    )
    checker.test_env_reset_and_step()


def test_a_step_in_python_that_differs_is_found(registrar, monkeypatch):
    from warp_drive.env_cpu_gpu_consistency_checker import EnvironmentCPUvsGPU

    sprint = importlib.import_module(f"{PROGRAMS}.sprint").Sprint
    observe = sprint._observations
    monkeypatch.setattr(sprint, "_observations", lambda self: {a: 1.5 * seen for a, seen in observe(self).items()})
    configs = {"wrong": {}}
    checker = EnvironmentCPUvsGPU(
        dual_mode_env_class=sprint, env_configs=configs, gpu_env_backend="numba", env_registrar=registrar
    )
    with pytest.raises(AssertionError, match=r"'observations' at .* in Python"):
        checker.test_env_reset_and_step()


def test_replicas_are_reset_when_their_episode_ends_and_start_from_the_pool(registrar):
    wrapper = replicas("Sprint", registrar, 400, start_pool=4)
    assert set(wrapper.reset_all_envs()) == {0, 1, 2}
    wrapper.init_reset_pool(seed=7)
    data = wrapper.cuda_data_manager
    data.data_on_device_via_torch("_done_")[:200] = 1
    before = data.pull_data_from_device("position")
    wrapper.reset_only_done_envs()
    after = data.pull_data_from_device("position")
    assert (after[200:] == before[200:]).all()
    counts = np.bincount(after[:200, 0].astype(int), minlength=4)
    assert (np.abs(counts - 50) < 31).all()  # 5 standard errors of 6.1: fails once in 400,000 runs
    assert not data.pull_data_from_device("_done_").any()
    drawn = []
    for _ in range(8):
        assert wrapper.reset_all_envs() == {}
        drawn.append(data.pull_data_from_device("position")[:, 0].astype(int))
    of_others = np.array(drawn)[:, 200:]  # each element once, then each once again, in another order
    assert (np.sort(of_others[:4], axis=0) == np.arange(4)[:, None]).all()
    assert (np.sort(of_others[4:], axis=0) == np.arange(4)[:, None]).all()
    assert len(np.unique(of_others[:4], axis=1).T) == 8 and (of_others[:4] != of_others[4:]).any()
    assert data.get_dtype("speed") == "int32" and data.get_shape("starts") == (4, 3)


def test_the_log_holds_the_steps_of_one_replica():
    from warp_drive.managers.numba_managers.numba_data_manager import NumbaDataManager
    from warp_drive.managers.numba_managers.numba_function_manager import NumbaFunctionManager, NumbaLogController
    from warp_drive.utils.data_feed import DataFeed

    data = NumbaDataManager(num_agents=2, num_envs=3, episode_length=5)
    feed = DataFeed()
    feed.add_data("height", np.arange(6.0).reshape(3, 2), log_data_across_episode=True)
    data.push_data_to_device(feed)
    functions = NumbaFunctionManager(num_agents=2, num_envs=3)
    functions.import_numba_from_source_code("warp_drive.numba_includes.test_build")
    log = NumbaLogController(functions)
    log.reset_log(data, env_id=1)
    for step in (1, 2):
        data.tensor("height").add_(10.0)
        log.update_log(data, step)
    assert log.fetch_log(data)["height_for_log"].tolist() == [[2, 3], [12, 13], [22, 23]]
    assert log.fetch_log(data, last_step=1)["height_for_log"].shape == (2, 2)
    with pytest.raises(AssertionError, match="step 2"):
        log.update_log(data, 2)
    log.update_log(data, 4)
    with pytest.raises(ValueError, match=r"\[0, 1, 2, 4\]"):
        log.fetch_log(data)


def sampler_of(shape: tuple[int, ...], dtype: Any, choices: int, deterministic: bool = False) -> tuple[Any, Any]:
    from warp_drive.managers.data_manager import CUDADataManager
    from warp_drive.managers.function_manager import CUDAFunctionManager, CUDASampler
    from warp_drive.utils.data_feed import DataFeed

    data = CUDADataManager(num_agents=shape[1], num_envs=shape[0], episode_length=1)
    functions = CUDAFunctionManager(num_agents=shape[1], num_envs=shape[0])
    functions.initialize_default_functions()
    feed = DataFeed()
    feed.add_data("acted", np.zeros((*shape, 1), dtype))
    data.push_data_to_device(feed, torch_accessible=True)
    sampler = CUDASampler(functions)
    sampler.init_random(seed=3)
    sampler.register_actions(data, "acted", choices, is_deterministic=deterministic)
    return data, sampler


def test_choices_are_drawn_as_often_as_their_probabilities_say():
    data, sampler = sampler_of((10_000, 2), np.int32, 4)
    wanted = torch.tensor([[0.1, 0.0, 0.6, 0.3], [0.0, 0.0, 0.0, 1.0]])
    sampler.sample(data, wanted.expand(10_000, 2, 4).contiguous(), "acted")
    found = torch.stack([torch.bincount(column, minlength=4) for column in data.tensor("acted")[..., 0].T.long()])
    assert torch.allclose(found / 10_000, wanted, atol=0.025)  # 5 standard errors of 0.005
    assert not found[wanted == 0].any()
    sampler.sample(data, wanted.expand(10_000, 2, 4).contiguous(), "acted", use_argmax=True)
    assert (data.tensor("acted")[..., 0] == torch.tensor([2, 3])).all()


def test_the_noise_of_continuous_actions_has_the_variance_of_its_process():
    data, sampler = sampler_of((20_000, 1), np.float32, 1, deterministic=True)
    mean = torch.full((20_000, 1, 1), 0.25)
    for _ in range(60):
        sampler.sample(data, mean, "acted", damping=0.15, stddev=0.2, scale=2.0)
    acted, deviation = data.tensor("acted"), 2.0 * 0.2 / np.sqrt(1.0 - 0.85**2)
    assert abs(float(acted.mean()) - 0.25) < 5 * deviation / np.sqrt(20_000)
    assert abs(float(acted.std()) / deviation - 1.0) < 5 / np.sqrt(40_000)
    sampler.sample(data, mean, "acted", scale=0.0)
    assert (data.tensor("acted") == mean).all()


def config(algorithm: str, tags: list[str], tmp_path: Path, **trainer: Any) -> dict[str, Any]:
    policy = {"to_train": True, "algorithm": algorithm, "gamma": 0.9, "lr": 0.01, "model": {"fc_dims": [16]}}
    sizes = {"num_envs": 20, "train_batch_size": 160, "num_episodes": 4800, "seed": 5}
    saving = {"basedir": str(tmp_path), "name": "run", "tag": "test", "metrics_log_freq": 20}
    policies = {tag: {**policy, "model": dict(policy["model"])} for tag in tags}
    return {"name": "test", "trainer": {**sizes, **trainer}, "policy": policies, "saving": saving}


@pytest.mark.parametrize("algorithm", ["A2C", "PPO"])
def test_actor_critics_learn_and_their_checkpoints_load(algorithm, registrar, tmp_path):
    from warp_drive.training.trainers.trainer_a2c import TrainerA2C

    wrapper = replicas("Sprint", registrar, 20, track=1000.0, episode_length=8)
    settings = config(algorithm, ["all"], tmp_path, num_episodes=2000)
    trainer = TrainerA2C(wrapper, settings, {"all": [0, 1, 2]}, results_dir="0", verbose=False)
    trainer.train()
    rows = [json.loads(line) for line in (tmp_path / "run/test/0/results.json").read_text().splitlines()]
    assert rows[-1]["Iterations Completed"] == trainer.num_iters == 2000 * 8 // 160
    assert rows[0]["all"]["Mean episodic reward"] < 45 < 90 < rows[-1]["all"]["Mean episodic reward"] <= 3 * 36

    states, actions, rewards = trainer.fetch_episode_states(["position"], env_id=3, include_rewards_actions=True)
    assert states["position"].shape == (9, 3) and actions.shape == (8, 3, 1)
    assert np.allclose(np.diff(states["position"], axis=0), rewards)
    assert np.allclose(np.maximum.accumulate(states["position"]), states["position"])

    checkpoint = next((tmp_path / "run/test/0").glob(f"all_{trainer.current_timestep['all']}.state_dict"))
    former = {name: value.clone() for name, value in trainer.models["all"].state_dict().items()}
    other = TrainerA2C(replicas("Sprint", registrar, 20), settings, {"all": [0, 1, 2]}, results_dir="1", verbose=False)
    other.load_model_checkpoint({"all": str(checkpoint)})
    assert other.current_timestep["all"] == trainer.current_timestep["all"]
    assert all(torch.equal(value, former[name]) for name, value in other.models["all"].state_dict().items())
    other.graceful_close()


def test_episodes_that_end_early_are_not_a_number_afterwards(registrar, tmp_path):
    from warp_drive.training.trainer import Trainer

    wrapper = replicas("Sprint", registrar, 20, track=0.5)
    trainer = Trainer(wrapper, config("A2C", ["all"], tmp_path, train_batch_size=240), {"all": [0, 1, 2]})
    states = trainer.fetch_episode_states(["position"])["position"]  # the third runner stands behind the line
    assert not np.isnan(states[:2]).any() and np.isnan(states[2:]).all()
    returns, lengths = trainer.evaluate_episodes(use_argmax=True)
    assert returns["all"].shape == (20, 3) and (lengths["all"] == 1).all()


def test_policies_with_arrays_of_their_own_learn_masked_actions(registrar, tmp_path):
    from warp_drive.training.trainer import Trainer

    wrapper, tags = replicas("Aim", registrar, 20, continuous=False), {"first": [0], "others": [1, 2]}
    settings = config("A2C", list(tags), tmp_path, num_episodes=2400)
    trainer = Trainer(wrapper, settings, tags, True, results_dir="0", verbose=False)
    trainer.train()
    returns, _ = trainer.evaluate_episodes()
    for tag in tags:
        assert returns[tag].mean() > -2.0  # of -10 at random
        assert (trainer.data.pull_data_from_device(f"sampled_actions_batch_{tag}")[..., 0] != 1).all()


def test_deterministic_policies_learn_continuous_actions(registrar, tmp_path):
    from warp_drive.training.trainer import Trainer

    wrapper, tags = replicas("Aim", registrar, 20), {"first": [0], "others": [1, 2]}
    settings = config("DDPG", list(tags), tmp_path, n_step=2, num_episodes=6000)
    settings["sampler"] = {"params": {"stddev": [[0, 0.3], [12000, 0.1]]}}
    for tag in tags:
        parts = {"actor": {"type": "fully_connected_actor"}, "critic": {"type": "fully_connected_action_value_critic"}}
        settings["policy"][tag]["model"] = {name: {**part, "fc_dims": [16]} for name, part in parts.items()}
        settings["policy"][tag]["lr"] = {"actor": 0.005, "critic": 0.02}
    trainer = Trainer(wrapper, settings, tags, True, results_dir="0", verbose=False)
    trainer.train()
    returns, _ = trainer.evaluate_episodes(scale=0.0)
    assert min(found.mean() for found in returns.values()) > -0.4  # of -2 for actions of 0


def returns_by_hand(rewards: Any, done: Any, values: Any, gamma: float) -> Any:
    found = np.zeros_like(rewards)
    found[-1] = np.where(done[-1][:, None], rewards[-1], values[-1])
    for step in range(len(rewards) - 2, -1, -1):
        found[step] = rewards[step] + gamma * np.where(done[step][:, None], 0.0, found[step + 1])
    return found


def test_the_loss_of_an_actor_critic_is_that_of_its_formula():
    from warp_drive.training.algorithms.policygradient.a2c import A2C
    from warp_drive.training.algorithms.policygradient.ppo import PPO

    drawn = np.random.default_rng(0)
    rewards, values = drawn.normal(size=(2, 6, 4, 3)).astype(np.float32)
    done = (drawn.random((6, 4)) < 0.3).astype(np.int32)
    actions = drawn.integers(0, 5, (6, 4, 3, 1)).astype(np.int32)
    logits = torch.tensor(drawn.normal(size=(6, 4, 3, 5)), dtype=torch.float32)
    probabilities = logits.softmax(-1)
    batch = (actions, rewards, done, values)
    tensors = [torch.tensor(array) for array in batch]
    found, metrics = A2C(0.9, vf_loss_coeff=[[0, 0.0], [100, 1.0]], entropy_coeff=0.1).compute_loss_and_metrics(
        50, *tensors[:3], [probabilities], tensors[3], perform_logging=True
    )
    log, returns = np.log(probabilities.double().numpy()), returns_by_hand(rewards, done, values, 0.9)
    chosen = np.take_along_axis(log, actions.astype(np.int64), -1)[..., 0]
    entropy = -(np.exp(log) * log).sum(-1).mean()
    expected = -(chosen * (returns - values)).mean() + 0.5 * ((returns - values) ** 2).mean() - 0.1 * entropy
    assert abs(float(found) - expected) < 1e-5
    assert abs(metrics["Mean (discounted) returns"] - returns.mean()) < 1e-5
    of_ppo, _ = PPO(0.9, clip_param=0.2, vf_loss_coeff=0.5, entropy_coeff=0.1).compute_loss_and_metrics(
        50, *tensors[:3], [probabilities], tensors[3]
    )
    assert abs(float(of_ppo) - (expected + (chosen * (returns - values)).mean() - (returns - values).mean())) < 1e-5


def test_schedules_are_constant_or_piecewise_linear():
    from warp_drive.training.utils.param_scheduler import ParamScheduler

    assert ParamScheduler(0.5).get_param_value(10) == 0.5
    falling = ParamScheduler([[10, 1.0], [20, 0.0]])
    assert [falling.get_param_value(timestep) for timestep in (0, 10, 15, 30)] == [1.0, 1.0, 0.5, 0.0]
    for invalid in ("0.5", [], [1.0, 2.0], [[0, 1.0, 2.0]]):
        with pytest.raises(ValueError, match=r"expected a number or \[\[timestep, value\], \.\.\.\]"):
            ParamScheduler(invalid)
    with pytest.raises(ValueError, match="expected increasing timesteps"):
        ParamScheduler([[20, 0.0], [10, 1.0]])


@pytest.mark.parametrize("n_step", [1, 3])
def test_returns_over_several_steps_end_with_the_episode(n_step):
    from warp_drive.training.algorithms.policygradient.ddpg import DDPG

    drawn = np.random.default_rng(1)
    rewards, done = drawn.normal(size=(6, 2, 1)), drawn.random((6, 2)) < 0.3
    following = drawn.normal(size=(5, 2, 1))
    found = DDPG(0.9, n_step=n_step)._returns(*(torch.tensor(a) for a in (rewards, done[..., None], following)))
    for first in range(6 - n_step + 1):
        for env in range(2):
            total, weight, step = 0.0, 1.0, first
            while True:
                last = step == first + n_step - 1
                if step == 5:  # the last of the batch, whose next observation is not known
                    total += weight * (rewards[5, env, 0] if done[5, env] else following[4, env, 0])
                    break
                total += weight * rewards[step, env, 0]
                weight *= 0.9
                if done[step, env]:
                    break
                if last:
                    total += weight * following[step, env, 0]
                    break
                step += 1
            assert abs(float(found[first, env, 0]) - total) < 1e-12


def test_all_names_of_modules_resolve_and_others_are_named():
    from warpdrive.interop.warpdrive2.installation import _HOMES

    for name in _HOMES.keys() - {"numba_includes.env_config", "training.pytorch_lightning"}:
        importlib.import_module(f"warp_drive.{name}")
    with pytest.raises(ImportError, match=r"Did you mean 'managers.data_manager'"):
        importlib.import_module("warp_drive.managers.data_manger")
    assert torch.cuda.device_count() >= 1 and torch.ones(2).cuda().sum() == 2


def test_what_is_missing_is_named(registrar):
    with pytest.raises(DefinitionError, match="'Sprint' has no Numba kernels: register"):
        registrar._kernels["numba"].pop("sprint")
        replicas("Sprint", registrar, 2)
    registrar.add_cuda_env_src_path("Sprint", f"{PROGRAMS}.aim_step_numba", env_backend="numba")
    with pytest.raises(DefinitionError, match="no kernel 'NumbaSprintStep'"):
        replicas("Sprint", registrar, 2)


@pytest.mark.parametrize(
    ("module", "name", "parameters"),
    [
        ("tag_gridworld.tag_gridworld", "TagGridWorld", {"num_taggers": 4, "grid_length": 4, "episode_length": 8}),
        ("single_agent.classic_control.pendulum.pendulum", "ClassicControlPendulumEnv", {"episode_length": 8}),
    ],
)
def test_example_environments_are_found_by_their_names(module, name, parameters):
    from warp_drive.env_cpu_gpu_consistency_checker import EnvironmentCPUvsGPU

    found = importlib.import_module(f"example_envs.{module}")
    classes = {"cpu_env_class": getattr(found, name), "cuda_env_class": getattr(found, f"CUDA{name}")}
    checker = EnvironmentCPUvsGPU(**classes, env_configs={"small": parameters}, gpu_env_backend="numba")
    checker.test_env_reset_and_step()


def test_example_environments_start_from_their_pool():
    found = importlib.import_module("example_envs.single_agent.classic_control.cartpole.cartpole")
    from warp_drive.env_wrapper import EnvWrapper

    env = found.CUDAClassicControlCartPoleEnv(episode_length=20, reset_pool_size=50)
    wrapper = EnvWrapper(env, num_envs=100, env_backend="numba")
    wrapper.reset_all_envs()
    wrapper.init_reset_pool(seed=1)
    wrapper.reset_all_envs()
    angles = wrapper.cuda_data_manager.pull_data_from_device("angle")
    assert len(np.unique(angles)) > 20 and np.abs(angles).max() <= 0.05


@pytest.mark.exhaustive
def test_lightning_trains(registrar, tmp_path):
    lightning = pytest.importorskip("pytorch_lightning")
    from warp_drive.training.pytorch_lightning import CUDACallback, PerfStatsCallback, WarpDriveModule

    settings = config("A2C", ["all"], tmp_path, num_episodes=60)
    module = WarpDriveModule(replicas("Sprint", registrar, 20), settings, {"all": [0, 1, 2]}, verbose=False)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    callbacks = [CUDACallback(module=module), PerfStatsCallback(module.training_batch_size, module.num_iters)]
    trainer = lightning.Trainer(
        accelerator="gpu", devices=1, max_epochs=4, callbacks=callbacks, logger=False, default_root_dir=tmp_path
    )
    trainer.fit(module)
    assert module.current_timestep["all"] == 4 * module.training_batch_size
    assert any(not torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert module.fetch_episode_states(["position"])["position"].shape == (13, 3)


def test_outputs_of_large_batches_have_the_same_gradients(registrar, tmp_path, monkeypatch):
    from warp_drive.training.trainer import Trainer

    from warpdrive.interop.warpdrive2 import trainer as module

    wrapper = replicas("Sprint", registrar, 20)
    trainer = Trainer(wrapper, config("A2C", ["all"], tmp_path), {"all": [0, 1, 2]}, verbose=False)
    model, observations = trainer.models["all"], torch.randn(8, 20, 3, 3)
    gradients = []
    for limit in (2**26, 2000):  # all at once, and two steps at a time
        monkeypatch.setattr(module, "_FLOATS_AT_ONCE", limit)
        probabilities, values = module._outputs(model, observations)
        loss = (probabilities[0][..., 0] * values).mean()
        gradients.append(torch.autograd.grad(loss, list(model.parameters())))
    for whole, parts in zip(*gradients, strict=True):
        assert torch.allclose(whole, parts, atol=1e-6)


def test_cuda_c_in_a_string_runs_on_the_host():
    from warp_drive.managers.pycuda_managers.pycuda_data_manager import PyCUDADataManager
    from warp_drive.managers.pycuda_managers.pycuda_function_manager import PyCUDAFunctionManager
    from warp_drive.utils.data_feed import DataFeed

    text = """
    __device__ float scaled(float x) { return 2.0f * x; }
    extern "C" {
        __global__ void spread(float* data,  // [num_envs, agents]
                               const int *offsets, int agents, const float factor) {
            int place = blockIdx.x * agents + threadIdx.x;
            if (threadIdx.x < agents) data[place] += scaled(factor) * offsets[threadIdx.x];
        }
    }
    """
    data = PyCUDADataManager(num_agents=3, num_envs=2, episode_length=1)
    feed = DataFeed()
    feed.add_data("data", np.arange(6.0).reshape(2, 3))
    feed.add_data_list([("offsets", [1, 2, 3]), ("agents", 3), ("factor", 0.25)])
    data.push_data_to_device(feed)
    functions = PyCUDAFunctionManager(num_agents=3, num_envs=2)
    functions.load_cuda_from_source_code(text, default_functions_included=False)
    functions.initialize_functions(["spread"])
    arguments = [data.device_data(name) for name in ("data", "offsets", "agents", "factor")]
    functions.get_function("spread")(*arguments, block=functions.block, grid=functions.grid)
    assert data.pull_data_from_device("data").tolist() == [[0.5, 2.0, 3.5], [3.5, 5.0, 6.5]]
    with pytest.raises(DefinitionError, match="__syncthreads"):
        PyCUDAFunctionManager().load_cuda_from_source_code('extern "C" __global__ void wait() { __syncthreads(); }')


def test_cuda_c_takes_no_parameters_and_wide_ones():
    module = CudaSource("""
        __device__ long long kept;
        __global__ void keep() { kept = 1LL << 40; }
        __global__ void add(long long *sum, long long n, const unsigned char small, uint64_t large) {
            *sum = n + small + (long long) large + kept;
        }
    """)
    total = np.zeros(1, np.int64)
    module.keep()
    module.add(total, -(1 << 50), 200, 1 << 60)
    assert total[0] == -(1 << 50) + 200 + (1 << 60) + (1 << 40)
    with pytest.raises(DefinitionError, match="parameter of the type 'half': expected a pointer, or one of int"):
        CudaSource("__global__ void halve(float *x, half by) {}")


class _UnreadableError(Exception):
    def __init__(self, code, reason):
        super().__init__(f"{reason} ({code})")


@pytest.mark.exhaustive
def test_a_process_that_fails_fails_the_training(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("MASTER_PORT", str(server.getsockname()[1]))
    config = {"trainer": {"num_gpus": 1}}
    processes.perform_distributed_training(dict, config)  # takes any keyword arguments
    with pytest.raises(TrainingError, match=r"process 0 of 1 failed: TypeError.*no keyword arguments"):
        processes.perform_distributed_training(len, config)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (_UnreadableError(3, "no memory"), "_UnreadableError: no memory (3)"),
        (ValueError("\N{SNOWMAN}" * 100_000), "ValueError: \N{SNOWMAN}"),
    ],
)
def test_an_exception_is_sent_as_text_if_it_cannot_be_read_or_is_long(error, told):
    """The parent reads it after the process has ended: all of it fits into the smallest pipe, of 16 KiB."""
    sent = pickle.dumps(processes._sendable(error))
    assert str(pickle.loads(sent)).startswith(told) and len(sent) < 16 * 1024


SPRINT = {"warpdrive2": f"{PROGRAMS}.sprint:Sprint", "kernels": f"{PROGRAMS}.sprint_step_numba"}
AIM = {"warpdrive2": f"{PROGRAMS}.aim:Aim", "kernels": f"{PROGRAMS}.aim_step_numba"}
OWN_ARRAYS = {"create_separate_placeholders_for_each_policy": True, "policy_tags": {"first": [0], "others": [2, 1]}}


def test_replicas_of_host_env_step_as_the_environment_does_in_python():
    env = wd.HostEnv(**SPRINT, num_envs=4, track=15.0)
    assert (env.num_agents, env.policy_tags, env.env.episode_length) == (3, {"shared": [0, 1, 2]}, 12)
    python = [environment("Sprint", track=15.0) for _ in range(4)]
    expected = np.array([list(one.reset().values()) for one in python])
    assert np.allclose(env.reset(seed=1).numpy(), expected)
    drawn, ends = np.random.default_rng(0), [0, 0]
    for _ in range(60):
        actions = drawn.integers(0, 3, (4, 3))
        observations, rewards, terminated, truncated, info = env.step(actions)
        for replica, one in enumerate(python):
            seen, reward, done, _ = one.step(dict(enumerate(actions[replica])))
            late = one.timestep == one.episode_length
            assert np.allclose(rewards[replica], list(reward.values()))
            assert bool(truncated[replica]) == (done["__all__"] and late)
            assert bool(terminated[replica]) == (done["__all__"] and not late)
            if done["__all__"]:
                ends[late] += 1
                if late:
                    assert np.allclose(info["final_observations"][replica], list(seen.values()))
                seen = one.reset()
            assert np.allclose(observations[replica], list(seen.values()))
    assert min(ends) > 0


def test_host_env_has_arrays_per_policy_and_action_masks():
    env = wd.HostEnv(**AIM, **OWN_ARRAYS, num_envs=2, continuous=False)
    env.reset()
    assert env.action_mask("others").shape == (2, 2, 5) and not env.action_mask("first")[..., 1].any()
    _, rewards, *_ = env.step(np.array([[[2, 1], [0, 1], [2, 0]]] * 2))
    assert rewards.tolist() == [[0.0, -4.0, -1.0]] * 2


def test_the_trainer_trains_in_an_environment_of_warpdrive_2(tmp_path):
    from warpdrive.training.config.load import load_config
    from warpdrive.training.trainer import Trainer, make_env

    sizes = {"num_envs": 20, "train_batch_size": 480, "total_steps": 9_600, "evaluation": {"num_episodes": 20}}
    policy = {"algorithm": "ppo", "lr": 0.01, "minibatches": 1}
    raw = {"env": {**SPRINT, "track": 1000.0}, "trainer": sizes, "policy": {"shared": policy}}
    config = load_config({**raw, "saving": {"folder": str(tmp_path), "tensorboard": False}})
    trainer = Trainer(make_env(config), config)
    before = trainer.evaluate(progress=False).mean_return["shared"]
    trainer.train(progress=False)
    assert trainer.evaluate(progress=False).mean_return["shared"] > 55 > 40 > before  # of at most 78
    trainer.save(tmp_path / "checkpoint")
    assert Trainer.load(tmp_path / "checkpoint").env_steps == trainer.env_steps
    with pytest.raises(TrustError, match=r"env.kernels: found json:kernels .* which would be executed"):
        load_config({**raw, "env": {**SPRINT, "kernels": "json"}}, trust=False)


@pytest.mark.parametrize(("largest", "margin", "found"), [(37, 1, 37), (37, 2**62, 32), (3, 1, 3), (0, 1, None)])
def test_the_search_for_a_size_finds_the_largest_that_works(largest, margin, found):
    from warp_drive.training.utils.vertical_scaler import best_param_search

    def work(size):
        if size > largest:
            raise MemoryError

    assert best_param_search(8, margin, work) == found
