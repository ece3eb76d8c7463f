"""Forward passes as native code: actions in rollouts, and value estimates."""

from __future__ import annotations

import copy
import ctypes
from collections.abc import Sequence
from typing import Any

import torch
from llvmlite import ir
from torch import Tensor, nn

from warpdrive.backends.host.workers import get_num_threads, launch_on_all_cores
from warpdrive.observations import Observations
from warpdrive.training.compiled.matrix import Matrix, transpose
from warpdrive.training.compiled.network import ROWS, Dense, Network, Workspace, copy_floats
from warpdrive.training.compiled.program import Program, program_of
from warpdrive.training.compiled.simd import Code, host_lanes
from warpdrive.training.models.base import Actor
from warpdrive.training.models.fully_connected import FullyConnected

_ROWS_OF_A_PART = 256
_ROWS, _INPUTS, _OUTPUTS, _WORKSPACE, _PARAMETERS = range(5)
"""Words of the argument table; addresses of the layers' parameters follow."""


class _Emitter:
    def __init__(self, layers: tuple[Dense, ...], lanes: int) -> None:
        self.layers, workspace = layers, Workspace(lanes)
        self.rows, self.width = workspace.matrix(ROWS, layers[0].inputs)
        self.columns = workspace.take(workspace.padded(layers[0].inputs) * ROWS)
        self.network = Network(layers, workspace, backward=False)
        self.size = workspace.size

    def emit(self, module: ir.Module, lanes: int) -> None:
        code, inputs, outputs = Code(module, "forward", lanes), self.layers[0].inputs, self.layers[-1].outputs
        builder = code.builder
        rows = code.word(_ROWS)
        tiles = builder.sdiv(code.add(rows, ROWS - 1), code.integer(ROWS))
        first = builder.sdiv(builder.mul(tiles, code.part), code.parts)
        last = builder.sdiv(builder.mul(tiles, code.add(code.part, 1)), code.parts)
        memory = code.at(code.pointer(_WORKSPACE), code.times(code.part, self.size))
        source, target = code.pointer(_INPUTS), code.pointer(_OUTPUTS)
        words = iter(range(_PARAMETERS, _PARAMETERS + _count(self.layers)))
        parameters = [[code.pointer(next(words)) for _ in (layer.weight, *layer.vectors)] for layer in self.layers]
        with code.loop(last, start=first) as tile:
            start = code.times(tile, ROWS)
            left = builder.sub(rows, start)
            count = builder.select(builder.icmp_signed("<", left, code.integer(ROWS)), left, code.integer(ROWS))
            with code.loop(count) as r:
                place = code.add(code.times(r, self.width), self.rows)
                copy_floats(code, memory, place, source, code.times(builder.add(start, r), inputs), inputs)
            transpose(
                code,
                Matrix(code.at(memory, self.columns), ROWS),
                Matrix(code.at(memory, self.rows), self.width),
                ROWS,
                inputs,
            )
            found = self.network.forward(code, memory, parameters, self.columns)
            with code.loop(count) as r:
                row = code.times(builder.add(start, r), outputs)
                for n in range(outputs):
                    number = code.scalar(memory, code.add(r, found + n * ROWS))
                    builder.store(number, code.at(target, code.add(row, n)))
        code.finish()


def _count(layers: tuple[Dense, ...]) -> int:
    """Return the number of parameters' tensors."""
    return sum(1 + len(layer.vectors) for layer in layers)


class CompiledForward:
    """Forward pass of layers, for modules with such layers.

    Args:
        layers: the layers.
    """

    def __init__(self, layers: tuple[Dense, ...]) -> None:
        self.layers, self._emitter = layers, _Emitter(layers, host_lanes())
        self._table = (ctypes.c_int64 * (_PARAMETERS + _count(layers)))()
        self._address = ctypes.addressof(self._table)
        self._workspace = torch.zeros(0)
        self._program: Program | None = None

    def __call__(self, inputs: Tensor, parameters: Sequence[Tensor]) -> Tensor:
        """Return the outputs ``[rows, outputs]`` float32.

        Args:
            inputs: ``[rows, inputs]`` float32, contiguous.
            parameters: parameters of the layers, in their order.

        Returns:
            The outputs, without gradient.
        """
        rows = len(inputs)
        outputs = torch.empty(rows, self.layers[-1].outputs)
        if rows == 0:
            return outputs
        threads = get_num_threads()
        parts = 1 if threads == 1 else max(1, min(2 * threads, rows // _ROWS_OF_A_PART))
        if len(self._workspace) < parts:
            self._workspace = torch.zeros(parts, self._emitter.size)
        self._table[:] = [
            rows,
            *(tensor.data_ptr() for tensor in (inputs, outputs, self._workspace, *parameters)),
        ]
        if self._program is None:
            self._program = program_of(self._emitter.emit, f"forward {self.layers}")
            self._forward = self._program.function("forward")
        if parts == 1:
            self._forward(self._address, 0, 1)
        else:
            launch_on_all_cores(self._program.address("forward"), self._address, parts)()
        return outputs


class CompiledActor(Actor):
    """Actor that computes the logits of a fully connected model as native code, on the CPU.

    Args:
        model: the model; it acts itself on other devices, and where gradients are needed.
        policy: layers of the trunk and the policy.
        value: layers of the trunk and the value function.
    """

    def __init__(self, model: FullyConnected, policy: tuple[Dense, ...], value: tuple[Dense, ...]) -> None:
        super().__init__()
        self.model, self.action_units = model, model.action_units
        self._layers = policy, value
        self._policy, self._value = CompiledForward(policy), CompiledForward(value)

    def logits(self, observations: Observations) -> Tensor:
        """See ``Actor``."""
        model = self.model
        if self._must_differentiate() or "logits" in vars(model):  # replaced by the user
            return model.logits(observations)
        means = self._outputs(self._policy, model.policy, observations)
        if model.log_std is None:
            return means
        return torch.cat([means, model.log_std.detach().expand(*means.shape[:-1], -1)], dim=-1)

    def values(self, observations: Observations) -> Tensor:
        """Return the value estimates ``[...]`` of the model."""
        if self._must_differentiate() or "values" in vars(self.model):
            return self.model.values(observations)
        return self._outputs(self._value, self.model.value, observations).squeeze(-1)

    def _must_differentiate(self) -> bool:
        return torch.is_grad_enabled() or next(self.model.parameters()).device.type != "cpu"

    def _outputs(self, forward: CompiledForward, head: nn.Module, observations: Observations) -> Tensor:
        flat = self.model.flatten(observations)
        parameters = [*self.model.trunk.parameters(), *head.parameters()]
        rows = flat.reshape(-1, flat.shape[-1]).contiguous()
        return forward(rows, parameters).view(*flat.shape[:-1], -1)

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledActor:
        return CompiledActor(copy.deepcopy(self.model, memo), *self._layers)
