"""The player page in a browser, used with mouse, keyboard and fingers."""

from __future__ import annotations

import base64
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import Opened, browser, opened  # noqa: F401 (fixtures)
from films import Painted, painted_film, recording_of
from gymnasium import spaces
from matplotlib.figure import Figure
from numba import cuda
from PIL import Image

import warpdrive as wd
from warpdrive.recording.recording import Recording
from warpdrive.scene.colours import DARK, LIGHT, blend
from warpdrive.scene.raster import Raster
from warpdrive.scene.scene import Polygon, Scene
from warpdrive.training.replay.animation import Animation
from warpdrive.training.replay.film import Film

STEPS, REPLICAS = 24, 2
VIEW = (-2.0, 2.0, -1.0, 1.0)
MINUS = "\N{MINUS SIGN}"
STORED = Path(__file__).with_name("player.png")


@wd.kernel
def draw(shapes, x, y, heading, alive):  # type: ignore[no-untyped-def]
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    if agent == 0:
        wd.draw.circle(shapes, 0, x[env, 0], y[env, 0], 0.2, wd.draw.RED)
        wd.draw.sector(shapes, 1, x[env, 0], y[env, 0], 0.6, heading[env, 0], 1.0, wd.draw.YELLOW)
        wd.draw.style(shapes, 1, 0.5, -1, -1)
    elif agent == 1:
        wd.draw.rectangle(shapes, 0, x[env, 1], y[env, 1], 0.4, 0.2, heading[env, 1], wd.draw.BLUE)
        wd.draw.style(shapes, 0, 1.0, wd.draw.INK, 0)
        wd.draw.line(shapes, 1, x[env, 1], y[env, 1], 1.9, -0.9, 0.05, wd.draw.GREY)
    elif alive[env, agent]:
        wd.draw.triangle(shapes, 0, x[env, agent], y[env, agent], 0.3, heading[env, agent], wd.draw.GREEN)
        wd.draw.trail(shapes, 0, 10)


class Stage(wd.Environment):
    """Three agents that move as the recording says."""

    name = "stage"
    step = draw  # never runs
    draw, view, shapes_per_agent = draw, VIEW, 2
    num_agents = 3
    termination_meaning = "the curtain falls"
    observation_space, action_space = spaces.Box(-1, 1, (1,)), spaces.Discrete(5)

    def scenery(self, state: dict[str, Any]) -> Scene:
        wall = np.array([[-1.8, -0.8], [-1.4, -0.8], [-1.6, -0.3]], np.float32)
        return Scene(self.view, polygons=[Polygon(wall, wd.draw.GREY, wd.draw.INK, 0.02)])


def recording() -> Recording:
    """Return a recording: the red agent moves to the right, the blue one turns, the green one flies in a circle."""
    time = np.linspace(0, 1, STEPS + 1, dtype=np.float32)[:, None].repeat(REPLICAS, axis=1)
    still = np.zeros_like(time)
    x = np.stack([-1 + 2 * time, still + 0.9, 0.6 * np.cos(4 * time)], axis=-1)
    y = np.stack([still + 0.5, still - 0.5, 0.6 * np.sin(4 * time)], axis=-1)
    y[:, 1] *= -1  # the second replica is upside down
    heading = np.stack([-time, 3 * time, 4 * time + np.pi / 2], axis=-1)
    rewards = np.tile(np.array([1.0, 0.5, -0.25], np.float32), (STEPS, REPLICAS, 1))
    actions = np.arange(STEPS, dtype=np.int32)[:, None, None].repeat(REPLICAS, axis=1) % 5 + np.arange(
        3, dtype=np.int32
    )
    return Recording(
        env_name="stage",
        env_config=None,
        policy_tags={"actor": [0, 1], "bird": [2]},
        by_tag=[],
        replicas=np.array([0, 5]),
        seed=0,
        states={"x": x, "y": y, "heading": heading, "alive": np.ones((STEPS + 1, REPLICAS, 3), np.int32)},
        actions=actions,
        rewards=rewards,
        log_probabilities=np.zeros_like(rewards),
        lengths=np.full(REPLICAS, STEPS, np.int32),
        terminated=np.ones(REPLICAS, bool),
        truncated=np.zeros(REPLICAS, bool),
    )


