"""Standard model: one multi-layer perceptron each for the policy and the value function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gymnasium import Space
from torch import nn

from warpdrive.training.models.flatten import Flatten
from warpdrive.training.models.perceptron import Initialization, hidden_layers, perceptron
from warpdrive.training.models.two_headed import NO_LOG_STD, LogStd, Trunk, TwoHeaded


class FullyConnected(TwoHeaded):
    """Policy and value function as perceptrons, separate or with shared hidden layers.

    The gain of the last layer is 0.01 for the policy, which starts nearly uniform, and 1 for the value.

    Args:
        observation_space: observation space of one agent; observations are flattened, and values of a Dict
            concatenated.
        num_outputs: number of outputs of the policy.
        hidden: width of each hidden layer.
        activation: ``"tanh"`` or ``"relu"``.
        log_std: parametrisation of the standard deviations of actions in a Box.
        scale_observations: If True, elements that the observation space bounds are first scaled to [-1, 1].
        normalize_observations: If True, elements are then standardised by their running mean and variance.
        initialization: initialization of the weights, see ``perceptron.initialise``.
        trunk: ``"separate"`` or ``"shared"``: hidden layers of policy and value function.
    """

    def __init__(
        self,
        observation_space: Space[Any],
        num_outputs: int,
        hidden: Sequence[int],
        activation: str,
        log_std: LogStd = NO_LOG_STD,
        scale_observations: bool = False,
        normalize_observations: bool = False,
        initialization: Initialization = "orthogonal",
        trunk: Trunk = "separate",
    ) -> None:
        flatten = Flatten(observation_space, scale_observations, normalize_observations)
        sizes = [flatten.size, *hidden]
        common = None
        if trunk == "shared":
            common = nn.Sequential(*hidden_layers(sizes, activation, initialization))
            sizes = sizes[-1:]
        policy = perceptron([*sizes, num_outputs + log_std.num_outputs], activation, 0.01, initialization)
        value = perceptron([*sizes, 1], activation, 1.0, initialization)
        super().__init__(flatten, common, policy, value, log_std)
