"""The model for images: convolutions before the perceptrons of the standard model."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from gymnasium import Space, spaces
from torch import Tensor, nn

from warpdrive.errors import DefinitionError
from warpdrive.observations import Observations
from warpdrive.training.models.base import ActorCritic
from warpdrive.training.models.flatten import Flatten
from warpdrive.training.models.perceptron import ACTIVATIONS, perceptron


class Convolutional(ActorCritic):
    """Policy and value as separate stacks of convolutions, each with a perceptron after it.

    Images are padded with zeros by half of a kernel, so that one with an odd size and a stride s makes an image of
    height h one of height ceil(h / s). Initialised like the standard model.

    Args:
        observation_space: of one agent, a Box of images ``[channels, height, width]``.
        num_outputs: what the policy makes of an observation.
        filters: how many channels each convolution makes.
        kernel_size: height and width of the convolutions' kernels.
        stride: of the convolutions.
        hidden: width of each hidden layer of the perceptrons.
        activation: ``"tanh"`` or ``"relu"``.
        num_log_stds: logarithms of standard deviations, which do not depend on the observation; they begin at 0.
        scale_observations: whether numbers that the observation space bounds are first scaled from there to [-1, 1].
        normalize_observations: whether numbers are then standardised by their running mean and variance.

    Raises:
        DefinitionError: observations are no images.
    """

    def __init__(
        self,
        observation_space: Space[Any],
        num_outputs: int,
        filters: Sequence[int],
        kernel_size: int,
        stride: int,
        hidden: Sequence[int],
        activation: str,
        num_log_stds: int = 0,
        scale_observations: bool = False,
        normalize_observations: bool = False,
    ) -> None:
        super().__init__()
        if not isinstance(observation_space, spaces.Box) or len(observation_space.shape) != 3:
            raise DefinitionError(
                f"model.type 'convolutional': found the observation space {observation_space}, expected a Box of "
                "images [channels, height, width]; 'fully_connected' takes any space"
            )
        self.flatten = Flatten(observation_space, scale_observations, normalize_observations)
        self.image_shape = observation_space.shape
        channels, height, width = self.image_shape
        for _ in filters:
            height, width = ((n + 2 * (kernel_size // 2) - kernel_size) // stride + 1 for n in (height, width))
        sizes = [(filters[-1] if filters else channels) * height * width, *hidden]

        def stack(outputs: int, last_gain: float) -> nn.Sequential:
            convolutions = _convolutions([channels, *filters], kernel_size, stride, activation)
            return nn.Sequential(*convolutions, nn.Flatten(), perceptron([*sizes, outputs], activation, last_gain))

        self.policy = stack(num_outputs, last_gain=0.01)
        self.value = stack(1, last_gain=1.0)
        self.log_std = nn.Parameter(torch.zeros(num_log_stds)) if num_log_stds else None

    def logits(self, observations: Observations) -> Tensor:
        """See ``ActorCritic``."""
        outputs = self._through(self.policy, observations)
        if self.log_std is None:
            return outputs
        return torch.cat([outputs, self.log_std.expand(*outputs.shape[:-1], -1)], dim=-1)

    def values(self, observations: Observations) -> Tensor:
        """See ``ActorCritic``."""
        return self._through(self.value, observations).squeeze(-1)

    def _through(self, stack: nn.Sequential, observations: Observations) -> Tensor:
        flat = self.flatten(observations)
        outputs: Tensor = stack(flat.reshape(-1, *self.image_shape))
        return outputs.reshape(*flat.shape[:-1], -1)


def _convolutions(channels: Sequence[int], kernel_size: int, stride: int, activation: str) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(channels):
        convolution = nn.Conv2d(inputs, outputs, kernel_size, stride, padding=kernel_size // 2)
        nn.init.orthogonal_(convolution.weight, 2**0.5)
        nn.init.zeros_(convolution.bias)  # type: ignore[arg-type]
        layers += [convolution, ACTIVATIONS[activation]()]
    return layers
