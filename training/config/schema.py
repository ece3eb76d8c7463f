"""Sections of a run configuration: keys, types, bounds and defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator

from warpdrive.step_graph import UseCudaGraph
from warpdrive.training.algorithms import ALGORITHMS
from warpdrive.training.algorithms.base import LearningConfig
from warpdrive.training.algorithms.task import UpdateKind
from warpdrive.training.config.section import Section
from warpdrive.training.config.values import (
    Count,
    Device,
    Positive,
    UserFunction,
    backend_name,
    load_function,
    name_of_function,
    switch,
)
from warpdrive.training.config.yaml import dump
from warpdrive.training.runtime.atomic_write import write_atomically


class EnvironmentConfig(Section):
    """Environment name and the parameters of its constructor."""

    model_config = ConfigDict(extra="allow")

    name: str
    """Registered name, ``package.module:Class`` or ``path/to/file.py:Class``."""

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
    """Interval of evaluations during training, in updates or environment steps; None: no such evaluations."""
    unit: Literal["updates", "env_steps"] = "updates"
    """Unit of ``every``. With ``env_steps``, the first update after each multiple is evaluated."""
    beside: bool = False
    """If True, evaluations run concurrently with training, which waits before the next one and before checkpoints."""


class TrainerConfig(Section):
    """Amount of training, devices and processes. An environment step is one step of one replica."""

    num_envs: Annotated[Count, Field(lt=2**31)]
    """Number of replicas of the environment, over all processes."""
    train_batch_size: Count
    """Environment steps per update over all replicas: ``num_envs`` times the rollout length."""
    total_steps: Count
    """Training ends with the first update that reaches this many environment steps."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Seed of the start states, the sampled actions, the initial weights and the minibatches."""
    env_backend: Annotated[str, BeforeValidator(backend_name)] = "auto"
    """Backend of the environment steps.

    ``cpu``: the CPU; ``numba``: a GPU, for kernel functions in Python; ``pycuda``: for kernel functions in CUDA C;
    ``auto``: the best available one.
    """
    rollout_device: Device | None = None
    """Device of the rollouts (environment steps and policies); None: that of ``env_backend``."""
    learner_device: Device | None = None
    """Device of the updates; None: that of the rollouts. If it is another one, rollouts and weights are copied through
    host memory once per update.
    """
    eval_device: Device | None = None
    """Device of evaluations; None: that of the rollouts."""
    copy_model: bool = False
    """If True, rollouts use a copy of the weights, and updates a copy of the rollout, even on the same device."""
    use_cuda_graph: Annotated[UseCudaGraph, BeforeValidator(switch)] = "auto"
    """Capture of rollout steps (policies and environment) and of gradient steps as CUDA graphs.

    ``auto``: on a GPU, if capture succeeds (else a warning states the cause); ``on``: required, failure is an error;
    ``off``: no capture. Gradient steps of user-defined algorithms and of several processes are never captured.
    """
    update: UpdateKind = "auto"
    """Execution of gradient steps on the CPU.

    ``compiled``: native code, an error if there is none for the algorithm and model; ``torch``: PyTorch; ``auto``:
    native code if available. Results agree up to float32 rounding.
    """
    reset_pool_size: Count | None = None
    """Number of start states, drawn at construction, to which replicas are reset.

    None: one if ``initial_state`` is deterministic, else 500, or as many as fit into 64 MiB.
    """
    stagger_episodes: bool = False
    """If True, each replica starts at a random time step, so that its first episode is truncated earlier.

    Otherwise replicas whose episodes all last until the time limit stay in lockstep, and a rollout covers only one part
    of the episodes. The incomplete first episodes are excluded from mean returns and lengths.
    """
    torch_threads: Annotated[Count, Field(le=1024)] | None = None
    """Number of PyTorch's CPU threads in training and evaluation.

    None: one on a machine with up to four cores, unless ``OMP_NUM_THREADS`` is set; else PyTorch's default. Threads of
    PyTorch spin while they wait for each other: two of them on two cores take several times the CPU time if another
    program runs. The rounding of PyTorch's sums depends on the number of threads: training is bitwise reproducible on
    machines with different numbers of cores only if this is set. (The simulation does not depend on it.)
    """
    evaluation: EvaluationConfig = EvaluationConfig()
    """Evaluation of the policies."""
    sync: Literal["gradients", "rollouts"] = "gradients"
    """Synchronisation of several processes.

    ``gradients``: each process computes the gradients of its own experience, which are summed before every optimizer
    step; ``rollouts``: rank 0 gathers the experience, updates the models, and broadcasts them.
    """
    dedicated_learner: bool = False
    """If True, rank 0 only trains, on the previous rollout, while the other ranks collect the next one.

    Requires ``sync: rollouts``. The behaviour policy is then one update older. A single process alternates as usual.
    """
    process_timeout: Positive = 1800.0
    """Timeout in seconds for processes that are alive but do not respond; dead ones are detected within a minute."""
    check_weights: bool = False
    """If True, weights are compared across all processes after each update, for debugging."""
    gpu_memory_fraction: Annotated[Positive, Field(le=1.0)] | None = None
    """Fraction of a GPU's memory that a process may allocate; if set, several processes may share a GPU."""

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
            raise ValueError("trainer.sync: rollouts as well, as process 0 collects no experience")
        return dedicated

    @property
    def rollout_length(self) -> int:
        """Steps of each replica per update."""
        return self.train_batch_size // self.num_envs


