"""Forward and backward passes of perceptrons over a tile of rows.

Activations are ``[units, rows]``: lanes are rows, so that heads and losses are formulas of vectors, and weights are
read in PyTorch's layout. The gradient of a weight is a sum over rows: for it, the inputs of each layer are also kept
``[rows, units]``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from warpdrive.training.compiled.matrix import Matrix, multiply, transpose
from warpdrive.training.compiled.simd import Code, Vector

ROWS = 32
"""Rows of a tile."""


@dataclass(frozen=True)
class Dense:
    """Linear layer with optional layer normalisation and activation.

    Attributes:
        inputs: Number of inputs.
        outputs: Number of outputs.
        weight: Index of the weight ``[outputs, inputs]`` in the vector of parameters.
        bias: Index of the bias.
        activation: Name of the activation, or None.
        norm: Indices of the scale and offset of a layer normalisation before the activation, and its epsilon; or None.
    """

    inputs: int
    outputs: int
    weight: int
    bias: int
    activation: str | None = None
    norm: tuple[int, int, float] | None = None

    @property
    def vectors(self) -> tuple[int, ...]:
        """Indices of the parameters besides the weight, ``[outputs]`` each."""
        return (self.bias,) if self.norm is None else (self.bias, *self.norm[:2])


class Workspace:
    """Scratch memory of a part: a layout of consecutive float32 arrays.

    Attributes:
        size: Number of float32 so far.
    """

    def __init__(self, lanes: int) -> None:
        self.lanes, self.size = lanes, 0

    def take(self, count: int) -> int:
        """Return the index of ``count`` new float32, aligned to whole cache lines and padded to whole vectors."""
        start, self.size = self.size, self.size + -(-count // 16) * 16
        return start

    def matrix(self, rows: int, columns: int) -> tuple[int, int]:
        """Return the index and the row stride of a new matrix, padded to blocks of whole vectors."""
        width = self.padded(columns)
        return self.take(self.padded(rows) * width), width

    def padded(self, count: int) -> int:
        """Return a number of elements rounded up to whole vectors."""
        return -(-count // self.lanes) * self.lanes


class Network:
    """Sequence of layers, with their scratch memory.

    Args:
        layers: The layers.
        workspace: Scratch memory of the part.
        backward: If True, memory for the backward pass is reserved as well.
    """

    def __init__(self, layers: tuple[Dense, ...], workspace: Workspace, backward: bool = True) -> None:
        self.layers, self.workspace = layers, workspace
        lanes, padded = workspace.lanes, workspace.padded
        self.outputs = [workspace.take(padded(layer.outputs) * ROWS) for layer in layers]
        # inputs of activations; separate from the outputs if the derivative needs them
        self.sums = [
            workspace.take(padded(layer.outputs) * ROWS) if backward and layer.activation in _OF_INPUTS else out
            for layer, out in zip(layers, self.outputs, strict=True)
        ]
        self.normalized = [workspace.take(layer.outputs * ROWS) if layer.norm else 0 for layer in layers]
        self.deviations = [workspace.take(ROWS) if layer.norm else 0 for layer in layers]
        self.transposed = [workspace.matrix(ROWS, layer.outputs) for layer in layers[:-1]] if backward else []
        self.deltas = [workspace.take(padded(layer.outputs) * ROWS) for layer in layers] if backward else []
        # sums over rows, a vector each, which become the gradients of parameters at the end of a part
        self.gradient_sums = (
            [[(place, workspace.take(layer.outputs * lanes)) for place in layer.vectors] for layer in layers]
            if backward
            else []
        )

    def parameters(self, code: Code, vector: Any) -> list[list[Any]]:
        """Return the addresses of the parameters of each layer in the vector of parameters."""
        return [[code.at(vector, place) for place in (layer.weight, *layer.vectors)] for layer in self.layers]

    def begin(self, code: Code, memory: Any) -> None:
        """Emit the start of a part: sums of gradients are zero."""
        for layer, sums in zip(self.layers, self.gradient_sums, strict=True):
            for _, start in sums:
                fill(code, memory, start, layer.outputs * code.lanes)

    def forward(
        self, code: Code, memory: Any, parameters: Sequence[Sequence[Any]], inputs: int, keep: bool = True
    ) -> int:
        """Emit the forward pass, which stores intermediate results for the backward pass.

        Args:
            code: Code to emit into.
            memory: Address of the workspace.
            parameters: Addresses of the parameters of each layer: weight, bias, and those of a normalisation.
            inputs: Index of the inputs ``[inputs, rows]`` in the workspace.
            keep: If False, the gradient of the parameters is not needed.

        Returns:
            Index of the outputs ``[outputs, rows]`` in the workspace.
        """
        before = inputs
        for number, layer in enumerate(self.layers):
            out, into = self.outputs[number], code.at(memory, self.sums[number])
            weight, bias, *norm = parameters[number]
            size = (layer.outputs, ROWS, layer.inputs)
            source = Matrix(code.at(memory, before), ROWS)
            multiply(code, Matrix(into, ROWS), Matrix(weight, layer.inputs), source, size, bias=bias)
            if layer.norm is not None:
                places = (self.normalized[number], self.deviations[number])
                _normalise(code, layer, into, *(code.at(memory, place) for place in places), *norm)
            if layer.activation is not None:
                _activate(code, layer.activation, into, code.at(memory, out), layer.outputs * ROWS)
            if keep and self.transposed and number < len(self.layers) - 1:
                target, width = self.transposed[number]
                source = Matrix(code.at(memory, out), ROWS)
                transpose(code, Matrix(code.at(memory, target), width), source, layer.outputs, ROWS)
            before = out
        return before

    def backward(
        self,
        code: Code,
        memory: Any,
        parameters: Sequence[Sequence[Any]],
        gradient: Any,
        inputs: tuple[int, int],
        inputs_delta: int | None = None,
        add: bool = False,
        first: int = 0,
    ) -> None:
        """Emit the backward pass from the derivatives in the last of ``deltas``, and add to the gradient.

        Args:
            code: Code to emit into.
            memory: Address of the workspace.
            parameters: Addresses of the parameters of each layer.
            gradient: Address of the gradient; None to compute that of the inputs only.
            inputs: Index of the inputs ``[rows, inputs]`` in the workspace, and their row stride.
            inputs_delta: Index of the derivatives of the inputs ``[inputs, rows]`` to write, or None.
            add: If True, add to the derivatives of the inputs.
            first: First input whose derivatives are written.
        """
        for number in reversed(range(len(self.layers))):
            layer = self.layers[number]
            weight, _, *norm = parameters[number]
            delta = code.at(memory, self.deltas[number])
            kept = self.sums[number] if layer.activation in _OF_INPUTS else self.outputs[number]
            sums = [code.at(memory, start) for _, start in self.gradient_sums[number]]
            _deactivate(code, layer.activation, layer.outputs, delta, code.at(memory, kept), sums[-1 if norm else 0])
            if norm:
                places = (code.at(memory, self.normalized[number]), code.at(memory, self.deviations[number]))
                _normalise_back(code, layer.outputs, delta, *places, norm[0], sums[1])
                _deactivate(code, None, layer.outputs, delta, delta, sums[0])
            if gradient is not None:
                place, width = inputs if number == 0 else self.transposed[number - 1]
                target = Matrix(code.at(gradient, layer.weight), layer.inputs)
                source = Matrix(code.at(memory, place), width)
                multiply(code, target, Matrix(delta, ROWS), source, (layer.outputs, layer.inputs, ROWS), add=True)
            before = inputs_delta if number == 0 else self.deltas[number - 1]
            if before is not None:
                skipped = first if number == 0 else 0
                weights = Matrix(code.at(weight, skipped), 1, layer.inputs)
                size, target = (layer.inputs - skipped, ROWS, layer.outputs), Matrix(code.at(memory, before), ROWS)
                multiply(code, target, weights, Matrix(delta, ROWS), size, add=add and number == 0)

    def end(self, code: Code, memory: Any, gradient: Any) -> None:
        """Emit the end of a part: gradients of all parameters but the weights."""
        for layer, sums in zip(self.layers, self.gradient_sums, strict=True):
            for place, start in sums:
                with code.loop(layer.outputs) as unit:
                    total = code.load(memory, code.add(code.times(unit, code.lanes), start)).total()
                    code.builder.store(total, code.at(gradient, code.add(unit, place)))


def fill(code: Code, memory: Any, start: Any, count: int, number: float = 0.0) -> None:
    """Emit the assignment of a number to ``count`` float32, padded to whole vectors."""
    with code.loop(count, step=code.lanes) as i:
        code.store(code.broadcast(number), memory, code.add(i, start))


_UNROLLED = 16
"""Number of vectors up to which a copy is unrolled."""


def copy_floats(code: Code, target: Any, to: Any, source: Any, start: Any, count: int) -> None:
    """Emit a copy of ``count`` float32, in vectors as wide as there are elements left."""
    done = 0
    if count > _UNROLLED * code.lanes:  # such as images
        done = count // code.lanes * code.lanes
        with code.loop(done, step=code.lanes) as i:
            code.store(code.load(source, code.add(start, i)), target, code.add(to, i))
    while done < count:
        width = min(code.lanes, 1 << ((count - done).bit_length() - 1))
        code.store(code.load(source, code.add(start, done), width), target, code.add(to, done))
        done += width


def copy_columns(
    code: Code, memory: Any, place: int, rows: Matrix, start: Any, count: Any, width: int, into_rows: bool
) -> None:
    """Emit a copy of ``count`` rows of a matrix, from or to a tile ``[width, ROWS]`` of the workspace.

    Args:
        code: Code to emit into.
        memory: Address of the workspace.
        place: Index of the tile in the workspace.
        rows: The matrix.
        start: Index of its first row.
        count: Number of rows, at most ``ROWS``.
        width: Number of columns.
        into_rows: If True, the copy is from the tile to the matrix.
    """
    with code.loop(count) as r:
        row = code.times(code.builder.add(start, r), rows.row)
        with code.loop(width) as n:
            inside = code.at(memory, code.add(code.add(code.times(n, ROWS), r), place))
            outside = code.at(rows.memory, code.add(row, n))
            source, target = (inside, outside) if into_rows else (outside, inside)
            code.builder.store(code.builder.load(source), target)


def _activate(code: Code, activation: str, source: Any, target: Any, count: int) -> None:
    """Apply an activation."""

    def emit(source: Any, target: Any) -> None:
        with code.loop(count, step=code.lanes) as i:
            code.store(ACTIVATIONS[activation](code.load(source, i)), target, i)

    code.call(f"{activation}_{count}", emit, source, target)


def _deactivate(code: Code, activation: str | None, units: int, delta: Any, kept: Any, sums: Any) -> None:
    """Convert derivatives of a layer's outputs to those before the activation, in place, and add to their sums."""

    def emit(delta: Any, kept: Any, sums: Any) -> None:
        with code.loop(units) as unit:
            place = code.times(unit, code.lanes)
            total = code.load(sums, place)
            for start in range(0, ROWS, code.lanes):
                i = code.add(code.times(unit, ROWS), start)
                d = code.load(delta, i)
                if activation is not None:
                    d = DERIVATIVES[activation](d, code.load(kept, i))
                    code.store(d, delta, i)
                total = total + d
            code.store(total, sums, place)

    code.call(f"derivative_{activation}_{units}", emit, delta, kept, sums)


