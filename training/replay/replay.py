"""Animations of episodes, played by trained policies or read from a file, and drawn by the environment."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from rich.console import Console

from warpdrive import registry
from warpdrive.env_wrapper import EnvWrapper
from warpdrive.environment import Environment
from warpdrive.errors import WarpDriveError, shown
from warpdrive.recording.recording import FORMATS as RECORDING_FORMATS, Recording
from warpdrive.spaces import observation_arrays
from warpdrive.training.config.named_code import check_named_code
from warpdrive.training.replay.animation import PICTURES, Animation, check_output
from warpdrive.training.replay.film import Film
from warpdrive.training.trainer import Trainer

Source = Trainer | EnvWrapper | Recording
SMALL = 1 << 18
"""Maximum size in bytes of a replica's observations that ``render`` finds in its states."""


def can_render(env: Environment) -> bool:
    """Return True if ``env`` has a ``draw`` kernel or implements ``render``."""
    return env.can_render


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
    theme: str = "light",
    step: int | None = None,
    console: Console | None = None,
    trust: bool = False,
) -> Animation:
    """Animate episodes. The result displays itself in a notebook, with ``.player()`` including buttons and a slider.

    Captions show the step, how the episode ended, and each policy tag's return so far (the mean over its agents).

    ```python
    wd.replay("runs/tag_gridworld", "tag.html", replicas=4)  # a player for browsers
    wd.replay(wd.EnvWrapper("flock", seed=1), "flock.gif")  # random actions
    ```

    Args:
        source: Actor or recording: a Trainer, or a run or a checkpoint, as accepted by ``Trainer.load``; an EnvWrapper,
            which samples from its current logits, uniformly at random if it is new; or a Recording, or its file.
        output: File to write: ``.gif``, ``.mp4``, ``.html``, or ``.png`` or ``.svg`` for the picture of a step; or
            several of them; None: no file.
        replicas: Number or indices of the replicas shown side by side. None: one; for a recording all.
        episodes: Number of consecutive episodes, with seeds that count up from ``seed``.
        seed: Seed of the first episode; None: the run's seed.
        random: Policy tags whose agents act uniformly at random instead.
        deterministic: If True, take the most probable action instead of sampling.
        env: Environment that renders a recording, if it was passed as an object; else it is created by its name.
        fps: Frames per second; None: 10, or up to 30 if it would take longer than 20 seconds.
        width: Width of the whole image in pixels; None: that of ``render``, for several side by side at most 960.
        max_frames: Maximum number of frames, for which steps are skipped; None: 1000, or as many as fit 1 GiB.
        theme: Colours of frames drawn as scenes, ``"light"`` or ``"dark"``; pages follow the browser's.
        step: Step shown by ``.png`` and ``.svg``; None: at half of the episode.
        console: Console for the progress of drawing, if it takes more than two seconds; None: stderr.
        trust: If True, code named by a run or recording may be executed even if it is not known here, see
            docs/project/security.md.

    Returns:
        The animation.

    Raises:
        TrustError: If the run or recording names code that is not known here.
        WarpDriveError: If there is no such run or replica, the environment has no ``draw`` kernel and no
            ``render``, or ``output`` cannot be written.
    """
    outputs = [output] if isinstance(output, (str, Path)) else list(output or ())
    for path in outputs:
        check_output(Path(path))
    source = loaded(source, trust)
    env = environment_of(source, env, trust)
    check_render(env)
    recordings = record_episodes(source, replicas, episodes, seed, random, deterministic)
    animation = draw_recordings(
        env, recordings, fps=fps, width=width, max_frames=max_frames, theme=theme, console=console
    )
    for path in pictures_last(outputs):
        animation.save(path, step)
    return animation


def pictures_last(outputs: Iterable[str | Path]) -> list[Path]:
    """Return paths with pictures of one step last: if there is no such step, the others are written."""
    return sorted(map(Path, outputs), key=lambda path: path.suffix.lower() in PICTURES)


def is_recording(path: str | Path) -> bool:
    """Return True if a path is that of a recording, not of a run or a checkpoint."""
    return Path(path).suffix.lower() in RECORDING_FORMATS


def loaded(source: Source | str | Path, trust: bool = False) -> Source:
    """Return a replay source, loaded from its file or folder if necessary. For ``trust`` see :func:`replay`."""
    if isinstance(source, (Trainer, EnvWrapper, Recording)):
        return source
    if not isinstance(source, (str, Path)):
        raise WarpDriveError(
            f"source is {shown(source)}, expected a Trainer, an EnvWrapper, a Recording, or the path of a run, a "
            "checkpoint or a recording"
        )
    if is_recording(source):
        return Recording.load(source)
    return Trainer.load(source, trust=trust, to_train=False)


