"""Run configurations built in Python: ``wd.RunConfig`` with the sections as typed arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from warpdrive.training.algorithms.a2c import A2CConfig
from warpdrive.training.algorithms.custom import CustomConfig
from warpdrive.training.algorithms.ddpg import DDPGConfig
from warpdrive.training.algorithms.dqn import DQNConfig
from warpdrive.training.algorithms.ppo import PPOConfig
from warpdrive.training.algorithms.pqn import PQNConfig
from warpdrive.training.algorithms.qmix import QMIXConfig
from warpdrive.training.algorithms.reinforce import ReinforceConfig
from warpdrive.training.algorithms.sac import SACConfig
from warpdrive.training.algorithms.td3 import TD3Config
from warpdrive.training.algorithms.vdn import VDNConfig
from warpdrive.training.config import load, schema
from warpdrive.training.config.schema import (
    EnvironmentConfig,
    EvaluationConfig,
    FunctionConfig,
    MlflowConfig,
    PolicyConfig,
    RandomConfig,
    SavingConfig,
    SelfPlayConfig,
    TrackioConfig,
    TrainerConfig,
    WandbConfig,
)
from warpdrive.training.models.options import (
    ConvolutionalConfig,
    ConvolutionsConfig,
    CustomModelConfig,
    FullyConnectedConfig,
    GRUConfig,
    LSTMConfig,
    MinGRUConfig,
    PerceptronConfig,
    UnitsConfig,
)

__all__ = [
    "A2CConfig",
    "ConvolutionalConfig",
    "ConvolutionsConfig",
    "CustomConfig",
    "CustomModelConfig",
    "DDPGConfig",
    "DQNConfig",
    "EnvironmentConfig",
    "EvaluationConfig",
    "FullyConnectedConfig",
    "FunctionConfig",
    "GRUConfig",
    "LSTMConfig",
    "MinGRUConfig",
    "MlflowConfig",
    "PPOConfig",
    "PQNConfig",
    "PerceptronConfig",
    "QMIXConfig",
    "RandomConfig",
    "ReinforceConfig",
    "RunConfig",
    "SACConfig",
    "SavingConfig",
    "SelfPlayConfig",
    "TD3Config",
    "TrackioConfig",
    "TrainerConfig",
    "UnitsConfig",
    "VDNConfig",
    "WandbConfig",
]


class RunConfig(schema.RunConfig):
    """Run configuration, checked as a whole like a YAML file. Sections are objects or dictionaries.

    ```python
    config = wd.RunConfig(
        env="cartpole",
        trainer=wd.TrainerConfig(num_envs=64, train_batch_size=640, total_steps=64_000),
        policy={"agent": wd.PPOConfig(lr=1e-3)},
    )
    ```

    Args:
        env: Environment: its name, or a section with the name and parameters, ``{"name": "cartpole", "gravity": 5.0}``.
        trainer: Amount of simulation and training.
        policy: Sections of the policies, such as ``wd.PPOConfig``, by policy tag.
        saving: Outputs of the run; None: the defaults.
        name: Name of the run; None: that of the environment.

    Raises:
        ConfigError: If the configuration is invalid: reports all problems, one line each, with the nearest valid names.
    """

    def __init__(
        self,
        *,
        env: str | EnvironmentConfig | Mapping[str, Any],
        trainer: TrainerConfig | Mapping[str, Any],
        policy: Mapping[str, PolicyConfig | Mapping[str, Any]],
        saving: SavingConfig | Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> None:
        given = {"name": name, "env": env, "saving": saving}
        given = {key: value for key, value in given.items() if value is not None}
        super().__init__(**dict(load.load_config({**given, "trainer": trainer, "policy": policy})))

    @classmethod
    def load(cls, source: str | Path | Mapping[str, Any], overrides: Sequence[str] = ()) -> RunConfig:
        """Read a YAML file, a shipped configuration by its name, or a dictionary.

        Args:
            source: Path, name or dictionary.
            overrides: Dotted keys with YAML values: ``"trainer.num_envs=2000"``.

        Returns:
            The configuration.

        Raises:
            ConfigError: If the configuration is invalid: reports all problems, one line each.
        """
        return cls(**dict(load.load_config(source, overrides)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, schema.RunConfig) and self.model_dump() == other.model_dump()

    __hash__ = schema.RunConfig.__hash__
