"""Game: an environment, policies and human players, as kernels that a host launches one after the other.

A step is: the forward pass of each policy, sampling of actions, replacement of some of them by those of human players,
and the step with given actions. The samples of an agent do not depend on which other agents are human players. The step
after the last one of an episode starts the next episode, so that the final state is visible.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces

from warpdrive.env_wrapper import EnvWrapper
from warpdrive.fused_step.fuse import FusedKernel
from warpdrive.spaces import SpaceArray, observation_arrays
from warpdrive.training.inference.trained_policy import TrainedPolicy
from warpdrive.training.web.forward import forward_of

PREFIX = "web."
"""Prefix of the arrays of policies in the device context."""


class Game:
    """Replicas of an environment with policies that act in them.

    Args:
        env: The replicas, new ones.
        policies: Policies by tag; agents of other tags act uniformly at random.
        greedy: If True, agents take the most probable action instead of sampling.

    Attributes:
        kernels: Kernels by name: ``reset``, ``act_<tag>`` for each policy, ``actions``, ``step``, and ``draw`` if the
            environment has a ``draw`` kernel.
        hashed: Names of the arrays of which :meth:`state_words` consists.

    Raises:
        ExportError: If the model of a policy is not one of the library's.
    """

    def __init__(self, env: EnvWrapper, policies: Mapping[str, TrainedPolicy], greedy: bool = False) -> None:
        self.env, self.tags = env, list(policies)
        env.greedy = greedy
        kernels = env.kernels_of_a_game(drawn=not policies)
        acts: dict[str, FusedKernel] = {}
        for tag, policy in policies.items():
            acts[f"act_{tag}"] = self._forward(tag, policy)
        self.kernels = {"reset": kernels["reset"], **acts}
        self.kernels |= {name: kernel for name, kernel in kernels.items() if name != "reset"}
        self.hashed = [name for name in env.ctx.state_names if env.ctx[name].numel()]
        self._launches: dict[str, Callable[[], None]] = {}

    def _forward(self, tag: str, policy: TrainedPolicy) -> FusedKernel:
        env, context = self.env, self.env.ctx
        seen = observations_of(env, tag)
        forward = forward_of(tag, policy.model, seen, can_leave="active" in context)
        fused = FusedKernel(f"act_{tag}", context)
        arrays = {"rows": f"constant.rows_{tag}", "logits": f"sampler.logits_{tag}"}
        for number, array in enumerate(seen):
            arrays[f"seen_{number}"] = fused.items(array.name)
            arrays[f"seen_rows_{number}"] = name = f"{PREFIX}rows_of_{array.name}"
            if name not in context:
                context.put(name, _rows(array.agents, env.num_agents))
        for name, values in forward.weights.items():
            arrays[name] = f"{PREFIX}{tag}.{name}"
            context.put(arrays[name], values)
        if forward.state_size:
            arrays["memory"] = f"{PREFIX}{tag}.memory"
            context.zeros(
                arrays["memory"], (env.num_envs, len(env.policy_tags[tag]), forward.state_size), torch.float32
            )
        if isinstance(env.action_spaces[tag], spaces.Box):
            units = policy.model.action_units
            env.squash(tag).fill_(units == "squashed")
            env.normalize(tag).fill_(units == "half_range")
        fused.call(forward.kernel, **arrays)
        return fused

    def launch(self, name: str) -> None:
        """Launch one of the kernels on the backend of the replicas."""
        if name not in self._launches:
            self._launches[name] = self.kernels[name].bind(self.env.backend, self.env.num_agents)
        self._launches[name]()

    def step(self) -> None:
        """Sample the actions of the policies, and step all replicas."""
        for name in self.kernels:
            if name not in ("reset", "draw"):
                self.launch(name)

    def state_words(self) -> npt.NDArray[np.uint32]:
        """Return the state of all replicas as it lies in the memory of a page: arrays padded to 64 bytes."""
        parts = []
        for name in self.hashed:
            content = self.env.ctx[name].numpy().tobytes()
            parts.append(content + bytes(-len(content) % 64))
        return np.frombuffer(b"".join(parts), np.uint32)


def _rows(agents: Sequence[int], count: int) -> npt.NDArray[np.int32]:
    """Return the row of each agent among the given ones, or -1."""
    rows = np.full(count, -1, np.int32)
    rows[list(agents)] = np.arange(len(agents))
    return rows


def observations_of(env: EnvWrapper, tag: str) -> Sequence[SpaceArray]:
    """Return the arrays that the policy of a tag observes; of a Dict space sorted by key."""
    is_by_tag = isinstance(env.env.observation_space, dict)
    arrays = [array for array in observation_arrays(env.env) if not is_by_tag or array.path[0] == tag]
    return sorted(arrays, key=lambda array: array.path)


def digest(words: npt.NDArray[np.uint32], before: int = 0) -> int:
    """Return a hash of 32-bit words, of two halves of 32 bits, that continues an earlier one.

    It is a sum with a different weight for each word, which NumPy computes vectorised, and pages in one loop.

    Args:
        words: The words.
        before: The hash to continue.

    Returns:
        An integer below 2**64.
    """
    weights = (np.arange(len(words), dtype=np.uint32) * np.uint32(0x9E3779B2)) | np.uint32(1)
    with np.errstate(over="ignore"):
        low = int((words * weights).sum(dtype=np.uint32))
        high = int(((words ^ (words >> np.uint32(15))) * weights).sum(dtype=np.uint32))
    before_low, before_high = before & 0xFFFFFFFF, before >> 32
    low = (before_low * 31 + low) & 0xFFFFFFFF
    high = (before_high * 31 + high) & 0xFFFFFFFF
    return high << 32 | low


def digest_of_steps(game: Game, steps: int) -> int:
    """Return the hash of the states after each of the next steps."""
    found = digest(game.state_words())
    for _ in range(steps):
        game.step()
        found = digest(game.state_words(), found)
    return found
