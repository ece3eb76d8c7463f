"""Serialisation of spaces, so that a checkpoint describes its policies' inputs and outputs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import Space, spaces

from warpdrive.adapted import BoxWithIds
from warpdrive.errors import CheckpointError, DefinitionError, shown

_LARGEST = 2**24
"""Maximum number of elements of an observation, or of choices of an action, in a description that is read."""


def describe_space(space: Space[Any]) -> dict[str, Any]:
    """Return a JSON-serialisable description that :func:`space_of` reads back to an equal space.

    Raises:
        DefinitionError: If the space is not a Box, Discrete, MultiDiscrete, or Dict of these.
    """
    if isinstance(space, BoxWithIds):
        return {**describe_space(space.original), "num_ids": space.num_ids}
    if isinstance(space, spaces.Box):
        bounds = {"low": _numbers(space.low), "high": _numbers(space.high)}
        return {"type": "Box", "shape": list(space.shape), "dtype": str(space.dtype), **bounds}
    if isinstance(space, spaces.Discrete):
        return {"type": "Discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.MultiDiscrete):
        return {"type": "MultiDiscrete", "nvec": space.nvec.tolist()}
    if isinstance(space, spaces.Dict):
        return {"type": "Dict", "spaces": {key: describe_space(part) for key, part in space.spaces.items()}}
    raise DefinitionError(f"found the space {space}, expected Box, Discrete, MultiDiscrete or a Dict of these")


def space_of(description: dict[str, Any]) -> Space[Any]:
    """Return the space of a description by :func:`describe_space`.

    Raises:
        CheckpointError: If the description is malformed or of an unknown kind.
    """
    try:
        if not _size_of(description) <= _LARGEST:  # also refuses nan
            raise ValueError
        return _space_of(description)
    except (KeyError, TypeError, ValueError, AssertionError, OverflowError, AttributeError, RecursionError):
        raise CheckpointError(f"found the space {shown(description)}, which is not what was saved") from None


def _space_of(description: Any) -> Space[Any]:
    kind = description["type"]
    if kind == "Box":
        shape, dtype = tuple(description["shape"]), np.dtype(description["dtype"])
        if dtype.kind not in "biuf":
            raise ValueError
        low, high = (_array(description[bound], shape, dtype) for bound in ("low", "high"))
        box = spaces.Box(low, high, shape, dtype.type)
        return BoxWithIds(box, int(description["num_ids"])) if "num_ids" in description else box
    if kind == "Discrete":
        return spaces.Discrete(description["n"], start=description["start"])
    if kind == "MultiDiscrete":
        return spaces.MultiDiscrete(description["nvec"])
    if kind == "Dict":
        return spaces.Dict({key: _space_of(part) for key, part in description["spaces"].items()})
    raise CheckpointError(f"found a space of the type {shown(kind)}, which this version of WarpDrive does not support")


def _size_of(description: Any) -> float:
    """Return the number of elements or choices in a description, without creating the space."""
    kind = description["type"]
    if kind == "Box":
        return float(abs(math.prod(description["shape"])) + abs(description.get("num_ids", 0)))
    if kind == "Discrete":
        return float(abs(description["n"]))
    if kind == "MultiDiscrete":
        return float(sum(map(abs, np.ravel(description["nvec"]).tolist())))
    return sum(map(_size_of, description["spaces"].values())) if kind == "Dict" else 0


def _numbers(bound: npt.NDArray[Any]) -> Any:
    """Return a single number if all are equal; infinity, which JSON lacks, as text."""
    flat = bound.reshape(-1).tolist()
    described = [number if np.isfinite(number) else str(number) for number in flat]
    return described[0] if len(set(described)) == 1 else described


def _array(described: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    numbers = described if isinstance(described, list) else [described]
    array = np.array([float(number) if isinstance(number, str) else number for number in numbers], dtype)
    return np.full(shape, array[0], dtype) if len(numbers) == 1 else array.reshape(shape)
