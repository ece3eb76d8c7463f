"""Standard model: one multi-layer perceptron each for the policy and the value function."""

from __future__ import annotations

from typing import Any

from gymnasium import Space

from warpdrive.training.models.flatten import Flatten
from warpdrive.training.models.options import FullyConnectedConfig
from warpdrive.training.models.perceptron import Perceptron, hidden_layers, perceptron
from warpdrive.training.models.two_headed import LogStd, TwoHeaded


class FullyConnected(TwoHeaded):
    """Policy and value function as perceptrons, separate or with shared hidden layers.

    The gain of the last layer is 0.01 for the policy, which starts nearly uniform, and 1 for the value.

    Args:
        observation_space: Observation space of one agent; observations are flattened, and values of a Dict
            concatenated.
        num_outputs: Number of outputs of the policy.
        options: Section of the model in the run configuration.
        num_log_stds: Number of logarithms of standard deviations, for actions in a Box.
    """

    def __init__(
        self, observation_space: Space[Any], num_outputs: int, options: FullyConnectedConfig, num_log_stds: int = 0
    ) -> None:
        log_std = LogStd.of(options, num_log_stds)
        flatten = Flatten(observation_space, options.scale_observations, options.normalize_observations)
        sizes = [flatten.size, *options.hidden]
        common = None
        if options.trunk == "shared":
            common = Perceptron(*hidden_layers(sizes, options))
            sizes = sizes[-1:]
        policy = perceptron([*sizes, num_outputs + log_std.num_outputs], options, last_gain=0.01)
        value = perceptron([*sizes, 1], options, last_gain=1.0)
        super().__init__(flatten, common, policy, value, log_std)
