"""Episodes as animations: played by trained policies or read from a file, drawn with the environment's ``render``."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from rich.console import Console

from warpdrive import registry
from warpdrive.env_wrapper import EnvWrapper
from warpdrive.environment import Environment
from warpdrive.errors import WarpDriveError
from warpdrive.recording import FORMATS as RECORDING_FORMATS
from warpdrive.recording import Recording
from warpdrive.spaces import observation_arrays
from warpdrive.training.animation import Animation, check_output
from warpdrive.training.film import Film
from warpdrive.training.named_code import check_named_code
from warpdrive.training.trainer import Trainer
from warpdrive.training.work_progress import WorkProgress

Source = Trainer | EnvWrapper | Recording
MAX_FRAMES, MAX_BYTES = 1000, 1 << 30
"""How many frames there are at most, unless somebody says otherwise, and how large all of them together may be."""
SLOWEST, FASTEST, SECONDS = 10.0, 30.0, 20.0
"""Frames per second: as few as the first, and so many, up to the second, that all of them take so many seconds."""
SMALL = 1 << 18
"""Bytes of a replica's observations up to which ``render`` finds them in its states."""


def can_render(env: Environment) -> bool:
    """Return whether ``env`` has a ``render`` method of its own."""
    return type(env).render is not Environment.render


def replay(
    source: Source | str | Path,
    output: str | Path | Iterable[str | Path] | None = None,
    *,
    replicas: int | Sequence[int] | None = None,
    episodes: int = 1,
    seed: int | None = None,
    random: Collection[str] = (),
    deterministic: bool = False,
    env: Environment | None = None,
    fps: float | None = None,
    width: int | None = None,
    max_frames: int | None = None,
    console: Console | None = None,
    trust: bool = False,
) -> Animation:
    """Animate episodes. The result shows itself in a notebook, with ``.player()`` together with buttons and a slider.

    Below each picture stands the step, how the episode ended, and each policy tag's return so far (the mean over its
    agents).

    Args:
        source: what plays: a Trainer, or a run or a checkpoint, as ``Trainer.load`` takes them; an EnvWrapper, which
            acts as its logits say, uniformly at random if it is new; or what was played: a Recording, or its file.
        output: where to write it: ``.gif``, ``.mp4`` or ``.html``, or several of them; None: nowhere.
        replicas: shown side by side: how many, or which. None: one; of a recording all.
        episodes: how many, one after the other, with seeds that count up from ``seed``.
        seed: of the first episode; None: the run's seed.
        random: policy tags whose agents act uniformly at random instead.
        deterministic: take the most probable action instead of sampling.
        env: what draws a recording of an environment that was handed over as an object; else it is made by its name.
        fps: frames per second; None: 10, or up to 30 if it would take longer than 20 seconds.
        width: of the whole picture in pixels; None: what ``render`` gives, several side by side at most 960.
        max_frames: of longer episodes only every n-th step is shown; None: 1000, or as many as 1 GiB of memory holds.
        console: where to show the progress of drawing, if it lasts more than two seconds; None: stderr.
        trust: whether code that a run or a recording names may be run if it is not known here, see docs/security.md.

    Raises:
        TrustError: the run or recording names code that is not known here.
        WarpDriveError: there is no such run or replica, the environment has no ``render``, or ``output`` cannot be
            written.
    """
    outputs = [output] if isinstance(output, (str, Path)) else list(output or ())
    for path in outputs:
        check_output(Path(path))
    source = loaded(source, trust)
    env = environment_of(source, env, trust)
    check_render(env)
    recordings = record_episodes(source, replicas, episodes, seed, random, deterministic)
    animation = draw_recordings(env, recordings, fps=fps, width=width, max_frames=max_frames, console=console)
    for path in outputs:
        animation.save(path)
    return animation


def is_recording(path: str | Path) -> bool:
    """Return whether a name is that of a recording, not of a run or a checkpoint."""
    return Path(path).suffix.lower() in RECORDING_FORMATS


def loaded(source: Source | str | Path, trust: bool = False) -> Source:
    """Return what can be replayed, from its file or folder if need be. For ``trust`` see :func:`replay`."""
    if not isinstance(source, (str, Path)):
        return source
    return Recording.load(source) if is_recording(source) else Trainer.load(source, trust=trust)


