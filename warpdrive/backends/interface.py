"""Backend protocol: compiling, binding and launching fused kernels on a device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:  # configurations and loaded policies need no kernels, and kernels no PyTorch
    import numpy as np
    import numpy.typing as npt
    import torch

    from warpdrive.kernels.fusion import Fusion


class MachineCode(NamedTuple):
    """Machine code ``void(table, part, parts)`` on the host, which computes a part of the replicas.

    Attributes:
        address: Address of the function.
        table: Address of its arguments.
    """

    address: int
    table: int


class PortableCode(NamedTuple):
    """Code of a kernel for its arguments, before any processor is chosen.

    Words of the table have 64 bits, independent of the width of pointers. The table has, for each of ``arrays`` in
    order, its address, its shape, and its strides in bytes.

    Attributes:
        name: Name of the kernel.
        where: File and line of its source.
        llvm: LLVM assembly, without the effect of any target's passes.
        function: Symbol of the function ``i32 (ptr, ptr, i64 table, i64 part, i64 parts)``, which runs one part of the
            blocks. It returns 0, or another number if the kernel has raised one of ``faults``; the first two arguments
            are where it stores pointers.
        arrays: Arrays by name, in the order of the table: dimensions of the grid and of a block, memory of variables
            that are kept between barriers, and the kernel's arguments, of which numbers are arrays of one element.
        faults: Descriptions of the exceptions that the kernel may raise.
        calls: File and line of a call of each function that the source names, by the last part of its name.
    """

    name: str
    where: str
    llvm: str
    function: str
    arrays: tuple[tuple[str, npt.NDArray[np.generic]], ...]
    faults: tuple[str, ...]
    calls: Mapping[str, str]


@runtime_checkable
class PortableCompiler(Protocol):
    """Compiler of kernels to code that other backends compile for a processor."""

    def portable(self, fusion: Fusion, arguments: Mapping[str, Any], blocks: int, threads: int) -> PortableCode:
        """Return the code of a fused kernel; see :meth:`Backend.bind` for the arguments.

        Raises:
            KernelError: If the kernel cannot be compiled, or its threads or blocks wait for each other.
        """


@runtime_checkable
class RepeatableLaunch(Protocol):
    """Launch of a fused kernel that the host can repeat without Python in between."""

    def __call__(self) -> None:
        """Launch the kernel."""

    def repeated(self, counter: str, steps: int, before: Sequence[MachineCode]) -> Callable[[], None] | None:
        """Return a function that launches the kernel a number of times, each time after other machine code.

        Replicas are split into parts, which take their steps independently of each other. Part ``i`` of ``n`` are the
        replicas from ``i * num_envs // n`` to ``(i + 1) * num_envs // n``.

        Args:
            counter: Parameter that counts the launches, an array of one int32; each part has its own.
            steps: Number of launches.
            before: Machine code that runs before each launch, in order.

        Returns:
            The function, or None if this kernel cannot be repeated.
        """


@runtime_checkable
class Backend(Protocol):
    """Compiler and launcher of kernels on one device."""

    name: str
    device: torch.device
    language: str
    """Language of the kernel functions it runs: ``"Python"`` or ``"CUDA C"``."""

    def bind(self, fusion: Fusion, arguments: Mapping[str, Any], blocks: int, threads: int) -> Callable[[], None]:
        """Compile a fused kernel for these arguments and return a function that launches it.

        Args:
            fusion: The fused kernel.
            arguments: Tensor on ``device``, read-only NumPy array or NumPy number for each parameter, by name. Tensors
                must keep their memory as long as the returned function is used.
            blocks: Number of blocks, one per replica.
            threads: Number of threads per block, one per agent.

        Returns:
            A function without arguments that launches the kernel; on the host a :class:`RepeatableLaunch`.
        """

    def replicas_at_once(self, fusion: Fusion, arguments: Mapping[str, Any], blocks: int, threads: int) -> int:
        """Return the number of replicas that the device runs concurrently.

        On the CPU this is one per thread; on a GPU it is limited by the registers and the shared memory of the
        multiprocessors. Further replicas wait.

        Args:
            fusion: The fused kernel.
            arguments: Argument of each parameter, by name, as for ``bind``.
            blocks: Number of blocks, one per replica.
            threads: Number of threads per block, one per agent.

        Returns:
            The number of replicas.
        """
