"""Observations: a tensor, or a dict of them by policy tag, by key of a Dict space, or by both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Union

import torch

Observations = Union[torch.Tensor, dict[str, "Observations"]]  # noqa: UP007 (| refuses a name that does not exist yet)


def mapped(function: Callable[[torch.Tensor], torch.Tensor], observations: Observations) -> Observations:
    """Return the observations with every tensor replaced by what ``function`` makes of it."""
    if isinstance(observations, dict):
        return {name: mapped(function, part) for name, part in observations.items()}
    return function(observations)


def tensors(observations: Observations) -> Iterator[torch.Tensor]:
    """Go through the tensors that observations consist of."""
    if isinstance(observations, dict):
        for part in observations.values():
            yield from tensors(part)
    else:
        yield observations
