"""Optimizers that do not import PyTorch's compiler."""

from __future__ import annotations

import copy
import subprocess
import sys

import torch

from warpdrive.training.runtime.eager_optimizer import eager

WITHOUT_THE_COMPILER = """
import sys, torch
from warpdrive.training.runtime.eager_optimizer import eager
parameter = torch.nn.Parameter(torch.ones(3))
optimizer = eager(lambda: torch.optim.Adam([parameter], fused=True))
parameter.grad = torch.ones(3)
optimizer.step()
optimizer.zero_grad()
optimizer.load_state_dict(optimizer.state_dict())
print("torch._dynamo" in sys.modules)
torch.optim.Adam([torch.nn.Parameter(torch.ones(3))])  # excluded from compilation like any other
print("torch._dynamo" in sys.modules)
"""


def stepped(optimizer: torch.optim.Optimizer, steps: int) -> None:
    (parameter,) = optimizer.param_groups[0]["params"]
    for step in range(steps):
        parameter.grad = torch.linspace(-1, step, parameter.numel())
        optimizer.step()


def test_no_method_imports_the_compiler():
    done = subprocess.run([sys.executable, "-c", WITHOUT_THE_COMPILER], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_parameters_and_state_are_those_of_pytorch():
    theirs = torch.optim.Adam([torch.nn.Parameter(torch.arange(5.0))], lr=0.1, fused=True)
    ours = eager(lambda: torch.optim.Adam([torch.nn.Parameter(torch.arange(5.0))], lr=0.1, fused=True))
    assert type(ours) is torch.optim.Adam
    for optimizer in (theirs, ours):
        stepped(optimizer, 3)
    assert torch.equal(ours.param_groups[0]["params"][0], theirs.param_groups[0]["params"][0])
    for name, value in theirs.state_dict()["state"][0].items():
        assert torch.equal(ours.state_dict()["state"][0][name], value)
    restored = eager(lambda: torch.optim.Adam([torch.nn.Parameter(torch.arange(5.0))], lr=0.1, fused=True))
    restored.load_state_dict(theirs.state_dict())
    assert restored.state_dict()["state"][0]["step"] == 3


def test_optimizers_of_another_pytorch_stay_as_they_are(monkeypatch):
    monkeypatch.delattr(torch.optim.Optimizer, "profile_hook_step")
    optimizer = eager(lambda: torch.optim.Adam([torch.nn.Parameter(torch.arange(5.0))], lr=0.1))
    assert "step" not in vars(optimizer)
    stepped(optimizer, 1)
    assert optimizer.state_dict()["state"][0]["step"] == 1


def test_hooks_are_called_and_gradients_are_off():
    optimizer = eager(lambda: torch.optim.Adam([torch.nn.Parameter(torch.ones(2))], fused=True))
    calls: list[str] = []
    optimizer.register_step_pre_hook(lambda *_: calls.append("before"))
    optimizer.register_step_post_hook(lambda *_: calls.append("after"))
    stepped(optimizer, 1)
    assert calls == ["before", "after"]
    assert torch.is_grad_enabled()


def test_copies_step_and_schedulers_apply():
    optimizer = eager(lambda: torch.optim.Adam([torch.nn.Parameter(torch.ones(2))], lr=0.5, fused=True))
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    stepped(optimizer, 1)
    schedule.step()
    assert optimizer.param_groups[0]["lr"] == 0.25
    another = copy.deepcopy(optimizer)
    stepped(another, 1)
    assert another.state_dict()["state"][0]["step"] == 2
    assert optimizer.state_dict()["state"][0]["step"] == 1
