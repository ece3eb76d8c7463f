"""Command line of ``warpdrive``: subcommands, their options, and the reporting of errors.

Only the standard library is imported here, so that help and usage errors are instant; each command's module is
loaded when the command runs.

Exit codes: 0; 1 for findings of ``check`` and for a bug in WarpDrive, which the message says; 2 for an error of the
user, one line on stderr (a traceback with ``--debug``); 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP
(``runtime/interrupts.py``); 141 if the reader of a pipe is gone (``| head``). All output passes ``terminal.plain``,
which shows names as text whatever they contain.
"""

from __future__ import annotations

import argparse
import gc
import math
import os
import re
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn

from warpdrive import __version__
from warpdrive.errors import ConfigError, WarpDriveError, nearest, one_line, shown
from warpdrive.garbage_collection import no_garbage_collection
from warpdrive.terminal import plain, set_quiet
from warpdrive.training.cli.completion import COMPLETE, SHELLS, complete

COMMANDS = (
    *("train", "autoscale", "sweep", "evaluate", "plot", "report", "watch", "replay", "web", "export", "check"),
    *("envs", "init", "schema", "completion", "convert", "doctor"),
)
TAKE_OVERRIDES = ("train", "autoscale", "sweep", "web", "check")
MAY_NAME_CODE = ("train", "autoscale", "sweep", "evaluate", "watch", "replay", "web", "export", "check")
HAVE_LEVELS = (*MAY_NAME_CODE, "plot", "report", "init")
_CPU_ALLOCATOR = "DefaultCPUAllocator"
UNEXPECTED, MISTAKE, INTERRUPTED, BROKEN_PIPE = 1, 2, 130, 141

DESCRIPTION = """\
Simulate thousands of replicas of a multi-agent environment and train its agents, all on one device."""

EPILOG = """\
getting started:
  warpdrive envs                              list the available environments
  warpdrive train tag_gridworld               train, evaluate and animate agents in one of them
  warpdrive train my_run.yaml                 train from your own run configuration
  warpdrive init my_game                      create your own environment from a template

Each run creates a folder runs/<name>/<date-time>/ with config.yaml, metrics.csv, checkpoints/, summary.json,
replay.gif and report.html. Wherever a command expects a <run>, pass that folder, runs/<name> for the latest run of
that name, or a checkpoint of the run.

Completion of commands, keys and runs: eval "$(warpdrive completion bash)", or zsh; see 'warpdrive completion --help'.
NO_COLOR=1 turns colours off, FORCE_COLOR=1 turns them on in files and pipes.

Run 'warpdrive <command> --help' for the options and examples of a command."""

TRAIN_EPILOG = """\
examples:
  warpdrive train tag_gridworld                                              the shipped run configuration
  warpdrive train tag_gridworld trainer.num_envs=500 policy.tagger.lr=1e-3   with other values of two keys
  warpdrive train my_run.yaml env.num_taggers=8 saving.folder=/data/runs     your own file
  warpdrive train --resume runs/tag_gridworld                                resume an interrupted run
  warpdrive train --resume runs/tag_gridworld trainer.total_steps=2e7        train a finished run further
  warpdrive train tag_gridworld -n 4                                         four GPUs, one process per GPU
  warpdrive train tag_gridworld --num_processes 2                            two processes on the CPU
  warpdrive train tag_gridworld --watch                                      with a page of curves and episodes

Every key of the run configuration can be overridden. The config.yaml of a run folder lists all keys with their values
and can be passed to 'warpdrive train' again. Ctrl-C stops training gracefully and saves a checkpoint."""

AUTOSCALE_EPILOG = """\
examples:
  warpdrive autoscale tag_gridworld                             writes tag_gridworld_autoscaled.yaml, .png and .json
  warpdrive train tag_gridworld_autoscaled.yaml                 train with the result
  warpdrive autoscale my_run.yaml --memory 2GiB -o small.yaml   with at most 2 GiB of memory
  warpdrive train tag_gridworld --auto_scale                    tune, then train

Searches for the trainer.num_envs and the rollout length (train_batch_size / num_envs) with the highest training
throughput, which are usually not the largest that fit in memory. Each candidate runs in its own process; candidates
that run out of memory, time out or crash are rejected. Among candidates of about equal throughput, the one with the
smallest batch is selected. All other settings are kept. A larger batch means fewer updates: compare returns as well as
throughput. A search takes a few minutes; other programs on the machine distort its measurements."""

