"""Parameters of which `make test` runs a few, and `make test-all` all."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import pytest


def exhaustive(values: Iterable[Any], usual: Container[Any]) -> list[Any]:
    """Return the parameters of a test, of which all but the usual ones have the mark ``exhaustive``.

    Args:
        values: The values, tuples of several arguments, or ``pytest.param``; the first argument decides.
        usual: Those that show all that differs in kind.
    """
    found = []
    for value in values:
        given = value
        if not (hasattr(value, "values") and hasattr(value, "marks")):
            given = pytest.param(*value) if isinstance(value, tuple) else pytest.param(value)
        if given.values[0] not in usual:
            given = pytest.param(*given.values, id=given.id, marks=(*given.marks, pytest.mark.exhaustive))
        found.append(given)
    return found
