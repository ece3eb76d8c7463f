"""The sections of a run configuration: their keys, types, bounds and defaults."""

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
from warpdrive.training.config_values import (
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
    load_function,
    name_of_function,
    switch,
    whole_number,
)

Class = TypeVar("Class")


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
    """How trained policies are evaluated: when the run has ended and, with ``every``, while it trains."""

    num_episodes: Annotated[Count, Field(lt=2**31)] | None = None
    """None: as many as take a quarter of the steps of training, but at least 50 and at most 1000."""
    deterministic: bool = False
    """Whether agents take the most probable action instead of sampling."""
    every: Count | None = None
    """How many updates, or environment steps, come between two evaluations; None: there are none in training."""
    unit: Literal["updates", "env_steps"] = "updates"
    """What ``every`` counts. Of environment steps, the first update after each multiple is evaluated."""
    beside: bool = False
    """Whether training goes on meanwhile, in another thread: it waits before the next evaluation or checkpoint."""


class TrainerConfig(Section):
    """How much is simulated and trained. All sizes count environment steps (one step of one replica)."""

    num_envs: Annotated[Count, Field(lt=2**31)]
    train_batch_size: Count
    """Environment steps per update over all replicas: ``num_envs`` times the steps of a rollout."""
    total_steps: Count
    """Training ends with the first update that reaches this many environment steps."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    env_backend: Literal["auto", "cpu", "numba", "pycuda"] = "auto"
    rollout_device: Device | None = None
    """Where the environment is stepped and policies act in it; None: where ``env_backend`` is."""
    learner_device: Device | None = None
    """Where policies are trained; None: where the rollouts are. Elsewhere, rollouts and weights go through host memory,
    once per update each."""
    eval_device: Device | None = None
    """Where policies are evaluated; None: where the rollouts are."""
    copy_model: bool = False
    """Whether rollouts have a copy of the weights, and policies learn from a copy of the rollout, on one device too."""
    use_cuda_graph: Annotated[UseCudaGraph, BeforeValidator(switch)] = "auto"
    """Whether one step of a rollout, policies and environment, is captured as a CUDA graph and replayed.

    ``auto``: on a GPU where that works (else a warning names the cause); ``on``: or an error; ``off``: no.
    """
    reset_pool_size: Count | None = None
    """How many start states are drawn at construction for replicas to restart from.

    None: one where ``initial_state`` returns the same twice, else 500, or as many as 64 MiB hold.
    """
    stagger_episodes: bool = False
    """Whether replicas begin at random times of their first episodes, which the time limit then ends earlier.

    Otherwise replicas whose episodes all last to the time limit stay in step, and each rollout has but one part of
    them. The first episodes, which are not whole, count in no mean return or length.
    """
    torch_threads: Annotated[Count, Field(le=1024)] | None = None
    """Threads that PyTorch uses on the CPU in training and evaluation.

    None: one on a machine with up to four cores, else what PyTorch chooses. PyTorch's threads spin while they wait for
    each other, so two of them on two cores take several times the processor time as soon as another program runs.
    PyTorch's sums round differently with another number of threads: a training run is the same bit for bit on machines
    with different numbers of cores only where this is set. (The simulation is the same whatever the cores.)
    """
    evaluation: EvaluationConfig = EvaluationConfig()
    sync: Literal["gradients", "rollouts"] = "gradients"
    """How several processes learn together, where there are several.

    ``gradients``: each computes the gradients of its own experience, and their sums are what every optimizer gets;
    ``rollouts``: process 0 gathers the experience, updates alone, and sends everybody the models.
    """
    dedicated_learner: bool = False
    """Whether process 0 of several only learns, from the last rollout, while the others collect the next one.

    For ``sync: rollouts``. What acts is then one update older. A process alone does both in turns, as always.
    """
    process_timeout: Positive = 1800.0
    """Seconds that processes wait for one that is alive but does not come; one that is dead is noticed in a minute."""
    check_weights: bool = False
    """Whether weights are compared over all processes after each update: a debugging aid."""
    gpu_memory_fraction: Annotated[Positive, Field(le=1.0)] | None = None
    """The part of a GPU's memory that a process may use; with it, several processes may share a GPU."""

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
        """Steps that every replica takes between two updates."""
        return self.train_batch_size // self.num_envs


