"""Optimizers of PyTorch without its compiler.

``torch.optim`` imports ``torch._dynamo``, which takes about as long as the rest of PyTorch, when the first optimizer is
created and in each step, only to exclude these methods from compilation. No public setting prevents that, so the
methods are called without the wrapper that excludes them. With a PyTorch version that wraps methods in another way,
optimizers are unchanged.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import MethodType
from typing import Any, TypeVar

import torch
from torch.optim import Optimizer

_EXCLUDED = ("add_param_group", "load_state_dict", "state_dict", "zero_grad")

SomeOptimizer = TypeVar("SomeOptimizer", bound=Optimizer)


def eager(build: Callable[[], SomeOptimizer]) -> SomeOptimizer:
    """Return an optimizer whose methods do not import ``torch._dynamo``, if this PyTorch permits it.

    Its type is the same, as are its hooks and its results; copies of it have the methods of its class.

    Args:
        build: Function that creates the optimizer, which is not ``differentiable``.
    """
    with _not_excluded(Optimizer.add_param_group):  # called by the constructor
        optimizer = build()
    if not hasattr(Optimizer, "profile_hook_step"):
        return optimizer
    methods = {name: inspect.unwrap(getattr(type(optimizer), name)) for name in _EXCLUDED}
    methods["step"] = Optimizer.profile_hook_step(_without_gradients(inspect.unwrap(type(optimizer).step)))
    vars(optimizer).update({name: MethodType(method, optimizer) for name, method in methods.items()})
    return optimizer


def _without_gradients(step: Callable[..., Any]) -> Callable[..., Any]:
    def eager_step(self: Optimizer, *arguments: Any, **named: Any) -> Any:
        with torch.no_grad():
            return step(self, *arguments, **named)

    return eager_step


@contextmanager
def _not_excluded(method: Callable[..., Any]) -> Iterator[None]:
    """Make PyTorch call a method directly within the block, without the wrapper that excludes it from compilation."""
    function: Any = inspect.unwrap(method)
    if hasattr(function, "__dynamo_disable"):  # created already: torch._dynamo is imported
        yield
        return
    function.__dynamo_disable = function
    try:
        yield
    finally:
        del function.__dynamo_disable
