"""Backend protocol: compiling, binding and launching fused kernels on a device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:  # configurations and loaded policies need no kernels, and kernels no PyTorch
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
            counter: Parameter that counts the launches, an array of one int32; each part counts in an array of its own.
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
