"""Animations on disk and in notebooks, read back with another library than the one they are written for."""

from __future__ import annotations

import base64
import re
import sys
from io import BytesIO

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from warpdrive.errors import WarpDriveError
from warpdrive.training.animation import Animation, check_output, frame_of

COLOURS = np.array([[255, 0, 0], [0, 160, 0], [0, 0, 255]], np.uint8)


def plain_frames(colours=COLOURS):
    return [np.broadcast_to(colour, (20, 30, 3)).copy() for colour in colours]


def read_gif(source):
    """Return the frames of a GIF as ``[frames, height, width, 3]``, and their durations in milliseconds."""
    frames, durations = [], []
    with Image.open(source) as gif:
        for index in range(gif.n_frames):
            gif.seek(index)
            frames.append(np.asarray(gif.convert("RGB")))
            durations.append(gif.info["duration"])
        return np.stack(frames), durations, gif.info["loop"]


def test_a_gif_holds_the_frames_and_holds_the_last_one_longer(tmp_path):
    path = Animation(plain_frames(), frames_per_second=10, seconds_at_an_end=2).save(tmp_path / "new" / "a.gif")
    frames, durations, loop = read_gif(path)
    assert frames.shape == (3, 20, 30, 3)
    np.testing.assert_allclose(frames[:, 0, 0].astype(int), COLOURS.astype(int), atol=4)
    assert durations == [100, 100, 2000]
    assert loop == 0, "it starts again for ever"


def test_other_ends_are_held_as_well(tmp_path):
    path = Animation(plain_frames(), frames_per_second=20, ends=[0], seconds_at_an_end=1).save(tmp_path / "a.gif")
    assert read_gif(path)[1] == [1000, 50, 1000]


def test_a_notebook_shows_the_same_gif():
    html = Animation(plain_frames())._repr_html_()
    (data,) = re.findall(r'src="data:image/gif;base64,([^"]+)"', html)
    frames, _, _ = read_gif(BytesIO(base64.b64decode(data)))
    assert len(frames) == 3


def test_a_figure_becomes_pixels():
    figure = Figure(figsize=(3, 2), dpi=50, facecolor="blue")
    frame = frame_of(figure)
    assert frame.shape == (100, 150, 3)
    assert frame.dtype == np.uint8
    assert (frame == [0, 0, 255]).all()


def test_no_frames_are_no_animation():
    with pytest.raises(ValueError, match="at least one frame"):
        Animation([])


@pytest.mark.parametrize("name", ["tag.png", "tag", "tag.gif.txt"])
def test_other_formats_are_refused_by_name(tmp_path, name):
    with pytest.raises(WarpDriveError, match=r"\.gif or \.mp4"):
        check_output(tmp_path / name)


def test_a_folder_is_refused(tmp_path):
    folder = tmp_path / "folder.gif"
    folder.mkdir()
    with pytest.raises(WarpDriveError, match="is a folder"):
        check_output(folder)


def test_mp4_without_ffmpeg_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(WarpDriveError, match=r"warpdrive\[video\]"):
        Animation(plain_frames()).save(tmp_path / "tag.mp4")
