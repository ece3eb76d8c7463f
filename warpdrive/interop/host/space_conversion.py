"""Conversion of other libraries' observations and actions to and from arrays, without PyTorch.

Spaces are flattened to their leaves. Boxes keep their shape; NumPy's 64-bit types become 32-bit ones.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from warpdrive.errors import DefinitionError, shown

Array = npt.NDArray[Any]
Path = tuple[str | int, ...]

ACTION_MASK = "action_mask"
"""Key of a Dict space, or of an info, with the allowed actions."""

_INT32 = np.iinfo(np.int32)
_KEPT = ("uint8", "int8", "int16", "int32", "float32")
_MOST_CHOICES = 1024  # of a component of an integer Box of actions


@dataclass(frozen=True)
class _Leaf:
    """Part of a nested space.

    Attributes:
        path: The keys and indices that lead to it.
        given: The library's space.
        space: The same as a Box, Discrete or MultiDiscrete space that starts at 0.
        start: The offset of the library's values, for discrete spaces.
    """

    path: Path
    given: spaces.Space[Any]
    space: spaces.Space[Any]
    start: Any = 0

    @cached_property
    def is_shifted(self) -> bool:
        return bool(np.any(self.start))

    @property
    def name(self) -> str:
        return re.sub(r"\W", "_", "_".join(map(str, self.path)))


class ObservationConversion:
    """Conversion of observations.

    Args:
        space: The observation space of the library.
        title: The name of the environment, for messages.

    Attributes:
        space: The space for WarpDrive: a Dict of the leaves if ``space`` is nested.
        has_action_mask: True if ``space`` is a Dict with an entry ``action_mask``, which is not part of the result.

    Raises:
        DefinitionError: If no part of the space has a fixed shape. Otherwise parts without one are left out.
    """

    def __init__(self, space: spaces.Space[Any], title: str) -> None:
        leaves = list(_leaves(space, ()))
        self.has_action_mask = isinstance(space, spaces.Dict) and ACTION_MASK in space.spaces
        if self.has_action_mask:
            leaves = [leaf for leaf in leaves if leaf[0] != (ACTION_MASK,)]
        found = [(_observed(path, leaf), leaf) for path, leaf in leaves]
        self._leaves = [leaf for leaf, _ in found if leaf is not None]
        without_shape = ", ".join(shown(space) for leaf, space in found if leaf is None)
        if not self._leaves:
            raise DefinitionError(
                f"{title}: observations of {without_shape or shown(space)} have no fixed shape: expected Box, "
                "Discrete, MultiDiscrete, MultiBinary, or a Dict or Tuple of them"
            )
        if without_shape:
            _warn_once(f"{title}: observations of {without_shape} have no fixed shape, and are left out")
        single = len(self._leaves) == 1
        if single or not isinstance(space, spaces.Dict | spaces.Tuple):
            self.space, self.keys = self._leaves[0].space, [""]
        else:
            self.keys = [leaf.name for leaf in self._leaves]
            self.space = spaces.Dict(dict(zip(self.keys, (leaf.space for leaf in self._leaves), strict=True)))

    def write(self, value: Any, arrays: Mapping[str, Array], index: Any) -> None:
        """Write an observation, or a batch of them.

        Args:
            value: An element of the space, or of the batched space.
            arrays: The arrays to write to, by key of :attr:`keys`.
            index: The index of the first axes, which selects the agent of one replica or of several.
        """
        for key, leaf in zip(self.keys, self._leaves, strict=True):
            part = value
            for step in leaf.path:
                part = part[step]
            arrays[key][index] = part - leaf.start if leaf.is_shifted else part


class ActionConversion:
    """Conversion of actions.

    Args:
        space: The action space of the library.
        title: The name of the environment, for messages.

    Attributes:
        space: The space for WarpDrive: Discrete, MultiDiscrete or Box.

    Raises:
        DefinitionError: If the space mixes discrete and continuous parts, or has parts of other kinds.
    """

    def __init__(self, space: spaces.Space[Any], title: str) -> None:
        self.given = space
        self._leaves = [_acted(path, leaf, title) for path, leaf in _leaves(space, ())]
        self._sizes = [int(np.prod(leaf.space.shape or ())) for leaf in self._leaves]
        parts = [leaf.space for leaf in self._leaves]
        self.space: spaces.Space[Any]
        if len(parts) == 1 and not isinstance(parts[0], spaces.MultiDiscrete):
            self.space = parts[0]
        elif all(isinstance(part, spaces.Box) for part in parts):
            low, high = (np.concatenate([getattr(p, end).ravel() for p in parts]) for end in ("low", "high"))
            self.space = spaces.Box(low, high, dtype=np.float32)
        elif any(isinstance(part, spaces.Box) for part in parts):
            raise DefinitionError(
                f"{title}: the action space {shown(space)} has discrete and continuous parts: expected one kind"
            )
        else:
            counts = [part.nvec.ravel() if isinstance(part, spaces.MultiDiscrete) else [part.n] for part in parts]  # type: ignore[attr-defined]
            self.space = spaces.MultiDiscrete(np.concatenate(counts).astype(np.int64))

    def read(self, actions: Array, batch: tuple[int, ...] = ()) -> Any:
        """Return actions in the format of the library.

        Args:
            actions: ``[*batch, *shape of the space]``.
            batch: The leading shape: ``()`` for one agent of one replica, ``(n,)`` for a batch of them.
        """
        if not isinstance(self.given, spaces.Dict | spaces.Tuple):
            return self._converted(self._leaves[0], actions, batch)
        flat, nest, first = np.reshape(actions, (*batch, -1)), {}, 0
        for leaf, size in zip(self._leaves, self._sizes, strict=True):
            nest[leaf.path] = self._converted(leaf, flat[..., first : first + size], batch)
            first += size
        return _nested(self.given, nest, ())

    @staticmethod
    def _converted(leaf: _Leaf, actions: Array, batch: tuple[int, ...]) -> Any:
        shape = leaf.given.shape or ()
        found = np.reshape(actions, (*batch, *shape)).astype(leaf.given.dtype)
        if leaf.is_shifted:
            found += np.asarray(leaf.start, found.dtype)
        return found[()] if not batch and not shape else found


@cache
def _warn_once(text: str) -> None:
    warnings.warn(text, RuntimeWarning, stacklevel=3)


def _leaves(space: spaces.Space[Any], path: Path) -> Iterator[tuple[Path, spaces.Space[Any]]]:
    parts: Any = space.spaces.items() if isinstance(space, spaces.Dict) else ()
    if isinstance(space, spaces.Tuple):
        parts = enumerate(space.spaces)
    elif not isinstance(space, spaces.Dict):
        yield path, space
    for key, part in parts:
        yield from _leaves(part, (*path, key))


def _nested(space: spaces.Space[Any], found: Mapping[Path, Any], path: Path) -> Any:
    if isinstance(space, spaces.Dict):
        return {key: _nested(part, found, (*path, key)) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_nested(part, found, (*path, index)) for index, part in enumerate(space.spaces))
    return found[path]


def _observed(path: Path, space: spaces.Space[Any]) -> _Leaf | None:
    """Return the leaf of a space; None if it has no fixed shape, such as text."""
    if isinstance(space, spaces.Box):
        return _Leaf(path, space, _with_dtype(space))
    if isinstance(space, spaces.Discrete):
        return _Leaf(path, space, spaces.Discrete(int(space.n)), int(space.start))
    if isinstance(space, spaces.MultiDiscrete):
        return _Leaf(path, space, spaces.MultiDiscrete(space.nvec), space.start)
    if isinstance(space, spaces.MultiBinary):
        return _Leaf(path, space, spaces.Box(0, 1, space.shape, np.uint8))
    return None


def _with_dtype(space: spaces.Box) -> spaces.Box:
    if space.dtype.name in _KEPT:
        return space
    if space.dtype == np.bool_:
        return spaces.Box(0, 1, space.shape, np.uint8)
    fits = np.issubdtype(space.dtype, np.integer) and space.low.min() >= _INT32.min and space.high.max() <= _INT32.max
    dtype = np.int32 if fits else np.float32
    with np.errstate(over="ignore"):
        return spaces.Box(space.low.astype(dtype), space.high.astype(dtype), dtype=dtype)


def _acted(path: Path, space: spaces.Space[Any], title: str) -> _Leaf:
    if isinstance(space, spaces.Discrete):
        return _Leaf(path, space, spaces.Discrete(int(space.n)), int(space.start))
    if isinstance(space, spaces.MultiDiscrete):
        return _Leaf(path, space, spaces.MultiDiscrete(space.nvec.ravel()), space.start)
    if isinstance(space, spaces.MultiBinary):
        return _Leaf(path, space, spaces.MultiDiscrete(np.full(int(np.prod(space.shape)), 2)))
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.integer):
        low, high = space.low.astype(np.int64), space.high.astype(np.int64)
        if (high - low).max() < _MOST_CHOICES:
            return _Leaf(path, space, spaces.MultiDiscrete((high - low + 1).ravel()), low)
    elif isinstance(space, spaces.Box):
        with np.errstate(over="ignore"):
            low, high = space.low.astype(np.float32), space.high.astype(np.float32)
        return _Leaf(path, space, spaces.Box(low, high, dtype=np.float32))
    raise DefinitionError(
        f"{title}: found the action space {shown(space)}, expected Discrete, MultiDiscrete, MultiBinary, Box, or a "
        "Dict or Tuple of them"
    )
