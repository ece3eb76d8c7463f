"""WarpDrive: write the step of a multi-agent environment as a kernel, run thousands of replicas, train.

The names below are the public API of the package. They are imported lazily, on first use, so that
``import warpdrive`` is fast, needs no GPU and loads no driver.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the same names for type checkers, which do not see through __getattr__
    from warpdrive import draw as draw, interop as interop, math as math, random as random, testing as testing
    from warpdrive.checks.debugger import debug as debug
    from warpdrive.checks.launch import check_launch as check_launch
    from warpdrive.device_context import DeviceContext as DeviceContext
    from warpdrive.env_wrapper import EnvWrapper as EnvWrapper
    from warpdrive.environment import Environment as Environment
    from warpdrive.envs.atari import public as atari  # noqa: F401 (a public name, of a module with another name)
    from warpdrive.errors import WarpDriveError as WarpDriveError
    from warpdrive.host_transfers import HostTransferError as HostTransferError, no_host_transfers as no_host_transfers
    from warpdrive.interop.conversions import (
        to_pettingzoo as to_pettingzoo,
        to_rsl_rl as to_rsl_rl,
        to_skrl as to_skrl,
        to_stable_baselines3 as to_stable_baselines3,
        to_torchrl as to_torchrl,
    )
    from warpdrive.interop.gymnasium import to_gymnasium as to_gymnasium
    from warpdrive.interop.host.host_env import HostEnv as HostEnv
    from warpdrive.kernels.cuda_kernel import CudaKernel as CudaKernel, cuda_kernel as cuda_kernel
    from warpdrive.kernels.errors import KernelError as KernelError
    from warpdrive.launching import Kernel as Kernel, device_function as device_function, kernel as kernel
    from warpdrive.per_replica import PerReplica as PerReplica
    from warpdrive.recording.recording import Recording as Recording
    from warpdrive.registry import make as make, register as register, registered_names as registered_names
    from warpdrive.rollout import Rollout as Rollout
    from warpdrive.training.algorithms.a2c import A2C as A2C
    from warpdrive.training.algorithms.mappo import MAPPO as MAPPO
    from warpdrive.training.algorithms.ppo import PPO as PPO
    from warpdrive.training.config.run_config import (
        A2CConfig as A2CConfig,
        ConvolutionalConfig as ConvolutionalConfig,
        ConvolutionsConfig as ConvolutionsConfig,
        CustomConfig as CustomConfig,
        CustomModelConfig as CustomModelConfig,
        DDPGConfig as DDPGConfig,
        DQNConfig as DQNConfig,
        EnvironmentConfig as EnvironmentConfig,
        EvaluationConfig as EvaluationConfig,
        FullyConnectedConfig as FullyConnectedConfig,
        FunctionConfig as FunctionConfig,
        GRUConfig as GRUConfig,
        LSTMConfig as LSTMConfig,
        MinGRUConfig as MinGRUConfig,
        MlflowConfig as MlflowConfig,
        PerceptronConfig as PerceptronConfig,
        PPOConfig as PPOConfig,
        PQNConfig as PQNConfig,
        QMIXConfig as QMIXConfig,
        RandomConfig as RandomConfig,
        ReinforceConfig as ReinforceConfig,
        RunConfig as RunConfig,
        SACConfig as SACConfig,
        SavingConfig as SavingConfig,
        SelfPlayConfig as SelfPlayConfig,
        TD3Config as TD3Config,
        TrackioConfig as TrackioConfig,
        TrainerConfig as TrainerConfig,
        UnitsConfig as UnitsConfig,
        VDNConfig as VDNConfig,
        WandbConfig as WandbConfig,
    )
    from warpdrive.training.distributed.reductions import (
        mean_over_processes as mean_over_processes,
        sum_over_processes as sum_over_processes,
    )
    from warpdrive.training.experience.advantages import gae as gae
    from warpdrive.training.experience.batch import Batch as Batch
    from warpdrive.training.inference.trained_policy import TrainedPolicy as TrainedPolicy, load_policy as load_policy
    from warpdrive.training.live import live as live
    from warpdrive.training.models.base import ActorCritic as ActorCritic
    from warpdrive.training.models.check_device import CheckDevice as CheckDevice
    from warpdrive.training.models.population import Population as Population
    from warpdrive.training.models.recurrent import RecurrentActorCritic as RecurrentActorCritic
    from warpdrive.training.models.registry import register_model as register_model
    from warpdrive.training.replay.replay import replay as replay
    from warpdrive.training.run.callbacks import Callback as Callback
    from warpdrive.training.trainer import Trainer as Trainer

__version__ = "0.1.0"

_SECTIONS = """
    RunConfig EnvironmentConfig TrainerConfig EvaluationConfig SavingConfig WandbConfig TrackioConfig MlflowConfig
    A2CConfig CustomConfig DDPGConfig DQNConfig PPOConfig PQNConfig QMIXConfig ReinforceConfig SACConfig TD3Config
    VDNConfig RandomConfig
    SelfPlayConfig FunctionConfig FullyConnectedConfig ConvolutionalConfig GRUConfig LSTMConfig MinGRUConfig
    CustomModelConfig PerceptronConfig ConvolutionsConfig UnitsConfig
