"""Interface of environments that are stepped on the host."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from warpdrive.errors import DefinitionError, shown
from warpdrive.interop.host.space_conversion import ActionConversion, ObservationConversion

Array = npt.NDArray[Any]

NEXT, SKIPPED = "next.", "skipped"  # as in ``fused_step.fuse``, which imports PyTorch
"""Prefix of the arrays with the start of the next episode; mask ``[num_envs]`` of replicas that only began one."""
DEFAULT_LIMIT = 10_000
"""Number of steps after which episodes are truncated if an environment has no limit, so that evaluations end."""
STATE, FRAME = "state", "frame"
"""Names of the arrays of the global state, and of the picture."""


class HostReplicas(ABC):
    """Replicas of an environment on the host, which read and write NumPy arrays.

    Names of arrays are those of the device context. Results of a step are written to ``observations``, ``rewards``,
    ``terminated``, ``truncated``, and, where they exist, ``active``, ``action_mask`` and ``state``. In replicas whose
    episodes ended, the start of the next one is written to arrays with the prefix ``next.``.
    """

    num_envs: int

    @abstractmethod
    def reset(self, seeds: Sequence[int] | None = None, where: Array | None = None) -> None:
        """Begin new episodes and write their start to ``next.*``.

        Args:
            seeds: The seed of each replica; None to continue the environments' own random streams.
            where: bool ``[num_envs]``: The replicas to reset; None for all.
        """

    @abstractmethod
    def step(self) -> Iterator[slice]:
        """Step all replicas with the actions in the arrays; yield ranges of replicas whose results are complete."""

    @abstractmethod
    def close(self) -> None:
        """Close the environments."""


class HostSource(ABC):
    """Description of an environment, and constructor of its replicas. It can be sent to other processes.

    Attributes:
        name: The name of the environment.
        agents: The names of all agents, in the order of their ids.
        policy_tags: The ids of agents by policy tag.
        observations, actions: The conversions, by policy tag.
        has_action_mask: True if the environment restricts actions.
        leaves: True if agents may be out of the episode.
        state_shape: The shape of the global state, or None.
        episode_length: The maximum number of steps of an episode, or None if it has none or it is unknown.
        can_render: True if there is a version of it with pictures.
        frame_shape: The shape of pictures, if the replicas write any to the array ``frame``.
    """

    name: str
    agents: Sequence[str] = ("agent",)
    policy_tags: Mapping[str, Sequence[int]] = {"agent": (0,)}
    observations: Mapping[str, ObservationConversion]
    actions: Mapping[str, ActionConversion]
    has_action_mask: bool = False
    leaves: bool = False
    state_shape: tuple[int, ...] | None = None
    episode_length: int | None = None
    can_render: bool = False
    frame_shape: tuple[int, ...] | None = None

    def with_frames(self) -> HostSource:
        """Return the same environment with pictures.

        Raises:
            DefinitionError: If it cannot be rendered.
        """
        raise DefinitionError(f"{self.name}: cannot be rendered")

    @abstractmethod
    def open(self, arrays: Mapping[str, Array], num_envs: int) -> HostReplicas:
        """Create replicas that read and write ``arrays``, each ``[num_envs, ...]``."""

    @property
    def observation_space(self) -> spaces.Space[Any] | dict[str, spaces.Space[Any]]:
        """The observation space of all agents, or one for each tag."""
        return _shared({tag: conversion.space for tag, conversion in self.observations.items()})

    @property
    def action_space(self) -> spaces.Space[Any] | dict[str, spaces.Space[Any]]:
        """The action space of all agents, or one for each tag."""
        return _shared({tag: conversion.space for tag, conversion in self.actions.items()})

    def observed(self, tag: str, arrays: Mapping[str, Array], prefix: str = "") -> dict[str, Array]:
        """Return the arrays of a tag's observations by key, see :meth:`ObservationConversion.write`."""
        own = [tag] if isinstance(self.observation_space, dict) else []
        names = {key: "_".join(["observations", *own, *([key] if key else [])]) for key in self.observations[tag].keys}
        return {key: arrays[prefix + name] for key, name in names.items()}

    def acted(self, tag: str, arrays: Mapping[str, Array]) -> Array:
        """Return the array of a tag's actions."""
        return arrays[f"actions_{tag}" if isinstance(self.action_space, dict) else "actions"]

    def rows(self, tag: str) -> tuple[Sequence[int], Sequence[int]]:
        """Return the indices of a tag's agents in the arrays of its observations and of its actions."""
        ids = self.policy_tags[tag]
        own = range(len(ids))
        return (
            own if isinstance(self.observation_space, dict) else ids,
            own if isinstance(self.action_space, dict) else ids,
        )


def _shared(by_tag: dict[str, spaces.Space[Any]]) -> spaces.Space[Any] | dict[str, spaces.Space[Any]]:
    """Return the only space if all tags have the same."""
    first, *others = by_tag.values()
    return first if all(other == first for other in others) else by_tag


def as_frame(picture: Any, title: str) -> Array:
    """Return a picture as uint8 ``[height, width, 3]``; raise ``DefinitionError`` if it is not one."""
    frame = np.asarray(picture)
    if frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] < 3:
        raise DefinitionError(f"{title}: render returned {shown(picture)}, expected an RGB picture")
    return np.ascontiguousarray(frame[..., :3])


def name_of(given: Any) -> str:
    """Return the name of a function or class, or of the class of an object."""
    return str(getattr(given, "__qualname__", type(given).__name__))
