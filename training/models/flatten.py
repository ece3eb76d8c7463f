"""Flattening of observations of any space to vectors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from gymnasium import Space, spaces
from torch import Tensor, nn

from warpdrive.errors import DefinitionError
from warpdrive.observations import Observations
from warpdrive.training.models.running_moments import RunningMoments


class Flatten(nn.Module):
    """Module that flattens observations to vectors.

    Args:
        space: Observation space of one agent: a Box or MultiDiscrete is flattened, a Discrete becomes a one-hot vector,
            and the values of a Dict are concatenated, sorted by key.
        scale: If True, elements bounded by a Box are scaled to [-1, 1]. Else images of uint8, three axes of values from
            0 to 255, are scaled to [0, 1], and other elements are unchanged.
        normalize: If True, elements are then standardised by their running mean and variance, and clipped.

    Attributes:
        size: Length of the vector.
        moments: Running mean and variance, or None.

    Raises:
        DefinitionError: If ``scale`` is set, and the space has no Box.
    """

    def __init__(self, space: Space[Any], scale: bool = False, normalize: bool = False) -> None:
        super().__init__()
        is_dict = isinstance(space, spaces.Dict)
        parts = dict(sorted(space.items())) if isinstance(space, spaces.Dict) else {"": space}
        if scale and not any(isinstance(part, spaces.Box) for part in parts.values()):
            raise DefinitionError(
                f"model.scale_observations: found true for the observation space {space}, expected a Box"
            )
        self.keys = list(parts) if is_dict else None
        self.parts = nn.ModuleList(FlatPart(part, scale) for part in parts.values())
        self.size = sum(_size(part) for part in parts.values())
        self.moments = RunningMoments(self.size) if normalize else None

    def forward(self, observations: Observations) -> Tensor:
        """Flatten ``[..., *shape]`` of any dtype, by key for a Dict space, to ``[..., size]`` float32."""
        flat = self._side_by_side(observations)
        return flat if self.moments is None else self.moments.clipped(flat)

    def observe(self, observations: Observations, weight: Tensor) -> None:
        """Update the running mean and variance with the rows ``[rows, *shape]`` whose ``weight [rows]`` is 1."""
        if self.moments is not None:
            self.moments.observe(self._side_by_side(observations), weight)

    def _side_by_side(self, observations: Observations) -> Tensor:
        if self.keys is None:
            flat: Tensor = self.parts[0](observations)
            return flat
        assert isinstance(observations, dict)
        return torch.cat([part(observations[key]) for key, part in zip(self.keys, self.parts, strict=True)], dim=-1)


class FlatPart(nn.Module):
    """Flattening of a space other than Dict."""

    offset: Tensor | None
    scale: Tensor | None
    values: Tensor | None

    def __init__(self, space: Space[Any], scale: bool) -> None:
        super().__init__()
        self.dims, self.size = len(space.shape or ()), _size(space)
        offset, factor = None, None
        self.is_image = isinstance(space, spaces.Box) and _is_image(space) and not scale
        if isinstance(space, spaces.Box) and (scale or self.is_image):
            offset, factor = _bounds_to_one(space) if scale else _bytes_to_one(space)
        self.register_buffer("offset", offset, persistent=False)
        self.register_buffer("scale", factor, persistent=False)
        choices = torch.arange(int(space.n)) if isinstance(space, spaces.Discrete) else None
        self.register_buffer("values", choices, persistent=False)

    def forward(self, observations: Tensor) -> Tensor:
        """Flatten ``[..., *shape]`` of any dtype to ``[..., size]`` float32."""
        if self.values is not None:
            return (observations.unsqueeze(-1) == self.values).float()
        leading = observations.shape[: observations.dim() - self.dims]
        flat = observations.reshape(*leading, self.size)
        if self.offset is None or self.scale is None:
            return flat.float()
        if self.is_image:
            return flat.to(torch.float32, copy=True).mul_(self.scale)
        return (flat.float() - self.offset).mul_(self.scale)


def _size(space: Space[Any]) -> int:
    return int(space.n) if isinstance(space, spaces.Discrete) else math.prod(space.shape or ())


def _is_image(space: spaces.Box) -> bool:
    is_bytes = space.dtype == np.uint8 and bool((space.low == 0).all() and (space.high == 255).all())
    return is_bytes and len(space.shape) == 3


def _bytes_to_one(space: spaces.Box) -> tuple[Tensor, Tensor]:
    """Return the offset and the scale of :class:`FlatPart` that map bytes to [0, 1]."""
    size = math.prod(space.shape)
    return torch.zeros(size), torch.full((size,), 1 / 255)


def _bounds_to_one(space: spaces.Box) -> tuple[Tensor, Tensor]:
    """Return the offset to subtract from flat observations and the scale to multiply them with."""
    low, high = (torch.from_numpy(bound.reshape(-1).astype("float32")) for bound in (space.low, space.high))
    width = high - low
    bounded = torch.isfinite(width) & (width > 0)  # the limits of float32, as in CartPole of Gymnasium, are no bounds
    offset = torch.where(bounded, 0.5 * low + 0.5 * high, 0.0)
    return offset, torch.where(bounded, 2.0 / width, 1.0)
