"""Running mean and variance of observed values, stored with a model's parameters.

Moments of observations are in a model's ``Flatten``, which critics and target networks share
(``algorithms.common.target_network``), those of returns in the algorithm. ``Actor.observe`` includes a rollout after
the update on it, so that the update and the acting policy use the same statistics.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import torch
from torch import Tensor, nn

from warpdrive.training.distributed.process_group import SINGLE_PROCESS, ProcessGroup

_ELEMENTS_AT_ONCE = 1 << 24  # bounds the memory of float64 copies
_ELEMENTS_AT_ONCE_ON_CPU = 1 << 17  # keeps them in the cache, in memory that the allocator has already
_MIN_VARIANCE = 1e-8
MAX_DEVIATIONS = 10.0
"""Standard deviations from the mean at which standardised inputs are clipped."""

Moments = tuple[Tensor, Tensor, Tensor]
"""Sum of the weights of rows, their mean, and the sum of squared differences from it: float64."""


class RunningMoments(nn.Module):
    """Standardisation by running mean and variance, initially 0 and 1.

    Args:
        shape: Shape of a row.

    Attributes:
        mean: ``[*shape]`` float64.
        variance: ``[*shape]`` float64.
        count: Float64 scalar, number of observed rows.
        process_group: Process group whose rows are observed; all its processes have the same moments.
    """

    process_group: ProcessGroup = SINGLE_PROCESS

    mean: Tensor
    variance: Tensor
    count: Tensor

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(shape, dtype=torch.float64))
        self.register_buffer("variance", torch.ones(shape, dtype=torch.float64))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))

    def forward(self, values: Tensor) -> Tensor:
        """Return ``[..., *shape]`` values as numbers of standard deviations from the mean."""
        mean, deviation = self.mean_and_deviation()
        return (values - mean).div_(deviation)

    def clipped(self, values: Tensor) -> Tensor:
        """Return ``forward(values)`` clipped to at most ten standard deviations, as the input of a network."""
        return self.clipped_side_by_side([values])[0]

    def clipped_side_by_side(self, parts: Sequence[Tensor]) -> list[Tensor]:
        """Return :meth:`clipped` of rows ``[..., size]`` of each part of the elements, one part after the other."""
        sizes = [part.shape[-1] for part in parts]
        moments = (each.split(sizes, dim=-1) for each in self.mean_and_deviation())
        of_parts = zip(parts, *moments, strict=True)
        return [(part - m).div_(d).clamp_(-MAX_DEVIATIONS, MAX_DEVIATIONS) for part, m, d in of_parts]

    def mean_and_deviation(self) -> tuple[Tensor, Tensor]:
        """Return the mean and the standard deviation ``[*shape]``, float32."""
        return self.mean.float(), (self.variance + _MIN_VARIANCE).sqrt().float()

    def restored(self, standardised: Tensor) -> Tensor:
        """Undo ``forward``."""
        mean, deviation = self.mean_and_deviation()
        return standardised * deviation + mean

    @torch.no_grad()
    def observe(self, values: Tensor, weight: Tensor) -> None:
        """Update the moments with the rows of ``values [rows, *shape]`` whose ``weight [rows]`` is 1."""
        self._include(_moments_of(values, weight))

    @torch.no_grad()
    def observe_side_by_side(self, parts: Sequence[tuple[Tensor, Tensor]]) -> None:
        """Update the moments with rows of each part of the elements, one part after the other.

        Args:
            parts: Rows ``[rows, size]`` and their weights ``[rows]``. Rows may differ between parts, but the sums of
                weights are equal.
        """
        counts, means, squares = zip(*(_moments_of(*part) for part in parts), strict=True)
        self._include((counts[0], torch.cat(means), torch.cat(squares)))

    def _include(self, seen: Moments) -> None:
        """Include moments of each process."""
        columns = {str(number): column.unsqueeze(0) for number, column in enumerate(seen)}
        by_process = list(zip(*self.process_group.all_gather(columns).values(), strict=True))
        former = self.count.clone(), self.mean.clone(), self.variance * self.count
        count, mean, squares = reduce(_merged, by_process, former)
        self.variance.copy_(torch.where(count > former[0], squares / count.clamp(min=1.0), self.variance))
        self.mean.copy_(mean)
        self.count.copy_(count)


def _moments_of(values: Tensor, weight: Tensor) -> Moments:
    """Return the moments of ``values [rows, *shape]``, computed in chunks of rows."""
    most = _ELEMENTS_AT_ONCE_ON_CPU if values.device.type == "cpu" else _ELEMENTS_AT_ONCE
    rows = max(1, most // max(1, values.shape[1:].numel()))
    parts = zip(values.split(rows), weight.split(rows), strict=True)
    return reduce(_merged, (_moments(part.to(torch.float64, copy=True), counts.double()) for part, counts in parts))


def _merged(a: Moments, b: Moments) -> Moments:
    """Merge two sets of values (Chan et al. 1979, "Updating formulae and a pairwise algorithm", eq. 2.1)."""
    total, distance = a[0] + b[0], b[1] - a[1]
    share = b[0] / total.clamp(min=1.0)
    return total, a[1] + distance * share, a[2] + b[2] + distance.square() * (a[0] * share)


def _moments(values: Tensor, weight: Tensor) -> Moments:
    """Return the moments of a chunk of rows.

    Args:
        values: ``[rows, *shape]`` float64, overwritten.
        weight: ``[rows]`` float64.
    """
    flat, added = values.unsqueeze(-1).flatten(1), weight.sum()
    mean = (weight @ flat) / added.clamp(min=1.0)
    squares = weight @ flat.sub_(mean).square_()
    return added, mean.view(values.shape[1:]), squares.view(values.shape[1:])
