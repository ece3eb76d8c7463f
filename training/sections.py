"""The sections of a run configuration: their keys, types, bounds and defaults."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator

from warpdrive.step_graph import UseCudaGraph


def _whole_number(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _switch(value: object) -> object:
    """Read what YAML makes of a bare ``on`` and ``off``."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value


Count = Annotated[int, BeforeValidator(_whole_number), Field(ge=1)]
Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
Positive = Annotated[float, Field(gt=0.0)]
NonNegative = Annotated[float, Field(ge=0.0)]


class Section(BaseModel):
    """A part of a configuration: unknown keys, wrong types and NaN are errors; values cannot change afterwards."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class EnvironmentConfig(Section):
    """Which environment, and the parameters of its constructor."""

    model_config = ConfigDict(extra="allow")

    name: str

    @property
    def parameters(self) -> dict[str, Any]:
        """The arguments of the environment's constructor."""
        return dict(self.model_extra or {})


class EvaluationConfig(Section):
    """How trained policies are evaluated."""

    num_episodes: Count = 1000


class TrainerConfig(Section):
    """How much is simulated and trained. All sizes count environment steps (one step of one replica)."""

    num_envs: Count
    train_batch_size: Count
    """Environment steps per update over all replicas: ``num_envs`` times the steps of a rollout."""
    total_steps: Count
    """Training ends with the first update that reaches this many environment steps."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    env_backend: Literal["auto", "cpu", "numba", "pycuda"] = "auto"
    use_cuda_graph: Annotated[UseCudaGraph, BeforeValidator(_switch)] = "auto"
    """Whether one step of a rollout, policies and environment, is captured as a CUDA graph and replayed.

    ``auto``: on a GPU where that works (else a warning names the cause); ``on``: or an error; ``off``: no.
    """
    reset_pool_size: Count = 1
    """How many start states are drawn at construction for replicas to restart from."""
    torch_threads: Count | None = None
    """Threads that PyTorch uses on the CPU in training and evaluation; None leaves PyTorch's own choice.

    PyTorch's sums round differently with another number of threads: a training run is the same bit for bit on machines
    with different numbers of cores only where this is set. (The simulation is the same whatever the cores.)
    """
    evaluation: EvaluationConfig = EvaluationConfig()

    @field_validator("train_batch_size")
    @classmethod
    def _divisible(cls, size: int, info: ValidationInfo) -> int:
        num_envs = info.data.get("num_envs")
        if num_envs and size % num_envs:
            works = max(1, round(size / num_envs)) * num_envs
            raise ValueError(f"a multiple of trainer.num_envs ({num_envs}); the nearest is {works}")
        return size

    @property
    def rollout_length(self) -> int:
        """Steps that every replica takes between two updates."""
        return self.train_batch_size // self.num_envs


class FullyConnectedConfig(Section):
    """A multi-layer perceptron for the policy and another for the value."""

    type: Literal["fully_connected"] = "fully_connected"
    hidden: list[Count] = [64, 64]
    activation: Literal["tanh", "relu"] = "tanh"
    scale_observations: bool = False
    """Whether what the observation space bounds is scaled to [-1, 1] first."""


class LearnerConfig(Section):
    """What all learning algorithms share."""

    to_train: bool = True
    lr: Positive = 3e-4
    gamma: Fraction = 0.99
    gae_lambda: Fraction = 0.95
    entropy_coef: NonNegative = 0.01
    value_coef: NonNegative = 0.5
    max_grad_norm: Positive = 0.5
    normalize_advantage: bool = True
    model: FullyConnectedConfig = FullyConnectedConfig()


class A2CConfig(LearnerConfig):
    """Advantage actor-critic: one gradient step per rollout."""

    algorithm: Literal["a2c"]


class PPOConfig(LearnerConfig):
    """Proximal policy optimisation: several epochs of minibatches per rollout."""

    algorithm: Literal["ppo"]
    clip: Positive = 0.2
    epochs: Count = 4
    minibatches: Count = 4


class RandomConfig(Section):
    """Agents that act uniformly at random; nothing is trained."""

    algorithm: Literal["random"]


PolicyConfig = Annotated[A2CConfig | PPOConfig | RandomConfig, Field(discriminator="algorithm")]

POLICY_CONFIGS: dict[str, type[Section]] = {"a2c": A2CConfig, "ppo": PPOConfig, "random": RandomConfig}


class SavingConfig(Section):
    """What a run leaves behind, and how often. Intervals count updates."""

    folder: str = "runs"
    log_every: Count = 1
    checkpoint_every: Count = 100
    keep_last: Count = 3
    tensorboard: bool = True


class RunConfig(Section):
    """A whole run. ``env`` is None only where a Trainer was handed an environment that has no registered name."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")]
    env: EnvironmentConfig | None
    trainer: TrainerConfig
    policy: dict[str, PolicyConfig]
    saving: SavingConfig = SavingConfig()
