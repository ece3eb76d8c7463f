"""The sections of a run configuration: their keys, types, bounds and defaults."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, ValidationInfo, field_validator

from warpdrive.step_graph import UseCudaGraph


def _whole_number(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _switch(value: object) -> object:
    """Read what YAML makes of a bare ``on`` and ``off``."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value


def _fraction_schedule(value: object) -> object:
    """Check a ``schedule.Schedule`` of values from 0 to 1."""
    pairs: list[Any] = value if isinstance(value, list) and value else [[0, value]]
    for pair in pairs:
        if not (isinstance(pair, list) and len(pair) == 2 and all(type(number) in (int, float) for number in pair)):
            raise ValueError("a number, or a list of pairs [environment steps, value]")
        if not 0.0 <= pair[1] <= 1.0:
            raise ValueError("numbers from 0 to 1")
    if not all(one[0] < other[0] for one, other in pairwise(pairs)):
        raise ValueError("environment steps that grow from pair to pair")
    return value


Count = Annotated[int, BeforeValidator(_whole_number), Field(ge=1)]
Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
Positive = Annotated[float, Field(gt=0.0)]
NonNegative = Annotated[float, Field(ge=0.0)]
FractionSchedule = Annotated[float | list[list[float]], PlainValidator(_fraction_schedule)]


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


class LearningConfig(Section):
    """What all learning algorithms share."""

    actions: ClassVar[Literal["any", "Discrete", "bounded Box"]] = "any"
    """Which action spaces the algorithm is for."""

    to_train: bool = True
    lr: Positive = 3e-4
    gamma: Fraction = 0.99
    model: FullyConnectedConfig = FullyConnectedConfig()


class OnPolicyConfig(LearningConfig):
    """What the algorithms share that learn from each rollout once."""

    gae_lambda: Fraction = 0.95
    entropy_coef: NonNegative = 0.01
    value_coef: NonNegative = 0.5
    max_grad_norm: Positive = 0.5
    normalize_advantage: bool = True


class OffPolicyConfig(LearningConfig):
    """What the algorithms share that learn from old experience, kept in a replay buffer."""

    buffer_size: Count = 100_000
    """How many steps of single agents are kept."""
    learning_starts: Annotated[int, BeforeValidator(_whole_number), Field(ge=0)] = 1000
    """Environment steps before the first gradient step."""
    batch_size: Count = 128
    gradient_steps: Count = 1
    """Gradient steps per update, that is per rollout of ``trainer.train_batch_size`` environment steps."""
    max_grad_norm: Positive = 10.0


class DQNConfig(OffPolicyConfig):
    """Deep Q-learning, for one choice among a few."""

    actions = "Discrete"
    algorithm: Literal["dqn"]
    epsilon: FractionSchedule = [[0, 1.0], [10_000, 0.05]]
    """Probability of a random choice, by environment steps."""
    repeat: Fraction = 0.0
    """Probability that a random choice is the one before again, so that exploration keeps its direction for a while."""
    double: bool = True
    """Whether the model chooses what the target network then judges."""
    tau: Fraction = 1.0
    """How far the target moves towards the model each time: 1 is all the way."""
    target_update_every: Count = 500
    """Gradient steps between two moves of the target."""


class A2CConfig(OnPolicyConfig):
    """Advantage actor-critic: one gradient step per rollout."""

    algorithm: Literal["a2c"]


class PPOConfig(OnPolicyConfig):
    """Proximal policy optimisation: several epochs of minibatches per rollout."""

    algorithm: Literal["ppo"]
    clip: Positive = 0.2
    epochs: Count = 4
    minibatches: Count = 4


class RandomConfig(Section):
    """Agents that act uniformly at random; nothing is trained."""

    algorithm: Literal["random"]


PolicyConfig = Annotated[A2CConfig | PPOConfig | DQNConfig | RandomConfig, Field(discriminator="algorithm")]

POLICY_CONFIGS: dict[str, type[Section]] = {
    "a2c": A2CConfig,
    "ppo": PPOConfig,
    "dqn": DQNConfig,
    "random": RandomConfig,
}


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
