"""The command ``warpdrive``: what each of its words accepts, and how mistakes are reported.

Only the standard library is imported here, so that help and usage errors are instant; each command's module is
loaded when the command runs.

Exit codes: 0; 1 for findings of ``check`` and for a bug in WarpDrive, which the message says; 2 for an error of the
user, one line on stderr (a traceback with ``--debug``); 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP
(``runtime/interrupts.py``); 141 if the reader of a pipe is gone (``| head``). All output passes ``terminal.plain``,
which shows names as text whatever they contain.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn

from warpdrive import __version__
from warpdrive.errors import ConfigError, WarpDriveError, nearest, one_line, shown
from warpdrive.terminal import plain

COMMANDS = ("train", "autoscale", "sweep", "evaluate", "plot", "replay", "export", "check", "envs", "init", "doctor")
TAKE_OVERRIDES = ("train", "autoscale", "sweep", "check")
MAY_NAME_CODE = ("train", "autoscale", "sweep", "evaluate", "replay", "export", "check")
_CPU_ALLOCATOR = "DefaultCPUAllocator"
UNEXPECTED, MISTAKE, INTERRUPTED, BROKEN_PIPE = 1, 2, 130, 141

DESCRIPTION = """\
Simulate many replicas of a multi-agent environment and train its agents, all on one device."""

EPILOG = """\
start here:
  warpdrive envs                              the environments there are
  warpdrive train tag_gridworld               train, evaluate and animate one of them
  warpdrive train my_run.yaml                 train from a run configuration of your own
  warpdrive init my_game                      begin an environment of your own

Every run leaves a folder runs/<name>/<date-time>/ with config.yaml, metrics.csv, TensorBoard events,
checkpoints/, summary.json and replay.gif. Commands that take a <run> take that folder, runs/<name> for the
newest run of that name, or one of its checkpoints.

warpdrive <command> --help explains a command."""

TRAIN_EPILOG = """\
examples:
  warpdrive train tag_gridworld
  warpdrive train tag_gridworld trainer.num_envs=500 policy.tagger.lr=1e-3
  warpdrive train my_run.yaml env.num_taggers=8 saving.folder=/data/runs
  warpdrive train --resume runs/tag_gridworld                       a run that was stopped, or killed
  warpdrive train --resume runs/tag_gridworld trainer.total_steps=2e7
  warpdrive train tag_gridworld -n 4                                four GPUs, a process for each
  warpdrive train tag_gridworld --num_processes 2                   two processes on the CPU

Any key of the run configuration can be overridden; config.yaml in a run folder lists them all and can be
trained from again. Ctrl-C stops the training and leaves a checkpoint and a readable run folder."""

AUTOSCALE_EPILOG = """\
examples:
  warpdrive autoscale tag_gridworld                        writes tag_gridworld_autoscaled.yaml, .png and .json
  warpdrive train tag_gridworld_autoscaled.yaml
  warpdrive autoscale my_run.yaml --memory 2GiB -o small.yaml
  warpdrive train tag_gridworld --auto_scale               both at once

Finds trainer.num_envs and the length of a rollout (train_batch_size / num_envs) for the highest training throughput
that fits, which are not the largest sizes that fit. Each size is tried in a process of its own; what runs out of
memory, takes too long or crashes does not fit. Of sizes that are about as fast, the smallest batch wins. Everything
else in the configuration stays as it is: a larger batch learns from fewer updates, so look at what policies reach, too.
A search takes some minutes. Other programs on the machine disturb it."""

SWEEP_EPILOG = """\
examples:
  warpdrive sweep cartpole policy.agent.lr=[1e-3,3e-4,1e-4] policy.agent.gamma=[0.98,0.99]     all 6 combinations
  warpdrive sweep cartpole "policy.agent.lr=loguniform(1e-4,1e-2)" "policy.agent.clip=uniform(0.1,0.3)" --trials 20
  warpdrive sweep cartpole "policy.agent.epochs=integer(2,10)" --engine optuna --trials 30
  warpdrive sweep cartpole trainer.seed=[0,1,2] trainer.total_steps=50000
  warpdrive sweep --resume runs/cartpole_sweep/2026-11-21_15-00-00

