"""What the trainer asks of a model."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from warpdrive.observations import Observations


class ActorCritic(nn.Module, ABC):
    """A policy and a value estimate over the same observations."""

    @abstractmethod
    def logits(self, observations: Observations) -> Tensor:
        """``[..., *observation_shape]`` of any dtype -> ``[..., num_logits]`` float32, for a ``Distribution``.

        Observations of a Dict space are a dict of such tensors by key.
        """

    @abstractmethod
    def values(self, observations: Observations) -> Tensor:
        """``[..., *observation_shape]`` of any dtype -> ``[...]`` float32."""

    def forward(self, observations: Observations) -> tuple[Tensor, Tensor]:
        """Logits ``[..., num_logits]`` and values ``[...]``."""
        return self.logits(observations), self.values(observations)
