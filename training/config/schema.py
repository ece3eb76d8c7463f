"""Sections of a run configuration: keys, types, bounds and defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationInfo,
    field_validator,
)

from warpdrive.errors import DefinitionError
from warpdrive.step_graph import UseCudaGraph
from warpdrive.training.config.values import (
    Count,
    Device,
    FractionSchedule,
    NonNegativeSchedule,
    OptionalPositiveSchedule,
    OptionalSchedule,
    OptionalUserFunction,
    Positive,
    PositiveSchedule,
    UserFunction,
    Width,
    backend_name,
    load_function,
    name_of_function,
    switch,
    whole_number,
)

Class = TypeVar("Class")


class Section(BaseModel):
    """Base class of configuration sections: immutable; unknown keys, wrong types and NaN are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class EnvironmentConfig(Section):
    """Environment name and the parameters of its constructor."""

    model_config = ConfigDict(extra="allow")

    name: str

    @property
    def parameters(self) -> dict[str, Any]:
        """Keyword arguments of the environment's constructor."""
        return dict(self.model_extra or {})


class EvaluationConfig(Section):
    """Evaluation of trained policies: at the end of the run and, with ``every``, during training."""

    num_episodes: Annotated[Count, Field(lt=2**31)] | None = None
    """Number of episodes. None: as many as fit a quarter of the training steps, at least 50 and at most 1000."""
    deterministic: bool = False
    """If True, agents take the most probable action instead of sampling."""
    every: Count | None = None
    """Number of updates, or environment steps, between two evaluations; None: no evaluation during training."""
    unit: Literal["updates", "env_steps"] = "updates"
    """Unit of ``every``. With ``env_steps``, the first update after each multiple is evaluated."""
    beside: bool = False
    """If True, training continues in another thread meanwhile; it waits before the next evaluation or checkpoint."""


class TrainerConfig(Section):
    """Amount of simulation and training. All sizes count environment steps (one step of one replica)."""

    num_envs: Annotated[Count, Field(lt=2**31)]
    train_batch_size: Count
    """Environment steps per update over all replicas: ``num_envs`` times the steps of a rollout."""
    total_steps: Count
    """Training ends with the first update that reaches this many environment steps."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    env_backend: Annotated[str, BeforeValidator(backend_name)] = "auto"
    rollout_device: Device | None = None
    """Device of environment steps and acting policies; None: that of ``env_backend``."""
    learner_device: Device | None = None
    """Device of the updates; None: that of the rollouts. On another device, rollouts and weights are copied through
    host memory, once per update each.
    """
    eval_device: Device | None = None
    """Device of evaluations; None: that of the rollouts."""
    copy_model: bool = False
    """If True, rollouts use a copy of the weights, and updates a copy of the rollout, even on the same device."""
    use_cuda_graph: Annotated[UseCudaGraph, BeforeValidator(switch)] = "auto"
    """Capture of one rollout step, policies and environment, as a CUDA graph to replay.

    ``auto``: on a GPU where capture works (else a warning names the cause); ``on``: an error if it does not; ``off``:
    no capture.
    """
    reset_pool_size: Count | None = None
    """Number of start states drawn at construction for replicas to restart from.

    None: one if ``initial_state`` is deterministic, else 500, or as many as fit 64 MiB.
    """
    stagger_episodes: bool = False
    """If True, replicas begin at random times of their first episodes, which the time limit therefore truncates
    earlier.

    Otherwise replicas whose episodes all last to the time limit stay in lockstep, and each rollout covers only one
    part of them. The incomplete first episodes do not count in mean returns and lengths.
    """
    torch_threads: Annotated[Count, Field(le=1024)] | None = None
    """Number of PyTorch's CPU threads in training and evaluation.

    None: one on a machine with up to four cores, else PyTorch's default. PyTorch's threads spin while they wait for
    each other, so two of them on two cores take several times the CPU time as soon as another program runs. The
    rounding of PyTorch's sums depends on the number of threads: a training run is bitwise reproducible on machines with
    different numbers of cores only if this is set. (The simulation does not depend on the number of cores.)
    """
    evaluation: EvaluationConfig = EvaluationConfig()
    sync: Literal["gradients", "rollouts"] = "gradients"
    """Synchronisation of several processes.

    ``gradients``: each process computes the gradients of its own experience, which are summed before every optimizer
    step; ``rollouts``: rank 0 gathers the experience, updates alone, and broadcasts the models.
    """
    dedicated_learner: bool = False
    """If True, rank 0 of several only trains, on the previous rollout, while the other ranks collect the next one.

    Requires ``sync: rollouts``. The acting policy is then one update older. A single process alternates as usual.
    """
    process_timeout: Positive = 1800.0
    """Timeout in seconds for a process that is alive but does not respond; a dead one is noticed within a minute."""
    check_weights: bool = False
    """If True, weights are compared across all processes after each update: a debugging aid."""
    gpu_memory_fraction: Annotated[Positive, Field(le=1.0)] | None = None
    """Fraction of a GPU's memory that a process may allocate; with it, several processes may share a GPU."""

    @field_validator("train_batch_size")
    @classmethod
    def _divisible(cls, size: int, info: ValidationInfo) -> int:
        num_envs = info.data.get("num_envs")
        if num_envs and size % num_envs:
            works = max(1, round(size / num_envs)) * num_envs
            raise ValueError(f"a multiple of trainer.num_envs ({num_envs}); the nearest is {works}")
        return size

    @field_validator("dedicated_learner")
    @classmethod
    def _gathers(cls, dedicated: bool, info: ValidationInfo) -> bool:
        if dedicated and info.data.get("sync") != "rollouts":
            raise ValueError("trainer.sync: rollouts with it, as process 0 has no experience of its own")
        return dedicated

    @property
    def rollout_length(self) -> int:
        """Steps of each replica per update."""
        return self.train_batch_size // self.num_envs


