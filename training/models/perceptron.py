"""What models are made of."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import nn

ACTIVATIONS = {"tanh": nn.Tanh, "relu": nn.ReLU}


def perceptron(sizes: Sequence[int], activation: str, last_gain: float) -> nn.Sequential:
    """A multi-layer perceptron whose layers have ``sizes`` units, inputs and outputs included.

    Initialised orthogonally (Saxe et al. 2014, arXiv:1312.6120), with gain sqrt(2) in the hidden layers and
    ``last_gain`` in the last one.
    """
    layers: list[nn.Module] = []
    for depth, (inputs, outputs) in enumerate(pairwise(sizes)):
        is_last = depth == len(sizes) - 2
        linear = nn.Linear(inputs, outputs)
        nn.init.orthogonal_(linear.weight, last_gain if is_last else 2**0.5)
        nn.init.zeros_(linear.bias)
        layers += [linear] if is_last else [linear, ACTIVATIONS[activation]()]
    return nn.Sequential(*layers)
