"""Optimizer steps on all parameters as one vector, compared with PyTorch's on each."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from warpdrive.training.algorithms.base import optimizer_step
from warpdrive.training.models.parameters import as_vector


def network() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))


def loss_of(module: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    return (module(inputs) - 1.0).square().sum()


@pytest.mark.parametrize("max_grad_norm", [0.5, float("inf")])
def test_steps_are_those_of_an_optimizer_of_each_parameter(max_grad_norm: float) -> None:
    ours, theirs = network(), network()
    ours_optimizer = torch.optim.Adam([as_vector(ours)], lr=0.01, fused=True)
    their_optimizer = torch.optim.Adam(theirs.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(0)
    for _ in range(5):
        inputs = torch.randn(7, 3, generator=generator)
        loss = loss_of(ours, inputs)
        found = optimizer_step(loss, {"loss": loss.detach()}, ours_optimizer, ours, max_grad_norm)
        their_optimizer.zero_grad()
        loss_of(theirs, inputs).backward()
        expected = nn.utils.clip_grad_norm_(theirs.parameters(), max_grad_norm)
        their_optimizer.step()
        assert found["grad_norm"].item() == pytest.approx(expected.item(), rel=1e-5)
        assert found["loss"] == loss
    for found, wanted in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(found, wanted)


def test_parameters_that_are_not_trained_or_not_used_stay() -> None:
    module = nn.ModuleDict({"used": network(), "unused": nn.Linear(2, 2), "fixed": nn.Linear(2, 2)})
    module["fixed"].requires_grad_(False)
    before = copy.deepcopy(module.state_dict())
    optimizer = torch.optim.Adam([as_vector(module)], lr=0.01, fused=True)
    optimizer_step(loss_of(module["used"], torch.ones(1, 3)), {}, optimizer, module)
    changed = {name.split(".")[0] for name, now in module.state_dict().items() if not torch.equal(now, before[name])}
    assert changed == {"used"}


def test_a_copy_has_parameters_of_its_own_and_a_loaded_state_is_trained_on() -> None:
    module, other = network(), network()
    optimizer = torch.optim.Adam([as_vector(module)], lr=0.01, fused=True)
    copied = copy.deepcopy(module)
    with torch.no_grad():
        other[0].bias.fill_(2.0)  # type: ignore[index, operator, union-attr]
    module.load_state_dict(other.state_dict())
    optimizer_step(loss_of(module, torch.ones(1, 3)), {}, optimizer, module)
    moved = module[0].bias - 2.0  # type: ignore[index, operator]
    assert (moved.abs() < 0.011).all() and (moved != 0).any()
    assert torch.equal(copied[0].bias, network()[0].bias)  # type: ignore[index]
