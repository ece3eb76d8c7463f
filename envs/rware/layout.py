"""Layouts of warehouses: from text, or from sizes of the columns of shelves."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from warpdrive.envs.common import parameters
from warpdrive.errors import DefinitionError, shown

LARGEST = 1000
"""Largest number of rows and of columns."""


def from_text(layout: Any) -> npt.NDArray[np.str_]:
    """Return the characters of a layout, ``[rows, columns]``."""
    if not isinstance(layout, str):
        raise DefinitionError(f"layout is {shown(layout)}, expected a text with a line for each row.")
    lines = layout.strip().replace(" ", "").lower().split("\n")
    for number, line in enumerate(lines, 1):
        wrong = line.strip("xg.")
        if wrong:
            raise DefinitionError(f"layout has {shown(wrong[0])} in line {number}, expected x, . or g.")
        if len(line) != len(lines[0]):
            raise DefinitionError(f"layout has {len(line)} cells in line {number}, but {len(lines[0])} in line 1.")
    if max(len(lines), len(lines[0])) > LARGEST:
        raise DefinitionError(f"layout has {len(lines)} x {len(lines[0])} cells, at most {LARGEST} each are possible.")
    kinds = np.array([list(line) for line in lines])
    for character, kind in (("g", "goal"), ("x", "shelf")):
        if not (kinds == character).any():
            raise DefinitionError(f"layout has no {kind} ({character!r}), expected one or more.")
    return kinds


def from_sizes(shelf_columns: Any, column_height: Any, shelf_rows: Any) -> npt.NDArray[np.str_]:
    """Return the characters of the warehouse, ``[rows, columns]``: columns of shelves, without one above the goals."""
    whole = parameters.whole
    wide = whole("shelf_columns", shelf_columns, at_least=1, at_most=LARGEST // 4)
    height = whole("column_height", column_height, at_least=1, at_most=LARGEST // 4)
    high = whole("shelf_rows", shelf_rows, at_least=1, at_most=LARGEST // (height + 1))
    if wide % 2 == 0:
        raise DefinitionError(f"shelf_columns is {wide}, expected an odd number.")
    if wide == high == 1:
        raise DefinitionError("shelf_columns and shelf_rows are 1: there is no shelf beside the way to the goals.")
    rows, columns = (height + 1) * high + 2, 3 * wide + 1
    y, x = np.indices((rows, columns))
    middle = (x == columns // 2 - 1) | (x == columns // 2)
    is_way = (x % 3 == 0) | (y % (height + 1) == 0) | (y == rows - 1) | (middle & (y > rows - (height + 3)))
    return np.where(middle & (y == rows - 1), "g", np.where(is_way, ".", "x"))
