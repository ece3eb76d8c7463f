"""Losses in NumPy and float64, and their gradients by central differences, independent of PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import nn

Array = npt.NDArray[np.float64]
Parameters = Mapping[str, Array]

_STEP = 1e-6


def parameters_of(**modules: nn.Module) -> dict[str, Array]:
    """The parameters of modules, by the module's name and their own."""
    return {
        f"{module}.{name}": value.detach().double().numpy().copy()
        for module, made in modules.items()
        for name, value in made.named_parameters()
    }


def gradients_of(**modules: nn.Module) -> dict[str, Array]:
    """Gradients of the parameters; None counts as zero."""
    return {
        f"{module}.{name}": np.zeros(value.shape) if value.grad is None else value.grad.double().numpy()
        for module, made in modules.items()
        for name, value in made.named_parameters()
    }


def by_differences(loss: Callable[[Parameters], Any], parameters: Parameters) -> dict[str, Array]:
    """The gradient of ``loss`` at ``parameters``."""
    found = {}
    moved = {name: value.copy() for name, value in parameters.items()}
    for name, value in moved.items():
        gradient = np.zeros_like(value)
        for index in np.ndindex(value.shape):
            here = value[index]
            value[index] = here + _STEP
            above = float(loss(moved))
            value[index] = here - _STEP
            gradient[index] = (above - float(loss(moved))) / (2 * _STEP)
            value[index] = here
        found[name] = gradient
    return found


def perceptron(parameters: Parameters, name: str, inputs: Array) -> Array:
    """The outputs of a perceptron with tanh units whose layers are ``<name>.0``, ``<name>.2``, ..."""
    layers = sorted(int(key[len(name) + 1 :].split(".")[0]) for key in parameters if key.startswith(f"{name}."))
    outputs = inputs
    for layer in dict.fromkeys(layers):
        outputs = outputs @ parameters[f"{name}.{layer}.weight"].T + parameters[f"{name}.{layer}.bias"]
        if layer != layers[-1]:
            outputs = np.tanh(outputs)
    return outputs