class PerceptronConfig(Section):
    """A multi-layer perceptron."""

    type: Literal["fully_connected"] = "fully_connected"
    hidden: list[Width] = [64, 64]
    activation: Literal["tanh", "relu"] = "tanh"
    scale_observations: bool = False
    """Whether what the observation space bounds is scaled to [-1, 1] first."""
    normalize_observations: bool = False
    """Whether observations are standardised by their mean and variance in all rollouts so far."""
    initialization: Literal["orthogonal", "xavier", "uniform"] = "orthogonal"
    """How weights begin."""


class ActionsConfig(Section):
    """What becomes of a model's outputs where actions are in a Box."""

    normalize_actions: bool = True
    """Whether means and standard deviations are in units of half the range of a Box, from its centre on."""
    squash_actions: bool = False
    """Whether what is drawn is squashed to the Box by the hyperbolic tangent, instead of clipped."""


class GaussianConfig(ActionsConfig):
    """Standard deviations of actions in a Box."""

    initial_log_std: Annotated[float, Field(ge=-20.0, le=2.0)] = 0.0
    """What the logarithms of the standard deviations begin at."""
    state_dependent_std: bool = False
    """Whether they depend on the observation, or are parameters of their own."""


class FullyConnectedConfig(PerceptronConfig, GaussianConfig):
    """A multi-layer perceptron for the policy and another for the value."""

    trunk: Literal["separate", "shared"] = "separate"
    """Whether policy and value have hidden layers of their own, or the last layer only."""


class ConvolutionsConfig(Section):
    """A stack of convolutions and a multi-layer perceptron."""

    type: Literal["convolutional"]
    filters: list[Width] = [16, 32]
    """How many channels each convolution makes."""
    kernel_size: Width = 3
    stride: Width = 2
    hidden: list[Width] = [64]
    """The perceptron's hidden layers, after the convolutions."""
    activation: Literal["tanh", "relu"] = "relu"
    scale_observations: bool = False
    """Whether what the observation space bounds is scaled to [-1, 1] first."""
    normalize_observations: bool = False
    """Whether observations are standardised by their mean and variance in all rollouts so far."""
    initialization: Literal["orthogonal", "xavier", "uniform"] = "orthogonal"
    """How weights begin."""


class ConvolutionalConfig(ConvolutionsConfig, GaussianConfig):
    """The same for the policy, and others for the value."""

    trunk: Literal["separate", "shared"] = "separate"
    """Whether policy and value have convolutions and hidden layers of their own, or the last layer only."""


class RecurrentConfig(GaussianConfig):
    """A multi-layer perceptron, then units that remember what was seen in the episode."""

    hidden: list[Width] = [64]
    """The perceptron's layers."""
    units: Width = 64
    """How many remember."""
    activation: Literal["tanh", "relu"] = "tanh"
    """Of the perceptron."""
    scale_observations: bool = False
    """Whether what the observation space bounds is scaled to [-1, 1] first."""
    normalize_observations: bool = False
    """Whether observations are standardised by their mean and variance in all rollouts so far."""
    initialization: Literal["orthogonal", "xavier", "uniform"] = "orthogonal"
    """How weights begin."""
    trunk: Literal["separate", "shared"] = "shared"
    """Whether policy and value have a perceptron and units of their own, or the last layer only."""


class GRUConfig(RecurrentConfig):
    """Gated recurrent units."""

    type: Literal["gru"]


class LSTMConfig(RecurrentConfig):
    """Long short-term memory."""

    type: Literal["lstm"]


class CustomModelConfig(ActionsConfig):
    """A model of the user's, with keys of its own: the parameters of its constructor."""

    model_config = ConfigDict(extra="allow")

    type: str
    """A name given to ``wd.register_model``, ``package.module:Class`` or ``path/to/file.py:Class``."""
    check_device: bool = False
    """Whether devices, dtypes and shapes are checked in every call, see ``wd.CheckDevice``."""

    @property
    def parameters(self) -> dict[str, Any]:
        """What the constructor takes besides the observation space and the number of logits."""
        return dict(self.model_extra or {})


MODEL_CONFIGS: dict[str, type[Section]] = {
    "fully_connected": FullyConnectedConfig,
    "convolutional": ConvolutionalConfig,
    "gru": GRUConfig,
    "lstm": LSTMConfig,
}


