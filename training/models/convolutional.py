"""The model for images: convolutions before the perceptrons of the standard model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gymnasium import Space
from torch import nn

from warpdrive.training.models.convolutions import Convolutions, OfImages, image_shape
from warpdrive.training.models.flatten import Flatten
from warpdrive.training.models.perceptron import Initialization, hidden_layers, perceptron
from warpdrive.training.models.two_headed import NO_LOG_STD, LogStd, Trunk, TwoHeaded


class Convolutional(TwoHeaded):
    """Policy and value as stacks of convolutions with a perceptron after them, separate or with all but the last layer
    in common.

    See ``Convolutions``. Initialised like the standard model.

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
        stack, shape = Convolutions(filters, kernel_size, stride), image_shape(observation_space)
        num_outputs += log_std.num_outputs
        sizes = [stack.size(observation_space), *hidden]

        def convolutions() -> list[nn.Module]:
            return stack.layers(observation_space, activation, initialization)

        def head(sizes: Sequence[int], outputs: int, last_gain: float) -> nn.Sequential:
            return perceptron([*sizes, outputs], activation, last_gain, initialization)

        common: nn.Module | None = None
        if trunk == "shared":
            hidden_of_both = hidden_layers(sizes, activation, initialization)
            common = OfImages(shape, *convolutions(), *hidden_of_both)
            policy, value = head(sizes[-1:], num_outputs, 0.01), head(sizes[-1:], 1, 1.0)
        else:
            policy = OfImages(shape, *convolutions(), head(sizes, num_outputs, 0.01))
            value = OfImages(shape, *convolutions(), head(sizes, 1, 1.0))
        super().__init__(
            Flatten(observation_space, scale_observations, normalize_observations), common, policy, value, log_std
        )
