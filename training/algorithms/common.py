"""Functions shared by several algorithms."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn

from warpdrive.training.algorithms.base import LearningConfig
from warpdrive.training.config.schedule import value_at
from warpdrive.training.experience.batch import Batch
from warpdrive.training.models.running_moments import RunningMoments

if TYPE_CHECKING:
    from warpdrive.training.algorithms.base import Algorithm
    from warpdrive.training.algorithms.dqn import DQN
    from warpdrive.training.algorithms.on_policy import OnPolicyConfig
    from warpdrive.training.algorithms.pqn import PQN
    from warpdrive.training.algorithms.task import Task
    from warpdrive.training.algorithms.value_decomposition import ValueDecompositionConfig
    from warpdrive.training.experience.transitions import Transitions

_ROUNDING = 1e-5  # of returns in float32, relative to their mean

Module = TypeVar("Module", bound=nn.Module)
Config = TypeVar("Config", bound=LearningConfig)


def normalised(advantages: Tensor, batch: Batch) -> Tensor:
    """Return advantages with mean 0 and standard deviation 1 over the rows with weight 1."""
    centred = advantages - batch.mean(advantages)
    return centred / (batch.mean(centred.square()).sqrt() + 1e-8)


def explained_variance(batch: Batch) -> Tensor:
    """Return 1 - Var[returns - values] / Var[returns]: 1 for perfect value estimates, 0 for no better than a constant.

    It is NaN if returns do not vary beyond rounding, as in Stable-Baselines3 and CleanRL.
    """
    both = torch.stack([batch.returns - batch.values, batch.returns])
    centre = batch.mean(both)
    residue, variance = batch.mean((both - centre.unsqueeze(-1)).square()).unbind()
    varies = variance > _ROUNDING**2 * centre[1].square()
    return torch.where(varies, 1.0 - residue / variance, torch.nan)


def value_error(difference: Tensor, config: OnPolicyConfig | ValueDecompositionConfig) -> Tensor:
    """Return half the squared differences or, with ``value_loss: huber``, the Huber loss (Huber 1964)."""
    if config.value_loss == "mse":
        return 0.5 * difference.square()
    size, delta = difference.abs(), config.huber_delta
    return torch.where(size <= delta, 0.5 * difference.square(), delta * (size - 0.5 * delta))


def minibatch_problems(minibatches: int, most: int, what: str) -> list[tuple[str, str]]:
    """Return the problem of more minibatches than ``most``, the number of ``what``; see ``LearningConfig``.

    Args:
        minibatches: Value of the key ``minibatches``.
        most: Highest allowed value.
        what: Description of the rows that are divided, for the message.

    Returns:
        Key and message of the problem, or an empty list.
    """
    return [("minibatches", f"found {minibatches}, expected at most {most}, {what}")] if minibatches > most else []


def at(config: Config, env_steps: int) -> Config:
    """Return a policy's section with each schedule replaced by its value at ``env_steps``."""
    current = {name: value_at(given, env_steps) for name, given in config.schedules.items()}
    return config.model_copy(update=current) if current else config


def set_learning_rate(optimizer: torch.optim.Optimizer, lr: float) -> None:
    """Set the learning rate of all parameter groups, from the next step on."""
    for group in optimizer.param_groups:
        group["lr"] = lr


def means(history: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Return means of metrics over gradient steps, by name, each over the steps that report it."""
    names = dict.fromkeys(name for metrics in history for name in metrics)
    return {name: torch.stack([metrics[name] for metrics in history if name in metrics]).mean() for name in names}


@contextmanager
def frozen(module: nn.Module) -> Iterator[None]:
    """Let gradients flow through ``module`` but not into its parameters, within the block."""
    module.requires_grad_(False)
    try:
        yield
    finally:
        module.requires_grad_(True)


def target_network(module: Module) -> Module:
    """Return a copy that takes no gradients. Running statistics are shared with the original."""
    statistics = {id(part): part for part in module.modules() if isinstance(part, RunningMoments)}
    return copy.deepcopy(module, dict(statistics)).requires_grad_(False)


@torch.no_grad()
def soft_update(target: nn.Module, source: nn.Module, tau: float) -> None:
    """Interpolate the parameters of ``target`` towards those of ``source``, in place.

    Args:
        target: Module to update.
        source: Module with the same parameters.
        tau: Interpolation factor; 1 copies the parameters.
    """
    for parameter, wanted in zip(target.parameters(), source.parameters(), strict=True):
        parameter.lerp_(wanted, tau)


def compile_q_update(algorithm: Algorithm[Any], task: Task, huber: bool) -> None:
    """Compile gradient steps of action values to native code, if supported.

    Args:
        algorithm: Algorithm whose model is an action-value network.
        task: Policy to train.
        huber: If True, the loss is linear beyond ``huber_delta``.
    """
    from warpdrive.training.compiled.learn import CompiledUpdate  # loads LLVM
    from warpdrive.training.compiled.plan import q_plan_of

    optimizer = algorithm.optimizer
    algorithm.compile_update(task, lambda: CompiledUpdate(q_plan_of(algorithm.model, optimizer, huber), optimizer))


def q_steps(
    algorithm: DQN | PQN, rows: Batch, epochs: Sequence[Sequence[Tensor]], **coefficients: float
) -> dict[str, Tensor]:
    """Take a gradient step of action values on each minibatch of each epoch as native code.

    Args:
        algorithm: Algorithm whose update is compiled.
        rows: Rows whose ``returns`` are the targets.
        epochs: Indices of the rows of each minibatch.
        coefficients: ``max_grad_norm`` and, of the Huber loss, ``huber_delta``.

    Returns:
        Means over the steps, by name.
    """
    from warpdrive.training.compiled.learn import CompiledUpdate, Minibatches

    update: CompiledUpdate = algorithm.compiled
    with torch.no_grad():
        arrays = {
            "observations": algorithm.model.flatten(rows.observations),
            "actions": rows.actions,
            "returns": rows.returns,
        }
    minibatches = Minibatches.of(rows, [part for parts in epochs for part in parts])
    return update.steps(minibatches, arrays, coefficients).taken()


def rows_with_targets(batch: Transitions, targets: Tensor) -> Batch:
    """Return transitions as rows whose ``returns`` are ``targets [rows]``."""
    zeros = torch.zeros_like(targets)
    return Batch(batch.observations, batch.actions, zeros, zeros, zeros, targets, batch.weight, sharding=batch.sharding)
