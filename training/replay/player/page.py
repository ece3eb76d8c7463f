"""Player page: recordings as one HTML file, which draws their scenes in the browser."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from warpdrive.environment import State
from warpdrive.figures import png_address
from warpdrive.scene import fields, geometry
from warpdrive.scene.artist import Artist
from warpdrive.scene.page import described_scenery, page
from warpdrive.training.replay.few_colours import few_colours
from warpdrive.training.replay.film import Film
from warpdrive.training.replay.player.series import Series, series, size_of

_FOLDER = Path(__file__).parent
PAGE_BYTES, ARRAY_BYTES = 2_900_000, 200_000
"""Bytes of a page that arrays of agents may fill, and bytes that they may take in any case; others are left out."""
MAX_STATES, MAX_SHAPES, MAX_PICTURES = 20_000, 4_000_000, 1000
"""Maximum number of states, of their shapes, and of pictures in a page: of longer films, states are skipped."""
_COMPONENTS = 8
"""Arrays of more numbers per agent, such as pictures, are not shown."""
_FEW_SHAPES = 100_000
"""Up to so many shapes, all numbers are stored finely."""
_WHOLE_NUMBERS = (fields.KIND, fields.COLOUR, fields.EDGE, fields.LAYER, fields.TRAIL)


def player_page(films: Sequence[Film], frames_per_second: float, seconds_at_an_end: float, title: str) -> str:
    """Return a page that plays films one after the other.

    Args:
        films: The films.
        frames_per_second: The number of states per second.
        seconds_at_an_end: The time for which the last state of each film is held.
        title: The title of the page.

    Returns:
        HTML that needs no other files and no network.
    """
    contents = _Contents(films)
    shown = [contents.film(film) for film in films]
    contents.add_arrays(films, shown)
    data = {
        "title": title,
        "framesPerSecond": frames_per_second,
        "secondsAtAnEnd": seconds_at_an_end,
        "trail": {"shades": geometry.SHADES, "opacity": geometry.OPACITY, "longestPart": geometry.LONGEST_PART},
        "tags": films[0].recording.policy_tags,
        "colours": _colours_of_tags(films[0]),
        "films": shown,
    }
    return page(_FOLDER / "player.html", [_FOLDER / "series.js", _FOLDER / "player.js"], title, data)


class _Contents:
    """JSON form of films."""

    def __init__(self, films: Sequence[Film]) -> None:
        states = sum(length + 1 for film in films for length in film.lengths)
        rows = max(_rows(film) for film in films)
        most = MAX_PICTURES if not films[0].has_scenes else min(MAX_STATES, max(1, MAX_SHAPES // max(rows, 1)))
        self.every = -(-states // most)
        self.few = states * rows <= _FEW_SHAPES

    def film(self, film: Film) -> dict[str, Any]:
        last = film.recording.num_steps
        steps = [*range(0, last, self.every), last]
        return {
            "title": film.title,
            "steps": steps,
            "panels": [self._panel(film, index, steps) for index in range(len(film.lengths))],
        }

    def _panel(self, film: Film, index: int, steps: Sequence[int]) -> dict[str, Any]:
        shown = [min(step, film.lengths[index]) for step in steps]
        found: dict[str, Any] = {
            "replica": int(film.recording.replicas[index]),
            "length": film.lengths[index],
            "ending": film.ending(index),
            "returns": {tag: series(values[shown, index]) for tag, values in film.returns.items()},
            "arrays": [],
            "leftOut": [],
        }
        if film.has_scenes:
            found |= self._drawn(film, index, shown)
        else:
            found["pictures"] = _pictures(film, index, shown)
        return found

    def add_arrays(self, films: Sequence[Film], shown: Sequence[dict[str, Any]]) -> None:
        """Add arrays of agents to films as far as they fit the page."""
        left = max(PAGE_BYTES - len(json.dumps(shown)), ARRAY_BYTES)
        for film, described in zip(films, shown, strict=True):
            for index, panel in enumerate(described["panels"]):
                states = [film.states[index][min(step, film.lengths[index])] for step in described["steps"]]
                for name in _names_to_show(film, states[0]):
                    values = np.stack([state[name] for state in states])
                    whole = values.dtype.kind != "f" or values.size <= _FEW_SHAPES
                    written = series(values, None if whole else _roughly(values))
                    if size_of(written) > left:
                        panel["leftOut"].append(name)
                        continue
                    left -= size_of(written)
                    of_agents = states[0][name].shape[:1] == (film.env.num_agents,)
                    panel["arrays"].append({"name": name, "ofAgents": of_agents, "series": written})

    def _drawn(self, film: Film, index: int, steps: Sequence[int]) -> dict[str, Any]:
        scenes = [film.scene(index, step) for step in steps]
        rows = max(len(scene.shapes) for scene in scenes)
        shapes = np.zeros((len(scenes), rows, len(fields.FIELDS)), np.float32)
        for place, scene in zip(shapes, scenes, strict=True):
            place[: len(scene.shapes)] = scene.shapes
        sceneries: list[str] = []
        numbers: list[int] = []
        known: dict[tuple[int, ...], int] = {}
        for scene in scenes:  # most environments return the same polygons again and again
            key = (*map(id, (*scene.polygons, *scene.texts, *scene.images)), hash((scene.view, scene.caption)))
            if key not in known:
                text = json.dumps(described_scenery(scene))
                if text not in sceneries:
                    sceneries.append(text)
                known[key] = sceneries.index(text)
            numbers.append(known[key])
        each = int(film.env.shapes_per_agent) if film.env.draw is not None else 0
        return {
            "sceneries": [json.loads(text) for text in sceneries],
            "scenery": series(np.array(numbers)),
            "rows": rows,
            "shapesPerAgent": each,
            "rowsOfAgents": each * int(film.env.num_agents),
            "shapes": self._shapes(shapes, scenes[0].view),
        }

    def _shapes(self, shapes: npt.NDArray[np.float32], view: tuple[float, float, float, float]) -> list[Series]:
        """Return a series for each field, rounded to what can be seen."""
        extent = max(view[1] - view[0], view[3] - view[2])
        fine = extent / 2**16
        resolutions = {field: fine for field in range(len(fields.FIELDS))}
        if (shapes[..., fields.KIND] == fields.SECTOR).any():
            resolutions[fields.HEIGHT] = min(fine, np.pi / 2**9)  # an angle
        resolutions[fields.OPACITY] = 1 / 2**8
        resolutions[fields.ANGLE] = np.pi / (2**15 if self.few else 2**8)
        if not self.few:
            resolutions |= {fields.X: extent / 2**12, fields.Y: extent / 2**12}
        nothing = shapes[..., fields.KIND] == fields.NOTHING
        found = []
        for field in range(len(fields.FIELDS)):
            values = shapes[..., field]
            if field in _WHOLE_NUMBERS:
                found.append(series(np.rint(values).astype(np.int32)))
            else:
                found.append(series(_held(values, nothing), resolutions[field]))
        return found


def _held(values: npt.NDArray[np.float32], nothing: npt.NDArray[np.bool_]) -> npt.NDArray[np.float32]:
    """Return values that stay the same while there is no shape, which takes no bytes."""
    if not nothing.any():
        return values
    last = np.maximum.accumulate(np.where(nothing, 0, np.arange(len(values))[:, None]), axis=0)
    return np.take_along_axis(values, last, axis=0)


def _roughly(values: npt.NDArray[np.floating]) -> float:
    """Return a thousandth of the range of numbers."""
    finite = values[np.isfinite(values)]
    return float(np.ptp(finite)) / 1000 if finite.size else 1.0


def _rows(film: Film) -> int:
    """Return the number of shapes of the first state of a film."""
    return len(film.scene(0, 0).shapes) if film.has_scenes else 0


def _colours_of_tags(film: Film) -> dict[str, int]:
    """Return the colour in which the agents of each tag are drawn; if it is not one for each, one after the other."""
    tags = film.recording.policy_tags
    shapes = film.shapes(0)
    if shapes is not None:
        agents, each = int(film.env.num_agents), int(film.env.shapes_per_agent)
        first = shapes[0][: agents * each].reshape(agents, each, len(fields.FIELDS))[:, 0]
        drawn = [set(first[ids, fields.COLOUR].astype(int).tolist()) for ids in tags.values()]
        if all(len(colours) == 1 for colours in drawn) and len(set.union(*drawn)) == len(tags):
            return dict(zip(tags, map(min, drawn), strict=True))
    return {tag: number % fields.GREY for number, tag in enumerate(tags)}


def _names_to_show(film: Film, state: State) -> Iterable[str]:
    """Return the names of arrays with a few numbers per agent, or of the replica: rewards and actions first."""
    agents = int(film.env.num_agents)
    first = [name for name in state if name == "rewards" or name.startswith("actions")]
    for name in [*first, *(name for name in state if name not in first)]:
        array = np.asarray(state[name])
        count = array[0].size if array.shape[:1] == (agents,) else array.size
        if 0 < count <= _COMPONENTS and array.dtype.kind in "biuf":
            yield name


def _pictures(film: Film, index: int, steps: Sequence[int]) -> list[str]:
    artist = Artist(film.env)
    return [png_address(image) for image in few_colours([film.picture(index, step, artist) for step in steps])]
