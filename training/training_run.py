"""One call of ``Trainer.train``: the loop, what it logs and saves, and how it ends."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor

from warpdrive.errors import TrainingError
from warpdrive.training.checkpoint import prepare_to_go_on, save_in_run
from warpdrive.training.config import save_config
from warpdrive.training.device_clock import DeviceClock, Span
from warpdrive.training.host_copy import HostCopy
from warpdrive.training.interrupts import StopRequest, stop_on_interrupt
from warpdrive.training.metrics import MetricsLog, memory_gib
from warpdrive.training.report import TrainingSummary, UpdateReport
from warpdrive.training.run_folder import RunFolder
from warpdrive.training.torch_threads import torch_threads

if TYPE_CHECKING:
    from warpdrive.training.trainer import Trainer


def run_training(
    trainer: Trainer, on_update: Callable[[UpdateReport], None] | None, going_on: RunFolder | None = None
) -> TrainingSummary:
    """Train in a new run folder, or go on in that of the run that ``trainer`` was resumed from.

    See ``Trainer.train``.
    """
    folder = going_on or RunFolder.create(trainer.config)
    with folder.lock():
        if going_on:
            prepare_to_go_on(folder.checkpoints, trainer.env_steps)
            save_config(trainer.config, folder.config)
        events = folder.path / "tensorboard" if trainer.config.saving.tensorboard else None
        with (
            MetricsLog(folder.metrics, events, trainer.env_steps) as log,
            torch_threads(trainer.config.trainer.torch_threads),
            stop_on_interrupt() as stop,
        ):
            return _TrainingRun(trainer, folder, log, stop, on_update).run()


@dataclass
class _Interval:
    """What happened from one logged update to the next.

    Attributes:
        update: the trainer's at its end.
        env_steps: likewise.
        losses: the names of those among ``numbers``.
        coefficients: what learning rates and scheduled coefficients were in the last update, by the names of metrics.
        numbers: losses and statistics of episodes.
        rollout_spans: how long the rollouts took.
        update_spans: how long the updates took.
    """

    update: int
    env_steps: int
    losses: list[str]
    coefficients: dict[str, float]
    numbers: HostCopy
    rollout_spans: list[Span]
    update_spans: list[Span]


class _TrainingRun:
    def __init__(
        self,
        trainer: Trainer,
        folder: RunFolder,
        log: MetricsLog,
        stop: StopRequest,
        on_update: Callable[[UpdateReport], None] | None,
    ) -> None:
        self.trainer, self.folder, self.log, self.stop, self.on_update = trainer, folder, log, stop, on_update
        self.first_step = trainer.env_steps
        self.began = time.perf_counter()
        self.clock = DeviceClock(trainer.env.device)
        self.returns: dict[str, float | None] = dict.fromkeys(trainer.env.policy_tags) | trainer.returns
        last = folder.checkpoints / f"step_{trainer.env_steps}"
        self.saved: Path | None = last if last.is_dir() else None
        self.pending: _Interval | None = None
        self.rollout_spans: list[Span] = []
        self.update_spans: list[Span] = []
        self.logged_at = self.began

    def run(self) -> TrainingSummary:
        saving, total = self.trainer.config.saving, self.trainer.config.trainer.total_steps
        status = "finished"
        try:
            while self.trainer.env_steps < total:
                losses = self._step()
                over = self.trainer.env_steps >= total
                save = over or self.trainer.updates % saving.checkpoint_every == 0
                if save or self.trainer.updates % saving.log_every == 0:
                    self._end_interval(losses)
                if save or self.stop.requested:
                    self._save(losses)
                if self.stop.requested:
                    status = "interrupted"
                    break
            if self.saved is None:  # there was nothing left to do
                self._save({})
        except KeyboardInterrupt:  # the second Ctrl-C: the update under way is lost
            status = "interrupted"
        except Exception as error:
            self._summarise("failed", str(error))
            raise
        return self._summarise(status)

    def _step(self) -> dict[str, Tensor]:
        began = self.clock.now()
        self.trainer.collect()
        collected = self.clock.now()
        losses = self.trainer.update()
        self.rollout_spans.append((began, collected))
        self.update_spans.append((collected, self.clock.now()))
        return losses

    def _end_interval(self, losses: dict[str, Tensor]) -> None:
        """Log what the interval was like: on a GPU once it has the work of the next one, so that it never idles."""
        trainer = self.trainer
        self._log_pending()
        self.pending = _Interval(
            update=trainer.updates,
            env_steps=trainer.env_steps,
            losses=list(losses),
            coefficients={
                f"charts/{name}/{tag}": value
                for tag, policy in trainer.policies.items()
                for name, value in policy.coefficients().items()
            },
            numbers=HostCopy({**losses, **trainer.env.episode_statistics()}),
            rollout_spans=self.rollout_spans,
            update_spans=self.update_spans,
        )
        self.rollout_spans, self.update_spans = [], []
        if self.pending.numbers.is_here:
            self._log_pending()

    def _log_pending(self) -> None:
        """Log the last interval, if that is still to be done. Raises if its losses are not finite."""
        if self.pending is not None:
            interval, self.pending = self.pending, None
            self._log(interval)

    def _log(self, interval: _Interval) -> None:
        trainer = self.trainer
        on_host = interval.numbers.read()
        losses = {name: on_host[name][0] for name in interval.losses}
        metrics = {**self._charts(on_host), **interval.coefficients, **losses}
        _check_finite(losses, self.saved)
        now = time.perf_counter()
        steps = len(interval.update_spans) * trainer.config.trainer.train_batch_size
        speed = steps / (now - self.logged_at)
        self.logged_at = now
        metrics |= {
            "perf/env_steps_per_second": speed,
            "perf/agent_steps_per_second": speed * trainer.env.num_agents,
            "perf/rollout_seconds": self.clock.mean_seconds(interval.rollout_spans),
            "perf/update_seconds": self.clock.mean_seconds(interval.update_spans),
            "perf/memory_gib": memory_gib(trainer.env.device),
        }
        self.log.write(interval.env_steps, metrics)
        if self.on_update:
            self._tell(interval, metrics, speed)

    def _charts(self, on_host: dict[str, list[float]]) -> dict[str, float]:
        trainer, episodes = self.trainer, on_host["episodes"][0]
        charts = {}
        for tag, ids in trainer.env.policy_tags.items():
            total = sum(on_host["return"][agent] for agent in ids)
            charts[f"charts/episodic_return/{tag}"] = total / len(ids) / episodes if episodes else math.nan
            if episodes:
                self.returns[tag] = charts[f"charts/episodic_return/{tag}"]
        charts["charts/episodic_length"] = on_host["length"][0] / episodes if episodes else math.nan
        charts["charts/terminated_fraction"] = on_host["terminated"][0] / episodes if episodes else math.nan
        charts["charts/episodes"] = episodes
        return charts

    def _tell(self, interval: _Interval, metrics: dict[str, float], speed: float) -> None:
        total, done = self.trainer.config.trainer.total_steps, interval.env_steps
        elapsed = time.perf_counter() - self.began
        returns = {tag: metrics[f"charts/episodic_return/{tag}"] for tag in self.returns}
        report = UpdateReport(
            update=interval.update,
            env_steps=done,
            total_steps=total,
            returns={tag: None if math.isnan(value) else value for tag, value in returns.items()},
            env_steps_per_second=speed,
            metrics=metrics,
            seconds_left=elapsed / (done - self.first_step) * max(0, total - done),
        )
        assert self.on_update is not None
        try:
            self.on_update(report)
        except KeyboardInterrupt:  # between two updates everything is in order: as good as the first Ctrl-C
            self.stop.requested = True

    def _save(self, losses: dict[str, Tensor]) -> None:
        """Write a checkpoint. An interval that is still open stays open: what is to be logged of it goes into it."""
        trainer = self.trainer
        self._log_pending()  # what is not finite is not saved
        if losses:
            _check_finite({name: value[0] for name, value in HostCopy(losses).read().items()}, self.saved)
        folder = self.folder.checkpoints / f"step_{trainer.env_steps}"
        if self.saved != folder:
            trainer.returns = self.returns
            keep = trainer.config.saving.keep_last
            self.saved = save_in_run(self.folder.checkpoints, trainer.env_steps, trainer.checkpoint(), keep)

    def _summarise(self, status: str, message: str = "") -> TrainingSummary:
        summary = TrainingSummary(
            status=status,
            run_folder=self.folder.path,
            checkpoint=self.saved,
            updates=self.trainer.updates,
            env_steps=self.trainer.env_steps,
            seconds=time.perf_counter() - self.began,
            returns=self.returns,
            message=message,
        )
        self.folder.write_summary(summary)
        return summary


def _check_finite(losses: dict[str, float], saved: Path | None) -> None:
    broken = next((name for name, value in losses.items() if not math.isfinite(value)), None)
    if broken is None:
        return
    _, term, tag = broken.split("/", 2)
    kept = f"the last good checkpoint is {saved}" if saved else "no checkpoint had been written yet"
    raise TrainingError(
        f"policy '{tag}': {term} became {losses[broken]}; {kept}. "
        f"Try a smaller policy.{tag}.lr, and look for rewards or observations that are not finite"
    )
