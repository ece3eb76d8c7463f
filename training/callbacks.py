"""Those who look on while a run trains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpdrive.training.interrupts import StopRequest
from warpdrive.training.report import EvaluationReport, TrainingSummary, UpdateReport

if TYPE_CHECKING:
    from warpdrive.training.trainer import Trainer


class Callback:
    """Looks on while a run trains: override what you want to be called at, and give it to ``Trainer.train``.

    All are called in the thread that trains, which waits meanwhile. Looking changes nothing, nor does
    ``trainer.evaluate`` or ``trainer.fetch_episode``; results stay the same bit for bit. One that raises ends the run
    after the present update, with a checkpoint and a summary as at its end, and then its error is raised;
    KeyboardInterrupt ends the run in the same way as Ctrl-C.

    Of several processes process 0 calls them, whose replicas ``trainer.env`` and ``trainer.rollout`` are of; there
    ``trainer.save`` saves what all have, too.
    """

    def on_rollout_start(self, trainer: Trainer) -> None:
        """A rollout is about to begin: the place to put replicas into stored states, on any schedule.

        ``trainer.env.ctx.load_state(states, envs, keep=trainer.env.own_arrays)`` does so; where the states came from is
        for the callback to note. Not called where processes that do not learn collect ahead.
        """

    def on_rollout(self, trainer: Trainer) -> None:
        """``trainer.rollout`` is full, and the policies have not learned from it. Called after every rollout.

        Its tensors are on the device, and the next rollout overwrites them: who looks at their values makes the host
        wait for a GPU.
        """

    def on_update(self, trainer: Trainer, report: UpdateReport) -> None:
        """An update was logged (every ``saving.log_every``): ``report`` has the metrics.

        On a GPU later updates are under way: ``report.update`` says which one this was, not ``trainer.updates``.
        """

    def on_evaluation_progress(self, trainer: Trainer, done: int, episodes: int) -> None:
        """Of the episodes of an evaluation for which training waits, ``done`` have ended; called now and then."""

    def on_evaluate(self, trainer: Trainer, report: EvaluationReport) -> None:
        """An evaluation has ended (``trainer.evaluation.every``); ``report.update`` says whose weights it measured.

        Of one that went beside training, the trainer's weights are later ones.
        """

    def on_checkpoint(self, trainer: Trainer, path: Path) -> None:
        """A checkpoint was written; ``path`` is its folder, whole and on the disk."""

    def on_end(self, trainer: Trainer, summary: TrainingSummary) -> None:
        """The run has ended, however it did: ``summary.status`` says how. ``summary.json`` has been written."""


class Callbacks:
    """Tells callbacks what happens, and keeps what they raise until the run's data is safe.

    Args:
        trainer: what they are given.
        callbacks: in the order in which they are called.
        stop: asked for when one raises.

    Attributes:
        error: what was raised first.
        told_by: which of them raised it: ``"Plotter.on_update"``.
    """

    def __init__(self, trainer: Trainer, callbacks: Sequence[Callback], stop: StopRequest) -> None:
        self.trainer, self.callbacks, self.stop = trainer, callbacks, stop
        self.error: Exception | None = None
        self.told_by = ""

    def tell(self, what: str, *event: Any) -> None:
        """Call the method named ``what`` of each, with the trainer and ``event``."""
        for callback in self.callbacks:
            try:
                getattr(callback, what)(self.trainer, *event)
            except KeyboardInterrupt:  # between two updates everything is in order: as good as the first Ctrl-C
                self.stop.requested = True
            except Exception as error:
                self.stop.requested = True
                if self.error is None:
                    self.error, self.told_by = error, f"{type(callback).__name__}.{what}"


class OnUpdate(Callback):
    """Calls a function with each report of an update.

    Args:
        function: what is called.
    """

    def __init__(self, function: Callable[[UpdateReport], None]) -> None:
        self.function = function

    def on_update(self, trainer: Trainer, report: UpdateReport) -> None:
        """See :class:`Callback`."""
        self.function(report)
