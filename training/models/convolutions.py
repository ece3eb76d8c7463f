"""Stacks of convolutions for flattened images."""

from __future__ import annotations

from typing import Any

import torch
from gymnasium import Space, spaces
from torch import Tensor, nn

from warpdrive.errors import DefinitionError
from warpdrive.training.models.options import ConvolutionsConfig, PerceptronConfig
from warpdrive.training.models.perceptron import ACTIVATIONS, initialise


def num_features(space: Space[Any], options: ConvolutionsConfig) -> int:
    """Return the number of outputs of the convolutions for an image of ``space``; raises as :func:`image_shape`."""
    channels, height, width = image_shape(space)
    for filters, size, stride, padding in _convolutions(options):
        height, width = ((n + 2 * padding - size) // stride + 1 for n in (height, width))
        if min(height, width) < 1:
            raise DefinitionError(
                f"model.kernel_size: found {options.kernel_size} for images {image_shape(space)}, of which nothing is "
                f"left without padding"
            )
        channels = filters
    return channels * height * width


def convolution_layers(space: Space[Any], options: ConvolutionsConfig) -> list[nn.Module]:
    """Return the convolutions for images, each followed by an activation, and a layer that flattens their outputs.

    With ``padding`` images are zero-padded by half the kernel size, so that a convolution with an odd kernel and stride
    s maps height h to ceil(h / s).

    Args:
        space: Observation space ``[channels, height, width]``.
        options: Section of the model in the run configuration.
    """
    layers: list[nn.Module] = []
    inputs = image_shape(space)[0]
    for outputs, size, stride, padding in _convolutions(options):
        convolution = nn.Conv2d(inputs, outputs, size, stride, padding)
        inputs = outputs
        initialise(convolution.weight, 2**0.5, options.initialization)
        nn.init.zeros_(convolution.bias)  # type: ignore[arg-type]
        layers += [convolution, ACTIVATIONS[options.activation]()]
    return [*layers, nn.Flatten()]


def _convolutions(options: ConvolutionsConfig) -> list[tuple[int, int, int, int]]:
    """Return the filters, kernel size, stride and padding of each convolution."""
    count = len(options.filters)
    sizes, strides = (
        given if isinstance(given, list) else [given] * count for given in (options.kernel_size, options.stride)
    )
    paddings = [size // 2 if options.padding else 0 for size in sizes]
    return list(zip(options.filters, sizes, strides, paddings, strict=True))


class OfImages(nn.Sequential):
    """Layers for images that take them as flat vectors."""

    def __init__(self, image_shape: tuple[int, int, int], *layers: nn.Module) -> None:
        super().__init__(*layers)
        self.image_shape = image_shape

    def forward(self, flat: Tensor) -> Tensor:
        """Return outputs ``[..., outputs]`` of flat images ``[..., channels * height * width]``."""
        images = flat.reshape(-1, *self.image_shape)
        if torch.is_grad_enabled() and images.device.type == "cpu":  # faster there, but only with a backward pass
            images = images.contiguous(memory_format=torch.channels_last)
        outputs: Tensor = super().forward(images)  # type: ignore[no-untyped-call]
        return outputs.reshape(*flat.shape[:-1], outputs.shape[-1])


def image_shape(space: Space[Any]) -> tuple[int, int, int]:
    """Return the channels, height and width of image observations.

    Raises:
        DefinitionError: If they are not images.
    """
    if not isinstance(space, spaces.Box) or len(space.shape) != 3:
        raise DefinitionError(
            f"model.type: found 'convolutional' for the observation space {space}, expected a Box of images "
            "[channels, height, width]; 'fully_connected' takes any space"
        )
    channels, height, width = space.shape
    return channels, height, width


def features_of(space: Space[Any], size: int, options: PerceptronConfig) -> tuple[nn.Module, int]:
    """Return the layers between flat observations of ``space`` and a perceptron, and their number of outputs.

    Without convolutions this is the identity.

    Args:
        space: Observation space of one agent.
        size: Number of elements of a flat observation: the layers take ``[..., size]``.
        options: Section of the model in the run configuration.

    Returns:
        The layers, and their number of outputs.

    Raises:
        DefinitionError: If there are convolutions, and observations are not images.
    """
    if not isinstance(options, ConvolutionsConfig):
        return nn.Identity(), size
    layers = convolution_layers(space, options)
    return OfImages(image_shape(space), *layers), num_features(space, options)