def _model_type(value: Any) -> str:
    """Return the type of a model's section, which may leave it out: ``custom`` for those that are not ours."""
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
    """What all learning algorithms share. Every coefficient may follow a schedule."""

    actions: ClassVar[Literal["any", "Discrete", "bounded Box"]] = "any"
    """Which action spaces the algorithm is for."""

    @property
    def learns_from_the_past(self) -> bool:
        """Whether an update learns from more than the last rollout."""
        return False

    to_train: bool = True
    load: str | None = None
    """A run or checkpoint whose policy this one begins as: what acts, without critics and the state of optimizers."""
    load_tag: str | None = None
    """Its policy tag there; None: the same one."""
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
        """The coefficients that change while a run trains, by name."""
        ours = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: value for name, value in ours.items() if isinstance(value, list | dict)}


class ReturnsConfig(LearningConfig):
    """What the algorithms share that learn from returns."""

    returns_after_leaving: bool = True
    """Whether the returns of an agent that leaves the episode go on to its end, with what the agent is paid until then.

    Otherwise they end where it leaves.
    """


class OnPolicyConfig(ReturnsConfig):
    """What the algorithms share that learn from each rollout once."""

    model: ModelConfig = FullyConnectedConfig()
    gae_lambda: FractionSchedule = 0.95
    entropy_coef: NonNegativeSchedule = 0.01
    value_coef: NonNegativeSchedule = 0.5
    max_grad_norm: PositiveSchedule = 0.5
    normalize_advantage: bool = True
    normalize_returns: bool = False
    """Whether values are estimated in units of the returns' running mean and standard deviation."""
    value_loss: Literal["mse", "huber"] = "mse"
    """What errors of value estimates count: half their square, or linearly beyond ``huber_delta``."""
    huber_delta: PositiveSchedule = 10.0
    """In units of the value network."""
    function: OptionalUserFunction = None
    """A class derived from that of the algorithm (``wd.PPO``, ``wd.A2C``) that takes its place; None: there is none."""

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
    """What the algorithms share that learn from old experience, kept in a replay buffer."""

    model: OffPolicyModelConfig = PerceptronConfig()
    buffer_size: Count = 100_000
    """How many steps of single agents are kept."""
    learning_starts: Annotated[int, BeforeValidator(whole_number), Field(ge=0, lt=2**63)] = 1000
    """Environment steps before the first gradient step. Until then actions are uniformly random (of DQN: as ``epsilon``
    says)."""
    batch_size: Count = 128
    gradient_steps: Count = 1
    """Gradient steps per update, that is per rollout of ``trainer.train_batch_size`` environment steps."""
    n_step: Annotated[Count, Field(le=10_000)] = 1
    """Rewards that are added up before an estimate stands for what follows."""
    max_grad_norm: PositiveSchedule = 10.0

    @property
    def learns_from_the_past(self) -> bool:
        """See ``LearningConfig``."""
        return True


class DQNConfig(OffPolicyConfig):
    """Deep Q-learning, for one choice among a few."""

    actions = "Discrete"
    algorithm: Literal["dqn"]
    epsilon: FractionSchedule = [[0, 1.0], [10_000, 0.05]]  # type: ignore[assignment]
    """Probability of a random choice, by environment steps."""
    repeat: FractionSchedule = 0.0
    """Probability that a random choice is the one before again, so that exploration keeps its direction for a while."""
    double: bool = True
    """Whether the model chooses what the target network then judges."""
    tau: FractionSchedule = 1.0
    """How far the target moves towards the model each time: 1 is all the way."""
    target_update_every: Count = 500
    """Gradient steps between two moves of the target."""


class OrnsteinUhlenbeckConfig(Section):
    """Noise that goes on in one direction for a while; in units of half the range of an action."""

    type: Literal["ornstein_uhlenbeck"]
    std: NonNegativeSchedule = 0.2
    """Of what is added in each step."""
    decay: FractionSchedule = 0.15
    """The part of the noise that is gone after a step."""


class GaussianNoiseConfig(Section):
    """Independent noise in each step; in units of half the range of an action."""

    type: Literal["gaussian"] = "gaussian"
    std: NonNegativeSchedule = 0.1


NoiseConfig = Annotated[GaussianNoiseConfig | OrnsteinUhlenbeckConfig, Field(discriminator="type")]


class ContinuousConfig(OffPolicyConfig):
    """What the algorithms share that learn the value of actions in a Box."""

    actions = "bounded Box"
    tau: FractionSchedule = 0.005
    """How far the targets move towards what they follow in each gradient step."""


class DDPGConfig(ContinuousConfig):
    """Deep deterministic policy gradient."""

    algorithm: Literal["ddpg"]
    noise: NoiseConfig = GaussianNoiseConfig()


