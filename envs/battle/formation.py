"""Start formation of two teams that face each other."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from warpdrive.errors import DefinitionError

IntArray = npt.NDArray[np.int32]


def blocks(agents_per_team: int, map_size: int, spacing: int, gap: int) -> tuple[IntArray, IntArray]:
    """Return x and y of all agents, first team first: two square blocks, mirror images of each other.

    A block is filled from the front column to the back one, so that only the last may be shorter.

    Args:
        agents_per_team: The number of agents of each team.
        map_size: The number of cells along each side of the map.
        spacing: The distance in cells between agents of a block.
        gap: The number of cells between the middle of the map and each block.

    Returns:
        Two integer arrays ``[2 * agents_per_team]``.

    Raises:
        DefinitionError: If the blocks do not fit on the map.
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