class PerceptronConfig(Section):
    """Multi-layer perceptron."""

    type: Literal["fully_connected"] = "fully_connected"
    hidden: list[Width] = [64, 64]
    activation: Literal["tanh", "relu"] = "tanh"
    scale_observations: bool = False
    """If True, elements that the observation space bounds are scaled to [-1, 1] first."""
    normalize_observations: bool = False
    """If True, observations are standardised by their running mean and variance over all rollouts so far."""
    initialization: Literal["orthogonal", "xavier", "uniform"] = "orthogonal"
    """Initialization of the weights."""


class ActionsConfig(Section):
    """Interpretation of a model's outputs for actions in a Box."""

    normalize_actions: bool = True
    """If True, means and standard deviations are in units of half the range of the Box, relative to its centre."""
    squash_actions: bool = False
    """If True, samples are squashed to the Box by the hyperbolic tangent, instead of clipped."""


class GaussianConfig(ActionsConfig):
    """Standard deviations of actions in a Box."""

    initial_log_std: Annotated[float, Field(ge=-20.0, le=2.0)] = 0.0
    """Initial logarithm of the standard deviations."""
    state_dependent_std: bool = False
    """If True, standard deviations are outputs of the network; else they are separate parameters."""


class FullyConnectedConfig(PerceptronConfig, GaussianConfig):
    """Multi-layer perceptrons for the policy and the value function."""

    trunk: Literal["separate", "shared"] = "separate"
    """``separate``: policy and value function have separate hidden layers; ``shared``: only separate last layers."""


class ConvolutionsConfig(Section):
    """Stack of convolutions followed by a multi-layer perceptron."""

    type: Literal["convolutional"]
    filters: list[Width] = [16, 32]
    """Number of output channels of each convolution."""
    kernel_size: Width = 3
    stride: Width = 2
    hidden: list[Width] = [64]
    """Widths of the perceptron's hidden layers, after the convolutions."""
    activation: Literal["tanh", "relu"] = "relu"
    scale_observations: bool = False
    """If True, elements that the observation space bounds are scaled to [-1, 1] first."""
    normalize_observations: bool = False
    """If True, observations are standardised by their running mean and variance over all rollouts so far."""
    initialization: Literal["orthogonal", "xavier", "uniform"] = "orthogonal"
    """Initialization of the weights."""


class ConvolutionalConfig(ConvolutionsConfig, GaussianConfig):
    """Convolutional networks for the policy and the value function."""

    trunk: Literal["separate", "shared"] = "separate"
    """``separate``: policy and value function have layers of their own; ``shared``: only separate last layers."""


class RecurrentConfig(GaussianConfig):
    """Multi-layer perceptron followed by recurrent units."""

    hidden: list[Width] = [64]
    """Widths of the perceptron's layers."""
    units: Width = 64
    """Number of recurrent units."""
    activation: Literal["tanh", "relu"] = "tanh"
    """Activation of the perceptron."""
    scale_observations: bool = False
    """If True, elements that the observation space bounds are scaled to [-1, 1] first."""
    normalize_observations: bool = False
    """If True, observations are standardised by their running mean and variance over all rollouts so far."""
    initialization: Literal["orthogonal", "xavier", "uniform"] = "orthogonal"
    """Initialization of the weights."""
    trunk: Literal["separate", "shared"] = "shared"
    """``separate``: policy and value function have perceptrons and units of their own; ``shared``: only last layers."""


