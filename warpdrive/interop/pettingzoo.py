"""One replica as a PettingZoo environment."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import Space, spaces
from pettingzoo import ParallelEnv

from warpdrive.env_wrapper import EnvWrapper
from warpdrive.errors import ActionError, DefinitionError, nearest, shown
from warpdrive.scene.artist import Artist
from warpdrive.spaces import nested

RENDER_FPS = 30


class PettingZooEnv(ParallelEnv[str, Any, Any]):
    """One replica as a ``ParallelEnv``; see :func:`warpdrive.to_pettingzoo`.

    Agents are called ``<tag>_<index>``. An agent that leaves the episode is terminated. In a turn-based game all agents
    are in the episode until it ends, and ``active`` in the info of an agent is True if it is its turn; the actions of
    the other agents have no effect.

    Attributes:
        replicas: The EnvWrapper.
        max_cycles: The number of steps after which an episode is truncated, if before its own limit; None for no other
            limit.
        state_space: The space of :meth:`state`.
    """

    def __init__(
        self,
        replicas: EnvWrapper,
        replica: int = 0,
        render_mode: str | None = None,
        max_cycles: int | None = None,
        first_seed: int | None = None,
    ) -> None:
        if not 0 <= replica < replicas.num_envs:
            raise DefinitionError(f"replica is {shown(replica)}, expected 0 to {replicas.num_envs - 1}")
        modes = ["human", "rgb_array"]
        if render_mode not in (None, *modes):
            hint = nearest(str(render_mode), modes)
            raise DefinitionError(f"render_mode is {shown(render_mode)}: expected one of {', '.join(modes)}.{hint}")
        self.metadata = {
            "name": replicas.env_name,
            "render_modes": modes,
            "render_fps": RENDER_FPS,
            "is_parallelizable": True,
        }
        self.replicas, self.render_mode, self.max_cycles = replicas, render_mode, max_cycles
        self._artist = Artist(replicas.env)
        self._replica, self._first_seed, self._num_steps = replica, first_seed, 0
        self._window: Any = None  # Matplotlib's image in it
        names = {
            agent: (f"{tag}_{index}", tag)
            for tag, ids in replicas.policy_tags.items()
            for index, agent in enumerate(ids)
        }
        self._ids = {names[agent][0]: agent for agent in range(replicas.num_agents)}
        self._tags = dict(names[agent] for agent in range(replicas.num_agents))
        self.possible_agents: list[str] = list(self._ids)
        self.agents: list[str] = []
        self._actions = {
            array.name: np.zeros((replicas.num_envs, *array.shape), np.int32 if array.choices else np.float32)
            for array in replicas._action_arrays
        }
        self.state_space = spaces.Box(-np.inf, np.inf, self.state().shape, np.float32)

    def observation_space(self, agent: str) -> Space[Any]:
        """Return the observation space of an agent."""
        return self.replicas.observation_spaces[self._tags[agent]]

    def action_space(self, agent: str) -> Space[Any]:
        """Return the action space of an agent."""
        return self.replicas.action_spaces[self._tags[agent]]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Start a new episode.

        Args:
            seed: Seed of the start states, random streams and per-replica constants. If None, the streams continue.
            options: Ignored.

        Returns:
            Observations and infos of all agents.
        """
        seed, self._first_seed = self._first_seed if seed is None else seed, None
        self.replicas.reset(seed, self._only_this if self.replicas.num_envs > 1 else None)
        self._num_steps = 0
        active = self._active()
        self.agents = [agent for agent in self.possible_agents if active[self._ids[agent]]]
        return self._observations(), self._infos()

    def step(
        self, actions: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """Advance the episode by one step.

        Args:
            actions: An action of each live agent; those of other agents are ignored.

        Returns:
            Observations, rewards, terminations, truncations and infos of the agents that were live before the step.

        Raises:
            ActionError: If a live agent has no action or an invalid one.
        """
        if not self.agents:
            return {}, {}, {}, {}, {}
        replicas = self.replicas
        self._set_actions(actions)
        given = nested(replicas._action_arrays, lambda array: torch.from_numpy(self._actions[array.name]))
        if replicas.num_envs == 1:
            replicas._step(given, auto_reset=False)
        else:  # the other replicas are not stepped
            replicas.ctx["terminated"].copy_(~self._only_this)
            replicas._step_running(given, auto_reset=False)
        self._num_steps += 1
        terminated, truncated = bool(self._row("terminated")), bool(self._row("truncated"))
        truncated = truncated or (self.max_cycles is not None and self._num_steps >= self.max_cycles)
        rewards, active = self._row("rewards").tolist(), self._active()
        results = (
            self._observations(),
            {agent: rewards[self._ids[agent]] for agent in self.agents},
            {agent: terminated or not active[self._ids[agent]] for agent in self.agents},
            dict.fromkeys(self.agents, truncated),
            self._infos(),
        )
        self.agents = [agent for agent in self.agents if active[self._ids[agent]] and not (terminated or truncated)]
        return results

    def state(self) -> npt.NDArray[np.float32]:
        """Return the environment's ``global_state``, or the observations of all agents if it has none, as a vector."""
        names = self.replicas.env.global_state or [array.name for array in self.replicas._observation_arrays]
        return np.concatenate([self._row(name).reshape(-1).astype(np.float32) for name in names])

    def render(self) -> Any:
        """Return an image ``[height, width, 3]`` uint8, or show it in a window; None if rendering is disabled."""
        if self.render_mode is None:
            return None
        frame = self._artist.picture(self.replicas.state(self._replica))
        if self.render_mode == "rgb_array":
            return frame
        import matplotlib.pyplot as plt

        if self._window is None:
            plt.ion()
            axes = plt.figure(self.replicas.env_name).add_axes((0, 0, 1, 1), frame_on=False)
            self._window = axes.imshow(frame)
        self._window.set_data(frame)
        self._window.figure.canvas.draw_idle()
        self._window.figure.canvas.flush_events()
        return None

    def close(self) -> None:
        """Close the window, and free the device's memory."""
        if self._window is not None:
            import matplotlib.pyplot as plt

            plt.close(self._window.figure)
            self._window = None
        self.replicas.close()

    @property
    def _only_this(self) -> torch.Tensor:
        """True for this replica: bool ``[num_envs]``."""
        device = self.replicas.device
        return torch.arange(self.replicas.num_envs, device=device) == self._replica

    def _set_actions(self, actions: dict[str, Any]) -> None:
        for array in self.replicas._action_arrays:
            rows = self._actions[array.name][self._replica]
            rows.fill(0)
            for row, agent in enumerate(array.agents):
                name = self.possible_agents[agent]
                if name not in self.agents:
                    continue
                if actions.get(name) is None:
                    raise ActionError(f"actions has none for '{name}', which is in the episode")
                given = np.asarray(actions[name])
                if given.shape != array.shape[1:]:
                    raise ActionError(f"the action of '{name}' has the shape {given.shape}, expected {array.shape[1:]}")
                rows[row] = given

    def _row(self, name: str) -> npt.NDArray[Any]:
        row: npt.NDArray[Any] = self.replicas.ctx[name][self._replica].cpu().numpy().copy()
        return row

    def _active(self) -> npt.NDArray[np.bool_]:
        """Return a mask of the agents in the episode, including those that wait for their turn."""
        can_leave = "active" in self.replicas.ctx and not self.replicas.env.turn_based
        return self._row("active") if can_leave else np.ones(self.replicas.num_agents, np.bool_)

    def _observations(self) -> dict[str, Any]:
        """Return the observations of the agents that were live before this step."""
        seen: dict[str, Any] = {agent: {} for agent in self.agents}
        skipped = 1 if isinstance(self.replicas.env.observation_space, dict) else 0
        for array in self.replicas._observation_arrays:
            rows = self._row(array.name).astype(array.space.dtype, copy=False)
            for row, agent in enumerate(array.agents):
                name = self.possible_agents[agent]
                if name in seen and array.path[skipped:]:
                    seen[name][array.path[-1]] = rows[row]
                elif name in seen:
                    seen[name] = rows[row]
        return seen

    def _infos(self) -> dict[str, dict[str, Any]]:
        infos: dict[str, dict[str, Any]] = {agent: {} for agent in self.agents}
        if "action_mask" in self.replicas.ctx:
            masks = self._row("action_mask").astype(np.int8)
            for agent, info in infos.items():
                if not isinstance(self.action_space(agent), spaces.Box):
                    info["action_mask"] = self._mask(agent, masks[self._ids[agent]])
        if self.replicas.env.turn_based:
            turns = self._row("active")
            for agent, info in infos.items():
                info["active"] = bool(turns[self._ids[agent]])
        return infos

    def _mask(self, agent: str, mask: npt.NDArray[np.int8]) -> Any:
        """Return a mask as ``sample`` of the action space takes it."""
        space = self.action_space(agent)
        if isinstance(space, spaces.MultiDiscrete):
            ends = np.cumsum(space.nvec)
            return tuple(np.split(mask[: ends[-1]], ends[:-1]))
        return mask[: space.n]  # type: ignore[attr-defined]
