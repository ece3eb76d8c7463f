"""Action distributions as formulas of vectors: see ``training/models/distributions.py``, whose results these equal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from warpdrive.training.compiled.simd import I32, Code, Vector

_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)
_LOWEST = -3.0e38  # in place of -inf: 0 * _LOWEST is 0, and so are its derivatives


def categorical(
    code: Code, logits: Sequence[Vector], sizes: Sequence[int], actions: Sequence[Any], mask: Sequence[Any] | None
) -> tuple[Vector, Vector]:
    """Return log-probability and entropy of independent choices.

    Args:
        code: code to emit into.
        logits: logits of all choices, one after the other.
        sizes: number of options of each choice.
        actions: options taken, int32 vectors.
        mask: a mask for each logit, or None.

    Returns:
        Log-probability of the options taken, and entropy in nats.
    """
    log_prob, entropy, first = None, None, 0
    for size, action in zip(sizes, actions, strict=True):
        part = [logit.clamp(_LOWEST, -_LOWEST) for logit in logits[first : first + size]]
        if mask is not None:
            allowed = mask[first : first + size]
            some = allowed[0]
            for other in allowed[1:]:
                some = code.builder.or_(some, other)
            part = [x.where(option, _LOWEST).where(some, 0.0) for x, option in zip(part, allowed, strict=True)]
        first += size
        largest = Vector(code, part[0].value)
        for x in part[1:]:
            largest = Vector(code, largest.maximum(Vector(code, x.value)).value)
        shifted = [x - largest for x in part]
        exponentials = [x.exp() for x in shifted]
        total = exponentials[0]
        for x in exponentials[1:]:
            total = total + x
        log_total = total.log()
        taken, uncertainty = code.spread(0.0), code.spread(0.0)
        for option, x in enumerate(shifted):
            log_p = (x - log_total).clamp(low=_LOWEST)
            kind = ir.VectorType(I32, code.lanes)
            is_taken = code.builder.icmp_signed("==", action, ir.Constant(kind, [option] * code.lanes))
            taken = taken + log_p.where(is_taken, 0.0)
            uncertainty = uncertainty - log_p.exp() * log_p
        log_prob = taken if log_prob is None else log_prob + taken
        entropy = uncertainty if entropy is None else entropy + uncertainty
    assert log_prob is not None and entropy is not None
    return log_prob, entropy


def gaussian(
    means: Sequence[Vector], log_stds: Sequence[Vector], actions: Sequence[Vector], log_reach: float
) -> tuple[Vector, Vector]:
    """Return log-density and entropy of independent normal components.

    Args:
        means: means.
        log_stds: logarithms of the standard deviations.
        actions: samples in the units of the means.
        log_reach: sum of the logarithms of the action space's units.

    Returns:
        Log-density of the samples, and entropy in nats.
    """
    log_prob = entropy = None
    for mean, log_std, action in zip(means, log_stds, actions, strict=True):
        deviation = (action - mean) * (-log_std).exp()
        own = -(0.5 * deviation.square() + log_std + _HALF_LOG_TWO_PI)
        width = log_std + (0.5 + _HALF_LOG_TWO_PI)
        log_prob = own if log_prob is None else log_prob + own
        entropy = width if entropy is None else entropy + width
    assert log_prob is not None and entropy is not None
    return log_prob - log_reach, entropy + log_reach