class TD3Config(ContinuousConfig):
    """Twin delayed deep deterministic policy gradient."""

    algorithm: Literal["td3"]
    noise: NoiseConfig = GaussianNoiseConfig()
    policy_delay: Count = 2
    """Gradient steps of the critics for one of the policy and the targets."""
    target_noise: NonNegativeSchedule = 0.2
    """Standard deviation of what is added to the target policy's actions, in units of half their range."""
    target_noise_clip: NonNegativeSchedule = 0.5


class SACConfig(ContinuousConfig):
    """Soft actor-critic, with a temperature that is learned."""

    algorithm: Literal["sac"]
    initial_temperature: Positive = 1.0
    target_entropy: OptionalSchedule = None
    """In nats, of actions as numbers from -1 to 1; None: minus the number of an action's components."""


class ReinforceConfig(ReturnsConfig):
    """Policy gradient with the returns of whole episodes, one gradient step per rollout."""

    algorithm: Literal["reinforce"]
    entropy_coef: NonNegativeSchedule = 0.0
    max_grad_norm: PositiveSchedule = 0.5
    normalize_returns: bool = True
    """Whether the returns of each rollout are standardised."""
    model: ModelConfig = FullyConnectedConfig()


class A2CConfig(OnPolicyConfig):
    """Advantage actor-critic: one gradient step per rollout."""

    algorithm: Literal["a2c"]
    steps_per_update: Count | None = None
    """Steps of each of its replicas that an update learns from, a multiple of those of a rollout; None: these.

    If there are more, replicas form groups, updates learn from one group each in turn, and V-trace corrects that older
    policies acted.
    """
    rho_clip: PositiveSchedule = 1.0
    """Most that the ratio of probabilities, now and then, counts in what is learned of a step."""
    c_clip: PositiveSchedule = 1.0
    """Most that it counts in what the steps before learn of it."""

    @property
    def learns_from_the_past(self) -> bool:
        """See ``LearningConfig``."""
        return self.steps_per_update is not None


class PPOConfig(OnPolicyConfig):
    """Proximal policy optimisation: several epochs of minibatches per rollout."""

    algorithm: Literal["ppo"]
    clip: PositiveSchedule = 0.2
    value_clip: OptionalPositiveSchedule = None
    """How far an update may move a value estimate before moving it further gains nothing; None: as far as it likes."""
    target_kl: OptionalPositiveSchedule = None
    """The update ends when the policy is 1.5 times as far from the one that acted, in nats; None: it does not."""
    centralized_critic: bool = False
    """Whether values are estimated from more than the policy sees (MAPPO)."""
    critic_input: Literal["auto", "global_state", "observations"] = "auto"
    """What the centralised critic sees: the environment's ``global_state``, or the observations of all agents.

    ``auto``: the former, where the environment has one.
    """
    recurrent_critic: bool = False
    """Whether the centralised critic is recurrent: with units as the model's or, where it has none, 64 GRUs."""
    critic_lr: OptionalPositiveSchedule = None
    """Learning rate of the centralised critic; None: ``lr``."""
    critic_max_grad_norm: OptionalPositiveSchedule = None
    """To which its gradient is clipped; None: with the policy's or, where there is a ``critic_lr``, to its limit."""
    epochs: Count = 4
    minibatches: Count = 4

    @property
    def critic_learns_apart(self) -> bool:
        """Whether a centralised critic has an optimizer of its own."""
        return self.critic_lr is not None or self.critic_max_grad_norm is not None


class CustomConfig(LearningConfig):
    """What the user's own update function does, with keys of its own: its parameters. See docs/algorithms.md."""

    model_config = ConfigDict(extra="allow")

    algorithm: Literal["custom"]
    function: UserFunction
    model: ModelConfig = FullyConnectedConfig()
    population: Annotated[Count, Field(le=65536)] | None = None
    """How many members the model has, each with parameters and an equal slice of the replicas of its own; None: one."""

    @property
    def parameters(self) -> dict[str, Any]:
        """What the function takes besides the policy and the rollout."""
        return dict(self.model_extra or {})

    def loaded(self) -> Callable[..., Any]:
        """The function, or the class of an object that is called; raises ``DefinitionError``: there is none."""
        return load_function(self.function)


