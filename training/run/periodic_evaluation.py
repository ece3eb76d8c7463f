"""Periodic evaluation during training in separate replicas: between two updates, or concurrently.

A result is logged in the row of its weights, so that ``metrics.csv`` does not depend on the duration of an evaluation.
Training waits for it before the next checkpoint; an evaluation that starts with a checkpoint is repeated if the run is
resumed from there.
"""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from warpdrive.host_transfers import host_transfers_allowed
from warpdrive.step_graph import StepGraphs
from warpdrive.training.evaluation import EvaluationResult, Evaluator, OnProgress
from warpdrive.training.reports import EvaluationReport
from warpdrive.training.rollout.actor_copies import ActorCopies

if TYPE_CHECKING:
    from warpdrive.training.evaluations import Evaluations


class PeriodicEvaluation:
    """Evaluations during training, without side effects: replicas, models and random numbers are separate.

    All evaluations have the same start states and random numbers: only the policies differ, and a resumed run
    reproduces the results.

    Args:
        evaluations: Evaluations of the learner's policies.
        on_progress: See ``Evaluator.play``; called for evaluations between two updates.
    """

    def __init__(self, evaluations: Evaluations, on_progress: OnProgress | None = None) -> None:
        self.evaluations, self.learner = evaluations, evaluations.learner
        self.settings = self.learner.config.trainer.evaluation
        self._on_progress = on_progress
        self._past: dict[str, list[float]] = {}
        self._made: tuple[ActorCopies, Evaluator] | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._under_way: tuple[int, int, Future[tuple[EvaluationResult, float]]] | None = None

    def is_due(self, updates: int) -> bool:
        """Return True if the weights after ``updates`` updates are to be evaluated."""
        every, learner = self.settings.every, self.learner
        if every is None:
            return False
        if self.settings.unit == "updates":
            return updates % every == 0
        return learner.env_steps // every > (learner.env_steps - learner.config.trainer.train_batch_size) // every

    def begin(self) -> None:
        """Evaluate the current weights: now, or concurrently with training."""
        copies, evaluator = self._made = self._made or self._make()
        copies.refresh()
        self._past = self.evaluations.ratings_of_past_versions()
        future: Future[tuple[EvaluationResult, float]] = Future()
        if self.settings.beside:
            self._thread = self._thread or ThreadPoolExecutor(max_workers=1, thread_name_prefix="evaluation")
            future = self._thread.submit(_play, evaluator, _stream_beside(copies.device))
        else:
            future.set_result(_play(evaluator, nullcontext(), self._on_progress))
        self._under_way = self.learner.updates, self.learner.env_steps, future

    def end(self) -> EvaluationReport | None:
        """Return the result of the last evaluation, once; wait for it if necessary."""
        if self._under_way is None:
            return None
        (update, env_steps, future), self._under_way = self._under_way, None
        result, seconds = future.result()
        assert self._made is not None
        elo = self.evaluations.elo_ratings(self._made[1], self._past)
        self.evaluations.take_ratings(elo)
        result = replace(result, elo=elo)
        return EvaluationReport(update, env_steps, result, seconds)

    def close(self) -> None:
        """Wait for an evaluation in progress, and discard it."""
        if self._thread is not None:
            self._thread.shutdown()

    def _make(self) -> tuple[ActorCopies, Evaluator]:
        # in another thread, steps are captured on another stream than those of rollouts
        device, use = self.evaluations.backend.device, self.learner.config.trainer.use_cuda_graph
        graphs = StepGraphs(device, "auto" if use == "on" else use) if self.settings.beside else None
        with host_transfers_allowed():
            return self.evaluations.evaluator(
                self.evaluations.num_episodes, deterministic=self.settings.deterministic, graphs=graphs
            )


def _play(
    evaluator: Evaluator, stream: AbstractContextManager[object], on_progress: OnProgress | None = None
) -> tuple[EvaluationResult, float]:
    began = time.perf_counter()
    with stream, host_transfers_allowed():
        result = evaluator.play(on_progress)
    return result, time.perf_counter() - began


def _stream_beside(device: torch.device) -> AbstractContextManager[object]:
    """Return a context with a separate GPU stream, ordered after all work submitted so far."""
    if device.type != "cuda":
        return nullcontext()
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    return torch.cuda.stream(stream)
