"""Gradient steps as native code, on the memory of the model and its optimizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from warpdrive.backends.host.workers import get_num_threads, launch_on_all_cores
from warpdrive.training.compiled.plan import vector_of
from warpdrive.training.compiled.program import Program, address_of, parts_of, program_of, table_of
from warpdrive.training.compiled.simd import host_lanes
from warpdrive.training.compiled.update import Coefficient, Plan, Word, emit, workspace_size
from warpdrive.training.distributed.process_group import ProcessGroup
from warpdrive.training.experience.batch import Batch
from warpdrive.training.models.parameters import adam_state


class CompiledUpdate:
    """Gradient steps on minibatches of a batch.

    The state of the optimizer is PyTorch's own, so that checkpoints hold it.

    Args:
        plan: specialisation, without properties of the experience.
        optimizer: optimizer of the parameters.
    """

    def __init__(self, plan: Plan, optimizer: torch.optim.Optimizer) -> None:
        self.plan, self.optimizer = plan, optimizer
        self._program: tuple[Plan, Program, int] | None = None

    def steps(
        self,
        batch: Batch,
        observations: Tensor,
        actions: Tensor,
        states: Tensor | None,
        epochs: Sequence[Sequence[Tensor]],
        coefficients: Mapping[str, float],
    ) -> dict[str, Tensor]:
        """Take a gradient step on each minibatch of each epoch.

        Args:
            batch: the rows; ``advantages``, ``returns`` and ``values`` in the units of the loss.
            observations: ``[rows, size]`` float32, flat.
            actions: ``[rows, parts]`` int32, or float32 in the units of the distribution.
            states: ``[rows, size]`` float32, inputs of a centralised critic, or None.
            epochs: indices of the rows of each minibatch, by epoch.
            coefficients: coefficients of the loss, by the lower-case names of :class:`Coefficient`.

        Returns:
            Means of the terms, ``grad_norm`` and, with a target KL divergence, ``skipped_steps``: scalars.
        """
        mask = batch.action_mask
        plan = replace(self.plan, mask=0 if mask is None else mask.shape[1])
        program, size = self._compiled(plan)
        minibatches = [part for parts in epochs for part in parts]
        sizes = [len(part) for part in minibatches]
        process_group = batch.sharding.process_group
        order = torch.cat(minibatches)
        counts = torch.stack([weight.sum() for weight in batch.weight[order].split(sizes)])
        counting = process_group.all_reduce(counts).clamp(min=1.0)
        parts = parts_of(max(sizes))
        lanes, width = host_lanes(), plan.padded_parameters
        metrics = torch.zeros(len(minibatches), len(plan.terms) + 2)
        gradients = torch.empty(parts, width)
        vector, state = vector_of(self.optimizer), adam_state(self.optimizer)
        group = self.optimizer.param_groups[0]
        arrays: dict[int, Any] = {
            Word.PARAMETERS: vector,
            Word.GRADIENTS: gradients,
            Word.FIRST_MOMENT: state["exp_avg"],
            Word.SECOND_MOMENT: state["exp_avg_sq"],
            Word.STEP: state["step"],
            Word.WORKSPACE: torch.zeros(parts, size),
            Word.SUMS: torch.empty(parts, len(plan.terms), lanes),
            Word.METRICS: metrics,
            Word.ORDER: order,
            Word.BOUNDS: np.array([0, *sizes]).cumsum(),
            Word.COUNTING: counting,
            Word.OBSERVATIONS: _floats(observations),
            Word.STATES: torch.zeros(1) if states is None else _floats(states),
            Word.ACTIONS: actions.contiguous(),
            Word.MASK: torch.zeros(1, dtype=torch.bool) if mask is None else mask.contiguous(),
            Word.LOG_PROBABILITIES: _floats(batch.log_probabilities),
            Word.ADVANTAGES: _floats(batch.advantages),
            Word.RETURNS: _floats(batch.returns),
            Word.VALUES: _floats(batch.values),
            Word.WEIGHT: _floats(batch.weight),
            Word.COEFFICIENTS: np.array([coefficients.get(name.name.lower(), 0.0) for name in Coefficient], np.float32),
            Word.ADAM: np.array([group["lr"], *group["betas"], group["eps"]], np.float64),
            Word.STOPPED: torch.zeros(1),
        }
        words = table_of({**arrays, Word.PARTS: parts, Word.FIRST: 0, Word.LAST: len(minibatches)}, len(Word))
        if process_group.world_size == 1 and (parts == 1 or get_num_threads() == 1):
            program.function("update")(address_of(words), 0, 1)
        else:
            self._one_by_one(program, words, parts, gradients[0, : plan.parameters], metrics, process_group)
        *terms, norm, skipped = metrics.mean(0).unbind()
        stopping = {"skipped_steps": skipped} if plan.early_stopping else {}
        return {**dict(zip(plan.terms, terms, strict=True)), **stopping, "grad_norm": norm}

    def _one_by_one(
        self, program: Program, words: Any, parts: int, gradient: Tensor, metrics: Tensor, process_group: ProcessGroup
    ) -> None:
        """Take the steps one by one: parts on several threads, sums over several processes."""
        table, terms = address_of(words), self.plan.terms
        reduce, apply = program.function("reduce"), program.function("apply")
        compute: Callable[[], None] = launch_on_all_cores(program.address("gradient"), table, parts)
        for number, row in enumerate(metrics):
            words[Word.MINIBATCH] = number
            compute()
            reduce(table, 0, 1)
            if process_group.world_size > 1:
                summed, found = process_group.all_reduce_gradient(gradient, dict(zip(terms, row, strict=False)))
                gradient.copy_(summed)
                row[: len(terms)] = torch.stack([found[name] for name in terms])
            apply(table, 0, 1)

    def _compiled(self, plan: Plan) -> tuple[Program, int]:
        if self._program is None or self._program[0] != plan:
            program = program_of(lambda module, lanes: emit(plan, module, lanes), repr(plan))
            self._program = plan, program, workspace_size(plan, host_lanes())
        return self._program[1:]


def _floats(rows: Tensor) -> Tensor:
    return rows.detach().float().contiguous()
