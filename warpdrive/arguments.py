"""Validation of arguments of public functions."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from warpdrive.errors import DefinitionError, shown, with_article


def check_within(least: int, end: int, **values: object) -> None:
    """Check that values are integers in the range ``[least, end)``.

    Args:
        least: The lowest allowed value.
        end: One more than the highest allowed value.
        values: The values, by name.

    Raises:
        DefinitionError: If a value is not an integer, or outside of the range.
    """
    for name, value in values.items():
        if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or not least <= value < end:
            most = f"2**{end.bit_length() - 1} - 1" if end > 1 << 20 and not end & (end - 1) else end - 1
            raise DefinitionError(f"{name} is {shown(value)}, expected an integer from {least} to {most}")


def check_is(kind: type | tuple[type, ...], **values: object) -> None:
    """Raise :class:`DefinitionError` unless each value is an instance of ``kind`` (a type or several types)."""
    for name, value in values.items():
        if not isinstance(value, kind):
            kinds = kind if isinstance(kind, tuple) else (kind,)
            expected = " or ".join(with_article(one.__name__) for one in kinds)
            raise DefinitionError(f"{name} is {shown(value)}, expected {expected}")


def check_path(**values: object) -> None:
    """Raise :class:`DefinitionError` unless each value can be a file path."""
    check_is((str, Path), **values)
    for name, value in values.items():
        if "\0" in str(value):
            raise DefinitionError(
                f"{name} is {shown(str(value))}, which is not a valid file name: it has a NUL character"
            )