def environment_of(source: Source, env: Environment | None = None, trust: bool = False) -> Environment:
    """Return the environment that renders: ``env`` if given, else that of ``source``.

    Args:
        source: Actor or recording.
        env: Environment that renders; None: that of ``source``.
        trust: See :func:`replay`.

    Returns:
        The environment.

    Raises:
        WarpDriveError: If a recording does not name its environment.
        TrustError: If a recording names code that is not known here.
    """
    if env is not None:
        return env
    if isinstance(source, Trainer):
        return source.env.env
    if isinstance(source, EnvWrapper):
        return source.env
    if source.env_config is None:
        raise WarpDriveError(
            f"the environment '{source.env_name}' of the recording was passed as an object and cannot be recreated: "
            "pass an environment to render it, wd.replay(recording, env=...)"
        )
    if not trust:
        check_named_code({"env": {**source.env_config, "name": source.env_name}}, "the recording")
    return registry.make(source.env_name, **source.env_config)


def record_episodes(
    source: Source,
    replicas: int | Sequence[int] | None = None,
    episodes: int = 1,
    seed: int | None = None,
    random: Collection[str] = (),
    deterministic: bool = False,
) -> list[Recording]:
    """Return a recording of each episode.

    Args:
        source: Actor or recording, see :func:`replay`.
        replicas: See :func:`replay`.
        episodes: See :func:`replay`.
        seed: See :func:`replay`.
        random: See :func:`replay`.
        deterministic: See :func:`replay`.

    Returns:
        One recording per episode.

    Raises:
        WarpDriveError: If ``episodes`` or one of the options after it is given without a Trainer.
    """
    if isinstance(source, Trainer):
        first = source.config.trainer.seed if seed is None else seed
        return [
            source.fetch_episode(
                1 if replicas is None else replicas,
                seed=first + number,
                random=random,
                deterministic=deterministic,
                observations=are_small(source.env),
            )
            for number in range(episodes)
        ]
    if episodes != 1 or seed is not None or random or deterministic:
        raise WarpDriveError("episodes, seed, random and deterministic require a Trainer or a run")
    if isinstance(source, Recording):
        return [source if replicas is None else _some_of(source, replicas)]
    chosen = replicas if isinstance(replicas, Sequence) else range(1 if replicas is None else replicas)
    return [source.record(chosen, observations=are_small(source))]


def check_render(env: Environment) -> None:
    """Check that an environment can be rendered.

    Raises:
        WarpDriveError: If it has neither a ``draw`` kernel nor ``render``.
    """
    if not can_render(env):
        raise WarpDriveError(
            f"the environment '{env.name}' cannot be rendered: it has neither a draw kernel nor a method "
            "render(self, state, trail=()); its episodes can be saved as arrays (.npz, .safetensors)"
        )


def draw_recordings(
    env: Environment,
    recordings: Sequence[Recording],
    *,
    fps: float | None = None,
    width: int | None = None,
    max_frames: int | None = None,
    theme: str = "light",
    console: Console | None = None,
) -> Animation:
    """Draw recordings one after the other, the replicas of each side by side.

    Args:
        env: Environment that renders.
        recordings: Recordings of episodes.
        fps: See :func:`replay`.
        width: See :func:`replay`.
        max_frames: See :func:`replay`.
        theme: See :func:`replay`.
        console: See :func:`replay`.

    Returns:
        The animation.

    Raises:
        WarpDriveError: If the environment has neither a ``draw`` kernel nor ``render``.
    """
    check_render(env)
    titles = [f"episode {number + 1} of {len(recordings)}" for number in range(len(recordings))]
    films = [
        Film(env, recording, title if len(recordings) > 1 else "")
        for recording, title in zip(recordings, titles, strict=True)
    ]
    return Animation(films, fps, title=env.name, width=width, max_frames=max_frames, theme=theme, console=console)


def are_small(env: EnvWrapper) -> bool:
    """Return True if the observations of a replica are small enough to be recorded for ``render``."""
    arrays = observation_arrays(env.env)
    return sum(math.prod(array.shape) * array.dtype.itemsize for array in arrays) <= SMALL


def _some_of(recording: Recording, replicas: int | Sequence[int]) -> Recording:
    """Return a recording of the given number, or indices, of its replicas."""
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
