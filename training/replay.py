"""Episodes of a trained run, recorded and drawn with the environment's own ``render``."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import track

from warpdrive.env_wrapper import EnvWrapper
from warpdrive.environment import Environment, State
from warpdrive.errors import WarpDriveError
from warpdrive.training.animation import Animation, check_output, frame_of
from warpdrive.training.rollout_loop import act
from warpdrive.training.trainer import Trainer

MAX_FRAMES = 300
"""What is longer is shown with steps left out."""


def can_render(env: Environment) -> bool:
    """Return whether ``env`` has a ``render`` method of its own."""
    return type(env).render is not Environment.render


@torch.no_grad()
def record_episode(
    trainer: Trainer,
    seed: int | None = None,
    random: Collection[str] = (),
    deterministic: bool = False,
) -> list[State]:
    """Let the policies of ``trainer`` play one episode in a replica of its own; training is not disturbed.

    Args:
        trainer: whose policies act.
        seed: of the start state and the sampling; None: the run's seed.
        random: policy tags whose agents act uniformly at random instead.
        deterministic: take the most probable action instead of sampling.

    Returns:
        The states of the episode in order, the first one before any step: at most ``episode_length + 1`` of them.
    """
    models = trainer.acting_models(random)
    env = EnvWrapper(
        trainer.env.env,
        num_envs=1,
        env_backend=trainer.env.backend,  # of the device where the models are
        seed=trainer.config.trainer.seed if seed is None else seed,
        auto_reset=False,  # the last state is part of the picture
    )
    env.greedy = deterministic
    rollout = env.allocate_rollout(1)
    states = [env.state(0)]
    for _ in range(env.env.episode_length):
        rollout.begin()
        act(env, models)
        env.step_rollout(rollout)
        states.append(env.state(0))
        if bool(rollout.terminated[0, 0] | rollout.truncated[0, 0]):
            break
    return states


def render_episodes(env: Environment, episodes: Sequence[Sequence[State]], console: Console | None = None) -> Animation:
    """Draw recorded episodes one after the other with ``env.render``, with a progress bar on a terminal.

    Raises:
        WarpDriveError: the environment has no ``render``.
    """
    if not can_render(env):
        raise WarpDriveError(
            f"the environment '{env.name}' cannot be drawn: it has no method render(self, state, trail=()) "
            "that returns a matplotlib Figure"
        )
    stride = -(-sum(len(states) for states in episodes) // MAX_FRAMES)
    shown, ends = [], []
    for states in episodes:
        last = len(states) - 1
        shown += [(states, index) for index in (*range(0, last, stride), last)]
        ends.append(len(shown) - 1)
    silent = console is None or not console.is_terminal
    frames = [
        frame_of(env.render(states[index], states[:index]))
        for states, index in track(shown, "drawing", console=console, transient=True, disable=silent)
    ]
    return Animation(frames, ends=ends)


def replay(
    run_or_trainer: Trainer | str | Path,
    output: str | Path | None = None,
    *,
    episodes: int = 1,
    seed: int | None = None,
    random: Collection[str] = (),
    deterministic: bool = False,
    console: Console | None = None,
) -> Animation:
    """Animate episodes of trained policies. The result shows itself in a notebook.

    Args:
        run_or_trainer: a Trainer, or what ``Trainer.load`` takes: a run or a checkpoint.
        output: where to write it, ``.gif`` or ``.mp4``; None: nowhere.
        episodes: how many, with seeds that count up from ``seed``.
        seed: of the first episode; None: the run's seed.
        random: policy tags whose agents act uniformly at random instead.
        deterministic: take the most probable action instead of sampling.
        console: where to show the progress of drawing, if it is a terminal.

    Raises:
        WarpDriveError: there is no such run, the environment has no ``render``, or ``output`` cannot be written.
    """
    if output is not None:
        check_output(Path(output))
    trainer = run_or_trainer if isinstance(run_or_trainer, Trainer) else Trainer.load(run_or_trainer)
    first = trainer.config.trainer.seed if seed is None else seed
    recorded = [record_episode(trainer, first + i, random, deterministic) for i in range(episodes)]
    animation = render_episodes(trainer.env.env, recorded, console)
    if output is not None:
        animation.save(output)
    return animation
