"""Periodic evaluation during training in separate replicas: between two updates, or concurrently.

A result is logged in the row of its weights, so that ``metrics.csv`` does not depend on the duration of an evaluation.
Training waits for it before the next checkpoint; an evaluation that starts with a checkpoint is repeated if the run is
resumed from there. After a request to stop an evaluation is abandoned, for the checkpoint to be written in time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
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

_PATIENCE = 10.0  # seconds after a request to stop; Slurm and Kubernetes kill a process after 30


class _AbandonedError(Exception):
    """Raised between two steps of an evaluation."""


class PeriodicEvaluation:
    """Evaluations during training, without side effects: replicas, models and random numbers are separate.

    All evaluations have the same start states and random numbers: only the policies differ, and a resumed run
    reproduces the results.

    Args:
        evaluations: Evaluations of the learner's policies.
        stop_requested: Returns True once the run is to stop. An evaluation between two updates is then abandoned
            immediately, as a resumed run repeats it; a concurrent one, whose weights may be gone, after 10 seconds.
        on_progress: See ``Evaluator.play``; called for evaluations between two updates.

    Attributes:
        updates: Number of updates of the last evaluated weights.
    """

    def __init__(
        self, evaluations: Evaluations, stop_requested: Callable[[], bool], on_progress: OnProgress | None = None
    ) -> None:
        self.evaluations, self.learner = evaluations, evaluations.learner
        self.settings = self.learner.config.trainer.evaluation
        self.updates = -1
        self._stop_requested, self._on_progress = stop_requested, on_progress
        self._abandon_at, self._closed = math.inf, False
        self._past: dict[str, list[float]] = {}
        self._made: tuple[ActorCopies, Evaluator] | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._under_way: tuple[int, Future[tuple[EvaluationResult, float]]] | None = None

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
            future = self._thread.submit(self._play, evaluator, _stream_beside(copies.device))
        else:
            try:
                future.set_result(self._play(evaluator, nullcontext()))
            except _AbandonedError as abandoned:
                future.set_exception(abandoned)
        self.updates, self._under_way = self.learner.updates, (self.learner.env_steps, future)

    def end(self) -> EvaluationReport | None:
        """Return the result of the last evaluation, once; wait for it if necessary. None if it was abandoned."""
        if self._under_way is None:
            return None
        (env_steps, future), self._under_way = self._under_way, None
        try:
            result, seconds = future.result()
        except _AbandonedError:
            return None
        assert self._made is not None
        elo = self.evaluations.elo_ratings(self._made[1], self._past)
        self.evaluations.take_ratings(elo)
        result = replace(result, elo=elo)
        return EvaluationReport(self.updates, env_steps, result, seconds)

    def close(self) -> None:
        """Abandon an evaluation in progress."""
        self._closed = True
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

    def _play(self, evaluator: Evaluator, stream: AbstractContextManager[object]) -> tuple[EvaluationResult, float]:
        began = time.perf_counter()
        with stream, host_transfers_allowed():
            result = evaluator.play(self._go_on)
        return result, time.perf_counter() - began

    def _go_on(self, done: int, episodes: int) -> None:
        """Report progress between two steps of an evaluation, or abandon it."""
        beside = self.settings.beside
        if self._on_progress is not None and not beside:
            self._on_progress(done, episodes)
        if self._stop_requested():
            self._abandon_at = min(self._abandon_at, time.monotonic() + (_PATIENCE if beside else 0.0))
        if self._closed or time.monotonic() >= self._abandon_at:
            raise _AbandonedError


def _stream_beside(device: torch.device) -> AbstractContextManager[object]:
    """Return a context with a separate GPU stream, ordered after all work submitted so far."""
    if device.type != "cuda":
        return nullcontext()
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    return torch.cuda.stream(stream)
