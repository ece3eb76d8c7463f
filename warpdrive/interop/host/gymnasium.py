"""Gymnasium environments, single or vectorised, and EnvPool's, on the host."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from warpdrive.errors import DefinitionError, nearest, shown
from warpdrive.importing import load_module
from warpdrive.interop.host.source import (
    DEFAULT_LIMIT,
    FRAME,
    NEXT,
    SKIPPED,
    Array,
    HostReplicas,
    HostSource,
    as_frame,
    name_of,
)
from warpdrive.interop.host.space_conversion import ACTION_MASK, ActionConversion, ObservationConversion
from warpdrive.user_code import user_code

VECTORIZATIONS = ("auto", "sync", "async", "vector_entry_point")
TAG = "agent"
Make = Callable[..., gymnasium.Env[Any, Any]]


class GymnasiumSource(HostSource):
    """A Gymnasium environment.

    Args:
        make: An id, a function that returns a new environment, or an environment, which is copied.
        vectorization: ``"sync"`` steps the replicas one after the other, ``"async"`` each in a separate process,
            ``"vector_entry_point"`` with the environment's own vectorisation; ``"auto"`` prefers the latter.
        kwargs: The keyword arguments of ``gymnasium.make``, or of the function.
        episode_length: The maximum number of steps of an episode. If None, that of the environment.

    Raises:
        DefinitionError: If there is no such environment, or it cannot be used.
    """

    def __init__(
        self,
        make: str | Make | gymnasium.Env[Any, Any],
        vectorization: str,
        kwargs: Mapping[str, Any],
        episode_length: int | None = None,
    ) -> None:
        if vectorization not in VECTORIZATIONS:
            raise DefinitionError(
                f"vectorization: found {shown(vectorization)}, expected one of {', '.join(VECTORIZATIONS)}."
                f"{nearest(str(vectorization), VECTORIZATIONS)}"
            )
        self.given, self.vectorization, self.kwargs, self.limit = make, vectorization, dict(kwargs), episode_length
        self.title = f"Gymnasium environment {shown(make) if isinstance(make, str) else name_of(make)}"
        probe = self._make()
        spec = probe.spec
        self.name = spec.id if spec is not None else type(probe.unwrapped).__name__
        self.episode_length = episode_length or (spec.max_episode_steps if spec is not None else None)
        observed, acted = probe.observation_space, probe.action_space
        self.vectorizes_itself = self._vectorizes_itself(probe)
        if self.vectorizes_itself:
            envs = self._vectorized(1, AutoresetMode.NEXT_STEP)
            observed, acted = envs.single_observation_space, envs.single_action_space
            self.leaves = reset_mode(envs) == AutoresetMode.NEXT_STEP
            envs.close()
        elif self.episode_length is None:
            self.episode_length = self.limit = DEFAULT_LIMIT
        self.observations = {TAG: ObservationConversion(observed, self.title)}
        self.actions = {TAG: ActionConversion(acted, self.title)}
        with user_code(f"{self.title}: reset"):
            _, info = probe.reset(seed=0)
        self.has_action_mask = self.observations[TAG].has_action_mask or ACTION_MASK in info
        has_frames = probe.render_mode == "rgb_array"
        possible = isinstance(make, str) and "rgb_array" in (probe.metadata.get("render_modes") or ())
        self.can_render = has_frames or possible
        if has_frames:
            with user_code(f"{self.title}: render"):
                self.frame_shape = as_frame(probe.render(), self.title).shape
        probe.close()

    def with_frames(self) -> HostSource:
        """See ``HostSource``."""
        if self.frame_shape is not None:
            return self
        return GymnasiumSource(self.given, "sync", {**self.kwargs, "render_mode": "rgb_array"}, self.limit)

    def open(self, arrays: Mapping[str, Array], num_envs: int) -> HostReplicas:
        """See ``HostSource``."""
        with user_code(self.title):
            # a picture of the last state is only possible before the reset
            mode = AutoresetMode.DISABLED if FRAME in arrays else AutoresetMode.SAME_STEP
            return VectorReplicas(self, self._vectorized(num_envs, mode), arrays)

    def _vectorizes_itself(self, probe: gymnasium.Env[Any, Any]) -> bool:
        """Return True if the environment's own vectorisation is used.

        By default it is used if its spaces are those of a single environment. That of Atari, for example, includes
        preprocessing.
        """
        exists = isinstance(self.given, str) and probe.spec is not None and probe.spec.vector_entry_point is not None
        if self.vectorization == "vector_entry_point":
            if not exists:
                raise DefinitionError(f"{self.title}: it has no vectorisation of its own: use vectorization: sync")
            return True
        if not exists or self.vectorization != "auto" or self.kwargs.get("render_mode") is not None:
            return False
        try:
            self.vectorizes_itself = True
            envs = self._vectorized(1, AutoresetMode.NEXT_STEP)
            envs.close()
        except Exception:  # other parameters than those of a single environment
            return False
        spaces = envs.single_observation_space, envs.single_action_space
        return bool(spaces == (probe.observation_space, probe.action_space))

    def _vectorized(self, num_envs: int, mode: AutoresetMode) -> VectorEnv[Any, Any, Any]:
        if self.vectorizes_itself:
            assert isinstance(self.given, str)
            return gymnasium.make_vec(
                self.given, num_envs=num_envs, vectorization_mode="vector_entry_point", **self._limits(), **self.kwargs
            )
        made = gymnasium.vector.AsyncVectorEnv if self.vectorization == "async" else gymnasium.vector.SyncVectorEnv
        return made([self._make] * num_envs, autoreset_mode=mode)

    def _limits(self) -> dict[str, Any]:
        return {} if self.limit is None else {"max_episode_steps": self.limit}

    def _make(self) -> gymnasium.Env[Any, Any]:
        with user_code(self.title):
            if isinstance(self.given, str):
                _import_of(self.given)
                return gymnasium.make(self.given, **self._limits(), **self.kwargs)
            if not isinstance(self.given, gymnasium.Env):
                made = self.given(**self.kwargs)
            elif self.given.spec is not None:
                made = gymnasium.make(self.given.spec)
            else:
                made = copy.deepcopy(self.given)
        if not isinstance(made, gymnasium.Env):
            raise DefinitionError(f"{self.title}: the function returned {shown(made)}, expected a gymnasium.Env")
        return made if self.limit is None else gymnasium.wrappers.TimeLimit(made, self.limit)


class VectorSource(HostSource):
    """``gymnasium.vector.VectorEnv``, given or created by a function.

    Args:
        make: The vectorised environment, or a function ``make(num_envs)`` that returns a new one.
        title: The name of the environment, for messages.
        probe: A vectorised environment, from which spaces are read.
    """

    def __init__(
        self, make: VectorEnv[Any, Any, Any] | Callable[[int], VectorEnv[Any, Any, Any]], title: str, probe: Any
    ) -> None:
        self.make, self.title, self.name = make, title, title
        spec: Any = getattr(probe, "spec", None)
        config = getattr(spec, "config", spec)  # of EnvPool's
        if isinstance(getattr(spec, "id", None), str):
            self.name = spec.id
        self.episode_length = getattr(config, "max_episode_steps", None)
        self.leaves = reset_mode(probe) == AutoresetMode.NEXT_STEP
        self.observations = {TAG: ObservationConversion(probe.single_observation_space, title)}
        self.actions = {TAG: ActionConversion(probe.single_action_space, title)}
        self.has_action_mask = self.observations[TAG].has_action_mask

    def open(self, arrays: Mapping[str, Array], num_envs: int) -> HostReplicas:
        """See ``HostSource``."""
        if not isinstance(self.make, VectorEnv):
            with user_code(self.title):
                return VectorReplicas(self, self.make(num_envs), arrays)
        if num_envs != self.make.num_envs:
            raise DefinitionError(
                f"{self.title}: it has {self.make.num_envs} environments, and {num_envs} replicas were requested: pass "
                "a function of num_envs that creates it instead, also to evaluate and record during training"
            )
        return VectorReplicas(self, self.make, arrays)


class EnvPoolSource(VectorSource):
    """An EnvPool task.

    Args:
        task: The id of the task.
        kwargs: The keyword arguments of ``envpool.make``.

    Raises:
        DefinitionError: If EnvPool is not installed, or has no such task.
    """

    def __init__(self, task: str, kwargs: Mapping[str, Any]) -> None:
        self.task, self.kwargs = task, dict(kwargs)
        title = f"EnvPool task {shown(task)}"
        tasks = load_module("envpool", title).list_all_envs()
        if task not in tasks:
            raise DefinitionError(f"EnvPool has no task {shown(task)}.{nearest(task, tasks)}")
        with user_code(title), _no_precision_warnings():
            probe = self.create(1, seed=0)
            super().__init__(self.create, title, probe)
        probe.close()
        self.name = task

    def create(self, num_envs: int, seed: int = 0) -> VectorEnv[Any, Any, Any]:
        """Return a new pool of ``num_envs`` environments with consecutive seeds."""
        options = {"env_type": "gymnasium", "num_envs": num_envs, "seed": seed, **self.kwargs}
        with _no_precision_warnings():
            made: VectorEnv[Any, Any, Any] = load_module("envpool", self.task).make(self.task, **options)
        return made


class VectorReplicas(HostReplicas):
    """Replicas of a ``gymnasium.vector.VectorEnv``.

    With ``AutoresetMode.NEXT_STEP`` it resets in the step after the last one of an episode and ignores the action of
    that step. The agent is inactive in that step, which is thus excluded from training.

    Args:
        source: The description of the environment.
        envs: The vectorised environment.
        arrays: The arrays, see :class:`HostReplicas`.
    """

    def __init__(self, source: HostSource, envs: VectorEnv[Any, Any, Any], arrays: Mapping[str, Array]) -> None:
        self.source, self.envs, self.arrays, self.num_envs = source, envs, arrays, envs.num_envs
        self.mode = reset_mode(envs)
        self._observation, self._action = source.observations[TAG], source.actions[TAG]
        self._seen, self._next = source.observed(TAG, arrays), source.observed(TAG, arrays, NEXT)
        self._acted = source.acted(TAG, arrays)
        self._ended = np.zeros(self.num_envs, np.bool_)
        self._seeds_one = not isinstance(envs, gymnasium.vector.SyncVectorEnv | gymnasium.vector.AsyncVectorEnv)

    def reset(self, seeds: Sequence[int] | None = None, where: Array | None = None) -> None:
        """See ``HostReplicas``."""
        given: Any = seeds
        if seeds is not None and self._seeds_one:
            given = seeds[0]
        if given is not None and isinstance(self.source, EnvPoolSource):  # seeds are fixed at creation
            self.envs.close()
            self.envs, given = self.source.create(self.num_envs, given), None
        with user_code(f"{self.source.name}: reset"), _no_precision_warnings():
            if where is None:
                found, info = self.envs.reset(seed=given)
            else:
                found, info = self.envs.reset(seed=given, options={"reset_mask": where})
        rows: Any = slice(None) if where is None else np.flatnonzero(where)
        self._ended[rows] = False
        self._write(found, info, NEXT)
        self._draw(NEXT)
        if self.source.leaves:
            self.arrays[f"{NEXT}active"][rows] = True

    def step(self) -> Iterator[slice]:
        """See ``HostReplicas``."""
        actions = self._action.read(self._acted[:, 0], (self.num_envs,))
        with user_code(f"{self.source.name}: step"):
            found, rewards, terminated, truncated, info = self.envs.step(actions)
        arrays, ended = self.arrays, np.logical_or(terminated, truncated)
        arrays["rewards"][:, 0], arrays["terminated"][:], arrays["truncated"][:] = rewards, terminated, truncated
        self._write(found, info, "")
        self._draw("")
        if self.mode == AutoresetMode.NEXT_STEP:
            skipped = arrays[SKIPPED]
            skipped[:] = self._ended
            arrays["rewards"][skipped] = 0
            arrays["active"][:] = True
            if np.count_nonzero(ended):
                self._write(found, info, NEXT)
                arrays[f"{NEXT}active"][:] = False
        elif np.count_nonzero(ended):
            if self.mode == AutoresetMode.DISABLED:
                with user_code(f"{self.source.name}: reset"):
                    found, info = self.envs.reset(options={"reset_mask": ended})
                self._write(found, info, NEXT)
                self._draw(NEXT)
            else:
                self._write(found, info, NEXT)
                finals = info["final_obs"]
                for replica in np.flatnonzero(ended):
                    self._observation.write(finals[replica], self._seen, (replica, 0))
                self._write_mask(info.get("final_info", {}), "", ended)
        self._ended = ended
        yield slice(0, self.num_envs)

    def close(self) -> None:
        """See ``HostReplicas``."""
        self.envs.close()

    def _write(self, found: Any, info: Mapping[str, Any], prefix: str) -> None:
        self._observation.write(found, self._next if prefix else self._seen, (slice(None), 0))
        if self.source.has_action_mask:
            given = found if self._observation.has_action_mask else info
            self._write_mask(given, prefix, np.ones(self.num_envs, np.bool_))

    def _draw(self, prefix: str) -> None:
        if FRAME in self.arrays:
            with user_code(f"{self.source.name}: render"):
                pictures = self.envs.render()
            for replica, picture in enumerate(pictures or ()):
                self.arrays[prefix + FRAME][replica] = as_frame(picture, self.source.name)

    def _write_mask(self, given: Any, prefix: str, rows: Array) -> None:
        if self.source.has_action_mask and ACTION_MASK in given:
            self.arrays[prefix + ACTION_MASK][rows, 0] = np.asarray(given[ACTION_MASK])[rows]


def reset_mode(envs: Any) -> AutoresetMode:
    """Return the time at which a vectorised environment begins new episodes."""
    return AutoresetMode((getattr(envs, "metadata", None) or {}).get("autoreset_mode", AutoresetMode.NEXT_STEP))


@contextmanager
def _no_precision_warnings() -> Iterator[None]:
    """Suppress a warning that EnvPool causes whenever its spaces are read, at each reset."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*precision lowered by casting")
        yield


def _import_of(identifier: str) -> None:
    """Import the module of ``module:Name-v0``, and raise ``DefinitionError`` for an unknown id."""
    module, colon, name = identifier.rpartition(":")
    if colon:
        load_module(module, f"Gymnasium environment {shown(identifier)}")
    if name not in gymnasium.registry and not _has_latest(name):
        raise DefinitionError(
            f"Gymnasium has no environment {shown(name)}.{nearest(name, list(gymnasium.registry))} Environments of "
            "other packages are named with the module that registers them: 'package:Name-v0'"
        )


def _has_latest(name: str) -> bool:
    return any(identifier.rpartition("-v")[0] == name for identifier in gymnasium.registry)
