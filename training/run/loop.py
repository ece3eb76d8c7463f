"""Training loop of one call of ``Trainer.train``: logging, evaluation, checkpoints and termination."""

from __future__ import annotations

import shutil
import time
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING

from torch import Tensor

from warpdrive.errors import ConfigError
from warpdrive.training.checkpoint.best import BestCheckpoint
from warpdrive.training.checkpoint.checkpoint import Keep, latest_of, remove_incomplete, save_in_run
from warpdrive.training.checkpoint.present import PresentPolicy
from warpdrive.training.checkpoint.resume import checkpoint_of
from warpdrive.training.checkpoint.run_folder import RunFolder
from warpdrive.training.config.yaml import read_yaml
from warpdrive.training.distributed.bootstrap import RUN
from warpdrive.training.progress.training import TrainingProgress
from warpdrive.training.progress.work import no_progress
from warpdrive.training.reports import TrainingSummary
from warpdrive.training.run.callbacks import Callbacks
from warpdrive.training.run.log import RunLog
from warpdrive.training.run.machine import write_machine
from warpdrive.training.run.metrics import MetricsLog
from warpdrive.training.run.periodic_evaluation import PeriodicEvaluation
from warpdrive.training.run.sinks.configured import check_sinks, open_sinks
from warpdrive.training.runtime.interrupts import stop_on_interrupt
from warpdrive.training.runtime.torch_threads import torch_threads

if TYPE_CHECKING:
    from warpdrive.training.evaluations import Evaluations
    from warpdrive.training.learner import Learner
    from warpdrive.training.run.state import RunState


def run_training(
    learner: Learner,
    evaluations: Evaluations,
    state: RunState,
    callbacks: Callbacks,
    going_on: RunFolder | None = None,
    progress: bool = False,
) -> TrainingSummary:
    """Train in a new run folder, or in that of a resumed run. See ``Trainer.train``.

    Args:
        learner: Policies and replicas.
        evaluations: Evaluations of the policies.
        state: State of the run, updated before each checkpoint.
        callbacks: Callbacks of the user.
        going_on: Folder of a resumed run, or None.
        progress: See ``Trainer.train``.

    Returns:
        The summary of the run.
    """
    config = learner.config
    check_sinks(config)
    shown: AbstractContextManager[object] = nullcontext()
    if progress and not any(isinstance(callback, TrainingProgress) for callback in callbacks.callbacks):
        shown = TrainingProgress(config.name, at_once=False)
        callbacks.callbacks.append(shown)
    folder = going_on or RunFolder.create(config)
    with folder.lock(), ExitStack() as stack:
        if going_on:
            remove_incomplete(folder.checkpoints, learner.env_steps)
        try:
            sinks = stack.enter_context(open_sinks(config, folder, learner.env_steps))
        except ConfigError:
            if going_on is None:  # the run has not begun: its name refers to the run before
                shutil.rmtree(folder.path, ignore_errors=True)
            raise
        learner.process_group.store_text(RUN, str(folder.path.resolve()))
        with (
            MetricsLog(folder.metrics, sinks, learner.env_steps) as metrics,
            torch_threads(config.trainer.torch_threads),
            stop_on_interrupt() as callbacks.stop,
            shown,
            no_progress(),  # silences callbacks: the run shows its own progress
        ):
            if going_on:  # only once the setup has succeeded
                folder.summary.unlink(missing_ok=True)  # a run in progress has no summary
                config.save(folder.config)
            write_machine(learner, folder)
            callbacks.notify("on_start", folder.path)
            return _TrainingRun(learner, evaluations, state, folder, metrics, callbacks).run()


