"""Trainer: collects rollouts in an environment; updates, evaluates, saves and loads policies."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from warpdrive.arguments import check_is, check_path, check_within
from warpdrive.backends.loading import never_uses_gpu
from warpdrive.env_wrapper import EnvWrapper
from warpdrive.errors import CheckpointError, ConfigError, one_line, shown
from warpdrive.interop.replicas import make_replicas
from warpdrive.recording.recording import Recording
from warpdrive.rollout import Rollout
from warpdrive.step_graph import StepGraphs
from warpdrive.training.checkpoint.checkpoint import (
    Checkpoint,
    Which,
    find_checkpoint,
    read_models,
    with_state,
    write_checkpoint,
)
from warpdrive.training.checkpoint.resume import (
    CHECKPOINT,
    acts_by_state,
    check_spaces,
    checkpoint_of,
    last_state_of,
    restore,
    restore_models,
)
from warpdrive.training.checkpoint.run_folder import RunFolder
from warpdrive.training.config.adapt import adapted_replicas
from warpdrive.training.config.load import RunConfig, load_config
from warpdrive.training.config.named_code import check_named_code
from warpdrive.training.distributed.bootstrap import check_gpus, join, local_rank, share_of
from warpdrive.training.distributed.consistency import check_start
from warpdrive.training.distributed.devices import rollout_backend
from warpdrive.training.distributed.process_group import ProcessGroup
from warpdrive.training.evaluation import EvaluationResult
from warpdrive.training.evaluations import Evaluations
from warpdrive.training.inference.pretrained import without_loading
from warpdrive.training.learner import Learner
from warpdrive.training.models.base import Actor
from warpdrive.training.opponents import Opponent
from warpdrive.training.policy import Policy
from warpdrive.training.progress.work import WorkProgress, no_progress
from warpdrive.training.reports import TrainingSummary, UpdateReport
from warpdrive.training.rollout.actor_copies import ActorCopies
from warpdrive.training.rollout.loop import act, in_replicas_of
from warpdrive.training.run.callbacks import Callback, Callbacks, OnUpdate
from warpdrive.training.run.loop import run_training
from warpdrive.training.run.state import RunState
from warpdrive.training.runtime.torch_threads import torch_threads
from warpdrive.training.trainer_checks import (
    check_callbacks,
    check_devices,
    check_populations,
    check_tags,
    checked_environment,
    environment_of,
    fitted,
    has_dedicated_learner,
    warn_of_long_episodes,
)


class Trainer:
    """Trainer of one policy per policy tag of an environment.

    ```python
    config = wd.RunConfig.load("cartpole", ["trainer.total_steps=100000"])
    trainer = wd.Trainer(config)
    summary = trainer.train()  # in a new folder below runs/cartpole/
    print(trainer.evaluate(num_episodes=200).mean_return)
    ```

    ``collect`` and ``update`` are the two halves of an iteration, for custom training loops.

    Args:
        env: The training replicas; or, without ``config``, a run configuration that includes the environment
            (``wd.RunConfig``, or a dictionary with ``env``).
        config: A run configuration. A dictionary may leave out ``name``, ``env`` and ``trainer.num_envs``, which are
            then taken from ``env``; without ``env`` the run cannot be loaded from its folder alone.
        policy_tag_to_agent_id_map: None, or equal to the environment's ``policy_tags``.
        device_id: Index of the GPU, if the environment is on one; None: whichever it is on.
        num_devices: Number of processes that train together, each on its device; None: as many as were launched,
            see ``distributed.bootstrap.join``. Each has its own replicas; the sizes in ``config`` are totals.

    Attributes:
        env: As given, or replicas with the same seed of the environment with ``agent_ids``, ``team_reward`` or without
            ``parameter_sharing``.
        process_group: Process group of the training.
        config: The validated configuration.
        learner: Policies, rollouts and updates.
        evaluations: Evaluations of the policies.
        run_state: State of the run besides the policies.

    Raises:
        ConfigError: If the configuration is invalid, or does not fit the environment.
    """

    def __init__(
        self,
        env: EnvWrapper | RunConfig | Mapping[str, Any],
        config: RunConfig | Mapping[str, Any] | None = None,
        policy_tag_to_agent_id_map: Mapping[str, Sequence[int]] | None = None,
        device_id: int | None = None,
        num_devices: int | None = None,
    ) -> None:
        if isinstance(env, Mapping) and config is None:
            env = load_config(env)
        if isinstance(env, RunConfig):
            config = env if config is None else config
            env = make_env(env)
        env = checked_environment(env)
        self.process_group = join()
        check_devices(env, self.process_group, device_id, num_devices)
        check_tags(env, policy_tag_to_agent_id_map)
        self.share = share_of(self.process_group, env, has_dedicated_learner(config))
        self.config = fitted(config, env, self.share)
        self.env = env = adapted_replicas(env, self.config.policy)
        self.process_group.set_timeout(self.config.trainer.process_timeout)
        check_start(self.process_group, self.config, env.env)
        check_populations(self.config, self.process_group)
        warn_of_long_episodes(self.config, env)
        self.learner = Learner(env, self.config, self.process_group, self.share)
        self.evaluations = Evaluations(self.learner)
        self.run_state = RunState()
        self._resumed: RunFolder | None = None

    def train(
        self,
        on_update: Callable[[UpdateReport], None] | None = None,
        callbacks: Sequence[Callback] = (),
        progress: bool = True,
    ) -> TrainingSummary:
        """Train until ``trainer.total_steps``, in a new run folder or, after :meth:`resume`, in that of the run.

        Ctrl-C ends the run after the current update; checkpoint and summary are then written as at the end of a
        completed run.

        Args:
            on_update: Called after each logged update: shorthand for a callback with only this method.
            callbacks: Called at rollouts, updates, evaluations, checkpoints and the end, see ``wd.Callback``. Their
                exceptions are raised here, after everything is saved.
            progress: If True, show progress: a bar on a terminal and in a notebook, elsewhere an occasional line on
                stderr if training takes more than two seconds. A ``TrainingProgress`` among ``callbacks`` replaces it.

        Returns:
            The summary of the run.

        Raises:
            TrainingError: If a loss is no longer finite. The last good checkpoint is kept.
            CheckpointError: If another process has continued the run.
            ConfigError: If ``on_update`` is not a function, or ``callbacks`` are not a list of ``wd.Callback`` objects.
        """
        check_callbacks(on_update, callbacks)
        going_on, self._resumed = self._resumed, None
        if going_on is None:  # a new run inherits no best or pending evaluation
            self.run_state.best, self.run_state.evaluation_under_way = None, False
        dispatcher = Callbacks(self, [*callbacks, OnUpdate(on_update)] if on_update else callbacks)

        def run() -> TrainingSummary:
            return run_training(self.learner, self.evaluations, self.run_state, dispatcher, going_on, progress)

        return self.process_group.run_on_leader(run, self._follow)

    @property
    def team(self) -> ProcessGroup:
        """Former name of ``process_group``."""
        return self.process_group

    @property
    def policies(self) -> dict[str, Policy]:
        """Learning policies, by policy tag."""
        return self.learner.policies

    @property
    def opponents(self) -> Mapping[str, Opponent]:
        """Actors that are not trained, by policy tag; tags whose agents act at random are in neither."""
        return self.learner.opponents

    @property
    def rollout(self) -> Rollout:
        """The last collected rollout."""
        return self.learner.rollout

    @property
    def graphs(self) -> StepGraphs:
        """Repetition of rollout steps (CUDA graphs)."""
        return self.learner.graphs

    @property
    def updates(self) -> int:
        """Number of updates so far."""
        return self.learner.updates

    @property
    def env_steps(self) -> int:
        """Number of environment steps so far."""
        return self.learner.env_steps

    @property
    def actors(self) -> dict[str, Actor]:
        """Actors of the rollouts, by policy tag."""
        return self.learner.actors

    @property
    def models(self) -> dict[str, Actor]:
        """Trained models, by policy tag."""
        return self.learner.models

    def acting_models(self, random: Collection[str] = ()) -> dict[str, Actor]:
        """Return the actors of displayed episodes by policy tag; for self-play, the current version of the policy.

        Args:
            random: Policy tags to leave out.
        """
        return self.learner.acting_models(random)

    def evaluated_models(self, random: Collection[str] = ()) -> dict[str, Actor]:
        """Return the actors of evaluations by policy tag; for self-play, versions of the pool, each in some replicas.

        Args:
            random: Policy tags to leave out.
        """
        return self.learner.evaluated_models(random)

    def collect(self) -> None:
        """Collect a rollout: ``rollout_length`` steps of every replica.

        Raises:
            GraphError: If ``trainer.use_cuda_graph`` is "on", and the step cannot be captured.
        """
        self.learner.collect()

    def update(self) -> dict[str, Tensor]:
        """Train every policy on the rollout.

        Returns:
            Losses and other terms by metric name, ``losses/<term>/<tag>``: scalars on the learner's device.
        """
        return self.learner.update()

    def episode_statistics(self) -> dict[str, Tensor]:
        """Return ``EnvWrapper.episode_statistics`` over all processes, without a rollout that is collected ahead."""
        return self.learner.episode_statistics()

    def evaluate(
        self,
        num_episodes: int | None = None,
        random: Collection[str] = (),
        deterministic: bool | None = None,
        seed: int | None = None,
        progress: bool = True,
    ) -> EvaluationResult:
        """Evaluate the policies on whole episodes in separate replicas; training is not affected.

        Args:
            num_episodes: Number of episodes; None: ``trainer.evaluation.num_episodes``, or by the length of training.
            random: Policy tags whose agents act uniformly at random instead.
            deterministic: If True, take the most probable action instead of sampling; None: as ``trainer.evaluation``
                says.
            seed: Seed of start states and sampling; None: derived from the run's seed.
            progress: If True, show progress if the evaluation takes more than two seconds.

        Returns:
            The returns and lengths of the episodes.

        Raises:
            ConfigError: If ``num_episodes`` is not an integer from 1 to 2**31 - 1.
        """
        settings = self.config.trainer.evaluation
        num_episodes = self.evaluations.num_episodes if num_episodes is None else num_episodes
        if type(num_episodes) is not int or not 1 <= num_episodes < 2**31:
            raise ConfigError(f"evaluate: found num_episodes = {shown(num_episodes)}, expected 1 or more (int32)")
        deterministic = settings.deterministic if deterministic is None else deterministic
        check_is(bool, deterministic=deterministic)
        _, evaluator = self.evaluations.evaluator(num_episodes, random, deterministic, seed)
        silence = nullcontext() if progress else no_progress()
        bar = WorkProgress("evaluating", num_episodes, "episodes")
        with closing(evaluator), torch_threads(self.config.trainer.torch_threads), silence, bar:
            result = evaluator.play(lambda done, _: bar.reach(done))
        evaluations = self.evaluations
        return replace(result, elo=evaluations.elo_ratings(evaluator, evaluations.ratings_of_past_versions(), random))

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
        """Record episodes of the current policies in separate replicas as arrays; training is not affected.

        Args:
            replicas: Number of replicas, or the indices of those to record.
            seed: Seed of start states and sampling; None: the run's seed.
            random: Policy tags whose agents act uniformly at random instead.
            deterministic: If True, take the most probable action instead of sampling.
            observations: If True, observations are recorded, too.
            logits: If True, the outputs of the policies are recorded, too.
            max_steps: Maximum number of recorded steps.

        Returns:
            States, actions, rewards and probabilities of every step; see :class:`warpdrive.Recording` for the shapes.

        Raises:
            ConfigError: If ``random`` names a tag that the environment does not have.
            DefinitionError: If ``replicas`` is empty.
        """
        check_is(bool, deterministic=deterministic, observations=observations, logits=logits)
        models = ActorCopies(self.acting_models(random), self.env.device).actors
        if isinstance(replicas, Sequence) and not isinstance(replicas, str):
            check_within(0, 1 << 31, **{f"replicas[{place}]": number for place, number in enumerate(replicas)})
            chosen = list(replicas)
        else:
            check_within(1, 1 << 20, replicas=replicas)
            chosen = list(range(replicas))
        env = self.env.like(
            max(chosen, default=0) + 1, seed=self.config.trainer.seed if seed is None else seed, rendered=True
        )
        env.greedy = deterministic
        actors = in_replicas_of(env, models)
        with closing(env), WorkProgress("playing an episode", unit="steps") as shown:

            def play(replicas: EnvWrapper) -> None:
                act(replicas, actors)
                shown.advance()

            return env.record(chosen, play, observations=observations, logits=logits, max_steps=max_steps)

    def checkpoint(self) -> Checkpoint:
        """Return the complete training state, on rank 0.

        It does not depend on the number of processes.
        """
        return checkpoint_of(self.learner, self.run_state)

    def save(self, path: str | Path) -> None:
        """Write a checkpoint folder.

        Args:
            path: Folder to create, or an existing checkpoint to replace.

        Raises:
            CheckpointError: If ``path`` exists and is something else, or cannot be written.
            DefinitionError: If ``path`` is not a path.
        """
        check_path(path=path)
        checkpoint = self.checkpoint()
        self.process_group.call_on_leader(lambda: write_checkpoint(Path(path), checkpoint))

    @classmethod
    def load(
        cls,
        path: str | Path,
        env: EnvWrapper | None = None,
        which: Which = "latest",
        *,
        trust: bool = False,
        to_train: bool = True,
    ) -> Trainer:
        """Load a trainer from a checkpoint; ``train`` continues from there in a new run folder.

        Args:
            path: A checkpoint folder, or a run: its folder or name.
            env: The environment; None: created from the configuration in the checkpoint.
            which: Checkpoint of a run: ``"latest"``, or ``"best"`` by the evaluations during training.
            trust: If True, code named by the run may be executed even if unknown here (docs/project/security.md).
            to_train: If False, only the actors are read and verified, for evaluations and replays: no optimizers,
                replay buffers or replicas. ``train`` would begin at step 0 with the trained models.

        Returns:
            A trainer in the state of the checkpoint.

        Raises:
            CheckpointError: If there is no checkpoint, it is damaged, or it does not fit the environment.
            TrustError: If the run names code that is not known here.
        """

        def read() -> tuple[Path, Checkpoint]:
            folder = find_checkpoint(path, which)
            checkpoint = read_models(folder)
            if to_train or acts_by_state(checkpoint.config):
                checkpoint = with_state(folder, checkpoint)
            if not trust:
                check_named_code(checkpoint.config, folder)
            return folder, checkpoint

        folder, checkpoint = join().call_on_leader(read)
        return cls._of(folder, checkpoint, load_config(checkpoint.config, environment=environment_of(env)), env)

    @classmethod
    def resume(
        cls, run: str | Path, overrides: Sequence[str] = (), env: EnvWrapper | None = None, *, trust: bool = False
    ) -> Trainer:
        """Load a trainer whose ``train`` resumes a run, in its folder.

        It starts from the last complete checkpoint: later log entries are written again. On the CPU backend the metrics
        are bitwise those of an uninterrupted run (with the same number of threads, see ``trainer.torch_threads``). A
        run that was stopped before its first checkpoint starts over.

        Args:
            run: Its folder, or its name; or its last checkpoint.
            overrides: ``"trainer.total_steps=2e6"``: changes of the configuration, as in ``load_config``, from here on.
                Keys that past training depends on cannot change: the environment, the seed, models, replay buffers.
            env: The environment; None: created from the run's configuration.
            trust: If True, code named by the run may be executed even if unknown here (docs/project/security.md).

        Returns:
            A trainer in the state of the last checkpoint.

        Raises:
            CheckpointError: If there is no such run, its checkpoints are damaged or do not fit the environment, or it
                has continued past the checkpoint given.
            ConfigError: If an override is invalid, or changes a fixed key.
            TrustError: If the run names code that is not known here.
        """
        environment = environment_of(env)
        folder, found, config = join().call_on_leader(lambda: last_state_of(run, overrides, environment, trust))
        trainer = cls._of(*found, config, env) if found else cls(env or make_env(config), config)
        trainer._resumed = folder
        return trainer

    @classmethod
    def _of(cls, folder: Path, checkpoint: Checkpoint, config: RunConfig, env: EnvWrapper | None) -> Trainer:
        trainer = cls(env or make_env(config), without_loading(config))
        trainer.config = trainer.learner.config = config
        check_spaces(trainer.learner, checkpoint.spaces, folder)
        try:
            trainer.restore(checkpoint) if checkpoint.state else restore_models(trainer.learner, checkpoint)
        except (TypeError, AttributeError, IndexError) as error:
            raise CheckpointError(f"{folder}: its state was not written by a trainer") from error
        except (KeyError, ValueError, RuntimeError) as error:
            reason = one_line((str(error).strip().splitlines() or [type(error).__name__])[-1], 150)
            raise CheckpointError(f"{folder}: does not match the current environment: {reason}") from error
        return trainer

    def _follow(self, what: str) -> None:
        """Call the method ``what``, as announced by rank 0."""
        with torch_threads(self.config.trainer.torch_threads):
            self.checkpoint() if what == CHECKPOINT else getattr(self.learner, what)()

    def restore(self, checkpoint: Checkpoint) -> None:
        """Restore the state of a checkpoint.

        Args:
            checkpoint: The result of :meth:`checkpoint`, of a trainer with the same configuration.
        """
        restore(self.learner, self.run_state, checkpoint)


def make_env(config: RunConfig) -> EnvWrapper:
    """Create the replicas that a run configuration describes.

    Raises:
        ConfigError: If the configuration names no environment.
    """
    if config.env is None:
        raise ConfigError(f"run '{config.name}': its environment has no registered name; pass it as env=...")
    process_group = join(config.trainer.process_timeout)
    share = process_group.share(config.trainer.num_envs, config.trainer.dedicated_learner)
    device, backend = config.trainer.rollout_device, config.trainer.env_backend
    if not never_uses_gpu(backend) and device != "cpu":
        check_gpus(int(os.environ.get("LOCAL_WORLD_SIZE") or 1), config.trainer.gpu_memory_fraction)
    env = make_replicas(
        config.env.name,
        config.env.parameters,
        num_envs=max(share.count, 1),  # a dedicated learner has one, which is never stepped
        env_backend=backend if device is None else rollout_backend(backend, device, local_rank()),
        seed=config.trainer.seed,
        reset_pool_size=config.trainer.reset_pool_size,
        first_env=share.first,
        process_id=local_rank(),
    )
    if (adapted := adapted_replicas(env, config.policy)) is not env:
        env.close()
    return adapted
