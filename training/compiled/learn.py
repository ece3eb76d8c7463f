"""Native gradient steps that work in place on the memory of the model and its optimizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from llvmlite import ir
from torch import Tensor

from warpdrive.training.compiled.gradient import Coefficient, Plan, Word
from warpdrive.training.compiled.program import Program, address_of, parts_of, program_of, table_of
from warpdrive.training.compiled.simd import host_lanes
from warpdrive.training.compiled.update import emit
from warpdrive.training.distributed.process_group import ProcessGroup
from warpdrive.training.experience.masked_rows import Rows
from warpdrive.training.models.parameters import adam_state

_MIN_SEQUENCES = 8  # of a part
_COEFFICIENTS = [name.name.lower() for name in Coefficient]


@dataclass(frozen=True)
class Minibatches:
    """Rows of the minibatches of gradient steps.

    Attributes:
        order: ``[rows]`` int64, indices of the rows of all minibatches, concatenated.
        bounds: ``[minibatches + 1]`` int64, start of each minibatch in ``order``, and the end of the last one.
        weight: ``[all rows]`` float32.
        counts: ``[minibatches]`` float32, number of rows with weight 1 in all processes.
        process_group: Processes over which gradients and terms are summed.
    """

    order: Tensor
    bounds: np.ndarray[Any, np.dtype[np.int64]]
    weight: Tensor
    counts: Tensor
    process_group: ProcessGroup

    @cached_property
    def counting(self) -> Tensor:
        """Divisors of the means over minibatches: :attr:`counts`, at least 1."""
        return self.counts.clamp(min=1.0)

    @staticmethod
    def of(rows: Rows, parts: Sequence[Tensor]) -> Minibatches:
        """Return the minibatches of ``rows`` with the indices ``parts``."""
        process_group, order = rows.sharding.process_group, torch.cat(list(parts))
        sizes = [part.numel() for part in parts]
        weight = rows.weight[order]
        if len(set(sizes)) == 1:
            counts = weight.view(len(sizes), -1).sum(1)
        else:
            counts = torch.stack([part.sum() for part in weight.split(sizes)])
        bounds = np.array([0, *accumulate(sizes)], np.int64)
        return Minibatches(order, bounds, _plain(rows.weight), process_group.all_reduce(counts), process_group)


class CompiledUpdate:
    """Gradient steps of one optimizer.

    The state of the optimizer is PyTorch's own, so that checkpoints hold it.

    Args:
        plan: Plan without the properties that depend on the experience.
        optimizer: Optimizer of the parameters.
    """

    def __init__(self, plan: Plan, optimizer: torch.optim.Optimizer) -> None:
        self.plan, self.optimizer = plan, optimizer
        self._compiled: tuple[Plan, _Compiled] | None = None

    def steps(
        self,
        minibatches: Minibatches,
        arrays: Mapping[str, Tensor],
        coefficients: Mapping[str, float],
        **experience: Any,
    ) -> Steps:
        """Prepare a gradient step on each minibatch.

        Args:
            minibatches: The rows.
            arrays: Arrays that the plan's gradient reads, by name; those with rows are ``[all rows, ...]``.
            coefficients: Coefficients of the loss, by the lower-case names of :class:`Coefficient`.
            experience: Attributes of the plan that depend on the experience.

        Returns:
            The steps to take.
        """
        plan = replace(self.plan, **experience) if experience else self.plan
        if self._compiled is None or self._compiled[0] != plan:
            self._compiled = plan, _Compiled(plan)
        return Steps(self._compiled[1], self.optimizer, minibatches, arrays, coefficients)


class _Compiled:
    """Program of a plan, and memory that its gradient steps share."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.program: Program = program_of(lambda module, lanes: emit(plan, module, lanes), repr(plan))
        emitter = plan.gradient(ir.Module(), host_lanes())
        self.arrays, self._size, self._buffers = emitter.arrays, emitter.size, emitter.buffers
        self._memory: tuple[Tensor, Tensor, Tensor] | None = None
        self._intermediate: tuple[int, dict[str, Tensor]] = 0, {}

    def memory(self, parts: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return gradients, workspace and sums of terms of each part."""
        if self._memory is None or len(self._memory[0]) != parts:
            sums = torch.empty(parts, len(self.plan.terms), host_lanes())
            self._memory = torch.empty(parts, self.plan.padded_parameters), torch.zeros(parts, self._size), sums
        return self._memory

    def intermediate(self, sequences: int) -> dict[str, Tensor]:
        """Return memory for the intermediate results of minibatches with up to this many sequences, by name."""
        sequences = max(sequences, 1)
        if self._intermediate[0] < sequences:
            found = {name: torch.empty(sequences * size) for name, size in self._buffers.items()}
            self._intermediate = sequences, found
        return self._intermediate[1]


class Steps:
    """Gradient steps on minibatches, to be taken in order.

    Attributes:
        metrics: ``[minibatches, terms + 2]`` float32: terms, norm of the gradient, and 1 if the step was skipped.
    """

    def __init__(
        self,
        compiled: _Compiled,
        optimizer: torch.optim.Optimizer,
        minibatches: Minibatches,
        arrays: Mapping[str, Tensor],
        coefficients: Mapping[str, float],
    ) -> None:
        self._plan, self._program, self._process_group = compiled.plan, compiled.program, minibatches.process_group
        rows = int(np.diff(minibatches.bounds).max())
        sequences, self._count = rows // compiled.plan.steps, len(minibatches.counts)
        self._parts = min(parts_of(rows), max(1, sequences // _MIN_SEQUENCES))
        arrays = {**arrays, **compiled.intermediate(sequences), "weight": minibatches.weight}
        self.metrics = torch.zeros(self._count, len(self._plan.terms) + 2)
        gradients, workspace, sums = compiled.memory(self._parts)
        self._gradient = gradients[0, : self._plan.parameters]
        state, group = adam_state(optimizer), optimizer.param_groups[0]
        self._arrays: dict[int, Any] = {
            Word.PARAMETERS: group["params"][0],
            Word.GRADIENTS: gradients,
            Word.FIRST_MOMENT: state["exp_avg"],
            Word.SECOND_MOMENT: state["exp_avg_sq"],
            Word.STEP: state["step"],
            Word.WORKSPACE: workspace,
            Word.SUMS: sums,
            Word.METRICS: self.metrics,
            Word.ORDER: minibatches.order,
            Word.BOUNDS: minibatches.bounds,
            Word.COUNTING: minibatches.counting,
            Word.COEFFICIENTS: np.array([coefficients.get(name, 0.0) for name in _COEFFICIENTS], np.float32),
            Word.ADAM: np.array([group["lr"], *group["betas"], group["eps"]], np.float64),
            Word.STOPPED: torch.zeros(1),
        }
        for number, name in enumerate(compiled.arrays):
            self._arrays[Word.ARRAYS + number] = _plain(arrays[name])
        self._words = table_of({**self._arrays, Word.PARTS: self._parts}, Word.ARRAYS + len(compiled.arrays))

    def take(self, first: int = 0, last: int | None = None) -> None:
        """Take the steps on the minibatches from ``first`` to ``last``, exclusive; by default on all."""
        last = self._count if last is None else last
        program, table = self._program, address_of(self._words)
        if self._process_group.world_size == 1:
            self._words[Word.MINIBATCH] = first
            program.run_rounds("gradient", "finish", table, Word.MINIBATCH, last, self._parts)
            return
        for number in range(first, last):
            self._words[Word.MINIBATCH] = number
            program.run("gradient", table, self._parts)
            program.run("reduce", table)
            self._sum_over_processes(self.metrics[number])
            program.run("apply", table)

    def _sum_over_processes(self, row: Tensor) -> None:
        """Sum the gradient and the terms of a minibatch over all processes."""
        terms = self._plan.terms
        own = dict(zip(terms, row, strict=False))
        summed, found = self._process_group.all_reduce_gradient(self._gradient, own)
        self._gradient.copy_(summed)
        row[: len(terms)] = torch.stack([found[name] for name in terms])

    def taken(self) -> dict[str, Tensor]:
        """Take all steps, and return the means of :meth:`columns` over them."""
        self.take()
        return self._by_name(self.metrics.mean(0))

    def columns(self, taken: Sequence[int] | None = None) -> dict[str, Tensor]:
        """Return terms, ``grad_norm`` and, with a target KL divergence, ``skipped_steps``, each ``[minibatches]``.

        Args:
            taken: Indices of the minibatches; None for all.
        """
        if taken is None:
            return self._by_name(self.metrics)
        return self._by_name(torch.stack([self.metrics[number] for number in taken]))

    def _by_name(self, metrics: Tensor) -> dict[str, Tensor]:
        *terms, norm, skipped = metrics.unbind(-1)
        stopping = {"skipped_steps": skipped} if self._plan.early_stopping else {}
        return {**dict(zip(self._plan.terms, terms, strict=True)), **stopping, "grad_norm": norm}


def _plain(array: Tensor) -> Tensor:
    """Return an array as contiguous, and as float32 if it is of floats."""
    return (array.float() if array.is_floating_point() else array).contiguous()
