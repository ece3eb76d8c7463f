"""Subcommands of the command line, and their options.

Only the standard library is imported here, so that help and usage errors are instant.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

from warpdrive import __version__
from warpdrive.errors import nearest, shown
from warpdrive.terminal import plain
from warpdrive.training.cli.completion import SHELLS
from warpdrive.training.cli.help import DESCRIPTION, EPILOG, EPILOGS

COMMANDS = tuple(EPILOGS)
OTHER_NAMES = {
    **dict.fromkeys(("list", "ls", "environments"), "envs"),
    **dict.fromkeys(("new", "create"), "init"),
    **dict.fromkeys(("run", "learn", "fit"), "train"),
    **dict.fromkeys(("tune", "search", "hpo"), "sweep"),
    **dict.fromkeys(("test", "eval", "enjoy"), "evaluate"),
    **dict.fromkeys(("render", "video", "gif"), "replay"),
    **dict.fromkeys(("lint", "verify"), "check"),
}
"""Commands by names that other programs have for them."""
TAKE_OVERRIDES = ("train", "autoscale", "sweep", "web", "check")
MAY_NAME_CODE = ("train", "autoscale", "sweep", "evaluate", "watch", "replay", "web", "export", "check")
HAVE_LEVELS = (*MAY_NAME_CODE, "plot", "report", "init")
MISTAKE = 2
"""Exit code of a mistake of the user."""


class _Parser(argparse.ArgumentParser):
    """Argument parser that reports errors in one line, with a pointer to the help."""

    def error(self, message: str) -> NoReturn:
        self.exit(MISTAKE, plain(f"{self.prog}: {message.replace(chr(10), ' ')} (see {self.prog} --help)") + "\n")


if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[_Parser]


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command line, with the overrides in one list; exit if it cannot be understood."""
    _check_command(arguments)
    parser = build_parser()
    options, rest = parser.parse_known_args(arguments)
    # argparse takes all overrides from one place; those that follow an option are left over.
    overrides = [text for text in rest if options.command in TAKE_OVERRIDES and not text.startswith("-")]
    unknown = [text for text in rest if text not in overrides]
    if unknown:
        command = _parser_of(options.command, parser)
        command.error(f"unknown argument '{unknown[0]}'.{_hint(unknown[0], command, options)}")
    if overrides:
        options.overrides += overrides
    if options.command in ("train", "sweep"):
        _choose_source(options, parser)
    return options


def _hint(argument: str, command: argparse.ArgumentParser, options: argparse.Namespace) -> str:
    """Return what an unknown argument may be meant as."""
    name = argument.lstrip("-")
    if options.command in TAKE_OVERRIDES and "." in name.partition("=")[0]:
        return f" Keys of the configuration have no dashes: '{name}'."
    known = (option[2:] for option in command._option_string_actions if option.startswith("--"))
    return nearest(name.partition("=")[0], known).replace("'", "'--", 1)


