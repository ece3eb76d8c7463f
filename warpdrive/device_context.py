"""Named arrays on one device.

All arrays are contiguous, within one allocation: neighbouring replicas are neighbours in memory, which GPUs coalesce
and CPUs vectorise. Saving or loading replicas is one gather or scatter per array. Arrays have the same layout on every
backend, so that a saved state can be loaded on another.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from warpdrive.errors import DefinitionError, nearest, shown, with_article

_ALIGNMENT = 256
"""Alignment of each array in bytes, sufficient for the widest memory accesses of a device."""

_DTYPE_NAMES = (
    *("bool", "int8", "int16", "int32", "int64"),
    *("uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
)
_TORCH_DTYPES: dict[Any, torch.dtype] = {np.dtype(name): getattr(torch, name) for name in _DTYPE_NAMES}


def torch_dtype(dtype: npt.DTypeLike, what: str) -> torch.dtype:
    """Return the PyTorch dtype for a NumPy dtype. Raises ``DefinitionError`` that names ``what`` if there is none."""
    found = _TORCH_DTYPES.get(np.dtype(dtype))
    if found is None:
        raise DefinitionError(
            f"{what} has dtype {np.dtype(dtype)}, which devices do not support: use one of "
            f"{', '.join(str(known) for known in _TORCH_DTYPES)}"
        )
    return found


@dataclass(frozen=True)
class _Declaration:
    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def bytes_per_env(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize


class DeviceContext:
    """Named arrays of a run on one device; ``context[name]`` is a tensor that shares memory with the kernels' arrays.

    Per-replica arrays are declared first and then allocated together, in one block of memory. Each is contiguous, with
    shape ``[num_envs, *shape]``, so that threads of neighbouring replicas access neighbouring memory. Other arrays
    (constants, pools, rollouts) are allocated separately. As a context manager it frees the memory on exit.

    Args:
        device: The device, as a PyTorch device string.
        num_envs: The number of replicas.
        seed: The seed of the run, stored as an attribute.

    Raises:
        DefinitionError: If ``num_envs`` is less than 1.
    """

    def __init__(self, device: str | torch.device = "cpu", num_envs: int = 1, seed: int = 0) -> None:
        if num_envs < 1:
            raise DefinitionError(f"num_envs is {num_envs}: expected at least one replica")
        self.device, self.num_envs, self.seed = torch.device(device), num_envs, seed
        self.state_checks: Mapping[str, Callable[[npt.NDArray[Any]], None]] = {}
        """See :attr:`warpdrive.Environment.state_checks`."""
        self._declared: dict[str, _Declaration] = {}
        self._memory: torch.Tensor | None = None
        self._closed = False
        self._arrays: dict[str, torch.Tensor] = {}

    def declare(self, name: str, shape: Sequence[int], dtype: npt.DTypeLike) -> None:
        """Declare an array ``[num_envs, *shape]`` of the per-replica state, before :meth:`allocate`.

        Args:
            name: The name of the array.
            shape: The shape of one replica's row.
            dtype: The NumPy dtype of the elements.

        Raises:
            DefinitionError: If the name is taken, PyTorch has no such dtype, or the memory is already allocated.
        """
        if self._memory is not None:
            raise DefinitionError(f"array '{name}' is declared after the memory was allocated")
        if name in self._declared:
            raise DefinitionError(f"array '{name}' is declared twice")
        self._declared[name] = _Declaration(tuple(shape), torch_dtype(dtype, f"array '{name}'"))

    def allocate(self) -> None:
        """Allocate all declared arrays in one block of memory, initialised with zeros.

        Raises :class:`DefinitionError` if the device is out of memory.
        """
        offsets = self._offsets()
        self._memory = self._zeros("the state of the replicas", (self.state_bytes,), torch.uint8)
        for name, declaration in self._declared.items():
            length = declaration.bytes_per_env * self.num_envs
            part = self._memory[offsets[name] : offsets[name] + length]
            self._arrays[name] = part.view(declaration.dtype).view(self.num_envs, *declaration.shape)

    def put(self, name: str, array: torch.Tensor | npt.NDArray[Any]) -> torch.Tensor:
        """Copy an array that is not part of the per-replica state to the device and return the copy.

        Args:
            name: The name of the array. An existing array of that name is replaced.
            array: The values, of any shape and dtype.

        Returns:
            The tensor on the device.
        """
        if name in self._declared:
            raise DefinitionError(f"array '{name}' is part of the per-replica state")
        if isinstance(array, np.ndarray):
            torch_dtype(array.dtype, f"array '{name}'")
            array = torch.from_numpy(np.array(array, order="C"))
        self._arrays[name] = array.to(self.device)
        return self._arrays[name]

    def zeros(self, name: str, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """Allocate an array of zeros that is not part of the per-replica state.

        Args:
            name: The name of the array.
            shape: The shape.
            dtype: The PyTorch dtype of the elements.

        Returns:
            The tensor.

        Raises:
            DefinitionError: If the device is out of memory.
        """
        return self.put(name, self._zeros(f"array '{name}'", shape, dtype))

    def discard(self, names: Iterable[str]) -> None:
        """Remove arrays added by :meth:`put`; the memory lives as long as tensors refer to it.

        Args:
            names: The names of the arrays.
        """
        for name in names:
            del self._arrays[name]

    def __getitem__(self, name: str) -> torch.Tensor:
        if name not in self._arrays:
            self.check_open()
            raise KeyError(f"unknown array '{name}'.{nearest(name, self._arrays)}")
        return self._arrays[name]

    def __contains__(self, name: object) -> bool:
        return name in self._arrays

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    @property
    def state_names(self) -> list[str]:
        """Names of the arrays of the per-replica state."""
        return list(self._declared)

    @property
    def state_layout(self) -> dict[str, str]:
        """Arrays of a row of :meth:`save_state`, in order: dtype and shape by name, such as ``"float32 [3, 2]"``."""
        return {
            name: f"{str(declaration.dtype).removeprefix('torch.')} {list(declaration.shape)}"
            for name, declaration in self._declared.items()
        }

    @property
    def state_bytes(self) -> int:
        """Size of the per-replica state in bytes, known as soon as its arrays are declared."""
        return sum(self._padded(declaration) for declaration in self._declared.values())

    @property
    def bytes_per_env(self) -> int:
        """Size of one replica's state in bytes."""
        return sum(declaration.bytes_per_env for declaration in self._declared.values())

    def save_state(self, envs: torch.Tensor | Sequence[int] | None = None) -> torch.Tensor:
        """Return a copy of the state of some replicas.

        Args:
            envs: The indices of the replicas; None for all.

        Returns:
            ``[replicas, bytes_per_env]`` uint8, on the device.
        """
        rows = self._rows(envs)
        parts = [self._bytes_of(name) for name in self._declared]
        return torch.cat([part if rows is None else part[rows] for part in parts], dim=1)

    def load_state(
        self, state: torch.Tensor, envs: torch.Tensor | Sequence[int] | None = None, keep: Collection[str] = ()
    ) -> None:
        """Restore a state returned by :meth:`save_state` in some replicas (default: all).

        Its arrays must be those of this context, with the same names, dtypes and shapes. A tensor does not contain
        them, and only its size is checked: compare :attr:`state_layout` of states in files, as checkpoints do.

        Args:
            state: One row per replica, on any device, or a single row that is copied to all of them.
            envs: The indices of the replicas, in any order, without duplicates.
            keep: The names of arrays to leave unchanged, such as :attr:`warpdrive.EnvWrapper.own_arrays`.

        Raises:
            DefinitionError: If the state has another size, the environment rejects its values, a replica or an
                array does not exist, or an index occurs twice (not checked if ``envs`` is on a GPU).
        """
        rows = self._rows(envs)
        count = self.num_envs if rows is None else len(rows)
        for name in keep:
            if name not in self._declared:
                raise DefinitionError(f"keep: unknown state array '{name}'.{nearest(name, self._declared)}")
        if not isinstance(state, torch.Tensor):
            found = with_article(type(state).__name__)
            raise DefinitionError(
                f"the state is {found}: expected a tensor, torch.uint8 [replicas, {self.bytes_per_env}]"
            )
        if state.dtype != torch.uint8 or state.dim() != 2 or state.shape[1] != self.bytes_per_env:
            raise DefinitionError(
                f"the state is {state.dtype} {tuple(state.shape)}: "
                f"expected torch.uint8 [replicas, {self.bytes_per_env}]"
            )
        if state.shape[0] not in (1, count):
            expected = "1" if count == 1 else f"1 or {count}"
            raise DefinitionError(f"the state holds {state.shape[0]} replicas: expected {expected}")
        if rows is not None and len(state) > 1 and (given := torch.as_tensor(envs)).device.type == "cpu":
            numbers, times = given.unique(return_counts=True)
            if len(numbers) < count:
                twice = int(numbers[times > 1][0])
                raise DefinitionError(f"envs has replica {twice} more than once: expected one row for each replica")
        sizes = [declaration.bytes_per_env for declaration in self._declared.values()]
        parts = dict(zip(self._declared, state.split(sizes, dim=1), strict=True))
        for name, check in self.state_checks.items():
            if name not in keep:
                array = self[name]
                aligned = parts[name].clone(memory_format=torch.contiguous_format)
                check(aligned.view(array.dtype).view(-1, *array.shape[1:]).cpu().numpy())
        for name, part in parts.items():
            if name not in keep:
                self._bytes_of(name)[slice(None) if rows is None else rows] = part.to(self.device)

    def clone_env(self, source: int, targets: torch.Tensor | Sequence[int], keep: Collection[str] = ()) -> None:
        """Copy the state of one replica to others.

        Args:
            source: The index of the replica to copy.
            targets: The indices of the replicas to overwrite.
            keep: The names of arrays to leave unchanged.

        Raises:
            DefinitionError: If a replica or an array does not exist.
        """
        self.load_state(self.save_state([source]), targets, keep)

    def memory_report(self) -> dict[str, int]:
        """Return the size of each array in bytes, per-replica state and others, in order of creation."""
        state = {name: d.bytes_per_env * self.num_envs for name, d in self._declared.items()}
        others = {name: a.nbytes for name, a in self._arrays.items() if name not in self._declared}
        return state | others

    def close(self) -> None:
        """Free the memory. Tensors obtained before keep the memory that they share alive."""
        self._arrays.clear()
        self._memory = None
        self._closed = True

    def check_open(self) -> None:
        """Raise :class:`DefinitionError` if the memory has been freed."""
        if self._closed:
            raise DefinitionError("it was closed, which freed its arrays: create another one")

    def __enter__(self) -> DeviceContext:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _zeros(self, what: str, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        needed = math.prod(shape) * dtype.itemsize
        message = (
            f"{what} needs {needed / 2**30:.1f} GiB for {self.num_envs} replicas, more than {self.device} has: "
            "use fewer replicas, or shorter rollouts"
        )
        if self.device.type == "cpu" and needed > host_memory():
            raise DefinitionError(message)
        try:
            return torch.zeros(*shape, dtype=dtype, device=self.device)
        except RuntimeError as error:
            if self.device.type == "cuda" and not isinstance(error, torch.cuda.OutOfMemoryError):
                raise  # such as the fault of a kernel that was launched earlier
            raise DefinitionError(message) from error

    def _padded(self, declaration: _Declaration) -> int:
        return -(-declaration.bytes_per_env * self.num_envs // _ALIGNMENT) * _ALIGNMENT

    def _offsets(self) -> dict[str, int]:
        ends = np.cumsum([0, *(self._padded(declaration) for declaration in self._declared.values())])
        return dict(zip(self._declared, ends.tolist(), strict=False))

    def _bytes_of(self, name: str) -> torch.Tensor:
        return self[name].view(self.num_envs, -1).view(torch.uint8)

    def _rows(self, envs: torch.Tensor | Sequence[int] | None) -> torch.Tensor | None:
        if envs is None:
            return None
        try:
            given = torch.as_tensor(envs)
        except (TypeError, ValueError, RuntimeError):
            given = torch.empty(())  # refused below
        if given.dtype == torch.bool:
            raise DefinitionError("replicas are chosen by their numbers, not by a mask: mask.nonzero().flatten()")
        is_integer = not given.dtype.is_floating_point and not given.dtype.is_complex
        if given.dim() != 1 or (len(given) and not is_integer):
            found = f"{given.dtype} {tuple(given.shape)}" if isinstance(envs, torch.Tensor) else shown(envs)
            raise DefinitionError(f"envs is {found}, expected a list or tensor of the indices of replicas (integers)")
        if given.device.type == "cpu" and given.numel() and not 0 <= given.min() <= given.max() < self.num_envs:
            wrong = next(env for env in given.flatten().tolist() if not 0 <= env < self.num_envs)
            raise DefinitionError(f"replica {wrong} does not exist: there are {self.num_envs}, counted from 0")
        return given.to(self.device, torch.int64)


def host_memory() -> float:
    """Return the size of this machine's memory in bytes, or infinity if unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return math.inf
