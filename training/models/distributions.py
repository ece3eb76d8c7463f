"""Probabilities of discrete actions. Sampling is done by the fused step; PyTorch only evaluates."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from gymnasium import Space, spaces
from torch import Tensor

from warpdrive.errors import DefinitionError


def action_sizes(space: Space[object]) -> tuple[int, ...]:
    """The number of choices of each part of a discrete action: ``(5,)`` for Discrete(5), nvec for MultiDiscrete.

    Raises:
        DefinitionError: the space is neither Discrete nor a one-dimensional MultiDiscrete, or does not start at 0.
    """
    if isinstance(space, spaces.Discrete) and int(space.start) == 0:
        return (int(space.n),)
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1 and not space.start.any():
        return tuple(int(n) for n in space.nvec)
    raise DefinitionError(f"found the action space {space}, expected Discrete or MultiDiscrete (1-D) starting at 0")


def log_prob_and_entropy(
    logits: Tensor, actions: Tensor, sizes: Sequence[int], mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Log-probability of actions and entropy of the distribution, summed over the parts of an action.

    Args:
        logits: ``[..., sum(sizes)]`` float, the parts one after the other.
        actions: ``[..., len(sizes)]`` or, where an action has one part, ``[...]``; any integer dtype.
        sizes: number of choices of each part.
        mask: ``[..., sum(sizes)]`` bool, False for choices that are not allowed (probability 0), or None. It may be
            longer, where other agents of the environment have more choices.

    Returns:
        log-probabilities ``[...]`` and entropies ``[...]`` in nats.
    """
    if mask is not None:
        # the most negative finite number: minus infinity would make 0 * log 0 a NaN in the entropy and its gradient
        logits = logits.masked_fill(~mask[..., : logits.shape[-1]], torch.finfo(logits.dtype).min)
    if actions.dim() == logits.dim() - 1:
        actions = actions.unsqueeze(-1)
    log_prob = logits.new_zeros(logits.shape[:-1])
    entropy = torch.zeros_like(log_prob)
    for part, part_logits in enumerate(logits.split(list(sizes), dim=-1)):
        log_p = torch.log_softmax(part_logits, dim=-1)
        log_prob = log_prob + log_p.gather(-1, actions[..., part : part + 1].long()).squeeze(-1)
        entropy = entropy - (log_p.exp() * log_p).sum(-1)
    return log_prob, entropy
