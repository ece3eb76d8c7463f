"""Evaluations of a learner's policies: separate replicas, copies of the models, and Elo ratings."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from warpdrive.step_graph import StepGraphs
from warpdrive.training.distributed.devices import backend_at
from warpdrive.training.evaluation import MAX_REPLICAS, Evaluator, fitting_episodes
from warpdrive.training.learner import Learner
from warpdrive.training.models.base import Actor
from warpdrive.training.opponents import SelfPlay
from warpdrive.training.rollout.actor_copies import ActorCopies

_EVALUATION_SEED = 1_000_003  # added to the run's seed: evaluation replicas do not repeat the training ones


class Evaluations:
    """Factory of evaluators for the policies of a learner; training is not affected.

    Args:
        learner: Provides the policies, the environment and the configuration.

    Attributes:
        backend: Backend on the device of evaluations.
    """

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        env = learner.env
        self.backend = backend_at("trainer.eval_device", learner.config.trainer.eval_device, env.backend)

    def ratings_of_past_versions(self) -> dict[str, list[float]]:
        """Return the Elo ratings of the past versions in evaluations, by the policy tag that they act for."""
        return {
            tag: ratings
            for tag, opponent in self.learner.opponents.items()
            if isinstance(opponent, SelfPlay) and (ratings := opponent.evaluated_ratings())
        }

    def elo_ratings(
        self, evaluator: Evaluator, past: Mapping[str, Sequence[float]], random: Collection[str] = ()
    ) -> dict[str, float]:
        """Return the Elo rating of each policy with past versions as opponents, from a finished evaluation.

        Args:
            evaluator: Evaluator of the episodes.
            past: Result of :meth:`ratings_of_past_versions` when the evaluation began.
            random: Policy tags whose agents acted at random.

        Returns:
            Elo ratings by policy tag.
        """
        returns, elo = evaluator.episode_returns(), {}
        for tag, ratings in past.items():
            opponent = self.learner.opponents[tag]
            assert isinstance(opponent, SelfPlay)
            learner = opponent.config.of
            if tag not in random and learner not in random:
                elo[learner] = opponent.rate(returns[learner], returns[tag], ratings, evaluator.num_envs)
        return elo

    def take_ratings(self, elo: Mapping[str, float]) -> None:
        """Set the Elo ratings of the policies from an evaluation, for later snapshots."""
        for opponent in self.learner.opponents.values():
            if isinstance(opponent, SelfPlay) and opponent.config.of in elo:
                opponent.rating = elo[opponent.config.of]

    @property
    def num_episodes(self) -> int:
        """Default number of episodes of an evaluation, see ``trainer.evaluation.num_episodes``."""
        learner, asked = self.learner, self.learner.config.trainer
        return asked.evaluation.num_episodes or fitting_episodes(asked.total_steps, learner.env.env.episode_length)

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
            num_episodes: See ``Trainer.evaluate``.
            random: See ``Trainer.evaluate``.
            deterministic: See ``Trainer.evaluate``.
            seed: See ``Trainer.evaluate``.
            graphs: Repetition of steps; None: that of rollouts, or "auto" if evaluations are on another device.
            models: Actors by policy tag; None: policies and opponents of this run, the pool's versions for self-play.

        Returns:
            The copies and the evaluator.
        """
        learner, backend = self.learner, self.backend
        copies = ActorCopies(learner.evaluated_models(random) if models is None else models, backend.device)
        if graphs is None:
            graphs = learner.graphs if backend is learner.env.backend else StepGraphs(backend.device, "auto")
        env = learner.env.like(
            min(num_episodes, MAX_REPLICAS),
            seed=learner.config.trainer.seed + _EVALUATION_SEED if seed is None else seed,
            env_backend=backend,
            reset_pool_size=learner.config.trainer.reset_pool_size,
        )
        return copies, Evaluator(env, copies.actors, num_episodes, deterministic, graphs)
