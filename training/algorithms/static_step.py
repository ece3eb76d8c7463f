"""Gradient steps that read nothing on the host, so that a CUDA graph can repeat them.

Inputs are copied to fixed addresses. Learning rates and scheduled coefficients are scalars on the device, written
before the steps; all other options are constants. Early stopping is decided on the device (``kl_stop``). Outside of the
step, the optimizer's options are unchanged, so that its checkpoints are the same with and without graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from warpdrive.step_graph import Step, StepGraphs
from warpdrive.training.experience.masked_rows import Rows
from warpdrive.training.models.parameters import adam_state


class Steps(Protocol):
    """Algorithm with gradient steps; see ``Algorithm``."""

    config: Any
    schedules: Any
    model: Any

    def parts(self) -> Mapping[str, Any]:
        """Return the modules and optimizers besides the model, by name."""

    def gradient_step(self, *inputs: Any) -> dict[str, Tensor]:
        """Take a gradient step. Returns metrics as scalars on the device."""


class StaticStep:
    """Gradient step at fixed addresses, repeated as a CUDA graph if possible.

    Each shape of the inputs has a separate graph: minibatches may differ by a row.

    Args:
        algorithm: Its ``gradient_step`` is repeated.
        graphs: Captures the steps.
    """

    def __init__(self, algorithm: Steps, graphs: StepGraphs) -> None:
        self.algorithm, self.graphs = algorithm, graphs
        self._scalars: dict[str, Tensor] = {}
        self._written: dict[str, float] = {}
        self._captured: dict[object, tuple[list[Tensor], Callable[[], dict[str, Tensor]]]] = {}
        self._addresses: object = None

    def __call__(self, *inputs: Any) -> dict[str, Tensor]:
        """Take a gradient step on inputs: rows, tensors, and constants. Returns metrics as scalars on the device."""
        self._write_scalars()
        addresses = [tensor.data_ptr() for tensor in self._optimized()]
        if addresses != self._addresses:  # also after a checkpoint was loaded
            self._captured.clear()
            self._addresses = addresses
        given = list(_leaves(inputs))
        key = tuple(leaf.shape if isinstance(leaf, Tensor) else leaf for leaf in given)
        if key not in self._captured:
            self._captured[key] = self._prepared(inputs)
        places, step = self._captured[key]
        for place, tensor in zip(places, _tensors(given), strict=True):
            place.copy_(tensor)
        return step()

    def _prepared(self, inputs: tuple[Any, ...]) -> tuple[list[Tensor], Callable[[], dict[str, Tensor]]]:
        """Return the tensors to which inputs are copied, and the step on them."""
        static = _copied(inputs)
        metrics: dict[str, Tensor] = {}
        stacked = torch.empty(0)

        def step() -> None:
            nonlocal metrics, stacked
            with self._scalars_in_place():
                metrics = self.algorithm.gradient_step(*static)
            stacked = torch.stack(list(metrics.values()))

        repeat: Step = self.graphs.repeatable(step, self._save)

        def repeated() -> dict[str, Tensor]:
            repeat()
            return dict(zip(metrics, stacked.clone().unbind(), strict=True))

        return _tensors(_leaves(static)), repeated

    @property
    def _optimizers(self) -> list[torch.optim.Optimizer]:
        return [part for part in self.algorithm.parts().values() if isinstance(part, torch.optim.Optimizer)]

    def _optimized(self) -> Iterator[Tensor]:
        """Yield the tensors that optimizers change: parameters, Adam's state, and the flag of early stopping."""
        for optimizer in self._optimizers:
            yield from optimizer.param_groups[0]["params"]
            yield from adam_state(optimizer).values()
            if (is_over := getattr(optimizer, "found_inf", None)) is not None:
                yield is_over

    def _write_scalars(self) -> None:
        """Write learning rates and scheduled coefficients that have changed to the device."""
        config, like = self.algorithm.config, next(self._optimized()).detach()
        for name in self.algorithm.schedules.schedules:
            self._write(name, getattr(config, name), like)
        for number, optimizer in enumerate(self._optimizers):  # fused ones read float32
            self._write(_lr(number), optimizer.param_groups[0]["lr"], like.new_empty((), dtype=torch.float32))

    def _write(self, name: str, value: float, like: Tensor) -> None:
        if name not in self._scalars:
            self._scalars[name] = like.new_zeros(())
        if self._written.get(name) != value:
            self._scalars[name].fill_(value)
            self._written[name] = value

    @contextmanager
    def _scalars_in_place(self) -> Iterator[None]:
        """Make the algorithm and its optimizers read the scalars within the block."""
        config, groups = self.algorithm.config, [optimizer.param_groups[0] for optimizer in self._optimizers]
        former = [{name: group[name] for name in ("lr", "capturable")} for group in groups]
        coefficients = {name: self._scalars[name] for name in self.algorithm.schedules.schedules}
        self.algorithm.config = config.model_copy(update=coefficients)
        for number, group in enumerate(groups):
            group.update(lr=self._scalars[_lr(number)], capturable=True)
        try:
            yield
        finally:
            self.algorithm.config = config
            for group, options in zip(groups, former, strict=True):
                group.update(options)

    def _save(self) -> Callable[[], None]:
        """Save all state that a step changes; see ``StepGraphs.repeatable``."""
        changed = list(self._optimized())
        for part in (self.algorithm.model, *self.algorithm.parts().values()):
            if isinstance(part, nn.Module):
                changed += [*part.parameters(), *part.buffers()]
        kept = [(tensor, tensor.detach().clone()) for tensor in changed]

        @torch.no_grad()
        def restore() -> None:
            for tensor, former in kept:
                tensor.copy_(former)

        return restore


def _lr(number: int) -> str:
    return f"learning rate {number}"


def _leaves(value: Any) -> Iterator[Any]:
    """Yield tensors and constants of nested tuples, dictionaries and dataclasses."""
    if isinstance(value, dict):
        value = tuple(value.values())
    elif is_dataclass(value):
        counting = (value.counting,) if isinstance(value, Rows) else ()
        value = (*(getattr(value, field.name) for field in fields(value)), *counting)
    if isinstance(value, tuple):
        for part in value:
            yield from _leaves(part)
    else:
        yield value


def _tensors(leaves: Any) -> list[Tensor]:
    return [leaf for leaf in leaves if isinstance(leaf, Tensor)]


def _copied(value: Any) -> Any:
    """Return copies of nested tuples, dictionaries and dataclasses with new tensors."""
    if isinstance(value, Tensor):
        return value.clone(memory_format=torch.contiguous_format)
    if isinstance(value, tuple):
        return tuple(map(_copied, value))
    if isinstance(value, dict):
        return {name: _copied(part) for name, part in value.items()}
    if not is_dataclass(value) or isinstance(value, type):
        return value
    copied = replace(value, **{field.name: _copied(getattr(value, field.name)) for field in fields(value)})
    if isinstance(value, Rows):
        vars(copied)["counting"] = value.counting.clone()
    return copied