What is varied:
  key=[a, b, c]              each of these; a value that is a list: key=[[64, 64], [128]]
  key=uniform(low, high)     numbers between, drawn at random
  key=loguniform(low, high)  likewise, of which the logarithm is uniform: for learning rates
  key=integer(low, high)     whole numbers, both ends included
Parentheses mean something to the shell, so put these in quotes. key=value is the same for all trials.

Each trial trains in a process of its own and is evaluated at its end, over trainer.evaluation.num_episodes episodes.
Trials are compared by the return of one policy tag (--tag). One that fails does not end the others. Ctrl-C ends
all of them with a checkpoint; --resume goes on with those, and with what had not begun."""

EVALUATE_EPILOG = """\
examples:
  warpdrive evaluate runs/tag_gridworld                        the newest run
  warpdrive evaluate runs/tag_gridworld --random runner        the runner's actions drawn at random
  warpdrive evaluate runs/tag_gridworld --episodes 200 --deterministic
  warpdrive evaluate runs/tag_gridworld --best                 the policies that were best while it trained
  warpdrive evaluate runs/a runs/b runs/c                      several runs, a line each
  warpdrive evaluate runs/a --against runs/b runs/c            play each other, in either place: who wins
  warpdrive evaluate runs/a/*/checkpoints/step_* --league      all against all, with Elo ratings

A run keeps its best checkpoint if it is evaluated while it trains: trainer.evaluation.every=20 says after how many
updates, and saving.best_metric by what."""

PLOT_EPILOG = """\
examples:
  warpdrive plot runs/cartpole                                     the newest run: returns, into its folder
  warpdrive plot runs/cartpole/*                                   all of them, over one another
  warpdrive plot runs/cartpole runs/pendulum -o both.svg
  warpdrive plot runs/cartpole/* -m losses/entropy -m 'perf/*_seconds' --smooth 10

Runs that differ in nothing but trainer.seed are one line: their mean, with a band from the least to the most of them.
Other runs have a line each, which is named after what differs in their configurations. The x axis is environment steps.

A metric is named as in metrics.csv (docs/metrics.md explains each); without its policy tag it means those of all tags,
and * stands for anything. Without --metric, returns are drawn: in training, where short episodes end first and count
more often, and of evaluations (trainer.evaluation.every), which have no such bias.

The name of the file says what is written: .png, .svg or .pdf."""

REPLAY_EPILOG = """\
examples:
  warpdrive replay runs/tag_gridworld                             into the run folder, as replay.gif
  warpdrive replay runs/tag_gridworld -o tag.html --replicas 4    four at once, to be played in a browser
  warpdrive replay runs/tag_gridworld -o tag.mp4 --seed 3 --random runner
  warpdrive replay runs/tag_gridworld -o tag.npz -o tag.gif       the same episode as arrays and as pictures
  warpdrive replay tag.npz -o again.html                          draws what was recorded

The name of a file says what is written:
  .gif                 shown by everything
  .html                one file with play, pause, speed and a slider, which needs no network
  .mp4                 small and smooth; needs ffmpeg: pip install 'warpdrive[video]'
  .npz, .safetensors   states, actions, rewards and probabilities as arrays (wd.Recording.load reads them)
Below each picture stand the step, how the episode ended, and the return so far of each policy tag (the mean over its
agents). Episodes of one --seed are always the same. Of long ones, only every n-th step is drawn."""

EXPORT_EPILOG = """\
examples:
  warpdrive export runs/cartpole                                 into agent.onnx
  warpdrive export runs/tag_gridworld --tag tagger -o tagger.onnx
  warpdrive export runs/tag_gridworld --tag tagger -o tagger.pt2

The name of the file says what is written:
  .onnx    for onnxruntime and others; needs pip install 'warpdrive[onnx]'
  .pt2     for torch.export.load
Inputs, any number of rows each: observations (of a Dict space observations_<key>, sorted by key), action_mask if asked
for, and state of recurrent policies. Outputs: actions, the likeliest ones, logits, and of recurrent ones next_state.
The file is compared with the policy before it is kept."""

CHECK_EPILOG = """\
examples:
  warpdrive check tag_gridworld num_taggers=3 grid_length=4
  warpdrive check my_game.py:MyGame --steps 50
  warpdrive check my_run.yaml

The kernels run in an interpreter that sees every access to memory: few agents make for a quick check. What it finds:
  races          two threads, or two blocks, access one element in no order, and at least one writes
  bounds         an index outside of an array, or a negative one that counts from its end
  uninitialised  a read of shared or local memory that nothing wrote
  divergence     a barrier that not all threads of a block come to
  float64        what computes in float64 without need
  order          results that change when threads run in another order
  endless        a loop that does not end within --max-steps
  nan            (with --nan) where NaN or infinity is written
Then some steps are played, to see what the environment does:
  spaces         observations outside of their space, and what is not finite
  resets         episodes that begin with the observations of the one before
  determinism    what differs when it is played again, or with more replicas
  reference      what differs from reference_step and reference_observe, if it has them
Then the backends that this machine can run are compared, and the interpreter:
  backends       what differs from one to another
Each is told once, with the times it was seen, the lines, and what to do. Exit code 1 if anything was found."""

ENVS_EPILOG = """\
examples:
  warpdrive envs                              all of them
  warpdrive envs tag_gridworld                what its parameters are
  warpdrive envs my_game.py:MyGame            one of your own"""

INIT_EPILOG = """\
examples:
  warpdrive init my_game                      writes my_game/my_game.py, test_my_game.py and my_game.yaml

All three run as they are: hunters on a ring that learn to catch a runner. Change them into your own."""

DOCTOR_EPILOG = """\
Tells what to do where env_backend=numba or pycuda cannot be used on this machine, and what env_backend=auto is. It
changes nothing, and needs no GPU. The exit code is 0."""


class _Parser(argparse.ArgumentParser):
    """Argument parser that reports errors in one line, with a pointer to the help."""

    def error(self, message: str) -> NoReturn:
        self.exit(MISTAKE, plain(f"{self.prog}: {message.replace(chr(10), ' ')} (see {self.prog} --help)") + "\n")


if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[_Parser]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    It is 0 for success; 2 for a user error; 1 for findings of ``check``, and for a bug in this package; 130 after
    Ctrl-C, 143 after SIGTERM; 141 for a closed pipe, as after ``| head``.
    """
    options = _parse(sys.argv[1:] if arguments is None else arguments)
    # Threads that wait for each other by spinning slow a run down several times where other programs need the cores.
    # It is read once, when PyTorch is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        check_machine()
        command = import_module(f"warpdrive.training.cli.{options.command}")
        code: int = command.run(options)
        sys.stdout.flush()
    except BrokenPipeError:  # of `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left goes nowhere
        return BROKEN_PIPE
    except Exception as error:
        if options.debug:
            raise
        _tell(f"warpdrive {options.command}: {_in_words(error)}")
        return MISTAKE if _is_mistake(error) else UNEXPECTED
    except KeyboardInterrupt as error:
        if options.debug:
            raise
        number = getattr(error, "number", None)  # of a signal that is not Ctrl-C
        by = f" by {number.name}" if number else ""
        print(f"\nwarpdrive {options.command}: interrupted{by}", file=sys.stderr)
        return INTERRUPTED if number is None else 128 + int(number)
    return code


def _is_mistake(error: Exception) -> bool:
    return isinstance(error, (WarpDriveError, OSError)) or _is_lack_of_memory(error)


def _is_lack_of_memory(error: Exception) -> bool:
    """Return True if an allocation failed: of Python, NumPy, or PyTorch, which has no exception class for the CPU."""
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError" or _CPU_ALLOCATOR in str(error)


def _in_words(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:  # no such folder, no permission, no space
        return f"{one_line(str(error.filename))}: {error.strerror}" if error.filename else error.strerror
    if _is_lack_of_memory(error):
        size = re.search(r"(\d+) bytes", str(error))
        what = f"{int(size[1]) / 2**30:.1f} GiB at once" if size else one_line(str(error), 100)
        return f"not enough memory for {what}: use fewer replicas, shorter rollouts, or smaller models and buffers"
    if _is_mistake(error):
        return str(error)
    return (
        f"unexpected {type(error).__name__}: {one_line(str(error))}; this is a mistake in warpdrive: "
        "please report it with what --debug shows"
    )


def _tell(text: str) -> None:
    print(plain(text), file=sys.stderr)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    _check_command(arguments)
    parser = _parser()
    options, rest = parser.parse_known_args(arguments)
    # argparse takes all overrides from one place; those that follow an option are left over.
    overrides = [text for text in rest if options.command in TAKE_OVERRIDES and not text.startswith("-")]
    unknown = [text for text in rest if text not in overrides]
    if unknown:
        parser.error(f"unknown argument '{unknown[0]}'")
    if overrides:
        options.overrides += overrides
    if options.command in ("train", "sweep"):
        _choose_source(options, parser)
    return options


def _choose_source(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Move the first override out of the position of the source if --resume or --env is given."""
    named = getattr(options, "env", None)
    if (options.resume or named) and options.source and "=" in options.source:
        options.overrides.insert(0, options.source)
        options.source = None
    if named and options.source:
        parser.error(f"found both '{options.source}' and --env {named}: give one")
    options.source = options.source or named
    if bool(options.resume) == bool(options.source):
        what = "run" if options.command == "train" else "sweep"
        parser.error(f"give `warpdrive {options.command}` either an environment or YAML file, or --resume <{what}>")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="warpdrive",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"warpdrive {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="<command>", required=True, title="commands")
    _add_train(commands)
    _add_autoscale(commands)
    _add_sweep(commands)
    _add_evaluate(commands)
    _add_plot(commands)
    _add_replay(commands)
    _add_export(commands)
    _add_check(commands)
    _add_envs(commands)
    _add_init(commands)
    _add_doctor(commands)
    return parser


def _add(commands: _Commands, name: str, what: str, epilog: str) -> argparse.ArgumentParser:
    description = f"{what[0].upper()}{what[1:]}."
    layout = argparse.RawDescriptionHelpFormatter
    parser = commands.add_parser(name, help=what, description=description, epilog=epilog, formatter_class=layout)
    parser.add_argument("--debug", action="store_true", help="show where in the code an error came from")
    if name in MAY_NAME_CODE:
        parser.add_argument(
            "--trust", action="store_true", help="run code that a run names, also what is not yours (docs/security.md)"
        )
    return parser


def _add_train(commands: _Commands) -> None:
    parser = _add(commands, "train", "train, evaluate what came out, and animate episodes of it", TRAIN_EPILOG)
    parser.add_argument(
        "source", metavar="<env or yaml>", nargs="?", help="a name from `warpdrive envs`, or a YAML file"
    )
    parser.add_argument(
        "overrides", metavar="key=value", nargs="*", default=[], help="replaces a value of the run configuration"
    )
    parser.add_argument("-e", "--env", metavar="<env or yaml>", help="another way to give the first argument")
    parser.add_argument("--resume", metavar="<run>", help="go on with a run, in its folder, as if it had never stopped")
    parser.add_argument("--no-replay", action="store_true", help="do not write replay.gif")
    several = parser.add_argument_group("several processes, which share trainer.num_envs (docs/scaling.md)")
    several.add_argument("-n", "--num_gpus", type=_count, metavar="N", help="train on N GPUs, with a process for each")
    several.add_argument("--num_processes", type=_count, metavar="N", help="start N processes, as on a CPU")
    several.add_argument(
        "--max_restarts",
        type=_seed,
        metavar="N",
        default=0,
        help="start all anew from the last checkpoint when one fails, at most N times (default: 0)",
    )
    parser.add_argument(
        "-a",
        "--auto_scale",
        action="store_true",
        help="first find the size that trains fastest here (see `warpdrive autoscale --help`), then train with it",
    )
    _add_search(parser)


def _add_autoscale(commands: _Commands) -> None:
    parser = _add(
        commands, "autoscale", "find the number of replicas and the rollout length that train fastest", AUTOSCALE_EPILOG
    )
    parser.add_argument("source", metavar="<env or yaml>", help="a name from `warpdrive envs`, or a YAML file")
    parser.add_argument(
        "overrides", metavar="key=value", nargs="*", default=[], help="replaces a value of the run configuration"
    )
    _add_search(parser)


def _add_sweep(commands: _Commands) -> None:
    parser = _add(commands, "sweep", "train with many values of some keys, side by side, and compare", SWEEP_EPILOG)
    parser.add_argument(
        "source", metavar="<env or yaml>", nargs="?", help="a name from `warpdrive envs`, or a YAML file"
    )
    parser.add_argument(
        "overrides", metavar="key=values", nargs="*", default=[], help="what is varied, or the same for all trials"
    )
    parser.add_argument("--resume", metavar="<sweep>", help="go on with a sweep, by its folder")
    parser.add_argument("--trials", type=_count, metavar="N", help="how many, but for a grid (default: 16)")
    parser.add_argument(
        "--parallel", type=_count, metavar="N", help="how many at a time (default: one per GPU, or per core up to 4)"
    )
    parser.add_argument(
        "--engine",
        choices=("grid", "random", "optuna"),
        help="what chooses values (default: grid, or random where there are ranges or --trials). optuna learns from "
        "trials that have ended, and stops those worse than the median: pip install 'warpdrive[optuna]'",
    )
    parser.add_argument("--tag", metavar="TAG", help="whose return counts (default: the first policy that is trained)")
    parser.add_argument("--minimise", action="store_true", help="low returns are good")
    parser.add_argument("--seed", type=_seed, metavar="N", default=0, help="of what is drawn at random (default: 0)")


def _add_search(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the search for a size (autoscale, train --auto_scale)")
    group.add_argument(
        "-o", "--output", metavar="FILE", help="the YAML file for what is found (default: <name>_autoscaled.yaml)"
    )
    group.add_argument("--memory", metavar="SIZE", help="what training may take, as 2GiB (default: what there is)")
    group.add_argument(
        "--min_updates",
        type=_count,
        metavar="N",
        help="try no batch that leaves fewer updates in trainer.total_steps (default: 1; of train --auto_scale 50)",
    )
    group.add_argument(
        "--time_limit", type=_seconds, metavar="S", default=120, help="seconds that a size may take (default: 120)"
    )
    group.add_argument(
        "--seconds", type=_seconds, metavar="S", default=2, help="seconds that speed is measured for (default: 2)"
    )


def _add_evaluate(commands: _Commands) -> None:
    parser = _add(commands, "evaluate", "measure the policies of runs over whole episodes", EVALUATE_EPILOG)
    parser.add_argument(
        "runs", metavar="<run>", nargs="+", help="run folders, runs/<name> for its newest run, or checkpoints"
    )
    _add_best(parser)
    parser.add_argument("--episodes", type=_count, metavar="N", help="how many (default: what the run says)")
    against = parser.add_mutually_exclusive_group()
    against.add_argument(
        "--against", nargs="+", default=[], metavar="RUN", help="play the policies of these runs or checkpoints"
    )
    against.add_argument("--league", action="store_true", help="let all play each other, and rate them")
    _add_acting(parser)


def _add_plot(commands: _Commands) -> None:
    parser = _add(commands, "plot", "draw learning curves of runs", PLOT_EPILOG)
    parser.add_argument("runs", metavar="<run>", nargs="+", help="run folders, or runs/<name> for its newest run")
    parser.add_argument(
        "-m",
        "--metric",
        metavar="NAME",
        action="append",
        default=[],
        help="what is drawn (repeatable; default: returns)",
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="default: learning_curves.png, of one run in its folder")
    parser.add_argument("--smooth", type=_count, metavar="N", default=1, help="draw means over N values (default: 1)")


def _add_replay(commands: _Commands) -> None:
    parser = _add(commands, "replay", "write episodes of a run as an animation or as arrays", REPLAY_EPILOG)
    parser.add_argument(
        "run", metavar="<run>", help="a run folder, runs/<name> for its newest run, a checkpoint, or a recorded episode"
    )
    _add_best(parser)
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        action="append",
        default=[],
        help=".gif, .html, .mp4, .npz or .safetensors (repeatable; default: replay.gif in the run folder)",
    )
    parser.add_argument("--episodes", type=_count, metavar="N", default=1, help="how many in a row (default: 1)")
    parser.add_argument(
        "--replicas", type=_count, metavar="N", help="how many side by side (default: 1; recorded: all)"
    )
    parser.add_argument("--seed", type=_seed, metavar="N", help="which episode is the first (default: the run's seed)")
    _add_acting(parser)
    parser.add_argument("--fps", type=_width, metavar="N", help="frames per second (default: 10 to 30, by the length)")
    parser.add_argument("--width", type=_width, metavar="N", help="pixels (default: as drawn; several: at most 960)")


def _add_export(commands: _Commands) -> None:
    parser = _add(commands, "export", "write a trained policy as ONNX, or for torch.export", EXPORT_EPILOG)
    _add_run(parser)
    _add_best(parser)
    parser.add_argument("--tag", metavar="TAG", help="the policy tag (default: the only one that was trained)")
    parser.add_argument("-o", "--output", metavar="FILE", help=".onnx or .pt2 (default: <tag>.onnx)")
    parser.add_argument("--action-mask", action="store_true", help="the file takes a mask of the allowed choices")


def _add_check(commands: _Commands) -> None:
    parser = _add(commands, "check", "find races and other mistakes in an environment", CHECK_EPILOG)
    parser.add_argument("source", metavar="<env or yaml>", help="an environment, or a YAML file that names one")
    parser.add_argument("overrides", metavar="key=value", nargs="*", default=[], help="a parameter of the environment")
    parser.add_argument("--steps", type=_count, metavar="N", default=10, help="how many access by access (default: 10)")
    parser.add_argument("--replicas", type=_count, metavar="N", default=2, help="how many replicas (default: 2)")
    parser.add_argument("--seed", type=_seed, metavar="N", default=0, help="of start states and actions (default: 0)")
    parser.add_argument("--nan", action="store_true", help="also report NaN and infinity written to arrays")
    parser.add_argument(
        "--max-steps",
        type=_count,
        metavar="N",
        default=1_000_000,
        help="turns of loops and accesses that a thread may take in a launch (default: 1000000)",
    )
    parser.add_argument(
        "--max-seconds",
        type=_count,
        metavar="N",
        default=60,
        help="how long a launch that is played may take; the command ends then, with exit code 1 (default: 60)",
    )
    parser.add_argument("--json", action="store_true", help="print what was found as JSON, for programs to read")


def _add_envs(commands: _Commands) -> None:
    parser = _add(commands, "envs", "list the environments, or the parameters of one", ENVS_EPILOG)
    parser.add_argument("name", metavar="<env>", nargs="?", help="a registered name or path/to/file.py:Class")


def _add_init(commands: _Commands) -> None:
    parser = _add(commands, "init", "begin an environment of your own", INIT_EPILOG)
    parser.add_argument("name", metavar="<name>", help="what it is called: lower-case letters, digits and _")


def _add_doctor(commands: _Commands) -> None:
    parser = _add(commands, "doctor", "show versions, GPUs, and what each backend lacks on this machine", DOCTOR_EPILOG)
    parser.add_argument("--json", action="store_true", help="print it as JSON, for programs to read")


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="<run>", help="a run folder, runs/<name> for its newest run, or a checkpoint")


def _add_best(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--best", action="store_true", help="the best checkpoint of the run, not its latest")


def _add_acting(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--random", action="append", default=[], metavar="TAG", help="this policy acts at random (repeatable)"
    )
    parser.add_argument("--deterministic", action="store_true", help="take the likeliest action, do not sample")


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


def _width(text: str) -> int:
    return _whole_number(text, at_least=1, at_most=10_000)


def _seed(text: str) -> int:
    return _whole_number(text, at_least=0, at_most=2**63 - 1)


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0.0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"found {shown(text)}, expected a number of seconds greater than 0")
    return number


def check_machine() -> None:
    """Raise ``ConfigError`` if no command can run in this environment."""
    try:
        os.getcwd()
    except FileNotFoundError:
        raise ConfigError("the working directory was deleted: change to one that is there") from None


def _check_command(arguments: Sequence[str]) -> None:
    """Exit with a suggestion if ``arguments`` begin with an unknown command."""
    if arguments and not arguments[0].startswith("-") and arguments[0] not in COMMANDS:
        hint = nearest(arguments[0], COMMANDS) or f" There are {', '.join(COMMANDS)}."
        _tell(f"warpdrive: there is no command '{arguments[0]}'.{hint}")
        raise SystemExit(MISTAKE)