class RandomConfig(Section):
    """Agents that act uniformly at random; nothing is trained."""

    algorithm: Literal["random"]

    @property
    def told(self) -> str:
        """How the agents act, in words."""
        return "at random"


class SelfPlayConfig(Section):
    """Agents that act as a policy did earlier in its training."""

    algorithm: Literal["self_play"]
    of: str
    """The policy tag whose past versions act. It learns, and its agents see and do the same."""
    snapshot_every: Count = 10
    """Updates from one version that is kept to the next; the first is how the policy begins."""
    pool_size: Count = 10
    """How many versions are kept; a new one takes the place of the oldest."""
    recency: Annotated[Positive, Field(le=1.0)] = 1.0
    """How likely a version acts, relative to the next newer one: 1 is all alike, less prefers recent ones."""
    at_once: Count = 4
    """How many versions act at the same time, each in a part of the replicas; drawn anew for each rollout."""

    @property
    def told(self) -> str:
        """How the agents act, in words."""
        return f"as past versions of '{self.of}'"


class FunctionConfig(Section):
    """Agents that act as a function of the user's says, see docs/self_play.md."""

    algorithm: Literal["function"]
    function: UserFunction

    @property
    def told(self) -> str:
        """How the agents act, in words."""
        return f"as {name_of_function(self.function)} says"

    def loaded(self) -> Callable[..., Any]:
        """The function; raises ``DefinitionError``: there is none."""
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
    """Return the names of what an evaluation measures, of which one may say what is best."""
    of_tags = [f"eval/{name}/{tag}" for name in ("episodic_return", "episodic_return_std") for tag in policies]
    elo = [f"eval/elo/{section.of}" for section in policies.values() if isinstance(section, SelfPlayConfig)]
    return [*of_tags, *dict.fromkeys(elo), "eval/episodic_length", "eval/terminated_fraction"]


class WandbConfig(Section):
    """A project of Weights & Biases that metrics go to, too."""

    project: str
    entity: str | None = None
    """The team or user; None: the one that is logged in."""
    group: str | None = None
    tags: list[str] = []
    mode: Literal["online", "offline", "disabled"] = "online"


class SavingConfig(Section):
    """What a run leaves behind, and how often. Intervals count updates."""

    folder: str = "runs"
    log_every: Count = 1
    checkpoint_every: Count = 100
    keep_last: Count = 3
    keep_every: Count | None = None
    """Environment steps: the first checkpoint after each multiple stays for good, to compare with; None: none does."""
    keep_best: bool = True
    """Whether the checkpoint with the best evaluation stays, too; ``checkpoints/best`` names it."""
    best_metric: str | None = None
    """Which of the metrics of an evaluation says what is best.

    None: the return of the first policy that is trained, or its Elo rating if it plays against its past versions.
    """
    best_mode: Literal["max", "min"] = "max"
    """Whether more or less of it is better."""
    tensorboard: bool = True
    wandb: WandbConfig | None = None
    """Weights & Biases; None: not there."""


class RunConfig(Section):
    """A whole run. ``env`` is None only where a Trainer was handed an environment that has no registered name."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$")]
    env: EnvironmentConfig | None
    trainer: TrainerConfig
    policy: dict[str, PolicyConfig]
    saving: SavingConfig = SavingConfig()

    @property
    def best_metric(self) -> str:
        """Which of the metrics of an evaluation says what the best checkpoint is."""
        if self.saving.best_metric:
            return self.saving.best_metric
        trained = [tag for tag, policy in self.policy.items() if getattr(policy, "to_train", False)]
        tag = next(iter(trained or self.policy))
        of_pools = {policy.of for policy in self.policy.values() if isinstance(policy, SelfPlayConfig)}
        return f"eval/elo/{tag}" if tag in of_pools else f"eval/episodic_return/{tag}"

    def policy_over_the_run(self, tag: str) -> PolicyConfig:
        """Return a policy's section in which each schedule that does not say how long it lasts lasts the whole run.

        ``policy`` leaves their ``steps`` out: they follow ``trainer.total_steps`` in a run that goes on for longer.
        """
        section = self.policy[tag]
        return type(section).model_validate(_with_steps(section.model_dump(), self.trainer.total_steps))


def _with_steps(section: Any, steps: Any) -> Any:
    """Give ``steps`` to the schedules of a policy's section, and of the sections in it."""
    if not isinstance(section, dict):
        return section
    if "schedule" in section:
        return {"steps": steps, **section}
    return {key: _with_steps(value, steps) for key, value in section.items()}
