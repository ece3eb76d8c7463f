"""Guard against host transfers: context managers that forbid transfers and synchronisation with the device.

Calls are observed at two levels: PyTorch functions (``TorchFunctionMode``), which are close to the author's code, and
the operations that they dispatch (``TorchDispatchMode``), whose tags say which of them depend on values.
"""

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
"""Methods that copy a tensor's values to the host; on the CPU the underlying operations do not reveal this."""

_SPOKEN = {
    "__bool__": "bool(tensor), as in an if or while,",
    "__int__": "int(tensor)",
    "__float__": "float(tensor)",
    "__complex__": "complex(tensor)",
    "__index__": "a tensor used as an integer of the host",
    "__contains__": "'in' with a tensor",
}

_ALSO_READ = {"aten::multinomial", "aten::_linalg_check_errors", "aten::is_nonzero"}
"""Operations that read values on the host without a tag for it."""

_MASKS = (torch.bool, torch.uint8)
_LIBRARIES = tuple(os.path.dirname(str(module.__file__)) + os.sep for module in (torch, np))
_BACKENDS = os.path.join(os.path.dirname(__file__), "backends") + os.sep


_thread = threading.local()
"""Thread-local state; ``allowed`` is True while forbidden operations are permitted within a block."""


class HostTransferError(WarpDriveError):
    """A host transfer or synchronisation in a block that forbids it."""


@contextmanager
def no_host_transfers(device: str | torch.device | None = None) -> Iterator[None]:
    """Forbid transfers between host and device, and synchronisation with the device, within the block.

    Forbidden are reads of device values (``.item()``, ``.cpu()``, ``.numpy()``, ``.tolist()``, ``print``,
    ``if tensor``), operations with data-dependent output sizes (``nonzero``, boolean mask indexing), tensors made from
    host data (``torch.tensor``, indexing with lists), copies between devices, and ``synchronize``. Allowed are kernel
    launches, arithmetic, ``torch.where``, ``masked_fill``, factory functions on the device, and all operations of other
    threads.

    On the CPU every tensor is treated as if it were on a GPU, and ``.to("cpu")`` as a transfer. On a GPU PyTorch's
    detection of synchronising operations is used as well (``torch.cuda.set_sync_debug_mode``), unless there are other
    Python threads, which it would affect.

    ```python
    with wd.no_host_transfers():
        env.step(actions)
        if rewards.sum() > 0:  # raises HostTransferError: bool(tensor), as in an if or while
            ...
    ```

    Args:
        device: The device whose tensors are guarded. If None, the GPU if this process has used one, otherwise the CPU.

    Raises:
        HostTransferError: On the first forbidden operation; names the operation, and the file and line of the call.
    """
    if device is None:
        device = "cuda" if torch.cuda.is_initialized() else "cpu"
    guard = _Guard(torch.device(device).type)
    with ExitStack() as stack:
        stack.enter_context(_allowing(False))
        stack.enter_context(_forbid_waits())
        if guard.device_type == "cuda":
            stack.enter_context(_sync_debug_mode("error"))
        stack.enter_context(_Functions(guard))
        stack.enter_context(_Operations(guard))
        yield


@contextmanager
def host_transfers_allowed() -> Iterator[None]:
    """Permit all operations again within the block, for one-time work such as compilation and graph capture."""
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
    """State shared by the modes below: the guarded device, and the PyTorch function being called."""

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
        """The PyTorch function being called, as written by the caller."""
        if self.function_name in _SPOKEN:
            return _SPOKEN[self.function_name]
        name = resolve_name(self.function) if self.function else None
        if name is None:
            return fallback
        return f"{name.removeprefix('torch.') if name.startswith('torch.Tensor.') else name}()"


class _Functions(TorchFunctionMode):
    """Intercepts PyTorch functions and methods."""

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
        self.guard.function = None if name == "backward" else func  # a backward pass calls many
        try:
            return func(*args, **kwargs)
        finally:
            self.guard.function = former


class _Operations(TorchDispatchMode):
    """Intercepts the operations that PyTorch functions dispatch to."""

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
            if "synchronizing CUDA operation" in str(error):  # raised by the sync debug mode
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
            # x[mask] = 1.0 creates a scalar tensor; on a GPU it stays on the host and is passed as a kernel argument
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
    """Return True if a value assigned under a mask is a scalar on the host, so that the assignment is a masked_fill."""
    return value.dim() == 0 and value.device.type == "cpu"


_PATCHING = threading.Lock()
_waits_forbidden = 0
"""Number of blocks, of all threads, within which synchronisation is replaced."""
_originals: list[tuple[Any, Callable[..., Any]]] = []


@contextmanager
def _forbid_waits() -> Iterator[None]:
    """Forbid explicit synchronisation with a device, which is not a PyTorch operation, to this thread."""
    global _waits_forbidden
    owners: dict[str, Any] = {
        "torch.cuda.synchronize()": torch.cuda,
        "Stream.synchronize()": torch.cuda.streams.Stream,
        "Event.synchronize()": torch.cuda.streams.Event,
    }
    if hasattr(torch, "accelerator"):  # not in the oldest supported versions
        owners["torch.accelerator.synchronize()"] = torch.accelerator

    def refusing(original: Callable[..., Any], name: str) -> Callable[..., Any]:
        def synchronize(*args: Any, **kwargs: Any) -> Any:
            if getattr(_thread, "waits_forbidden", 0) and not _is_allowed():
                raise _error(name, _WAITS, _place_of(sys._getframe()))
            return original(*args, **kwargs)

        return synchronize

    with _PATCHING:  # threads may leave in another order than they came
        if not _waits_forbidden:
            _originals[:] = [(owner, owner.__dict__["synchronize"]) for owner in owners.values()]
            for (name, owner), (_, original) in zip(owners.items(), _originals, strict=True):
                owner.synchronize = refusing(original, name)
        _waits_forbidden += 1
    _thread.waits_forbidden = getattr(_thread, "waits_forbidden", 0) + 1
    try:
        yield
    finally:
        _thread.waits_forbidden -= 1
        with _PATCHING:
            _waits_forbidden -= 1
            if not _waits_forbidden:
                for owner, original in _originals:
                    owner.synchronize = original


@contextmanager
def _sync_debug_mode(mode: str) -> Iterator[None]:
    """Set PyTorch's reaction to synchronising operations, which is that of all threads of the process."""
    if mode == "error" and threading.active_count() > 1:
        yield  # it would be raised in the others, too
        return
    former = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode(mode)
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(former)


def _error(operation: str, why: str, place: str) -> HostTransferError:
    return HostTransferError(f"{place}: {operation} within no_host_transfers: {why}")


def _is_launch() -> bool:
    """Return True if a backend is the caller, which on the CPU reads the memory of tensors to launch a kernel."""
    return any(frame.f_code.co_filename.startswith(_BACKENDS) for frame in _frames(sys._getframe()))


def _place_of(frame: FrameType) -> str:
    """Return file and line of the innermost frame outside of PyTorch, NumPy and this module."""
    for caller in _frames(frame):
        name = caller.f_code.co_filename
        if name != __file__ and not name.startswith(_LIBRARIES):
            return f"{name}:{caller.f_lineno}"
    return "?"


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back