SWEEP_EPILOG = """\
examples:
  warpdrive sweep cartpole policy.agent.lr=[1e-3,3e-4] policy.agent.gamma=[0.98,0.99]        all 4 combinations
  warpdrive sweep cartpole "policy.agent.lr=loguniform(1e-4,1e-2)" --trials 20               random search
  warpdrive sweep cartpole "policy.agent.epochs=integer(2,10)" --engine optuna --trials 30   Optuna
  warpdrive sweep cartpole trainer.seed=[0,1,2] trainer.total_steps=50000                    three seeds
  warpdrive sweep --resume runs/cartpole_sweep/2026-11-21_15-00-00                           continue a sweep

search space:
  key=[a, b, c]              try each value; for values that are lists: key=[[64, 64], [128]]
  key=uniform(low, high)     sample uniformly
  key=loguniform(low, high)  sample uniformly on a logarithmic scale, as for learning rates
  key=integer(low, high)     sample an integer, both bounds included
  key=value                  use the same value in all trials
Quote arguments with parentheses, which are special characters of the shell.

Each trial trains in its own process and is then evaluated over trainer.evaluation.num_episodes episodes. Trials are
ranked by the mean return of one policy (--tag). A failed trial does not stop the sweep. Ctrl-C stops all trials, which
save checkpoints; --resume continues them and runs the remaining ones."""

EVALUATE_EPILOG = """\
examples:
  warpdrive evaluate runs/tag_gridworld                                  the latest run
  warpdrive evaluate runs/tag_gridworld --random runner                  with random actions for the runner
  warpdrive evaluate runs/tag_gridworld --episodes 200 --deterministic   the most likely actions
  warpdrive evaluate runs/tag_gridworld --best                           the best checkpoint instead of the latest
  warpdrive evaluate runs/a runs/b runs/c                                several runs, one line each
  warpdrive evaluate runs/a --against runs/b runs/c                      head to head, on both sides, with win rates
  warpdrive evaluate runs/a/*/checkpoints/step_* --league                round robin with Elo ratings

A run keeps its best checkpoint if it is evaluated during training: set the interval in updates with
trainer.evaluation.every=20, and the metric to compare with saving.best_metric."""

PLOT_EPILOG = """\
examples:
  warpdrive plot runs/cartpole                                   returns of the latest run, saved to its folder
  warpdrive plot runs/cartpole/*                                 all runs in one plot
  warpdrive plot runs/cartpole runs/pendulum -o both.svg         another file and format
  warpdrive plot runs/cartpole/* -m losses/entropy --smooth 10   another metric, as a moving average

Runs that differ only in trainer.seed are averaged into one line, with a band from their minimum to their maximum. Other
runs get one line each, labelled with the keys in which their configurations differ. The x axis is environment steps.

Metrics have the names of the columns of metrics.csv (docs/reference/metrics.md). Without its policy tag, a name
selects the metric of all policies; * matches any text. By default, returns are plotted: those of training episodes,
which are biased towards short episodes because those finish first, and those of evaluations during training
(trainer.evaluation.every), which are not.

The extension of the output file selects the format: .png, .svg or .pdf."""

REPORT_EPILOG = """\
examples:
  warpdrive report runs/cartpole                              the latest run, writes report.html to its folder
  warpdrive report runs/cartpole/*                            all runs in one page, writes report.html
  warpdrive report runs/cartpole runs/pendulum -o both.html   another file

One HTML file that loads nothing: learning curves, the evaluation, distributions of returns and lengths, losses,
throughput and memory, the configuration with its differences from the defaults and between the runs, versions and
hardware, and the animation. Runs that differ only in trainer.seed are averaged into one line, with a band from their
minimum to their maximum. 'warpdrive train' writes the report of its run at the end; this command works for runs that
are running, failed or were interrupted as well."""

