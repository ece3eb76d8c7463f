"""Reference steps by Gymnasium's own environments of one agent, in float64, for tests of the kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def gymnasium_step(original: Any, names: Sequence[str], state: dict[str, Any], action: Any) -> dict[str, Any]:
    """Return the state after a step.

    Args:
        original: Gymnasium's environment, which keeps its state as a sequence of numbers in the attribute ``state``.
        names: Names of the arrays of the state, in the order of these numbers.
        state: State of one replica.
        action: An action as Gymnasium takes it.

    Returns:
        The state, with observations, rewards and ``terminated``.
    """
    original.state = np.array([state[name] for name in names], np.float64)
    observations, reward, terminated, _, _ = original.step(action)
    return {
        **dict(zip(names, original.state, strict=True)),
        "timestep": int(state["timestep"]) + 1,
        "observations": observations[None],
        "rewards": np.array([reward], np.float32),
        "terminated": terminated,
    }
