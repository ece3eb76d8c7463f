"""Action distributions as vector formulas, with the results of those in ``training/models/distributions.py``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from warpdrive.training.compiled.simd import F32, I32, Code, Vector, gradients
from warpdrive.training.models.distributions import normal_quadrature

_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)
_LOWEST = -3.0e38  # in place of -inf: 0 * _LOWEST is 0, and so are its derivatives


def categorical(
    code: Code, logits: Sequence[Vector], sizes: Sequence[int], actions: Sequence[Any], mask: Sequence[Any] | None
) -> tuple[Vector, Vector]:
    """Return log-probability and entropy of independent choices.

    Args:
        code: Code to emit into.
        logits: Logits of all choices, concatenated.
        sizes: Number of options of each choice.
        actions: Options taken, int32 vectors.
        mask: A mask for each logit, or None.

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
        taken, uncertainty = code.broadcast(0.0), code.broadcast(0.0)
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
        means: Means.
        log_stds: Logarithms of the standard deviations.
        actions: Samples in the units of the means.
        log_reach: Sum of the logarithms of the action space's units.

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


def squashed(
    means: Sequence[Vector], log_stds: Sequence[Vector], actions: Sequence[Vector], log_reach: float
) -> tuple[Vector, Vector]:
    """Return log-density and entropy of the hyperbolic tangents of independent normal components.

    Args:
        means: Means.
        log_stds: Logarithms of the standard deviations.
        actions: Samples before the hyperbolic tangent.
        log_reach: Sum of the logarithms of the action space's units.

    Returns:
        Log-density of the samples, and entropy in nats.
    """
    log_prob, entropy = gaussian(means, log_stds, actions, log_reach)
    for mean, log_std, action in zip(means, log_stds, actions, strict=True):
        log_prob = log_prob - _log_slope_of_tanh(action)
        entropy = entropy + _mean_log_slope_of_tanh(mean, log_std.exp())
    return log_prob, entropy


def _mean_log_slope_of_tanh(mean: Vector, std: Vector) -> Vector:
    """Return the mean of ``log(1 - tanh(x)**2)`` over a normal distribution; all components call one function."""
    code = mean.code
    cells = [code.allocate(F32, code.lanes) for _ in range(5)]
    code.store(mean, cells[0])
    code.store(std, cells[1])

    def emit(*memory: Any) -> None:
        variables = [code.variable(code.load(cell)) for cell in memory[:2]]
        total = code.broadcast(0.0)
        for node, weight in zip(*normal_quadrature(), strict=True):
            total = total + weight * _log_slope_of_tanh(variables[0] + variables[1] * node)
        for vector, cell in zip((total, *gradients(total, variables)), memory[2:], strict=True):
            code.store(vector, cell)

    code.call("mean_log_slope_of_tanh", emit, *cells)
    value, by_mean, by_std = (code.load(cell) for cell in cells[2:])
    return Vector(code, value.value, [(mean, lambda g: g * by_mean), (std, lambda g: g * by_std)])


def squashed_sample(
    means: Sequence[Vector], log_stds: Sequence[Vector], noise: Sequence[Vector]
) -> tuple[list[Vector], Vector]:
    """Return hyperbolic tangents of normal samples, and their log-density (Haarnoja et al. 2018, arXiv:1812.05905).

    Args:
        means: Means.
        log_stds: Logarithms of the standard deviations.
        noise: Standard normal numbers.

    Returns:
        Actions from -1 to 1, and their log-density.
    """
    drawn = [mean + log_std.exp() * number for mean, log_std, number in zip(means, log_stds, noise, strict=True)]
    log_prob = None
    for x, log_std, number in zip(drawn, log_stds, noise, strict=True):
        own = -(0.5 * number.square() + log_std + _HALF_LOG_TWO_PI + _log_slope_of_tanh(x))
        log_prob = own if log_prob is None else log_prob + own
    assert log_prob is not None
    return [x.tanh() for x in drawn], log_prob


def _log_slope_of_tanh(x: Vector) -> Vector:
    """Return ``log(1 - tanh(x)**2)`` without cancellation."""
    size = x.abs()
    return 2.0 * (math.log(2.0) - size - ((-2.0 * size).exp() + 1.0).log())
