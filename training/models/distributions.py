"""Probabilities of actions, given the outputs of a policy. Sampling is done by the fused step; PyTorch evaluates."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import torch
from gymnasium import Space, spaces
from torch import Tensor

from warpdrive.errors import DefinitionError
from warpdrive.training.models.base import Units

_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)
_NODES = 24  # of a quadrature: an error below 0.001 nats with standard deviations up to 1, below 0.03 up to 4


class Distribution(ABC):
    """How the actions of a space are distributed, given the outputs of a policy.

    Attributes:
        num_outputs: how many numbers a policy makes of an observation.
        num_log_stds: how many logarithms of standard deviations follow them.
        action_units: what the numbers mean to the fused step.
    """

    num_outputs: int
    num_log_stds: int = 0
    action_units: Units = "box"

    def to(self, device: torch.device) -> Distribution:
        """The same for outputs on a device."""
        return self

    @abstractmethod
    def log_prob_and_entropy(
        self, logits: Tensor, actions: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Log-probability (density) of actions and entropy of the distribution in nats, each ``[...]``.

        Args:
            logits: ``[..., num_outputs + num_log_stds]`` float.
            actions: ``[..., *shape of an action]``.
            mask: ``[..., choices]`` bool, False for choices that are not allowed (probability 0), or None. It may be
                longer, where other agents of the environment have more choices. See :class:`Categorical`.
        """

    @abstractmethod
    def mode(self, logits: Tensor, mask: Tensor | None = None) -> Tensor:
        """The most probable actions, ``[..., parts]``: int64 choices, or float32 components of a Box.

        Of equally probable choices the first, as the fused step takes; ``logits`` and ``mask`` as above.
        """

    @abstractmethod
    def sample(self, logits: Tensor, generator: torch.Generator | None = None, mask: Tensor | None = None) -> Tensor:
        """Actions drawn with ``generator``, of the shape and dtype of :meth:`mode`."""


