"""Learner: the policies of a run, and its loop of rollouts and updates between two log lines."""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np
import torch
from torch import Tensor

from warpdrive.env_wrapper import EnvWrapper
from warpdrive.episode_log import BEGAN_MIDWAY
from warpdrive.errors import ConfigError
from warpdrive.step_graph import StepGraphs
from warpdrive.training.algorithms.base import LearningConfig
from warpdrive.training.compiled.rollout import native_rollout
from warpdrive.training.config.schema import RunConfig
from warpdrive.training.config.validate import check_random
from warpdrive.training.distributed.consistency import check_weights
from warpdrive.training.distributed.devices import backend_at, check_rollout_device
from warpdrive.training.distributed.process_group import UNSHARDED, ProcessGroup, Sharding, Share, tensors_of
from warpdrive.training.distributed.sync import sync_of
from warpdrive.training.distributed.whole_rollout import WholeRollout
from warpdrive.training.models.base import Actor
from warpdrive.training.opponents import Opponent, build_opponents
from warpdrive.training.policy import Policy
from warpdrive.training.rollout.actor_copies import ActorCopies
from warpdrive.training.rollout.loop import RolloutLoop
from warpdrive.training.rollout.rollout_copy import RolloutCopy


class Learner:
    """Policies, trained in the replicas of an environment.

    Args:
        env: The training replicas of this process.
        config: The validated configuration.
        process_group: Process group of the training.
        share: Range of the replicas of ``env`` among those of all processes.

    Attributes:
        env, config, process_group, share: As given.
        backend: Backend on the device of the updates.
        policies: Learning policies, by policy tag.
        opponents: Actors that are not trained, by policy tag; tags whose agents act at random are in neither.
        rollout: The last collected rollout.
        graphs: Repetition of rollout steps (CUDA graphs).
        updates: Number of updates so far.
        env_steps: Number of environment steps so far.
        ahead: True if the processes that do not train have begun the next rollout.
        episodes: Sums over this process's episodes, as reported by ``episode_statistics``, recorded before the next
            rollout was begun.

    Raises:
        ConfigError: If the devices of the configuration do not fit the environment.
    """

    def __init__(self, env: EnvWrapper, config: RunConfig, process_group: ProcessGroup, share: Share) -> None:
        self.env, self.config, self.process_group, self.share = env, config, process_group, share
        settings = config.trainer
        check_rollout_device(settings.rollout_device, env.backend)
        self.backend = backend_at("trainer.learner_device", settings.learner_device, env.backend)
        apart = self.backend.device != env.device
        if apart and process_group.world_size > 1:
            raise ConfigError(
                f"trainer.learner_device: found '{settings.learner_device}', but each of several processes learns "
                f"on the device of its rollouts, {env.device}, unless trainer.dedicated_learner is set"
            )
        self.updates, self.env_steps, self.ahead = 0, 0, False
        self.episodes: dict[str, Tensor]
        self.policies = self._new_policies()
        self.opponents = build_opponents(config, env, self.policies, share)
        self.graphs = StepGraphs(env.device, "off" if env.steps_on_host else settings.use_cuda_graph)
        global_state = any(policy.learns_from_global_state for policy in self.policies.values())
        self.rollout = env.allocate_rollout(settings.rollout_length, global_state)
        self._loop = RolloutLoop(env, self.rollout, self.graphs, native=native_rollout)
        self._acting: ActorCopies | None = None
        self._learned_from: RolloutCopy | None = None
        if settings.copy_model or apart:
            self._acting = ActorCopies(self.actors, env.device)
            self._learned_from = RolloutCopy(self.rollout, self.backend.device)
        self._experience = self._learned_from.rollout if self._learned_from else self.rollout
        self._sync = (
            sync_of(settings.sync, WholeRollout(process_group, self._experience, share))
            if process_group.world_size > 1
            else None
        )
        process_group.broadcast(tensors_of(self.models.values()))
        self._reset_environment()

    def _new_policies(self) -> dict[str, Policy]:
        env, config = self.env, self.config
        gathers = config.trainer.sync == "rollouts"
        sharding = (
            UNSHARDED if gathers or self.process_group.world_size == 1 else Sharding(self.process_group, self.share)
        )
        return {
            tag: Policy(
                tag,
                env.policy_tags,
                settings,
                env.observation_spaces,
                env.action_spaces[tag],
                self.share.count,
                self.backend,
                seed=_seed_of_policy(config.trainer.seed, index),
                sharding=sharding,
                global_state={name: env.ctx[name][0].numel() for name in env.env.global_state},
                update=config.trainer.update,
                use_cuda_graph=config.trainer.use_cuda_graph,
            )
            for index, tag in enumerate(env.policy_tags)
            if isinstance(settings := config.policy_over_the_run(tag), LearningConfig)
        }

    def collect(self) -> None:
        """Collect a rollout: ``rollout_length`` steps of every replica.

        Raises:
            GraphError: If ``trainer.use_cuda_graph`` is "on", and the step cannot be captured.
        """
        with self.process_group.collective("collect"):
            self._begin_policies()
            if not self.ahead:
                self._begin_opponents()
                self._roll_out()
            self.ahead = False
            self.env_steps += self.config.trainer.train_batch_size

    def update(self) -> dict[str, Tensor]:
        """Train every policy on the rollout. Returns ``losses/<term>/<tag>``, scalars on the learner's device."""
        with self.process_group.collective("update"):
            return self._update(meanwhile=lambda: None)

    @property
    def can_collect_ahead(self) -> bool:
        """True if there are processes that only collect rollouts."""
        return self.config.trainer.dedicated_learner and self.process_group.world_size > 1

    def update_ahead(self) -> dict[str, Tensor]:
        """Run :meth:`update` while processes that only collect rollouts, if any, collect the next one.

        :meth:`collect` then skips that rollout. A checkpoint before that would contain experience that has not been
        used.
        """
        if not self.can_collect_ahead:
            return self.update()

        def collect_ahead() -> None:
            self._begin_policies()
            self._roll_out()

        with self.process_group.collective("update_ahead"):
            self._note_episodes()
            self._begin_opponents()
            losses = self._update(meanwhile=collect_ahead)
            self.ahead = True
        return losses

    def _update(self, meanwhile: Callable[[], None]) -> dict[str, Tensor]:
        if self._learned_from is not None:
            self._learned_from.refresh()
        if self._sync is None:
            terms = {tag: policy.update(self._experience) for tag, policy in self.policies.items()}
        else:
            terms = self._sync.update(self.policies, meanwhile)
        if self.config.trainer.check_weights:
            check_weights(self.process_group, self.models)
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
            self._loop.mark_full(self.actors)

    def episode_statistics(self) -> dict[str, Tensor]:
        """Return ``EnvWrapper.episode_statistics`` over all processes, without a rollout that is collected ahead."""
        with self.process_group.collective("episode_statistics"):
            if not self.ahead:
                self._note_episodes()
            noted = self.process_group.all_reduce_tensors(self.episodes)
            self.episodes = {name: torch.zeros_like(total) for name, total in noted.items()}
        return noted

    def _note_episodes(self) -> None:
        found = self.env.episode_statistics()
        self.episodes = {name: total + found[name] for name, total in self.episodes.items()}

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
            ConfigError: If ``random`` names a tag that the environment does not have.
        """
        check_random(random, self.env.policy_tags)
        return {tag: player.model for tag, player in self._players().items() if tag not in random}

    def evaluated_models(self, random: Collection[str] = ()) -> dict[str, Actor]:
        """Return the actors of evaluations; for self-play, the pool's versions, each in a part of the replicas.

        Raises:
            ConfigError: If ``random`` names a tag that the environment does not have.
        """
        opponents = {tag: opponent.evaluation_model for tag, opponent in self.opponents.items() if tag not in random}
        return {**self.acting_models(random), **opponents}

    def _players(self) -> dict[str, Policy | Opponent]:
        return {**self.policies, **self.opponents}

    @property
    def models(self) -> dict[str, Actor]:
        """Trained models, by policy tag."""
        return {tag: policy.model for tag, policy in self.policies.items()}

    def _reset_environment(self) -> None:
        """Reset actors and replicas of an environment that may have been used before."""
        for tag in self.env.policy_tags:
            self.env.act_at_random(tag)
        self.env.greedy = False
        self.env.reset()
        if self.config.trainer.stagger_episodes:
            if self.env.steps_on_host:
                raise ConfigError(
                    "trainer.stagger_episodes: found true, but environments on the host begin episodes at their start"
                )
            generator = torch.Generator().manual_seed(self.config.trainer.seed)
            times = torch.randint(self.env.env.episode_length, (self.share.total,), generator=generator)
            self.env.ctx["timestep"][: self.share.count].copy_(times[self.share.rows])
            self.env.ctx["reset.choice"].fill_(BEGAN_MIDWAY)  # incomplete episodes do not count
        self.episodes = {name: torch.zeros_like(total) for name, total in self.env.episode_statistics().items()}


def _seed_of_policy(seed: int, index: int) -> int:
    """Return the seed of policy number ``index``, distinct for all runs and indices; the first has ``seed``.

    With consecutive seeds, policy 1 of one run would get the parameters of policy 0 of the next.
    """
    return int(np.random.SeedSequence((seed, index)).generate_state(1, np.uint64)[0] >> 1) if index else seed
