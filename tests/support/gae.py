"""Generalised advantage estimation (Schulman et al. 2016, arXiv:1506.02438) by its definition, in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def by_definition(
    rewards: Array, values: Array, final: Array, ends: Array, cuts: Array, gamma: float, weight: float
) -> Array:
    """Equation 16 of the paper, literally: sums of (gamma * lambda)^l * delta_(t + l) to the end of the episode."""
    steps = len(rewards)
    result = np.zeros(steps)
    for t in range(steps):
        for k in range(t, steps):
            following = 0.0 if ends[k] else final[k] if cuts[k] else values[k + 1]
            result[t] += (gamma * weight) ** (k - t) * (rewards[k] + gamma * following - values[k])
            if ends[k] or cuts[k]:
                break
    return result
