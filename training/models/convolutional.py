"""Actor-critic model for images: convolutions before perceptrons."""

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
    """Policy and value function of convolutions followed by a perceptron, separate or with a shared trunk.

    See ``Convolutions``. Initialised like the standard model.

    Args:
        observation_space: observation space of one agent, a Box of images ``[channels, height, width]``.
        num_outputs: number of outputs of the policy.
        filters: number of output channels of each convolution.
        kernel_size: height and width of the convolutions' kernels.
        stride: stride of the convolutions.
        hidden: width of each hidden layer of the perceptrons.
        activation: ``"tanh"`` or ``"relu"``.
        log_std: parametrisation of the standard deviations of actions in a Box.
        scale_observations: If True, elements that the observation space bounds are first scaled to [-1, 1].
        normalize_observations: If True, elements are then standardised by their running mean and variance.
        initialization: initialization of the weights, see ``perceptron.initialise``.
        trunk: ``"separate"`` or ``"shared"``: convolutions and hidden layers of policy and value function.

    Raises:
        DefinitionError: observations are not images.
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
