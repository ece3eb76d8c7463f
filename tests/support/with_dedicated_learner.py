"""Program of each process of ``test_dedicated_learner.py``: trains, and may stop and resume.

    python tests/support/with_dedicated_learner.py runs.json folder

``runs.json`` has by name: ``config``, a run configuration; ``interrupt_at``, the update after which somebody presses
Ctrl-C, or null; and ``go_on``, overrides with which the run is resumed once it has ended, if there are any.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

from warpdrive.training.config.load import load_config
from warpdrive.training.reports import UpdateReport
from warpdrive.training.run.callbacks import Callback
from warpdrive.training.trainer import Trainer, make_env


class Interrupt(Callback):
    """Ctrl-C once an update has been logged: the others are ahead already."""

    def __init__(self, update: int | None) -> None:
        self.update = update

    def on_update(self, trainer: Trainer, report: UpdateReport) -> None:
        if report.update == self.update:
            raise KeyboardInterrupt


def main() -> None:
    """Train."""
    torch.set_num_threads(1)
    runs, folder = sys.argv[1:]
    for name, run in json.loads(Path(runs).read_text()).items():
        config = load_config(run["config"], [f"saving.folder={folder}/{name}"])
        summary = Trainer(make_env(config), config).train(callbacks=[Interrupt(run["interrupt_at"])])
        assert summary.status == ("interrupted" if run["interrupt_at"] else "finished")
        if run["go_on"]:
            Trainer.resume(summary.run_folder, run["go_on"]).train()


if __name__ == "__main__":
    main()
