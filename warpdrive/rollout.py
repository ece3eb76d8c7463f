"""Rollout buffers, written in place by the fused step."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from warpdrive.device_context import DeviceContext
from warpdrive.errors import DefinitionError, nearest, shown
from warpdrive.fused_step.binding import Binding, may_change
from warpdrive.observations import Observations, mapped, tensors
from warpdrive.spaces import action_arrays, observation_arrays

_OPTIONAL = {"active": "active", "still_active": "active", "action_mask": "action_mask"}
"""Optional fields of a rollout, and the environment's array that each is recorded from."""


@dataclass
class Rollout:
    """Rollout buffer for ``num_steps`` steps of all replicas and agents, on the device.

    ```python
    rollout = env.allocate_rollout(num_steps=32)
    rollout.begin()
    for _ in range(32):
        env.logits("tagger").copy_(policy(env.observations("tagger")))
        env.step_rollout(rollout)  # samples actions, steps and records in one launch
    rollout.of("rewards", "tagger")  # [32, num_envs, agents of the tag]
    ```

    Attributes:
        observations: ``[num_steps + 1, num_envs, num_agents, *shape]``: Observations before each step, and after the
            last; a dict by tag if tags have separate spaces, by key for a Dict space.
        actions: ``[num_steps, num_envs, num_agents(, n)]`` int32, or ``[num_steps, num_envs, num_agents, *shape]``
            float32 for Box: Sampled actions, before they are clipped to the Box for the environment; a dict by tag if
            tags have separate spaces.
        log_probabilities: ``[num_steps, num_envs, num_agents]`` float32: Log-probabilities of the actions under the
            policy that sampled them.
        rewards: ``[num_steps, num_envs, num_agents]`` float32.
        terminated, truncated: ``[num_steps, num_envs]`` bool: True if the episode ended in this step.
        active: ``[num_steps, num_envs, num_agents]`` bool: True if the agent was in the episode when it acted; None if
            agents never leave.
        still_active: ``[num_steps, num_envs, num_agents]`` bool: True if the agent was still in the episode after the
            step, before any reset; None if agents never leave. An agent's last step is the one in which it is active
            and not still active.
        action_mask: ``[num_steps, num_envs, num_agents, num_actions]`` bool: Allowed actions; None if there is no mask.
        final_observations: ``[slots, num_envs, num_agents, *shape]``: The last observations of truncated episodes, at
            ``[final_slot[t, env], env]``. There are as many slots as a replica can have truncations in a rollout.
        final_action_mask: ``[slots, num_envs, num_agents, num_actions]`` bool: The action masks at these observations;
            None if there is no mask.
        final_slot: ``[num_steps, num_envs]`` int32: The index in ``final_observations`` for the episode truncated in
            this step; -1 if none was, or if the episode also terminated in this step.
        global_state: ``[num_steps + 1, num_envs, *shape]`` by name: The arrays of the environment's ``global_state``,
            before each step and after the last; empty unless requested.
        final_global_state: ``[slots, num_envs, *shape]`` by name: The global state at the end of truncated episodes.
        step: ``[1]`` int32: The index of the step recorded next.
        steps_recorded: The same index on the host, available without synchronization.
        by_tag: The names of the fields that are dicts by tag.
        memory: ``[num_envs, agents of the tag, n]`` float32, by tag: The recurrent state before the first step; zero
            where an episode began there.
        seen: Pairs of the tensor of current observations and the one that it is recorded in.
    """

    observations: Observations
    actions: torch.Tensor | dict[str, torch.Tensor]
    log_probabilities: torch.Tensor
    rewards: torch.Tensor
    terminated: torch.Tensor
    truncated: torch.Tensor
    active: torch.Tensor | None
    still_active: torch.Tensor | None
    action_mask: torch.Tensor | None
    final_observations: Observations
    final_action_mask: torch.Tensor | None
    final_slot: torch.Tensor
    step: torch.Tensor
    final_count: torch.Tensor
    context: DeviceContext
    agents: Mapping[str, torch.Tensor | slice]
    by_tag: Collection[str]
    seen: Sequence[tuple[torch.Tensor, torch.Tensor]]
    launch: Callable[[], None]
    steps_recorded: int = 0
    memory: Mapping[str, torch.Tensor] = field(default_factory=dict)
    global_state: dict[str, torch.Tensor] = field(default_factory=dict)
    final_global_state: dict[str, torch.Tensor] = field(default_factory=dict)

    @property
    def num_steps(self) -> int:
        """The capacity in steps."""
        return self.rewards.shape[0]

    @property
    def nbytes(self) -> int:
        """The total size of the tensors in bytes."""
        nested = ("observations", "actions", "final_observations", "global_state", "final_global_state")
        held = [value for name, value in vars(self).items() if name in nested or isinstance(value, torch.Tensor)]
        return sum(tensor.nbytes for value in held for tensor in tensors(value))

    @property
    def num_final(self) -> int:
        """The number of slots for final observations."""
        return len(next(tensors(self.final_observations)))

    def begin(self) -> None:
        """Restart at step 0, from the current observations."""
        self.steps_recorded = 0
        self.step.zero_()
        self.final_count.zero_()
        for present, recorded in self.seen:
            recorded[0].copy_(present)

    def clear_absent(self) -> None:
        """Clear the entries of inactive agents, so that they cannot affect training.

        Their observations, actions and log-probabilities become 0, and masks allow all actions. An environment may
        leave NaN in these entries, and 0 times NaN is NaN. The fused step has cleared their non-finite rewards.
        """
        if self.active is None or self.still_active is None:
            return
        absent = ~self.active
        seen_by_absent = torch.cat([absent, ~self.context["active"].unsqueeze(0)])
        for name, away in (
            ("observations", seen_by_absent),
            ("final_observations", self._absent_at_the_end()),
            ("actions", absent),
            ("log_probabilities", absent),
        ):
            self._fill(name, away)
        if self.action_mask is not None:
            self.action_mask.masked_fill_(absent.unsqueeze(-1), True)

    def _absent_at_the_end(self) -> torch.Tensor:
        """Return a mask of agents inactive at the end of truncated episodes: ``[slots, num_envs, num_agents]`` bool."""
        assert self.still_active is not None
        slot = torch.where(self.final_slot < 0, self.num_final, self.final_slot).long()  # extra slot for other steps
        absent = self.still_active.new_zeros(self.num_final + 1, *self.still_active.shape[1:])
        return absent.scatter_(0, slot.unsqueeze(-1).expand_as(self.still_active), ~self.still_active)[:-1]

    def _fill(self, name: str, away: torch.Tensor) -> None:
        """Write zeros where ``away [steps, num_envs, num_agents]`` is True."""
        value = getattr(self, name)
        parts = value if name in self.by_tag else {None: value}
        for tag, part in parts.items():
            agents = away if tag is None else of_agents(away, self.agents[tag], dim=2)
            for tensor in tensors(part):
                tensor.masked_fill_(agents.view(*agents.shape, *[1] * (tensor.dim() - 3)), 0)

    def of(self, name: str, tag: str) -> Any:
        """Return a field, given by attribute name, restricted to the agents of a policy tag.

        Args:
            name: The name of an attribute with an axis of agents: ``"rewards"``.
            tag: The policy tag.

        Returns:
            ``[num_steps, num_envs, agents of the tag, ...]``: a view if the ids of the agents are contiguous or the tag
            has a separate tensor, otherwise a copy. Observations of a Dict space are a dict of tensors.

        Raises:
            DefinitionError: If there is no such attribute or policy tag.
        """
        if not hasattr(self, name):
            raise DefinitionError(f"a rollout has no field {shown(name)}.{nearest(name, vars(self))}")
        if tag not in self.agents:
            raise DefinitionError(f"unknown policy tag {shown(tag)}: expected one of {', '.join(self.agents)}")
        found = getattr(self, name)
        if name in self.by_tag:
            return found[tag]
        return mapped(lambda tensor: of_agents(tensor, self.agents[tag], dim=2), found)