WATCH_EPILOG = """\
examples:
  warpdrive watch runs/cartpole               the latest run, in training or ended
  warpdrive train cartpole --watch            the same from the start of a training
  warpdrive watch runs/cartpole --port 8400   on another port
  ssh -L 8300:127.0.0.1:8300 me@gpu-server    on your machine, to reach the page of another one

Prints the address of a page with the state of the run, its learning curves, and the latest episode of its newest
policy. It can be reached from this machine only, and only with the token in the address.

While the page is open in a visible tab, the training writes its present policy every few seconds, and another process
records episodes of it on the CPU, in one thread at a low priority. Otherwise nothing is written or recorded.
'warpdrive train --watch' ends the page with the training; 'warpdrive watch' serves it until Ctrl-C."""

REPLAY_EPILOG = """\
examples:
  warpdrive replay runs/tag_gridworld                              writes replay.gif to the run folder
  warpdrive replay runs/tag_gridworld -o tag.html --replicas 4     four replicas side by side, in a player
  warpdrive replay runs/tag_gridworld -o tag.svg --step 20         the picture of one step
  warpdrive replay runs/tag_gridworld -o tag.mp4 --random runner   a video; the runner moves at random
  warpdrive replay runs/tag_gridworld -o tag.npz -o tag.gif        the same episode as arrays and as an animation
  warpdrive replay tag.npz -o again.html                           animates a recording

The extension of the output file selects the format:
  .gif                 animated GIF
  .html                player page: zoom, follow an agent, see its arrays and the curves of returns; works offline
  .mp4                 H.264 video; requires ffmpeg: pip install 'warpdrive[video]'
  .png, .svg           picture of one step
  .npz, .safetensors   states, actions, rewards and probabilities as arrays, for wd.Recording.load
Each frame shows the step, how the episode ended, and the return so far of each policy (the mean over its agents).
The same --seed gives the same episodes. For long episodes only every n-th step is drawn."""

WEB_EPILOG = """\
examples:
  warpdrive web runs/tag_continuous                      writes tag_continuous.html to the run folder
  warpdrive web runs/cartpole -o cartpole.html --best    the best checkpoint instead of the latest
  warpdrive web overcooked                               without policies: agents act at random, or people play
  warpdrive web tag_gridworld env.num_taggers=8          another value of a parameter of the environment

The page needs no network and no other file: the environment's kernels and the policies are compiled to WebAssembly, and
run in the browser with the same bits as on the CPU, which its button "Verify" proves. Agents can be played with keys,
mouse or touch, and a link repeats a game exactly. See docs/guides/web.md for what is refused."""

EXPORT_EPILOG = """\
examples:
  warpdrive export runs/cartpole                                   writes agent.onnx
  warpdrive export runs/tag_gridworld --tag tagger                 one of several policies: tagger.onnx
  warpdrive export runs/tag_gridworld --tag tagger -o tagger.pt2   for torch.export.load

The extension of the output file selects the format:
  .onnx    ONNX, for onnxruntime and others; requires: pip install 'warpdrive[onnx]'
  .pt2     PyTorch, for torch.export.load
Inputs: observations (observations_<key> for each key of a Dict space, sorted by key), action_mask with --action-mask,
and state for recurrent policies. Outputs: actions (the most likely ones), logits, and next_state for recurrent
policies. The batch size is dynamic. The outputs of the exported file are verified against those of the policy."""

CHECK_EPILOG = """\
examples:
  warpdrive check tag_gridworld num_taggers=3 grid_length=4   a registered environment, small
  warpdrive check my_game.py:MyGame --steps 50                your own, for more steps
  warpdrive check my_run.yaml --nan                           that of a run configuration; report NaN as well
  warpdrive check my_game.py:MyGame --against old_game.py:OldGame   compare it with the original of a port
  warpdrive check cartpole --against                          compare it with the reference that it names

Kernels run in an interpreter that tracks each memory access. It is slow: use few agents. It reports:
  races          unordered accesses of two threads or blocks to one element, at least one of them a write
  bounds         indices out of bounds, and negative indices, which count from the end
  uninitialised  reads of shared or local memory that was never written
  divergence     barriers that not all threads of a block reach
  float64        unintended arithmetic in float64
  order          results that depend on the order in which threads run
  endless        loops that do not end within --max-steps
  nan            writes of NaN or infinity (with --nan)
Then the environment runs for some steps, which reports:
  spaces         observations outside of their space, or not finite
  resets         first observations of an episode that are left over from the previous one
  determinism    results that differ between identical runs, or with the number of replicas
  reference      differences from reference_step and reference_observe, if the environment has them
Finally, the backends available on this machine are compared with each other and with the interpreter:
  backends       differences between backends
With --against, the environment is compared with a reference instead: an environment of Gymnasium, a parallel one of
PettingZoo, or a class with the methods set_state, step and observations. Both start from the same states and take the
same actions. The first difference of each array is printed with its agent, its step and the line that wrote it.
Each problem is reported once, with its number of occurrences, the lines, and a suggested fix. The exit code is 1 if any
problem was found."""

