"""Callbacks of training.

``reports.py`` has the objects that callbacks receive; ``progress/training.py`` is a callback as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpdrive.training.reports import EvaluationReport, TrainingSummary, UpdateReport
from warpdrive.training.runtime.interrupts import StopRequest

if TYPE_CHECKING:
    from warpdrive.training.trainer import Trainer


class Callback:
    """Base class of training callbacks: override the methods of interest, and pass it to ``Trainer.train``.

    ```python
    class BestReturn(wd.Callback):
        best = -math.inf

        def on_evaluate(self, trainer, report):
            self.best = max(self.best, *report.result.mean_return.values())

    trainer.train(callbacks=[BestReturn()])
    ```

    All methods are called in the training thread and block it. Reading, ``trainer.evaluate`` and
    ``trainer.fetch_episode`` have no side effects: results stay bitwise equal. An exception in a callback ends the run
    after the current update, with a checkpoint and a summary as usual, and is then raised; KeyboardInterrupt ends the
    run in the same way as Ctrl-C.

    With several processes they are called on rank 0; ``trainer.env`` and ``trainer.rollout`` then hold its replicas
    only, while ``trainer.save`` saves the state of all.
    """

    def on_start(self, trainer: Trainer, run_folder: Path) -> None:
        """Called when the run folder has been created, before the first rollout.

        Args:
            trainer: The trainer.
            run_folder: Folder of the run.
        """

    def on_rollout_start(self, trainer: Trainer) -> None:
        """Called before a rollout: the place to load stored states into replicas, on any schedule.

        ``trainer.env.ctx.load_state(states, envs, keep=trainer.env.own_arrays)`` does so; the callback keeps track of
        the origin of the states. Not called if processes that do not learn collect ahead.
        """

    def on_rollout(self, trainer: Trainer) -> None:
        """Called after every rollout, before the policies are trained on ``trainer.rollout``.

        Its tensors are on the device, and the next rollout overwrites them. Reading their values synchronises with the
        GPU.
        """

    def on_update(self, trainer: Trainer, report: UpdateReport) -> None:
        """Called when an update is logged (every ``saving.log_every``): ``report`` has the metrics.

        On a GPU later updates may be in progress: ``report.update`` is the number of the logged one, not
        ``trainer.updates``.

        Args:
            trainer: The trainer.
            report: Metrics, steps and time left.
        """

    def on_evaluation_progress(self, trainer: Trainer, done: int, episodes: int) -> None:
        """Called occasionally during an evaluation that training waits for.

        Args:
            trainer: The trainer.
            done: Number of episodes that have ended.
            episodes: Total number of episodes.
        """

    def on_evaluate(self, trainer: Trainer, report: EvaluationReport) -> None:
        """Called after an evaluation (``trainer.evaluation.every``) of the weights of update ``report.update``.

        If it ran concurrently with training, the trainer's weights are newer.

        Args:
            trainer: The trainer.
            report: The result, and the update of the evaluated weights.
        """

    def on_checkpoint(self, trainer: Trainer, path: Path) -> None:
        """Called after a checkpoint was completely written to disk.

        Args:
            trainer: The trainer.
            path: Folder of the checkpoint.
        """

    def on_end(self, trainer: Trainer, summary: TrainingSummary) -> None:
        """Called when the run has ended, for any reason (see ``summary.status``), after ``summary.json`` was written.

        Args:
            trainer: The trainer.
            summary: How the run ended.
        """


class Callbacks:
    """Dispatches events to callbacks, and holds back their exceptions until the run's data is saved.

    Args:
        trainer: The trainer passed to the callbacks.
        callbacks: Callbacks in calling order.

    Attributes:
        stop: Stop request of the run, set when a callback raises.
        error: First exception of a callback.
        raised_by: Name of the method that raised it: ``"Plotter.on_update"``.
    """

    def __init__(self, trainer: Trainer, callbacks: Sequence[Callback]) -> None:
        self.trainer, self.callbacks, self.stop = trainer, [*callbacks], StopRequest()
        self.error: Exception | None = None
        self.raised_by = ""

    def notify(self, what: str, *event: Any) -> None:
        """Call the method named ``what`` of each callback, with the trainer and ``event``."""
        for callback in self.callbacks:
            try:
                getattr(callback, what)(self.trainer, *event)
            except KeyboardInterrupt:  # between two updates the state is consistent, as after the first Ctrl-C
                self.stop.requested = True
            except Exception as error:
                self.stop.requested = True
                if self.error is None:
                    self.error, self.raised_by = error, f"{type(callback).__name__}.{what}"


class OnUpdate(Callback):
    """Callback that calls a function with each report of an update.

    Args:
        function: Function of one report.
    """

    def __init__(self, function: Callable[[UpdateReport], None]) -> None:
        self.function = function

    def on_update(self, trainer: Trainer, report: UpdateReport) -> None:
        """See :class:`Callback`."""
        self.function(report)
