"""The parameters of compiled GPU code: 8-byte words by value, and what of an array's shape is baked in instead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from warpdrive.backends.arguments import ArgumentKind


@dataclass(frozen=True)
class Parameter:
    """What GPU code depends on of an argument.

    Attributes:
        name: the kernel's parameter.
        kind: the dtype, rank and layout.
        extents: for each axis of an array its length where that is baked in, else None. A C-contiguous array's strides
            follow from its extents; those of others are words.
    """

    name: str
    kind: ArgumentKind
    extents: tuple[int | None, ...] = ()

    @property
    def words(self) -> tuple[Word, ...]:
        """What is handed over at launch, in order."""
        if self.kind.rank is None:
            return (Word(self.name, "number"),)
        axes = range(self.kind.rank)
        lengths = [Word(self.name, "length", axis) for axis in axes if self.extents[axis] is None]
        strides = [Word(self.name, "stride", axis) for axis in axes] if self.kind.layout != "C" else []
        return (Word(self.name, "address"), *lengths, *strides)


@dataclass(frozen=True)
class Word:
    """A word of a launch: an array's ``"address"``, the ``"length"`` or ``"stride"`` of an axis, or a ``"number"``."""

    name: str
    what: str
    axis: int = 0


def words_of(parameters: Sequence[Parameter]) -> list[Word]:
    """Return the words of all parameters, in order."""
    return [word for parameter in parameters for word in parameter.words]
