"""Reports of a search: a live table, a figure, and the consequences of the new size for learning."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from warpdrive.training.algorithms.off_policy import OffPolicyConfig
from warpdrive.training.algorithms.ppo import PPOConfig
from warpdrive.training.algorithms.value_decomposition import ValueDecompositionConfig
from warpdrive.training.autoscale.find import Autoscaled
from warpdrive.training.autoscale.memory import gib
from warpdrive.training.autoscale.size import Outcome, Size
from warpdrive.training.config.load import RunConfig
from warpdrive.training.config.schema import RandomConfig
from warpdrive.training.progress.training import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FAILED = {"memory": "no memory", "time": "too slow", "crash": "crashed", "refused": "not tried"}
_FEW_UPDATES = 50


def outcome_table(outcomes: Mapping[Size, Outcome], now: Size | None = None, winner: Size | None = None) -> Table:
    """Return a table of all outcomes, sorted by replicas.

    Args:
        outcomes: Outcomes by size.
        now: Size that is being tried.
        winner: Winning size.

    Returns:
        A table of rich, with a row per size.
    """
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for name in ("replicas", "rollout", "batch", "steps/s", "of best", "rollout s", "update s", "memory"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    best = max((outcome.speed for outcome in outcomes.values()), default=0.0)
    for size in sorted({*outcomes, *([now] if now else [])}):
        outcome = outcomes.get(size)
        cells = [f"{size.num_envs}", f"{size.rollout_length}", f"{size.batch}"]
        if outcome is None or not outcome.fits:
            cells += ["-"] * 5
        else:
            seconds = (f"{value:.3g}" for value in (outcome.rollout_seconds, outcome.update_seconds))
            cells += [short(outcome.speed), f"{outcome.speed / best:.0%}", *seconds, gib(outcome.memory)]
        style = "bold green" if size == winner else "" if outcome is None or outcome.fits else "dim"
        table.add_row(*cells, _remark(outcome, size == now, size == winner), style=style)
    return table


def _remark(outcome: Outcome | None, is_tried: bool, has_won: bool) -> str:
    if is_tried:
        return "trying ..."
    if has_won:
        return "<- selected"
    return "" if outcome is None or outcome.failure is None else f"{_FAILED[outcome.failure]}: {outcome.reason}"


def in_words(outcome: Outcome) -> str:
    """Return a one-line description of an outcome, for output that cannot be redrawn."""
    if not outcome.fits:
        return f"{outcome.size}: {_remark(outcome, False, False)}"
    return f"{outcome.size}: {short(outcome.speed)} environment steps/s, {gib(outcome.memory)}"


def consequences_of(found: Autoscaled) -> list[str]:
    """Return the consequences of the new size for learning, one per line, and the settings left unchanged."""
    before, after, config = found.before, found.after, found.config
    if after == before:
        return ["The size is that of the configuration: learning is unchanged."]
    lines = [
        f"num_envs {before.num_envs} -> {after.num_envs}, rollout length {before.rollout_length} -> "
        f"{after.rollout_length}, train_batch_size {before.batch} -> {after.batch} ({after.batch / before.batch:.3g} x)"
    ]
    if after.batch != before.batch:
        fewer = before.batch / after.batch
        lines.append(
            f"Learning changes with the batch: {fewer:.3g} x as many updates for the same environment steps"
            f"{_per_minibatch(config, before, after)}."
        )
    kept = sorted({name for policy in config.policy.values() for name in _kept(policy)})
    lines.append(f"Unchanged: {', '.join(kept)}, trainer.total_steps. Compare returns as well as throughput.")
    updates = config.trainer.total_steps / after.batch
    if updates < _FEW_UPDATES:
        lines.append(
            f"Few updates: {config.trainer.total_steps} environment steps are only {math.ceil(updates)} updates of "
            f"this size. Raise trainer.total_steps, or limit the batch size with --min_updates {_FEW_UPDATES}"
        )
    return lines


def _per_minibatch(config: RunConfig, before: Size, after: Size) -> str:
    said = ""
    if any(isinstance(policy, PPOConfig) for policy in config.policy.values()):
        said = f", each with {after.batch / before.batch:.3g} x as many samples in a minibatch"
    if any(isinstance(policy, OffPolicyConfig | ValueDecompositionConfig) for policy in config.policy.values()):
        said += "; gradient_steps are taken per update, so fewer of them for the same environment steps"
    return said


def _kept(policy: object) -> list[str]:
    names = ("lr", "epochs", "minibatches", "gradient_steps")
    return [] if isinstance(policy, RandomConfig) else [name for name in names if hasattr(policy, name)]


def save_picture(found: Autoscaled, path: Path) -> None:
    """Plot throughput and memory against the number of replicas, with a line for each rollout length."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, NullLocator

    figure = Figure(figsize=(8.0, 7.0), layout="constrained")
    FigureCanvasAgg(figure)
    speed, memory = figure.subplots(2, 1, sharex=True)
    fitting = [outcome for outcome in found.outcomes if outcome.fits]
    lengths = sorted({outcome.size.rollout_length for outcome in fitting})
    for number, length in enumerate(lengths):
        line = sorted((o for o in fitting if o.size.rollout_length == length), key=lambda o: o.size)
        envs = [outcome.size.num_envs for outcome in line]
        style = {"color": f"C{number % 10}", "marker": "o", "markersize": 4, "label": f"{length} steps"}
        speed.plot(envs, [outcome.speed for outcome in line], **style)
        memory.plot(envs, [outcome.memory / 2**30 for outcome in line], **style)
    winner = found.winner
    star = {"color": "black", "marker": "*", "markersize": 16, "linestyle": "none", "zorder": 3}
    speed.plot([winner.size.num_envs], [winner.speed], label="the winner", **star)
    memory.plot([winner.size.num_envs], [winner.memory / 2**30], **star)
    _mark_failures(speed, found.outcomes)
    _draw_limit(memory, found)
    speed.set_title(f"{found.config.name}: training on {found.survey.device}", loc="left")
    speed.set_ylabel("environment steps trained per second")
    speed.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    memory.set_ylabel("memory of the process, GiB" if found.survey.device == "cpu" else "memory of PyTorch, GiB")
    memory.set_xlabel("replicas (num_envs)")
    memory.set_xscale("log", base=2)
    memory.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f}"))
    memory.xaxis.set_minor_locator(NullLocator())
    for axes in (speed, memory):
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    speed.legend(title="rollout", fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    figure.savefig(path, dpi=120)


def _mark_failures(axes: Axes, outcomes: Sequence[Outcome]) -> None:
    failed = sorted({outcome.size.num_envs for outcome in outcomes if not outcome.fits})
    if failed:
        axes.plot(failed, [0.0] * len(failed), "x", color="C3", markersize=9, clip_on=False, label="did not fit")


def _draw_limit(axes: Axes, found: Autoscaled) -> None:
    """Draw the memory limit, if it is close enough to the data to be in the plot."""
    there = found.memory[0] + (found.survey.baseline if found.survey.device == "cpu" else 0.0)
    if there < 4 * max(outcome.memory for outcome in found.outcomes):
        axes.axhline(there / 2**30, color="C3", linestyle="--", linewidth=1)
        axes.text(0.0, there / 2**30, " limit", color="C3", va="bottom", transform=axes.get_yaxis_transform())