ENVS_EPILOG = """\
examples:
  warpdrive envs                     list all environments
  warpdrive envs tag_gridworld       show the parameters of one
  warpdrive envs my_game.py:MyGame   show the parameters of your own"""

INIT_EPILOG = """\
examples:
  warpdrive init my_game   writes my_game/my_game.py, test_my_game.py and my_game.yaml

The template is a working environment, in which hunters on a ring learn to catch a runner. Edit it into your own."""

SCHEMA_EPILOG = """\
examples:
  warpdrive schema -o run_config.schema.json                     the registered environments
  warpdrive schema my_game.py:MyGame -o run_config.schema.json   with the parameters of your own environment

Editors with a YAML language server complete and check run configurations that name the file in their first line:
  # yaml-language-server: $schema=run_config.schema.json"""

COMPLETION_EPILOG = """\
examples:
  warpdrive completion bash   prints the script of bash

install it with one line:
  bash    echo 'eval "$(warpdrive completion bash)"' >> ~/.bashrc
  zsh     echo 'eval "$(warpdrive completion zsh)"' >> ~/.zshrc          after compinit
  fish    warpdrive completion fish > ~/.config/fish/completions/warpdrive.fish

Completes commands, options, environments, run configurations, runs, files, policy tags, and the keys and values of run
configurations: policy.agent.algorithm=<TAB>."""

CONVERT_EPILOG = """\
examples:
  warpdrive convert old.yaml               prints the configuration
  warpdrive convert old.yaml -o new.yaml   writes it to a file
  warpdrive train old.yaml                 converts it, too, and trains

Comments at the top say what changed in meaning, what was dropped, and what to correct (docs/guides/warpdrive2.md)."""

DOCTOR_EPILOG = """\
examples:
  warpdrive doctor          a table for reading
  warpdrive doctor --json   the same for programs

Explains how to fix backends (env_backend=numba, pycuda) that are unavailable on this machine, and which backend
env_backend=auto selects. Nothing is modified, no GPU is required, and the exit code is always 0."""


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
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == [COMPLETE]:  # of the scripts of `warpdrive completion`
        return complete(given[1], given[2:], _parser())
    options = _parse(given)
    _set_level(options)
    # Threads that wait for each other by spinning slow a run down several times where other programs need the cores.
    # It is read once, when PyTorch is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if arguments is None:
        warnings.formatwarning = lambda message, *_, **__: f"warpdrive {options.command}: {plain(str(message))}\n"
    try:
        check_machine()
        with no_garbage_collection():  # it would visit the objects of all modules several times
            command = import_module(f"warpdrive.training.cli.{options.command}")
            if arguments is None:  # the process runs this command only: what was imported stays
                gc.freeze()
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


