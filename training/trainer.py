"""Trainer: rolls out policies in an environment, updates, evaluates, saves and loads them."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from warpdrive.arguments import check_is, check_within
from warpdrive.backends.loading import never_uses_gpu
from warpdrive.env_wrapper import EnvWrapper
from warpdrive.episode_log import BEGAN_MIDWAY
from warpdrive.errors import CheckpointError, ConfigError, nearest, one_line, shown
from warpdrive.recording.recording import Recording
from warpdrive.step_graph import StepGraphs
from warpdrive.training.algorithms.base import LearningConfig
from warpdrive.training.checkpoint.checkpoint import (
    Checkpoint,
    Which,
    find_checkpoint,
    read_checkpoint,
    write_checkpoint,
)
from warpdrive.training.checkpoint.resume import check_spaces, checkpoint_of, restore, where_it_stopped
from warpdrive.training.checkpoint.run_folder import RunFolder
from warpdrive.training.config.load import RunConfig, load_config
from warpdrive.training.config.named_code import check_named_code
from warpdrive.training.distributed.bootstrap import check_gpus, join, local_rank, share_of
from warpdrive.training.distributed.consistency import check_start, check_weights
from warpdrive.training.distributed.devices import backend_at, check_rollout_device, rollout_backend
from warpdrive.training.distributed.sync import GradientSync, RolloutSync, Sync
from warpdrive.training.distributed.team import UNSHARDED, Sharding, tensors_of
from warpdrive.training.distributed.whole_rollout import WholeRollout
from warpdrive.training.evaluation import MAX_REPLICAS, EvaluationResult, Evaluator, fitting_episodes
from warpdrive.training.inference.pretrained import without_loading
from warpdrive.training.models.base import Actor
from warpdrive.training.opponents import Opponent, SelfPlay, build_opponents
from warpdrive.training.policy import Policy
from warpdrive.training.progress.work import WorkProgress, no_progress
from warpdrive.training.reports import TrainingSummary, UpdateReport
from warpdrive.training.rollout.actor_copies import ActorCopies
from warpdrive.training.rollout.loop import RolloutLoop, act, in_replicas_of
from warpdrive.training.rollout.rollout_copy import RolloutCopy
from warpdrive.training.run.callbacks import Callback
from warpdrive.training.run.loop import run_training
from warpdrive.training.runtime.torch_threads import torch_threads
from warpdrive.training.trainer_checks import (
    check_devices,
    check_environment,
    check_populations,
    check_tags,
    fitted,
    has_dedicated_learner,
    warn_of_long_episodes,
)

_EVALUATION_SEED = 1_000_003  # added to the run's seed: evaluation replicas do not repeat the training ones


class Trainer:
    """Trainer of one policy per policy tag of an environment.

    Args:
        env: the training replicas.
        config: a run configuration. A dictionary may leave out ``name``, ``env`` and ``trainer.num_envs``, which are
            then taken from ``env``; without ``env`` the run cannot be loaded from its folder alone.
        policy_tag_to_agent_id_map: None, or equal to the environment's ``policy_tags``.
        device_id: index of the GPU, if the environment is on one; None: whichever it is on.
        num_devices: number of processes that train together, each on its device; None: as many as were launched,
            see ``distributed.meeting.join``. Each has its own replicas; the sizes in ``config`` are totals.

    Attributes:
        env: as given.
        team: process group of the training.
        config: the validated configuration.
        rollout: the last collected rollout.
        graphs: repetition of rollout steps (CUDA graphs).
        policies: learning policies, by policy tag.
        opponents: actors that are not trained, by policy tag; tags whose agents act at random are in neither.
        learner: backend on the device of the updates.
        evaluation_backend: backend on the device of evaluations.
        updates: number of updates so far.
        env_steps: number of environment steps so far.
        returns: last logged mean return by policy tag, if there is one.
        best: best evaluation of the run so far, see ``BestCheckpoint.state``.
        evaluation_under_way: True while the current weights are evaluated beside training.
        ahead: True if the processes that do not learn have begun the next rollout.
        episodes: sums over this process's episodes, as reported by ``episode_statistics``, recorded before the next
            rollout was begun.

    Raises:
        ConfigError: the configuration is invalid, or does not fit the environment.
    """

    def __init__(
        self,
        env: EnvWrapper,
        config: RunConfig | Mapping[str, Any],
        policy_tag_to_agent_id_map: Mapping[str, Sequence[int]] | None = None,
        device_id: int | None = None,
        num_devices: int | None = None,
    ) -> None:
        check_environment(env)
        self.team = join()
        check_devices(env, self.team, device_id, num_devices)
        check_tags(env, policy_tag_to_agent_id_map)
        self.env = env
        self.share = share_of(self.team, env, has_dedicated_learner(config))
        self.config = fitted(config, env, self.share)
        self.team.set_timeout(self.config.trainer.process_timeout)
        check_start(self.team, self.config, env.env)
        check_populations(self.config, self.team)
        warn_of_long_episodes(self.config, env)
        gathers = self.config.trainer.sync == "rollouts"
        sharding = UNSHARDED if gathers or self.team.size == 1 else Sharding(self.team, self.share)
        asked = self.config.trainer
        check_rollout_device(asked.rollout_device, env.backend)
        self.learner = backend_at("trainer.learner_device", asked.learner_device, env.backend)
        self.evaluation_backend = backend_at("trainer.eval_device", asked.eval_device, env.backend)
        apart = self.learner.device != env.device
        if apart and self.team.size > 1:
            raise ConfigError(
                f"trainer.learner_device: found '{asked.learner_device}', but each of several processes learns where "
                f"its rollouts are, on {env.device}; with trainer.dedicated_learner one of them only learns"
            )
        self.policies = {
            tag: Policy(
                tag,
                env.policy_tags,
                settings,
                env.observation_spaces,
                env.action_spaces[tag],
                self.share.count,
                self.learner,
                seed=_seed_of_policy(self.config.trainer.seed, index),
                sharding=sharding,
                global_state={name: env.ctx[name][0].numel() for name in env.env.global_state},
            )
            for index, tag in enumerate(env.policy_tags)
            if isinstance(settings := self.config.policy_over_the_run(tag), LearningConfig)
        }
        self.opponents = build_opponents(self.config, env, self.policies, self.share)
        self.updates = 0
        self.env_steps = 0
        self.returns: dict[str, float | None] = {}
        self.best: dict[str, Any] | None = None
        self.evaluation_under_way = False
        self._resumed: RunFolder | None = None
        self.graphs = StepGraphs(env.device, self.config.trainer.use_cuda_graph)
        global_state = any(policy.learns_from_global_state for policy in self.policies.values())
        self.rollout = env.allocate_rollout(self.config.trainer.rollout_length, global_state)
        self._loop = RolloutLoop(env, self.rollout, self.graphs)
        self.ahead = False
        self.episodes: dict[str, Tensor]
        self._acting: ActorCopies | None = None
        self._learned_from: RolloutCopy | None = None
        if asked.copy_model or apart:
            self._acting = ActorCopies(self.actors, env.device)
            self._learned_from = RolloutCopy(self.rollout, self.learner.device)
        whole = WholeRollout(self.team, self._learned_from.rollout if self._learned_from else self.rollout, self.share)
        self._sync: Sync = RolloutSync(whole) if gathers else GradientSync(whole)
        self.team.broadcast(tensors_of(self.models.values()))
        self._forget_the_past()

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
            on_update: called after each logged update: shorthand for a callback with only this method.
            callbacks: called at rollouts, updates, evaluations, checkpoints and the end, see ``wd.Callback``. Their
                exceptions are raised here, after everything is saved.
            progress: If True, show progress: a bar on a terminal and in a notebook, elsewhere an occasional line on
                stderr if training takes more than two seconds. A ``TrainingProgress`` among ``callbacks`` replaces it.

        Returns:
            The summary of the run.

        Raises:
            TrainingError: a loss is no longer finite. The last good checkpoint is kept.
            CheckpointError: another process has continued the run.
        """
        going_on, self._resumed = self._resumed, None
        if going_on is None:  # a new run inherits no best or pending evaluation
            self.best, self.evaluation_under_way = None, False
        return self.team.led(lambda: run_training(self, on_update, callbacks, going_on, progress), self._follow)

    def collect(self) -> None:
        """Collect a rollout: ``rollout_length`` steps of every replica.

        Raises:
            GraphError: ``trainer.use_cuda_graph`` is "on", and the step cannot be captured.
        """
        with self.team.together("collect"):
            self._begin_policies()
            if not self.ahead:
                self._begin_opponents()
                self._roll_out()
            self.ahead = False
            self.env_steps += self.config.trainer.train_batch_size

    def update(self) -> dict[str, Tensor]:
        """Train every policy on the rollout. Returns ``losses/<term>/<tag>``, scalars on the learner's device."""
        with self.team.together("update"):
            return self._update(meanwhile=lambda: None)

    @property
    def can_go_ahead(self) -> bool:
        """True if there are processes that do not learn and only collect rollouts."""
        return self.config.trainer.dedicated_learner and self.team.size > 1

    def update_ahead(self) -> dict[str, Tensor]:
        """Run :meth:`update` while the processes that do not learn collect the next rollout, if there are any.

        :meth:`collect` then skips that rollout. A checkpoint before that would hold experience that nothing has learned
        from.
        """
        if not self.can_go_ahead:
            return self.update()

        def go_ahead() -> None:
            self._begin_policies()
            self._roll_out()

        with self.team.together("update_ahead"):
            self._note_episodes()
            self._begin_opponents()
            losses = self._update(meanwhile=go_ahead)
            self.ahead = True
        return losses

    def _update(self, meanwhile: Callable[[], None]) -> dict[str, Tensor]:
        if self._learned_from is not None:
            self._learned_from.refresh()
        terms = self._sync.update(self.policies, meanwhile)
        if self.config.trainer.check_weights:
            check_weights(self.team, self.models)
        self.updates += 1
        return {f"losses/{term}/{tag}": value for tag, found in terms.items() for term, value in found.items()}

    def _begin_policies(self) -> None:
        for policy in self.policies.values():
            policy.begin(self.env_steps)

    def _begin_opponents(self) -> None:
        for opponent in self.opponents.values():  # also without rollouts, since opponents are part of checkpoints
            opponent.begin(self.updates)

    def _roll_out(self) -> None:
        if self._acting is not None:
            self._acting.refresh()
        if self.share.count:
            self._loop.fill(self.actors)
        else:
            self._loop.pass_over(self.actors)

    def episode_statistics(self) -> dict[str, Tensor]:
        """Return ``EnvWrapper.episode_statistics`` over all processes, without a rollout that is collected ahead."""
        with self.team.together("episode_statistics"):
            if not self.ahead:
                self._note_episodes()
            noted = self.team.sum_all(self.episodes)
            self.episodes = {name: torch.zeros_like(total) for name, total in noted.items()}
        return noted

    def _note_episodes(self) -> None:
        found = self.env.episode_statistics()
        self.episodes = {name: total + found[name] for name, total in self.episodes.items()}

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
            num_episodes: number of episodes; None: ``trainer.evaluation.num_episodes``, or by the length of training.
            random: policy tags whose agents act uniformly at random instead.
            deterministic: If True, take the most probable action instead of sampling; None: as ``trainer.evaluation``
                says.
            seed: seed of start states and sampling; None: derived from the run's seed.
            progress: If True, show progress if the evaluation takes more than two seconds.

        Returns:
            The returns and lengths of the episodes.
        """
        settings = self.config.trainer.evaluation
        num_episodes = self.evaluation_episodes if num_episodes is None else num_episodes
        if type(num_episodes) is not int or not 1 <= num_episodes < 2**31:
            raise ConfigError(f"evaluate: found num_episodes = {shown(num_episodes)}, expected 1 or more (int32)")
        deterministic = settings.deterministic if deterministic is None else deterministic
        check_is(bool, deterministic=deterministic)
        _, evaluator = self.evaluator(num_episodes, random, deterministic, seed)
        silence = nullcontext() if progress else no_progress()
        bar = WorkProgress("evaluating", num_episodes, "episodes")
        with torch_threads(self.config.trainer.torch_threads), silence, bar:
            result = evaluator.play(lambda done, _: bar.reach(done))
        return replace(result, elo=self.elo_ratings(evaluator, self.ratings_of_past_versions(), random))

    def ratings_of_past_versions(self) -> dict[str, list[float]]:
        """Return the Elo ratings of the past versions in evaluations, by the policy tag that they act for."""
        return {
            tag: ratings
            for tag, opponent in self.opponents.items()
            if isinstance(opponent, SelfPlay) and (ratings := opponent.evaluated_ratings())
        }

    def elo_ratings(
        self, evaluator: Evaluator, past: Mapping[str, Sequence[float]], random: Collection[str] = ()
    ) -> dict[str, float]:
        """Return the Elo rating of each policy with past versions as opponents, from a finished evaluation.

        Args:
            evaluator: evaluator of the episodes.
            past: result of :meth:`ratings_of_past_versions` when the evaluation began.
            random: policy tags whose agents acted at random.

        Returns:
            Elo ratings by policy tag.
        """
        returns, elo = evaluator.episode_returns(), {}
        for tag, ratings in past.items():
            opponent = self.opponents[tag]
            assert isinstance(opponent, SelfPlay)
            learner = opponent.config.of
            if tag not in random and learner not in random:
                elo[learner] = opponent.rate(returns[learner], returns[tag], ratings, evaluator.num_envs)
        return elo

    def take_ratings(self, elo: Mapping[str, float]) -> None:
        """Set the Elo ratings that an evaluation gave the policies, for snapshots taken from now on."""
        for opponent in self.opponents.values():
            if isinstance(opponent, SelfPlay) and opponent.config.of in elo:
                opponent.rating = elo[opponent.config.of]

    @property
    def evaluation_episodes(self) -> int:
        """Default number of episodes of an evaluation, see ``trainer.evaluation.num_episodes``."""
        asked = self.config.trainer
        return asked.evaluation.num_episodes or fitting_episodes(asked.total_steps, self.env.env.episode_length)

    def evaluator(
        self,
        num_episodes: int,
        random: Collection[str] = (),
        deterministic: bool = False,
        seed: int | None = None,
        graphs: StepGraphs | None = None,
        models: Mapping[str, Actor] | None = None,
    ) -> tuple[ActorCopies, Evaluator]:
        """Create evaluation replicas and copies of the models that act in them.

        The copies have the current weights until they are refreshed.

        Args:
            num_episodes: see :meth:`evaluate`.
            random: see :meth:`evaluate`.
            deterministic: see :meth:`evaluate`.
            seed: see :meth:`evaluate`.
            graphs: repetition of steps; None: that of rollouts, or "auto" if evaluations are on another device.
            models: actors by policy tag; None: policies and opponents of this run, the pool's versions for self-play.

        Returns:
            The copies and the evaluator.
        """
        backend = self.evaluation_backend
        copies = ActorCopies(self.evaluated_models(random) if models is None else models, backend.device)
        if graphs is None:
            graphs = self.graphs if backend is self.env.backend else StepGraphs(backend.device, "auto")
        env = EnvWrapper(
            self.env.env,
            num_envs=min(num_episodes, MAX_REPLICAS),
            env_backend=backend,
            seed=self.config.trainer.seed + _EVALUATION_SEED if seed is None else seed,
            reset_pool_size=self.config.trainer.reset_pool_size,
        )
        return copies, Evaluator(env, copies.actors, num_episodes, deterministic, graphs)

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
            replicas: number of replicas, or the indices of those to record.
            seed: seed of start states and sampling; None: the run's seed.
            random: policy tags whose agents act uniformly at random instead.
            deterministic: If True, take the most probable action instead of sampling.
            observations: If True, observations are recorded, too.
            logits: If True, the outputs of the policies are recorded, too.
            max_steps: maximum number of recorded steps.

        Returns:
            States, actions, rewards and probabilities of every step; see :class:`warpdrive.Recording` for the shapes.

        Raises:
            ConfigError: ``random`` names a tag that the environment does not have.
            DefinitionError: ``replicas`` is empty.
        """
        models = ActorCopies(self.acting_models(random), self.env.device).actors
        if isinstance(replicas, Sequence) and not isinstance(replicas, str):
            check_within(0, 1 << 31, **{f"replicas[{place}]": number for place, number in enumerate(replicas)})
            chosen = list(replicas)
        else:
            check_within(1, 1 << 20, replicas=replicas)
            chosen = list(range(replicas))
        env = EnvWrapper(
            self.env.env,
            num_envs=max(chosen, default=0) + 1,
            env_backend=self.env.backend,
            seed=self.config.trainer.seed if seed is None else seed,
            reset_pool_size=self.env.reset_pool_size,
        )
        env.env_name, env.env_config = self.env.env_name, self.env.env_config
        env.greedy = deterministic
        actors = in_replicas_of(env, models)
        with WorkProgress("playing an episode", unit="steps") as shown:

            def play(replicas: EnvWrapper) -> None:
                act(replicas, actors)
                shown.advance()

            return env.record(chosen, play, observations=observations, logits=logits, max_steps=max_steps)

    @property
    def actors(self) -> dict[str, Actor]:
        """Actors of the rollouts, by policy tag."""
        if self._acting is not None:
            return self._acting.actors
        return {tag: player.actor for tag, player in self._players().items()}

    def acting_models(self, random: Collection[str] = ()) -> dict[str, Actor]:
        """Return the actors of displayed episodes by policy tag, without the tags of ``random``.

        These are the models of policies and opponents; for self-play, the current version of the policy. Tags whose
        agents always act at random have none.

        Raises:
            ConfigError: ``random`` names a tag that the environment does not have.
        """
        self._check_tags(random)
        return {tag: player.model for tag, player in self._players().items() if tag not in random}

    def evaluated_models(self, random: Collection[str] = ()) -> dict[str, Actor]:
        """Return the actors of evaluations; for self-play, the pool's versions, each in a part of the replicas.

        Raises:
            ConfigError: ``random`` names a tag that the environment does not have.
        """
        opponents = {tag: opponent.evaluation_model for tag, opponent in self.opponents.items() if tag not in random}
        return {**self.acting_models(random), **opponents}

    def _check_tags(self, random: Collection[str]) -> None:
        if isinstance(random, str):
            raise ConfigError(f"found random = '{random}', expected a list of policy tags: ['{random}']")
        if not isinstance(random, Collection):
            raise ConfigError(f"found random = {shown(random)}, expected a list of policy tags")
        for tag in random:
            if not isinstance(tag, str) or tag not in self.env.policy_tags:
                known = ", ".join(self.env.policy_tags)
                hint = nearest(str(tag), self.env.policy_tags)
                raise ConfigError(f"unknown policy tag {shown(tag)}, expected one of {known}.{hint}")

    def _players(self) -> dict[str, Policy | Opponent]:
        return {**self.policies, **self.opponents}

    @property
    def models(self) -> dict[str, Actor]:
        """Trained models, by policy tag."""
        return {tag: policy.model for tag, policy in self.policies.items()}

    def checkpoint(self) -> Checkpoint:
        """Return the complete training state, on rank 0.

        It does not depend on the number of processes.
        """
        return checkpoint_of(self)

    def save(self, path: str | Path) -> None:
        """Write a checkpoint folder.

        Raises:
            CheckpointError: ``path`` exists and is something else, or cannot be written.
        """
        checkpoint = self.checkpoint()
        self.team.from_leader(lambda: write_checkpoint(Path(path), checkpoint))

    @classmethod
    def load(
        cls, path: str | Path, env: EnvWrapper | None = None, which: Which = "latest", *, trust: bool = False
    ) -> Trainer:
        """Load a trainer from a checkpoint; ``train`` continues from there in a new run folder.

        Args:
            path: a checkpoint folder, or a run: its folder or name.
            env: the environment; None: created from the configuration in the checkpoint.
            which: checkpoint of a run: ``"latest"``, or ``"best"`` by the evaluations during training.
            trust: If True, code named by the run may be executed even if it is not known here, see docs/security.md.

        Returns:
            A trainer in the state of the checkpoint.

        Raises:
            CheckpointError: there is no checkpoint, it is damaged, or it does not fit the environment.
            TrustError: the run names code that is not known here.
        """

        def read() -> tuple[Path, Checkpoint]:
            folder = find_checkpoint(path, which)
            checkpoint = read_checkpoint(folder)
            if not trust:
                check_named_code(checkpoint.config, folder)
            return folder, checkpoint

        folder, checkpoint = join().from_leader(read)
        return cls._of(folder, checkpoint, load_config(checkpoint.config, environment=env.env if env else None), env)

    @classmethod
    def resume(
        cls, run: str | Path, overrides: Sequence[str] = (), env: EnvWrapper | None = None, *, trust: bool = False
    ) -> Trainer:
        """Load a trainer whose ``train`` resumes a run, in its folder.

        It starts from the last complete checkpoint: later log entries are written again. On the CPU backend the metrics
        are bitwise those of an uninterrupted run (with the same number of threads, see ``trainer.torch_threads``). A
        run that was stopped before its first checkpoint starts over.

        Args:
            run: its folder, or its name; or its last checkpoint.
            overrides: ``"trainer.total_steps=2e6"``: changes of the configuration, as in ``load_config``, from here on.
                Keys that past training depends on cannot change: the environment, the seed, models.
            env: the environment; None: created from the run's configuration.
            trust: If True, code named by the run may be executed even if it is not known here, see docs/security.md.

        Returns:
            A trainer in the state of the last checkpoint.

        Raises:
            CheckpointError: there is no such run, its checkpoints are damaged or do not fit the environment, or it has
                continued past the checkpoint given.
            ConfigError: an override is invalid, or changes a fixed key.
            TrustError: the run names code that is not known here.
        """
        environment = env.env if env else None
        folder, found, config = join().from_leader(lambda: where_it_stopped(run, overrides, environment, trust))
        trainer = cls._of(*found, config, env) if found else cls(env or make_env(config), config)
        trainer._resumed = folder
        return trainer

    @classmethod
    def _of(cls, folder: Path, checkpoint: Checkpoint, config: RunConfig, env: EnvWrapper | None) -> Trainer:
        trainer = cls(env or make_env(config), without_loading(config))
        trainer.config = config
        check_spaces(trainer, checkpoint.spaces, folder)
        try:
            trainer.restore(checkpoint)
        except (TypeError, AttributeError, IndexError) as error:
            raise CheckpointError(f"{folder}: its state is not what a trainer writes") from error
        except (KeyError, ValueError, RuntimeError) as error:
            reason = one_line((str(error).strip().splitlines() or [type(error).__name__])[-1], 150)
            raise CheckpointError(f"{folder}: does not fit the environment as it is now: {reason}") from error
        return trainer

    def _follow(self, what: str) -> None:
        """Call the method ``what`` as rank 0 does."""
        with torch_threads(self.config.trainer.torch_threads):
            getattr(self, what)()

    def _forget_the_past(self) -> None:
        """Reset actors and replicas of an environment that may have been used before."""
        for tag in self.env.policy_tags:
            self.env.act_at_random(tag)
        self.env.greedy = False
        self.env.reset()
        if self.config.trainer.stagger_episodes:
            generator = torch.Generator().manual_seed(self.config.trainer.seed)
            times = torch.randint(self.env.env.episode_length, (self.share.total,), generator=generator)
            self.env.ctx["timestep"][: self.share.count].copy_(times[self.share.rows])
            self.env.ctx["episode.running_return"].fill_(BEGAN_MIDWAY)  # incomplete episodes do not count
        self.episodes = {name: torch.zeros_like(total) for name, total in self.env.episode_statistics().items()}

    def restore(self, checkpoint: Checkpoint) -> None:
        """Restore the state of a checkpoint."""
        restore(self, checkpoint)


