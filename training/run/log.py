"""Logging of updates, in intervals from one row of the metrics to the next."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor

from warpdrive.errors import TrainingError
from warpdrive.training.reports import EvaluationReport, UpdateReport
from warpdrive.training.run.metrics import MetricsLog, memory_gib
from warpdrive.training.runtime.host_copy import HostCopy
from warpdrive.training.runtime.timing import DeviceClock, Span

if TYPE_CHECKING:
    from warpdrive.training.learner import Learner


@dataclass
class _Interval:
    """Interval from one logged update to the next.

    Attributes:
        update: The learner's number of updates at its end.
        env_steps: The learner's environment steps at its end.
        losses: Names of the losses among ``numbers``.
        coefficients: Learning rates and scheduled coefficients of the last update, by metric name.
        numbers: Losses and episode statistics.
        rollout_spans: Time spans of the rollouts.
        update_spans: Time spans of the updates.
        evaluation: Evaluation of the policies at its end, if there was one.
    """

    update: int
    env_steps: int
    losses: list[str]
    coefficients: dict[str, float]
    numbers: HostCopy
    rollout_spans: list[Span]
    update_spans: list[Span]
    evaluation: EvaluationReport | None


class RunLog:
    """Writes a row for each interval, and reports it.

    Args:
        learner: Learner whose updates are logged.
        returns: Last logged mean return by policy tag, of a resumed run.
        metrics: Metrics log.
        on_report: Called with each report.

    Attributes:
        returns: Last logged mean return by policy tag, if there is one.
        saved: Last checkpoint, for error messages.
    """

    def __init__(
        self,
        learner: Learner,
        returns: Mapping[str, float | None],
        metrics: MetricsLog,
        on_report: Callable[[UpdateReport], None],
    ) -> None:
        self.learner, self.metrics, self.on_report = learner, metrics, on_report
        self.returns: dict[str, float | None] = {**dict.fromkeys(learner.env.policy_tags), **returns}
        self.saved: Path | None = None
        self._rollout_clock, self._update_clock = map(DeviceClock, (learner.env.device, learner.backend.device))
        self._first_step, self._began = learner.env_steps, time.perf_counter()
        self._logged_at, self._messages = self._began, learner.process_group.communication_seconds
        self._pending: _Interval | None = None
        self._rollout_spans: list[Span] = []
        self._update_spans: list[Span] = []

    def timed_rollout(self) -> AbstractContextManager[None]:
        """Time a rollout of the current interval."""
        return self._rollout_clock.timing(self._rollout_spans)

    def timed_update(self) -> AbstractContextManager[None]:
        """Time an update of the current interval."""
        return self._update_clock.timing(self._update_spans)

    def end_interval(self, losses: dict[str, Tensor], evaluation: EvaluationReport | None = None) -> None:
        """End the interval and log it; on a GPU only once the next interval's work is submitted, to keep it busy."""
        learner = self.learner
        self.log_pending()
        self._pending = _Interval(
            update=learner.updates,
            env_steps=learner.env_steps,
            losses=list(losses),
            coefficients={
                f"charts/{name}/{tag}": value
                for tag, policy in learner.policies.items()
                for name, value in policy.coefficients().items()
            },
            numbers=HostCopy({**losses, **learner.episode_statistics()}),
            rollout_spans=self._rollout_spans,
            update_spans=self._update_spans,
            evaluation=evaluation,
        )
        self._rollout_spans, self._update_spans = [], []
        if self._pending.numbers.is_here:
            self.log_pending()

    def log_pending(self) -> None:
        """Log the last interval, if that is pending.

        Raises:
            TrainingError: If its losses are not finite.
        """
        if self._pending is not None:
            interval, self._pending = self._pending, None
            self._log(interval)

    def sync(self) -> None:
        """Log the last interval, if that is pending, and sync all rows to disk."""
        self.log_pending()
        self.metrics.sync()

    def check(self, losses: dict[str, Tensor]) -> None:
        """Check losses immediately, before the updated weights are used.

        Raises:
            TrainingError: If they are not finite.
        """
        self.log_pending()
        if losses:
            self._check_finite({name: value[0] for name, value in HostCopy(losses).read().items()})

    def add(self, evaluation: EvaluationReport) -> None:
        """Add an evaluation to the row of its weights, which is already written."""
        self.metrics.amend(evaluation.env_steps, _metrics_of(evaluation))

    def _log(self, interval: _Interval) -> None:
        learner = self.learner
        on_host = interval.numbers.read()
        losses = {name: on_host[name][0] for name in interval.losses}
        metrics = {**self._charts(on_host), **interval.coefficients, **losses}
        self._check_finite(losses)
        now = time.perf_counter()
        steps = len(interval.update_spans) * learner.config.trainer.train_batch_size
        speed = steps / (now - self._logged_at)
        self._logged_at = now
        metrics |= {
            "perf/env_steps_per_second": speed,
            "perf/agent_steps_per_second": speed * learner.env.num_agents,
            "perf/rollout_seconds": self._rollout_clock.mean_seconds(interval.rollout_spans),
            "perf/update_seconds": self._update_clock.mean_seconds(interval.update_spans),
            "perf/memory_gib": max(memory_gib(device) for device in (learner.env.device, learner.backend.device)),
        }
        if learner.process_group.world_size > 1:
            messages, self._messages = self._messages, learner.process_group.communication_seconds
            metrics["perf/communication_seconds"] = self._messages - messages
        if interval.evaluation:
            metrics |= _metrics_of(interval.evaluation)
        self.metrics.write(interval.env_steps, metrics)
        self.on_report(self._report(interval, metrics, speed))

    def _charts(self, on_host: dict[str, list[float]]) -> dict[str, float]:
        learner, episodes = self.learner, on_host["episodes"][0]
        charts = {}
        for tag, ids in learner.env.policy_tags.items():
            total = sum(on_host["return"][agent] for agent in ids)
            charts[f"charts/episodic_return/{tag}"] = total / len(ids) / episodes if episodes else math.nan
            if episodes:
                self.returns[tag] = charts[f"charts/episodic_return/{tag}"]
        charts["charts/episodic_length"] = on_host["length"][0] / episodes if episodes else math.nan
        charts["charts/terminated_fraction"] = on_host["terminated"][0] / episodes if episodes else math.nan
        charts["charts/episodes"] = episodes
        return charts

    def _report(self, interval: _Interval, metrics: dict[str, float], speed: float) -> UpdateReport:
        total, done = self.learner.config.trainer.total_steps, interval.env_steps
        elapsed = time.perf_counter() - self._began
        returns = {tag: metrics[f"charts/episodic_return/{tag}"] for tag in self.returns}
        return UpdateReport(
            update=interval.update,
            env_steps=done,
            total_steps=total,
            returns={tag: None if math.isnan(value) else value for tag, value in returns.items()},
            env_steps_per_second=speed,
            metrics=metrics,
            seconds_left=elapsed / (done - self._first_step) * max(0, total - done),
        )

    def _check_finite(self, losses: Mapping[str, float]) -> None:
        broken = next(
            (name for name, value in losses.items() if not math.isfinite(value) and _indicates_error(name)), None
        )
        if broken is None:
            return
        _, term, tag = broken.split("/", 2)
        kept = f"the last good checkpoint is {self.saved}" if self.saved else "no checkpoint had been written yet"
        advice = self.learner.policies[tag].algorithm.advice(tag)
        raise TrainingError(f"policy '{tag}': {term} became {losses[broken]}; {kept}. {advice}")


def _indicates_error(name: str) -> bool:
    """Return True if a non-finite loss indicates an error: explained variance is NaN for constant returns."""
    return not name.startswith("losses/explained_variance/")


def _metrics_of(evaluation: EvaluationReport) -> dict[str, float]:
    return {**evaluation.result.metrics(), "perf/evaluation_seconds": evaluation.seconds}
