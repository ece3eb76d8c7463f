"""Pictures one after the other: written as a GIF or MP4, and shown in notebooks."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpdrive.errors import WarpDriveError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Frame = npt.NDArray[np.uint8]
"""One picture, ``[height, width, 3]``."""

FORMATS = (".gif", ".mp4")


class Animation:
    """Frames and how fast they follow each other.

    Args:
        frames: pictures of the same size, ``[height, width, 3]`` uint8.
        frames_per_second: how fast they are shown.
        ends: which of them end an episode and stay for longer; the last one does in any case.
        seconds_at_an_end: how long those stay.
    """

    def __init__(
        self,
        frames: Sequence[Frame],
        frames_per_second: float = 10.0,
        ends: Iterable[int] = (),
        seconds_at_an_end: float = 1.5,
    ) -> None:
        if not frames:
            raise ValueError("an animation needs at least one frame")
        self.frames = list(frames)
        self.frames_per_second = frames_per_second
        self.ends = {*ends, len(self.frames) - 1}
        self.seconds_at_an_end = seconds_at_an_end
        self.path: Path | None = None
        """Where ``save`` wrote it last."""

    def save(self, path: str | Path) -> Path:
        """Write the animation; the name says the format: ``.gif`` or ``.mp4``."""
        path = Path(path)
        check_output(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        (self._save_gif if path.suffix.lower() == ".gif" else self._save_mp4)(path)
        self.path = path
        return path

    def _save_gif(self, target: Any) -> None:
        from PIL import Image

        # One palette for all: a palette per frame flickers and makes the file several times as large. The colours of
        # the first, middle and last frame are those of the whole.
        sample = np.concatenate([self.frames[index] for index in {0, len(self.frames) // 2, -1}])
        palette = Image.fromarray(sample).quantize(colors=128, dither=Image.Dither.NONE)
        pictures = [Image.fromarray(frame).quantize(palette=palette, dither=Image.Dither.NONE) for frame in self.frames]
        durations = [
            1000.0 * (self.seconds_at_an_end if index in self.ends else 1.0 / self.frames_per_second)
            for index in range(len(pictures))
        ]
        first, *others = pictures
        first.save(target, format="gif", save_all=True, append_images=others, duration=durations, loop=0)

    def _save_mp4(self, path: Path) -> None:
        import imageio.v2 as imageio

        repeats = round(self.frames_per_second * self.seconds_at_an_end)
        writer: Any  # what is returned has more than the type it is declared with
        with imageio.get_writer(path, fps=self.frames_per_second, macro_block_size=2) as writer:
            for index, frame in enumerate(self.frames):
                for _ in range(repeats if index in self.ends else 1):
                    writer.append_data(frame)

    def _repr_html_(self) -> str:
        """Return the picture itself for a notebook, so that it shows wherever the notebook is read."""
        from io import BytesIO

        gif = BytesIO()
        self._save_gif(gif)
        data = base64.b64encode(gif.getvalue()).decode("ascii")
        return f'<img alt="replay of an episode" src="data:image/gif;base64,{data}">'

    def __repr__(self) -> str:
        """Return the number of frames and where they were written."""
        return f"Animation({len(self.frames)} frames{f', {self.path}' if self.path else ''})"


def check_output(path: Path) -> None:
    """Raise WarpDriveError, before anything is rendered, if ``path`` cannot be written as an animation."""
    if path.suffix.lower() not in FORMATS:
        raise WarpDriveError(f"{path}: an animation's name ends in {' or '.join(FORMATS)}")
    if path.is_dir():
        raise WarpDriveError(f"{path}: is a folder; name a file in it")
    if path.suffix.lower() == ".mp4":
        try:
            import imageio_ffmpeg  # noqa: F401
        except ImportError:
            raise WarpDriveError(
                f"{path}: writing MP4 needs ffmpeg: pip install 'warpdrive[video]', or write a .gif"
            ) from None


def frame_of(figure: Figure) -> Frame:
    """Return a Matplotlib figure as pixels, and free it."""
    import sys

    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    pixels: Frame = np.array(canvas.buffer_rgba())[..., :3]
    # A figure made through pyplot stays in its list until closed; one made directly never loaded pyplot.
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close(figure)
    return pixels