class GRUConfig(RecurrentConfig):
    """Gated recurrent units."""

    type: Literal["gru"]


class LSTMConfig(RecurrentConfig):
    """Long short-term memory."""

    type: Literal["lstm"]


class CustomModelConfig(ActionsConfig):
    """User-defined model; additional keys are parameters of its constructor."""

    model_config = ConfigDict(extra="allow")

    type: str
    """Name registered with ``wd.register_model``, ``package.module:Class`` or ``path/to/file.py:Class``."""
    check_device: bool = False
    """If True, devices, dtypes and shapes are checked in every call, see ``wd.CheckDevice``."""

    @property
    def parameters(self) -> dict[str, Any]:
        """Arguments of the constructor besides the observation space and the number of logits."""
        return dict(self.model_extra or {})


MODEL_CONFIGS: dict[str, type[Section]] = {
    "fully_connected": FullyConnectedConfig,
    "convolutional": ConvolutionalConfig,
    "gru": GRUConfig,
    "lstm": LSTMConfig,
}


def _model_type(value: Any) -> str:
    """Return the discriminator of a model section: ``fully_connected`` by default, ``custom`` for unknown types."""
    given = value.get("type", "fully_connected") if isinstance(value, dict) else getattr(value, "type", value)
    return given if isinstance(given, str) and given in MODEL_CONFIGS else "custom"


ModelConfig = Annotated[
    Annotated[FullyConnectedConfig, Tag("fully_connected")]
    | Annotated[ConvolutionalConfig, Tag("convolutional")]
    | Annotated[GRUConfig, Tag("gru")]
    | Annotated[LSTMConfig, Tag("lstm")]
    | Annotated[CustomModelConfig, Tag("custom")],
    Discriminator(_model_type),
]


def _off_policy_model_type(value: Any) -> str:
    given = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return "convolutional" if given == "convolutional" else "fully_connected"


OffPolicyModelConfig = Annotated[
    Annotated[PerceptronConfig, Tag("fully_connected")] | Annotated[ConvolutionsConfig, Tag("convolutional")],
    Discriminator(_off_policy_model_type),
]


class LearningConfig(Section):
    """Keys that all learning algorithms share. Every coefficient may follow a schedule."""

    actions: ClassVar[Literal["any", "Discrete", "bounded Box"]] = "any"
    """Action spaces that the algorithm supports."""

    @property
    def learns_from_the_past(self) -> bool:
        """True if an update uses more than the last rollout."""
        return False

    to_train: bool = True
    load: str | None = None
    """Run or checkpoint that the policy is initialised from: the actor, without critics and optimizer state."""
    load_tag: str | None = None
    """Policy tag in ``load``; None: the policy's own tag."""
    lr: PositiveSchedule = 3e-4
    gamma: FractionSchedule = 0.99

    @field_validator("load_tag")
    @classmethod
    def _loads(cls, tag: str | None, info: ValidationInfo) -> str | None:
        if tag is not None and info.data.get("load") is None:
            raise ValueError("load with it, the run or checkpoint that has this policy tag")
        return tag

    @property
    def schedules(self) -> dict[str, Any]:
        """Coefficients that change during training, by name."""
        ours = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: value for name, value in ours.items() if isinstance(value, list | dict)}


class ReturnsConfig(LearningConfig):
    """Keys of the algorithms that learn from returns."""

    returns_after_leaving: bool = True
    """If True, returns of an agent that leaves the episode include its rewards until the end of the episode.

    Otherwise they end when the agent leaves.
    """