class RandomConfig(Section):
    """Agents that act uniformly at random; nothing is trained."""

    algorithm: Literal["random"] = "random"

    @property
    def description(self) -> str:
        """Description of the agents' behaviour."""
        return "at random"


class SelfPlayConfig(Section):
    """Agents that act as past versions of a policy."""

    algorithm: Literal["self_play"] = "self_play"
    of: str
    """Policy tag whose past versions act: a trained policy with the same observation and action spaces."""
    snapshot_every: Count = 10
    """Updates between two snapshots; the first snapshot is the initial policy."""
    pool_size: Count = 10
    """Number of snapshots kept; a new one replaces the oldest."""
    recency: Annotated[Positive, Field(le=1.0)] = 1.0
    """Probability of a snapshot relative to the next newer one; 1: uniform, less: recent snapshots are preferred."""
    at_once: Count = 4
    """Number of snapshots sampled for each rollout; each acts in a part of the replicas."""

    @property
    def description(self) -> str:
        """Description of the agents' behaviour."""
        return f"as past versions of '{self.of}'"


class FunctionConfig(Section):
    """Agents controlled by a user-defined function."""

    algorithm: Literal["function"] = "function"
    function: UserFunction
    """Function called before each step: ``function(observations, env, tag)`` returns actions or logits."""

    @property
    def description(self) -> str:
        """Description of the agents' behaviour."""
        return f"as {name_of_function(self.function)} says"

    def loaded(self) -> Callable[..., Any]:
        """Return the function.

        Raises:
            DefinitionError: If it cannot be found.
        """
        return load_function(self.function)


POLICY_SECTIONS: tuple[type[Section], ...] = (*ALGORITHMS, RandomConfig, SelfPlayConfig, FunctionConfig)

if TYPE_CHECKING:
    PolicyConfig = LearningConfig | RandomConfig | SelfPlayConfig | FunctionConfig
else:
    PolicyConfig = Annotated[reduce(or_, POLICY_SECTIONS), Field(discriminator="algorithm")]

POLICY_CONFIGS: dict[str, type[Section]] = {
    get_args(section.model_fields["algorithm"].annotation)[0]: section for section in POLICY_SECTIONS
}
"""Sections of policies, by the value of ``algorithm``."""


