"""Learning curves of the targets: returns of evaluations during training, and their picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import warpdrive as wd

POINTS, EPISODES = 20, 20
"""Evaluations of a curve, besides the one before training, and the episodes of each."""

Points = list[tuple[int, float]]
_GREY = "#808080"
"""Colour of text and axes: readable on white (contrast 3.9) and on black (5.3)."""
_LINE, _TARGET = "#3289c7", "#d55e00"


class LearningCurve(wd.Callback):
    """Evaluation of the policies at equal distances of environment steps, as in the final evaluation of a target.

    Args:
        tag: the policy tag whose return counts; None if there is only one.
        random: the policy tags that act at random.
        deterministic: If True, agents take the most probable action instead of sampling.

    Attributes:
        points: environment steps and mean return of each evaluation.
    """

    def __init__(self, tag: str | None, random: Sequence[str], deterministic: bool) -> None:
        self.tag, self.random, self.deterministic = tag, tuple(random), deterministic
        self.points: Points = []

    def on_rollout_start(self, trainer: wd.Trainer) -> None:
        """Evaluate if the next point is reached."""
        if trainer.env_steps >= len(self.points) * trainer.config.trainer.total_steps / POINTS:
            self._evaluate(trainer)

    def on_end(self, trainer: wd.Trainer, summary: Any) -> None:
        """Evaluate the final policies."""
        self._evaluate(trainer)

    def _evaluate(self, trainer: wd.Trainer) -> None:
        found = trainer.evaluate(EPISODES, self.random, self.deterministic, progress=False).mean_return
        self.points.append((trainer.env_steps, found[self.tag or next(iter(found))]))


def draw(path: Path, curves: Sequence[Points], goal: float, whose: str) -> None:
    """Write a picture with the mean over the seeds, their range and the target.

    It has no background, and colours that can be read on a light and on a dark one.

    Args:
        path: file to write, named after the configuration; its folder is made.
        curves: the points of each seed.
        goal: the target.
        whose: the subject of the return.
    """
    import matplotlib as mpl
    import numpy as np
    from matplotlib.figure import Figure

    from warpdrive.training.plots.figure import Line, draw_panel
    from warpdrive.training.plots.learning_curves import Group, LoggedRun

    runs = [LoggedRun("", path, {}, (), {"return": np.array(points, np.float64).T}) for points in curves]
    curve = Group("", runs).curve("return")
    assert curve is not None
    style = {"svg.fonttype": "none", "svg.hashsalt": path.stem, "font.family": "sans-serif"}
    colours = dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), _GREY)
    with mpl.rc_context({**style, **colours}):
        figure = Figure(figsize=(4.6, 2.6), layout="constrained", facecolor="none")
        axes = figure.subplots()
        axes.set_facecolor("none")
        draw_panel(axes, f"{path.stem}: {whose}", [Line("", curve, len(runs))], {"": (_LINE, "-")})
        axes.axhline(goal, color=_TARGET, linewidth=1.2, linestyle="--")
        place = {"xytext": (0, -3), "textcoords": "offset points", "ha": "right", "va": "top"}
        label = axes.annotate(f"target {goal:g}", (0.99, goal), xycoords=("axes fraction", "data"), **place)
        label.set_in_layout(False)
        axes.collections[0].set_alpha(0.35)  # the range of the seeds
        axes.grid(color=_GREY, alpha=0.3, linewidth=0.5)
        axes.set_xlim(0, 1.01 * curve.env_steps[-1])
        axes.set_xlabel("environment steps")
        axes.set_ylabel("return")
        axes.set_title(axes.get_title("left"), fontsize=10, loc="left")
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None, "Creator": None})
