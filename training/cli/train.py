"""``warpdrive train``: train, evaluate, animate episodes, and print where the results are."""

from __future__ import annotations

import argparse
import os
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from signal import Signals
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

from warpdrive.backends.loading import never_uses_gpu
from warpdrive.errors import WarpDriveError
from warpdrive.importing import module_command
from warpdrive.scene.artist import Artist
from warpdrive.training.checkpoint.run_folder import RunFolder
from warpdrive.training.cli.autoscale import devices_for, file_for, find as find_size
from warpdrive.training.cli.comparison import (
    Measurement,
    as_plain_data,
    comparison_table,
    episodes_csv,
    line_ups,
    measurement,
)
from warpdrive.training.cli.printing import INTERRUPTED, as_typed, in_words, make_console, note, say
from warpdrive.training.config.load import RunConfig, is_environment, load_config
from warpdrive.training.distributed.bootstrap import RUN, join
from warpdrive.training.distributed.process_group import ProcessGroup
from warpdrive.training.progress.training import TrainingProgress, clock, short
from warpdrive.training.replay.replay import can_render, replay
from warpdrive.training.reports import TrainingSummary
from warpdrive.training.run.loop import summarise_failed
from warpdrive.training.run.sinks.configured import log_replay
from warpdrive.training.runtime.atomic_write import write_atomically, write_json
from warpdrive.training.runtime.interrupts import exit_code_of, name_of
from warpdrive.training.trainer import Trainer, make_env
from warpdrive.user_code import describe_error

if TYPE_CHECKING:
    from warpdrive.training.watch.beside import WatchedTraining

_MAX_EPISODES_SHOWN = 3
_MAX_FRAMES = 300  # default animation
_FLAGS = ("--no-replay", "--no-report", "--watch", "--trust", "--debug", "--quiet", "--verbose")
"""Options that are passed to every process of a run."""


def run(options: argparse.Namespace) -> int:
    """Train with a run configuration in a new run folder; or resume a run."""
    console = make_console()
    config = None if options.resume else load_config(options.source, options.overrides, trust=options.trust or None)
    if options.auto_scale and config is not None and not options.num_processes and devices_for(config) > 1:
        options.num_gpus = options.num_gpus or devices_for(config)
    if options.num_gpus or options.num_processes:
        return _in_processes(options, config)
    process_group = join(config.trainer.process_timeout) if config else join()
    if not (options.watch and process_group.is_leader):
        return _train(options, config, process_group, console, [])
    from warpdrive.training.watch.beside import WatchedTraining

    with WatchedTraining(options.watch_port, options.trust) as watched:
        return _train(options, config, process_group, console, [watched])