def evaluation_metrics(policies: Mapping[str, Section]) -> list[str]:
    """Return the names of the evaluation metrics, any of which may be ``best_metric``."""
    of_tags = [f"eval/{name}/{tag}" for name in ("episodic_return", "episodic_return_std") for tag in policies]
    elo = [f"eval/elo/{section.of}" for section in policies.values() if isinstance(section, SelfPlayConfig)]
    return [*of_tags, *dict.fromkeys(elo), "eval/episodic_length", "eval/terminated_fraction"]


class WandbConfig(Section):
    """Weights & Biases project to which metrics are also logged."""

    project: str
    """Name of the project."""
    entity: str | None = None
    """Team or user; None: the logged-in one."""
    group: str | None = None
    """Group of the run; None: none."""
    tags: list[str] = []
    """Tags of the run."""
    mode: Literal["online", "offline", "disabled"] = "online"
    """``online``: upload during the run; ``offline``: write to a folder, to upload later; ``disabled``: no logging."""


class TrackioConfig(Section):
    """Trackio project to which metrics are also logged."""

    project: str
    """Name of the project."""
    group: str | None = None
    """Group of the run; None: none."""
    space_id: str | None = None
    """Hugging Face Space that shows the metrics, ``user/space``; None: on this machine."""


class MlflowConfig(Section):
    """MLflow experiment to which metrics are also logged."""

    experiment: str | None = None
    """Name of the experiment; None: the name of the run configuration."""
    tracking_uri: str | None = None
    """Tracking server or folder; None: the environment variable ``MLFLOW_TRACKING_URI``, or else MLflow's default."""


class SavingConfig(Section):
    """Outputs of a run and their intervals, in updates."""

    folder: str = "runs"
    """Parent of the run folders, ``<folder>/<name>/<date-time>/``."""
    log_every: Count = 1
    """Updates between two rows of ``metrics.csv``."""
    checkpoint_every: Count = 100
    """Updates between two checkpoints."""
    keep_last: Count = 3
    """Number of the newest checkpoints to keep; older ones are deleted."""
    keep_every: Count | None = None
    """Interval of permanent checkpoints in environment steps: the first after each multiple is kept; None: none."""
    keep_best: bool = True
    """If True, the checkpoint with the best evaluation is also kept; ``checkpoints/best`` points to it."""
    best_metric: str | None = None
    """Evaluation metric of the best checkpoint.

    None: the return of the first trained policy, or its Elo rating if it plays against its past versions.
    """
    best_mode: Literal["max", "min"] = "max"
    """``max``: the highest value is the best; ``min``: the lowest."""
    tensorboard: bool | None = None
    """If True, TensorBoard event files are written; None: if TensorBoard is installed."""
    wandb: WandbConfig | None = None
    """Weights & Biases logging; None: off."""
    trackio: TrackioConfig | None = None
    """Trackio logging; None: off."""
    mlflow: MlflowConfig | None = None
    """MLflow logging; None: off."""


class RunConfig(Section):
    """Configuration of a whole run. ``env`` is None only for a Trainer of an environment without registered name."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$")]
    """Name of the run, and of its folder."""
    env: EnvironmentConfig | None
    """Environment and the parameters of its constructor."""
    trainer: TrainerConfig
    """Amount of simulation and training, devices and processes."""
    policy: dict[str, PolicyConfig]
    """Section of each policy, by policy tag: the algorithm that trains it, or how its agents act."""
    saving: SavingConfig = SavingConfig()
    """Outputs of the run."""

    def to_yaml(self) -> str:
        """Return the complete configuration as YAML, which ``load_config`` reads back to an equal one."""
        return dump(self.model_dump(mode="json"))

    def save(self, path: str | Path) -> None:
        """Write the complete configuration to a YAML file, atomically.

        Args:
            path: The file; an existing one is replaced.
        """
        write_atomically(Path(path), self.to_yaml())

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

        Args:
            tag: Policy tag.
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
