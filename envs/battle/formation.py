"""Where two teams stand that face each other."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from warpdrive.errors import DefinitionError

IntArray = npt.NDArray[np.int32]


def blocks(agents_per_team: int, map_size: int, spacing: int, gap: int) -> tuple[IntArray, IntArray]:
    """Return x and y of all agents, first team first: two blocks as high as wide, of which one mirrors the other.

    A block is filled from the column in front to the one at its back, so that only the last may be shorter.

    Raises:
        DefinitionError: the blocks do not fit on the map.
    """
    rows = math.ceil(math.sqrt(agents_per_team))
    columns = math.ceil(agents_per_team / rows)
    width, height = (columns - 1) * spacing + 1, (rows - 1) * spacing + 1
    front = map_size // 2 - gap - 1
    if width > front + 1 or height > map_size:
        needed = max(2 * (width + gap), height)
        raise DefinitionError(
            f"map_size is {map_size}, but two blocks of {agents_per_team} agents with a spacing of {spacing} and a gap "
            f"of {gap} need {needed} cells or more."
        )
    member = np.arange(agents_per_team)
    x = front - spacing * (member // rows)
    y = (map_size - height) // 2 + spacing * (member % rows)
    return np.concatenate([x, map_size - 1 - x]).astype(np.int32), np.concatenate([y, y]).astype(np.int32)
