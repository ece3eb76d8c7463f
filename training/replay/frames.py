"""Frames of one recording: its replicas side by side, with captions.

A frame shows the environment's ``render`` of each replica, and below it the step, how the episode ended and the
returns. Replicas whose episode has ended wait for the longest.
"""

from __future__ import annotations

from warpdrive.environment import Environment
from warpdrive.figures import Frame
from warpdrive.recording.recording import Recording
from warpdrive.scene.artist import Artist
from warpdrive.scene.scene import Shapes
from warpdrive.training.replay.montage import GAP, Panel, columns_for, fits_in_bold, side_by_side

WIDTH = 960
"""Default maximum width of a frame with several replicas, in pixels."""


class Film:
    """Frames of a recording, drawn with the ``render`` method of its environment.

    Args:
        env: environment that renders.
        recording: the recording.
        title: first caption of each picture; "" for none.
        width: width of a frame in pixels; None: that of ``render``, for several side by side at most :data:`WIDTH`.
    """

    def __init__(self, env: Environment, recording: Recording, title: str = "", width: int | None = None) -> None:
        self.env, self.recording, self.title = env, recording, title
        self.returns = recording.returns
        self.lengths = recording.lengths.tolist()
        self.states = [
            [recording.state(index, step) for step in range(length + 1)] for index, length in enumerate(self.lengths)
        ]
        self._artist = Artist(env)
        self._shapes: list[Shapes | None] = [None] * len(self.states)
        self._drawn: dict[int, tuple[int, Frame]] = {}  # last picture of each replica, and its step
        self.scale = 1.0
        natural_height, natural_width = self._picture(0, 0).shape[:2]
        self._drawn.clear()
        self.columns = columns_for(len(self.lengths), natural_width, natural_height)
        gaps = (self.columns - 1) * GAP
        if width is not None:
            self.scale = (width - gaps) / (self.columns * natural_width)
        elif len(self.lengths) > 1:
            self.scale = min(1.0, (WIDTH - gaps) / (self.columns * natural_width))
        self._artist = Artist(env, self.scale)
        # An ending that does not fit behind the step has a line of its own, from the first frame on.
        self.endings_apart = False
        longest = [self._lines(index, length)[0] for index, length in enumerate(self.lengths)]
        self.endings_apart = not all(fits_in_bold(line, round(self.scale * natural_width)) for line in longest)

    def frame(self, step: int) -> Frame:
        """Return the frame after ``step`` steps; a replica whose episode has ended keeps its last picture."""
        panels = [Panel(self._picture(index, step), self._lines(index, step)) for index in range(len(self.lengths))]
        return side_by_side(panels, self.columns)

    def _picture(self, index: int, step: int) -> Frame:
        step = min(step, self.lengths[index])
        if self._drawn.get(index, (-1,))[0] != step:
            self._drawn[index] = step, self._draw(index, step)
        return self._drawn[index][1]

    def _draw(self, index: int, step: int) -> Frame:
        states = self.states[index]
        if self.env.draw is None:
            return self._artist.picture(states[step], states[:step])
        if (shapes := self._shapes[index]) is None:  # all states at once
            shapes = self._shapes[index] = self._artist.shapes(states)
        return self._artist.picture_of_shapes(states[step], shapes[step], list(shapes[:step]))

    def _lines(self, index: int, step: int) -> list[str]:
        step = min(step, self.lengths[index])
        words = [self.title] if self.title else []
        if len(self.lengths) > 1:
            words.append(f"replica {self.recording.replicas[index]}")
        first, ending = "   ".join([*words, f"step {step}"]), self._ending(index, step)
        returns = [f"{tag} {in_short(float(values[step, index]))}" for tag, values in self.returns.items()]
        last = "   ".join(["return", *returns])
        if self.endings_apart:
            return [first, last, ending]
        return [f"{first}: {ending}" if ending else first, last]

    def _ending(self, index: int, step: int) -> str:
        if step < self.lengths[index]:
            return ""
        if self.recording.terminated[index]:
            return self.env.termination_meaning
        return "the time is up" if self.recording.truncated[index] else ""


def in_short(number: float) -> str:
    """Format a number with a few digits, and a minus sign as wide as a digit."""
    decimals = 2 if abs(number) < 100 else 1 if abs(number) < 1000 else 0
    return f"{number:.{decimals}f}".replace("-", "\N{MINUS SIGN}")