def _train(
    options: argparse.Namespace,
    config: RunConfig | None,
    process_group: ProcessGroup,
    console: Console,
    watched: Sequence[WatchedTraining],
) -> int:
    resumed: str | None = options.resume or process_group.load_text(RUN)
    if config is not None and resumed is None and process_group.is_leader:
        RunFolder.check_can_create(config)
        if is_environment(options.source):
            sizes, total = f"{config.trainer.num_envs} replicas", f"{config.trainer.total_steps} environment steps"
            note(f"{options.source} has no run configuration: PPO with its default settings, {sizes}, {total}")
            note("config.yaml in the folder of the run has all keys, for a run configuration of your own")
    if config is not None and options.auto_scale:
        config = find_size(config, options, console, then_train=True).config
    with console.status("compiling kernels (cached for later runs)"):
        if config is not None and resumed is None:
            trainer = Trainer(make_env(config), config)
        else:
            assert resumed is not None, "the command line is checked for this"
            trainer = Trainer.resume(resumed, options.overrides, trust=options.trust)
        if process_group.is_leader and not options.no_replay and trainer.env.env.draw is not None:
            Artist(trainer.env.env).scene(trainer.env.state())  # to report mistakes before the training, not after it
    env = trainer.env
    if resumed and process_group.is_leader:
        if trainer.env_steps == 0:
            note("the run has no checkpoint: it starts over")
        total_steps = trainer.config.trainer.total_steps
        note(f"resuming at {trainer.env_steps} of {total_steps} environment steps")
        if trainer.env_steps >= total_steps:
            note("nothing is left to train: set trainer.total_steps to more")
    own = f"{env.num_envs} replicas" if process_group.world_size == 1 else str(trainer.share)
    starts = "one start state" if env.reset_pool_size == 1 else f"{env.reset_pool_size} start states"
    agents = f"{env.num_agents} agent{'' if env.num_agents == 1 else 's'}"
    how = "stepped on the host" if env.steps_on_host else f"{starts}, stepped by the {env.backend.name} backend"
    note(f"{own} of {agents}, {how}")
    for tag, policy in trainer.policies.items():
        if policy.config.to_train and process_group.is_leader:
            reason, otherwise = policy.algorithm.not_compiled, "native code"
            if policy.generator.device.type != "cpu":
                reason, otherwise = policy.algorithm.not_captured, "a CUDA graph"
            note(f"gradient steps of '{tag}': {f'PyTorch ({reason})' if reason else otherwise}")
    if process_group.world_size > 1:
        note(f"rank {process_group.rank} is process {os.getpid()} on {socket.gethostname()}")
    if not process_group.is_leader:
        trainer.train()
        return 0
    for server in watched:
        address, tunnel = server.directions()
        say(address)
        note(tunnel)
    with TrainingProgress(trainer.config.name, console) as progress:
        summary = trainer.train(callbacks=[progress, *watched])
    if summary.status == "interrupted":
        _print_interrupted(console, summary)
        if not options.no_report:
            with suppress(KeyboardInterrupt):  # a second Ctrl-C skips the report
                _write_report(console, summary.run_folder)
        return exit_code_of(Signals[summary.stopped_by])
    console.print(
        f"trained for {short(summary.env_steps)} environment steps "
        f"({short(summary.env_steps * env.num_agents)} agent steps) in {clock(summary.seconds)}\n",
        highlight=False,
    )
    try:
        _show_results(console, trainer, summary.run_folder, animated=not options.no_replay)
        if not options.no_report:
            _write_report(console, summary.run_folder)
    except KeyboardInterrupt:
        console.print("\nstopped by Ctrl-C; the run is saved:", highlight=False)
        _print_run_folder(console, trainer, summary.run_folder)
        return INTERRUPTED
    _print_run_folder(console, trainer, summary.run_folder)
    return 0


def _in_processes(options: argparse.Namespace, config: RunConfig | None) -> int:
    """Run the same command in several processes."""
    from warpdrive.training.distributed.launch import check_devices, launch

    fraction = config.trainer.gpu_memory_fraction if config else None
    on_cpu = config is not None and never_uses_gpu(config.trainer.env_backend)
    processes = check_devices(options.num_gpus, options.num_processes, fraction, on_cpu)
    if config is None:
        source = ["--resume", options.resume, *options.overrides]
    elif options.auto_scale:
        config = find_size(config, options, make_console(), then_train=True, devices=processes).config
        source = [str(file_for(config, options))]
    else:
        source = [options.source, *options.overrides]
    flags = [flag for flag in _FLAGS if getattr(options, flag[2:].replace("-", "_"))]
    if options.watch:
        from warpdrive.training.watch.beside import keep_token

        keep_token()
        flags += ["--watch-port", str(options.watch_port)] if options.watch_port else []
    if config is not None:
        length, envs = config.trainer.rollout_length, config.trainer.num_envs
        apart = config.trainer.dedicated_learner
        counts = {ProcessGroup.of(rank, processes).share(envs, apart).count for rank in range(processes)}
        many = " or ".join(map(str, sorted(counts - {0})))
        where = "each except process 0, the learner" if 0 in counts else "each"
        note(
            f"{processes} processes: {envs} replicas in total, {many} in {where}; a batch of "
            f"{config.trainer.train_batch_size} environment steps in total, {length} per replica"
        )
    began = time.perf_counter()

    def summarise(run: str | None, why: str) -> None:
        if run is not None:
            summarise_failed(RunFolder(Path(run)), time.perf_counter() - began, why)

    launch([*module_command("warpdrive")[1:], "train", *source, *flags], processes, options.max_restarts, summarise)
    return 0


