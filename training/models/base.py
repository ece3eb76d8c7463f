"""What the trainer asks of a model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from torch import Tensor, nn

from warpdrive.observations import Observations
from warpdrive.training.models.flatten import Flatten

if TYPE_CHECKING:  # a policy that was loaded acts without kernels
    from warpdrive.env_wrapper import EnvWrapper


class Actor(nn.Module, ABC):
    """What acts for the agents of a policy tag."""

    @abstractmethod
    def logits(self, observations: Observations) -> Tensor:
        """``[..., *observation_shape]`` of any dtype -> ``[..., num_logits]`` float32, for a ``Distribution``.

        Observations of a Dict space are a dict of such tensors by key.
        """

    def act(self, env: EnvWrapper, tag: str) -> None:
        """Put what it makes of what the agents of ``tag`` see now where the next step samples from.

        It is called before each step, and works at fixed addresses of the device; what it keeps between steps is in
        its buffers.
        """
        env.logits(tag).copy_(self.logits(env.observations(tag)))

    def kept_between_steps(self) -> dict[str, Tensor]:
        """What it keeps from one step to the next, by name: those of its buffers that are not persistent.

        Persistent ones, as running statistics, belong to what is learned, which checkpoints and copies take over.
        """
        learned = self.state_dict()
        return {name: buffer for name, buffer in self.named_buffers() if name not in learned}

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
