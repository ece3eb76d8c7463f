"""Sections of a run configuration: keys, types, bounds and defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import yaml
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
    """Number of updates, or environment steps, between two evaluations; None: no evaluation during training."""
    unit: Literal["updates", "env_steps"] = "updates"
    """Unit of ``every``. With ``env_steps``, the first update after each multiple is evaluated."""
    beside: bool = False
    """If True, training continues in another thread meanwhile; it waits before the next evaluation or checkpoint."""


class TrainerConfig(Section):
    """Amount of simulation and training. All sizes count environment steps (one step of one replica)."""

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

    ``cpu``: the cores of this machine; ``numba``: a GPU, for kernels in Python; ``pycuda``: kernel functions in CUDA C;
    ``auto``: the best one available.
    """
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
    """Capture of one rollout step, policies and environment, and of one gradient step, as CUDA graphs to replay.

    ``auto``: on a GPU where capture works (else a warning names the cause); ``on``: an error if it does not; ``off``:
    no capture. Gradient steps of user-defined algorithms and of several processes are never captured.
    """
    update: UpdateKind = "auto"
    """Execution of gradient steps on the CPU.

    ``compiled``: native code, an error if there is none for the algorithm and model; ``torch``: PyTorch; ``auto``:
    native code where there is some. Results agree up to float32 rounding.
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
    """Evaluation of the policies."""
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
            DefinitionError: it cannot be found.
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
    """Project of Weights & Biases that metrics are also logged to."""

    project: str
    """Name of the project."""
    entity: str | None = None
    """Team or user; None: the logged-in one."""
    group: str | None = None
    """Group of the run; None: none."""
    tags: list[str] = []
    """Tags of the run."""
    mode: Literal["online", "offline", "disabled"] = "online"
    """``online``: upload during the run; ``offline``: keep the data in a folder, to upload it later; ``disabled``: no
    record.
    """


class TrackioConfig(Section):
    """Project of Trackio that metrics are also logged to."""

    project: str
    """Name of the project."""
    group: str | None = None
    """Group of the run; None: none."""
    space_id: str | None = None
    """Space of Hugging Face that shows the metrics, ``user/space``; None: on this machine."""


class MlflowConfig(Section):
    """Experiment of MLflow that metrics are also logged to."""

    experiment: str | None = None
    """Name of the experiment; None: the name of the run configuration."""
    tracking_uri: str | None = None
    """Address of the server, or folder; None: that of the environment variable ``MLFLOW_TRACKING_URI``, or MLflow's
    default.
    """


class SavingConfig(Section):
    """Outputs of a run and their intervals, in updates."""

    folder: str = "runs"
    """Folder of the runs: a run writes to ``<folder>/<name>/<date-time>/``."""
    log_every: Count = 1
    """Updates between two rows of ``metrics.csv``."""
    checkpoint_every: Count = 100
    """Updates between two checkpoints."""
    keep_last: Count = 3
    """Number of the newest checkpoints to keep; older ones are deleted."""
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
    tensorboard: bool | None = None
    """TensorBoard event files; None: if TensorBoard is installed."""
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
    """Section of each policy, by policy tag: the algorithm that trains it, or the way its agents act."""
    saving: SavingConfig = SavingConfig()
    """Outputs of the run."""

    def to_yaml(self) -> str:
        """Return the complete configuration as YAML, which ``load_config`` reads back to an equal one."""
        text: str = yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
        return text

    def save(self, path: str | Path) -> None:
        """Write the complete configuration to a YAML file, atomically.

        Args:
            path: the file; an existing one is replaced.
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
            tag: policy tag.
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
