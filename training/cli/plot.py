"""``warpdrive plot``: learning curves of runs."""

from __future__ import annotations

import argparse
from pathlib import Path

from warpdrive.training.cli.printing import make_console, say
from warpdrive.training.plots.figure import check_output, draw
from warpdrive.training.plots.learning_curves import chosen_metrics, grouped, read_runs, usual_metrics
from warpdrive.training.runtime.atomic_write import check_no_link


def run(options: argparse.Namespace) -> int:
    """Write one figure and print its path, and the runs that share a line."""
    console = make_console()
    runs = read_runs(options.runs)
    output = Path(options.output) if options.output else _usual_output([run.folder for run in runs])
    check_output(output)
    metrics = chosen_metrics(runs, options.metric) if options.metric else usual_metrics(runs)
    figure = draw(runs, metrics, options.smooth)
    figure.savefig(output)
    for group in grouped(runs):
        console.print(f"{group.label}:", highlight=False)
        for each in group.runs:
            console.print(f"  {each.folder}", highlight=False, soft_wrap=True)
    say(str(output))
    return 0


def _usual_output(folders: list[Path]) -> Path:
    """Return the default path of the figure: in the folder of the run if there is only one."""
    output = (folders[0] if len(folders) == 1 else Path(".")) / "learning_curves.png"
    check_no_link(output)
    return output
