"""Prove that a stretch of code stays on the device: refuse every transfer and every wait for the device within it."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode, resolve_name
from torch.utils._python_dispatch import TorchDispatchMode

from warpdrive.errors import WarpDriveError

_READS = "it copies from the device to the host and waits for it. Keep the value in a tensor on the device"
_SIZES = (
    "the size of its result depends on values, which the host has to wait for. Use torch.where, masked_fill or weights "
    "of 0 and 1"
)
_UPLOADS = "it copies from the host to the device. Make the tensor before, or on the device: torch.full, arange, fill_"
_MOVES = "it copies between the host and the device, or between devices"
_WAITS = "the host waits for the device"

_CONVERSIONS = {
    "cpu": "Tensor.cpu()",
    "numpy": "Tensor.numpy()",
    "tolist": "Tensor.tolist()",
    "__array__": "the conversion of a tensor to a NumPy array",
    "__repr__": "printing a tensor",
    "__format__": "formatting a tensor",
}
"""Methods that hand what a tensor holds to the host; the operations that they consist of do not show it on the CPU."""

_SPOKEN = {
    "__bool__": "bool(tensor), as in an if or while,",
    "__int__": "int(tensor)",
    "__float__": "float(tensor)",
    "__complex__": "complex(tensor)",
    "__index__": "a tensor used as an integer of the host",
    "__contains__": "'in' with a tensor",
}

_ALSO_READ = {"aten::multinomial", "aten::_linalg_check_errors", "aten::is_nonzero"}
"""Operations that look at values on the host without saying so in their tags."""

_MASKS = (torch.bool, torch.uint8)
_LIBRARIES = tuple(os.path.dirname(str(module.__file__)) + os.sep for module in (torch, np))
_BACKENDS = os.path.join(os.path.dirname(__file__), "backends") + os.sep


_thread = threading.local()
"""``allowed``: whether this thread may do within a block what is refused there."""


class HostTransferError(WarpDriveError):
    """A transfer or a synchronisation where there must be none."""


@contextmanager
def no_host_transfers(device: str | torch.device | None = None) -> Iterator[None]:
    """Within the block, a transfer between host and device, and a wait of the host for the device, are errors.

    That is whatever makes the host see values of the device (``.item()``, ``.cpu()``, ``.numpy()``, ``.tolist()``,
    ``print``, ``if tensor``), operations whose result has a size that depends on values (``nonzero``, boolean masks as
    indices), tensors made of data of the host (``torch.tensor``, lists as indices), copies between devices, and
    ``synchronize``. Launches, arithmetic, ``torch.where``, ``masked_fill`` and tensors made on the device are allowed,
    and so is what threads other than this one do.

    On the CPU every tensor counts as if it lay on a GPU, and so does a move to ``"cpu"`` by that name; on a GPU
    PyTorch's own search for synchronising operations helps (``torch.cuda.set_sync_debug_mode``).

    Args:
        device: whose tensors must stay there; None: the GPU if this process has used one, else the CPU.

    Raises:
        HostTransferError: names the operation, and the file and line that called it.
    """
    if device is None:
        device = "cuda" if torch.cuda.is_initialized() else "cpu"
    guard = _Guard(torch.device(device).type)
    with ExitStack() as stack:
        stack.enter_context(_allowing(False))
        stack.enter_context(_refused_waits())
        if guard.device_type == "cuda":
            stack.enter_context(_sync_debug_mode("error"))
        stack.enter_context(_Functions(guard))
        stack.enter_context(_Operations(guard))
        yield


@contextmanager
def host_transfers_allowed() -> Iterator[None]:
    """Within the block everything is allowed again: for what is done once, as compiling and capturing."""
    with ExitStack() as stack:
        stack.enter_context(_allowing(True))
        if torch.cuda.is_initialized():
            stack.enter_context(_sync_debug_mode("default"))
        yield


@contextmanager
def _allowing(allowed: bool) -> Iterator[None]:
    former = _is_allowed()
    _thread.allowed = allowed
    try:
        yield
    finally:
        _thread.allowed = former


def _is_allowed() -> bool:
    return bool(getattr(_thread, "allowed", False))


class _Guard:
    """What both modes below share: whose tensors are guarded, and which function of PyTorch is being called."""

    def __init__(self, device_type: str) -> None:
        self.device_type = device_type
        self.function: Callable[..., Any] | None = None

    def guards(self, value: Any) -> bool:
        if isinstance(value, (list, tuple)):
            return any(self.guards(part) for part in value)
        return isinstance(value, torch.Tensor) and value.device.type == self.device_type

    @property
    def function_name(self) -> str:
        return getattr(self.function, "__name__", "")

    def refuse(self, operation: str, why: str, cause: BaseException | None = None) -> None:
        if not _is_allowed() and not _is_launch():
            raise _error(operation, why, _place_of(sys._getframe())) from cause

    def called(self, fallback: str) -> str:
        """The function of PyTorch that is being called, as its caller wrote it."""
        if self.function_name in _SPOKEN:
            return _SPOKEN[self.function_name]
        name = resolve_name(self.function) if self.function else None
        if name is None:
            return fallback
        return f"{name.removeprefix('torch.') if name.startswith('torch.Tensor.') else name}()"


class _Functions(TorchFunctionMode):
    """Sees the functions and methods of PyTorch as they are called."""

    def __init__(self, guard: _Guard) -> None:
        super().__init__()
        self.guard = guard

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in _CONVERSIONS and self.guard.guards(args):
            self.guard.refuse(_CONVERSIONS[name], _READS)
        elif name == "to" and self.guard.device_type == "cpu" and "cpu" in (*args[1:2], kwargs.get("device")):
            self.guard.refuse("Tensor.to('cpu')", _READS)
        former = self.guard.function
        self.guard.function = None if name == "backward" else func  # a backward pass consists of many
        try:
            return func(*args, **kwargs)
        finally:
            self.guard.function = former


class _Operations(TorchDispatchMode):
    """Sees the operations that functions of PyTorch consist of."""

    def __init__(self, guard: _Guard) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.guard = guard

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        self._check(func, args, kwargs)
        try:
            return func(*args, **kwargs)
        except RuntimeError as error:
            if "synchronizing CUDA operation" in str(error):  # what the sync debug mode says
                self.guard.refuse(self.guard.called(str(func)), _WAITS, error)
            raise

    def _check(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        guard, name = self.guard, func._schema.name
        if name == "aten::_to_copy":
            device = kwargs.get("device")
            if device is not None and torch.device(device).type != args[0].device.type:
                guard.refuse(guard.called(name), _MOVES)
        elif name == "aten::copy_":
            if args[0].device != args[1].device:
                guard.refuse(guard.called(name), _MOVES)
        elif name == "aten::lift_fresh":
            # x[mask] = 1.0 makes a tensor of the number, which on a GPU stays on the host and becomes a parameter
            if guard.guards(args[0]) and not (guard.function_name == "__setitem__" and args[0].dim() == 0):
                is_index = guard.function_name in ("__getitem__", "__setitem__")
                what = "indexing with a list or an array of the host"
                guard.refuse(what if is_index else guard.called("a tensor made of data of the host"), _UPLOADS)
        elif name in ("aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"):
            if guard.guards(args[0]) and _has_mask(args[1]) and not (len(args) > 2 and _is_number(args[2])):
                guard.refuse("indexing with a boolean mask", _SIZES)
        elif guard.guards(args):
            if torch.Tag.data_dependent_output in func.tags or name in _ALSO_READ:
                is_index = guard.function_name in ("__getitem__", "__setitem__")
                what = "indexing with a tensor of one integer"
                guard.refuse(what if is_index else guard.called("reading a number of the device"), _READS)
            elif torch.Tag.dynamic_output_shape in func.tags:
                guard.refuse(guard.called(name), _SIZES)


def _has_mask(indices: Sequence[torch.Tensor | None]) -> bool:
    return any(index is not None and index.dtype in _MASKS for index in indices)


def _is_number(value: torch.Tensor) -> bool:
    """Whether a value assigned under a mask is one number of the host, which makes the assignment a masked_fill."""
    return value.dim() == 0 and value.device.type == "cpu"


@contextmanager
def _refused_waits() -> Iterator[None]:
    """Refuse what waits for a device explicitly: no operation of PyTorch tells of that."""
    owners: dict[str, Any] = {
        "torch.cuda.synchronize()": torch.cuda,
        "Stream.synchronize()": torch.cuda.streams.Stream,
        "Event.synchronize()": torch.cuda.streams.Event,
    }
    if hasattr(torch, "accelerator"):  # not in the oldest versions
        owners["torch.accelerator.synchronize()"] = torch.accelerator
    thread = threading.get_ident()

    def refusing(original: Callable[..., Any], name: str) -> Callable[..., Any]:
        def synchronize(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() == thread and not _is_allowed():
                raise _error(name, _WAITS, _place_of(sys._getframe()))
            return original(*args, **kwargs)

        return synchronize

    originals = {name: owner.__dict__["synchronize"] for name, owner in owners.items()}
    for name, owner in owners.items():
        owner.synchronize = refusing(originals[name], name)
    try:
        yield
    finally:
        for name, owner in owners.items():
            owner.synchronize = originals[name]


@contextmanager
def _sync_debug_mode(mode: str) -> Iterator[None]:
    former = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode(mode)
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(former)


def _error(operation: str, why: str, place: str) -> HostTransferError:
    return HostTransferError(f"{place}: {operation} within no_host_transfers: {why}")


def _is_launch() -> bool:
    """Whether a backend asks, which on the CPU looks at the memory behind tensors in order to launch a kernel."""
    return any(frame.f_code.co_filename.startswith(_BACKENDS) for frame in _frames(sys._getframe()))


def _place_of(frame: FrameType) -> str:
    """Return file and line of the innermost code that is neither PyTorch's nor NumPy's nor of this module."""
    for caller in _frames(frame):
        name = caller.f_code.co_filename
        if name != __file__ and not name.startswith(_LIBRARIES):
            return f"{name}:{caller.f_lineno}"
    return "?"


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back
