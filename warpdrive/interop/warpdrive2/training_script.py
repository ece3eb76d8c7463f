"""Training script of WarpDrive 2's example environments, for the names of their run configurations."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path
from typing import Any

import yaml

from warpdrive.errors import ConfigError, nearest
from warpdrive.interop.warpdrive2.common import get_project_root
from warpdrive.interop.warpdrive2.env_wrapper import EnvWrapper
from warpdrive.interop.warpdrive2.processes import perform_distributed_training
from warpdrive.interop.warpdrive2.trainer import Trainer
from warpdrive.interop.warpdrive2.vertical_scaler import perform_auto_vertical_scaling

_CLASSIC_CONTROL = "example_envs.single_agent.classic_control"
ENVIRONMENTS = {
    "tag_continuous": "example_envs.tag_continuous.tag_continuous:TagContinuous",
    "tag_gridworld": "example_envs.tag_gridworld.tag_gridworld:CUDATagGridWorld",
    "tag_gridworld_with_reset_pool": "example_envs.tag_gridworld.tag_gridworld:CUDATagGridWorldWithResetPool",
    **{
        f"single_{module}": f"{_CLASSIC_CONTROL}.{module}.{module}:CUDAClassicControl{name}Env"
        for module, name in {
            "cartpole": "CartPole",
            "mountain_car": "MountainCar",
            "continuous_mountain_car": "ContinuousMountainCar",
            "acrobot": "Acrobot",
            "pendulum": "Pendulum",
        }.items()
    },
}
"""Environment classes by the names of run configurations."""


def setup_trainer_and_train(
    run_configuration: dict[str, Any],
    device_id: int = 0,
    num_devices: int = 1,
    event_messenger: Any = None,
    results_directory: str | None = None,
    verbose: bool = True,
) -> None:
    """Train in the environment of a run configuration.

    Args:
        run_configuration: Sections ``name``, ``env``, ``trainer``, ``policy`` and ``saving``.
        device_id: Rank of this process.
        num_devices: Number of processes.
        event_messenger: Event that is set when the kernels are imported.
        results_directory: Name of the folder of the results; None: the time.
        verbose: If True, metrics are printed.

    Raises:
        ConfigError: If there is no environment of this name.
    """
    name = run_configuration["name"]
    if name not in ENVIRONMENTS:
        raise ConfigError(
            f"name: found '{name}', expected one of {', '.join(ENVIRONMENTS)}.{nearest(name, ENVIRONMENTS)}"
        )
    module, _, attribute = ENVIRONMENTS[name].partition(":")
    wrapper = EnvWrapper(
        getattr(importlib.import_module(module), attribute)(**run_configuration["env"]),
        num_envs=run_configuration["trainer"]["num_envs"],
        env_backend="numba",
        event_messenger=event_messenger,
        process_id=device_id,
    )
    tags, env = list(run_configuration["policy"]), wrapper.env
    roles = {"tagger": list(env.taggers), "runner": list(env.runners)} if hasattr(env, "taggers") else {}
    trainer = Trainer(
        wrapper,
        run_configuration,
        {tags[0]: sorted(env.action_space)} if len(tags) == 1 else roles,
        device_id=device_id,
        num_devices=num_devices,
        results_dir=results_directory,
        verbose=verbose,
    )
    trainer.train()
    trainer.graceful_close()
    print(f"Training steps/s: {trainer.perf_stats.steps / trainer.perf_stats.total_time:.2f}.")


def main() -> None:
    """Train as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", "-e", required=True, help="name of a run configuration")
    parser.add_argument("--auto_scale", "-a", action="store_true", help="find the largest batch that fits the device")
    parser.add_argument("--num_gpus", "-n", type=int, default=-1, help="number of processes")
    parser.add_argument("--results_dir", help="name of the folder of the results")
    options = parser.parse_args()
    path = Path(get_project_root(), "warp_drive", "training", "run_configs", f"{options.env}.yaml")
    if not path.exists():
        raise SystemExit(f"{path}: no such run configuration")
    config = yaml.safe_load(path.read_text(encoding="utf8"))
    if options.auto_scale:
        config = perform_auto_vertical_scaling(setup_trainer_and_train, config)
    processes = options.num_gpus if options.num_gpus >= 1 else config["trainer"].get("num_gpus", 1)
    if processes > 1:
        config["trainer"]["num_gpus"] = processes
        perform_distributed_training(setup_trainer_and_train, config, options.results_dir)
    else:
        setup_trainer_and_train(config, results_directory=options.results_dir)


if __name__ == "__main__":
    main()
