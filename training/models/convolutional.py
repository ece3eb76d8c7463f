"""Actor-critic model for images: convolutions before perceptrons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gymnasium import Space
from torch import nn

from warpdrive.training.models.convolutions import OfImages, convolution_layers, image_shape, num_features
from warpdrive.training.models.flatten import Flatten
from warpdrive.training.models.options import ConvolutionalConfig
from warpdrive.training.models.perceptron import hidden_layers, perceptron
from warpdrive.training.models.two_headed import LogStd, TwoHeaded


class Convolutional(TwoHeaded):
    """Policy and value function of convolutions followed by a perceptron, separate or with a shared trunk.

    See ``convolution_layers``. Initialised like the standard model.

    Args:
        observation_space: Observation space of one agent, a Box of images ``[channels, height, width]``.
        num_outputs: Number of outputs of the policy.
        options: Section of the model in the run configuration.
        num_log_stds: Number of logarithms of standard deviations, for actions in a Box.

    Raises:
        DefinitionError: If observations are not images.
    """

    def __init__(
        self, observation_space: Space[Any], num_outputs: int, options: ConvolutionalConfig, num_log_stds: int = 0
    ) -> None:
        log_std, shape = LogStd.of(options, num_log_stds), image_shape(observation_space)
        num_outputs += log_std.num_outputs
        sizes = [num_features(observation_space, options), *options.hidden]

        def convolutions() -> list[nn.Module]:
            return convolution_layers(observation_space, options)

        def head(sizes: Sequence[int], outputs: int, last_gain: float) -> nn.Sequential:
            return perceptron([*sizes, outputs], options, last_gain)

        common: nn.Module | None = None
        if options.trunk == "shared":
            hidden_of_both = hidden_layers(sizes, options)
            common = OfImages(shape, *convolutions(), *hidden_of_both)
            policy, value = head(sizes[-1:], num_outputs, 0.01), head(sizes[-1:], 1, 1.0)
        else:
            policy = OfImages(shape, *convolutions(), head(sizes, num_outputs, 0.01))
            value = OfImages(shape, *convolutions(), head(sizes, 1, 1.0))
        flatten = Flatten(observation_space, options.scale_observations, options.normalize_observations)
        super().__init__(flatten, common, policy, value, log_std)
