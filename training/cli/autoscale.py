"""``warpdrive autoscale``: find the fastest size on this machine, and write its run configuration."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import torch
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.text import Text

from warpdrive.backends.loading import never_uses_gpu
from warpdrive.errors import ConfigError
from warpdrive.training.autoscale import Autoscaled, autoscale
from warpdrive.training.autoscale.memory import gib, parse_bytes
from warpdrive.training.autoscale.prober import Survey
from warpdrive.training.autoscale.report import consequences_of, in_words, outcome_table, save_picture
from warpdrive.training.autoscale.size import Outcome, Size
from warpdrive.training.cli.printing import INTERRUPTED, as_typed, make_console, note, say
from warpdrive.training.config.load import RunConfig, load_config
from warpdrive.training.progress.console import is_live
from warpdrive.training.progress.training import short
from warpdrive.training.runtime.atomic_write import write_atomically, write_json

_FOUND_BY = "# found by `warpdrive autoscale`"
_UPDATES_OF_A_RUN = 50
"""Minimum number of updates of a run that follows immediately, so that it makes progress."""


def run(options: argparse.Namespace) -> int:
    """Run the search, and print the result and its location."""
    config = load_config(options.source, options.overrides, trust=options.trust or None)
    found = find(config, options, make_console(), then_train=False, devices=devices_for(config))
    return INTERRUPTED if found.stopped else 0


def devices_for(config: RunConfig) -> int:
    """Return the number of devices of a run: all GPUs, or one for the CPU."""
    return 1 if never_uses_gpu(config.trainer.env_backend) else max(1, torch.cuda.device_count())


def file_for(config: RunConfig, options: argparse.Namespace) -> Path:
    """Return the path of the resulting configuration."""
    return Path(options.output or f"{config.name}_autoscaled.yaml")


def find(
    config: RunConfig, options: argparse.Namespace, console: Console, then_train: bool, devices: int = 1
) -> Autoscaled:
    """Run the search with the command's options and write the configuration, the table and the figure.

    The search is on one device; the configuration is for all ``devices`` together.

    Args:
        config: Run configuration.
        options: Parsed command line.
        console: Console for the table.
        then_train: True if a training run follows.
        devices: Number of devices of the training.

    Returns:
        The result of the search.

    Raises:
        ConfigError: If an option is invalid.
        TrainingError: If no size fits.
        KeyboardInterrupt: Ctrl-C ended the search, and training was to follow.
    """
    output = file_for(config, options)
    if output.suffix not in (".yaml", ".yml"):
        raise ConfigError(f"--output: found '{output}', expected the name of a YAML file")
    if not output.parent.is_dir():
        raise ConfigError(f"--output: found '{output}', but the folder '{output.parent}' does not exist")
    is_ours = output.exists() and output.read_text(encoding="utf-8", errors="replace").startswith(_FOUND_BY)
    for path in (output, output.with_suffix(".json"), output.with_suffix(".png")):
        if path.exists() and not is_ours:
            raise ConfigError(
                f"--output: '{path}' already exists and was not written by autoscale: expected another name"
            )
    memory = parse_bytes(options.memory) if options.memory else None
    with _Display(console) as display:
        found = autoscale(
            config,
            write_to=output,
            memory=memory,
            time_limit=options.time_limit,
            seconds=options.seconds,
            min_updates=options.min_updates or (_UPDATES_OF_A_RUN if then_train else 1),
            devices=devices,
            on_survey=display.show_survey,
            on_outcome=display.show,
        )
    _save(found, output)
    _tell(found, output, console, then_train)
    if found.stopped and then_train:
        raise KeyboardInterrupt
    return found


def _save(found: Autoscaled, output: Path) -> None:
    record = {
        "winner": found.winner.size._asdict(),
        "before": found.before._asdict(),
        "devices": found.devices,
        "survey": asdict(found.survey) | {"available": found.memory[0], "limited_by": found.memory[1]},
        "outcomes": [asdict(outcome) | {"size": outcome.size._asdict()} for outcome in found.outcomes],
    }
    write_json(output.with_suffix(".json"), record, indent=2)
    save_picture(found, output.with_suffix(".png"))
    where = f"each of {found.devices} devices as {found.survey.device}" if found.devices > 1 else found.survey.device
    comment = [
        f": {short(found.winner.speed)} environment steps trained per second on "
        f"{where} ({found.survey.backend} backend), with {gib(found.winner.memory)} of memory.",
        *consequences_of(found),
    ]
    text = _FOUND_BY + "\n# ".join(comment) + "\n"
    write_atomically(output, text + output.read_text(encoding="utf-8"))


def _tell(found: Autoscaled, output: Path, console: Console, then_train: bool) -> None:
    if console.quiet and not then_train:
        say(str(output))
    console.print()
    console.print(outcome_table({o.size: o for o in found.outcomes}, winner=found.winner.size))
    console.print()
    for line in consequences_of(found):
        console.print(line, highlight=False)
    if found.devices > 1 and found.speed:
        alone = f"one process with its share of the machine: {short(found.winner.speed)}"
        together = f"{found.devices} processes together: {short(found.speed)} environment steps/s ({alone})"
        console.print(together, highlight=False)
    console.print(
        f"\n[bold]{escape(str(output))}[/bold]   run configuration with this size", highlight=False, markup=True
    )
    for suffix, meaning in ((".png", "throughput and memory by size"), (".json", "results as JSON")):
        console.print(f"{escape(str(output.with_suffix(suffix)))}   [dim]{meaning}[/dim]", highlight=False, markup=True)
    if found.stopped:
        console.print(
            "\nstopped by Ctrl-C: the best size so far, not yet verified by training to the end", highlight=False
        )
    if not then_train or found.stopped:
        option = "--num_processes" if found.survey.device == "cpu" else "--num_gpus"
        several = [option, str(found.devices)] if found.devices > 1 else []
        command = as_typed("warpdrive", "train", output, *several)
        console.print(f"\nnext:\n  {command}", highlight=False, soft_wrap=True)


class _Display:
    """Live table on a terminal; elsewhere a line for each size."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._head = Text("inspecting the environment and the machine (compiling new kernels)")
        self._live = Live(self._head, console=console, refresh_per_second=4) if is_live(console) else None
        self._reported: dict[Size, Outcome] = {}

    def __enter__(self) -> _Display:
        if self._live:
            self._live.start()
        else:
            note(str(self._head))
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.update(Text())  # the whole table is printed at the end
            self._live.stop()

    def show_survey(self, survey: Survey, memory: tuple[float, str]) -> None:
        replica = survey.state_bytes + survey.rollout_bytes
        self._head = Text(
            f"{survey.backend} backend on {survey.device}, {gib(memory[0])} for arrays ({memory[1]}); "
            f"a replica takes {short(replica)}B plus {short(survey.step_bytes)}B per rollout step; {survey.at_once} "
            "run concurrently"
        )
        if not self._live:
            note(str(self._head))

    def show(self, outcomes: Mapping[Size, Outcome], now: Size | None) -> None:
        if self._live:
            self._live.update(Group(self._head, outcome_table(outcomes, now)))
            return
        for size, outcome in outcomes.items():
            if self._reported.get(size) != outcome:
                self._reported[size] = outcome
                note(in_words(outcome))