class OnPolicyConfig(ReturnsConfig):
    """Keys of the on-policy algorithms."""

    model: ModelConfig = FullyConnectedConfig()
    gae_lambda: FractionSchedule = 0.95
    entropy_coef: NonNegativeSchedule = 0.01
    value_coef: NonNegativeSchedule = 0.5
    max_grad_norm: PositiveSchedule = 0.5
    normalize_advantage: bool = True
    normalize_returns: bool = False
    """If True, values are estimated in units of the running mean and standard deviation of returns."""
    value_loss: Literal["mse", "huber"] = "mse"
    """Loss of value errors: half the squared error, or linear beyond ``huber_delta``."""
    huber_delta: PositiveSchedule = 10.0
    """Threshold of the Huber loss, in units of the value network."""
    function: OptionalUserFunction = None
    """Class that replaces the algorithm's and derives from it (``wd.PPO``, ``wd.A2C``); None: the algorithm's own."""

    def derived_from(self, base: type[Class]) -> type[Class]:
        """Return the class of the algorithm: ``base``, or the user's.

        Raises:
            DefinitionError: there is no such class, or it is not derived from ``base``.
        """
        if self.function is None:
            return base
        found = load_function(self.function)
        if not (isinstance(found, type) and issubclass(found, base)):
            raise DefinitionError(f"'{self.function}' is {found!r}, expected a class derived from wd.{base.__name__}")
        return found


class OffPolicyConfig(ReturnsConfig):
    """Keys of the off-policy algorithms, which learn from a replay buffer."""

    model: OffPolicyModelConfig = PerceptronConfig()
    buffer_size: Count = 100_000
    """Capacity of the replay buffer, in steps of single agents."""
    learning_starts: Annotated[int, BeforeValidator(whole_number), Field(ge=0, lt=2**63)] = 1000
    """Environment steps before the first gradient step. Until then actions are uniformly random (DQN: by
    ``epsilon``).
    """
    batch_size: Count = 128
    gradient_steps: Count = 1
    """Gradient steps per update, that is, per rollout of ``trainer.train_batch_size`` environment steps."""
    n_step: Annotated[Count, Field(le=10_000)] = 1
    """Number of rewards summed before bootstrapping."""
    max_grad_norm: PositiveSchedule = 10.0

    @property
    def learns_from_the_past(self) -> bool:
        """See ``LearningConfig``."""
        return True


class DQNConfig(OffPolicyConfig):
    """Deep Q-learning, for a single Discrete action."""

    actions = "Discrete"
    algorithm: Literal["dqn"]
    epsilon: FractionSchedule = [[0, 1.0], [10_000, 0.05]]  # type: ignore[assignment]
    """Probability of a random action, by environment steps."""
    repeat: FractionSchedule = 0.0
    """Probability that a random action repeats the previous one, so that exploration is correlated in time."""
    double: bool = True
    """If True, the model selects the action that the target network evaluates (double Q-learning)."""
    tau: FractionSchedule = 1.0
    """Interpolation factor of a target network update: 1 copies the model."""
    target_update_every: Count = 500
    """Gradient steps between two target network updates."""


class OrnsteinUhlenbeckConfig(Section):
    """Ornstein-Uhlenbeck noise, correlated in time; in units of half the range of an action."""

    type: Literal["ornstein_uhlenbeck"]
    std: NonNegativeSchedule = 0.2
    """Standard deviation of the increment of each step."""
    decay: FractionSchedule = 0.15
    """Fraction of the noise that decays in a step."""


class GaussianNoiseConfig(Section):
    """Gaussian noise, independent in each step; in units of half the range of an action."""

    type: Literal["gaussian"] = "gaussian"
    std: NonNegativeSchedule = 0.1


NoiseConfig = Annotated[GaussianNoiseConfig | OrnsteinUhlenbeckConfig, Field(discriminator="type")]


class ContinuousConfig(OffPolicyConfig):
    """Keys of the off-policy algorithms for actions in a Box."""

    actions = "bounded Box"
    tau: FractionSchedule = 0.005
    """Interpolation factor of the target network updates, in each gradient step."""


class DDPGConfig(ContinuousConfig):
    """Deep deterministic policy gradient."""

    algorithm: Literal["ddpg"]
    noise: NoiseConfig = GaussianNoiseConfig()


class TD3Config(ContinuousConfig):
    """Twin delayed deep deterministic policy gradient."""

    algorithm: Literal["td3"]
    noise: NoiseConfig = GaussianNoiseConfig()
    policy_delay: Count = 2
    """Critic gradient steps per update of the policy and the target networks."""
    target_noise: NonNegativeSchedule = 0.2
    """Standard deviation of the noise added to the target policy's actions, in units of half their range."""
    target_noise_clip: NonNegativeSchedule = 0.5


class SACConfig(ContinuousConfig):
    """Soft actor-critic with a learned temperature."""

    algorithm: Literal["sac"]
    initial_temperature: Positive = 1.0
    target_entropy: OptionalSchedule = None
    """Target entropy in nats of actions from -1 to 1; None: minus the number of components of an action."""


