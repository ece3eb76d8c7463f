"""Recording of an episode: all replicas are stepped, and selected ones are read from the device after each step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import torch

from warpdrive.errors import DefinitionError, shown
from warpdrive.recording.recording import Array, Recording
from warpdrive.spaces import action_arrays, nested, observation_arrays

if TYPE_CHECKING:
    from warpdrive.env_wrapper import EnvWrapper


def checked_replicas(replicas: Iterable[int] | int, num_envs: int) -> list[int]:
    """Return the indices of the selected replicas; raise :class:`DefinitionError` for invalid ones."""
    given = list(replicas) if isinstance(replicas, Iterable) else [replicas]
    if not given:
        raise DefinitionError("there is no replica to record: replicas is empty")
    for replica in given:
        if not isinstance(replica, (int, np.integer)) or isinstance(replica, bool) or not 0 <= replica < num_envs:
            there_are = f"{num_envs}, 0 to {num_envs - 1}" if num_envs > 1 else "one, 0"
            raise DefinitionError(f"replica {shown(replica)} does not exist: there are {there_are}")
    if len(set(given)) < len(given):
        raise DefinitionError(f"replicas is {given}: each can be recorded once")
    return [int(replica) for replica in given]


class EpisodeRecorder:
    """Reads the arrays of selected replicas from the device, once before and once after each step.

    Args:
        env: The replicas.
        replicas: The indices of the replicas to read.
        observations: If True, read the observations.
        logits: If True, read the policy outputs.
    """

    def __init__(self, env: EnvWrapper, replicas: list[int], observations: bool, logits: bool) -> None:
        self.env, self.replicas = env, replicas
        self.rows = torch.tensor(replicas, device=env.device)
        self.seen = observation_arrays(env.env) if observations else []
        self.acted = action_arrays(env.env)
        self.tags = list(env.policy_tags) if logits else []
        before = [*_state_names(env), *(array.name for array in self.seen)]
        self.before: dict[str, list[Array]] = {name: [] for name in before}
        done = ["rewards", "sampler.log_probabilities", *(array.name for array in self.acted)]
        self.done: dict[str, list[Array]] = {name: [] for name in [*done, *(_logits(tag) for tag in self.tags)]}
        self.lengths = np.zeros(len(replicas), np.int32)
        self.terminated, self.truncated = np.zeros(len(replicas), np.bool_), np.zeros(len(replicas), np.bool_)

    def read_state(self) -> None:
        """Read the current state of the replicas; finished episodes keep their last state."""
        ended = self.ended
        for name, rows in self.before.items():
            state = self._read(name)
            if rows:
                state[ended] = rows[-1][ended]
            rows.append(state)

    def read_step(self) -> None:
        """Read the results of the last step, then the current state."""
        running = ~self.ended
        for name, rows in self.done.items():
            row = self._read(name)
            row[~running] = 0
            rows.append(row)
        self.read_state()
        self.lengths += running
        self.terminated |= running & self._read("terminated")
        self.truncated |= running & self._read("truncated")

    @property
    def num_steps(self) -> int:
        """The number of steps read."""
        return len(self.done["rewards"])

    @property
    def ended(self) -> Array:
        """Mask of the episodes that have ended."""
        return self.terminated | self.truncated

    def result(self) -> Recording:
        """Return the recording."""
        env = self.env
        before = {name: np.stack(rows) for name, rows in self.before.items()}
        done = {name: np.stack(rows) for name, rows in self.done.items()}
        return Recording(
            env_name=env.env_name,
            env_config=env.env_config,
            policy_tags=env.policy_tags,
            by_tag=[
                name
                for name, space in (("actions", env.env.action_space), ("observations", env.env.observation_space))
                if isinstance(space, dict)
            ],
            replicas=np.array(self.replicas),
            seed=env.seed,
            states={name: before[name] for name in _state_names(env)},
            actions=nested(self.acted, lambda array: done[array.name]),
            rewards=done["rewards"],
            log_probabilities=done["sampler.log_probabilities"],
            lengths=self.lengths,
            terminated=self.terminated,
            truncated=self.truncated,
            observations=nested(self.seen, lambda array: before[array.name]) if self.seen else None,
            logits={tag: done[_logits(tag)] for tag in self.tags} or None,
        )

    def _read(self, name: str) -> Array:
        return self.env.ctx[name][self.rows].cpu().numpy()


def _logits(tag: str) -> str:
    return f"sampler.logits_{tag}"


def _state_names(env: EnvWrapper) -> list[str]:
    """Return the names of the state arrays of a replica, without the inputs and outputs of a step."""
    others = {"rewards", "terminated", "truncated", "rng"}
    others |= {array.name for array in action_arrays(env.env)}
    others |= {name for array in observation_arrays(env.env) for name in (array.name, f"final_{array.name}")}
    return [name for name in env.ctx.state_names if "." not in name and name not in others]
