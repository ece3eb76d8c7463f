"""Gymnasium environments, vectorised or single, of replicas on the device."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, ClassVar

import gymnasium
import numpy as np
import numpy.typing as npt
import torch
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from warpdrive.env_wrapper import EnvWrapper
from warpdrive.environment import Environment
from warpdrive.errors import DefinitionError, nearest, shown
from warpdrive.figures import Frame
from warpdrive.interop.agent_batch import AgentBatch, Policy
from warpdrive.interop.replicas import replicas_of
from warpdrive.scene.artist import Artist

RENDER_FPS = 30


class GymnasiumVectorEnv(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """Vector environment whose batch is the agents of all replicas; see :func:`to_gymnasium`.

    Attributes:
        replicas: The EnvWrapper.
        device: The device of the replicas, and of torch outputs.
    """

    def __init__(
        self,
        replicas: EnvWrapper,
        batch: AgentBatch,
        autoreset_mode: AutoresetMode,
        render_mode: str | None,
        first_seed: int | None = None,
    ) -> None:
        self.replicas, self.batch, self.autoreset_mode, self.render_mode = replicas, batch, autoreset_mode, render_mode
        self._artist = Artist(replicas.env)
        self.device, self.num_envs = replicas.device, batch.num_rows
        self._first_seed = first_seed
        self.metadata = {
            "name": replicas.env_name,
            "render_modes": ["rgb_array"],
            "render_fps": RENDER_FPS,
            "autoreset_mode": autoreset_mode,
        }
        self.single_observation_space, self.single_action_space = batch.observation_space, batch.action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start new episodes.

        Args:
            seed: Seed of all replicas: start states, random streams and per-replica constants. If None, the streams
                continue; those of an environment that was created without a seed begin at random.
            options: ``{"reset_mask": mask}``, with a mask bool ``[num_envs]``, resets some replicas only. All agents of
                a replica must have the same value. Other options are ignored.

        Returns:
            The observations ``[num_envs, *shape]`` and the infos of :meth:`step`.

        Raises:
            DefinitionError: If the seed or the mask is invalid.
        """
        super().reset(seed=seed)
        if seed is None:
            seed = self._first_seed
        self._first_seed = None
        where = (
            None if options is None or "reset_mask" not in options else self._replicas_of_mask(options["reset_mask"])
        )
        self.replicas.reset(seed, where)
        if seed is not None:
            self.batch.reseed()
        return self.batch.observations(), self._infos()

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Advance all replicas by one step.

        Args:
            actions: Actions of the batch ``[num_envs, ...]``: an array or a tensor.

        Returns:
            Observations ``[num_envs, *shape]``, rewards ``[num_envs]`` float32, terminations and truncations
            ``[num_envs]`` bool, and infos: ``active`` ``[num_envs]`` bool if agents can leave an episode (until it
            ends, their rows have the reward 0 and their actions no effect), ``action_mask`` ``[num_envs, choices]``
            bool if there is one. If episodes ended with ``AutoresetMode.SAME_STEP``, also ``final_obs`` and
            ``final_info`` with the masks ``_final_obs`` and ``_final_info`` ``[num_envs]``. ``final_obs`` is an object
            array as Gymnasium's; a tensor ``[num_envs, *shape]`` with torch outputs, for which these are always present
            and only rows of the mask are meaningful. ``final_info["episode"]`` has the return ``r`` and length ``l``.

        Raises:
            ActionError: If the shape or dtype of actions is invalid; on the CPU also if a choice does not exist.
        """
        observations, rewards, terminated, truncated = self.advance(actions)
        infos = self._infos()
        if self.autoreset_mode is AutoresetMode.SAME_STEP:
            self._add_final(infos, terminated | truncated)
        return observations, rewards, terminated, truncated, infos

    def advance(self, actions: Any) -> tuple[Any, Any, Any, Any]:
        """Step, and return observations, rewards, terminations and truncations as :meth:`step`, without infos."""
        batch, replicas = self.batch, self.replicas
        every = batch.actions(actions)
        if self.autoreset_mode is AutoresetMode.SAME_STEP:
            replicas._step(every, auto_reset=True)
        else:
            replicas._step_running(every, auto_reset=self.autoreset_mode is AutoresetMode.NEXT_STEP)
        return batch.observations(), batch.rewards(), batch.terminated(), batch.truncated()

    def render(self) -> tuple[Frame, ...] | None:
        """Return an image ``[height, width, 3]`` uint8 per row from the environment's ``render``, or None if disabled.

        Agents of one replica share an image.
        """
        if self.render_mode is None:
            return None
        count = len(self.batch.agents)
        return tuple(frame for index in range(self.replicas.num_envs) for frame in [self.frame(index)] * count)

    def frame(self, replica: int = 0) -> Frame:
        """Return the image of one replica, ``[height, width, 3]`` uint8."""
        return self._artist.picture(self.replicas.state(replica))

    def close_extras(self, **kwargs: Any) -> None:
        """Free the device's memory."""
        self.replicas.close()

    def _infos(self) -> dict[str, Any]:
        batch = self.batch
        readers = {"active": batch.active, "action_mask": batch.action_mask}
        return {name: read() for name, read in readers.items() if read is not None}

    def _add_final(self, infos: dict[str, Any], done: Any) -> None:
        batch = self.batch
        final = batch.final_observations()
        if batch.output == "numpy":
            rows = done.nonzero()[0]
            if not len(rows):
                return
            final = _as_objects(final, rows, self.num_envs)
        infos["final_obs"] = final
        infos["final_info"] = {"episode": {"r": batch.episode_return(), "l": batch.episode_length()}, "_episode": done}
        infos["_final_obs"] = infos["_final_info"] = done

    def _replicas_of_mask(self, mask: Any) -> torch.Tensor:
        """Return a mask of the replicas for a mask of the rows."""
        rows = torch.as_tensor(mask, device=self.device)
        if rows.dtype != torch.bool or rows.shape != (self.num_envs,):
            found = f"{rows.dtype} {tuple(rows.shape)}"
            raise DefinitionError(f"options['reset_mask'] is {found}, expected bool ({self.num_envs},)")
        return rows.view(self.replicas.num_envs, -1).any(dim=1)


