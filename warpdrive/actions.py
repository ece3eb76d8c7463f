"""Validation of the actions passed to a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces

from warpdrive.errors import ActionError, nearest, with_article
from warpdrive.spaces import SpaceArray

_INTEGERS = (torch.int32, torch.int64, torch.int16, torch.int8, torch.uint8)


def checked_actions(
    given: Any, arrays: Sequence[SpaceArray], num_envs: int, tags: Mapping[str, Any]
) -> dict[str, torch.Tensor]:
    """Validate actions and return them as tensors.

    Values are only checked if that requires no device transfer.

    Args:
        given: A tensor or array, or a dict of them by policy tag.
        arrays: The expected arrays of actions.
        num_envs: The number of replicas.
        tags: The policy tags.

    Returns:
        The tensors, by the name of their array.

    Raises:
        ActionError: If a type, shape, dtype, policy tag or value is invalid.
    """
    if [array.name for array in arrays] == ["actions"]:
        by_name = {"actions": given}
    else:
        by_name = {f"actions_{tag}": value for tag, value in _by_tag(given, tags).items()}
    return {array.name: _checked(by_name[array.name], array, num_envs) for array in arrays}


def _by_tag(given: Any, tags: Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        found = with_article(type(given).__name__)
        raise ActionError(f"actions is {found}, expected a dict with the policy tags {sorted(tags)}")
    for tag in given:
        if tag not in tags:
            raise ActionError(f"actions has the policy tag '{tag}', which does not exist.{nearest(str(tag), tags)}")
    for tag in tags:
        if tag not in given:
            raise ActionError(f"actions lacks the policy tag '{tag}'")
    return given


def _checked(given: Any, array: SpaceArray, num_envs: int) -> torch.Tensor:
    expected = (num_envs, *array.shape)
    kind = "integers (int32)" if array.choices else "float32"
    if not isinstance(given, (torch.Tensor, np.ndarray)):
        found = with_article(type(given).__name__)
        raise ActionError(f"{array.name} is {found}, expected a tensor or NumPy array of {kind} {expected}")
    try:
        tensor = _as_tensor(given) if isinstance(given, np.ndarray) else given
    except TypeError:  # a dtype that tensors cannot have
        raise ActionError(f"{array.name} has the dtype {given.dtype}, expected {kind}") from None
    if tensor.is_nested or tensor.layout != torch.strided or tensor.is_meta:
        found = "nested" if tensor.is_nested else "meta" if tensor.is_meta else str(tensor.layout).partition(".")[2]
        raise ActionError(f"{array.name} is a {found} tensor, expected a dense one")
    if tuple(tensor.shape) != expected:
        raise ActionError(f"{array.name} has the shape {tuple(tensor.shape)}, expected {expected}")
    if tensor.dtype not in (_INTEGERS if array.choices else (torch.float32, torch.float64)):
        raise ActionError(f"{array.name} has the dtype {tensor.dtype}, expected {kind}")
    if tensor.device.type == "cpu":
        _check_range(tensor, array)
    return tensor


def _as_tensor(array: npt.NDArray[Any]) -> torch.Tensor:
    """Return an array as a tensor in native byte order."""
    return torch.from_numpy(np.ascontiguousarray(array, array.dtype.newbyteorder("=")))


def _check_range(tensor: torch.Tensor, array: SpaceArray) -> None:
    if not array.choices:
        finite = torch.isfinite(tensor.float())
        if not bool(finite.all()):
            found = tensor[~finite][0].item()
            raise ActionError(f"{array.name} has the value {found:g}, expected numbers that are finite as float32")
        return
    columns = tensor.unsqueeze(-1) if isinstance(array.space, spaces.Discrete) else tensor.flatten(2)
    lowest, highest = columns.amin(dim=(0, 1)).tolist(), columns.amax(dim=(0, 1)).tolist()
    for column, (low, high, choices) in enumerate(zip(lowest, highest, array.choices, strict=True)):
        if low < 0 or high >= choices:
            part = "" if len(array.choices) == 1 else f" in component {column}"
            raise ActionError(
                f"{array.name} has the value {low if low < 0 else high}{part}, expected 0 to {choices - 1}"
            )