def _place(code: Code, row: Any, unit: Any) -> Any:
    """Return the index of a row's element of a unit."""
    return code.add(code.times(unit, ROWS), row)


def _sum_over_units(code: Code, units: int, terms: Callable[[Any], tuple[Vector, ...]], count: int) -> list[Vector]:
    """Return sums over units of ``count`` vectors, which ``terms`` returns for each unit."""
    cells = [code.allocate(code.vector_type) for _ in range(count)]
    for cell in cells:
        code.builder.store(code.broadcast(0.0).value, cell)
    with code.loop(units) as unit:
        for cell, term in zip(cells, terms(unit), strict=True):
            code.builder.store((Vector(code, code.builder.load(cell)) + term).value, cell)
    return [Vector(code, code.builder.load(cell)) for cell in cells]


def _normalise(code: Code, layer: Dense, rows: Any, normalized: Any, deviations: Any, scale: Any, offset: Any) -> None:
    """Normalise the outputs of a layer over its units, in place (Ba et al. 2016, arXiv:1607.06450)."""
    units = layer.outputs
    assert layer.norm is not None
    epsilon = layer.norm[2]

    def emit(rows: Any, normalized: Any, deviations: Any, scale: Any, offset: Any) -> None:
        with code.loop(ROWS, step=code.lanes) as v:
            at = partial(_place, code, v)
            (total,) = _sum_over_units(code, units, lambda unit: (code.load(rows, at(unit)),), 1)
            mean = total * (1.0 / units)
            (squares,) = _sum_over_units(code, units, lambda unit: ((code.load(rows, at(unit)) - mean).square(),), 1)
            factor = 1.0 / (squares * (1.0 / units) + epsilon).sqrt()
            code.store(factor, deviations, v)
            with code.loop(units) as unit:
                x = (code.load(rows, at(unit)) - mean) * factor
                code.store(x, normalized, at(unit))
                y = x.fma(code.broadcast(code.scalar(scale, unit)), code.broadcast(code.scalar(offset, unit)))
                code.store(y, rows, at(unit))

    code.call(f"normalise_{units}_{epsilon}", emit, rows, normalized, deviations, scale, offset)


