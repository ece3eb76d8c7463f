"""``warpdrive sweep``: train with many values of some keys in parallel, and compare."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.text import Text

from warpdrive.errors import ConfigError, nearest, shown
from warpdrive.training.checkpoint.run_folder import new_folder
from warpdrive.training.cli.printing import as_typed, make_console, note, say
from warpdrive.training.config.load import RunConfig, load_config
from warpdrive.training.config.schema import RandomConfig
from warpdrive.training.distributed.placement import places
from warpdrive.training.progress.console import is_live
from warpdrive.training.runtime.atomic_write import write_json
from warpdrive.training.runtime.interrupts import Stopped, exit_code_of, on_signal
from warpdrive.training.sweep.engines import ENGINES, make_engine
from warpdrive.training.sweep.report import ranked, save_picture, trial_table, write_csv
from warpdrive.training.sweep.runner import Plan, Runner, Trial
from warpdrive.training.sweep.space import Space, as_overrides, parse_space

_CONTENTS = {"sweep.png": "learning curves, and the return by value", "results.csv": "the table", "trial_*": "the runs"}


def run(options: argparse.Namespace) -> int:
    """Run all trials, and print the best one. The exit code is 1 if every trial failed."""
    request = _stored(options.resume) if options.resume else _requested(options)
    space, fixed = parse_space(request["arguments"])
    trust = options.trust or (False if options.resume else None)
    config = load_config(request["source"], fixed, trust=trust, trust_overrides=trust is not False)
    tag = _tag(request["tag"], config)
    engine = make_engine(request["engine"], space, request["trials"], request["seed"], request["minimise"])
    if not options.resume:
        _check_first(request["source"], fixed, space, trust)
    folder = Path(options.resume or new_folder(Path(config.saving.folder) / f"{config.name}_sweep"))
    if not options.resume:
        write_json(folder / "sweep.json", request, indent=2)
    where = places(options.parallel, torch.cuda.device_count())
    console, tags = make_console(), list(config.policy)
    summary = f"{engine.trials} trials, {min(len(where), engine.trials)} at a time, in {folder}"
    console.print(summary, highlight=False, soft_wrap=True)
    stopped_by = signal.SIGINT

    def stop(number: signal.Signals) -> None:
        nonlocal stopped_by
        stopped_by = number
        raise Stopped(number)

    with _Display(console, space, tags) as display:
        runner = Runner(Plan(folder.resolve(), request["source"], fixed, tag, trust), engine, where, display.show)
        with on_signal(stop):  # trials are processes of their own, which save first
            whole = runner.run()
    trials = ranked(runner.trials, request["minimise"])
    best = trials[0] if trials and trials[0].score is not None else None
    console.print(trial_table(trials, space, tags))
    write_csv(trials, space, tags, folder / "results.csv")
    save_picture(trials, space, tag, best, folder / "sweep.png")
    _print_end(console, folder, best, whole)
    if not whole:
        return exit_code_of(stopped_by)
    return 0 if best is not None else 1


def _requested(options: argparse.Namespace) -> dict[str, Any]:
    source = str(Path(options.source).resolve()) if Path(options.source).is_file() else options.source
    return {
        "source": source,
        "arguments": options.overrides,
        "engine": options.engine,
        "trials": options.trials,
        "seed": options.seed,
        "tag": options.tag,
        "minimise": options.minimise,
    }


_REQUEST: dict[str, Callable[[Any], bool]] = {
    "source": lambda value: isinstance(value, str),
    "arguments": lambda value: isinstance(value, list) and all(isinstance(part, str) for part in value),
    "engine": lambda value: value is None or value in ENGINES,
    "trials": lambda value: value is None or (type(value) is int and value > 0),
    "seed": lambda value: type(value) is int,
    "minimise": lambda value: isinstance(value, bool),
    "tag": lambda value: value is None or isinstance(value, str),
}
"""Keys of ``sweep.json``, and whether a value is valid."""


def _stored(folder: str) -> dict[str, Any]:
    try:
        request = json.loads((Path(folder) / "sweep.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise ConfigError(f"--resume: found no sweep in {shown(folder)} (no sweep.json)") from None
    lacking = [key for key in _REQUEST if key not in request] if isinstance(request, dict) else ["a sweep"]
    if lacking:
        raise ConfigError(f"--resume: {folder}/sweep.json is damaged: it has no {lacking[0]}")
    for key in (key for key, is_valid in _REQUEST.items() if not is_valid(request[key])):
        raise ConfigError(f"--resume: {folder}/sweep.json is damaged: found {key} = {shown(request[key])}")
    return dict(request)


def _tag(wanted: str | None, config: RunConfig) -> str:
    learning = [tag for tag, policy in config.policy.items() if not isinstance(policy, RandomConfig)]
    if wanted is None:
        return learning[0] if learning else next(iter(config.policy))
    if wanted not in config.policy:
        known, hint = ", ".join(config.policy), nearest(wanted, config.policy)
        raise ConfigError(f"--tag: found '{wanted}', expected one of {known}.{hint}")
    return wanted


def _check_first(source: str, fixed: Sequence[str], space: Space, trust: bool | None) -> None:
    """Check keys and values before training: each value of a list, with the first values of the other keys.

    Args:
        source: Run configuration.
        fixed: Overrides of all trials.
        space: Keys that are varied.
        trust: See ``load_config``.

    Raises:
        ConfigError: If a key or value is invalid: reports the first one.
    """
    ends = {key: getattr(part, "values", None) or (part.low, part.high) for key, part in space.items()}  # type: ignore[union-attr]
    first = {key: values[0] for key, values in ends.items()}
    for key, values in ends.items():
        for value in values:
            load_config(source, [*fixed, *as_overrides(first | {key: value})], trust=trust)


def _print_end(console: Console, folder: Path, best: Trial | None, whole: bool) -> None:
    console.print(f"\n[bold]{escape(str(folder))}[/bold]", highlight=False, soft_wrap=True, markup=True)
    for name, meaning in _CONTENTS.items():
        console.print(f"  {name:<13}[dim]{meaning}[/dim]", highlight=False, markup=True)
    commands = []
    if console.quiet:
        say(str(folder if best is None else folder / f"trial_{best.number:03d}"))
    if best is not None:
        values = ", ".join(f"{key} = {value}" for key, value in best.values.items())
        console.print(f"\nbest: trial {best.number}, {values}", highlight=False, soft_wrap=True)
        commands.append(as_typed("warpdrive", "evaluate", folder / f"trial_{best.number:03d}"))
    if not whole:
        commands.append(as_typed("warpdrive", "sweep", "--resume", folder))
    if commands:
        console.print("\nnext:", highlight=False)
    for command in commands:
        console.print(f"  {command}", highlight=False, soft_wrap=True)


class _Display:
    """Live table on a terminal; elsewhere a line when a trial begins or ends."""

    def __init__(self, console: Console, space: Space, tags: Sequence[str]) -> None:
        self._space, self._tags = space, tags
        self._live = Live(Text(), console=console, refresh_per_second=4) if is_live(console) else None
        self._reported: dict[int, str] = {}
        self._stack = ExitStack()

    def __enter__(self) -> _Display:
        if self._live:
            self._stack.enter_context(self._live)
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.update(Text())
        self._stack.close()

    def show(self, trials: Sequence[Trial]) -> None:
        if self._live:
            self._live.update(trial_table(trials, self._space, self._tags))
            return
        for trial in trials:
            if trial.status != self._reported.get(trial.number, "waiting"):
                self._reported[trial.number] = trial.status
                values = ", ".join(f"{key}={value}" for key, value in trial.values.items())
                score = "" if trial.score is None else f", return {trial.score:.2f}"
                note(f"trial {trial.number} ({values}): {trial.reason or trial.status}{score}")
        sys.stdout.flush()
