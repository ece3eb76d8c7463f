"""Animations on disk and in notebooks, read back with a library other than the one that writes them."""

from __future__ import annotations

import base64
import json
import re
import sys
from html import unescape
from html.parser import HTMLParser
from io import BytesIO
from xml.etree import ElementTree

import numpy as np
import pytest
from films import painted_film
from matplotlib.figure import Figure
from PIL import Image
from series_reader import numbers_of

from warpdrive import draw
from warpdrive.errors import WarpDriveError
from warpdrive.figures import frame_of
from warpdrive.scene.colours import DARK, LIGHT, blend
from warpdrive.training.replay.animation import Animation, check_output

COLOURS = np.array([blend(LIGHT[colour], LIGHT[colour], 1.0) for colour in (draw.RED, draw.GREEN, draw.BLUE)])

GROUND = blend(LIGHT.ground, LIGHT.ground, 1.0)


def animation_of(*films, **options):
    return Animation(films or [painted_film()], **options)


def read_gif(source):
    """Return the frames of a GIF as ``[frames, height, width, 3]``, and their durations in milliseconds."""
    frames, durations = [], []
    with Image.open(source) as gif:
        for index in range(gif.n_frames):
            gif.seek(index)
            frames.append(np.asarray(gif.convert("RGB")))
            durations.append(gif.info["duration"])
        return np.stack(frames), durations, gif.info["loop"]