@pytest.fixture(scope="module")
def film() -> Film:
    return Film(Stage(), recording())


@pytest.fixture(scope="module")
def page_file(film: Film, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Animation([film], 20, title="a stage").save(tmp_path_factory.mktemp("player") / "stage.html")


@pytest.fixture
def page(page_file: Path, opened: Opened) -> Any:  # noqa: F811
    """Give the page, paused at the first step."""
    page = ready(opened(page_file))
    page.keyboard.press("Home")
    return page


def ready(page: Any) -> Any:
    page.wait_for_function("window.player !== undefined")
    return page


def state(page: Any) -> int:
    return int(page.evaluate("player.state()"))


def point_of(page: Any, x: float, y: float, panel: int = 0) -> tuple[float, float]:
    """Return where a point of the world is on the page, if nothing is zoomed."""
    box = page.locator("figure canvas").nth(panel).bounding_box()
    scale = (box["width"] - 2) / (VIEW[1] - VIEW[0])  # a border of one pixel
    return box["x"] + 1 + scale * (x - VIEW[0]), box["y"] + 1 + scale * (VIEW[3] - y)


def picture_of(page: Any, panel: int = 0) -> np.ndarray[Any, Any]:
    """Return the pixels of a panel, ``[height, width, 3]``."""
    address = page.evaluate("number => document.querySelectorAll('figure canvas')[number].toDataURL()", panel)
    with Image.open(BytesIO(base64.b64decode(address.partition(",")[2]))) as picture:
        return np.asarray(picture.convert("RGB"))


def colour_at(page: Any, x: float, y: float, panel: int = 0) -> tuple[int, ...]:
    """Return the colour of a panel at a point of the page."""
    box = page.locator("figure canvas").nth(panel).bounding_box()
    return tuple(picture_of(page, panel)[round(y - box["y"] - 1), round(x - box["x"] - 1)].tolist())


def of(colour: str) -> tuple[int, ...]:
    return blend(colour, colour, 1.0)


def test_it_plays_by_itself_and_starts_again(page_file: Path, opened: Opened) -> None:  # noqa: F811
    page = ready(opened(page_file))
    assert page.title() == "a stage"
    page.wait_for_function("player.state() > 3")
    page.select_option("#speed", "8")
    captions = page.wait_for_function(  # read at once: it plays on
        """() => {
            const lines = [...document.querySelectorAll("figcaption b")].map(line => line.textContent)
            return lines[0].includes("the curtain falls") ? lines : null
        }"""
    )
    assert captions.json_value() == [f"replica {replica} · step {STEPS}: the curtain falls" for replica in (0, 5)]
    page.wait_for_function("player.state() < 20")
    page.click("#play")
    stopped = state(page)
    page.wait_for_timeout(200)
    assert state(page) == stopped
    assert page.inner_text("#play") == "Play"


def test_it_does_not_play_where_motion_is_unwanted(page_file: Path, opened: Opened) -> None:  # noqa: F811
    page = ready(opened(page_file, reduced_motion="reduce"))
    assert not page.evaluate("player.isPlaying()")


def test_steps_are_chosen_by_keys_buttons_and_the_slider(page: Any) -> None:
    for press, expected in [
        *[("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("End", STEPS), ("ArrowRight", 0), ("End", STEPS)],
        *[("#back", STEPS - 1), ("#forward", STEPS)],
    ]:
        page.click(press) if press.startswith("#") else page.keyboard.press(press)
        assert state(page) == expected
    page.fill("#frame", "7")
    assert state(page) == 7
    assert page.inner_text("#place") == f"7 / {STEPS}"
    assert page.locator("figcaption span").first.inner_text() == f"return actor 5.25 bird {MINUS}1.75"
    curves = page.locator("#curves").bounding_box()
    page.mouse.click(curves["x"] + curves["width"] - 7, curves["y"] + 20)
    assert state(page) == STEPS, "a click on the curves"
    page.keyboard.press(" ")
    assert page.evaluate("player.isPlaying()")


@pytest.mark.parametrize("step", [0, 11, STEPS])
def test_panels_are_what_the_rasterizer_draws(page: Any, film: Film, step: int) -> None:
    """Pillow is the reference: edges are smoothed in another way, which few pixels show."""
    page.fill("#frame", str(step))
    for panel in range(REPLICAS):
        picture = picture_of(page, panel)
        shapes = film.shapes(panel)
        assert shapes is not None
        expected = Raster(VIEW, picture.shape[1], LIGHT, margin=0).frame(film.scene(panel, step), list(shapes[:step]))
        difference = np.abs(picture[4:-4, 4:-4].astype(int) - expected[4 : len(picture) - 4, 4:-4]).max(axis=-1)
        assert difference.mean() < 1.5, difference.mean()
        assert (difference > 60).mean() < 0.004, (difference > 60).mean()


def test_the_page_looks_as_it_did(page: Any, tmp_path: Path) -> None:
    """Words are hidden, as fonts differ. To accept a new look, copy the new picture over the stored one."""
    page.fill("#frame", "9")
    page.add_style_tag(content="figcaption, aside, nav * { visibility: hidden }")
    page.screenshot(path=tmp_path / "player.png")
    with Image.open(tmp_path / "player.png") as found, Image.open(STORED) as stored:
        difference = np.abs(np.asarray(found.convert("RGB")).astype(int) - np.asarray(stored.convert("RGB"))).max(
            axis=-1
        )
    assert difference.mean() < 0.5, f"see {tmp_path / 'player.png'}"
    assert (difference > 60).mean() < 0.002


def test_the_pointer_shows_arrays_and_a_click_chooses_the_agent(page: Any) -> None:
    page.fill("#frame", "12")
    page.mouse.move(*point_of(page, 0.05, 0.5))
    page.wait_for_selector("#tip:not([hidden])")
    tip = page.inner_text("#tip").split("\n")
    assert tip == ["actor 0", "rewards  1", "actions  1", "x  0", "y  0.500", f"heading  {MINUS}0.500", "alive  1"]
    page.mouse.move(*point_of(page, -1.2, 0.9))
    page.wait_for_selector("#tip", state="hidden")
    page.mouse.click(*point_of(page, 1.4, 0.2, panel=1))  # on the line of the blue one, which is turned over there
    assert page.evaluate("player.agent()") is None
    page.mouse.click(*point_of(page, 0.9, 0.5, panel=1))
    page.wait_for_selector("#arrays table")
    rows = dict(row.split("\t") for row in page.inner_text("#arrays table").split("\n"))
    assert (rows["return"], rows["rewards"], rows["actions"], rows["y"]) == ("6.00", "0.500", "2", "0.500")
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#arrays tr:first-child td") == "6.50"
    page.keyboard.press("]")
    page.wait_for_function("player.agent() === 2")
    page.keyboard.press("[")
    page.wait_for_function("player.agent() === 1")
    page.keyboard.press("Escape")
    page.wait_for_function("player.agent() === null")
    page.select_option("#agent", "2")
    page.wait_for_function("document.querySelector('#arrays td').textContent === '\\u22123.25'")


def test_zoom_by_wheel_keeps_what_is_under_the_pointer(page: Any) -> None:
    place = point_of(page, -1.0, 0.5)  # the red agent
    page.mouse.move(*place)
    page.mouse.wheel(0, -900)
    page.wait_for_function("player.camera()?.zoom > 3")
    assert colour_at(page, *place) == of(LIGHT.red)
    radius = 0.2 * (place[0] - point_of(page, -2.0, 0)[0])  # in pixels before
    assert colour_at(page, place[0] + 2 * radius, place[1]) == of(LIGHT.red), "it is larger now"
    page.mouse.down()
    page.mouse.move(place[0] + 60, place[1] + 20, steps=3)
    page.mouse.up()
    assert colour_at(page, place[0] + 60, place[1] + 20) == of(LIGHT.red), "it follows the mouse"
    page.keyboard.press("0")
    assert page.evaluate("player.camera()") is None
    assert colour_at(page, place[0] + 2 * radius, place[1]) != of(LIGHT.red)


def test_zoom_by_keys_and_buttons(page: Any) -> None:
    page.keyboard.press("+")
    page.click("#closer")
    assert page.evaluate("player.camera().zoom") == pytest.approx(2.25)
    page.keyboard.press("Shift+ArrowLeft")
    assert page.evaluate("player.camera().x") == pytest.approx(0.5 - 0.1 / 2.25)
    page.keyboard.press("-")
    page.click("#farther")
    assert page.evaluate("player.camera()") is None


def test_an_agent_is_followed(page: Any) -> None:
    page.select_option("#agent", "0")
    page.focus("#play")
    page.keyboard.press("c")
    assert page.get_attribute("#follow", "aria-pressed") == "true"
    for step in (0, 15):
        page.fill("#frame", str(step))
        box = page.locator("figure canvas").first.bounding_box()
        middle = box["x"] + 0.5 * box["width"], box["y"] + 0.5 * box["height"]
        assert colour_at(page, *middle) == of(LIGHT.red)


def test_two_fingers_zoom(page_file: Path, opened: Opened) -> None:  # noqa: F811
    page = ready(opened(page_file, 390, 700, has_touch=True, is_mobile=True))
    page.keyboard.press("Home")
    x, y = point_of(page, 0.0, 0.0)
    session = page.context.new_cdp_session(page)

    def touch(kind: str, distance: float) -> None:
        fingers = [{"x": x + side * distance, "y": y, "id": number} for number, side in enumerate((-1, 1))]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": fingers if kind != "touchEnd" else []})

    touch("touchStart", 20)
    for distance in (30, 40, 50, 60):
        touch("touchMove", distance)
    touch("touchEnd", 0)
    assert page.evaluate("player.camera().zoom") == pytest.approx(3, rel=0.1)


@pytest.mark.parametrize(("width", "height"), [(360, 640), (1920, 1080)])
def test_it_fits_narrow_and_wide_screens(page_file: Path, opened: Opened, width: int, height: int) -> None:  # noqa: F811
    page = ready(opened(page_file, width, height))
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    boxes = [page.locator("figure").nth(panel).bounding_box() for panel in range(REPLICAS)]
    assert all(box["x"] >= 0 and box["x"] + box["width"] <= width for box in boxes)
    assert page.locator("#play").is_visible()


def test_dark_and_light(page_file: Path, opened: Opened) -> None:  # noqa: F811
    page = ready(opened(page_file, color_scheme="dark"))
    corner = (picture_of(page)[3, 3]).tolist()
    assert tuple(corner) == of(DARK.ground)
    page.keyboard.press("d")
    assert tuple(picture_of(page)[3, 3].tolist()) == of(LIGHT.ground)


class Plotted(Painted):
    """Its picture is a figure."""

    def render(self, state: dict[str, Any], trail: Any = ()) -> Any:
        return Figure(figsize=(2, 1), dpi=50, facecolor=(0.2 * int(state["colour"]), 0, 0))


def test_figures_are_played_as_pictures_and_films_follow_one_another(opened: Opened, tmp_path: Path) -> None:  # noqa: F811
    films = [Film(Plotted(), recording_of(colours), f"episode {n}") for n, colours in enumerate([[0, 1], [2, 3, 4]])]
    page = ready(opened(Animation(films).save(tmp_path / "plots.html")))
    reds, words = [], []
    page.keyboard.press("Home")
    for _ in range(5):
        reds.append(int(picture_of(page)[50, 50, 0]))
        words.append(page.inner_text("figcaption b"))
        page.keyboard.press("ArrowRight")
    np.testing.assert_allclose(reds, [0, 51, 102, 153, 204], atol=2)
    assert words == [
        *("episode 0 · step 0", "episode 0 · step 1: the paint is dry"),
        *("episode 1 · step 0", "episode 1 · step 1", "episode 1 · step 2: the paint is dry"),
    ]


def test_images_and_captions_of_scenes_are_shown(opened: Opened, tmp_path: Path) -> None:  # noqa: F811
    film = painted_film([wd.draw.RED, wd.draw.GREEN], image=True)
    page = ready(opened(Animation([film]).save(tmp_path / "image.html")))
    page.keyboard.press("Home")
    picture = picture_of(page)
    scale = picture.shape[1] / 4
    places = [(1.1, 1.4), (2.9, 1.4), (1.1, 0.6), (2.9, 0.6)]
    found = [picture[round((2 - y) * scale), round(x * scale)].tolist() for x, y in places]
    assert found == [[255, 0, 0], [0, 0, 255], [0, 255, 0], [0, 0, 0]]
    assert page.inner_text("figcaption span").startswith(f"colour {wd.draw.RED}")