def _set_level(options: argparse.Namespace) -> None:
    """Apply --quiet and --verbose, where a command has them."""
    set_quiet(getattr(options, "quiet", False))
    if getattr(options, "verbose", False):
        import logging

        logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
        logging.getLogger("warpdrive").setLevel(logging.INFO)


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
        what = f"allocating {int(size[1]) / 2**30:.1f} GiB" if size else one_line(str(error), 100)
        return f"out of memory ({what}): use fewer replicas, shorter rollouts, or smaller models and buffers"
    if _is_mistake(error):
        return str(error)
    return (
        f"unexpected {type(error).__name__}: {one_line(str(error))}; this is a bug in WarpDrive: "
        "please report it with the output of --debug"
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
        parser.error(f"found both '{options.source}' and --env {named}: expected only one of them")
    options.source = options.source or named
    if bool(options.resume) == bool(options.source):
        what = "run" if options.command == "train" else "sweep"
        parser.error(f"expected either an environment or YAML file, or --resume <{what}>")


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


def _add(commands: _Commands, name: str, what: str, epilog: str) -> argparse.ArgumentParser:
    description = f"{what[0].upper()}{what[1:]}."
    layout = argparse.RawDescriptionHelpFormatter
    parser = commands.add_parser(name, help=what, description=description, epilog=epilog, formatter_class=layout)
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
    parser = _add(commands, "train", "train policies, evaluate them, and animate an episode", TRAIN_EPILOG)
    parser.add_argument(
        "source",
        metavar="<env or yaml>",
        nargs="?",
        help="name of an environment (see `warpdrive envs`) or path of a YAML file",
    )
    parser.add_argument(
        "overrides", metavar="key=value", nargs="*", default=[], help="override a key of the run configuration"
    )
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
    several.add_argument("--num_processes", type=_count, metavar="N", help="train in N processes, for example on a CPU")
    several.add_argument(
        "--max_restarts",
        type=_seed,
        metavar="N",
        default=0,
        help="restart all processes from the latest checkpoint if one fails, at most N times (default: 0)",
    )
    parser.add_argument(
        "-a",
        "--auto_scale",
        action="store_true",
        help="tune the number of replicas and the rollout length first (see `warpdrive autoscale --help`)",
    )
    _add_search(parser)


def _add_autoscale(commands: _Commands) -> None:
    parser = _add(
        commands,
        "autoscale",
        "tune the number of replicas and the rollout length for training throughput",
        AUTOSCALE_EPILOG,
    )
    parser.add_argument(
        "source", metavar="<env or yaml>", help="name of an environment (see `warpdrive envs`) or path of a YAML file"
    )
    parser.add_argument(
        "overrides", metavar="key=value", nargs="*", default=[], help="override a key of the run configuration"
    )
    _add_search(parser)


def _add_sweep(commands: _Commands) -> None:
    parser = _add(
        commands, "sweep", "train with different hyperparameters in parallel, and compare the results", SWEEP_EPILOG
    )
    parser.add_argument(
        "source",
        metavar="<env or yaml>",
        nargs="?",
        help="name of an environment (see `warpdrive envs`) or path of a YAML file",
    )
    parser.add_argument(
        "overrides",
        metavar="key=values",
        nargs="*",
        default=[],
        help="search space of a key, or one value for all trials",
    )
    parser.add_argument("--resume", metavar="<sweep>", help="resume the sweep in this folder")
    parser.add_argument(
        "--trials", type=_count, metavar="N", help="number of trials, unless a grid is searched (default: 16)"
    )
    parser.add_argument(
        "--parallel",
        type=_count,
        metavar="N",
        help="number of concurrent trials (default: one per GPU, or per CPU core up to 4)",
    )
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
    parser.add_argument("--seed", type=_seed, metavar="N", default=0, help="seed of the search (default: 0)")


def _add_search(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("tuning (autoscale, train --auto_scale)")
    group.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="YAML file to write the configuration to (default: <name>_autoscaled.yaml)",
    )
    group.add_argument("--memory", metavar="SIZE", help="memory limit, such as 2GiB (default: available memory)")
    group.add_argument(
        "--min_updates",
        type=_count,
        metavar="N",
        help="minimum number of updates in trainer.total_steps, which limits the batch size "
        "(default: 1; 50 with train --auto_scale)",
    )
    group.add_argument(
        "--time_limit",
        type=_seconds,
        metavar="S",
        default=120,
        help="time limit per candidate in seconds (default: 120)",
    )
    group.add_argument(
        "--seconds", type=_seconds, metavar="S", default=2, help="duration of each measurement in seconds (default: 2)"
    )


def _add_evaluate(commands: _Commands) -> None:
    parser = _add(commands, "evaluate", "evaluate the policies of runs over whole episodes", EVALUATE_EPILOG)
    parser.add_argument(
        "runs", metavar="<run>", nargs="+", help="run folder, runs/<name> for the latest run, or checkpoint"
    )
    _add_best(parser)
    parser.add_argument("--episodes", type=_count, metavar="N", help="number of episodes (default: that of the run)")
    against = parser.add_mutually_exclusive_group()
    against.add_argument(
        "--against", nargs="+", default=[], metavar="RUN", help="play against the policies of these runs or checkpoints"
    )
    against.add_argument(
        "--league", action="store_true", help="play all runs against each other and compute Elo ratings"
    )
    _add_acting(parser)


def _add_plot(commands: _Commands) -> None:
    parser = _add(commands, "plot", "plot learning curves of runs", PLOT_EPILOG)
    parser.add_argument("runs", metavar="<run>", nargs="+", help="run folder, or runs/<name> for the latest run")
    parser.add_argument(
        "-m",
        "--metric",
        metavar="NAME",
        action="append",
        default=[],
        help="metric to plot (repeatable; default: returns)",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="output file (default: learning_curves.png; for a single run, in its folder)",
    )
    parser.add_argument(
        "--smooth", type=_count, metavar="N", default=1, help="window of the moving average, in values (default: 1)"
    )


def _add_report(commands: _Commands) -> None:
    parser = _add(commands, "report", "write an HTML page about runs", REPORT_EPILOG)
    parser.add_argument("runs", metavar="<run>", nargs="+", help="run folder, or runs/<name> for the latest run")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="HTML file (default: report.html; for a single run, in its folder)"
    )