def middle_of(frames):
    """Return the colours of pictures, ``[frames, 3]``."""
    return frames[:, 100, frames.shape[2] // 2].astype(int)


def test_a_gif_holds_the_frames_and_holds_the_last_one_longer(tmp_path):
    path = animation_of(frames_per_second=10, seconds_at_an_end=2).save(tmp_path / "new" / "a.gif")
    frames, durations, loop = read_gif(path)
    np.testing.assert_allclose(middle_of(frames), COLOURS, atol=4)
    assert durations == [100, 100, 2000]
    assert loop == 0, "it starts again for ever"


def test_the_ends_of_all_films_are_held(tmp_path):
    films = [painted_film([draw.RED]), painted_film([draw.GREEN, draw.BLUE])]
    path = animation_of(*films, frames_per_second=20, seconds_at_an_end=1).save(tmp_path / "a.gif")
    frames, durations, _ = read_gif(path)
    assert durations == [1000, 50, 1000]
    np.testing.assert_allclose(middle_of(frames), COLOURS, atol=4)


def test_a_notebook_shows_the_same_gif():
    html = animation_of()._repr_html_()
    (data,) = re.findall(r'src="data:image/gif;base64,([^"]+)"', html)
    frames, _, _ = read_gif(BytesIO(base64.b64decode(data)))
    np.testing.assert_allclose(middle_of(frames), COLOURS, atol=4)


@pytest.mark.parametrize(("theme", "palette"), [("light", LIGHT), ("dark", DARK)])
def test_a_png_is_the_picture_of_one_step_in_the_colours_of_the_theme(tmp_path, theme, palette):
    animation = animation_of(theme=theme)
    with Image.open(animation.save(tmp_path / "a.png", step=2)) as picture:
        pixels = np.asarray(picture.convert("RGB"))[None]
    assert tuple(middle_of(pixels)[0]) == blend(palette[draw.BLUE], palette[draw.BLUE], 1.0)
    assert animation.png() == animation.png(1), "at half of the episode"


def test_an_svg_has_the_shapes_of_one_step_and_its_caption(tmp_path):
    path = animation_of(painted_film(replicas=2)).save(tmp_path / "a.svg", step=2)
    elements = list(ElementTree.parse(path).iter())
    filled = [element.get("d") for element in elements if element.get("fill") == LIGHT.blue]
    width = float(elements[3].get("width"))
    corners = [[float(number) for number in text[1:-1].split()] for text in filled]
    half = width / 2
    assert corners == [pytest.approx([0, half, width, half, width, 0, 0, 0], abs=0.01)] * 2
    assert [element.text for element in elements if element.tag.endswith("text")] == [
        *("replica 0   step 2: the paint is dry", "return   one 2.00   two 0.50   colour 0"),
        *("replica 1   step 2: the paint is dry", "return   one 2.00   two 0.50   colour 0"),
    ]


FOUR = [[255, 0, 0], [0, 0, 255], [0, 255, 0], [0, 0, 0]]


def test_an_image_of_a_scene_fills_its_place():
    (picture,) = (frame for frame in animation_of(painted_film([draw.RED], image=True)).frames)
    margin, scale = 14, (560 - 2 * 14) / 4
    places = [(1.1, 1.4), (2.9, 1.4), (1.1, 0.6), (2.9, 0.6)]
    assert [picture[round(margin + (2 - y) * scale), round(margin + x * scale)].tolist() for x, y in places] == FOUR
    assert picture[round(margin + 1 * scale), round(margin + 0.9 * scale)].tolist() == list(GROUND)


def test_an_image_is_a_part_of_an_svg(tmp_path):
    path = animation_of(painted_film([draw.RED], image=True)).save(tmp_path / "a.svg")
    (image,) = [element for element in ElementTree.parse(path).iter() if element.tag.endswith("image")]
    assert [float(image.get(name)) for name in ("x", "y", "width", "height")] == [140, 70, 280, 140]
    with Image.open(BytesIO(base64.b64decode(image.get("href").partition(",")[2]))) as pixels:
        assert np.asarray(pixels).reshape(-1, 3).tolist() == FOUR


@pytest.mark.parametrize("step", [-1, 3])
def test_a_step_that_was_not_recorded_is_refused(tmp_path, step):
    with pytest.raises(WarpDriveError, match=f"step: found {step}, expected 0 to 2"):
        animation_of().save(tmp_path / "a.png", step)
    assert animation_of().save(tmp_path / "a.gif", step).is_file(), "which has no step"


def test_an_unknown_theme_is_refused():
    with pytest.raises(WarpDriveError, match="theme: found 'blue', expected one of light, dark"):
        animation_of(theme="blue")


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


def contents_of(page):
    """Return the data of a page, which loads nothing."""
    references = References()
    references.feed(page)
    assert references.loaded == []
    (text,) = re.findall(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)
    assert not re.search(r"//cdn|@import|\bfetch\(|import\(", page.replace(text, ""))
    assert set(re.findall(r"https?:[^\s\"'<)]*", page.replace(text, ""))) <= {"http://www.w3.org/2000/svg"}
    assert "{{" not in page, "everything is filled in"
    return json.loads(text)


def test_a_page_has_the_scenes_and_needs_nothing_else(tmp_path):
    animation = animation_of(frames_per_second=10, seconds_at_an_end=2, title="a < b & c </script>")
    page = animation.save(tmp_path / "a.html").read_text(encoding="utf-8")
    data = contents_of(page)
    assert "<title>a &lt; b &amp; c &lt;/script&gt;</title>" in page
    assert (data["title"], data["framesPerSecond"], data["secondsAtAnEnd"]) == ("a < b & c </script>", 10, 2)
    (panel,) = data["films"][0]["panels"]
    chosen = numbers_of(panel["scenery"], 3)[:, 0].astype(int)
    colours = [panel["sceneries"][number]["polygons"][0]["colour"] for number in chosen]
    assert colours == [draw.RED, draw.GREEN, draw.BLUE]
    assert (panel["length"], panel["ending"]) == (2, "the paint is dry")
    assert numbers_of(panel["returns"]["two"], 3)[:, 0] == pytest.approx([0, 0.25, 0.5], abs=1e-4)


def test_a_notebook_can_have_the_page_in_a_frame():
    animation = animation_of()
    (page,) = re.findall(r'<iframe srcdoc="([^"]*)"', animation.player()._repr_html_())
    assert unescape(page) == animation.html()


def test_mp4_holds_the_frames_and_holds_the_last_one_longer(tmp_path):
    ffmpeg = pytest.importorskip("imageio_ffmpeg", reason="MP4 needs ffmpeg, which the extra 'video' brings")
    path = animation_of(frames_per_second=10, seconds_at_an_end=0.5).save(tmp_path / "a.mp4")
    film = ffmpeg.read_frames(str(path))
    width, height = next(film)["size"]
    frames = np.stack([np.frombuffer(data, np.uint8).reshape(height, width, 3) for data in film])
    assert len(frames) == 2 + 5
    np.testing.assert_allclose(middle_of(frames), COLOURS[[0, 1, 2, 2, 2, 2, 2]], atol=12)


def test_a_figure_becomes_pixels():
    figure = Figure(figsize=(3, 2), dpi=50, facecolor="blue")
    frame = frame_of(figure)
    assert frame.shape == (100, 150, 3)
    assert frame.dtype == np.uint8
    assert (frame == [0, 0, 255]).all()
    assert frame_of(Figure(figsize=(3, 2), dpi=50), scale=0.5).shape == (50, 75, 3)
    assert frame_of(frame) is frame
    assert frame_of(frame, scale=0.5).shape == (frame.shape[0] // 2, frame.shape[1] // 2, 3)


def test_what_is_no_figure_is_refused():
    with pytest.raises(WarpDriveError, match="render returned ndarray, expected a matplotlib Figure"):
        frame_of(np.zeros((3, 3, 3)))


@pytest.mark.parametrize("name", ["tag.bmp", "tag", "tag.gif.txt"])
def test_other_formats_are_refused_by_name(tmp_path, name):
    with pytest.raises(WarpDriveError, match=r"\.gif, \.mp4, \.html, \.png or \.svg"):
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
        animation_of().save(tmp_path / "tag.mp4")
