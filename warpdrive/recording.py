"""Recorded episodes: what some replicas did from their first state to their last, as NumPy arrays."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from warpdrive.arguments import check_path
from warpdrive.environment import State
from warpdrive.errors import WarpDriveError, nearest

Array = npt.NDArray[Any]
Arrays = dict[str, Array]

FORMATS = (".npz", ".safetensors")
"""What a recording can be saved as."""
_NO_ARRAYS = ("env_name", "env_config", "policy_tags", "by_tag", "seed")
_DESCRIPTION = "recording"
"""Where a file has what is not an array: the entry of an .npz, the key of the metadata of a .safetensors file."""


@dataclass(frozen=True, eq=False)
class Recording:
    """One episode of each of some replicas, as :meth:`warpdrive.EnvWrapper.record` reads it from the device.

    Axes are in the order of a :class:`warpdrive.Rollout`: steps, replicas, agents. There are T steps, as many as the
    longest of the episodes has, and k replicas. An episode that is shorter is filled up to T so that nothing has to be
    left out: its last state (and observations) stay as they were, and actions, rewards, log-probabilities and logits
    are 0, so that sums over the steps are those of the episode. ``played`` says which steps are real, and
    :meth:`episode` cuts one out.

    Attributes:
        env_name: the environment's name; the registered one (or path and class) if it was made by name.
        env_config: the constructor parameters it was then made with; None where it was handed over as an object.
        policy_tags: the agents of each policy tag.
        by_tag: which of ``actions`` and ``observations`` are dicts by tag, as tags have spaces of their own.
        replicas: ``[k]`` int64: which replicas these are.
        seed: the seed of the replicas.
        states: by name, the environment's own arrays, ``timestep``, and ``active`` and ``action_mask`` where it has
            them: ``[T + 1, k, *shape]``, with the dtypes they have on the device. Row 0 is the first state, row t + 1
            that after step t; the last one is not yet reset.
        actions: as the environment got them, a Box's clipped: ``[T, k, num_agents]`` int32 for Discrete,
            ``[T, k, num_agents, n]`` int32 for MultiDiscrete, ``[T, k, num_agents, *shape]`` float32 for Box; a dict of
            them by tag, each with the agents of the tag, where tags have spaces of their own.
        rewards: ``[T, k, num_agents]`` float32.
        log_probabilities: ``[T, k, num_agents]`` float32: of the actions when they were sampled (of a Box: the
            logarithm of the density of what was drawn); 0 where the caller chose them.
        lengths: ``[k]`` int32: how many steps each episode has.
        terminated, truncated: ``[k]`` bool: how each episode ended; neither where the recording ended first.
        observations: ``[T + 1, k, num_agents, *shape]``, a dict by tag where tags have spaces of their own, by key
            where the space is a Dict; None if they were not asked for.
        logits: by tag, ``[T, k, agents of the tag, n]`` float32: what the policy made of the observations, as
            :meth:`warpdrive.EnvWrapper.logits` has it; None if they were not asked for.
    """

    env_name: str
    env_config: dict[str, Any] | None
    policy_tags: dict[str, list[int]]
    by_tag: list[str]
    replicas: Array
    seed: int
    states: Arrays
    actions: Array | Arrays
    rewards: Array
    log_probabilities: Array
    lengths: Array
    terminated: Array
    truncated: Array
    observations: Any = None
    logits: Arrays | None = None

    @property
    def num_steps(self) -> int:
        """T: the steps of the longest episode."""
        return len(self.rewards)

    @property
    def num_replicas(self) -> int:
        """k: how many replicas were recorded."""
        return len(self.replicas)

    @property
    def played(self) -> npt.NDArray[np.bool_]:
        """Which steps belong to an episode, ``[T, k]``; the others come after its end."""
        return np.arange(self.num_steps)[:, None] < self.lengths

    @property
    def probabilities(self) -> Array:
        """With what probability each action was drawn (of a Box: with what density), ``[T, k, num_agents]`` float32."""
        return np.exp(self.log_probabilities)

    @property
    def returns(self) -> Arrays:
        """The rewards added up so far, by tag: the mean over its agents, ``[T + 1, k]`` float64, beginning with 0."""
        zero = np.zeros((1, self.num_replicas))
        return {
            tag: np.concatenate([zero, self.rewards[..., ids].mean(axis=-1, dtype=np.float64).cumsum(axis=0)])
            for tag, ids in self.policy_tags.items()
        }

    def of(self, name: str, tag: str) -> Any:
        """Return an attribute that has an axis of agents, restricted to those of a tag.

        That is ``actions``, ``rewards``, ``log_probabilities``, ``probabilities`` or ``observations``, which are a dict
        by key where the space is a Dict.

        Raises :class:`WarpDriveError` for a tag that there is not, or observations that were not recorded.
        """
        if tag not in self.policy_tags:
            raise WarpDriveError(f"the recording has no policy tag '{tag}'.{nearest(tag, self.policy_tags)}")
        value = getattr(self, name)
        if value is None:
            raise WarpDriveError(f"{name} were not recorded: env.record(..., {name}=True)")
        return value[tag] if name in self.by_tag else _mapped(lambda array: array[:, :, self.policy_tags[tag]], value)

    def state(self, index: int, step: int) -> State:
        """Return a replica's arrays by name after ``step`` steps (0: the first state), as ``render`` takes them.

        ``index`` counts the recorded replicas. Besides ``states`` there are the actions and rewards of the step that
        led there (zeros in the first state), ``terminated`` and ``truncated``, and the observations if they were
        recorded.
        """
        state: State = {name: array[step, index] for name, array in self.states.items()}
        for name, array in _flat("observations", self.observations, "_").items():
            state[name] = array[step, index]
        for name, array in ({"rewards": self.rewards} | _flat("actions", self.actions, "_")).items():
            row = min(step, int(self.lengths[index])) - 1
            state[name] = array[row, index] if row >= 0 else np.zeros_like(array[0, index])
        for name, ended in {"terminated": self.terminated, "truncated": self.truncated}.items():
            state[name] = ended[index] & (step >= self.lengths[index])
        return state

    def episode(self, index: int) -> Recording:
        """Return the episode of one of the recorded replicas alone, cut at its end: k is 1, T its length."""
        return self.of_replicas([index])

    def of_replicas(self, indices: Sequence[int]) -> Recording:
        """Return some of the recorded replicas, counted from 0, cut at the end of the longest of their episodes.

        Raises :class:`WarpDriveError` for one that there is not.
        """
        for index in indices:
            if not 0 <= index < self.num_replicas:
                last = self.num_replicas - 1
                raise WarpDriveError(f"the recording has {self.num_replicas} replicas, 0 to {last}: no {index}")
        rows, length = list(indices), int(self.lengths[list(indices)].max())

        def cut(names: Iterable[str], end: int) -> dict[str, Any]:
            return {name: _mapped(lambda array: array[:end, rows], getattr(self, name)) for name in names}

        return replace(
            self,
            **cut(("states", "observations"), length + 1),
            **cut(("actions", "rewards", "log_probabilities", "logits"), length),
            **{name: getattr(self, name)[rows] for name in ("replicas", "lengths", "terminated", "truncated")},
        )

    def save(self, path: str | Path) -> Path:
        """Write all of it into one file; the name says the format: ``.npz`` or ``.safetensors``.

        Arrays are called as the attributes, those of a dict ``states/<name>``, ``actions/<tag>`` and so on. What is no
        array is JSON: in an ``.npz`` the array ``recording``, in a ``.safetensors`` file that key of its metadata.

        Raises :class:`WarpDriveError` for another format.
        """
        path = check_recording_path(path)
        arrays, description = self._of_file()
        text = json.dumps(description, default=_plain)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix.lower() == ".npz":
            with path.open("wb") as file:
                contents: dict[str, Any] = {_DESCRIPTION: np.array(text), **arrays}
                np.savez_compressed(file, **contents)
        else:
            from safetensors.numpy import save_file

            save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, path, {_DESCRIPTION: text})
        return path

    @classmethod
    def load(cls, path: str | Path) -> Recording:
        """Read what :meth:`save` wrote.

        Raises :class:`WarpDriveError` where there is no such file, or it is something else or damaged.
        """
        path = check_recording_path(path)
        if not path.is_file():
            raise WarpDriveError(f"{path}: there is no such recording")
        try:
            arrays, text = (_read_npz if path.suffix.lower() == ".npz" else _read_safetensors)(path)
            return cls(**_nested(arrays), **json.loads(text))
        except Exception as error:  # each format has errors of its own, and none of them says what was expected
            raise WarpDriveError(
                f"{path}: is no recording that Recording.save wrote, or is damaged ({error})"
            ) from error

    def _of_file(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the arrays by one name each, and the rest."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        description = {name: values.pop(name) for name in _NO_ARRAYS}
        return {
            path: array for name, value in values.items() for path, array in _flat(name, value, "/").items()
        }, description

    def __repr__(self) -> str:
        """Return the environment, the replicas, and how many steps each of them has."""
        return f"Recording({self.env_name}, replicas={self.replicas.tolist()}, lengths={self.lengths.tolist()})"


def check_recording_path(path: str | Path) -> Path:
    """Return ``path``; raise :class:`WarpDriveError` if its name says another format than those of a recording."""
    check_path(output=path)
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise WarpDriveError(f"{path}: the name of a recording ends in {' or '.join(FORMATS)}")
    if path.is_dir():
        raise WarpDriveError(f"{path}: is a folder; name a file in it")
    return path


def _mapped(function: Callable[[Array], Array], value: Any) -> Any:
    """Return an array, or nested dicts of arrays, or None, with ``function`` done to every array."""
    if isinstance(value, dict):
        return {name: _mapped(function, part) for name, part in value.items()}
    return None if value is None else function(value)


def _flat(name: str, value: Any, separator: str) -> Arrays:
    """Return the arrays of nested dicts by their paths, which begin with ``name``."""
    if isinstance(value, dict):
        parts = [_flat(f"{name}{separator}{key}", part, separator) for key, part in value.items()]
        return {path: array for part in parts for path, array in part.items()}
    return {} if value is None else {name: value}


def _nested(arrays: Arrays) -> dict[str, Any]:
    """Return nested dicts of arrays whose paths have slashes."""
    nest: dict[str, Any] = {}
    for path, array in arrays.items():
        *outer, name = path.split("/")
        place = nest
        for part in outer:
            place = place.setdefault(part, {})
        place[name] = array
    return nest


def _read_npz(path: Path) -> tuple[Arrays, str]:
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    return arrays, str(arrays.pop(_DESCRIPTION))


def _read_safetensors(path: Path) -> tuple[Arrays, str]:
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no mapping)
        return arrays, file.metadata()[_DESCRIPTION]


def _plain(value: Any) -> Any:
    """Return a parameter of an environment as JSON has it."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, range):
        return list(value)
    raise WarpDriveError(f"the environment's parameter {value!r} cannot be saved with a recording")
