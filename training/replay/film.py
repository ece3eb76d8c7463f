"""Film: the states of a recording as scenes or pictures, with captions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from warpdrive.environment import Environment, State
from warpdrive.figures import Frame
from warpdrive.recording.recording import Recording
from warpdrive.scene.artist import Artist, rendered_by
from warpdrive.scene.scene import Scene, Shapes


class Caption(NamedTuple):
    """Text below the picture of a replica: title, replica and step; the end of the episode, or ""; the returns."""

    step: str
    ending: str
    returns: str


class Film:
    """States of a recording.

    Args:
        env: The environment that draws them.
        recording: The recording.
        title: The beginning of each caption; "" for none.
    """

    def __init__(self, env: Environment, recording: Recording, title: str = "") -> None:
        self.env, self.recording, self.title = env, recording, title
        self.returns = recording.returns
        self.lengths: list[int] = recording.lengths.tolist()
        self.states: list[list[State]] = [
            [recording.state(index, step) for step in range(length + 1)] for index, length in enumerate(self.lengths)
        ]
        self._artist = Artist(env)
        self._shapes: list[Shapes | None] = [None] * len(self.states)
        self._scenes: dict[int, tuple[int, Scene]] = {}  # last scene of each replica, and its step
        self.has_scenes = env.draw is not None or isinstance(rendered_by(env, self.states[0][0]), Scene)
        """True if the states are drawn as scenes, not as figures or pixels."""

    def shapes(self, index: int) -> Shapes | None:
        """Return the shapes of the ``draw`` kernel in all states of a replica, see ``Artist.shapes``, or None."""
        if self.env.draw is None:
            return None
        if self._shapes[index] is None:  # all states at once
            self._shapes[index] = self._artist.shapes(self.states[index])
        return self._shapes[index]

    def scene(self, index: int, step: int) -> Scene:
        """Return the scene of a replica after ``step`` steps. Requires ``has_scenes``."""
        if self._scenes.get(index, (-1,))[0] != step:
            states, shapes = self.states[index], self.shapes(index)
            if shapes is not None:
                scene = self._artist.scene(states[step], shapes[step])
            else:
                rendered = rendered_by(self.env, states[step], states[:step])
                assert isinstance(rendered, Scene)
                scene = rendered
            self._scenes[index] = step, scene
        return self._scenes[index][1]

    def earlier(self, index: int, step: int) -> Sequence[Shapes]:
        """Return the shapes of agents in the states of a replica before ``step``, for trails."""
        shapes = self.shapes(index)
        return () if shapes is None else list(shapes[:step])

    def picture(self, index: int, step: int, artist: Artist) -> Frame:
        """Return the picture of a replica after ``step`` steps, ``[height, width, 3]`` uint8."""
        if self.has_scenes:
            return artist.picture_of_scene(self.scene(index, step), self.earlier(index, step))
        return artist.picture(self.states[index][step], self.states[index][:step])

    def caption(self, index: int, step: int) -> Caption:
        """Return the caption of a replica after ``step`` steps, or at the end of its episode."""
        step = min(step, self.lengths[index])
        words = [self.title] if self.title else []
        if len(self.lengths) > 1:
            words.append(f"replica {self.recording.replicas[index]}")
        returns = [f"{tag} {in_short(float(values[step, index]))}" for tag, values in self.returns.items()]
        if self.has_scenes and (own := self.scene(index, step).caption):
            returns.append(own)
        ending = self.ending(index) if step == self.lengths[index] else ""
        return Caption("   ".join([*words, f"step {step}"]), ending, "   ".join(["return", *returns]))

    def ending(self, index: int) -> str:
        """Return how the episode of a replica ended; "" if the recording stopped before."""
        if self.recording.terminated[index]:
            return self.env.termination_meaning
        return "the time is up" if self.recording.truncated[index] else ""


def in_short(number: float) -> str:
    """Format a number with a few digits, and a minus sign as wide as a digit."""
    decimals = 2 if abs(number) < 100 else 1 if abs(number) < 1000 else 0
    return f"{number:.{decimals}f}".replace("-", "\N{MINUS SIGN}")