def _normalise_back(
    code: Code, units: int, delta: Any, normalized: Any, deviations: Any, scale: Any, sums: Any
) -> None:
    """Convert derivatives after a normalisation to those before it, in place, and add to the sums for its scale."""

    def emit(delta: Any, normalized: Any, deviations: Any, scale: Any, sums: Any) -> None:
        with code.loop(ROWS, step=code.lanes) as v:
            at = partial(_place, code, v)

            def terms(unit: Any) -> tuple[Vector, Vector]:
                d, x = code.load(delta, at(unit)), code.load(normalized, at(unit))
                place = code.times(unit, code.lanes)
                code.store(code.load(sums, place) + d * x, sums, place)
                scaled = d * code.broadcast(code.scalar(scale, unit))
                return scaled, scaled * x

            total, product = (sum_ * (1.0 / units) for sum_ in _sum_over_units(code, units, terms, 2))
            factor = code.load(deviations, v)
            with code.loop(units) as unit:
                scaled = code.load(delta, at(unit)) * code.broadcast(code.scalar(scale, unit))
                x = code.load(normalized, at(unit))
                code.store((scaled - total - x * product) * factor, delta, at(unit))

    code.call(f"derivative_normalise_{units}", emit, delta, normalized, deviations, scale, sums)


def _silu_derivative(d: Vector, x: Vector) -> Vector:
    s = x.sigmoid()
    return d * s * (1.0 + x * (1.0 - s))


ACTIVATIONS: dict[str, Callable[[Vector], Vector]] = {
    "tanh": lambda x: x.tanh(),
    "relu": lambda x: x.clamp(low=0.0),
    "elu": lambda x: (x.clamp(high=0.0).exp() - 1.0).where(x.compare("<", 0.0), x),
    "silu": lambda x: x * x.sigmoid(),
}

DERIVATIVES: dict[str, Callable[[Vector, Vector], Vector]] = {
    "tanh": lambda d, out: d * (1.0 - out * out),
    "relu": lambda d, out: d.code.broadcast(0.0).where(out.compare("<=", 0.0), d),
    "elu": lambda d, out: (d * (out + 1.0)).where(out.compare("<", 0.0), d),
    "silu": _silu_derivative,
}
"""Derivatives before an activation, given those after it and its outputs, or its inputs if it is in ``_OF_INPUTS``."""

_OF_INPUTS = frozenset({"silu"})
