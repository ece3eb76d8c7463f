"""The model for images: convolutions before the perceptrons of the standard model."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from gymnasium import Space, spaces
from torch import Tensor, nn

from warpdrive.errors import DefinitionError
from warpdrive.training.models.flatten import Flatten
from warpdrive.training.models.perceptron import ACTIVATIONS, Initialization, hidden_layers, initialise, perceptron
from warpdrive.training.models.two_headed import NO_LOG_STD, LogStd, Trunk, TwoHeaded


class Convolutional(TwoHeaded):
    """Policy and value as stacks of convolutions with a perceptron after them, separate or with all but the last layer
    in common.

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
        log_std: how standard deviations of actions in a Box come about.
        scale_observations: whether numbers that the observation space bounds are first scaled from there to [-1, 1].
        normalize_observations: whether numbers are then standardised by their running mean and variance.
        initialization: of the weights, see ``perceptron.initialise``.
        trunk: whether policy and value have convolutions and hidden layers of their own.

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
        log_std: LogStd = NO_LOG_STD,
        scale_observations: bool = False,
        normalize_observations: bool = False,
        initialization: Initialization = "orthogonal",
        trunk: Trunk = "separate",
    ) -> None:
        if not isinstance(observation_space, spaces.Box) or len(observation_space.shape) != 3:
            raise DefinitionError(
                f"model.type 'convolutional': found the observation space {observation_space}, expected a Box of "
                "images [channels, height, width]; 'fully_connected' takes any space"
            )
        channels, height, width = image_shape = observation_space.shape
        for _ in filters:
            height, width = ((n + 2 * (kernel_size // 2) - kernel_size) // stride + 1 for n in (height, width))
        num_outputs += log_std.num_outputs
        sizes = [(filters[-1] if filters else channels) * height * width, *hidden]

        def convolutions() -> list[nn.Module]:
            return [*_convolutions([channels, *filters], kernel_size, stride, activation, initialization), nn.Flatten()]

        def head(sizes: Sequence[int], outputs: int, last_gain: float) -> nn.Sequential:
            return perceptron([*sizes, outputs], activation, last_gain, initialization)

        common: nn.Module | None = None
        if trunk == "shared":
            hidden_of_both = hidden_layers(sizes, activation, initialization)
            common = _OfImages(image_shape, *convolutions(), *hidden_of_both)
            policy, value = head(sizes[-1:], num_outputs, 0.01), head(sizes[-1:], 1, 1.0)
        else:
            policy = _OfImages(image_shape, *convolutions(), head(sizes, num_outputs, 0.01))
            value = _OfImages(image_shape, *convolutions(), head(sizes, 1, 1.0))
        super().__init__(
            Flatten(observation_space, scale_observations, normalize_observations), common, policy, value, log_std
        )


class _OfImages(nn.Sequential):
    """Layers that take images, for vectors that hold them."""

    def __init__(self, image_shape: tuple[int, ...], *layers: nn.Module) -> None:
        super().__init__(*layers)
        self.image_shape = image_shape

    def forward(self, flat: Tensor) -> Tensor:
        """``[..., channels * height * width]`` -> ``[..., outputs]``."""
        outputs: Tensor = super().forward(flat.reshape(-1, *self.image_shape))  # type: ignore[no-untyped-call]
        return outputs.reshape(*flat.shape[:-1], -1)


def _convolutions(
    channels: Sequence[int], kernel_size: int, stride: int, activation: str, initialization: Initialization
) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(channels):
        convolution = nn.Conv2d(inputs, outputs, kernel_size, stride, padding=kernel_size // 2)
        initialise(convolution.weight, 2**0.5, initialization)
        nn.init.zeros_(convolution.bias)  # type: ignore[arg-type]
        layers += [convolution, ACTIVATIONS[activation]()]
    return layers