def summarise_failed(folder: RunFolder, seconds: float, why: str) -> None:
    """Write ``summary.json`` of a run whose process was killed, from its last checkpoint.

    Does nothing if the process has written one itself.

    Args:
        folder: Folder of the run.
        seconds: Wall time of the run.
        why: Reason of the failure.
    """
    if folder.summary.exists() or not folder.config.is_file():
        return
    last = latest_of(folder.checkpoints)
    env_steps = int(last.name.removeprefix("step_")) if last else 0
    batch = read_yaml(folder.config)["trainer"]["train_batch_size"]
    folder.write_summary(TrainingSummary("failed", folder.path, last, env_steps // batch, env_steps, seconds, {}, why))


class _TrainingRun:
    def __init__(
        self,
        learner: Learner,
        evaluations: Evaluations,
        state: RunState,
        folder: RunFolder,
        metrics: MetricsLog,
        callbacks: Callbacks,
    ) -> None:
        self.learner, self.state, self.folder = learner, state, folder
        self.callbacks, self.stop = callbacks, callbacks.stop
        saving = learner.config.saving
        self._keep = Keep(saving.keep_last, saving.keep_every)
        self.log = RunLog(learner, state.returns, metrics, partial(callbacks.notify, "on_update"))
        self.evaluation = PeriodicEvaluation(
            evaluations, self._stop_requested, partial(callbacks.notify, "on_evaluation_progress")
        )
        self.best = BestCheckpoint(folder.checkpoints, learner.config, state.best)
        self.present = PresentPolicy(folder, learner)
        self.began = time.perf_counter()
        last = folder.checkpoints / f"step_{learner.env_steps}"
        self.log.saved = last if last.is_dir() else None

    def run(self) -> TrainingSummary:
        status = "finished"
        try:
            with self.learner.process_group.on_abort(lambda why: self._write_summary("failed", why)):
                status = self._train()
        except KeyboardInterrupt as error:  # the second Ctrl-C: the update under way is lost
            status = "interrupted"
            self.stop.by = getattr(error, "number", self.stop.by)
        except Exception as error:
            with suppress(OSError):  # if the disk is full, which may be the cause
                self._summarise("failed", str(error))
            raise
        finally:
            self.evaluation.close()
            self.present.remove()
        if self.callbacks.error is not None:
            raised = self.callbacks.error
            self._summarise("failed", f"{self.callbacks.raised_by} raised {type(raised).__name__}: {raised}")
            raise raised
        summary = self._summarise(status)
        if self.callbacks.error is not None:  # of on_end
            raise self.callbacks.error
        return summary

    def _train(self) -> str:
        """Train to the end, or until a request to stop. Returns the status of the run."""
        learner, saving, total = self.learner, self.learner.config.saving, self.learner.config.trainer.total_steps
        if self.state.evaluation_under_way:  # in progress when the checkpoint was written
            self.evaluation.begin()
            if not learner.config.trainer.evaluation.beside:
                self._end_evaluation()
                if self.state.evaluation_under_way:
                    return "interrupted"
        while learner.env_steps < total:
            with self.log.timed_rollout():
                self._collect()
            with self.log.timed_update():
                losses = self._update()
            over = learner.env_steps >= total
            save = over or learner.updates % saving.checkpoint_every == 0
            if self.evaluation.is_due(learner.updates):
                self._evaluate(losses)
            elif save or learner.updates % saving.log_every == 0:
                self.log.end_interval(losses)
            if self.present.is_wanted:
                self.log.check(losses)
                self.present.write()
            if learner.ahead:  # with a rollout for the next update, which would be lost
                continue
            if self._stop_requested() or save:
                self._save(losses)
            if self.stop.requested:
                return "interrupted"
        self._end_evaluation()
        if self.log.saved is None:  # the run was already complete
            self._save({})
        return "finished"

    def _stop_requested(self) -> bool:
        self.stop.requested |= self.learner.process_group.stop_requested
        return self.stop.requested

    def _collect(self) -> None:
        if not self.learner.ahead:
            self.callbacks.notify("on_rollout_start")
        self.learner.collect()
        self.callbacks.notify("on_rollout")

    def _update(self) -> dict[str, Tensor]:
        """Update; other processes may collect ahead if no checkpoint follows, which would not include their rollout."""
        learner, saving = self.learner, self.learner.config.saving
        if not learner.can_collect_ahead:
            return learner.update()
        updates, over = learner.updates + 1, learner.env_steps >= learner.config.trainer.total_steps
        save = over or self.stop.requested or updates % saving.checkpoint_every == 0
        may_be_best = self.best.wanted and self.evaluation.is_due(updates)
        return learner.update() if save or may_be_best else learner.update_ahead()

    def _evaluate(self, losses: dict[str, Tensor]) -> None:
        """Evaluate the updated weights, and log the interval that ends with them."""
        self.log.check(losses)  # non-finite weights are not evaluated
        self._end_evaluation()
        if self.learner.config.trainer.evaluation.beside:
            self.log.end_interval(losses)
            self.evaluation.begin()
            self.state.evaluation_under_way = True
            if self.best.wanted:  # it may be the best, and these weights are gone by then
                self._write_checkpoint()
            return
        self.evaluation.begin()
        report = self.evaluation.end()
        if report is None:  # abandoned
            self.log.end_interval(losses)
            self.state.evaluation_under_way = True
            return
        is_best = self.best.is_new(report)
        self.callbacks.notify("on_evaluate", report)
        self.log.end_interval(losses, report)
        if is_best:
            self._save(losses)

    def _end_evaluation(self) -> None:
        """Wait for a concurrent evaluation, if any, and log its result."""
        report = self.evaluation.end()
        if report is None:  # none, or abandoned: a resumed run repeats it if it still has the weights
            self.state.evaluation_under_way &= self.evaluation.updates == self.learner.updates
            return
        self.state.evaluation_under_way = False
        self.log.log_pending()
        self.log.add(report)
        if self.best.is_new(report):
            self.best.replace_best(self._keep)
        self.callbacks.notify("on_evaluate", report)

    def _save(self, losses: dict[str, Tensor]) -> None:
        """Write a checkpoint. An open interval stays open; its log is part of the checkpoint."""
        self.log.check(losses)  # non-finite weights are not saved
        self._end_evaluation()  # its result is part of the checkpoint
        self._write_checkpoint()

    def _write_checkpoint(self) -> None:
        learner = self.learner
        folder = self.folder.checkpoints / f"step_{learner.env_steps}"
        if self.log.saved != folder:
            self.log.sync()  # a run that is resumed from here does not write these rows again
            self.state.returns, self.state.best = self.log.returns, self.best.state
            checkpoint = checkpoint_of(learner, self.state)
            self.log.saved = save_in_run(
                self.folder.checkpoints, learner.env_steps, checkpoint, self._keep, self.best.env_steps
            )
            self.callbacks.notify("on_checkpoint", self.log.saved)

    def _summarise(self, status: str, message: str = "") -> TrainingSummary:
        summary = self._write_summary(status, message)
        self.callbacks.notify("on_end", summary)
        return summary

    def _write_summary(self, status: str, message: str) -> TrainingSummary:
        summary = TrainingSummary(
            status=status,
            run_folder=self.folder.path,
            checkpoint=self.log.saved,
            updates=self.learner.updates,
            env_steps=self.learner.env_steps,
            seconds=time.perf_counter() - self.began,
            returns=self.log.returns,
            message=message,
            best=self.best.folder,
            stopped_by=self.stop.by.name if status == "interrupted" else "",
        )
        self.folder.write_summary(summary)
        return summary
