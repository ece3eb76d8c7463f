"""Frames with a common palette, which makes files small."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from warpdrive.figures import Frame

COLOURS = 128


def few_colours(frames: Sequence[Frame]) -> list[Any]:
    """Return Pillow images of ``[height, width, 3]`` frames with one palette.

    A palette per frame flickers and makes files several times as large. The palette is computed from the first, middle
    and last frame.
    """
    from PIL import Image

    sample = np.concatenate([frames[index].reshape(1, -1, 3) for index in {0, len(frames) // 2, -1}], axis=1)
    palette = Image.fromarray(sample).quantize(colors=COLOURS, dither=Image.Dither.NONE)
    return [Image.fromarray(frame).quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