class GymnasiumEnv(gymnasium.Env[Any, Any]):
    """One agent of one replica, for ``gymnasium.make``; the arguments are those of :func:`to_gymnasium`.

    Raises:
        DefinitionError: If the environment has several agents and none is selected, or an argument is invalid.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": RENDER_FPS}  # type: ignore[misc]

    def __init__(self, env: EnvWrapper | Environment | str, render_mode: str | None = None, **options: Any) -> None:
        self.vector = to_gymnasium(env, 1, autoreset_mode=AutoresetMode.DISABLED, render_mode=render_mode, **options)
        if self.vector.num_envs != 1:
            raise DefinitionError(
                f"{self.vector.replicas.env_name} has {self.vector.num_envs} agents: select one with agent=..., or use "
                "gymnasium.make_vec or warpdrive.to_pettingzoo"
            )
        self.render_mode = render_mode
        self.observation_space = self.vector.single_observation_space
        self.action_space = self.vector.single_action_space
        self._ended = True

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start a new episode. The first one without a seed is random."""
        super().reset(seed=seed)
        observations, infos = self.vector.reset(seed=seed)
        self._ended = False
        return _first(observations), _first(infos)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Advance the episode by one step.

        Raises:
            gymnasium.error.ResetNeeded: If the episode has ended, or not begun.
            ActionError: If the action is not in the space.
        """
        if self._ended:
            raise gymnasium.error.ResetNeeded("the episode has ended or not begun: call reset()")
        batch = self.vector.batch
        self.vector.replicas._step(batch.actions(np.asarray(action)[None]), auto_reset=False)
        terminated, truncated = bool(batch.terminated()[0]), bool(batch.truncated()[0])
        self._ended = terminated or truncated
        infos = self.vector._infos()
        return _first(batch.observations()), float(batch.rewards()[0]), terminated, truncated, _first(infos)

    def render(self) -> Any:
        """Return an image ``[height, width, 3]`` uint8, or None if rendering is disabled."""
        return None if self.render_mode is None else self.vector.frame()

    def close(self) -> None:
        """Free the device's memory."""
        self.vector.close()


