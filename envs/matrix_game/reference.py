"""Reference step of ``matrix_game`` for one replica, in NumPy, for tests of the kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from warpdrive.envs.matrix_game.matrix_game import MatrixGame


def step(env: MatrixGame, state: dict[str, Any], actions: npt.NDArray[Any]) -> dict[str, Any]:
    """Return the state after a step.

    Args:
        env: The environment.
        state: State of one replica.
        actions: ``[num_agents]`` int.

    Returns:
        The state, with observations, rewards and ``terminated``.
    """
    actions = np.minimum(actions, env.num_actions - 1)
    after = {**state, "last_action": actions.astype(np.int32), "timestep": int(state["timestep"]) + 1}
    rewards = np.array([table[tuple(actions)] for table in env.tables])
    return {**after, "rewards": rewards, "terminated": False, "observations": observe(env, after)}


def observe(env: MatrixGame, state: dict[str, Any]) -> npt.NDArray[np.float32]:
    """Return the observations of ``state``, ``[num_agents, length]``."""
    if not env.observe_actions:
        return np.zeros((env.num_agents, env.num_agents), np.float32)
    one_hot = [np.arange(n) == action for n, action in zip(env.num_actions, state["last_action"], strict=True)]
    return np.tile(np.concatenate(one_hot).astype(np.float32), (env.num_agents, 1))