def of_agents(tensor: torch.Tensor, agents: torch.Tensor | slice, dim: int) -> torch.Tensor:
    """Index the agents' axis of a tensor.

    Args:
        tensor: The tensor.
        agents: The index: a tensor of ids, or a slice.
        dim: The axis of the agents.

    Returns:
        A view if ``agents`` is a slice, otherwise a copy.
    """
    if isinstance(agents, slice):
        return tensor.narrow(dim, agents.start, agents.stop - agents.start)
    return tensor.index_select(dim, agents)


def make_record(binding: Binding, num_steps: int, global_state: Sequence[str] = ()) -> dict[str, torch.Tensor]:
    """Allocate the arrays ``rollout.<name>`` that the fused step records into.

    Those of the global state are called ``global_state.<name>`` and ``final_global_state.<name>``.

    Args:
        binding: The binding of the environment's arrays.
        num_steps: The number of steps.
        global_state: The names of the arrays recorded as global state.

    Returns:
        The tensors, by name.

    Raises:
        DefinitionError: If there is not enough memory.
    """
    environment, context = binding.environment, binding.context
    per_env = (num_steps, context.num_envs)
    per_agent = (*per_env, int(environment.num_agents))
    shapes: dict[str, tuple[tuple[int, ...], torch.dtype]] = {
        "log_probabilities": (per_agent, torch.float32),
        "rewards": (per_agent, torch.float32),
        "terminated": (per_env, torch.bool),
        "truncated": (per_env, torch.bool),
        "final_slot": (per_env, torch.int32),
        "final_count": (per_env[1:], torch.int32),
        "step": ((1,), torch.int32),
    }
    for name, source in _OPTIONAL.items():
        if source in context:
            shapes[name] = ((num_steps, *context[source].shape), torch.bool)
    slots = _most_truncations(binding, num_steps)
    if "action_mask" in context:
        shapes["final_action_mask"] = ((slots, *context["action_mask"].shape), torch.bool)
    for array in action_arrays(environment):
        shapes[array.name] = ((*per_env, *array.shape), context[array.name].dtype)
    for array in observation_arrays(environment):
        dtype = context[array.name].dtype
        shapes[array.name] = ((num_steps + 1, context.num_envs, *array.shape), dtype)
        shapes[f"final_{array.name}"] = ((slots, context.num_envs, *array.shape), dtype)
    for name in global_state:
        present = context[name]
        shapes[f"global_state.{name}"] = ((num_steps + 1, *present.shape), present.dtype)
        shapes[f"final_global_state.{name}"] = ((slots, *present.shape), present.dtype)
    return {name: context.zeros(f"rollout.{name}", shape, dtype) for name, (shape, dtype) in shapes.items()}


def _most_truncations(binding: Binding, num_steps: int) -> int:
    """Return the maximum number of truncations of one replica's episodes within a rollout."""
    environment = binding.environment
    shortest = int(environment.episode_length)
    if any(may_change(kernel, name) for kernel in binding.functions for name in ("truncated", "timestep")):
        shortest = min(shortest, int(environment.steps_between_truncations))
    return (num_steps - 1) // shortest + 1
