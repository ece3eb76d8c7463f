"""Evaluation of policies: means over whole episodes, with the same number of episodes in each replica.

The acting models are copies (``rollout/actor_copies.py``) with the learned parameters and their own state between
steps: buffers of an actor that are not persistent (``Actor.kept_between_steps``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from warpdrive.env_wrapper import EnvWrapper
from warpdrive.step_graph import StepGraphs
from warpdrive.training.models.base import Actor
from warpdrive.training.rollout.loop import RolloutLoop, in_replicas_of

MAX_REPLICAS = 1000
FEWEST_EPISODES, MAX_EPISODES = 50, 1000
OnProgress = Callable[[int, int], object]
"""Function called with the number of finished episodes, and of all episodes."""
_STEPS_AT_ONCE = 16  # steps between two checks by the host of the end of all episodes


def fitting_episodes(total_steps: int, episode_length: int) -> int:
    """Return the number of evaluation episodes: 50 to 1000, if possible within a quarter of the training steps."""
    return min(max(total_steps // (4 * episode_length), FEWEST_EPISODES), MAX_EPISODES)


@dataclass(frozen=True)
class EvaluationResult:
    """Result of an evaluation.

    Attributes:
        episodes: Number of episodes.
        mean_return: Mean over episodes of the mean return of the tag's agents, by policy tag.
        std_return: Standard deviation of the same over episodes, by policy tag.
        mean_length: Steps per episode.
        terminated_fraction: Fraction of the episodes that terminated; the others were truncated.
        elo: Elo rating of each policy tag whose past versions act for another tag; the initial policy has 0.
        episode_returns: Return of each episode, by policy tag.
        episode_lengths: Steps of each episode.
    """

    episodes: int
    mean_return: dict[str, float]
    std_return: dict[str, float]
    mean_length: float
    terminated_fraction: float
    elo: dict[str, float] = field(default_factory=dict)
    episode_returns: dict[str, list[float]] = field(default_factory=dict, repr=False, compare=False)
    episode_lengths: list[int] = field(default_factory=list, repr=False, compare=False)

    def metrics(self) -> dict[str, float]:
        """Return the results by their metric names."""
        of_tags = {
            f"eval/{name}/{tag}": value
            for name, values in (("episodic_return", self.mean_return), ("episodic_return_std", self.std_return))
            for tag, value in values.items()
        }
        return {
            **of_tags,
            "eval/episodic_length": self.mean_length,
            "eval/terminated_fraction": self.terminated_fraction,
            "eval/episodes": self.episodes,
            **{f"eval/elo/{tag}": rating for tag, rating in self.elo.items()},
        }


class Evaluator:
    """Replicas for repeated evaluations, each with the same start states and random numbers.

    Every replica plays the same number of whole episodes, since the first episodes to finish would be biased towards
    short ones. Episode k of replica e counts if ``k * num_envs + e < num_episodes``.

    Args:
        env: New replicas, for evaluations only; at most ``num_episodes``.
        models: Actors by policy tag; agents of the other tags act uniformly at random.
        num_episodes: Number of episodes that count.
        deterministic: If True, take the most probable action instead of sampling.
        graphs: Repetition of steps; None: without CUDA graphs.
    """

    def __init__(
        self,
        env: EnvWrapper,
        models: Mapping[str, Actor],
        num_episodes: int,
        deterministic: bool = False,
        graphs: StepGraphs | None = None,
    ) -> None:
        self.num_episodes = num_episodes
        self._actors = in_replicas_of(env, models)
        self._env, self._start = env, env.save_state()
        self._record = _Record(env, rounds=-(-num_episodes // env.num_envs))
        env.greedy = deterministic
        rollout = env.allocate_rollout(_STEPS_AT_ONCE)
        graphs = graphs or StepGraphs(env.device, "off")
        self._loop = RolloutLoop(env, rollout, graphs, after_step=self._record.add)

    @torch.no_grad()
    def play(self, on_progress: OnProgress | None = None) -> EvaluationResult:
        """Play ``num_episodes`` episodes with the current parameters of the models.

        Args:
            on_progress: Called every 16 steps. An exception that it raises ends the evaluation.
        """
        self._env.load_state(self._start)
        self._loop.prepare(self._actors)
        self._record.clear()
        while (ended := self._record.ended()) < self._record.expected:
            if on_progress is not None:
                on_progress(min(ended, self.num_episodes), self.num_episodes)
            self._loop.fill(self._actors)
        return self._record.result(self.num_episodes)

    @property
    def num_envs(self) -> int:
        """Number of replicas."""
        return self._env.num_envs

    def close(self) -> None:
        """Close the replicas. The results remain available, but :meth:`play` does not."""
        self._env.close()

    def episode_returns(self) -> dict[str, Tensor]:
        """Return the return of each counted episode, ``[episodes]`` on the host by policy tag.

        It is the mean over the agents of the tag. Episode ``i`` was played by replica ``i % num_envs``.
        """
        return self._record.per_tag(self.num_episodes)


class _Record:
    """Returns, lengths and ends of the first ``rounds`` episodes of every replica, on the device."""

    def __init__(self, env: EnvWrapper, rounds: int) -> None:
        self.env, self.rounds = env, rounds
        device, replicas = env.device, env.num_envs
        self.present = torch.zeros(replicas, env.num_agents, dtype=torch.float64, device=device)
        self.played = torch.zeros(replicas, dtype=torch.int64, device=device)
        # an extra round receives the episodes that do not count
        self.returns = torch.zeros(rounds + 1, *self.present.shape, dtype=torch.float64, device=device)
        self.lengths = torch.zeros(rounds + 1, replicas, device=device)
        self.terminated = torch.zeros(rounds + 1, replicas, device=device)
        self.replica = torch.arange(replicas, device=device)

    def clear(self) -> None:
        for tensor in (self.present, self.played, self.returns, self.lengths, self.terminated):
            tensor.zero_()

    def add(self) -> None:
        """Record the last step of the replicas."""
        terminated = self.env.ctx["terminated"]
        ended = terminated | self.env.ctx["truncated"]
        self.present += self.env.ctx["rewards"]
        slot = torch.where(ended, self.played.clamp(max=self.rounds), self.rounds)
        self.returns[slot, self.replica] = self.present
        self.lengths[slot, self.replica] = self.env.ctx["episode.last_length"].float()
        self.terminated[slot, self.replica] = terminated.float()
        self.present.masked_fill_(ended[:, None], 0.0)
        self.played += ended

    @property
    def expected(self) -> int:
        return self.rounds * len(self.played)

    def ended(self) -> int:
        return int(self.played.clamp(max=self.rounds).sum())

    def result(self, num_episodes: int) -> EvaluationResult:
        per_tag = self.per_tag(num_episodes)
        lengths = self.lengths[:-1].flatten()[:num_episodes]
        return EvaluationResult(
            episodes=num_episodes,
            mean_return={tag: float(values.mean()) for tag, values in per_tag.items()},
            std_return={tag: float(values.std(correction=0)) for tag, values in per_tag.items()},
            mean_length=float(lengths.mean()),
            terminated_fraction=float(self.terminated[:-1].flatten()[:num_episodes].mean()),
            episode_returns={tag: values.tolist() for tag, values in per_tag.items()},
            episode_lengths=lengths.int().tolist(),
        )

    def per_tag(self, num_episodes: int) -> dict[str, Tensor]:
        returns = self.returns[:-1].flatten(0, 1)[:num_episodes].cpu()
        return {tag: returns[:, list(ids)].mean(1) for tag, ids in self.env.policy_tags.items()}