def _add_watch(commands: _Commands) -> None:
    parser = _add(commands, "watch", "serve a page with the curves and the latest episode of a run", WATCH_EPILOG)
    parser.add_argument("run", metavar="<run>", help="run folder, or runs/<name> for the latest run")
    _add_port(parser, "--port")


def _add_port(parser: argparse.ArgumentParser, name: str) -> None:
    parser.add_argument(name, type=_port, metavar="N", help="port of the page (default: the first free one from 8300)")


def _add_replay(commands: _Commands) -> None:
    parser = _add(commands, "replay", "save episodes of a run as an animation or as arrays", REPLAY_EPILOG)
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
    parser.add_argument(
        "--episodes", type=_count, metavar="N", default=1, help="number of consecutive episodes (default: 1)"
    )
    parser.add_argument(
        "--replicas",
        type=_count,
        metavar="N",
        help="number of replicas shown side by side (default: 1; for a recording, all)",
    )
    parser.add_argument(
        "--seed", type=_seed, metavar="N", help="seed of the first episode (default: the seed of the run)"
    )
    _add_acting(parser)
    parser.add_argument(
        "--fps", type=_width, metavar="N", help="frames per second (default: 10 to 30, depending on the length)"
    )
    parser.add_argument(
        "--width",
        type=_width,
        metavar="N",
        help="width in pixels (default: as rendered; at most 960 for several replicas)",
    )
    parser.add_argument(
        "--step", type=_seed, metavar="N", help="step that .png and .svg show (default: at half of the episode)"
    )
    parser.add_argument(
        "--theme",
        choices=("light", "dark"),
        default="light",
        help="colours of pictures (default: light)",
    )


def _add_web(commands: _Commands) -> None:
    parser = _add(commands, "web", "write a page in which an environment and its policies run", WEB_EPILOG)
    parser.add_argument(
        "source",
        metavar="<run, env or yaml>",
        help="run folder, runs/<name> for the latest run, or checkpoint; or an environment, or path of a YAML file",
    )
    parser.add_argument(
        "overrides", metavar="key=value", nargs="*", default=[], help="set a key of the configuration of an environment"
    )
    _add_best(parser)
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="output file, .html (default: <name>.html in the run folder, or here)"
    )
    parser.add_argument(
        "--replicas", type=_count, metavar="N", default=1, help="number of replicas shown at first (default: 1)"
    )
    parser.add_argument(
        "--seed", type=_seed, metavar="N", help="seed of start states and random numbers (default: the seed of the run)"
    )
    _add_acting(parser)
    parser.add_argument("--fps", type=_width, metavar="N", default=10, help="steps per second at first (default: 10)")
    parser.add_argument(
        "--verified-steps",
        type=_count,
        metavar="N",
        default=10_000,
        help="steps that the page can compare with native ones (default: 10000)",
    )


def _add_export(commands: _Commands) -> None:
    parser = _add(commands, "export", "export a trained policy to ONNX or torch.export", EXPORT_EPILOG)
    _add_run(parser)
    _add_best(parser)
    parser.add_argument(
        "--tag", metavar="TAG", help="policy to export (default: the trained one, if there is only one)"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="output file, .onnx or .pt2 (default: <tag>.onnx)")
    parser.add_argument("--action-mask", action="store_true", help="add a mask of the allowed actions to the inputs")


