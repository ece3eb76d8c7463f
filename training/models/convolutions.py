"""Stacks of convolutions for flattened images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from gymnasium import Space, spaces
from torch import Tensor, nn

from warpdrive.errors import DefinitionError
from warpdrive.training.models.perceptron import ACTIVATIONS, Initialization, initialise


@dataclass(frozen=True)
class Convolutions:
    """Convolutions, each followed by an activation.

    Images are zero-padded by half the kernel size, so that a convolution with an odd kernel and stride s maps height h
    to ceil(h / s).

    Attributes:
        filters: number of output channels of each convolution.
        kernel_size: height and width of the kernels.
        stride: stride of all convolutions.
    """

    filters: Sequence[int]
    kernel_size: int
    stride: int

    def size(self, space: Space[Any]) -> int:
        """Return the number of outputs for an image of ``space``; raises as :func:`image_shape`."""
        channels, height, width = image_shape(space)
        padding = 2 * (self.kernel_size // 2)
        for _ in self.filters:
            height, width = ((n + padding - self.kernel_size) // self.stride + 1 for n in (height, width))
        return (self.filters[-1] if self.filters else channels) * height * width

    def layers(self, space: Space[Any], activation: str, initialization: Initialization) -> list[nn.Module]:
        """Return the layers for images.

        Args:
            space: observation space ``[channels, height, width]``.
            activation: ``"tanh"`` or ``"relu"``.
            initialization: initialization of the weights, see ``perceptron.initialise``.
        """
        layers: list[nn.Module] = []
        for inputs, outputs in pairwise([image_shape(space)[0], *self.filters]):
            convolution = nn.Conv2d(inputs, outputs, self.kernel_size, self.stride, padding=self.kernel_size // 2)
            initialise(convolution.weight, 2**0.5, initialization)
            nn.init.zeros_(convolution.bias)  # type: ignore[arg-type]
            layers += [convolution, ACTIVATIONS[activation]()]
        return [*layers, nn.Flatten()]


class OfImages(nn.Sequential):
    """Layers for images that take them as flat vectors."""

    def __init__(self, image_shape: tuple[int, int, int], *layers: nn.Module) -> None:
        super().__init__(*layers)
        self.image_shape = image_shape

    def forward(self, flat: Tensor) -> Tensor:
        """Return outputs ``[..., outputs]`` of flat images ``[..., channels * height * width]``."""
        outputs: Tensor = super().forward(flat.reshape(-1, *self.image_shape))  # type: ignore[no-untyped-call]
        return outputs.reshape(*flat.shape[:-1], -1)


def image_shape(space: Space[Any]) -> tuple[int, int, int]:
    """Return the channels, height and width of image observations.

    Raises:
        DefinitionError: they are not images.
    """
    if not isinstance(space, spaces.Box) or len(space.shape) != 3:
        raise DefinitionError(
            f"model.type 'convolutional': found the observation space {space}, expected a Box of "
            "images [channels, height, width]; 'fully_connected' takes any space"
        )
    channels, height, width = space.shape
    return channels, height, width


def features_of(
    space: Space[Any], size: int, convolutions: Convolutions | None, activation: str, initialization: Initialization
) -> tuple[nn.Module, int]:
    """Return the layers between flat observations of ``space`` and a perceptron, and their number of outputs.

    Without ``convolutions`` this is the identity.

    Args:
        space: observation space of one agent.
        size: number of elements of a flat observation: the layers take ``[..., size]``.
        convolutions: convolutions, or None.
        activation: ``"tanh"`` or ``"relu"``.
        initialization: initialization of the weights, see ``perceptron.initialise``.

    Raises:
        DefinitionError: there are convolutions, and observations are not images.
    """
    if convolutions is None:
        return nn.Identity(), size
    layers = convolutions.layers(space, activation, initialization)
    return OfImages(image_shape(space), *layers), convolutions.size(space)