"""
_HOME_OF = {
    "kernel": "warpdrive.launching",
    "device_function": "warpdrive.launching",
    "CudaKernel": "warpdrive.kernels.cuda_kernel",
    "cuda_kernel": "warpdrive.kernels.cuda_kernel",
    "Kernel": "warpdrive.launching",
    "WarpDriveError": "warpdrive.errors",
    "KernelError": "warpdrive.kernels.errors",
    "DeviceContext": "warpdrive.device_context",
    "Environment": "warpdrive.environment",
    "EnvWrapper": "warpdrive.env_wrapper",
    "PerReplica": "warpdrive.per_replica",
    "Rollout": "warpdrive.rollout",
    "no_host_transfers": "warpdrive.host_transfers",
    "HostTransferError": "warpdrive.host_transfers",
    "HostEnv": "warpdrive.interop.host.host_env",
    "to_gymnasium": "warpdrive.interop.gymnasium",
    "to_torchrl": "warpdrive.interop.conversions",
    "to_stable_baselines3": "warpdrive.interop.conversions",
    "to_skrl": "warpdrive.interop.conversions",
    "to_rsl_rl": "warpdrive.interop.conversions",
    "to_pettingzoo": "warpdrive.interop.conversions",
    "check_launch": "warpdrive.checks.launch",
    "debug": "warpdrive.checks.debugger",
    "Recording": "warpdrive.recording.recording",
    "make": "warpdrive.registry",
    "register": "warpdrive.registry",
    "registered_names": "warpdrive.registry",
    "A2C": "warpdrive.training.algorithms.a2c",
    "Batch": "warpdrive.training.experience.batch",
    "Callback": "warpdrive.training.run.callbacks",
    "MAPPO": "warpdrive.training.algorithms.mappo",
    "PPO": "warpdrive.training.algorithms.ppo",
    "mean_over_processes": "warpdrive.training.distributed.reductions",
    "sum_over_processes": "warpdrive.training.distributed.reductions",
    "gae": "warpdrive.training.experience.advantages",
    "Trainer": "warpdrive.training.trainer",
    "TrainedPolicy": "warpdrive.training.inference.trained_policy",
    "load_policy": "warpdrive.training.inference.trained_policy",
    "replay": "warpdrive.training.replay.replay",
    "live": "warpdrive.training.live",
    "ActorCritic": "warpdrive.training.models.base",
    "Population": "warpdrive.training.models.population",
    "RecurrentActorCritic": "warpdrive.training.models.recurrent",
    "CheckDevice": "warpdrive.training.models.check_device",
    "register_model": "warpdrive.training.models.registry",
    **dict.fromkeys(_SECTIONS.split(), "warpdrive.training.config.run_config"),
}
_MODULES = {
    **{name: f"warpdrive.{name}" for name in ("interop", "draw", "math", "random", "testing")},
    "atari": "warpdrive.envs.atari.public",
}

__all__ = ["__version__", *_MODULES, *_HOME_OF]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return _imported(_MODULES[name])
    if name in _HOME_OF:
        return getattr(_imported(_HOME_OF[name]), name)
    raise AttributeError(f"module 'warpdrive' has no attribute '{name}'")


def _imported(module: str) -> Any:
    from warpdrive.garbage_collection import no_garbage_collection

    with no_garbage_collection():  # it would visit the objects of all modules several times
        return importlib.import_module(module)


def __dir__() -> list[str]:
    return sorted(__all__)


class _GymnasiumImport:
    """Import finder that registers the environments with Gymnasium once it is imported.

    Gymnasium has no plugins since 1.0, and importing it here would take longer than the rest of the package.
    """

    @classmethod
    def find_spec(cls, name: str, path: Any = None, target: Any = None) -> Any:
        """Return the module specification of ``gymnasium.envs`` with the registration added, else None."""
        if name != "gymnasium.envs":
            return None
        sys.meta_path.remove(cls)
        found = importlib.util.find_spec(name)
        if found is not None and found.loader is not None:
            execute = found.loader.exec_module

            def exec_and_register(module: Any) -> None:
                execute(module)
                _register_environments()

            found.loader.exec_module = exec_and_register  # type: ignore[method-assign]
        return found


def _register_environments() -> None:
    from warpdrive.interop.gymnasium_ids import register_environments

    register_environments()


if "gymnasium.envs" in sys.modules:
    _register_environments()
else:
    sys.meta_path.insert(0, _GymnasiumImport)
