"""Policies as kernels: a generated kernel function that computes the logits of one agent per thread.

A kernel of plain loops runs wherever kernels run, and gives the same bits there: sums are taken in the order of the
inputs, and activations are those of ``wd.math``. PyTorch's own sums have other orders, and thus other last digits.

Weights are stored ``[inputs, outputs]``, so that the inner loop runs over outputs, which are independent of each other:
compilers may compute several at once without changing any sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from numba import cuda
from torch import Tensor, nn

import warpdrive.math as wd_math
from warpdrive.errors import ExportError
from warpdrive.kernels.kernel import Kernel, device_function, kernel_from_source
from warpdrive.spaces import SpaceArray
from warpdrive.training.models.base import Actor
from warpdrive.training.models.continuous import DeterministicActor, SquashedActor
from warpdrive.training.models.convolutions import OfImages
from warpdrive.training.models.flatten import Flatten
from warpdrive.training.models.q_network import QNetwork, RecurrentQNetwork
from warpdrive.training.models.recurrent import Recurrent
from warpdrive.training.models.running_moments import MAX_DEVIATIONS
from warpdrive.training.models.two_headed import MAX_LOG_STD, MIN_LOG_STD, TwoHeaded

Array = npt.NDArray[Any]

_ZERO, _HALF, _ONE = np.float32(0), np.float32(0.5), np.float32(1)
_GREEDY = np.float32(1e6)

# activations are called: numba unrolls short loops, and only then inlines, which would make a copy for each unit


@device_function(inline=False)
def _tanh(x):  # type: ignore[no-untyped-def]
    return wd_math.tanh(x)


@device_function(inline=False)
def _sigmoid(x):  # type: ignore[no-untyped-def]
    return _ONE / (_ONE + wd_math.exp(-x))


@device_function
def _relu(x):  # type: ignore[no-untyped-def]
    return x if x > _ZERO else _ZERO


@device_function(inline=False)
def _elu(x):  # type: ignore[no-untyped-def]
    return x if x > _ZERO else wd_math.exp(x) - _ONE


@device_function
def _silu(x):  # type: ignore[no-untyped-def]
    return x * _sigmoid(x)


_ACTIVATIONS: dict[type[nn.Module], str] = {nn.Tanh: "tanh", nn.ReLU: "relu", nn.ELU: "elu", nn.SiLU: "silu"}
_NAMES: dict[str, Any] = {
    "range": range,
    "min": min,
    "max": max,
    "cuda": cuda,
    "np": np,
    "tanh": _tanh,
    "sqrt": wd_math.sqrt,
    "relu": _relu,
    "elu": _elu,
    "silu": _silu,
    "sigmoid": _sigmoid,
    "ZERO": _ZERO,
    "HALF": _HALF,
    "ONE": _ONE,
    "GREEDY": _GREEDY,
}


@dataclass(frozen=True)
class Forward:
    """Forward pass of a policy as a kernel function.

    Attributes:
        kernel: The function. Its parameters are ``rows`` (row of each agent in ``logits``, or -1), ``logits``,
            ``seen_0`` ... and ``seen_rows_0`` ... (observations ``[num_envs, rows, n]``, and the row of each agent),
            those of ``weights``, ``active`` if agents can leave, and ``timestep`` and ``memory`` if it is recurrent.
        weights: Parameters by name.
        state_size: Length of the recurrent state of an agent, the last axis of ``memory``.
    """

    kernel: Kernel
    weights: dict[str, Array]
    state_size: int


def forward_of(tag: str, model: Actor, seen: Sequence[SpaceArray], can_leave: bool) -> Forward:
    """Return the forward pass of a model as a kernel function.

    Args:
        tag: The policy tag.
        model: The model.
        seen: The arrays of observations of the tag, in the order in which the model flattens them.
        can_leave: If True, agents can leave the episode: their observations are zero then.

    Returns:
        The forward pass.

    Raises:
        ExportError: If the model is not one of the library's.
    """
    writer = _Writer(tag)
    flatten = model.flatten if isinstance(model, TwoHeaded | Recurrent | QNetwork | _CONTINUOUS) else None
    if not isinstance(flatten, Flatten):
        raise ExportError(
            f"policy '{tag}': its model is a {type(model).__name__}, which pages cannot compute: expected perceptrons, "
            "convolutions or recurrent units of the library"
        )
    parameters = ["rows", "logits"]
    for number in range(len(seen)):
        parameters += [f"seen_{number}", f"seen_rows_{number}"]
    parameters += ["active"] * can_leave
    state_size = 0
    values = writer.flattened(flatten, seen, can_leave)
    if isinstance(model, TwoHeaded):
        outputs = writer.layers(writer.layers(values, model.trunk), model.policy)
        writer.logits(outputs, model.log_std, model._num_means)
    elif isinstance(model, Recurrent | RecurrentQNetwork):
        parameters += ["timestep", "memory"]
        cell = model.cells[0]
        state_size = model.state_size // len(model.cells)
        features = writer.layers(values, model.encoders[0])
        state = writer.cell(cell, features, model.units, can_leave)
        if isinstance(model, Recurrent):
            writer.logits(writer.layers(state, model.policy), model.log_std, model._num_means)
        else:
            writer.scaled(writer.layers(state, model.value))
    elif isinstance(model, QNetwork):
        writer.scaled(writer.layers(writer.layers(values, model.features), model.value))
    else:
        assert isinstance(model, _CONTINUOUS)
        outputs = writer.layers(writer.layers(values, model.features), model.policy)
        writer.continuous(outputs, model)
    text = "\n".join(
        [
            f"def forward_{tag}({', '.join([*parameters, *writer.weights])}):",
            "    env, agent = cuda.blockIdx.x, cuda.threadIdx.x",
            "    row = rows[agent]",
            "    if row >= 0:",
            *(f"        {line}" for line in writer.lines),
            "",
        ]
    )
    return Forward(kernel_from_source(text, f"forward_{tag}", dict(_NAMES)), writer.weights, state_size)


_CONTINUOUS = DeterministicActor | SquashedActor


@dataclass(frozen=True)
class _Values:
    """Local array of the kernel, its length, and for images, ``[height, width, channels]``, their channels and size."""

    name: str
    size: int
    image: tuple[int, int, int] = (0, 0, 0)


class _Writer:
    """Lines of the kernel function, and the parameters that they name."""

    def __init__(self, tag: str) -> None:
        self.tag, self.lines = tag, list[str]()
        self.weights: dict[str, Array] = {}
        self._count = 0

    def flattened(self, flatten: Flatten, seen: Sequence[SpaceArray], can_leave: bool) -> _Values:
        """Write the flattening of observations, see :class:`warpdrive.training.models.flatten.Flatten`."""
        values = self._new(flatten.size)
        place = 0
        for number, (array, part) in enumerate(zip(seen, flatten.parts, strict=True)):
            size = int(np.prod(array.shape[1:], dtype=np.int64))
            found = f"np.float32(seen_{number}[env, seen_rows_{number}[agent], i])"
            if can_leave:
                found = f"({found} if active[env, agent] else ZERO)"
            if part.values is not None:  # a choice becomes a one-hot vector
                count = len(part.values)  # type: ignore[arg-type]
                found = found.replace(", i]", ", 0]")
                self._loop(count, [f"{values.name}[{place} + i] = ONE if {found} == np.float32(i) else ZERO"])
                place += count
                continue
            if part.offset is not None:
                offset, scale = (self._weight(getattr(part, name)) for name in ("offset", "scale"))
                found = f"({found} - {offset}[i]) * {scale}[i]"
            self._loop(size, [f"{values.name}[{place} + i] = {found}"])
            place += size
        if flatten.moments is not None:
            mean, deviation = map(self._weight, flatten.moments.mean_and_deviation())
            most = self._constant(MAX_DEVIATIONS)
            standardised = f"({values.name}[i] - {mean}[i]) / {deviation}[i]"
            self._loop(values.size, [f"{values.name}[i] = min(max({standardised}, -{most}), {most})"])
        return values

    def layers(self, values: _Values, layer: nn.Module) -> _Values:
        """Write a layer, or layers one after the other."""
        if isinstance(layer, OfImages):
            channels, height, width = layer.image_shape
            values = replace(self._transposed(values, channels, height * width), image=layer.image_shape)
        if isinstance(layer, nn.Sequential):
            for part in layer:
                values = self.layers(values, part)
        elif isinstance(layer, nn.Linear):
            values = self._linear(values, layer.weight, layer.bias)
        elif isinstance(layer, nn.Conv2d):
            values = self._convolution(values, layer)
        elif isinstance(layer, nn.Flatten):
            channels, height, width = values.image
            values = self._transposed(values, height * width, channels)
        elif isinstance(layer, nn.LayerNorm):
            self._layer_norm(values, layer)
        elif type(layer) in _ACTIVATIONS:
            self._loop(values.size, [f"{values.name}[i] = {_ACTIVATIONS[type(layer)]}({values.name}[i])"])
        elif not isinstance(layer, nn.Identity):
            raise ExportError(
                f"policy '{self.tag}': its model has a layer {type(layer).__name__}, which pages cannot compute: "
                "expected linear layers and convolutions with activations"
            )
        return values

    def cell(self, cell: nn.Module, inputs: _Values, units: int, can_leave: bool) -> _Values:
        """Write recurrent units: the next state in ``memory``, of which the hidden state is returned."""
        kind = cell.kind
        before = self._new(units)
        begins = "timestep[env] == 0"
        self._loop(units, [f"{before.name}[i] = ZERO if {begins} else memory[env, row, i]"])
        after = self._new(units)
        a = after.name
        if kind == "mingru":
            gates = self._linear(inputs, cell.weight, cell.bias)  # type: ignore[arg-type]
            g, h = gates.name, before.name
            self._loop(
                units,
                [
                    f"candidate = {g}[{units} + i]",
                    "positive = candidate + HALF if candidate >= ZERO else sigmoid(candidate)",
                    f"{a}[i] = sigmoid(-{g}[i]) * {h}[i] + sigmoid({g}[i]) * positive",
                ],
            )
        else:
            x = self._linear(inputs, cell.weight_ih, cell.bias_ih).name  # type: ignore[arg-type]
            y = self._linear(before, cell.weight_hh, cell.bias_hh).name  # type: ignore[arg-type]
            if kind == "gru":
                self._loop(
                    units,
                    [
                        f"reset = sigmoid({x}[i] + {y}[i])",
                        f"update = sigmoid({x}[{units} + i] + {y}[{units} + i])",
                        f"new = tanh({x}[{2 * units} + i] + reset * {y}[{2 * units} + i])",
                        f"{a}[i] = (ONE - update) * new + update * {before.name}[i]",
                    ],
                )
            else:
                self._loop(
                    units,
                    [
                        f"kept = ZERO if {begins} else memory[env, row, {units} + i]",
                        f"added = sigmoid({x}[i] + {y}[i]) * tanh({x}[{2 * units} + i] + {y}[{2 * units} + i])",
                        f"kept = sigmoid({x}[{units} + i] + {y}[{units} + i]) * kept + added",
                        f"memory[env, row, {units} + i] = {self._or_zero('kept', can_leave)}",
                        f"{a}[i] = sigmoid({x}[{3 * units} + i] + {y}[{3 * units} + i]) * tanh(kept)",
                    ],
                )
        self._loop(units, [f"memory[env, row, i] = {self._or_zero(f'{a}[i]', can_leave)}"])
        return after

    def logits(self, outputs: _Values, log_std: Tensor | None, means: int) -> None:
        """Write logits, see ``warpdrive.training.models.two_headed.with_log_std``."""
        if log_std is None:
            self._loop(outputs.size, [f"logits[env, row, i] = {outputs.name}[i]"])
            return
        self._loop(means, [f"logits[env, row, i] = {outputs.name}[i]"])
        own, value = self._weight(log_std), ""
        if outputs.size == means:
            value = f"{own}[i]"
        else:
            low, high = map(self._constant, (MIN_LOG_STD, MAX_LOG_STD))
            value = f"min(max({own}[i] + {outputs.name}[{means} + i], {low}), {high})"
        self._loop(len(log_std), [f"logits[env, row, {means} + i] = {value}"])

    def scaled(self, outputs: _Values) -> None:
        """Write action values as logits of the best action."""
        self._loop(outputs.size, [f"logits[env, row, i] = {outputs.name}[i] * GREEDY"])

    def continuous(self, outputs: _Values, model: Actor) -> None:
        """Write the means and the logarithms of the standard deviations of a model for off-policy learning."""
        if isinstance(model, DeterministicActor):
            centre, reach = self._weight(model.centre), self._weight(model.reach)
            quiet, count = self._constant(-20.0), model.components
            self._loop(count, [f"logits[env, row, i] = {centre}[i] + {reach}[i] * tanh({outputs.name}[i])"])
            self._loop(count, [f"logits[env, row, {count} + i] = {quiet}"])
            return
        assert isinstance(model, SquashedActor)
        count = model.components
        low, high = map(self._constant, (MIN_LOG_STD, MAX_LOG_STD))
        self._loop(count, [f"logits[env, row, i] = {outputs.name}[i]"])
        self._loop(count, [f"logits[env, row, {count} + i] = min(max({outputs.name}[{count} + i], {low}), {high})"])

    def _linear(self, inputs: _Values, weight: Tensor, bias: Tensor | None) -> _Values:
        outputs = self._new(len(weight))
        matrix = self._weight(weight.T)
        offset = "ZERO" if bias is None else f"{self._weight(bias)}[o]"
        o, name = "for o in range", outputs.name
        self.lines += [
            f"{o}({outputs.size}):",
            f"    {name}[o] = {offset}",
            f"for i in range({inputs.size}):",
            f"    x = {inputs.name}[i]",
            f"    {o}({outputs.size}):",
            f"        {name}[o] = {name}[o] + x * {matrix}[i, o]",
        ]
        return outputs

    def _convolution(self, inputs: _Values, layer: nn.Conv2d) -> _Values:
        """Write a convolution of images whose channels are the last axis."""
        channels, height, width = inputs.image
        (rows, columns), (down, right) = layer.kernel_size, layer.stride
        above, left = (int(pad) for pad in layer.padding)
        filters = layer.out_channels
        new_height = (height + 2 * above - rows) // down + 1
        new_width = (width + 2 * left - columns) // right + 1
        outputs = replace(self._new(filters * new_height * new_width), image=(filters, new_height, new_width))
        kernel = self._weight(layer.weight.permute(2, 3, 1, 0))
        offset = "ZERO" if layer.bias is None else f"{self._weight(layer.bias)}[o]"
        out = f"{outputs.name}[at + o]"
        self.lines += [
            f"for y in range({new_height}):",
            f"    for x in range({new_width}):",
            f"        at = (y * {new_width} + x) * {filters}",
            f"        for o in range({filters}):",
            f"            {out} = {offset}",
            f"        for j in range(max(0, {above} - y * {down}), min({rows}, {height + above} - y * {down})):",
            f"            for i in range(max(0, {left} - x * {right}), min({columns}, {width + left} - x * {right})):",
            f"                pixel = ((y * {down} + j - {above}) * {width} + x * {right} + i - {left}) * {channels}",
            f"                for c in range({channels}):",
            f"                    value = {inputs.name}[pixel + c]",
            f"                    for o in range({filters}):",
            f"                        {out} = {out} + value * {kernel}[j, i, c, o]",
        ]
        return outputs

    def _transposed(self, values: _Values, rows: int, columns: int) -> _Values:
        """Write the transposition of a matrix."""
        outputs = self._new(values.size)
        place = f"i * {columns} + o"
        self._loop(
            rows, [f"for o in range({columns}):", f"    {outputs.name}[o * {rows} + i] = {values.name}[{place}]"]
        )
        return outputs

    def _layer_norm(self, values: _Values, layer: nn.LayerNorm) -> None:
        name, count = values.name, self._constant(float(values.size))
        weight = "ONE" if layer.weight is None else f"{self._weight(layer.weight)}[i]"
        bias = "ZERO" if layer.bias is None else f"{self._weight(layer.bias)}[i]"
        self.lines += ["total = ZERO"]
        self._loop(values.size, [f"total = total + {name}[i]"])
        self.lines += [f"mean = total / {count}", "squares = ZERO"]
        self._loop(values.size, [f"squares = squares + ({name}[i] - mean) * ({name}[i] - mean)"])
        self.lines += [f"deviation = sqrt(squares / {count} + {self._constant(layer.eps)})"]
        self._loop(values.size, [f"{name}[i] = ({name}[i] - mean) / deviation * {weight} + {bias}"])

    def _loop(self, count: int, lines: Sequence[str]) -> None:
        self.lines += [f"for i in range({count}):", *(f"    {line}" for line in lines)]

    def _new(self, size: int) -> _Values:
        self._count += 1
        name = f"values_{self._count}"
        self.lines.append(f"{name} = cuda.local.array({size}, np.float32)")
        return _Values(name, size)

    def _weight(self, values: Tensor) -> str:
        name = f"weight_{len(self.weights)}"
        self.weights[name] = np.ascontiguousarray(values.detach().cpu().to(torch.float32).numpy())
        return name

    @staticmethod
    def _constant(value: float) -> str:
        return f"np.float32({value!r})"

    @staticmethod
    def _or_zero(value: str, can_leave: bool) -> str:
        return f"{value} if active[env, agent] else ZERO" if can_leave else value
