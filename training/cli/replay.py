"""``warpdrive replay``: export episodes of a run, or a recording, as animations or arrays."""

from __future__ import annotations

import argparse
from pathlib import Path

from warpdrive.errors import WarpDriveError
from warpdrive.recording.recording import FORMATS as ARRAYS, Recording, check_recording_path
from warpdrive.training.checkpoint.checkpoint import find_checkpoint
from warpdrive.training.cli.printing import make_console, say
from warpdrive.training.replay.animation import FORMATS as PICTURES, check_output
from warpdrive.training.replay.replay import (
    draw_recordings,
    environment_of,
    is_recording,
    loaded,
    pictures_last,
    record_episodes,
)
from warpdrive.training.runtime.atomic_write import check_no_link


def run(options: argparse.Namespace) -> int:
    """Write the requested files and print their paths."""
    console = make_console()
    outputs = [Path(name) for name in options.output] or [_usual_output(options.run)]
    arrays = [path for path in outputs if path.suffix.lower() in ARRAYS]
    pictures = [path for path in outputs if path not in arrays]
    for path in outputs:
        _check(path, options.episodes)
    source = loaded(find_checkpoint(options.run, "best") if options.best else options.run, options.trust)
    if isinstance(source, Recording) and pictures:
        environment_of(source, trust=options.trust)  # if it cannot be made, nothing is written
    recordings = record_episodes(
        source, options.replicas, options.episodes, options.seed, tuple(options.random), options.deterministic
    )
    for path in arrays:
        recordings[0].save(path)
        say(f"{path}  ({recordings[0].num_steps} steps)")
    if pictures:
        env = environment_of(source, trust=options.trust)
        animation = draw_recordings(
            env, recordings, fps=options.fps, width=options.width, theme=options.theme, console=console
        )
        steps = sum(recording.num_steps + 1 for recording in recordings)
        some = f" of {steps} states" if len(animation.shown) < steps else ""
        for path in pictures_last(pictures):
            animation.save(path, options.step)
            match path.suffix.lower():
                case ".png" | ".svg":
                    contents = "one state"
                case ".html":
                    contents = f"{steps} states"
                case _:
                    contents = f"{len(animation.shown)} frames{some}"
            say(f"{path}  ({contents})")
    return 0


def _check(path: Path, episodes: int) -> None:
    """Check, before any episode is played, that a file can be written.

    Raises:
        WarpDriveError: If it cannot.
    """
    if path.suffix.lower() in ARRAYS:
        check_recording_path(path)
        if episodes > 1:
            raise WarpDriveError(f"{path}: holds one episode of each replica, found --episodes {episodes}")
    elif path.suffix.lower() in PICTURES:
        check_output(path)
    else:
        raise WarpDriveError(
            f"{path}: expected a name that ends in {', '.join(PICTURES)} (to look at), {' or '.join(ARRAYS)} (arrays)"
        )


def _usual_output(run: str) -> Path:
    """Return the default path of an animation: in the run's folder, or in that of the recording."""
    if is_recording(run):
        output = Path(run).with_suffix(".gif")
    else:
        checkpoint = find_checkpoint(run)
        inside_a_run = checkpoint.parent.name == "checkpoints"
        output = (checkpoint.parent.parent if inside_a_run else Path(".")) / "replay.gif"
    check_no_link(output)
    return output
