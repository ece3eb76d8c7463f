"""Pixels of Matplotlib figures, PNG files of pixels, and fonts of pictures."""

from __future__ import annotations

import base64
import sys
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpdrive.errors import WarpDriveError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Frame = npt.NDArray[np.uint8]
"""Image ``[height, width, 3]``."""


def frame_of(figure: Figure | Frame, scale: float = 1.0) -> Frame:
    """Return a Matplotlib figure, which is closed, or an image as pixels, scaled by ``scale``.

    Raises:
        WarpDriveError: it is neither.
    """
    if isinstance(figure, np.ndarray) and figure.dtype == np.uint8 and figure.shape[2:] == (3,):
        return figure if scale == 1.0 else _resized(figure, scale)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if not isinstance(figure, Figure):
        raise WarpDriveError(f"render returned {type(figure).__name__}, expected a matplotlib Figure or a uint8 image")
    figure.set_dpi(scale * figure.dpi)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    pixels: Frame = np.array(canvas.buffer_rgba())[..., :3]
    # A figure made through pyplot stays in its list until closed; one made directly never loaded pyplot.
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close(figure)
    return pixels


def _resized(frame: Frame, scale: float) -> Frame:
    from PIL import Image

    height, width = (max(1, round(scale * length)) for length in frame.shape[:2])
    return np.asarray(Image.fromarray(frame).resize((width, height)))


def png(picture: Any) -> bytes:
    """Return a frame, or a Pillow image, as a PNG file."""
    from PIL import Image

    file = BytesIO()
    image = Image.fromarray(picture) if isinstance(picture, np.ndarray) else picture
    image.save(file, format="png", compress_level=9)
    return file.getvalue()


def png_address(picture: Any) -> str:
    """Return a frame, or a Pillow image, as the address ``data:`` of a PNG file."""
    return "data:image/png;base64," + base64.b64encode(png(picture)).decode("ascii")


@cache
def font_of_size(size: int, bold: bool = False) -> Any:
    """Return Matplotlib's own font as a Pillow font of ``size`` pixels."""
    import matplotlib
    from PIL import ImageFont

    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    return ImageFont.truetype(str(folder / ("DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf")), size)
