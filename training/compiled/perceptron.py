"""Native perceptrons, whose forward and backward passes are one PyTorch operator."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import torch
from llvmlite import ir
from torch import Tensor

from warpdrive.training.compiled.matrix import Matrix, transpose
from warpdrive.training.compiled.network import ROWS, Dense, Network, Workspace, copy_columns, copy_floats, fill
from warpdrive.training.compiled.program import Program, address_of, parts_of, program_of
from warpdrive.training.compiled.simd import Code, host_lanes

_ROWS, _INPUTS, _OUTPUTS, _INPUTS_GRADIENT, _GRADIENTS, _WORKSPACE, _PARAMETERS = range(7)
"""Words of the argument table, before the parameters. In the backward pass, ``_OUTPUTS`` holds their derivatives."""


class _Emitter:
    """Emitter of a forward or backward pass over contiguous rows.

    Args:
        layers: The layers, whose parameters are consecutive in the gradient.
        lanes: Number of float32 per vector.
        of_inputs: If True, the backward pass writes the gradient of the inputs.
        of_parameters: If True, it computes that of the parameters. If both are False, this is the forward pass.
    """

    def __init__(self, layers: tuple[Dense, ...], lanes: int, of_inputs: bool, of_parameters: bool) -> None:
        self.layers, self.of_inputs, self.of_parameters = layers, of_inputs, of_parameters
        self.is_backward = of_inputs or of_parameters
        workspace, inputs = Workspace(lanes), layers[0].inputs
        self.rows = workspace.matrix(ROWS, inputs)
        self.columns = workspace.take(workspace.padded(inputs) * ROWS)
        self.inputs_delta = workspace.take(inputs * ROWS)
        self.network = Network(layers, workspace, self.is_backward)
        self.size = workspace.size

    def emit(self, module: ir.Module, lanes: int) -> None:
        """Emit the function ``run`` into a module."""
        code, inputs, outputs = Code(module, "run", lanes), self.layers[0].inputs, self.layers[-1].outputs
        builder, network = code.builder, self.network
        rows = code.word(_ROWS)
        tiles = builder.sdiv(code.add(rows, ROWS - 1), code.integer(ROWS))
        first, last = code.share(tiles)
        memory = code.at(code.pointer(_WORKSPACE), code.times(code.part, self.size))
        gradient = (
            code.at(code.pointer(_GRADIENTS), code.times(code.part, number_of_parameters(self.layers)))
            if self.of_parameters
            else None
        )
        parameters = addresses_of_parameters(code, self.layers, count(_PARAMETERS))
        if self.is_backward:
            network.begin(code, memory)
            fill(code, memory, self.rows[0], ROWS * self.rows[1])
        with code.loop(last, start=first) as tile:
            start = code.times(tile, ROWS)
            own = code.smaller(code.subtract(rows, start), ROWS)
            place, width = self.rows
            if self.is_backward:  # missing rows of the last tile contribute nothing
                fill(code, memory, network.deltas[-1], outputs * ROWS)
            with code.loop(own) as r:
                row = builder.add(start, r)
                target, source = code.add(code.times(r, width), place), code.times(row, inputs)
                copy_floats(code, memory, target, code.pointer(_INPUTS), source, inputs)
            source_rows = Matrix(code.at(memory, place), width)
            transpose(code, Matrix(code.at(memory, self.columns), ROWS), source_rows, ROWS, inputs)
            found = network.forward(code, memory, parameters, self.columns)
            if not self.is_backward:
                rows_of_outputs = Matrix(code.pointer(_OUTPUTS), outputs)
                copy_columns(code, memory, found, rows_of_outputs, start, own, outputs, into_rows=True)
            else:
                delta = network.deltas[-1]
                rows_of_outputs = Matrix(code.pointer(_OUTPUTS), outputs)
                copy_columns(code, memory, delta, rows_of_outputs, start, own, outputs, into_rows=False)
                into = self.inputs_delta if self.of_inputs else None
                network.backward(code, memory, parameters, gradient, self.rows, into)
                if into is not None:
                    rows_of_inputs = Matrix(code.pointer(_INPUTS_GRADIENT), inputs)
                    copy_columns(code, memory, into, rows_of_inputs, start, own, inputs, into_rows=True)
        if gradient is not None:
            network.end(code, memory, gradient)
        code.finish()


def addresses_of_parameters(code: Code, layers: tuple[Dense, ...], words: Iterator[int]) -> list[list[Any]]:
    """Return the addresses of the parameters of each layer, read from the next words of the argument table."""
    return [[code.pointer(next(words)) for _ in (layer.weight, *layer.vectors)] for layer in layers]


def number_of_parameters(layers: tuple[Dense, ...]) -> int:
    """Return the number of parameters."""
    return sum(layer.outputs * (layer.inputs + len(layer.vectors)) for layer in layers)


class CompiledPerceptron:
    """Forward and backward pass of a sequence of layers, which takes the parameters as arguments.

    Args:
        layers: The layers; their parameter indices are relative to the concatenated parameters.
    """

    def __init__(self, layers: tuple[Dense, ...]) -> None:
        self.layers = layers
        self._passes: dict[tuple[bool, bool], tuple[Program, int]] = {}

    def __call__(self, inputs: Tensor, parameters: Sequence[Tensor]) -> Tensor:
        """Return the outputs, recorded by autograd if it is enabled.

        Args:
            inputs: ``[..., inputs]`` float32 on the CPU.
            parameters: Parameters of the layers, in their order.

        Returns:
            ``[..., outputs]`` float32.
        """
        rows = inputs.reshape(-1, inputs.shape[-1])
        if torch.is_grad_enabled():
            outputs: Tensor = _Pass.apply(self, rows, *parameters)  # type: ignore[no-untyped-call]
        else:  # faster
            outputs = self.forward(rows, parameters)
        return outputs.view(*inputs.shape[:-1], -1)

    def forward(self, inputs: Tensor, parameters: Sequence[Tensor]) -> Tensor:
        """Return the outputs ``[rows, outputs]`` for inputs ``[rows, inputs]``, not recorded by autograd."""
        outputs = inputs.new_empty(len(inputs), self.layers[-1].outputs)
        self._run((False, False), inputs, outputs, parameters)
        return outputs

    def backward(
        self, inputs: Tensor, parameters: Sequence[Tensor], derivatives: Tensor, of_inputs: bool, of_parameters: bool
    ) -> tuple[Tensor | None, Sequence[Tensor | None]]:
        """Return the gradients of inputs and parameters.

        Args:
            inputs: ``[rows, inputs]``.
            parameters: Parameters of the layers.
            derivatives: ``[rows, outputs]``, derivatives of the outputs.
            of_inputs: If True, return the gradient of the inputs.
            of_parameters: If True, return those of the parameters.

        Returns:
            Gradients, None for those not requested.
        """
        of_rows = torch.empty_like(inputs) if of_inputs else None
        sums = self._run((of_inputs, of_parameters), inputs, derivatives.contiguous(), parameters, of_rows)
        if not of_parameters:
            return of_rows, [None] * len(parameters)
        parts = sums.sum(0).split([parameter.numel() for parameter in parameters])
        return of_rows, [part.view_as(parameter) for part, parameter in zip(parts, parameters, strict=True)]

    def _run(
        self,
        kind: tuple[bool, bool],
        inputs: Tensor,
        outputs: Tensor,
        parameters: Sequence[Tensor],
        of_inputs: Tensor | None = None,
    ) -> Tensor:
        """Run a pass, and return the sums of the parameters' gradients over each part."""
        if kind not in self._passes:
            emitter = _Emitter(self.layers, host_lanes(), *kind)
            program = program_of(emitter.emit, f"pass {kind} {self.layers}")
            self._passes[kind] = program, emitter.size
        program, size = self._passes[kind]
        rows, nothing = inputs.contiguous(), inputs.new_empty(0)
        parts = parts_of(len(rows))
        sums = inputs.new_zeros(parts, number_of_parameters(self.layers)) if kind[1] else nothing
        workspace = inputs.new_empty(parts * size)
        tensors = [rows, outputs, nothing if of_inputs is None else of_inputs, sums, workspace, *parameters]
        table = (ctypes.c_int64 * (_PARAMETERS + len(parameters)))(len(rows), *[each.data_ptr() for each in tensors])
        program.run("run", address_of(table), parts)
        return sums

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledPerceptron:
        return self


class _Pass(torch.autograd.Function):
    """Autograd function of a perceptron."""

    @staticmethod
    def forward(ctx: Any, native: CompiledPerceptron, inputs: Tensor, *parameters: Tensor) -> Tensor:
        ctx.native = native
        ctx.save_for_backward(inputs, *parameters)
        return native.forward(inputs, parameters)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *derivatives: Tensor) -> tuple[Tensor | None, ...]:
        inputs, *parameters = ctx.saved_tensors
        _, of_inputs, *of_parameters = ctx.needs_input_grad
        found, gradients = ctx.native.backward(inputs, parameters, derivatives[0], of_inputs, any(of_parameters))
        return None, found, *gradients
