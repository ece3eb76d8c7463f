"""What the trainer asks of a model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Literal

from torch import Tensor, nn

from warpdrive.observations import Observations, mapped
from warpdrive.training.models.flatten import Flatten

if TYPE_CHECKING:  # a policy that was loaded acts without kernels
    from warpdrive.env_wrapper import EnvWrapper


Units = Literal["box", "half_range", "squashed"]
"""What means and standard deviations of actions in a Box are: numbers of the Box; in units of half its range, from its
centre on; or of what the hyperbolic tangent squashes to it."""


def observations_of(env: EnvWrapper, tag: str) -> Observations:
    """Return what the agents of a tag see now, with zeros for those who are out of the episode, as rollouts have them.

    ``[num_envs, agents of the tag, *observation_shape]``, by key where the observation space is a Dict.
    """
    active = env.active(tag)
    seen: Observations = env.observations(tag)
    if active is None:
        return seen
    return mapped(lambda rows: rows.masked_fill(~active.view(*active.shape, *[1] * (rows.dim() - 2)), 0), seen)


class Actor(nn.Module, ABC):
    """What acts for the agents of a policy tag.

    Attributes:
        state_size: how many numbers it keeps for an agent from one step of an episode to the next.
        action_units: of what it makes for actions in a Box.
    """

    state_size: int = 0
    action_units: Units = "box"

    @abstractmethod
    def logits(self, observations: Observations) -> Tensor:
        """``[..., *observation_shape]`` of any dtype -> ``[..., num_logits]`` float32, for a ``Distribution``.

        Observations of a Dict space are a dict of such tensors by key. A model with a state takes them for the first of
        an episode.
        """

    def step(self, observations: Observations, state: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of observations, and what is to be kept until the next ones.

        Args:
            observations: see :meth:`logits`.
            state: ``[..., state_size]`` float32, what was kept: zeros where an episode begins.
        """
        return self.logits(observations), state

    def step_in(self, env: EnvWrapper, tag: str, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits of what the agents of ``tag`` see now, and what is to be kept; see :meth:`step`."""
        return self.step(observations_of(env, tag), state)

    def in_replicas(self, num_envs: int, num_agents: int) -> Actor:
        """What acts in so many replicas with so many agents of the tag: itself, unless it needs room there."""
        return self

    def memory(self) -> Tensor | None:
        """``[num_envs, agents of the tag, state_size]``, where it keeps its state in replicas; None if it has none."""
        return None

    def act(self, env: EnvWrapper, tag: str) -> None:
        """Put what it makes of what the agents of ``tag`` see now where the next step samples from.

        It is called before each step, and works at fixed addresses of the device; what it keeps between steps is in
        its buffers.
        """
        env.logits(tag).copy_(self.logits(observations_of(env, tag)))

    def kept_between_steps(self) -> dict[str, Tensor]:
        """What it keeps from one step to the next, ``[num_envs, ...]`` by name: buffers that its modules call ``kept``.

        They are not persistent: what is learned, as parameters and running statistics, is the same for all replicas.
        """
        return {
            f"{module}.{name}" if module else name: part.get_buffer(name)
            for module, part in self.named_modules()
            for name in getattr(part, "kept", ())
        }

    def observe(self, observations: Observations, weight: Tensor) -> None:
        """Let running statistics take in a rollout that has been learned from: ``[rows, *observation_shape]``.

        Args:
            observations: what agents saw before each step.
            weight: ``[rows]`` float32, 1 where the agent was in the episode and 0 where not.
        """
        for part in self.modules():
            if isinstance(part, Flatten):
                part.observe(observations, weight)


class ActorCritic(Actor):
    """A policy and a value estimate over the same observations."""

    @abstractmethod
    def values(self, observations: Observations) -> Tensor:
        """``[..., *observation_shape]`` of any dtype -> ``[...]`` float32."""

    def forward(self, observations: Observations) -> tuple[Tensor, Tensor]:
        """Logits ``[..., num_logits]`` and values ``[...]``."""
        return self.logits(observations), self.values(observations)

    def through(self, observations: Observations, state: Tensor, begins: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What it makes of sequences.

        Args:
            observations: ``[T, n, *observation_shape]``, step after step.
            state: ``[n, state_size]``, before the first step.
            begins: ``[T, n]`` bool: an episode begins with this observation, so the state is zero before it.

        Returns:
            logits ``[T, n, num_logits]``, values ``[T, n]``, and the states ``[T, n, state_size]`` after each step.
        """
        return *self.forward(observations), state.expand(*begins.shape, -1)
