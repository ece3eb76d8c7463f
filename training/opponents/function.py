"""Agents controlled by a user-defined function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from gymnasium import Space, spaces
from torch import Tensor

from warpdrive.errors import ActionError, one_line
from warpdrive.observations import Observations
from warpdrive.training.models.base import Actor, observations_of
from warpdrive.training.opponents.base import Opponent

if TYPE_CHECKING:
    from warpdrive.env_wrapper import EnvWrapper

PlayFunction = Callable[[Any, Any, str], Tensor]
"""``function(observations, env, tag)``, see docs/guides/self_play.md."""
_EXACTLY = -20.0  # log standard deviation of a negligible noise


class FunctionOpponent(Opponent):
    """Opponent controlled by a function, in rollouts and in evaluations.

    Args:
        function: ``function(observations, env, tag)`` returns actions or logits; all tensors on the device.
    """

    def __init__(self, function: PlayFunction) -> None:
        self.actor = self.model = self.evaluation_model = FunctionActor(function)

    def begin(self, updates: int) -> None:
        """Do nothing."""

    def state_dict(self) -> dict[str, Any]:
        """Return an empty dictionary: a function has no state."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Do nothing: there is no state to restore."""


class FunctionActor(Actor):
    """Actor that writes a function's logits, or deterministic logits of its actions, for the next step.

    Args:
        function: See ``FunctionOpponent``.
    """

    def __init__(self, function: PlayFunction) -> None:
        super().__init__()
        self.function = function
        self.name = f"{function.__module__}:{getattr(function, '__qualname__', type(function).__qualname__)}"

    def logits(self, observations: Observations) -> Tensor:
        """Raise ``NotImplementedError``: the function needs an environment."""
        raise NotImplementedError(f"{self.name} can only act in an environment")

    def act(self, env: EnvWrapper, tag: str) -> None:
        """See ``Actor``.

        Raises:
            ActionError: If the function returned neither actions nor logits.
        """
        returned = self.function(observations_of(env, tag), env, tag)
        where = env.logits(tag)
        where.copy_(self._as_logits(returned, where, env.action_spaces[tag], tag))

    def _as_logits(self, returned: Any, where: Tensor, space: Space[Any], tag: str) -> Tensor:
        agents = where.shape[:-1]
        if isinstance(returned, Tensor) and returned.device == where.device:
            if returned.is_floating_point() and returned.shape == where.shape:
                return returned
            if isinstance(space, spaces.Box):
                if returned.is_floating_point() and returned.shape == (*agents, *space.shape):
                    means = returned.reshape(*agents, -1)
                    return torch.cat([means, torch.full_like(means, _EXACTLY)], dim=-1)
            elif not returned.is_floating_point() and returned.shape == (*agents, *(space.shape or ())):
                try:
                    return _certain(returned, where, space)
                except RuntimeError as error:  # of an index; a GPU does not tell
                    what = f"returned actions outside of {space}: {one_line(str(error))}"
                    raise ActionError(f"policy '{tag}': {self.name} {what}") from None
        kind = "floats" if isinstance(space, spaces.Box) else "integers"
        found = repr(returned)
        if isinstance(returned, Tensor):
            found = f"a tensor {tuple(returned.shape)} of {returned.dtype} on {returned.device}"
        wanted = f"actions {(*agents, *(space.shape or ()))} of {kind}, or logits {tuple(where.shape)} of floats"
        raise ActionError(f"policy '{tag}': {self.name} returned {found}, expected {wanted}, on {where.device}")


def _certain(actions: Tensor, where: Tensor, space: Space[Any]) -> Tensor:
    """Return logits of deterministic actions."""
    sizes = [where.shape[-1]] if isinstance(space, spaces.Discrete) else space.nvec.tolist()  # type: ignore[attr-defined]
    parts = actions.long().reshape(*where.shape[:-1], len(sizes)).unbind(-1)
    chosen = [
        where.new_zeros((*part.shape, size)).scatter_(-1, part.unsqueeze(-1), 1.0)
        for part, size in zip(parts, sizes, strict=True)
    ]
    return torch.cat(chosen, dim=-1).log()
