"""What compiled code depends on of a kernel's arguments."""

from __future__ import annotations

from dataclasses import dataclass

from warpdrive.kernels.classes import AuthorsClass


@dataclass(frozen=True)
class ArgumentKind:
    """What the machine code depends on of an argument; ``rank`` is None for a number.

    ``dtype`` is text of :mod:`warpdrive.kernels.dtypes`, or empty: then the argument is a tuple of ``parts``, or None.
    ``named`` describes the class of a named tuple.
    """

    dtype: str
    rank: int | None
    layout: str = "C"
    readonly: bool = False
    parts: tuple[ArgumentKind, ...] | None = None
    named: AuthorsClass | None = None

    def classes(self) -> list[AuthorsClass]:
        """Return the classes of the named tuples in it."""
        inner = [described for part in self.parts or () for described in part.classes()]
        return inner if self.named is None else [self.named, *inner]

    @property
    def words(self) -> int:
        """How many words of 8 bytes it takes in the table: its address, and an array's shape and strides."""
        if not self.dtype:
            return sum(part.words for part in self.parts or ())
        return 1 + 2 * (1 if self.rank is None else self.rank)

    @property
    def loader_arguments(self) -> tuple[str, int, str, bool]:
        """The arguments of :func:`warpdrive.backends.cpu.intrinsics.argument_loader`: a number is an array of one."""
        return (self.dtype, 1 if self.rank is None else self.rank, self.layout, self.readonly)
