"""Train simple_spread with MAPPO of BenchMARL: pip install 'warpdrive[benchmarl]'.

python examples/benchmarl_mappo.py
"""

from __future__ import annotations

import argparse
from tempfile import TemporaryDirectory

from benchmarl.algorithms import MappoConfig
from benchmarl.experiment import Experiment, ExperimentConfig
from benchmarl.models.mlp import MlpConfig

from warpdrive.interop.benchmarl import WarpDriveTask


def train(total_steps: int = 300_000, num_envs: int = 120, seed: int = 1) -> float:
    """Train, and return the mean return of the episodes that ended in the last iteration."""
    config = ExperimentConfig.get_from_yaml()
    config.on_policy_n_envs_per_worker = num_envs
    config.on_policy_collected_frames_per_batch = frames = num_envs * 50
    config.on_policy_minibatch_size, config.on_policy_n_minibatch_iters = frames // 4, 8
    config.lr, config.gamma = 1e-3, 0.95
    config.max_n_frames = max(total_steps // frames, 1) * frames
    config.evaluation, config.loggers, config.create_json = False, [], False
    with TemporaryDirectory() as config.save_folder:
        experiment = Experiment(
            task=WarpDriveTask.SIMPLE_SPREAD.get_from_yaml(),
            algorithm_config=MappoConfig.get_from_yaml(),
            model_config=MlpConfig.get_from_yaml(),
            critic_model_config=MlpConfig.get_from_yaml(),
            seed=seed,
            config=config,
        )
        experiment.run()
    return float(experiment.mean_return)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300_000)
    print(f"mean return at the end: {train(parser.parse_args().steps):.0f}")
