"""Animations on disk and in notebooks, read back with a library other than the one that writes them."""

from __future__ import annotations

import base64
import json
import re
import sys
from html import unescape
from html.parser import HTMLParser
from io import BytesIO

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from warpdrive.errors import WarpDriveError
from warpdrive.figures import frame_of
from warpdrive.training.replay.animation import Animation, check_output

PAGE_HAS = ("sources", "milliseconds")
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


class References(HTMLParser):
    """Collects whatever a page would load, and its scripts."""

    def __init__(self):
        super().__init__()
        self.loaded, self.script = [], ""

    def handle_starttag(self, tag, attributes):
        self.loaded += [value for name, value in attributes if name in ("src", "href", "srcset", "data")]

    def handle_data(self, data):
        if self.lasttag == "script":
            self.script += data


def read_page(page):
    """Return the frames of a page as ``[frames, height, width, 3]``, and how many milliseconds each stays."""
    references = References()
    references.feed(page)
    sources, times = (re.search(rf"const {name} = (\[.*?\]);", references.script, re.DOTALL) for name in PAGE_HAS)
    sources = json.loads(sources.group(1))
    assert all(address.startswith("data:") for address in [*references.loaded, *sources])
    assert not re.search(r"https?:|//cdn|@import|\bfetch\(|import\(", re.sub(r"base64,[^\"]*", "", page))
    pictures = [Image.open(BytesIO(base64.b64decode(source.partition("base64,")[2]))) for source in sources]
    assert {picture.format for picture in pictures} == {"PNG"}
    return np.stack([np.asarray(picture.convert("RGB")) for picture in pictures]), json.loads(times.group(1))


def test_a_page_holds_the_frames_and_needs_nothing_else(tmp_path):
    animation = Animation(plain_frames(), frames_per_second=10, ends=[0], seconds_at_an_end=2, title="a < b & c")
    page = animation.save(tmp_path / "a.html").read_text(encoding="utf-8")
    frames, times = read_page(page)
    np.testing.assert_allclose(frames[:, 0, 0].astype(int), COLOURS.astype(int), atol=4)
    assert times == [2000, 100, 2000]
    assert "<title>a &lt; b &amp; c</title>" in page
    assert "{{" not in page, "everything is filled in"


def test_a_notebook_can_have_the_page_in_a_frame():
    animation = Animation(plain_frames())
    (page,) = re.findall(r'<iframe srcdoc="([^"]*)"', animation.player()._repr_html_())
    assert unescape(page) == animation.html()


def test_mp4_holds_the_frames_and_holds_the_last_one_longer(tmp_path):
    ffmpeg = pytest.importorskip("imageio_ffmpeg", reason="MP4 needs ffmpeg, which the extra 'video' brings")
    path = Animation(plain_frames(), frames_per_second=10, seconds_at_an_end=0.5).save(tmp_path / "a.mp4")
    film = ffmpeg.read_frames(str(path))
    assert next(film)["size"] == (30, 20)
    frames = [np.frombuffer(data, np.uint8).reshape(20, 30, 3)[10, 15].astype(int) for data in film]
    assert len(frames) == 2 + 5
    np.testing.assert_allclose(frames, COLOURS[[0, 1, 2, 2, 2, 2, 2]].astype(int), atol=40)


def test_a_figure_becomes_pixels():
    figure = Figure(figsize=(3, 2), dpi=50, facecolor="blue")
    frame = frame_of(figure)
    assert frame.shape == (100, 150, 3)
    assert frame.dtype == np.uint8
    assert (frame == [0, 0, 255]).all()
    assert frame_of(Figure(figsize=(3, 2), dpi=50), scale=0.5).shape == (50, 75, 3)


def test_what_is_no_figure_is_refused():
    with pytest.raises(WarpDriveError, match="render returned ndarray, expected a matplotlib Figure"):
        frame_of(np.zeros((3, 3, 3)))


def test_no_frames_are_no_animation():
    with pytest.raises(ValueError, match="at least one frame"):
        Animation([])


@pytest.mark.parametrize("name", ["tag.png", "tag", "tag.gif.txt"])
def test_other_formats_are_refused_by_name(tmp_path, name):
    with pytest.raises(WarpDriveError, match=r"\.gif, \.mp4 or \.html"):
        check_output(tmp_path / name)


def test_a_mistyped_format_is_guessed(tmp_path):
    with pytest.raises(WarpDriveError, match=r"Did you mean '\.html'"):
        check_output(tmp_path / "tag.htm")


def test_a_folder_is_refused(tmp_path):
    folder = tmp_path / "folder.gif"
    folder.mkdir()
    with pytest.raises(WarpDriveError, match="is a folder"):
        check_output(folder)


def test_mp4_without_ffmpeg_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(
        WarpDriveError, match=r"pip install 'warpdrive\[video\]'.*\.gif and \.html need no other package"
    ):
        Animation(plain_frames()).save(tmp_path / "tag.mp4")
