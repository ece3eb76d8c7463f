"""``warpdrive check``: report problems of an environment and its kernels, or its differences from a reference."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from warpdrive import registry
from warpdrive.backends.host.interrupts import launches_within
from warpdrive.backends.interface import Backend
from warpdrive.checks.backends import comparable_backends
from warpdrive.checks.complete import check_environment
from warpdrive.checks.environment import is_written_for
from warpdrive.checks.findings import OF_BEHAVIOUR, OF_KERNELS, Finding, Report
from warpdrive.checks.parity import check_parity
from warpdrive.environment import Environment, overrides
from warpdrive.errors import ConfigError
from warpdrive.terminal import is_quiet
from warpdrive.training.cli.printing import make_console
from warpdrive.training.config.load import load_config
from warpdrive.training.config.yaml import parse_override
from warpdrive.training.progress.console import PlainConsole, is_live

PLAYED_STEPS = 50
"""Number of steps played natively to test the environment; they take almost no time."""

FOUND = 1
"""Exit code if there are findings."""


def run(options: argparse.Namespace) -> int:
    """Check an environment, print the findings, and return 1 if there are any."""
    console = make_console(of_results=True)
    env = _environment(options.source, options.overrides, options.trust)
    if options.against is not None:
        return _compare(env, options, console)
    backends, stderr = comparable_backends(env), PlainConsole(stderr=True)
    with (
        launches_within(options.max_seconds, FOUND),
        Progress(console=stderr, transient=True, disable=not is_live(stderr) or is_quiet()) as progress,
    ):
        task = progress.add_task(f"checking '{env.name}'", total=options.steps + PLAYED_STEPS)
        report = check_environment(
            env,
            PLAYED_STEPS,
            options.steps,
            options.replicas,
            options.seed,
            options.nan,
            backends,
            on_step=lambda: progress.advance(task),
            max_steps=options.max_steps,
        )
    if options.json:
        print(json.dumps({"environment": env.name, **report.as_dict()}, indent=2))
    else:
        print_report(console, report)
        count = sum(1 for _ in report)
        text = "clean" if report.clean else f"{count} finding{'s' * (count > 1)}"
        console.print(f"{env.name}: {text}. {_done(options, env, backends, report)}", highlight=False)
    return 0 if report.clean else FOUND


def _compare(env: Environment, options: argparse.Namespace, console: Console) -> int:
    """Compare an environment with a reference, print the differences, and return 1 if there are any."""
    stderr = PlainConsole(stderr=True)
    with (
        launches_within(options.max_seconds, FOUND),
        Progress(console=stderr, transient=True, disable=not is_live(stderr) or is_quiet()) as progress,
    ):
        task = progress.add_task(f"comparing '{env.name}'", total=None)
        report = check_parity(
            env,
            options.against or None,
            options.episodes,
            options.seed,
            on_episodes=lambda number: progress.update(task, description=f"'{env.name}': {number} episodes"),
        )
    if options.json:
        print(json.dumps(report.as_dict(), indent=2))
    else:
        console.print(str(report), highlight=False, markup=False)
    return 0 if report else FOUND


def _done(options: argparse.Namespace, env: Environment, backends: Sequence[Backend], report: Report) -> str:
    """Return a summary of the checks done."""
    done = []
    if is_written_for(env, "Python"):
        kernels = ", ".join(kind for kind in OF_KERNELS if kind != "nan" or options.nan)
        agents = f"{env.num_agents} agent{'s' * (env.num_agents > 1)}"
        done.append(f"interpreted {options.steps} steps of {options.replicas} replicas with {agents} ({kernels})")
    if not report.bounds and not report.endless:
        has_reference = overrides(env, "reference_step") or overrides(env, "reference_observe")
        left_out = {"backends"} if has_reference else {"backends", "reference"}
        behaviour = ", ".join(kind for kind in OF_BEHAVIOUR if kind not in left_out)
        done.append(f"ran {PLAYED_STEPS} steps ({behaviour})")
        if len(backends) > 1:
            done.append(f"compared backends ({', '.join(backend.name for backend in backends)})")
    text = ", ".join(done)
    return f"{text[0].upper()}{text[1:]}."


def print_report(console: Console, report: Report) -> None:
    """Print a report as a table."""
    if not report.clean:
        table = Table(
            "check", "times", "finding, location and fix", box=None, header_style="bold", padding=(0, 2, 0, 0)
        )
        for finding in report:
            table.add_row(finding.kind, str(finding.count), _text_of(finding))
        console.print(table, highlight=False)
    for note in report.notes:
        console.print(f"note: {note}", highlight=False)


def _text_of(finding: Finding) -> Text:
    text = Text(finding.message, overflow="fold")
    for place, source in dict(zip(finding.lines, finding.sources, strict=True)).items():
        text.append(f"\n{_short(place)}", style="cyan")
        text.append(f"\n  {source}" if source else "")
    if finding.advice:
        text.append(f"\n> {finding.advice}", style="dim")
    return text.append("\n")


def _environment(source: str, overrides: Sequence[str], trust: bool) -> Environment:
    """Create the environment of a run configuration, or a named one; ``key=value`` sets its parameters."""
    if Path(source).suffix in (".yaml", ".yml"):
        given = [text if "." in text.partition("=")[0] else f"env.{text}" for text in overrides]
        config = load_config(source, given, trust=trust or None)
        if config.env is None:
            raise ConfigError(f"{source}: missing section env")
        env = registry.make(config.env.name, **config.env.parameters)
        if env.steps_on_host:
            raise ConfigError(
                f"{source}: {env.name} has no kernels to check; Gymnasium and PettingZoo have checks of their own, "
                "gymnasium.utils.env_checker and pettingzoo.test"
            )
        return env
    parameters = {}
    for text in overrides:
        key, value = parse_override(text)
        own = key[1:] if key[0] == "env" and len(key) > 1 else key
        if len(own) != 1:
            raise ConfigError(f"command line: {'.'.join(key)}: expected a parameter of the environment as key=value")
        parameters[own[0]] = value
    return registry.make(source, **(parameters or registry.environment_class(source).check_parameters))


def _short(line: str) -> str:
    """Return ``file:line`` with the path relative to the working directory, if that is shorter."""
    file, _, number = line.rpartition(":")
    if not os.path.isabs(file):
        return line
    with suppress(ValueError):  # on another drive of Windows
        file = min(os.path.relpath(file), file, key=len)
    return f"{file}:{number}"