class ReinforceConfig(ReturnsConfig):
    """Policy gradient with the returns of whole episodes, one gradient step per rollout."""

    algorithm: Literal["reinforce"]
    entropy_coef: NonNegativeSchedule = 0.0
    max_grad_norm: PositiveSchedule = 0.5
    normalize_returns: bool = True
    """If True, the returns of each rollout are standardised."""
    model: ModelConfig = FullyConnectedConfig()


class A2CConfig(OnPolicyConfig):
    """Advantage actor-critic: one gradient step per rollout."""

    algorithm: Literal["a2c"]
    steps_per_update: Count | None = None
    """Steps of each replica per update, a multiple of the rollout length; None: the rollout length.

    If it is larger, replicas form groups, updates use one group each in turn, and V-trace corrects for the older
    behaviour policies.
    """
    rho_clip: PositiveSchedule = 1.0
    """Clipping threshold of the importance ratio in the temporal differences of V-trace (rho-bar)."""
    c_clip: PositiveSchedule = 1.0
    """Clipping threshold of the importance ratio in the trace coefficients of V-trace (c-bar)."""

    @property
    def learns_from_the_past(self) -> bool:
        """See ``LearningConfig``."""
        return self.steps_per_update is not None


class PPOConfig(OnPolicyConfig):
    """Proximal policy optimisation: several epochs of minibatches per rollout."""

    algorithm: Literal["ppo"]
    clip: PositiveSchedule = 0.2
    value_clip: OptionalPositiveSchedule = None
    """Clipping range of the change of a value estimate per update; None: no clipping."""
    target_kl: OptionalPositiveSchedule = None
    """Target KL divergence in nats: the update ends once it exceeds 1.5 times this; None: no early stopping."""
    centralized_critic: bool = False
    """If True, values are estimated from more than the policy's observations (MAPPO)."""
    critic_input: Literal["auto", "global_state", "observations"] = "auto"
    """Input of the centralised critic: the environment's ``global_state``, or the observations of all agents.

    ``auto``: the global state if the environment has one.
    """
    recurrent_critic: bool = False
    """If True, the centralised critic is recurrent: with the model's recurrent units, or 64 GRU units if it has
    none.
    """
    critic_lr: OptionalPositiveSchedule = None
    """Learning rate of the centralised critic; None: ``lr``."""
    critic_max_grad_norm: OptionalPositiveSchedule = None
    """Gradient norm limit of the centralised critic; None: clipped with the policy's gradient or, with ``critic_lr``,
    to the same limit.
    """
    epochs: Count = 4
    minibatches: Count = 4

    @property
    def critic_learns_apart(self) -> bool:
        """True if the centralised critic has an optimizer of its own."""
        return self.critic_lr is not None or self.critic_max_grad_norm is not None


class CustomConfig(LearningConfig):
    """User-defined update function; additional keys are its parameters. See docs/algorithms.md."""

    model_config = ConfigDict(extra="allow")

    algorithm: Literal["custom"]
    function: UserFunction
    model: ModelConfig = FullyConnectedConfig()
    population: Annotated[Count, Field(le=65536)] | None = None
    """Number of members of the population, each with its own parameters and an equal slice of the replicas; None:
    one.
    """

    @property
    def parameters(self) -> dict[str, Any]:
        """Arguments of the function besides the policy and the rollout."""
        return dict(self.model_extra or {})

    def loaded(self) -> Callable[..., Any]:
        """Return the function, or the class of a callable object.

        Raises:
            DefinitionError: it cannot be found.
        """
        return load_function(self.function)


class RandomConfig(Section):
    """Agents that act uniformly at random; nothing is trained."""

    algorithm: Literal["random"]

    @property
    def description(self) -> str:
        """Description of the agents' behaviour."""
        return "at random"


class SelfPlayConfig(Section):
    """Agents that act as past versions of a policy."""

    algorithm: Literal["self_play"]
    of: str
    """Policy tag whose past versions act. It is trained, and its agents have the same observation and action spaces."""
    snapshot_every: Count = 10
    """Updates between two snapshots; the first snapshot is the initial policy."""
    pool_size: Count = 10
    """Number of snapshots kept; a new one replaces the oldest."""
    recency: Annotated[Positive, Field(le=1.0)] = 1.0
    """Probability of a snapshot relative to the next newer one: 1 is uniform, less prefers recent ones."""
    at_once: Count = 4
    """Number of snapshots that act at the same time, each in a part of the replicas; drawn anew for each rollout."""

    @property
    def description(self) -> str:
        """Description of the agents' behaviour."""
        return f"as past versions of '{self.of}'"