def _show_results(console: Console, trainer: Trainer, run_folder: Path, animated: bool) -> None:
    measurements = measure(trainer)
    console.print(comparison_table(measurements, in_words(trainer.env.env)))
    write_json(run_folder / "evaluation.json", as_plain_data(measurements), indent=2)
    write_atomically(run_folder / "evaluation_episodes.csv", episodes_csv(measurements))
    if animated:
        _write_replay(console, trainer, run_folder)


def measure(trainer: Trainer) -> Sequence[Measurement]:
    """Evaluate the trained policies, each alone against random agents, and all at random."""
    tags, trained, others = list(trainer.env.policy_tags), list(trainer.policies), list(trainer.opponents)
    found = [(random, trainer.evaluate(random=random)) for random in line_ups(tags, trained, others)]
    return [measurement(trainer.config, random, result) for random, result in found]


def _write_replay(console: Console, trainer: Trainer, run_folder: Path) -> None:
    if not can_render(trainer.env.env):
        console.print(f"no replay.gif: the environment '{trainer.env.env.name}' has no draw kernel")
        return
    episodes = max(1, min(_MAX_EPISODES_SHOWN, _MAX_FRAMES // trainer.env.env.episode_length))
    try:
        outputs = [run_folder / name for name in ("replay.gif", "replay.html")]
        replay(trainer, outputs, episodes=episodes, max_frames=_MAX_FRAMES, console=console)
    except Exception as error:  # a picture that fails does not make the training fail
        reason = str(error) if isinstance(error, WarpDriveError) else describe_error(error)
        console.print(f"no replay.gif: {reason}", style="yellow")
        return
    try:
        log_replay(trainer.config, RunFolder(run_folder), trainer.env_steps, run_folder / "replay.gif")
    except Exception as error:  # of a service on the network, say
        console.print(f"replay.gif was written, but not logged: {error}", style="yellow")


def _write_report(console: Console, run_folder: Path) -> None:
    """Write ``report.html``; a failure is a warning."""
    try:
        from warpdrive.training.report.write import write_report

        write_report([run_folder])
    except Exception as error:
        console.print(f"no report.html: {error}", style="yellow")


_CONTENTS = {
    "config.yaml": "complete run configuration, to train again or to edit",
    "metrics.csv": "metrics, one row per update",
    "checkpoints": "policies and training state, to resume from",
    "summary.json": "summary of the run",
    "evaluation.json": "the table above as JSON",
    "replay.gif": "animated episodes",
    "replay.html": "the same in a player, for a browser",
    "report.html": "all of this in one page, for a browser",
}


def _print_run_folder(console: Console, trainer: Trainer, folder: Path) -> None:
    if console.quiet:
        say(str(folder))
    console.print(f"\n[bold]{escape(str(folder))}[/bold]", highlight=False, soft_wrap=True, markup=True)
    for name, meaning in _CONTENTS.items():
        if (folder / name).exists():
            console.print(f"  {name:<17}[dim]{meaning}[/dim]", highlight=False, markup=True)
    console.print("\nnext:", highlight=False)
    drawn = ("replay", folder, "--seed", "100", "-o", "another.gif")
    commands = [as_typed("warpdrive", *(drawn if can_render(trainer.env.env) else ("evaluate", folder)))]
    if (folder / "tensorboard").exists():
        commands.append(as_typed("tensorboard", "--logdir", folder))
    for command in commands:
        console.print(f"  {command}", highlight=False, soft_wrap=True)


def _print_interrupted(console: Console, summary: TrainingSummary) -> None:
    by = name_of(Signals[summary.stopped_by])
    if summary.checkpoint is None:
        console.print(f"stopped by {by} before the first checkpoint; metrics are in {summary.run_folder}")
        return
    console.print(
        f"stopped by {by} after {short(summary.env_steps)} environment steps; "
        f"the latest checkpoint is {summary.checkpoint}\n"
        f"  {as_typed('warpdrive', 'evaluate', summary.run_folder)}\n"
        f"  {as_typed('warpdrive', 'train', '--resume', summary.run_folder)}",
        highlight=False,
        soft_wrap=True,
    )
