"""Reference step of ``connect_four`` for one replica, in NumPy, for tests of the kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from warpdrive.envs.connect_four.connect_four import ConnectFour


def step(env: ConnectFour, state: dict[str, Any], actions: npt.NDArray[Any]) -> dict[str, Any]:
    """Return the state after a step.

    Args:
        env: The environment.
        state: State of one replica.
        actions: ``[2]`` int, of which that of the active player counts.

    Returns:
        The state, with observations, masks, rewards and ``terminated``.
    """
    player = int(np.argmax(state["active"]))
    column = int(actions[player])
    discs, height = np.array(state["discs"]), np.array(state["height"])
    timestep = int(state["timestep"]) + 1
    outcome = -1
    if height[column] < env.rows:
        discs[player, env.rows - 1 - int(height[column]), column] = 1
        height[column] += 1
        outcome = int(is_won(discs[player], env.connect))
    rewards = np.full(2, -outcome, np.float32)
    rewards[player] = outcome
    after = {**state, "discs": discs, "height": height, "active": ~np.asarray(state["active"]), "timestep": timestep}
    return {
        **after,
        "action_mask": np.tile(height < env.rows, (2, 1)),
        "rewards": rewards,
        "terminated": outcome != 0 or bool((height == env.rows).all()),
        "observations": observe(env, after),
    }


def is_won(discs: npt.NDArray[np.uint8], connect: int) -> bool:
    """Return True if ``discs`` (``[rows, columns]``) has ``connect`` in a line anywhere."""
    straight = [row for board in (discs, discs.T) for row in board]
    slanted = [np.diag(board, k) for board in (discs, discs[::-1]) for k in range(-len(discs) + 1, discs.shape[1])]
    return any("1" * connect in "".join(map(str, line)) for line in straight + slanted)


def observe(env: ConnectFour, state: dict[str, Any]) -> npt.NDArray[np.uint8]:
    """Return the observations of ``state``, ``[2, 2, rows, columns]``."""
    return np.stack([state["discs"], state["discs"][::-1]])