def _seed_of_policy(seed: int, index: int) -> int:
    """Return the seed of policy number ``index``, distinct for all runs and indices; the first has ``seed``.

    With consecutive seeds, policy 1 of one run would get the parameters of policy 0 of the next.
    """
    return int(np.random.SeedSequence((seed, index)).generate_state(1, np.uint64)[0] >> 1) if index else seed


def make_env(config: RunConfig) -> EnvWrapper:
    """Create the replicas that a run configuration describes.

    Raises:
        ConfigError: the configuration names no environment.
    """
    if config.env is None:
        raise ConfigError(f"run '{config.name}': its environment has no registered name; give it as env=...")
    team = join(config.trainer.process_timeout)
    share = team.share(config.trainer.num_envs, config.trainer.dedicated_learner)
    device, backend = config.trainer.rollout_device, config.trainer.env_backend
    if not never_uses_gpu(backend) and device != "cpu":
        check_gpus(int(os.environ.get("LOCAL_WORLD_SIZE") or 1), config.trainer.gpu_memory_fraction)
    return EnvWrapper(
        env_name=config.env.name,
        env_config=config.env.parameters,
        num_envs=max(share.count, 1),  # a process that only learns has one, which is never stepped
        env_backend=backend if device is None else rollout_backend(backend, device, local_rank()),
        seed=config.trainer.seed,
        reset_pool_size=config.trainer.reset_pool_size,
        first_env=share.first,
        process_id=local_rank(),
    )
