"""Building blocks of models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from warpdrive.training.models.options import Initialization, PerceptronConfig

ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU, "elu": nn.ELU, "silu": nn.SiLU}


class Perceptron(nn.Sequential):
    """Linear layers with activations between them.

    Attributes:
        native: Native code of the layers on the CPU, a function of inputs and parameters, or None; copies share it.
    """

    native: Callable[[Tensor, Sequence[Tensor]], Tensor] | None = None

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the outputs ``[..., outputs]`` of ``[..., inputs]``."""
        if self.native is not None and runs_natively(inputs):
            return self.native(inputs, self.tensors())
        for layer in self:
            inputs = layer(inputs)
        return inputs

    def tensors(self) -> list[Tensor]:
        """Return the parameters in the order of the layers."""
        return [own for layer in self for own in layer._parameters.values() if own is not None]


def runs_natively(inputs: Tensor) -> bool:
    """Return True if native code supports the inputs: float32 on the CPU.

    Not within ``torch.func`` transforms, tracing and compilation, which require PyTorch's operators.
    """
    if inputs.device.type != "cpu" or inputs.dtype != torch.float32:
        return False
    is_traced = torch._C._get_tracing_state() is not None or torch.compiler.is_compiling()
    return not (is_traced or torch._C._are_functorch_transforms_active())


def initialise(weight: Tensor, gain: float, how: Initialization = "orthogonal") -> None:
    """Initialise the weight of a layer in place.

    Orthogonally (Saxe et al. 2014, arXiv:1312.6120), or uniformly with variance ``2 * gain**2 / (inputs + outputs)``
    (Glorot & Bengio 2010, "Understanding the difficulty of training deep feedforward neural networks"), or uniformly
    within ``1 / sqrt(inputs)`` whatever the gain, the default of ``torch.nn.Linear``.

    Args:
        weight: ``[outputs, inputs, ...]``, written in place.
        gain: Scale of the weights.
        how: ``"orthogonal"``, ``"xavier"`` or ``"uniform"``, in the order above.
    """
    if how == "orthogonal":
        nn.init.orthogonal_(weight, gain)
    elif how == "xavier":
        nn.init.xavier_uniform_(weight, gain)
    else:
        nn.init.kaiming_uniform_(weight, a=5**0.5)


def hidden_layers(sizes: Sequence[int], options: PerceptronConfig) -> list[nn.Module]:
    """Build linear layers from ``sizes[0]`` inputs to ``sizes[-1]`` units, each followed by an activation.

    The gain of the initialisation is sqrt(2).

    Args:
        sizes: Number of inputs, and of units of each layer.
        options: Activation, initialisation, and whether layers are normalised.
    """
    torch.empty(max((inputs * outputs for inputs, outputs in pairwise(sizes)), default=0))  # fail early
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers.append(_linear(inputs, outputs, 2**0.5, options.initialization))
        if options.layer_norm:
            layers.append(nn.LayerNorm(outputs))
        layers.append(ACTIVATIONS[options.activation]())
    return layers


def perceptron(sizes: Sequence[int], options: PerceptronConfig, last_gain: float) -> Perceptron:
    """Build a multi-layer perceptron whose layers have ``sizes`` units, inputs and outputs included.

    The gain of the initialisation is sqrt(2) in the hidden layers and ``last_gain`` in the last one.

    Args:
        sizes: Number of inputs, hidden units of each layer, and outputs.
        options: Activation and initialisation.
        last_gain: Gain of the last layer.

    Returns:
        Linear layers with activations between them.
    """
    hidden = hidden_layers(sizes[:-1], options)
    return Perceptron(*hidden, _linear(sizes[-2], sizes[-1], last_gain, options.initialization))


def _linear(inputs: int, outputs: int, gain: float, initialization: Initialization) -> nn.Linear:
    linear = nn.Linear(inputs, outputs)
    if initialization != "uniform":  # uniform is torch.nn.Linear's default
        initialise(linear.weight, gain, initialization)
        nn.init.zeros_(linear.bias)
    return linear
