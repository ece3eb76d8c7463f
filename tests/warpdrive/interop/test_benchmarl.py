"""Environments as tasks of BenchMARL: experiments of one iteration, and specs."""

from __future__ import annotations

import pickle

import pytest
from games import Revealed
from sound_environments import CatAndMice

import warpdrive as wd

pytest.importorskip("benchmarl", exc_type=ImportError)
from benchmarl import algorithms
from benchmarl.experiment import Experiment, ExperimentConfig
from benchmarl.models.mlp import MlpConfig

from warpdrive.interop.benchmarl import WarpDriveClass, WarpDriveTask


@pytest.mark.parametrize(
    ("task", "algorithm"),
    [("simple_tag", "Mappo"), ("tag_gridworld", "Ippo"), ("tag_continuous", "Qmix"), ("pendulum", "Masac")],
)
def test_experiments_run(task, algorithm, tmp_path):
    config = ExperimentConfig.get_from_yaml()
    for kind in ("on_policy", "off_policy"):
        setattr(config, f"{kind}_n_envs_per_worker", 4)
        setattr(config, f"{kind}_collected_frames_per_batch", 80)
    config.on_policy_minibatch_size, config.on_policy_n_minibatch_iters = 40, 1
    config.off_policy_n_optimizer_steps, config.off_policy_train_batch_size = 1, 16
    config.max_n_iters, config.max_n_frames, config.off_policy_memory_size = 1, None, 100
    config.evaluation_interval, config.evaluation_episodes, config.render = 80, 2, False
    config.loggers, config.save_folder = ["csv"], tmp_path
    experiment = Experiment(
        task=WarpDriveTask[task.upper()].get_task({"episode_length": 20}),
        algorithm_config=getattr(algorithms, f"{algorithm}Config").get_from_yaml(),
        model_config=MlpConfig.get_from_yaml(),
        seed=0,
        config=config,
    )
    experiment.run()
    assert experiment.mean_return == experiment.mean_return  # episodes ended
    assert len(list(tmp_path.rglob("*.json"))) == 1  # with results of the evaluation


def test_tasks_are_the_registered_environments():
    assert [task.name.lower() for task in WarpDriveTask] == wd.registered_names()
    task = WarpDriveTask.SIMPLE_SPREAD.get_from_yaml()
    assert (task.name, task.config) == ("SIMPLE_SPREAD", {})
    assert pickle.loads(pickle.dumps(task)) == task


def test_specs():
    wd.register("CatAndMice", CatAndMice)
    wd.register("revealed", Revealed)
    task = WarpDriveClass("CatAndMice", {})
    env = task.get_env_fun(2, False, 0, "cpu")()
    assert task.group_map(env) == {"cat": ["cat_0"], "mouse": ["mouse_0", "mouse_1"]}
    assert task.observation_spec(env)["mouse", "observation"].shape == (2, 2)
    assert task.action_mask_spec(env)["mouse", "action_mask"].shape == (2, 3)
    assert task.action_spec(env)["mouse", "action"].space.n == 3
    assert task.state_spec(env) is None
    task = WarpDriveClass("revealed", {})
    assert task.state_spec(task.get_env_fun(2, False, 0, "cpu")())["state"].ndim == 1
