"""Action distributions parametrised by policy outputs. The fused step samples; PyTorch evaluates."""

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
    """Action distribution of a space, parametrised by the outputs of a policy.

    Attributes:
        num_outputs: Number of outputs of a policy.
        num_log_stds: Number of logarithms of standard deviations that follow them.
        action_units: Interpretation of the outputs by the fused step.
    """

    num_outputs: int
    num_log_stds: int = 0
    action_units: Units = "box"

    def to(self, device: torch.device) -> Distribution:
        """Return the distribution for outputs on a device."""
        return self

    @abstractmethod
    def log_prob_and_entropy(
        self, logits: Tensor, actions: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the log-probability (density) of actions and the entropy of the distribution in nats, each ``[...]``.

        Args:
            logits: ``[..., num_outputs + num_log_stds]`` float.
            actions: ``[..., *shape of an action]``.
            mask: ``[..., choices]`` bool, False for choices that are not allowed (probability 0), or None. It may be
                longer, if other agents of the environment have more choices. See :class:`Categorical`.

        Returns:
            Log-probabilities and entropies, each ``[...]``.
        """

    @abstractmethod
    def mode(self, logits: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the most probable actions, ``[..., parts]``: int64 choices, or float32 components of a Box.

        Ties are resolved to the first choice, as in the fused step; ``logits`` and ``mask`` as above.
        """

    @abstractmethod
    def sample(self, logits: Tensor, generator: torch.Generator | None = None, mask: Tensor | None = None) -> Tensor:
        """Sample actions with ``generator``, of the shape and dtype of :meth:`mode`.

        Args:
            logits: See :meth:`log_prob_and_entropy`.
            generator: Random number generator; None: PyTorch's default.
            mask: See :meth:`log_prob_and_entropy`.

        Returns:
            ``[..., parts]``: int64 choices, or float32 components of a Box.
        """


class Categorical(Distribution):
    """Independent categorical choices, one or several, of ``sizes`` options each, with concatenated logits.

    As in the fused step, a masked choice has probability 0 whatever its logit, and log-probability -inf. If all choices
    are masked, all are equally probable. If all logits of allowed choices are -inf, these choices are equally probable;
    so are choices with the logit +inf. Half-precision logits are converted to float32.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = tuple(sizes)
        self.num_outputs = sum(self.sizes)

    def log_prob_and_entropy(
        self, logits: Tensor, actions: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """See ``Distribution``. ``actions`` are of any integer dtype, ``[...]`` for a single choice.

        An allowed logit that is NaN makes both NaN.
        """
        # choices first, so that rows are vectorised
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
        """See ``Distribution``. NaN logits count as -inf."""
        parts = self._parts(_without_nan(logits), mask, dim=-1)
        return torch.stack([part.argmax(dim=-1) for part in parts], dim=-1)

    def sample(self, logits: Tensor, generator: torch.Generator | None = None, mask: Tensor | None = None) -> Tensor:
        """See ``Distribution``. NaN logits count as -inf."""
        drawn = []
        for part in self._parts(_without_nan(logits), mask, dim=-1):
            rows = torch.softmax(part, dim=-1).reshape(-1, part.shape[-1])
            drawn.append(torch.multinomial(rows, 1, generator=generator).view(part.shape[:-1]))
        return torch.stack(drawn, dim=-1)

    def _parts(self, logits: Tensor, mask: Tensor | None, dim: int) -> list[Tensor]:
        """Return the logits of each part, -inf where the probability is zero."""
        parts = list(logits.split(self.sizes, dim=dim))
        if mask is None:
            return [masked(part, None) for part in parts]
        masks = mask.narrow(dim, 0, self.num_outputs).split(self.sizes, dim=dim)
        return [masked(part, allowed, dim) for part, allowed in zip(parts, masks, strict=True)]


def masked(logits: Tensor, mask: Tensor | None, dim: int = -1) -> Tensor:
    """Return the logits of one choice, finite where it is allowed and -inf elsewhere; 0 if nothing is allowed.

    Args:
        logits: Choices along ``dim``; returned in at least float32. NaN stays NaN.
        mask: Bool, of the same shape, False for choices that are not allowed; None: all are.
        dim: Axis of the choices.

    Returns:
        Logits of the same shape.
    """
    logits = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
    limits = torch.finfo(logits.dtype)
    finite = logits.clamp(limits.min, limits.max)
    if mask is None:
        return finite
    return finite.masked_fill(~mask, -torch.inf).masked_fill(~mask.any(dim, keepdim=True), 0.0)


class BoxUnits:
    """Units of half the range of each component of a Box, relative to its centre: its bounds are -1 and 1.

    Components that are not bounded on both sides are unchanged.

    Args:
        space: Action space.

    Attributes:
        centre, reach: ``[components]`` float32: an element of the Box is ``centre + reach * number``.
        log_reach: Sum of the logarithms of ``reach``, the difference of log-densities between the units.
    """

    def __init__(self, space: spaces.Box) -> None:
        low, high = (torch.from_numpy(bound.reshape(-1)).float() for bound in (space.low, space.high))
        width = high - low
        is_bounded = (width > 0) & torch.isfinite(width)
        self.reach = torch.where(is_bounded, 0.5 * width, 1.0)
        self.centre = torch.where(is_bounded, low + self.reach, 0.0)
        self.log_reach = float(self.reach.double().log().sum())

    def to(self, device: torch.device) -> BoxUnits:
        """Return a copy on a device."""
        moved = copy.copy(self)
        moved.reach, moved.centre = self.reach.to(device), self.centre.to(device)
        return moved

    def of(self, actions: Tensor) -> Tensor:
        """Convert ``[..., components]`` elements of the Box to these units."""
        return (actions - self.centre) / self.reach

    def restored(self, numbers: Tensor) -> Tensor:
        """Undo :meth:`of`."""
        return self.centre + self.reach * numbers


class Gaussian(Distribution):
    """Independent normal components: means, followed by logarithms of standard deviations.

    Args:
        components: Number of components.
        box: Units of means and standard deviations; None: those of the actions themselves.
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
        """See ``Distribution``. ``actions`` are samples before clipping to the action space."""
        mean, log_std = logits.chunk(2, dim=-1)
        actions = actions.reshape(mean.shape)
        log_reach = 0.0
        if self.box is not None:
            actions, log_reach = self.box.of(actions), self.box.log_reach
        deviation = (actions - mean) * torch.exp(-log_std)
        log_prob = -(0.5 * deviation.square() + log_std + _HALF_LOG_TWO_PI).sum(-1)
        return log_prob - log_reach, (log_std + 0.5 + _HALF_LOG_TWO_PI).sum(-1) + log_reach

    def mode(self, logits: Tensor, mask: Tensor | None = None) -> Tensor:
        """See ``Distribution``: the means, possibly outside the Box."""
        return self._restored(logits.chunk(2, dim=-1)[0])

    def sample(self, logits: Tensor, generator: torch.Generator | None = None, mask: Tensor | None = None) -> Tensor:
        """See ``Distribution``. Samples may lie outside the Box."""
        return self._restored(_normal(logits, generator))

    def _restored(self, numbers: Tensor) -> Tensor:
        return numbers if self.box is None else self.box.restored(numbers)


class SquashedGaussian(Distribution):
    """Independent normal components, squashed by the hyperbolic tangent and scaled to a bounded Box.

    The outputs are the means, followed by the logarithms of the standard deviations (Haarnoja et al. 2018,
    arXiv:1812.05905, appendix C).

    Args:
        box: Units of the action space.
    """

    action_units: Units = "squashed"

    def __init__(self, box: spaces.Box | BoxUnits) -> None:
        self.box = box if isinstance(box, BoxUnits) else BoxUnits(box)
        self.num_outputs = self.num_log_stds = len(self.box.reach)
        self._nodes, self._weights = torch.tensor(
            normal_quadrature(), dtype=torch.float32, device=self.box.reach.device
        )

    def to(self, device: torch.device) -> SquashedGaussian:
        """See ``Distribution``."""
        return SquashedGaussian(self.box.to(device))

    def log_prob_and_entropy(
        self, logits: Tensor, actions: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """See ``Distribution``. ``actions`` are samples before the hyperbolic tangent.

        The entropy is that of the normal components plus the mean logarithm of the slope of the hyperbolic tangent,
        which has no closed form and is computed by Gauss-Hermite quadrature. (Minus the log-probability of sampled
        actions estimates the same number, but the mean of its gradient is 0.)
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
        """See ``Distribution``. Samples lie within the Box."""
        return self.box.restored(_normal(logits, generator).tanh())


def _normal(logits: Tensor, generator: torch.Generator | None) -> Tensor:
    mean, log_std = logits.chunk(2, dim=-1)
    noise = torch.randn(mean.shape, generator=generator, device=mean.device, dtype=mean.dtype)
    return mean + log_std.exp() * noise


def log_prob_of_tanh(drawn: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    """Return the log-density ``[...]`` of the hyperbolic tangents of normal samples ``drawn [..., components]``.

    Args:
        drawn: Samples before the hyperbolic tangent.
        mean: Means, of the same shape.
        log_std: Logarithms of the standard deviations, of the same shape.

    Returns:
        ``[...]``, summed over components.
    """
    deviation = (drawn - mean) * torch.exp(-log_std)
    return -(0.5 * deviation.square() + log_std + _HALF_LOG_TWO_PI + _log_slope_of_tanh(drawn)).sum(-1)


def normal_quadrature() -> tuple[list[float], list[float]]:
    """Return nodes and weights of a mean over standard normal numbers, by Gauss-Hermite quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    return nodes.tolist(), (weights / weights.sum()).tolist()


def _log_slope_of_tanh(drawn: Tensor) -> Tensor:
    """Return ``log(1 - tanh(x)**2)`` without cancellation."""
    size = drawn.abs()
    return 2.0 * (math.log(2.0) - size - torch.log1p(torch.exp(-2.0 * size)))


def _sum(terms: list[Tensor]) -> Tensor:
    return terms[0] if len(terms) == 1 else torch.stack(terms).sum(0)


def _without_nan(logits: Tensor) -> Tensor:
    return logits.masked_fill(logits.isnan(), -torch.inf)


def distribution_of(space: Space[object], *, normalize: bool = False, squash: bool = False) -> Distribution:
    """Return the action distribution of a space.

    Args:
        space: Action space.
        normalize: If True, means and standard deviations are in units of half the range of a Box.
        squash: If True, samples are squashed to a Box by the hyperbolic tangent, instead of clipped.

    Returns:
        The distribution.

    Raises:
        DefinitionError: If the space is not a Box, a Discrete, or a one-dimensional MultiDiscrete that starts at 0.
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
