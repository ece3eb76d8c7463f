"""Validation of constructor parameters; each function returns the value as a plain Python type or raises."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from warpdrive.errors import DefinitionError, nearest, shown

LARGEST_INT = 2**31 - 1


def whole(name: str, value: Any, at_least: int, at_most: int = LARGEST_INT) -> int:
    """Validate an integer.

    Args:
        name: The name of the parameter, for error messages.
        value: The value.
        at_least: The minimum.
        at_most: The maximum.

    Returns:
        The value as an int.

    Raises:
        DefinitionError: If the value is no integer, or out of range.
    """
    if not _is_whole(value) or not at_least <= value <= at_most:
        bound = f"of {at_least} or more" if at_most == LARGEST_INT else f"from {at_least} to {at_most}"
        _refuse(name, value, f"{at_least}" if at_least == at_most else f"a whole number {bound}")
    return int(value)


def real(
    name: str, value: Any, *, at_least: float = -math.inf, at_most: float = math.inf, above: float = -math.inf
) -> float:
    """Validate a number.

    Args:
        name: The name of the parameter, for error messages.
        value: The value.
        at_least: The minimum.
        at_most: The maximum.
        above: An exclusive lower bound.

    Returns:
        The value as a finite float.

    Raises:
        DefinitionError: If the value is no finite number, or out of range.
    """
    in_range = _is_finite_real(value) and at_least <= value <= at_most and value > above
    if not in_range:
        if -math.inf < at_least and at_most < math.inf:
            limits = [f"from {at_least:g} to {at_most:g}"]
        else:
            limits = [
                *([f"of {at_least:g} or more"] if at_least > -math.inf else []),
                *([f"of {at_most:g} or less"] if at_most < math.inf else []),
            ]
        bounds = [*([f"greater than {above:g}"] if above > -math.inf else []), *limits]
        _refuse(name, value, f"a finite number {' and '.join(bounds)}".rstrip())
    return float(value)


def reals(name: str, value: Any) -> npt.NDArray[np.float32]:
    """Return a list of one finite number or more as a float32 array; raise ``DefinitionError`` for anything else."""
    entries = value.tolist() if isinstance(value, np.ndarray) else value
    if (
        not isinstance(entries, Sequence)
        or isinstance(entries, str)
        or not entries
        or not all(map(_is_finite_real, entries))
    ):
        _refuse(name, value, "a list of one finite number or more")
    return np.array(entries, np.float32)


def flag(name: str, value: Any) -> bool:
    """Return ``value`` as a bool; raise ``DefinitionError`` unless it is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        _refuse(name, value, "True or False")
    return bool(value)


def one_of(name: str, value: Any, choices: Sequence[str]) -> str:
    """Return the one of ``choices`` that ``value`` equals; raise ``DefinitionError`` for anything else."""
    if not isinstance(value, str) or value not in choices:
        hint = nearest(value, choices) if isinstance(value, str) else ""
        raise DefinitionError(f"{name} is {shown(value)}, expected one of {', '.join(choices)}.{hint}")
    return choices[choices.index(value)]


def optional_seed(name: str, value: Any) -> int | None:
    """Return ``value`` as a non-negative int, or None; raise ``DefinitionError`` for anything else."""
    if value is not None and not (_is_whole(value) and value >= 0):
        _refuse(name, value, "None or a whole number of 0 or more")
    return None if value is None else int(value)


def per_agent(
    name: str, value: Any, num_agents: int, dtype: npt.DTypeLike, low: float = -math.inf, high: float = math.inf
) -> npt.NDArray[Any] | None:
    """Validate a sequence with one number per agent.

    Args:
        name: The name of the parameter, for error messages.
        value: The sequence, or None.
        num_agents: The number of agents.
        dtype: The dtype of the result.
        low: The minimum of the entries.
        high: The maximum of the entries.

    Returns:
        An array ``[num_agents]``, or None for None.

    Raises:
        DefinitionError: If the length, type or range is invalid.
    """
    if value is None:
        return None
    kind, is_entry = ("whole", _is_whole) if np.issubdtype(dtype, np.integer) else ("finite", _is_finite_real)
    entries = value.tolist() if isinstance(value, np.ndarray) else value
    if (
        not isinstance(entries, Sequence)
        or isinstance(entries, str)
        or len(entries) != num_agents
        or not all(is_entry(entry) and low <= entry <= high for entry in entries)
    ):
        bounds = f" from {low:g} to {high:g}" if math.isfinite(low) else ""
        _refuse(name, value, f"None or a list of {num_agents} {kind} numbers{bounds}, one for each agent")
    return np.array(entries, dtype)


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, (bool, np.bool_))


def _is_finite_real(value: Any) -> bool:
    if not isinstance(value, Real) or isinstance(value, (bool, np.bool_)):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond the range of floats
        return False


def _refuse(name: str, value: Any, allowed: str) -> NoReturn:
    raise DefinitionError(f"{name} is {shown(value)}, but it must be {allowed}.")
