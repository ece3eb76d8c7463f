"""Animations: written as GIF, MP4 or HTML, and displayed in notebooks."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import cached_property
from html import escape
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from warpdrive.arguments import check_path
from warpdrive.errors import WarpDriveError, nearest, shown
from warpdrive.figures import Frame, png
from warpdrive.scene.colours import DARK, LIGHT
from warpdrive.scene.page import framed
from warpdrive.training.progress.work import WorkProgress
from warpdrive.training.replay.few_colours import few_colours
from warpdrive.training.replay.film import Film
from warpdrive.training.replay.frames import Frames
from warpdrive.training.replay.player.page import player_page
from warpdrive.training.runtime.atomic_write import writing

FORMATS = (".gif", ".mp4", ".html", ".png", ".svg")
"""File extensions."""
PICTURES = (".png", ".svg")
"""Extensions of pictures of one step."""
MAX_FRAMES, MAX_BYTES = 1000, 1 << 30
"""Default maximum number of frames, and maximum size of all frames in bytes."""
SLOWEST, FASTEST, SECONDS = 10.0, 30.0, 20.0
"""Minimum and maximum frames per second, and the duration in seconds above which the minimum is exceeded."""
THEMES = {"light": LIGHT, "dark": DARK}


class Animation:
    """Films one after the other. Displays itself as the result of a notebook cell.

    Args:
        films: The films.
        frames_per_second: The frame rate; None: 10, or up to 30 if it would take longer than 20 seconds.
        seconds_at_an_end: The time for which the last frame of each film is held.
        title: The title of the page of :meth:`html`.
        width: The width of a frame in pixels; None: see :class:`~warpdrive.training.replay.frames.Frames`.
        max_frames: The maximum number of frames, for which steps are skipped; None: 1000, or as many as fit 1 GiB.
        theme: The colours of frames, ``"light"`` or ``"dark"``. Pages follow the browser's.
        console: The console for the progress of drawing, if it takes more than two seconds; None: stderr.

    Raises:
        WarpDriveError: There is no such theme.
    """

    def __init__(
        self,
        films: Sequence[Film],
        frames_per_second: float | None = None,
        seconds_at_an_end: float = 1.5,
        title: str = "replay",
        *,
        width: int | None = None,
        max_frames: int | None = None,
        theme: str = "light",
        console: Console | None = None,
    ) -> None:
        if theme not in THEMES:
            raise WarpDriveError(f"theme: found {shown(theme)}, expected one of {', '.join(THEMES)}")
        self.films = list(films)
        self.seconds_at_an_end, self.title, self.console = seconds_at_an_end, title, console
        self._frames = [Frames(film, width, THEMES[theme]) for film in films]
        if max_frames is None:
            max_frames = max(1, min(MAX_FRAMES, MAX_BYTES // self._frames[0].frame(0).nbytes))
        every = -(-sum(film.recording.num_steps + 1 for film in films) // max_frames)
        self.shown: list[tuple[int, int]] = []
        """Film and step of each frame."""
        self.ends: set[int] = set()
        """Indices of frames that end a film."""
        for number, film in enumerate(films):
            last = film.recording.num_steps
            self.shown += [(number, step) for step in (*range(0, last, every), last)]
            self.ends.add(len(self.shown) - 1)
        if frames_per_second is None:
            frames_per_second = min(max(len(self.shown) / SECONDS, SLOWEST), FASTEST)
        self.frames_per_second = frames_per_second
        self.path: Path | None = None
        """Path of the last ``save``."""

    @cached_property
    def frames(self) -> list[Frame]:
        """The frames, ``[height, width, 3]`` uint8, drawn when they are first needed."""
        with WorkProgress("drawing", len(self.shown), "frames", self.console) as progress:
            return [self._frames[film].frame(step) for film, step in progress.over(self.shown)]

    def save(self, path: str | Path, step: int | None = None) -> Path:
        """Write a file in the format of its name.

        Args:
            path: ``.gif`` or ``.mp4``; ``.html`` for a player page; ``.png`` or ``.svg`` for the picture of one step.
            step: The step of a picture, of the first film; None: at half of its longest episode.

        Returns:
            The path.

        Raises:
            WarpDriveError: The format is not supported, or is MP4 and ffmpeg is missing, or there is no such step.
        """
        path = Path(path)
        check_output(path)
        of_picture = self._step_of_a_picture(step) if path.suffix.lower() in PICTURES else 0
        path.parent.mkdir(parents=True, exist_ok=True)
        with WorkProgress(f"writing {path.name}"), writing(path):
            match path.suffix.lower():
                case ".gif":
                    self._save_gif(path)
                case ".mp4":
                    self._save_mp4(path)
                case ".html":
                    path.write_text(self.html(), encoding="utf-8")
                case ".png":
                    path.write_bytes(self.png(of_picture))
                case _:
                    path.write_text(self._frames[0].svg(of_picture), encoding="utf-8")
        self.path = path
        return path

    def html(self) -> str:
        """Return a self-contained page that plays the animation, without network access."""
        return player_page(self.films, self.frames_per_second, self.seconds_at_an_end, self.title)

    def png(self, step: int | None = None) -> bytes:
        """Return the picture of one step of the first film as a PNG file.

        Args:
            step: The step; None: at half of the longest episode.
        """
        return png(self._frames[0].frame(self._step_of_a_picture(step)))

    def player(self) -> Player:
        """Return a notebook player with buttons and a slider.

        The animation itself, as the result of a cell, is a GIF, which is displayed wherever a notebook is. The player
        runs scripts, which some viewers do not allow.
        """
        return Player(self)

    def _step_of_a_picture(self, step: int | None) -> int:
        last = self.films[0].recording.num_steps
        if step is None:
            return last // 2
        if not 0 <= step <= last:
            raise WarpDriveError(f"step: found {step}, expected 0 to {last}, the last step of the episode")
        return step

    @property
    def _times(self) -> list[float]:
        """Duration of each frame in milliseconds."""
        usual, at_an_end = 1000.0 / self.frames_per_second, 1000.0 * self.seconds_at_an_end
        return [at_an_end if index in self.ends else usual for index in range(len(self.frames))]

    def _save_gif(self, target: Any) -> None:
        first, *others = few_colours(self.frames)
        first.save(target, format="gif", save_all=True, append_images=others, duration=self._times, loop=0)

    def _save_mp4(self, path: Path) -> None:
        import imageio_ffmpeg

        repeats = round(self.frames_per_second * self.seconds_at_an_end)
        height, width = self.frames[0].shape[:2]
        film = imageio_ffmpeg.write_frames(
            str(path), (width, height), fps=self.frames_per_second, macro_block_size=2, quality=6
        )
        film.send(None)
        try:
            for index, frame in enumerate(self.frames):
                for _ in range(repeats if index in self.ends else 1):
                    film.send(np.ascontiguousarray(frame))
        finally:
            film.close()

    def _repr_html_(self) -> str:
        """Return the GIF inline for a notebook, so that it is displayed wherever the notebook is."""
        gif = BytesIO()
        self._save_gif(gif)
        data = base64.b64encode(gif.getvalue()).decode("ascii")
        return f'<img alt="{escape(self.title)}" src="data:image/gif;base64,{data}">'

    def __repr__(self) -> str:
        """Return the number of frames and the path of the last ``save``."""
        return f"Animation({len(self.shown)} frames{f', {self.path}' if self.path else ''})"


class Player:
    """Animation displayed by a notebook with buttons and a slider."""

    def __init__(self, animation: Animation) -> None:
        self.animation = animation

    def _repr_html_(self) -> str:
        """Return the page in an iframe."""
        return framed(self.animation.html(), self.animation.title)


def check_output(path: Path) -> None:
    """Check, before anything is rendered, that ``path`` can be written as an animation.

    Raises:
        WarpDriveError: If it cannot.
    """
    check_path(output=path)
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        hint = nearest(suffix, FORMATS) if suffix else ""
        raise WarpDriveError(
            f"{path}: the name of an animation ends in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}.{hint}"
        )
    if path.is_dir():
        raise WarpDriveError(f"{path}: is a folder; name a file in it")
    if suffix == ".mp4":
        try:
            import imageio_ffmpeg

            imageio_ffmpeg.get_ffmpeg_exe()
        except (ImportError, RuntimeError):  # not installed, or without an ffmpeg for this machine
            raise WarpDriveError(
                f"{path}: writing MP4 requires ffmpeg: pip install 'warpdrive[video]'; .gif and .html need no other "
                "package"
            ) from None