class Categorical(Distribution):
    """Independent choices, one or several; ``sizes`` says between how many. The logits of all stand side by side.

    As in the fused step, a forbidden choice has probability 0 whatever the logits are, and the log-probability -inf.
    Where everything is forbidden, all choices are equally probable; so are the allowed ones where all their logits are
    -inf, and those that are +inf. Half-precision logits are computed with in float32.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = tuple(sizes)
        self.num_outputs = sum(self.sizes)

    def log_prob_and_entropy(
        self, logits: Tensor, actions: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """See ``Distribution``. ``actions`` are of any integer dtype, ``[...]`` where there is one choice.

        An allowed logit that is NaN makes both NaN.
        """
        # choice after choice: rows are done side by side
        parts = self._parts(logits.movedim(-1, 0).contiguous(), None if mask is None else mask.movedim(-1, 0), dim=0)
        actions = actions.long().view(*logits.shape[:-1], len(self.sizes))
        log_probs, entropies = [], []
        for part, part_logits in enumerate(parts):
            log_p = torch.log_softmax(part_logits, dim=0)
            log_probs.append(log_p.gather(0, actions[..., part].unsqueeze(0)).squeeze(0))
            finite = log_p.clamp(min=torch.finfo(log_p.dtype).min)  # 0 * log 0 is 0, and so is its gradient
            entropies.append(-(log_p.exp() * finite).sum(0))
        return _sum(log_probs), _sum(entropies)

    def mode(self, logits: Tensor, mask: Tensor | None = None) -> Tensor:
        """See ``Distribution``. A logit that is NaN counts as -inf."""
        parts = self._parts(_without_nan(logits), mask, dim=-1)
        return torch.stack([part.argmax(dim=-1) for part in parts], dim=-1)

    def sample(self, logits: Tensor, generator: torch.Generator | None = None, mask: Tensor | None = None) -> Tensor:
        """See ``Distribution``. A logit that is NaN counts as -inf."""
        drawn = []
        for part in self._parts(_without_nan(logits), mask, dim=-1):
            rows = torch.softmax(part, dim=-1).reshape(-1, part.shape[-1])
            drawn.append(torch.multinomial(rows, 1, generator=generator).view(part.shape[:-1]))
        return torch.stack(drawn, dim=-1)

    def _parts(self, logits: Tensor, mask: Tensor | None, dim: int) -> list[Tensor]:
        """Return the logits of each part, of which those are -inf that have no probability."""
        parts = list(logits.split(self.sizes, dim=dim))
        if mask is None:
            return [masked(part, None) for part in parts]
        masks = mask.narrow(dim, 0, self.num_outputs).split(self.sizes, dim=dim)
        return [masked(part, allowed, dim) for part, allowed in zip(parts, masks, strict=True)]


def masked(logits: Tensor, mask: Tensor | None, dim: int = -1) -> Tensor:
    """Logits of one choice, finite where it is allowed and -inf where not; 0 where nothing is allowed.

    Args:
        logits: the choices along ``dim``; in at least float32 when they are returned. NaN stays NaN.
        mask: bool, of the same shape, False for choices that are not allowed; None: all are.
        dim: the axis of the choices.
    """
    logits = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
    limits = torch.finfo(logits.dtype)
    finite = logits.clamp(limits.min, limits.max)
    if mask is None:
        return finite
    return finite.masked_fill(~mask, -torch.inf).masked_fill(~mask.any(dim, keepdim=True), 0.0)


class BoxUnits:
    """Half the range of each component of a Box as its unit, from its centre on: its bounds are -1 and 1.

    Components that are not bounded on both sides stay as they are.

    Args:
        space: of the actions.

    Attributes:
        centre, reach: ``[components]`` float32: a number of the Box is ``centre + reach * number``.
        log_reach: the sum of the logarithms of ``reach``, by which a log-density in these units is larger.
    """

    def __init__(self, space: spaces.Box) -> None:
        low, high = (torch.from_numpy(bound.reshape(-1)).float() for bound in (space.low, space.high))
        width = high - low
        is_bounded = (width > 0) & torch.isfinite(width)
        self.reach = torch.where(is_bounded, 0.5 * width, 1.0)
        self.centre = torch.where(is_bounded, low + self.reach, 0.0)
        self.log_reach = float(self.reach.double().log().sum())

    def to(self, device: torch.device) -> BoxUnits:
        """The same on a device."""
        moved = copy.copy(self)
        moved.reach, moved.centre = self.reach.to(device), self.centre.to(device)
        return moved

    def of(self, actions: Tensor) -> Tensor:
        """``[..., components]`` numbers of the Box -> the same in these units."""
        return (actions - self.centre) / self.reach

    def restored(self, numbers: Tensor) -> Tensor:
        """Undo :meth:`of`."""
        return self.centre + self.reach * numbers


class Gaussian(Distribution):
    """Independent normal components: their means, then the logarithms of their standard deviations.

    Args:
        components: how many.
        box: the units of means and standard deviations; None: those of the actions themselves.
    """

    def __init__(self, components: int, box: BoxUnits | None = None) -> None:
        self.num_outputs = self.num_log_stds = components
        self.box, self.action_units = box, "box" if box is None else "half_range"

    def to(self, device: torch.device) -> Gaussian:
        """See ``Distribution``."""
        return Gaussian(self.num_outputs, self.box and self.box.to(device))

    def log_prob_and_entropy(
        self, logits: Tensor, actions: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """See ``Distribution``. ``actions`` are those drawn, before they were clipped to their space."""
        mean, log_std = logits.chunk(2, dim=-1)
        actions = actions.reshape(mean.shape)
        log_reach = 0.0
        if self.box is not None:
            actions, log_reach = self.box.of(actions), self.box.log_reach
        deviation = (actions - mean) * torch.exp(-log_std)
        log_prob = -(0.5 * deviation.square() + log_std + _HALF_LOG_TWO_PI).sum(-1)
        return log_prob - log_reach, (log_std + 0.5 + _HALF_LOG_TWO_PI).sum(-1) + log_reach

    def mode(self, logits: Tensor, mask: Tensor | None = None) -> Tensor:
        """See ``Distribution``: the means, which may lie outside of the Box."""
        return self._restored(logits.chunk(2, dim=-1)[0])

    def sample(self, logits: Tensor, generator: torch.Generator | None = None, mask: Tensor | None = None) -> Tensor:
        """See ``Distribution``. What is drawn may lie outside of the Box."""
        return self._restored(_normal(logits, generator))

    def _restored(self, numbers: Tensor) -> Tensor:
        return numbers if self.box is None else self.box.restored(numbers)


class SquashedGaussian(Distribution):
    """Independent normal components whose hyperbolic tangents are stretched to a bounded Box.

    Their means, then the logarithms of their standard deviations (Haarnoja et al. 2018, arXiv:1812.05905, appendix C).

    Args:
        box: of the actions.
    """

    action_units: Units = "squashed"

    def __init__(self, box: spaces.Box | BoxUnits) -> None:
        self.box = box if isinstance(box, BoxUnits) else BoxUnits(box)
        self.num_outputs = self.num_log_stds = len(self.box.reach)
        nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
        self._nodes = torch.from_numpy(nodes).float().to(self.box.reach.device)
        self._weights = torch.from_numpy(weights / weights.sum()).float().to(self.box.reach.device)

    def to(self, device: torch.device) -> SquashedGaussian:
        """See ``Distribution``."""
        return SquashedGaussian(self.box.to(device))

    def log_prob_and_entropy(
        self, logits: Tensor, actions: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """See ``Distribution``. ``actions`` are those drawn, before the hyperbolic tangent.

        The entropy is that of the normal components and the mean logarithm of the slope of the hyperbolic tangent,
        which has no closed form: by Gauss-Hermite quadrature. (Minus the log-probability of actions that were drawn is
        an estimate of the same number, but the mean of its gradient is 0.)
        """
        mean, log_std = logits.chunk(2, dim=-1)
        log_prob = log_prob_of_tanh(actions.reshape(mean.shape), mean, log_std)
        drawn = mean.unsqueeze(-1) + log_std.exp().unsqueeze(-1) * self._nodes
        slope = (_log_slope_of_tanh(drawn) * self._weights).sum(-1)
        entropy = (log_std + 0.5 + _HALF_LOG_TWO_PI + slope).sum(-1)
        return log_prob - self.box.log_reach, entropy + self.box.log_reach

    def mode(self, logits: Tensor, mask: Tensor | None = None) -> Tensor:
        """See ``Distribution``: the squashed means."""
        return self.box.restored(logits.chunk(2, dim=-1)[0].tanh())

    def sample(self, logits: Tensor, generator: torch.Generator | None = None, mask: Tensor | None = None) -> Tensor:
        """See ``Distribution``. Within the Box."""
        return self.box.restored(_normal(logits, generator).tanh())


def _normal(logits: Tensor, generator: torch.Generator | None) -> Tensor:
    mean, log_std = logits.chunk(2, dim=-1)
    noise = torch.randn(mean.shape, generator=generator, device=mean.device, dtype=mean.dtype)
    return mean + log_std.exp() * noise


def log_prob_of_tanh(drawn: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    """Log-density ``[...]`` of the hyperbolic tangents of normal components that were ``drawn [..., components]``."""
    deviation = (drawn - mean) * torch.exp(-log_std)
    return -(0.5 * deviation.square() + log_std + _HALF_LOG_TWO_PI + _log_slope_of_tanh(drawn)).sum(-1)


def _log_slope_of_tanh(drawn: Tensor) -> Tensor:
    """``log(1 - tanh(x)**2)`` without a difference of numbers that are nearly equal."""
    size = drawn.abs()
    return 2.0 * (math.log(2.0) - size - torch.log1p(torch.exp(-2.0 * size)))


def _sum(terms: list[Tensor]) -> Tensor:
    return terms[0] if len(terms) == 1 else torch.stack(terms).sum(0)


def _without_nan(logits: Tensor) -> Tensor:
    return logits.masked_fill(logits.isnan(), -torch.inf)


def distribution_of(space: Space[object], *, normalize: bool = False, squash: bool = False) -> Distribution:
    """The distribution of the actions of a space.

    Args:
        space: of the actions.
        normalize: whether means and standard deviations are in units of half the range of a Box.
        squash: whether what is drawn is squashed to a Box by the hyperbolic tangent, instead of clipped.

    Raises:
        DefinitionError: the space is no Box, and neither Discrete nor a one-dimensional MultiDiscrete that starts at 0.
    """
    if isinstance(space, spaces.Discrete) and int(space.start) == 0:
        return Categorical([int(space.n)])
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1 and not space.start.any():
        return Categorical([int(n) for n in space.nvec])
    if isinstance(space, spaces.Box):
        if squash:
            return SquashedGaussian(space)
        return Gaussian(math.prod(space.shape), BoxUnits(space) if normalize else None)
    raise DefinitionError(
        f"found the action space {space}, expected Box, or Discrete or MultiDiscrete (1-D) starting at 0"
    )