def environment_of(source: Source, env: Environment | None = None, trust: bool = False) -> Environment:
    """Return what draws: ``env`` if it is given, else the environment in which ``source`` plays or played.

    Raises :class:`WarpDriveError` for a recording that does not know how to make it, and :class:`TrustError` for one
    that names code which is not known here.
    """
    if env is not None:
        return env
    if isinstance(source, Trainer):
        return source.env.env
    if isinstance(source, EnvWrapper):
        return source.env
    if source.env_config is None:
        raise WarpDriveError(
            f"the environment '{source.env_name}' of the recording was handed over as an object, so that nobody knows "
            "how to make it again: give what draws it, wd.replay(recording, env=...)"
        )
    if not trust:
        check_named_code({"env": {"name": source.env_name}}, "the recording")
    return registry.make(source.env_name, **source.env_config)


def record_episodes(
    source: Source,
    replicas: int | Sequence[int] | None = None,
    episodes: int = 1,
    seed: int | None = None,
    random: Collection[str] = (),
    deterministic: bool = False,
) -> list[Recording]:
    """Return a recording of each episode; the arguments are those of :func:`replay`."""
    if isinstance(source, Trainer):
        first = source.config.trainer.seed if seed is None else seed
        return [
            source.fetch_episode(
                1 if replicas is None else replicas,
                seed=first + number,
                random=random,
                deterministic=deterministic,
                observations=_are_small(source.env),
            )
            for number in range(episodes)
        ]
    if episodes != 1 or seed is not None or random or deterministic:
        raise WarpDriveError("episodes, seed, random and deterministic are for a Trainer or a run, which plays anew")
    if isinstance(source, Recording):
        return [source if replicas is None else _some_of(source, replicas)]
    chosen = replicas if isinstance(replicas, Sequence) else range(1 if replicas is None else replicas)
    return [source.record(chosen, observations=_are_small(source))]


def check_render(env: Environment) -> None:
    """Raise :class:`WarpDriveError` for an environment that cannot be drawn."""
    if not can_render(env):
        raise WarpDriveError(
            f"the environment '{env.name}' cannot be drawn: it has no method render(self, state, trail=()) "
            "that returns a matplotlib Figure; its episodes can be had as arrays (.npz, .safetensors)"
        )


def draw_recordings(
    env: Environment,
    recordings: Sequence[Recording],
    *,
    fps: float | None = None,
    width: int | None = None,
    max_frames: int | None = None,
    console: Console | None = None,
) -> Animation:
    """Draw recordings one after the other with ``env.render``, the replicas of each side by side.

    Raises :class:`WarpDriveError` for an environment that cannot be drawn.
    """
    check_render(env)
    titles = [f"episode {number + 1} of {len(recordings)}" for number in range(len(recordings))]
    films = [
        Film(env, recording, title if len(recordings) > 1 else "", width)
        for recording, title in zip(recordings, titles, strict=True)
    ]
    if max_frames is None:
        max_frames = max(1, min(MAX_FRAMES, MAX_BYTES // films[0].frame(0).nbytes))
    every = -(-sum(recording.num_steps + 1 for recording in recordings) // max_frames)
    shown: list[tuple[Film, int]] = []
    ends = []
    for film in films:
        last = film.recording.num_steps
        shown += [(film, step) for step in (*range(0, last, every), last)]
        ends.append(len(shown) - 1)
    with WorkProgress("drawing", len(shown), "frames", console) as progress:
        frames = [film.frame(step) for film, step in progress.over(shown)]
    if fps is None:
        fps = min(max(len(frames) / SECONDS, SLOWEST), FASTEST)
    return Animation(frames, fps, ends, title=env.name)


def _are_small(env: EnvWrapper) -> bool:
    """Return whether the observations of a replica are so small that ``render`` may as well have them."""
    arrays = observation_arrays(env.env)
    return sum(math.prod(array.shape) * array.dtype.itemsize for array in arrays) <= SMALL


def _some_of(recording: Recording, replicas: int | Sequence[int]) -> Recording:
    """Return the recording of so many of its replicas, or of those with these numbers."""
    recorded = recording.replicas.tolist()
    if isinstance(replicas, Sequence):
        possible = len(replicas) > 0 and set(replicas) <= set(recorded)
        indices = [recorded.index(replica) for replica in replicas if possible]
    else:
        possible = 1 <= replicas <= len(recorded)
        indices = list(range(replicas))
    if not possible:
        raise WarpDriveError(f"replicas: found {replicas}, but the recording has {len(recorded)}: {recorded}")
    return recording.of_replicas(indices)
