"""Operations that ``wd.no_host_transfers`` refuses, by name and line, or allows; on the CPU as on a GPU."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numba import cuda
from torch import Tensor

import warpdrive as wd
from warpdrive.host_transfers import host_transfers_allowed

X = torch.tensor([0.5, -1.0, 2.0, 3.0])
MASK, INDEX, THREE = X > 0, torch.tensor([2, 0, 1]), torch.tensor(3)
MATRIX = torch.eye(2)

REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "item": (lambda: X[0].item(), r"Tensor\.item\(\)"),
    "cpu": (lambda: X.cpu(), r"Tensor\.cpu\(\)"),
    "to cpu": (lambda: X.to("cpu"), r"Tensor\.to\('cpu'\)"),
    "to device=cpu": (lambda: X.to(device="cpu"), r"Tensor\.to\('cpu'\)"),
    "to another device": (lambda: X.to("meta"), r"Tensor\.to\(\) .*: it copies between"),
    "copy_ to another device": (
        lambda: torch.empty(4, device="meta").copy_(X),
        r"Tensor\.copy_\(\) .*: it copies between",
    ),
    "numpy": (lambda: X.numpy(), r"Tensor\.numpy\(\)"),
    "asarray": (lambda: np.asarray(X), "conversion of a tensor to a NumPy array"),
    "tolist": (lambda: X.tolist(), r"Tensor\.tolist\(\)"),
    "bool": (lambda: bool(X[0] > 0), r"bool\(tensor\)"),
    "if any": (lambda: 1 if MASK.any() else 0, r"bool\(tensor\)"),
    "int": (lambda: int(THREE), r"int\(tensor\)"),
    "float": (lambda: float(X[0]), r"float\(tensor\)"),
    "range": (lambda: range(THREE), "a tensor used as an integer"),  # type: ignore[call-overload]
    "in": (lambda: 3 in X, "'in' with a tensor"),
    "print": (lambda: str(X), "printing a tensor"),
    "format": (lambda: f"{X[0]:.2f}", "formatting a tensor"),
    "nonzero": (lambda: MASK.nonzero(), r"Tensor\.nonzero\(\)"),
    "where of one argument": (lambda: torch.where(MASK), r"torch\.where\(\)"),
    "masked_select": (lambda: X.masked_select(MASK), r"masked_select\(\)"),
    "unique": (lambda: torch.unique(INDEX), r"unique\(\)"),
    "bincount": (lambda: torch.bincount(INDEX), r"torch\.bincount\(\)"),
    "repeat_interleave": (lambda: X.repeat_interleave(INDEX.new_ones(4)), r"repeat_interleave\(\)"),
    "mask as index": (lambda: X[MASK], "indexing with a boolean mask"),
    "assignment under a mask": (lambda: X.clone().__setitem__(MASK, X[:3]), "indexing with a boolean mask"),
    "tensor as index": (lambda: X[THREE], "indexing with a tensor of one integer"),
    "slice by a tensor": (lambda: X[:THREE], "indexing with a tensor of one integer"),
    "list as index": (lambda: X[[0, 1]], "indexing with a list"),
    "array as index": (lambda: X[np.array([0, 1])], "indexing with a list or an array"),
    "equal": (lambda: torch.equal(X, X), r"torch\.equal\(\)"),
    "allclose": (lambda: torch.allclose(X, X), r"torch\.allclose\(\)"),
    "multinomial": (lambda: torch.multinomial(X.abs(), 1), r"torch\.multinomial\(\)"),
    "inverse": (lambda: torch.linalg.inv(MATRIX), r"inv\(\)"),
    "tensor": (lambda: torch.tensor([1.0, 2.0]), r"torch\.tensor\(\) .*: it copies from the host"),
    "as_tensor": (lambda: torch.as_tensor([1.0]), r"torch\.as_tensor\(\) .*: it copies from the host"),
    "new_tensor": (lambda: X.new_tensor([1.0]), r"new_tensor\(\) .*: it copies from the host"),
    "from_numpy": (lambda: torch.from_numpy(np.ones(2)), "made of data of the host"),
    "arange to a tensor": (lambda: torch.arange(THREE), r"torch\.arange\(\)"),
    "synchronize": (lambda: torch.cuda.synchronize(), r"torch\.cuda\.synchronize\(\) .*: the host waits"),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_what_is_refused(name: str) -> None:
    operation, told = REFUSED[name]
    with pytest.raises(wd.HostTransferError, match=told) as caught, wd.no_host_transfers():
        operation()
    assert isinstance(caught.value, wd.WarpDriveError)
    if name not in ("synchronize", "to another device", "copy_ to another device"):
        operation()  # outside it works


def linear() -> Tensor:
    return torch.nn.functional.linear(MATRIX, MATRIX)


ALLOWED: dict[str, Callable[[], Any]] = {
    "arithmetic": lambda: (X * 2.0 + 1.0).clamp(min=0.0).sum(),
    "where": lambda: torch.where(MASK, X, 0.0),
    "masked_fill": lambda: X.masked_fill(MASK, 0.0),
    "a number under a mask": lambda: X.clone().__setitem__(MASK, 0.0),  # a masked_fill
    "indices on the device": lambda: X[INDEX],
    "assignment by indices on the device": lambda: X.clone().__setitem__(INDEX, X[:3]),
    "gather": lambda: X.gather(0, INDEX),
    "slices": lambda: X[1:3, None].expand(2, 5).reshape(-1),
    "shape": lambda: (X.shape, len(X), X.numel(), X.device, X.dtype, X.data_ptr(), X.is_contiguous()),
    "iteration": lambda: [row + 1 for row in MATRIX],
    "made on the device": lambda: (torch.zeros(3), torch.full((2,), 0.5), torch.arange(4), torch.empty_like(X)),
    "fill": lambda: torch.empty(1).fill_(3.0),
    "to its own device": lambda: X.to(MATRIX.device),
    "to another dtype": lambda: (X.to(torch.float64), X.double(), X.int()),
    "copy": lambda: torch.empty(4).copy_(X),
    "deepcopy": lambda: copy.deepcopy(X),
    "random": lambda: (torch.randperm(5), torch.rand(3), torch.randn(2)),
    "linear": linear,
    "sort": lambda: X.sort(),
}


@pytest.mark.parametrize("name", list(ALLOWED))
def test_what_is_allowed(name: str) -> None:
    with wd.no_host_transfers():
        ALLOWED[name]()


def test_a_step_of_training_is_allowed() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    inputs = torch.ones(5, 3)
    before = model[0].weight.detach().clone()
    for _ in range(2):  # the first one makes the optimizer's state
        with wd.no_host_transfers():
            optimizer.zero_grad()
            model(inputs).square().mean().backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
    assert not torch.equal(before, model[0].weight)


@wd.kernel
def double(x):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)
    if i < x.shape[0]:
        x[i] *= 2


def test_launches_are_allowed() -> None:
    x = torch.ones(4)
    with wd.no_host_transfers():
        double[1, 4](x)
    assert x.tolist() == [2.0] * 4


def test_the_callers_file_and_line_are_told() -> None:
    def model(x: Tensor) -> Tensor:
        return x * 2 if x.sum() > 0 else x

    line = model.__code__.co_firstlineno + 1
    with (
        pytest.raises(wd.HostTransferError, match=rf"{Path(__file__).name}:{line}: bool\(tensor\), as in an if"),
        wd.no_host_transfers(),
    ):
        torch.nn.Sequential()(model(X))


def test_in_a_function_of_pytorch_the_line_of_the_call_is_told() -> None:
    def choose() -> Any:
        return torch.distributions.Categorical(logits=X, validate_args=True)

    line = choose.__code__.co_firstlineno + 1
    with pytest.raises(wd.HostTransferError, match=f"{Path(__file__).name}:{line}: "), wd.no_host_transfers():
        choose()


def test_in_a_backward_pass_too() -> None:
    class Looks(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:  # type: ignore[override]
            return grad if grad.sum() > 0 else -grad

    x = X.clone().requires_grad_()
    with pytest.raises(wd.HostTransferError, match="reading a number of the device"), wd.no_host_transfers():
        Looks.apply(x).sum().backward()


def test_afterwards_everything_is_as_before() -> None:
    before = (torch.cuda.synchronize, torch.cuda.Stream.synchronize, torch.cuda.Event.synchronize)
    with pytest.raises(ZeroDivisionError), wd.no_host_transfers(), wd.no_host_transfers():
        assert torch.cuda.synchronize is not before[0]
        1 / 0  # noqa: B018
    assert before == (torch.cuda.synchronize, torch.cuda.Stream.synchronize, torch.cuda.Event.synchronize)
    assert X[0].item() == 0.5


def test_what_is_done_once_may_be_allowed_and_refused_again() -> None:
    with wd.no_host_transfers():
        with host_transfers_allowed():
            assert X.tolist() == [0.5, -1.0, 2.0, 3.0]
            with pytest.raises(wd.HostTransferError), wd.no_host_transfers():
                X.tolist()
            assert X[0].item() == 0.5
        with pytest.raises(wd.HostTransferError):
            X.tolist()


def test_other_threads_may_do_what_they_like() -> None:
    found: list[float] = []
    with wd.no_host_transfers():
        thread = threading.Thread(target=lambda: found.append(X[0].item()))
        thread.start()
        thread.join()
    assert found == [0.5]


def test_threads_may_leave_in_another_order_than_they_came(monkeypatch: pytest.MonkeyPatch) -> None:
    mode = ["default"]
    monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: mode[0])
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", lambda value: mode.__setitem__(0, value))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: "waited")
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with wd.no_host_transfers("cuda"):
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    with wd.no_host_transfers("cuda"):
        thread.start()
        inside.wait(10)
    assert torch.cuda.synchronize() == "waited"  # still forbidden to the other thread
    leave.set()
    thread.join()
    assert torch.cuda.synchronize() == "waited" and mode == ["default"]
    for threads in (1, 2):
        monkeypatch.setattr(threading, "active_count", lambda count=threads: count)
        with wd.no_host_transfers("cuda"):
            assert mode == ["error" if threads == 1 else "default"]


def test_guarding_another_device_leaves_the_host_alone() -> None:
    """Simulates a machine with a GPU, whose host tensors may be read; here the other device is PyTorch's meta."""
    with wd.no_host_transfers("meta"):
        assert X[0].item() == 0.5 and X[MASK].tolist() == [0.5, 2.0, 3.0]
        torch.tensor([1.0])
        with pytest.raises(wd.HostTransferError, match=r"Tensor\.to\(\)"):
            X.to("meta")
        with pytest.raises(wd.HostTransferError, match=r"Tensor\.item\(\)"):
            torch.empty((), device="meta").item()
