"""Parameters of compiled GPU code: 8-byte words passed by value, and constant array lengths.

The first axis of an array, and the second one of a rollout, are passed at launch. A fused step is thus compiled once
for any number of replicas, takes little more than a hundred words, and has constant strides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from warpdrive.backends.shared.arguments import ArgumentKind


@dataclass(frozen=True)
class Parameter:
    """Properties of an argument that GPU code is specialised for.

    Attributes:
        name: Name of the kernel's parameter.
        kind: Dtype, rank and layout.
        extents: For each axis of an array its length if that is a constant of the code, else None. The strides of a
            C-contiguous array follow from its extents; those of others are words.
    """

    name: str
    kind: ArgumentKind
    extents: tuple[int | None, ...] = ()

    @property
    def words(self) -> tuple[Word, ...]:
        """Words passed at launch, in order."""
        if self.kind.rank is None:
            return (Word(self.name, "number"),)
        axes = range(self.kind.rank)
        lengths = [Word(self.name, "length", axis) for axis in axes if self.extents[axis] is None]
        strides = [Word(self.name, "stride", axis) for axis in axes] if self.kind.layout != "C" else []
        return (Word(self.name, "address"), *lengths, *strides)


@dataclass(frozen=True)
class Word:
    """Word of a launch: ``"address"`` of an array, ``"length"`` or ``"stride"`` of an axis, or ``"number"``."""

    name: str
    what: str
    axis: int = 0


def words_of(parameters: Sequence[Parameter]) -> list[Word]:
    """Return the words of all parameters, in order."""
    return [word for parameter in parameters for word in parameter.words]
