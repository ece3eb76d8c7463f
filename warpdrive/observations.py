"""Nested observations: a tensor, or a dict of tensors by policy tag, by key of a Dict space, or both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Union

import torch

Observations = Union[torch.Tensor, dict[str, "Observations"]]  # noqa: UP007 (| refuses a name that does not exist yet)


def mapped(function: Callable[[torch.Tensor], torch.Tensor], observations: Observations) -> Observations:
    """Apply a function to every tensor of the observations."""
    if isinstance(observations, dict):
        return {name: mapped(function, part) for name, part in observations.items()}
    return function(observations)


def tensors(observations: Observations) -> Iterator[torch.Tensor]:
    """Iterate over the tensors of the observations."""
    if isinstance(observations, dict):
        for part in observations.values():
            yield from tensors(part)
    else:
        yield observations
