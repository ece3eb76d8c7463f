"""Recorded episodes of selected replicas, as NumPy arrays."""

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
from warpdrive.errors import WarpDriveError, nearest, one_line, shown

Array = npt.NDArray[Any]
Arrays = dict[str, Array]

FORMATS = (".npz", ".safetensors")
"""File name extensions of the supported formats."""
_OF_AGENTS = ("actions", "rewards", "log_probabilities", "probabilities", "observations", "logits")
"""Attributes that :meth:`Recording.of` restricts to the agents of a tag."""
_NO_ARRAYS = ("env_name", "env_config", "policy_tags", "by_tag", "seed")
_DESCRIPTION = "recording"
"""Name of the non-array part of a file: an entry of an .npz, or a key of the metadata of a .safetensors file."""


@dataclass(frozen=True, eq=False)
class Recording:
    """One episode of each selected replica, as returned by :meth:`warpdrive.EnvWrapper.record`.

    ```python
    recording = env.record(replicas=[0, 1])
    recording.states["loc_x"]  # [T + 1, 2, ...]
    recording.episode(0).save("episode.npz")
    ```

    Axes are in the order of a :class:`warpdrive.Rollout`: steps, replicas, agents. T is the number of steps of the
    longest episode, and k the number of replicas. Shorter episodes are padded to T: the last state (and observations)
    are repeated, and actions, rewards, log-probabilities and logits are 0, so that sums over the steps are those of the
    episode. ``played`` is the mask of real steps, and :meth:`episode` removes the padding.

    Attributes:
        env_name: The name of the environment; the registered one (or path and class) if it was created by name.
        env_config: The constructor parameters if it was created by name; None if it was passed as an object.
        policy_tags: The agents of each policy tag.
        by_tag: The names of ``actions`` and ``observations`` if they are dicts by tag, because tags have separate
            spaces.
        replicas: ``[k]`` int64: The indices of the recorded replicas.
        seed: The seed of the replicas.
        states: The environment's own arrays, ``timestep``, and ``active`` and ``action_mask`` if present, by name: ``[T
            + 1, k, *shape]``, with the dtypes on the device. Row 0 is the first state, row t + 1 the state after step
            t; the last one is before any reset.
        actions: The actions passed to the environment, clipped for a Box: ``[T, k, num_agents]`` int32 for Discrete,
            ``[T, k, num_agents, n]`` int32 for MultiDiscrete, ``[T, k, num_agents, *shape]`` float32 for Box; a dict by
            tag, each with the agents of the tag, if tags have separate spaces.
        rewards: ``[T, k, num_agents]`` float32.
        log_probabilities: ``[T, k, num_agents]`` float32: Log-probabilities of the sampled actions (for a Box: the log
            density of the unclipped sample); 0 if the actions were given by the caller.
        lengths: ``[k]`` int32: The number of steps of each episode.
        terminated, truncated: ``[k]`` bool: The end of each episode; both False if the recording stopped before it.
        observations: ``[T + 1, k, num_agents, *shape]``, a dict by tag if tags have separate spaces, by key for a Dict
            space; None if not recorded.
        logits: ``[T, k, agents of the tag, n]`` float32, by tag: The policy outputs in the format of
            :meth:`warpdrive.EnvWrapper.logits`; None if not recorded.
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
        """T: the number of steps of the longest episode."""
        return len(self.rewards)

    @property
    def num_replicas(self) -> int:
        """k: the number of recorded replicas."""
        return len(self.replicas)

    @property
    def played(self) -> npt.NDArray[np.bool_]:
        """Mask of the steps that belong to an episode, bool ``[T, k]``; the others are padding."""
        return np.arange(self.num_steps)[:, None] < self.lengths

    @property
    def probabilities(self) -> Array:
        """Probabilities of the sampled actions (for a Box: probability densities), ``[T, k, num_agents]`` float32."""
        return np.exp(self.log_probabilities)

    @property
    def returns(self) -> Arrays:
        """Cumulative rewards by tag: the mean over its agents, ``[T + 1, k]`` float64, starting with 0."""
        zero = np.zeros((1, self.num_replicas))
        return {
            tag: np.concatenate([zero, self.rewards[..., ids].mean(axis=-1, dtype=np.float64).cumsum(axis=0)])
            for tag, ids in self.policy_tags.items()
        }

    def of(self, name: str, tag: str) -> Any:
        """Return an attribute that has an axis of agents, restricted to the agents of a tag.

        Args:
            name: ``"actions"``, ``"rewards"``, ``"log_probabilities"``, ``"probabilities"``, ``"observations"`` or
                ``"logits"``.
            tag: The policy tag.

        Returns:
            The attribute with the agents of the tag; observations of a Dict space are a dict by key.

        Raises:
            WarpDriveError: If the tag does not exist, the attribute has no axis of agents, or observations or logits
                were not recorded.
        """
        if name not in _OF_AGENTS:
            raise WarpDriveError(
                f"{shown(name)} is not recorded by agent: expected one of {', '.join(_OF_AGENTS)}."
                f"{nearest(str(name), _OF_AGENTS)}"
            )
        if tag not in self.policy_tags:
            raise WarpDriveError(f"the recording has no policy tag '{tag}'.{nearest(tag, self.policy_tags)}")
        value = getattr(self, name)
        if value is None:
            raise WarpDriveError(f"{name} were not recorded: env.record(..., {name}=True)")
        if name == "logits" or name in self.by_tag:
            return value[tag]
        return _mapped(lambda array: array[:, :, self.policy_tags[tag]], value)

    def state(self, index: int, step: int) -> State:
        """Return a replica's arrays by name after ``step`` steps (0: the first state), in the format of ``render``.

        Args:
            index: The index of a recorded replica, from 0 to k - 1.
            step: The number of steps before the state.

        Returns:
            The arrays of ``states``; the actions and rewards of the step that led to this state (zeros in the first
            one), ``terminated`` and ``truncated``; and observations if recorded.

        Raises:
            WarpDriveError: If the replica or the step does not exist.
        """
        self._check_index(index)
        if not 0 <= step <= self.num_steps:
            raise WarpDriveError(f"the recording has states after 0 to {self.num_steps} steps: found {step}")
        state: State = {name: array[step, index] for name, array in self.states.items()}
        for name, array in _flat("observations", self.observations, "_").items():
            state[name] = array[step, index]
        for name, array in ({"rewards": self.rewards} | _flat("actions", self.actions, "_")).items():
            row = min(step, int(self.lengths[index])) - 1
            state[name] = array[row, index] if row >= 0 else np.zeros(array.shape[2:], array.dtype)
        for name, ended in {"terminated": self.terminated, "truncated": self.truncated}.items():
            state[name] = ended[index] & (step >= self.lengths[index])
        return state

    def episode(self, index: int) -> Recording:
        """Return the episode of a single recorded replica without padding: k is 1, T its length.

        Args:
            index: The index of a recorded replica, from 0 to k - 1.
        """
        return self.of_replicas([index])

    def of_replicas(self, indices: Sequence[int]) -> Recording:
        """Return a subset of the recorded replicas, cut at the end of their longest episode.

        Args:
            indices: Indices of recorded replicas, from 0 to k - 1.

        Raises:
            WarpDriveError: If a replica does not exist, or ``indices`` is empty.
        """
        if not len(indices):
            raise WarpDriveError("indices is empty: expected one replica of the recording or more")
        for index in indices:
            self._check_index(index)
        rows, length = list(indices), int(self.lengths[list(indices)].max())

        def cut(names: Iterable[str], end: int) -> dict[str, Any]:
            return {name: _mapped(lambda array: array[:end, rows], getattr(self, name)) for name in names}

        return replace(
            self,
            **cut(("states", "observations"), length + 1),
            **cut(("actions", "rewards", "log_probabilities", "logits"), length),
            **{name: getattr(self, name)[rows] for name in ("replicas", "lengths", "terminated", "truncated")},
        )

    def _check_index(self, index: int) -> None:
        if not 0 <= index < self.num_replicas:
            last = self.num_replicas - 1
            raise WarpDriveError(f"the recording has {self.num_replicas} replicas, 0 to {last}: found {index}")

    def save(self, path: str | Path) -> Path:
        """Save the recording to one file, in the format of its extension: ``.npz`` or ``.safetensors``.

        Arrays have the names of the attributes, or ``states/<name>``, ``actions/<tag>`` etc. for dicts. Other
        attributes are saved as JSON: in an ``.npz`` as the array ``recording``, in ``.safetensors`` under that key of
        the metadata.

        Args:
            path: The file; an existing one is replaced.

        Returns:
            ``path``.

        Raises:
            WarpDriveError: If the extension is another one.
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
        """Load a recording written by :meth:`save`.

        Args:
            path: The file.

        Returns:
            The recording.

        Raises:
            WarpDriveError: If the file does not exist, is damaged, or is no recording.
        """
        path = check_recording_path(path)
        if not path.is_file():
            raise WarpDriveError(f"{path}: there is no such recording")
        try:
            arrays, text = (_read_npz if path.suffix.lower() == ".npz" else _read_safetensors)(path)
            recording = cls(**_nested(arrays), **json.loads(text))
            recording._check()
            return recording
        except Exception as error:  # each format raises other errors, none of which is helpful to users
            what = f"not a recording written by Recording.save, or damaged ({one_line(str(error))})"
            raise WarpDriveError(f"{path}: {what}") from error

    def _check(self) -> None:
        """Raise ``ValueError`` unless the parts, read from a file, are consistent."""
        if self.rewards.ndim != 3 or self.rewards.dtype.kind != "f" or not self.rewards.shape[1]:
            raise ValueError(f"rewards are {_described(self.rewards)}, expected float numbers [T, k, num_agents]")
        steps, count, agents = self.rewards.shape
        for name, kinds in (("replicas", "iu"), ("lengths", "iu"), ("terminated", "b"), ("truncated", "b")):
            array = getattr(self, name)
            if array.shape != (count,) or array.dtype.kind not in kinds:
                raise ValueError(f"{name} are {_described(array)}, expected one for each of {count} replicas")
        if not ((self.lengths >= 0) & (self.lengths <= steps)).all():
            raise ValueError(f"lengths are {shown(self.lengths.tolist())}, expected 0 to {steps}")
        of_steps = dict.fromkeys(("actions", "log_probabilities", "logits"), steps)
        for name, rows in {"states": steps + 1, "observations": steps + 1, **of_steps}.items():
            for path, array in _flat(name, getattr(self, name), "/").items():
                if array.shape[:2] != (rows, count) or array.dtype.kind not in "biuf":
                    raise ValueError(f"{path} is {_described(array)}, expected numbers [{rows}, {count}, ...]")
        ids = [agent for agents_of_tag in self.policy_tags.values() for agent in agents_of_tag]
        if not all(type(agent) is int and 0 <= agent < agents for agent in ids):
            raise ValueError(f"policy_tags are {shown(self.policy_tags)}, expected agents 0 to {agents - 1}")
        for name, kind in (("env_name", str), ("env_config", (dict, type(None))), ("seed", int), ("by_tag", list)):
            if not isinstance(getattr(self, name), kind):
                raise ValueError(f"{name} is {shown(getattr(self, name))}")

    def _of_file(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the arrays under flat names, and the remaining attributes."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        description = {name: values.pop(name) for name in _NO_ARRAYS}
        return {
            path: array for name, value in values.items() for path, array in _flat(name, value, "/").items()
        }, description

    def __repr__(self) -> str:
        """Return a summary: environment, replicas, and number of steps of each."""
        return f"Recording({self.env_name}, replicas={self.replicas.tolist()}, lengths={self.lengths.tolist()})"


def check_recording_path(path: str | Path) -> Path:
    """Return ``path``; raise :class:`WarpDriveError` if its extension is not that of a supported format."""
    check_path(output=path)
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise WarpDriveError(f"{path}: the name of a recording ends in {' or '.join(FORMATS)}")
    if path.is_dir():
        raise WarpDriveError(f"{path}: is a folder; name a file in it")
    return path


def _described(array: Array) -> str:
    return f"{array.dtype} {list(array.shape)}"


def _mapped(function: Callable[[Array], Array], value: Any) -> Any:
    """Apply ``function`` to every array in nested dicts of arrays, or to a single array; None is returned unchanged."""
    if isinstance(value, dict):
        return {name: _mapped(function, part) for name, part in value.items()}
    return None if value is None else function(value)


def _flat(name: str, value: Any, separator: str) -> Arrays:
    """Flatten nested dicts of arrays to paths that begin with ``name``."""
    if isinstance(value, dict):
        parts = [_flat(f"{name}{separator}{key}", part, separator) for key, part in value.items()]
        return {path: array for part in parts for path, array in part.items()}
    return {} if value is None else {name: value}


def _nested(arrays: Arrays) -> dict[str, Any]:
    """Return nested dicts of arrays whose paths contain slashes."""
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
    """Return the JSON form of a parameter of an environment."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, range):
        return list(value)
    raise WarpDriveError(f"the environment's parameter {value!r} cannot be saved with a recording")