def _add_check(commands: _Commands) -> None:
    parser = _add(commands, "check", "check an environment for data races and other errors", CHECK_EPILOG)
    parser.add_argument("source", metavar="<env or yaml>", help="environment, or path of a YAML file with one")
    parser.add_argument(
        "overrides", metavar="key=value", nargs="*", default=[], help="set a parameter of the environment"
    )
    parser.add_argument(
        "--steps", type=_count, metavar="N", default=10, help="number of steps to interpret (default: 10)"
    )
    parser.add_argument("--replicas", type=_count, metavar="N", default=2, help="number of replicas (default: 2)")
    parser.add_argument(
        "--seed", type=_seed, metavar="N", default=0, help="seed of start states and actions (default: 0)"
    )
    parser.add_argument("--nan", action="store_true", help="also report NaN and infinity written to arrays")
    parser.add_argument(
        "--against",
        metavar="CLASS",
        nargs="?",
        const="",
        help="compare with a reference instead, package.module:Class or file.py:Class (default: the one that the "
        "environment names)",
    )
    parser.add_argument(
        "--episodes", type=_count, metavar="N", default=100, help="episodes to compare, with --against (default: 100)"
    )
    parser.add_argument(
        "--max-steps",
        type=_count,
        metavar="N",
        default=1_000_000,
        help="limit on loop iterations and memory accesses per thread and launch (default: 1000000)",
    )
    parser.add_argument(
        "--max-seconds",
        type=_count,
        metavar="N",
        default=60,
        help="time limit per compiled launch in seconds, after which the command exits with 1 (default: 60)",
    )
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def _add_envs(commands: _Commands) -> None:
    parser = _add(commands, "envs", "list the environments, or the parameters of one", ENVS_EPILOG)
    parser.add_argument("name", metavar="<env>", nargs="?", help="registered name, or path/to/file.py:Class")


def _add_init(commands: _Commands) -> None:
    parser = _add(commands, "init", "create your own environment from a template", INIT_EPILOG)
    parser.add_argument("name", metavar="<name>", help="name of the environment: lower-case letters, digits and _")


def _add_schema(commands: _Commands) -> None:
    parser = _add(commands, "schema", "write the JSON Schema of run configurations, for editors", SCHEMA_EPILOG)
    parser.add_argument("environments", metavar="<env>", nargs="*", help="further environments: path/to/file.py:Class")
    parser.add_argument("-o", "--output", metavar="FILE", help="output file (default: standard output)")


def _add_completion(commands: _Commands) -> None:
    parser = _add(commands, "completion", "print the completion script of a shell", COMPLETION_EPILOG)
    parser.add_argument("shell", choices=SHELLS, help="shell that reads the script")


def _add_convert(commands: _Commands) -> None:
    parser = _add(commands, "convert", "convert a run configuration of WarpDrive 2", CONVERT_EPILOG)
    parser.add_argument("source", metavar="FILE", help="path of the YAML file")
    parser.add_argument("-o", "--output", metavar="FILE", help="YAML file to write (default: print it)")


def _add_doctor(commands: _Commands) -> None:
    parser = _add(
        commands, "doctor", "show versions, GPUs, and the requirements that each backend lacks", DOCTOR_EPILOG
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="<run>", help="run folder, runs/<name> for the latest run, or checkpoint")


def _add_best(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--best", action="store_true", help="use the best checkpoint instead of the latest")


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


def _width(text: str) -> int:
    return _whole_number(text, at_least=1, at_most=10_000)


def _port(text: str) -> int:
    return _whole_number(text, at_least=1, at_most=65535)


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
        raise ConfigError("the working directory no longer exists: change to another one") from None


def _check_command(arguments: Sequence[str]) -> None:
    """Exit with a suggestion if ``arguments`` begin with an unknown command."""
    if arguments and not arguments[0].startswith("-") and arguments[0] not in COMMANDS:
        hint = nearest(arguments[0], COMMANDS) or f" Commands: {', '.join(COMMANDS)}."
        _tell(f"warpdrive: unknown command '{arguments[0]}'.{hint}")
        raise SystemExit(MISTAKE)
