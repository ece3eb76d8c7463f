"""``warpdrive replay``: episodes of a run as an animation."""

from __future__ import annotations

import argparse
from pathlib import Path

from warpdrive.training.animation import check_output
from warpdrive.training.checkpoint import find_checkpoint
from warpdrive.training.commands.printing import console_for_people
from warpdrive.training.replay import replay
from warpdrive.training.trainer import Trainer


def run(options: argparse.Namespace) -> int:
    """Write the animation and say where."""
    console = console_for_people()
    output = Path(options.output) if options.output else _beside_the_checkpoints(options.run)
    check_output(output)
    trainer = Trainer.load(options.run)
    animation = replay(
        trainer,
        output,
        episodes=options.episodes,
        seed=options.seed,
        random=tuple(options.random),
        deterministic=options.deterministic,
        console=console,
    )
    console.print(f"{animation.path}  ({len(animation.frames)} frames)", highlight=False, soft_wrap=True)
    return 0


def _beside_the_checkpoints(run: str) -> Path:
    checkpoint = find_checkpoint(run)
    inside_a_run = checkpoint.parent.name == "checkpoints"
    return (checkpoint.parent.parent if inside_a_run else Path(".")) / "replay.gif"