class FunctionConfig(Section):
    """Agents controlled by a user-defined function, see docs/self_play.md."""

    algorithm: Literal["function"]
    function: UserFunction

    @property
    def description(self) -> str:
        """Description of the agents' behaviour."""
        return f"as {name_of_function(self.function)} says"

    def loaded(self) -> Callable[..., Any]:
        """Return the function.

        Raises:
            DefinitionError: it cannot be found.
        """
        return load_function(self.function)


PolicyConfig = Annotated[
    ReinforceConfig
    | A2CConfig
    | PPOConfig
    | DQNConfig
    | DDPGConfig
    | TD3Config
    | SACConfig
    | CustomConfig
    | RandomConfig
    | SelfPlayConfig
    | FunctionConfig,
    Field(discriminator="algorithm"),
]

POLICY_CONFIGS: dict[str, type[Section]] = {
    "reinforce": ReinforceConfig,
    "a2c": A2CConfig,
    "ppo": PPOConfig,
    "dqn": DQNConfig,
    "ddpg": DDPGConfig,
    "td3": TD3Config,
    "sac": SACConfig,
    "custom": CustomConfig,
    "random": RandomConfig,
    "self_play": SelfPlayConfig,
    "function": FunctionConfig,
}


def evaluation_metrics(policies: Mapping[str, Section]) -> list[str]:
    """Return the names of the evaluation metrics, any of which may be ``best_metric``."""
    of_tags = [f"eval/{name}/{tag}" for name in ("episodic_return", "episodic_return_std") for tag in policies]
    elo = [f"eval/elo/{section.of}" for section in policies.values() if isinstance(section, SelfPlayConfig)]
    return [*of_tags, *dict.fromkeys(elo), "eval/episodic_length", "eval/terminated_fraction"]


class WandbConfig(Section):
    """Project of Weights & Biases that metrics are also logged to."""

    project: str
    entity: str | None = None
    """Team or user; None: the logged-in one."""
    group: str | None = None
    tags: list[str] = []
    mode: Literal["online", "offline", "disabled"] = "online"


class SavingConfig(Section):
    """Outputs of a run and their intervals, in updates."""

    folder: str = "runs"
    log_every: Count = 1
    checkpoint_every: Count = 100
    keep_last: Count = 3
    keep_every: Count | None = None
    """Environment steps between checkpoints that are never deleted (the first after each multiple); None: none."""
    keep_best: bool = True
    """If True, the checkpoint with the best evaluation is also kept; ``checkpoints/best`` names it."""
    best_metric: str | None = None
    """Evaluation metric of the best checkpoint.

    None: the return of the first trained policy, or its Elo rating if it plays against its past versions.
    """
    best_mode: Literal["max", "min"] = "max"
    """Direction of the best metric: maximum or minimum."""
    tensorboard: bool = True
    wandb: WandbConfig | None = None
    """Weights & Biases logging; None: off."""


class RunConfig(Section):
    """Configuration of a whole run. ``env`` is None only for a Trainer of an environment without registered name."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$")]
    env: EnvironmentConfig | None
    trainer: TrainerConfig
    policy: dict[str, PolicyConfig]
    saving: SavingConfig = SavingConfig()

    @property
    def best_metric(self) -> str:
        """Evaluation metric of the best checkpoint."""
        if self.saving.best_metric:
            return self.saving.best_metric
        trained = [tag for tag, policy in self.policy.items() if getattr(policy, "to_train", False)]
        tag = next(iter(trained or self.policy))
        of_pools = {policy.of for policy in self.policy.values() if isinstance(policy, SelfPlayConfig)}
        return f"eval/elo/{tag}" if tag in of_pools else f"eval/episodic_return/{tag}"

    def policy_over_the_run(self, tag: str) -> PolicyConfig:
        """Return a policy's section with ``steps`` of open-ended schedules set to the whole run.

        ``policy`` leaves ``steps`` out: such schedules follow ``trainer.total_steps`` when a run is extended.
        """
        section = self.policy[tag]
        return type(section).model_validate(_with_steps(section.model_dump(), self.trainer.total_steps))


def _with_steps(section: Any, steps: Any) -> Any:
    """Set ``steps`` in the schedules of a policy's section and its nested sections."""
    if not isinstance(section, dict):
        return section
    if "schedule" in section:
        return {"steps": steps, **section}
    return {key: _with_steps(value, steps) for key, value in section.items()}
