"""Probabilities of actions, given the outputs of a policy. Sampling is done by the fused step; PyTorch evaluates."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from gymnasium import Space, spaces
from torch import Tensor

from warpdrive.errors import DefinitionError

_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)


class Distribution(ABC):
    """How the actions of a space are distributed, given the outputs of a policy.

    Attributes:
        num_outputs: how many numbers a policy makes of an observation.
        num_log_stds: how many it has besides, the same for every observation; they follow the others.
    """

    num_outputs: int
    num_log_stds: int = 0

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


class Gaussian(Distribution):
    """Independent normal components: their means, then the logarithms of their standard deviations."""

    def __init__(self, components: int) -> None:
        self.num_outputs = self.num_log_stds = components

    def log_prob_and_entropy(
        self, logits: Tensor, actions: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """See ``Distribution``. ``actions`` are those drawn, before they were clipped to their space."""
        mean, log_std = logits.chunk(2, dim=-1)
        deviation = (actions.reshape(mean.shape) - mean) * torch.exp(-log_std)
        log_prob = -(0.5 * deviation.square() + log_std + _HALF_LOG_TWO_PI).sum(-1)
        return log_prob, (log_std + 0.5 + _HALF_LOG_TWO_PI).sum(-1)

    def mode(self, logits: Tensor, mask: Tensor | None = None) -> Tensor:
        """See ``Distribution``: the means, which may lie outside of the Box."""
        return logits.chunk(2, dim=-1)[0]

    def sample(self, logits: Tensor, generator: torch.Generator | None = None, mask: Tensor | None = None) -> Tensor:
        """See ``Distribution``. What is drawn may lie outside of the Box."""
        mean, log_std = logits.chunk(2, dim=-1)
        noise = torch.randn(mean.shape, generator=generator, device=mean.device, dtype=mean.dtype)
        return mean + log_std.exp() * noise


class SquashedGaussian(Distribution):
    """Independent normal components whose hyperbolic tangents are stretched to a bounded Box.

    Their means, then the logarithms of their standard deviations (Haarnoja et al. 2018, arXiv:1812.05905, appendix C).

    Args:
        space: of the actions.
    """

    def __init__(self, space: spaces.Box) -> None:
        self.num_outputs = 2 * math.prod(space.shape)
        self.low, self.high = (torch.from_numpy(bound.reshape(-1)).float() for bound in (space.low, space.high))

    def log_prob_and_entropy(
        self, logits: Tensor, actions: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """See ``Distribution``. ``actions`` are those drawn, before the hyperbolic tangent.

        The entropy, which has no closed form, is estimated by the actions: minus their log-probability.
        """
        mean, log_std = logits.chunk(2, dim=-1)
        log_prob = log_prob_of_tanh(actions.reshape(mean.shape), mean, log_std)
        log_prob = log_prob - (0.5 * (self.high - self.low)).log().sum().to(log_prob.device)
        return log_prob, -log_prob

    def mode(self, logits: Tensor, mask: Tensor | None = None) -> Tensor:
        """See ``Distribution``: the squashed means."""
        return self._squashed(logits.chunk(2, dim=-1)[0])

    def sample(self, logits: Tensor, generator: torch.Generator | None = None, mask: Tensor | None = None) -> Tensor:
        """See ``Distribution``. Within the Box."""
        mean, log_std = logits.chunk(2, dim=-1)
        noise = torch.randn(mean.shape, generator=generator, device=mean.device, dtype=mean.dtype)
        return self._squashed(mean + log_std.exp() * noise)

    def _squashed(self, drawn: Tensor) -> Tensor:
        low, high = self.low.to(drawn.device), self.high.to(drawn.device)
        return low + 0.5 * (high - low) * (drawn.tanh() + 1.0)


def log_prob_of_tanh(drawn: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    """Log-density ``[...]`` of the hyperbolic tangents of normal components that were ``drawn [..., components]``."""
    deviation = (drawn - mean) * torch.exp(-log_std)
    size = drawn.abs()  # log(1 - tanh(x)**2) without a difference of numbers that are nearly equal
    slope = 2.0 * (math.log(2.0) - size - torch.log1p(torch.exp(-2.0 * size)))
    return -(0.5 * deviation.square() + log_std + _HALF_LOG_TWO_PI + slope).sum(-1)


def _sum(terms: list[Tensor]) -> Tensor:
    return terms[0] if len(terms) == 1 else torch.stack(terms).sum(0)


def _without_nan(logits: Tensor) -> Tensor:
    return logits.masked_fill(logits.isnan(), -torch.inf)


def distribution_of(space: Space[object]) -> Distribution:
    """The distribution of the actions of a space.

    Raises:
        DefinitionError: the space is no Box, and neither Discrete nor a one-dimensional MultiDiscrete that starts at 0.
    """
    if isinstance(space, spaces.Discrete) and int(space.start) == 0:
        return Categorical([int(space.n)])
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1 and not space.start.any():
        return Categorical([int(n) for n in space.nvec])
    if isinstance(space, spaces.Box):
        return Gaussian(math.prod(space.shape))
    raise DefinitionError(
        f"found the action space {space}, expected Box, or Discrete or MultiDiscrete (1-D) starting at 0"
    )