def to_gymnasium(
    env: EnvWrapper | Environment | str,
    num_envs: int | None = None,
    *,
    tag: str | None = None,
    agent: int | None = None,
    autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
    output: str = "numpy",
    copy: bool = True,
    others: Mapping[str, Policy] | None = None,
    render_mode: str | None = None,
    **options: Any,
) -> GymnasiumVectorEnv:
    """Return a ``gymnasium.vector.VectorEnv``, all of whose sub-environments advance in one kernel launch.

    A sub-environment is an agent of a replica: row ``replica * agents + index``.

    ```python
    envs = wd.to_gymnasium("cartpole", num_envs=1024, seed=1)
    observations, infos = envs.reset()
    observations, rewards, terminations, truncations, infos = envs.step(envs.action_space.sample())
    ```

    Args:
        env: An EnvWrapper, an environment, or a registered name.
        num_envs: The number of replicas; None for 1, or those of the EnvWrapper.
        tag: The policy tag whose agents form the batch. If None, all agents do; they must share their spaces.
        agent: The id of an agent, to have one row per replica.
        autoreset_mode: ``SAME_STEP`` (native), ``NEXT_STEP`` or ``DISABLED``, or the values of these.
        output: ``"numpy"`` for arrays on the host, one copy each, or ``"torch"`` for tensors on the device, without
            host synchronization.
        copy: If False, results may share memory with the device's arrays, which the next step overwrites.
        others: Policies by tag of agents outside of the batch: functions from observations
            ``[num_envs * agents, *shape]`` to actions, such as ``wd.load_policy(run, tag="runner").act``. Without one
            they act at random.
        render_mode: ``"rgb_array"`` to enable ``render()``.
        options: Further arguments of :class:`warpdrive.EnvWrapper`: ``env_backend``, ``seed``, ``env_config``, ...

    Returns:
        The vector environment.

    Raises:
        DefinitionError: If the environment or an argument is invalid.
    """
    if render_mode not in (None, "rgb_array"):
        raise DefinitionError(f"render_mode is {shown(render_mode)}: expected 'rgb_array' or None")
    mode = _autoreset_mode(autoreset_mode)
    replicas = replicas_of(env, num_envs, options)
    batch = AgentBatch(replicas, tag, agent, output, copy, others)
    first_seed = None if isinstance(env, EnvWrapper) else options.get("seed", secrets.randbits(64))
    return GymnasiumVectorEnv(replicas, batch, mode, render_mode, first_seed)


def _autoreset_mode(given: AutoresetMode | str) -> AutoresetMode:
    for mode in AutoresetMode:
        if given in (mode, mode.value, mode.name):
            return mode
    names = [mode.value for mode in AutoresetMode]
    raise DefinitionError(
        f"autoreset_mode is {shown(given)}: expected one of {', '.join(names)}.{nearest(str(given), names)}"
    )


def _as_objects(final: Any, rows: npt.NDArray[np.int64], count: int) -> npt.NDArray[Any]:
    """Return Gymnasium's object array of final observations, with None where no episode ended."""
    objects = np.empty(count, dtype=object)
    if isinstance(final, dict):
        parts = {key: part[rows] for key, part in final.items()}
        for index, row in enumerate(rows.tolist()):
            objects[row] = {key: part[index] for key, part in parts.items()}
    else:
        objects[rows] = np.fromiter(final[rows], dtype=object, count=len(rows))
    return objects


def _first(values: Any) -> Any:
    """Return the first row of an array, or of each array of a dict."""
    if isinstance(values, dict):
        return {name: _first(part) for name, part in values.items()}
    return values[0]
