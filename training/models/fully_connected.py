"""The standard model: one multi-layer perceptron for the policy and one for the value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gymnasium import Space
from torch import nn

from warpdrive.training.models.flatten import Flatten
from warpdrive.training.models.perceptron import Initialization, hidden_layers, perceptron
from warpdrive.training.models.two_headed import NO_LOG_STD, LogStd, Trunk, TwoHeaded


class FullyConnected(TwoHeaded):
    """Policy and value as perceptrons, separate or with common hidden layers.

    The gain of the last layer is 0.01 for the policy, which starts nearly uniform, and 1 for the value.

    Args:
        observation_space: of one agent; observations are flattened, and what keys of a Dict hold put side by side.
        num_outputs: what the policy makes of an observation.
        hidden: width of each hidden layer.
        activation: ``"tanh"`` or ``"relu"``.
        log_std: how standard deviations of actions in a Box come about.
        scale_observations: whether numbers that the observation space bounds are first scaled from there to [-1, 1].
        normalize_observations: whether numbers are then standardised by their running mean and variance.
        initialization: of the weights, see ``perceptron.initialise``.
        trunk: whether policy and value have hidden layers of their own.
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