def _choose_source(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Move the first override out of the position of the source if --resume or --env is given."""
    named = getattr(options, "env", None)
    if (options.resume or named) and options.source and "=" in options.source:
        options.overrides.insert(0, options.source)
        options.source = None
    if named and options.source:
        parser.error(f"found both '{options.source}' and --env {named}: expected only one of them")
    options.source = options.source or named
    if bool(options.resume) == bool(options.source):
        what = "run" if options.command == "train" else "sweep"
        parser.error(f"expected either an environment or YAML file, or --resume <{what}>")


def _parser_of(command: str, parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Return the parser of one command."""
    (commands,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    found: argparse.ArgumentParser = commands.choices[command]
    return found


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = _Parser(
        prog="warpdrive", description=DESCRIPTION, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=f"warpdrive {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="<command>", required=True, title="commands")
    _add_train(commands)
    _add_autoscale(commands)
    _add_sweep(commands)
    _add_evaluate(commands)
    _add_plot(commands)
    _add_report(commands)
    _add_watch(commands)
    _add_replay(commands)
    _add_web(commands)
    _add_export(commands)
    _add_check(commands)
    _add_envs(commands)
    _add_init(commands)
    _add_schema(commands)
    _add_completion(commands)
    _add_convert(commands)
    _add_doctor(commands)
    return parser


def _add(commands: _Commands, name: str, what: str) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        name,
        help=what,
        description=f"{what[0].upper()}{what[1:]}.",
        epilog=EPILOGS[name],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--debug", action="store_true", help="show the full traceback of errors")
    if name in HAVE_LEVELS:
        level = parser.add_mutually_exclusive_group()
        level.add_argument("-q", "--quiet", action="store_true", help="print only errors and the result")
        level.add_argument("-v", "--verbose", action="store_true", help="log compilations and cache hits on stderr")
    if name in MAY_NAME_CODE:
        parser.add_argument(
            "--trust", action="store_true", help="allow a run to load untrusted code (docs/project/security.md)"
        )
    return parser


def _add_train(commands: _Commands) -> None:
    parser = _add(commands, "train", "train policies, evaluate them, and animate an episode")
    _add_source(parser, nargs="?")
    _add_overrides(parser, "override a key of the run configuration")
    parser.add_argument("-e", "--env", metavar="<env or yaml>", help="same as the positional argument")
    parser.add_argument("--resume", metavar="<run>", help="resume a run from its latest checkpoint, in its own folder")
    parser.add_argument("--no-replay", action="store_true", help="skip writing replay.gif")
    parser.add_argument("--no-report", action="store_true", help="skip writing report.html")
    parser.add_argument(
        "--watch", action="store_true", help="serve a page with curves and episodes (see `warpdrive watch --help`)"
    )
    _add_port(parser, "--watch-port")
    several = parser.add_argument_group(
        "distributed training, with trainer.num_envs divided among processes (docs/guides/scaling.md)"
    )
    several.add_argument("-n", "--num_gpus", type=_count, metavar="N", help="train on N GPUs, one process per GPU")
    _add_number(several, "--num_processes", "train in N processes, for example on a CPU")
    _add_number(
        several,
        "--max_restarts",
        "restart all processes from the latest checkpoint if one fails, at most N times",
        _non_negative,
        default=0,
    )
    parser.add_argument(
        "-a",
        "--auto_scale",
        action="store_true",
        help="tune the number of replicas and the rollout length first (see `warpdrive autoscale --help`)",
    )
    _add_search(parser)


def _add_autoscale(commands: _Commands) -> None:
    parser = _add(commands, "autoscale", "tune the number of replicas and the rollout length for training throughput")
    _add_source(parser)
    _add_overrides(parser, "override a key of the run configuration")
    _add_search(parser)


def _add_sweep(commands: _Commands) -> None:
    parser = _add(commands, "sweep", "train with different hyperparameters in parallel, and compare the results")
    _add_source(parser, nargs="?")
    _add_overrides(parser, "search space of a key, or one value for all trials", metavar="key=values")
    parser.add_argument("--resume", metavar="<sweep>", help="resume the sweep in this folder")
    _add_number(parser, "--trials", "number of trials, unless a grid is searched (default: 16)")
    _add_number(parser, "--parallel", "number of concurrent trials (default: one per GPU, or per CPU core up to 4)")
    parser.add_argument(
        "--engine",
        choices=("grid", "random", "optuna"),
        help="search algorithm (default: grid; random with ranges or --trials). optuna samples from a model of the "
        "finished trials and prunes those below the median; requires: pip install 'warpdrive[optuna]'",
    )
    parser.add_argument(
        "--tag", metavar="TAG", help="policy whose return ranks the trials (default: the first trained one)"
    )
    parser.add_argument("--minimise", action="store_true", help="minimise the return instead of maximising it")
    _add_number(parser, "--seed", "seed of the search", _non_negative, default=0)


def _add_search(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("tuning (autoscale, train --auto_scale)")
    _add_output(group, "YAML file to write the configuration to (default: <name>_autoscaled.yaml)")
    group.add_argument("--memory", metavar="SIZE", help="memory limit, such as 2GiB (default: available memory)")
    _add_number(
        group,
        "--min_updates",
        "minimum number of updates in trainer.total_steps, which limits the batch size "
        "(default: 1; 50 with train --auto_scale)",
    )
    _add_number(group, "--time_limit", "time limit per candidate in seconds", _seconds, default=120)
    _add_number(group, "--seconds", "duration of each measurement in seconds", _seconds, default=2)


def _add_evaluate(commands: _Commands) -> None:
    parser = _add(commands, "evaluate", "evaluate the policies of runs over whole episodes")
    parser.add_argument(
        "runs", metavar="<run>", nargs="+", help="run folder, runs/<name> for the latest run, or checkpoint"
    )
    _add_best(parser)
    _add_number(parser, "--episodes", "number of episodes (default: that of the run)")
    against = parser.add_mutually_exclusive_group()
    against.add_argument(
        "--against", nargs="+", default=[], metavar="RUN", help="play against the policies of these runs or checkpoints"
    )
    against.add_argument(
        "--league", action="store_true", help="play all runs against each other and compute Elo ratings"
    )
    _add_acting(parser)


def _add_plot(commands: _Commands) -> None:
    parser = _add(commands, "plot", "plot learning curves of runs")
    parser.add_argument("runs", metavar="<run>", nargs="+", help="run folder, or runs/<name> for the latest run")
    parser.add_argument(
        "-m",
        "--metric",
        metavar="NAME",
        action="append",
        default=[],
        help="metric to plot (repeatable; default: returns)",
    )
    _add_output(parser, "output file (default: learning_curves.png; for a single run, in its folder)")
    _add_number(parser, "--smooth", "window of the moving average, in values", default=1)


def _add_report(commands: _Commands) -> None:
    parser = _add(commands, "report", "write an HTML page about runs")
    parser.add_argument("runs", metavar="<run>", nargs="+", help="run folder, or runs/<name> for the latest run")
    _add_output(parser, "HTML file (default: report.html; for a single run, in its folder)")


def _add_watch(commands: _Commands) -> None:
    parser = _add(commands, "watch", "serve a page with the curves and the latest episode of a run")
    parser.add_argument("run", metavar="<run>", help="run folder, or runs/<name> for the latest run")
    _add_port(parser, "--port")


def _add_port(parser: argparse.ArgumentParser, name: str) -> None:
    parser.add_argument(name, type=_port, metavar="N", help="port of the page (default: the first free one from 8300)")


def _add_replay(commands: _Commands) -> None:
    parser = _add(commands, "replay", "save episodes of a run as an animation or as arrays")
    parser.add_argument(
        "run", metavar="<run>", help="run folder, runs/<name> for the latest run, checkpoint, or recording"
    )
    _add_best(parser)
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        action="append",
        default=[],
        help="output file: .gif, .html, .mp4, .png, .svg, .npz or .safetensors (repeatable; default: replay.gif in the "
        "run folder)",
    )
    _add_number(parser, "--episodes", "number of consecutive episodes", default=1)
    _add_number(parser, "--replicas", "number of replicas shown side by side (default: 1; for a recording, all)")
    _add_number(parser, "--seed", "seed of the first episode (default: the seed of the run)", _non_negative)
    _add_acting(parser)
    _add_number(parser, "--fps", "frames per second (default: 10 to 30, depending on the length)", _small_count)
    _add_number(
        parser, "--width", "width in pixels (default: as rendered; at most 960 for several replicas)", _small_count
    )
    _add_number(parser, "--step", "step that .png and .svg show (default: at half of the episode)", _non_negative)
    parser.add_argument(
        "--theme", choices=("light", "dark"), default="light", help="colours of pictures (default: light)"
    )


def _add_web(commands: _Commands) -> None:
    parser = _add(commands, "web", "write a page in which an environment and its policies run")
    parser.add_argument(
        "source",
        metavar="<run, env or yaml>",
        help="run folder, runs/<name> for the latest run, or checkpoint; or an environment, or path of a YAML file",
    )
    _add_overrides(parser, "set a key of the configuration of an environment")
    _add_best(parser)
    _add_output(parser, "output file, .html (default: <name>.html in the run folder, or here)")
    _add_number(parser, "--replicas", "number of replicas shown at first", default=1)
    _add_number(
        parser, "--seed", "seed of start states and random numbers (default: the seed of the run)", _non_negative
    )
    _add_acting(parser)
    _add_number(parser, "--fps", "steps per second at first", _small_count, default=10)
    _add_number(parser, "--verified-steps", "steps that the page can compare with native ones", default=10_000)


def _add_export(commands: _Commands) -> None:
    parser = _add(commands, "export", "export a trained policy to ONNX or torch.export")
    _add_run(parser)
    _add_best(parser)
    parser.add_argument(
        "--tag", metavar="TAG", help="policy to export (default: the trained one, if there is only one)"
    )
    _add_output(parser, "output file, .onnx or .pt2 (default: <tag>.onnx)")
    parser.add_argument("--action-mask", action="store_true", help="add a mask of the allowed actions to the inputs")


def _add_check(commands: _Commands) -> None:
    parser = _add(commands, "check", "check an environment for data races and other errors")
    parser.add_argument("source", metavar="<env or yaml>", help="environment, or path of a YAML file with one")
    _add_overrides(parser, "set a parameter of the environment")
    _add_number(parser, "--steps", "number of steps to interpret", default=10)
    _add_number(parser, "--replicas", "number of replicas", default=2)
    _add_number(parser, "--seed", "seed of start states and actions", _non_negative, default=0)
    parser.add_argument("--nan", action="store_true", help="also report NaN and infinity written to arrays")
    parser.add_argument(
        "--against",
        metavar="CLASS",
        nargs="?",
        const="",
        help="compare with a reference instead, package.module:Class or file.py:Class (default: the one that the "
        "environment names)",
    )
    _add_number(parser, "--episodes", "episodes to compare, with --against", default=100)
    _add_number(
        parser, "--max-steps", "limit on loop iterations and memory accesses per thread and launch", default=1_000_000
    )
    _add_number(
        parser,
        "--max-seconds",
        "time limit per compiled launch in seconds, after which the command exits with 1",
        default=60,
    )
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def _add_envs(commands: _Commands) -> None:
    parser = _add(commands, "envs", "list the environments, or the parameters of one")
    parser.add_argument("name", metavar="<env>", nargs="?", help="registered name, or path/to/file.py:Class")


def _add_init(commands: _Commands) -> None:
    parser = _add(commands, "init", "create your own environment from a template")
    parser.add_argument("name", metavar="<name>", help="name of the environment: lower-case letters, digits and _")


def _add_schema(commands: _Commands) -> None:
    parser = _add(commands, "schema", "write the JSON Schema of run configurations, for editors")
    parser.add_argument("environments", metavar="<env>", nargs="*", help="further environments: path/to/file.py:Class")
    _add_output(parser, "output file (default: standard output)")


def _add_completion(commands: _Commands) -> None:
    parser = _add(commands, "completion", "print the completion script of a shell")
    parser.add_argument("shell", choices=SHELLS, help="shell that reads the script")


def _add_convert(commands: _Commands) -> None:
    parser = _add(commands, "convert", "convert a run configuration of WarpDrive 2")
    parser.add_argument("source", metavar="FILE", help="path of the YAML file")
    _add_output(parser, "YAML file to write (default: print it)")


def _add_doctor(commands: _Commands) -> None:
    parser = _add(commands, "doctor", "show versions, GPUs, and the requirements that each backend lacks")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def _add_source(parser: argparse.ArgumentParser, nargs: str | None = None) -> None:
    what = "environment (see `warpdrive envs`), path/to/file.py:Class, or path of a YAML file"
    parser.add_argument("source", metavar="<env or yaml>", nargs=nargs, help=what)


def _add_overrides(parser: argparse.ArgumentParser, what: str, metavar: str = "key=value") -> None:
    parser.add_argument("overrides", metavar=metavar, nargs="*", default=[], help=what)


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="<run>", help="run folder, runs/<name> for the latest run, or checkpoint")


def _add_output(parser: argparse._ActionsContainer, what: str) -> None:
    parser.add_argument("-o", "--output", metavar="FILE", help=what)


def _add_best(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--best",
        action="store_true",
        help="use the checkpoint with the best evaluation during training (trainer.evaluation.every), not the latest",
    )


def _add_acting(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--random",
        action="append",
        default=[],
        metavar="TAG",
        help="sample the actions of this policy uniformly (repeatable)",
    )
    parser.add_argument("--deterministic", action="store_true", help="take the most likely action instead of sampling")


def _whole_number(text: str, at_least: int, at_most: int) -> int:
    try:
        number = int(text)
    except ValueError:
        number = at_least - 1
    if not at_least <= number <= at_most:
        bounds = f"of at least {at_least}" if number < at_least else f"from {at_least} to {at_most}"
        raise argparse.ArgumentTypeError(f"found {shown(text)}, expected a whole number {bounds}")
    return number


def _count(text: str) -> int:
    return _whole_number(text, at_least=1, at_most=2**31 - 1)


def _small_count(text: str) -> int:
    return _whole_number(text, at_least=1, at_most=10_000)


def _port(text: str) -> int:
    return _whole_number(text, at_least=1, at_most=65535)


def _non_negative(text: str) -> int:
    return _whole_number(text, at_least=0, at_most=2**63 - 1)


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0.0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"found {shown(text)}, expected a number of seconds greater than 0")
    return number


def _add_number(
    parser: argparse._ActionsContainer,
    name: str,
    what: str,
    kind: Callable[[str], float] = _count,
    default: int | None = None,
) -> None:
    """Add an option that takes a number; its help ends with the default, if there is one."""
    text = what if default is None else f"{what} (default: {default})"
    parser.add_argument(name, type=kind, metavar="S" if kind is _seconds else "N", default=default, help=text)


def _check_command(arguments: Sequence[str]) -> None:
    """Exit with a suggestion if ``arguments`` begin with an unknown command."""
    if arguments and not arguments[0].startswith("-") and arguments[0] not in COMMANDS:
        other = OTHER_NAMES.get(arguments[0])
        hint = f" Did you mean '{other}'?" if other else nearest(arguments[0], COMMANDS)
        hint = hint or f" Commands: {', '.join(COMMANDS)}."
        print(plain(f"warpdrive: unknown command '{arguments[0]}'.{hint}"), file=sys.stderr)
        raise SystemExit(MISTAKE)
