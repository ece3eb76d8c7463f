"""Animations: written as GIF, MP4 or HTML, and displayed in notebooks."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from functools import cached_property
from html import escape
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from warpdrive.arguments import check_path
from warpdrive.errors import WarpDriveError, nearest
from warpdrive.figures import Frame
from warpdrive.training.progress.work import WorkProgress
from warpdrive.training.replay.html_player import player_page
from warpdrive.training.runtime.atomic_write import writing

FORMATS = (".gif", ".mp4", ".html")
COLOURS = 128


class Animation:
    """Frames with a frame rate. Displays itself as the result of a notebook cell.

    Args:
        frames: images of the same size, ``[height, width, 3]`` uint8.
        frames_per_second: frame rate.
        ends: indices of frames that end an episode and are held longer; the last frame always is.
        seconds_at_an_end: seconds for which those are held.
        title: title of the page of :meth:`html`.

    Raises:
        ValueError: there are no frames.
    """

    def __init__(
        self,
        frames: Sequence[Frame],
        frames_per_second: float = 10.0,
        ends: Iterable[int] = (),
        seconds_at_an_end: float = 1.5,
        title: str = "replay",
    ) -> None:
        if not frames:
            raise ValueError("an animation needs at least one frame")
        self.frames = list(frames)
        self.frames_per_second = frames_per_second
        self.ends = {*ends, len(self.frames) - 1}
        self.seconds_at_an_end = seconds_at_an_end
        self.title = title
        self.path: Path | None = None
        """Path of the last ``save``."""

    def save(self, path: str | Path) -> Path:
        """Write the animation in the format of the file name: ``.gif``, ``.mp4``, or ``.html`` for a player page.

        Raises:
            WarpDriveError: the format is not supported, or is MP4 and ffmpeg is missing.
        """
        path = Path(path)
        check_output(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        write = {".gif": self._save_gif, ".mp4": self._save_mp4, ".html": self._save_html}
        with WorkProgress(f"writing {path.name}"), writing(path):
            write[path.suffix.lower()](path)
        self.path = path
        return path

    def html(self) -> str:
        """Return a self-contained page that plays the animation, without network access."""
        height, width = self.frames[0].shape[:2]
        return player_page([_png(picture) for picture in self._few_colours], (width, height), self._times, self.title)

    def player(self) -> Player:
        """Return a notebook player with buttons and a slider.

        The animation itself, as the result of a cell, is a GIF, which is displayed wherever a notebook is. The player
        runs scripts, which some viewers do not allow.
        """
        return Player(self)

    @property
    def _times(self) -> list[float]:
        """Duration of each frame in milliseconds."""
        usual, at_an_end = 1000.0 / self.frames_per_second, 1000.0 * self.seconds_at_an_end
        return [at_an_end if index in self.ends else usual for index in range(len(self.frames))]

    @cached_property
    def _few_colours(self) -> list[Any]:
        """Frames as Pillow images with one common palette.

        A palette per frame flickers and makes files several times as large. The palette is computed from the first,
        middle and last frame.
        """
        from PIL import Image

        sample = np.concatenate([self.frames[index] for index in {0, len(self.frames) // 2, -1}])
        palette = Image.fromarray(sample).quantize(colors=COLOURS, dither=Image.Dither.NONE)
        return [Image.fromarray(frame).quantize(palette=palette, dither=Image.Dither.NONE) for frame in self.frames]

    def _save_gif(self, target: Any) -> None:
        first, *others = self._few_colours
        first.save(target, format="gif", save_all=True, append_images=others, duration=self._times, loop=0)

    def _save_mp4(self, path: Path) -> None:
        import imageio_ffmpeg

        repeats = round(self.frames_per_second * self.seconds_at_an_end)
        height, width = self.frames[0].shape[:2]
        film = imageio_ffmpeg.write_frames(
            str(path), (width, height), fps=self.frames_per_second, macro_block_size=2, quality=8
        )
        film.send(None)
        try:
            for index, frame in enumerate(self.frames):
                for _ in range(repeats if index in self.ends else 1):
                    film.send(np.ascontiguousarray(frame))
        finally:
            film.close()

    def _save_html(self, path: Path) -> None:
        path.write_text(self.html(), encoding="utf-8")

    def _repr_html_(self) -> str:
        """Return the GIF inline for a notebook, so that it is displayed wherever the notebook is."""
        gif = BytesIO()
        self._save_gif(gif)
        data = base64.b64encode(gif.getvalue()).decode("ascii")
        return f'<img alt="{escape(self.title)}" src="data:image/gif;base64,{data}">'

    def __repr__(self) -> str:
        """Return the number of frames and the path of the last ``save``."""
        return f"Animation({len(self.frames)} frames{f', {self.path}' if self.path else ''})"


class Player:
    """Animation displayed by a notebook with buttons and a slider."""

    def __init__(self, animation: Animation) -> None:
        self.animation = animation

    def _repr_html_(self) -> str:
        """Return the page in an iframe, which isolates its names and styles."""
        height, width = self.animation.frames[0].shape[:2]
        style = f"width: 100%; max-width: {width + 32}px; height: {height + 130}px; border: 0"
        page, title = escape(self.animation.html()), escape(self.animation.title)
        return f'<iframe srcdoc="{page}" sandbox="allow-scripts" title="{title}" style="{style}"></iframe>'


def check_output(path: Path) -> None:
    """Check, before anything is rendered, that ``path`` can be written as an animation.

    Raises:
        WarpDriveError: it cannot.
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


def _png(picture: Any) -> bytes:
    png = BytesIO()
    picture.save(png, format="png", compress_level=9)
    return png.getvalue()
