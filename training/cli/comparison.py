"""Trained policies compared with random ones: the table at the end of ``warpdrive train``."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.table import Table

from warpdrive.training.algorithms.base import LearningConfig
from warpdrive.training.config.schema import FunctionConfig, RunConfig, SelfPlayConfig
from warpdrive.training.evaluation import EvaluationResult


@dataclass(frozen=True)
class Measurement:
    """Row of the comparison table.

    Attributes:
        random: Policy tags that acted at random.
        trained: Policy tags that acted as trained.
        result: Evaluation result.
        others: Description of the behaviour of the remaining policy tags.
        run: Name of the run, if there are several.
    """

    trained: tuple[str, ...]
    random: tuple[str, ...]
    result: EvaluationResult
    others: Mapping[str, str] = field(default_factory=dict)
    run: str = ""

    @property
    def actors(self) -> str:
        """Description of the actors: ``"trained tagger, random runner"``."""
        parts = [("trained", self.trained), ("random", self.random)]
        others = [f"{tag} {how}" for tag, how in self.others.items()]
        acted = ", ".join([*(f"{how} {' and '.join(tags)}" for how, tags in parts if tags), *others])
        return f"{self.run}: {acted}" if self.run else acted


def measurement(config: RunConfig, random: Iterable[str], result: EvaluationResult, run: str = "") -> Measurement:
    """Return the measurement of an evaluation in which the tags of ``random`` acted at random.

    Args:
        config: Run configuration.
        random: Policy tags that acted at random.
        result: Evaluation result.
        run: Name of the run, if there are several.

    Returns:
        The measurement, to be shown as a row of the table.
    """
    acting = {tag: settings for tag, settings in config.policy.items() if tag not in random}
    trained = tuple(tag for tag, settings in acting.items() if isinstance(settings, LearningConfig))
    others = {
        tag: settings.description
        for tag, settings in acting.items()
        if isinstance(settings, SelfPlayConfig | FunctionConfig)
    }
    return Measurement(
        trained, tuple(tag for tag in config.policy if tag not in (*trained, *others)), result, others, run
    )


def line_ups(tags: Iterable[str], trained: Sequence[str], others: Sequence[str] = ()) -> list[tuple[str, ...]]:
    """Return the evaluations to run, each as the tags that act at random.

    The first has all policies as trained; then, if several policies were trained, each of them alone against random
    agents; the last has all at random.

    Args:
        tags: All policy tags.
        trained: Tags with a trained policy.
        others: Tags without a trained policy that do not act at random; the remaining tags always act at random.

    Returns:
        Tuples of policy tags, without duplicates.
    """
    tags = tuple(tags)
    found = [tuple(tag for tag in tags if tag not in (*trained, *others))]
    if len(trained) + len(others) > 1:
        found += [tuple(tag for tag in tags if tag != alone) for alone in trained]
    return list(dict.fromkeys([*found, tags]))


def comparison_table(measurements: Sequence[Measurement], termination_meaning: str) -> Table:
    """Return a table with a row per measurement.

    Args:
        measurements: At least one; all over the same number of episodes.
        termination_meaning: Meaning of a terminated episode, or "".
    """
    result = measurements[0].result
    episodes = "1 episode" if result.episodes == 1 else f"{result.episodes} episodes"
    title = f"Mean over {episodes}" if len(measurements) == 1 else f"Means over {episodes} each"
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 3, 0, 0), pad_edge=False)
    table.add_column("policies")
    table.add_column(termination_meaning or "terminated", justify="right")
    table.add_column("length", justify="right")
    for tag in result.mean_return:
        table.add_column(f"return of {tag}", justify="right")
    rated = list(dict.fromkeys(tag for measurement in measurements for tag in measurement.result.elo))
    for tag in rated:
        table.add_column(f"Elo of {tag}", justify="right")
    for measurement in measurements:
        result = measurement.result
        returns = [f"{value:.2f}" for value in result.mean_return.values()]
        share = f"{100 * result.terminated_fraction:.1f} %"
        elo = [f"{result.elo[tag]:.0f}" if tag in result.elo else "" for tag in rated]
        table.add_row(measurement.actors, share, f"{result.mean_length:.1f}", *returns, *elo)
    return table


def as_plain_data(measurements: Sequence[Measurement]) -> list[Mapping[str, Any]]:
    """Return the measurements as JSON-serialisable data, without the single episodes."""
    return [
        {
            "trained": list(line.trained),
            "random": list(line.random),
            "others": dict(line.others),
            **{key: value for key, value in asdict(line.result).items() if not key.startswith("episode_")},
        }
        for line in measurements
    ]


def episodes_csv(measurements: Sequence[Measurement]) -> str:
    """Return the single episodes of the measurements as CSV, with the index of the measurement in the first column."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    tags = list(measurements[0].result.episode_returns)
    writer.writerow(["evaluation", "length", *(f"return/{tag}" for tag in tags)])
    for number, line in enumerate(measurements):
        columns = [line.result.episode_returns[tag] for tag in tags]
        for length, *returns in zip(line.result.episode_lengths, *columns, strict=True):
            writer.writerow([number, length, *(f"{value:.6g}" for value in returns)])
    return text.getvalue()
