"""Stubs of GPU compilers (NVVM, NVRTC) and their outputs (PTX), which programs may import; they raise when used."""

from __future__ import annotations

from typing import Any

from warpdrive.numba_cuda.errors import (
    NvrtcCompilationError as NvrtcCompilationError,
    NvrtcError as NvrtcError,
    NvrtcSupportError as NvrtcSupportError,
    NvvmError as NvvmError,
    NvvmSupportError as NvvmSupportError,
    NvvmWarning as NvvmWarning,
)


def compile_ptx(*args: Any, **options: Any) -> Any:
    """Raise :class:`NvvmSupportError`: kernels are compiled for this processor."""
    raise NvvmSupportError("kernels are compiled for the CPU: PTX needs a compiler for GPUs")


compile = compile_all = compile_ir = compile_for_current_device = compile_ptx_for_current_device = compile_ptx


def is_available() -> bool:
    """Return False."""
    return False


def get_supported_ccs() -> tuple[Any, ...]:
    """Return the compute capabilities that code can be compiled for: none."""
    return ()


def current_launch_config() -> None:
    """Return None: compilation does not depend on the launch configuration."""


def ensure_current_launch_config() -> Any:
    """Raise :class:`RuntimeError`: compilation does not depend on the launch configuration."""
    raise RuntimeError("no launch configuration is known while kernels are compiled for the CPU")


class NVVM:
    """The compiler NVVM, which is not used."""

    def __init__(self, *args: Any) -> None:
        compile_ptx()


LibDevice = CompilationUnit = NVVM


class LinkableCode:
    """Code that ``cuda.jit(link=...)`` would link with a kernel on a GPU.

    Args:
        data: The code.
        options: Ignored: nothing is linked.
    """

    def __init__(self, data: Any = None, **options: Any) -> None:
        self.data = data


CUSource = PTXSource = Fatbin = Cubin = Archive = Object = LTOIR = LinkableCode
