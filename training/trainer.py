"""The trainer: rolls policies out in an environment, updates them, evaluates, saves and loads them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from warpdrive.env_wrapper import EnvWrapper
from warpdrive.errors import CheckpointError, ConfigError, nearest
from warpdrive.recording import Recording
from warpdrive.step_graph import StepGraphs
from warpdrive.training.actor_copies import ActorCopies
from warpdrive.training.callbacks import Callback
from warpdrive.training.checkpoint import (
    Checkpoint,
    Which,
    find_checkpoint,
    last_whole,
    read_checkpoint,
    write_checkpoint,
)
from warpdrive.training.config import RunConfig, check_goes_on, load_config, plain
from warpdrive.training.evaluation import MAX_REPLICAS, EvaluationResult, Evaluator
from warpdrive.training.models.base import Actor
from warpdrive.training.opponents import Opponent, build_opponents
from warpdrive.training.policy import Policy
from warpdrive.training.pretrained import without_loading
from warpdrive.training.report import TrainingSummary, UpdateReport
from warpdrive.training.rollout_loop import RolloutLoop, act, in_replicas_of
from warpdrive.training.run_folder import RunFolder, find_run
from warpdrive.training.sections import LearningConfig
from warpdrive.training.space_description import describe_space
from warpdrive.training.torch_threads import torch_threads
from warpdrive.training.training_run import run_training

_EVALUATION_SEED = 1_000_003  # added to the run's seed: evaluation replicas do not repeat the training ones


class Trainer:
    """Trains one policy per policy tag of an environment.

    Args:
        env: the replicas to train in.
        config: a run configuration. A dictionary may leave out ``name``, ``env`` and ``trainer.num_envs``, which are
            then taken from ``env``; without ``env`` the run cannot be loaded from its folder alone.
        policy_tag_to_agent_id_map: None, or what the environment itself says in ``policy_tags``.
        device_id: the GPU, where the environment is on one.
        num_devices: 1; more are not supported yet.

    Attributes:
        env: as given.
        config: the checked configuration.
        rollout: what was collected last.
        graphs: how steps of rollouts are repeated.
        policies: per policy tag, what acts and learns.
        opponents: per policy tag, what acts and learns nothing; tags whose agents act at random are in neither.
        updates: updates done so far.
        env_steps: environment steps done so far.
        returns: per policy tag, the mean return that was logged last, if there is one.
        best: the best evaluation of the run so far, see ``BestCheckpoint.state``.
        evaluation_under_way: whether the present weights are evaluated beside training.

    Raises:
        ConfigError: the configuration is wrong in itself, or does not fit the environment.
    """

    def __init__(
        self,
        env: EnvWrapper,
        config: RunConfig | Mapping[str, Any],
        policy_tag_to_agent_id_map: Mapping[str, Sequence[int]] | None = None,
        device_id: int = 0,
        num_devices: int = 1,
    ) -> None:
        _check_environment(env)
        _check_devices(env, device_id, num_devices)
        _check_tags(env, policy_tag_to_agent_id_map)
        self.env = env
        self.config = _fitted(config, env)
        self.policies = {
            tag: Policy(
                tag,
                agent_ids,
                settings,
                env.observation_spaces[tag],
                env.action_spaces[tag],
                env.num_envs,
                env.backend,
                seed=self.config.trainer.seed + index,
            )
            for index, (tag, agent_ids) in enumerate(env.policy_tags.items())
            if isinstance(settings := self.config.policy[tag], LearningConfig)
        }
        self.opponents = build_opponents(self.config, env, self.policies)
        self.updates = 0
        self.env_steps = 0
        self.returns: dict[str, float | None] = {}
        self.best: dict[str, Any] | None = None
        self.evaluation_under_way = False
        self._resumed: RunFolder | None = None
        self.graphs = StepGraphs(env.device, self.config.trainer.use_cuda_graph)
        self.rollout = env.allocate_rollout(self.config.trainer.rollout_length)
        self._loop = RolloutLoop(env, self.rollout, self.graphs)
        self._forget_the_past()

    def train(
        self, on_update: Callable[[UpdateReport], None] | None = None, callbacks: Sequence[Callback] = ()
    ) -> TrainingSummary:
        """Train until ``trainer.total_steps``, in a new run folder or, after :meth:`resume`, in that of the run.

        Ctrl-C ends the run after the present update; the checkpoint and the summary are then written as at the end of
        a whole run.

        Args:
            on_update: called after each logged update: short for a callback that has no other method.
            callbacks: called at rollouts, updates, evaluations, checkpoints and the end, see ``wd.Callback``. What one
                raises is raised here, once everything is saved.

        Raises:
            TrainingError: a loss is no longer finite. The last good checkpoint is kept.
            CheckpointError: another process has gone on with the run.
        """
        going_on, self._resumed = self._resumed, None
        if going_on is None:  # the best evaluation of another run, and one that it waits for, are not this one's
            self.best, self.evaluation_under_way = None, False
        return run_training(self, on_update, callbacks, going_on)

    def collect(self) -> None:
        """Fill the rollout: ``rollout_length`` steps of every replica.

        Raises:
            GraphError: ``trainer.use_cuda_graph`` is "on", and the step cannot be captured.
        """
        for policy in self.policies.values():
            policy.begin(self.env_steps)
        for opponent in self.opponents.values():
            opponent.begin(self.updates)
        self._loop.fill(self.actors)
        self.env_steps += self.config.trainer.train_batch_size

    def update(self) -> dict[str, Tensor]:
        """Train every policy on the rollout. Returns ``losses/<term>/<tag>``, scalars on the device."""
        metrics = {
            f"losses/{term}/{tag}": value
            for tag, policy in self.policies.items()
            for term, value in policy.update(self.rollout).items()
        }
        self.updates += 1
        return metrics

    def evaluate(
        self,
        num_episodes: int | None = None,
        random: Collection[str] = (),
        deterministic: bool | None = None,
        seed: int | None = None,
    ) -> EvaluationResult:
        """Play whole episodes on replicas of their own; training is not disturbed.

        Args:
            num_episodes: how many; None: ``trainer.evaluation.num_episodes``.
            random: policy tags whose agents act uniformly at random instead.
            deterministic: take the most probable action instead of sampling; None: as ``trainer.evaluation`` says.
            seed: of the start states and the sampling; None: one that follows from the run's seed.
        """
        settings = self.config.trainer.evaluation
        num_episodes = settings.num_episodes if num_episodes is None else num_episodes
        if num_episodes < 1:
            raise ConfigError(f"evaluate: found num_episodes = {num_episodes}, expected 1 or more")
        deterministic = settings.deterministic if deterministic is None else deterministic
        _, evaluator = self.evaluator(num_episodes, random, deterministic, seed)
        with torch_threads(self.config.trainer.torch_threads):
            return evaluator.play()

    def evaluator(
        self, num_episodes: int, random: Collection[str] = (), deterministic: bool = False, seed: int | None = None
    ) -> tuple[ActorCopies, Evaluator]:
        """New replicas to evaluate in, and the copies of the models that act in them; arguments as of :meth:`evaluate`.

        The copies have the present weights until they are refreshed.
        """
        copies = ActorCopies(self.acting_models(random), self.env.device)
        env = EnvWrapper(
            self.env.env,
            num_envs=min(num_episodes, MAX_REPLICAS),
            env_backend=self.env.backend,  # on the device where the models are
            seed=self.config.trainer.seed + _EVALUATION_SEED if seed is None else seed,
            reset_pool_size=self.config.trainer.reset_pool_size,
        )
        return copies, Evaluator(env, copies.actors, num_episodes, deterministic, self.graphs)

    @torch.no_grad()
    def fetch_episode(
        self,
        replicas: int | Sequence[int] = 1,
        *,
        seed: int | None = None,
        random: Collection[str] = (),
        deterministic: bool = False,
        observations: bool = False,
        logits: bool = False,
        max_steps: int | None = None,
    ) -> Recording:
        """Let the policies play an episode in replicas of its own and return it as arrays; training is not disturbed.

        Args:
            replicas: how many, or the numbers of those to record.
            seed: of the start states and the sampling; None: the run's seed.
            random: policy tags whose agents act uniformly at random instead.
            deterministic: take the most probable action instead of sampling.
            observations: whether observations are recorded, too.
            logits: whether the outputs of the policies are recorded, too.
            max_steps: the recording ends after so many steps in any case.

        Returns:
            states, actions, rewards and probabilities of every step: :class:`warpdrive.Recording` has the shapes.

        Raises:
            ConfigError: ``random`` names a tag that the environment does not have.
            DefinitionError: ``replicas`` are none.
        """
        models = self.acting_models(random)
        chosen = list(replicas) if isinstance(replicas, Sequence) else list(range(replicas))
        env = EnvWrapper(
            self.env.env,
            num_envs=max(chosen, default=0) + 1,
            env_backend=self.env.backend,  # of the device where the models are
            seed=self.config.trainer.seed if seed is None else seed,
            reset_pool_size=self.env.reset_pool_size,
        )
        env.env_name, env.env_config = self.env.env_name, self.env.env_config
        env.greedy = deterministic
        actors = in_replicas_of(env, models)
        return env.record(
            chosen,
            lambda replicas: act(replicas, actors),
            observations=observations,
            logits=logits,
            max_steps=max_steps,
        )

    @property
    def actors(self) -> dict[str, Actor]:
        """What acts in rollouts, by policy tag."""
        return {tag: player.actor for tag, player in self._players().items()}

    def acting_models(self, random: Collection[str] = ()) -> dict[str, Actor]:
        """What acts for each policy tag where it is evaluated, but for those of ``random`` and those always at random.

        It is a policy's model, or an opponent's: in self-play the present version of what it has past ones of.

        Raises:
            ConfigError: ``random`` names a tag that the environment does not have.
        """
        if isinstance(random, str):
            raise ConfigError(f"found random = '{random}', expected a list of policy tags: ['{random}']")
        for tag in random:
            if tag not in self.env.policy_tags:
                known = ", ".join(self.env.policy_tags)
                hint = nearest(tag, self.env.policy_tags)
                raise ConfigError(f"unknown policy tag '{tag}', expected one of {known}.{hint}")
        return {tag: player.model for tag, player in self._players().items() if tag not in random}

    def _players(self) -> dict[str, Policy | Opponent]:
        return {**self.policies, **self.opponents}

    def checkpoint(self) -> Checkpoint:
        """All that is needed to go on from here as if nothing had happened."""
        return Checkpoint(
            config=self.config.model_dump(mode="json"),
            spaces={
                tag: {
                    "observation": describe_space(self.env.observation_spaces[tag]),
                    "action": describe_space(self.env.action_spaces[tag]),
                }
                for tag in self.policies
            },
            models={tag: policy.model.state_dict() for tag, policy in self.policies.items()},
            state={
                "updates": self.updates,
                "env_steps": self.env_steps,
                "returns": self.returns,
                "best": self.best,
                "evaluation_under_way": self.evaluation_under_way,
                "kept_between_steps": {tag: actor.kept_between_steps() for tag, actor in self.actors.items()},
                "policies": {tag: policy.state_dict() for tag, policy in self.policies.items()},
                "opponents": {tag: opponent.state_dict() for tag, opponent in self.opponents.items()},
                "simulation": self.env.ctx.save_state(),
            },
        )

    def save(self, path: str | Path) -> None:
        """Write a checkpoint folder.

        Raises:
            CheckpointError: ``path`` is something else already, or cannot be written.
        """
        write_checkpoint(Path(path), self.checkpoint())

    @classmethod
    def load(cls, path: str | Path, env: EnvWrapper | None = None, which: Which = "latest") -> Trainer:
        """A trainer as it was when the checkpoint was written; ``train`` continues from there in a new run folder.

        Args:
            path: a checkpoint folder, or a run: its folder or name.
            env: the environment; None: made from the configuration in the checkpoint.
            which: of a run's checkpoints: ``"latest"``, or ``"best"`` by the evaluations while it trained.

        Raises:
            CheckpointError: there is no checkpoint, it is damaged, or it does not fit the environment.
        """
        folder = find_checkpoint(path, which)
        checkpoint = read_checkpoint(folder)
        return cls._of(folder, checkpoint, load_config(checkpoint.config, environment=env.env if env else None), env)

    @classmethod
    def resume(cls, run: str | Path, overrides: Sequence[str] = (), env: EnvWrapper | None = None) -> Trainer:
        """A trainer whose ``train`` goes on with a run, in its folder, as if it had never stopped.

        It begins where the last whole checkpoint was written: what was logged later is logged again. On the CPU backend
        the metrics are those of a run that was never interrupted, bit for bit (with the same number of threads, see
        ``trainer.torch_threads``). A run that was stopped before its first checkpoint begins anew.

        Args:
            run: its folder, or its name; or its last checkpoint.
            overrides: ``"trainer.total_steps=2e6"``: changes of the configuration, as in ``load_config``, from here on.
                What decides about what has happened so far cannot change: the environment, the seed, models.
            env: the environment; None: made from the run's configuration.

        Raises:
            CheckpointError: there is no such run, its checkpoints are damaged or do not fit the environment, or it has
                gone on from the checkpoint given.
            ConfigError: an override is wrong, or changes what cannot change.
        """
        folder = find_run(run)
        found = last_whole(folder.checkpoints)
        if found is None:
            config = load_config(folder.config, overrides, environment=env.env if env else None)
            trainer = cls(env or make_env(config), config)
        else:
            path, checkpoint = found
            if Path(run).parent.name == "checkpoints" and Path(run).name != path.name:
                raise CheckpointError(f"{run}: the run has gone on since, to {path}; resume {folder.path}")
            config = load_config(checkpoint.config, overrides, environment=env.env if env else None)
            check_goes_on(checkpoint.config, config)
            trainer = cls._of(path, checkpoint, config, env)
        trainer._resumed = folder
        return trainer

    @classmethod
    def _of(cls, folder: Path, checkpoint: Checkpoint, config: RunConfig, env: EnvWrapper | None) -> Trainer:
        trainer = cls(env or make_env(config), without_loading(config))
        trainer.config = config
        try:
            trainer._restore(checkpoint)
        except (KeyError, ValueError, RuntimeError) as error:
            reason = str(error).strip().splitlines()[-1].strip()
            raise CheckpointError(f"{folder}: does not fit the environment as it is now: {reason}") from error
        return trainer

    def _forget_the_past(self) -> None:
        """Start anew in an environment that somebody may have played in."""
        for tag in self.env.policy_tags:
            self.env.act_at_random(tag)
        self.env.greedy = False
        self.env.reset()
        self.env.episode_statistics()

    def _restore(self, checkpoint: Checkpoint) -> None:
        state = checkpoint.state
        self.updates, self.env_steps, self.returns = state["updates"], state["env_steps"], state["returns"]
        self.best, self.evaluation_under_way = state["best"], state["evaluation_under_way"]
        for tag, policy in self.policies.items():
            policy.model.load_state_dict(checkpoint.models[tag])
            policy.load_state_dict(state["policies"][tag])
        for tag, opponent in self.opponents.items():
            opponent.load_state_dict(state["opponents"][tag])
        for tag, actor in self.actors.items():
            for name, buffer in actor.kept_between_steps().items():
                buffer.copy_(state["kept_between_steps"][tag][name])
        self.env.ctx.load_state(state["simulation"].to(self.env.device))


def make_env(config: RunConfig) -> EnvWrapper:
    """The replicas that a run configuration describes.

    Raises:
        ConfigError: the configuration does not say which environment.
    """
    if config.env is None:
        raise ConfigError(f"run '{config.name}': its environment has no registered name; give it as env=...")
    return EnvWrapper(
        env_name=config.env.name,
        env_config=config.env.parameters,
        num_envs=config.trainer.num_envs,
        env_backend=config.trainer.env_backend,
        seed=config.trainer.seed,
        reset_pool_size=config.trainer.reset_pool_size,
    )


def _fitted(config: RunConfig | Mapping[str, Any], env: EnvWrapper) -> RunConfig:
    """``config`` completed from ``env`` and checked against it."""
    if not isinstance(config, (RunConfig, Mapping)):
        raise ConfigError(
            f"Trainer: found the configuration {config!r}, expected a dictionary or what load_config returns"
        )
    raw = config.model_dump() if isinstance(config, RunConfig) else plain(config)
    raw.setdefault("env", None)
    raw.setdefault("name", env.env.name)
    if isinstance(raw.get("trainer"), dict):
        raw["trainer"].setdefault("num_envs", env.num_envs)
    fitted = load_config(raw, environment=env.env)
    if fitted.trainer.num_envs != env.num_envs:
        raise ConfigError(
            f"run configuration: trainer.num_envs: found {fitted.trainer.num_envs}, "
            f"expected {env.num_envs}, the replicas of the environment given"
        )
    return fitted


def _check_environment(env: EnvWrapper) -> None:
    if not isinstance(env, EnvWrapper):
        raise ConfigError(f"Trainer: found {env!r}, expected the replicas of an environment (an EnvWrapper)")
    if not env.auto_reset:
        raise ConfigError("Trainer: the environment has auto_reset=False, expected True: episodes follow one another")


def _check_devices(env: EnvWrapper, device_id: int, num_devices: int) -> None:
    if num_devices != 1:
        raise ConfigError(f"Trainer: found num_devices = {num_devices}, expected 1 (more are not supported yet)")
    if env.device.type == "cuda" and device_id != (env.device.index or 0):
        raise ConfigError(f"Trainer: found device_id = {device_id}, but the environment is on {env.device}")


def _check_tags(env: EnvWrapper, given: Mapping[str, Sequence[int]] | None) -> None:
    if given is None:
        return
    if not isinstance(given, Mapping):
        raise ConfigError(f"Trainer: found policy_tag_to_agent_id_map = {given!r}, expected a dict")
    found = {tag: sorted(ids) for tag, ids in given.items()}
    if found != {tag: sorted(ids) for tag, ids in env.policy_tags.items()}:
        raise ConfigError(
            f"Trainer: found policy_tag_to_agent_id_map = {found}, but the environment's policy_tags are "
            f"{dict(env.policy_tags)}; change policy_tags in the environment"
        )
