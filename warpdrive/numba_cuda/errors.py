"""Exceptions of ``numba.cuda``, by the names under which programs catch them."""

from __future__ import annotations

from numba.core.errors import LoweringError, TypingError

from warpdrive.kernels.errors import KernelError
from warpdrive.kernels.faults import Raised

INVALID_VALUE = 1
"""Code of CUDA_ERROR_INVALID_VALUE."""
INVALID_HANDLE = 400
"""Code of CUDA_ERROR_INVALID_HANDLE."""
NOT_SUPPORTED = 801
"""Code of CUDA_ERROR_NOT_SUPPORTED."""


class CudaDriverError(Exception):
    """Error of the CUDA driver."""


class CudaAPIError(CudaDriverError):
    """Error code that a function of the CUDA driver would have returned."""

    def __init__(self, code: int, msg: str) -> None:
        super().__init__(code, msg)
        self.code, self.msg = code, msg

    def __str__(self) -> str:
        return f"[{self.code}] {self.msg}"


class CudaRuntimeError(Exception):
    """Error of the CUDA runtime."""


class CudaSupportError(ImportError):
    """Something that needs a GPU."""


class NvvmError(Exception):
    """Error of NVVM."""


class NvvmSupportError(ImportError):
    """Something that needs NVVM, which compiles for GPUs."""


class NvvmWarning(Warning):
    """Warning of NVVM."""


class NvrtcError(Exception):
    """Error of NVRTC."""


class NvrtcCompilationError(NvrtcError):
    """CUDA C++ that NVRTC rejects."""


class NvrtcSupportError(ImportError):
    """Something that needs NVRTC, which compiles CUDA C++."""


class LinkerError(RuntimeError):
    """Error of the linker of GPU code."""


class KernelRuntimeError(RuntimeError):
    """Exception in a thread of a kernel.

    Args:
        msg: Message of the exception.
        tid: Indices of the thread in its block.
        ctaid: Indices of the block.
    """

    def __init__(self, msg: str, tid: object = None, ctaid: object = None) -> None:
        self.msg, self.tid, self.ctaid = msg, tid, ctaid
        super().__init__(f"thread {tid} of block {ctaid}: {msg}")


class KernelZeroDivisionError(ZeroDivisionError, FloatingPointError):
    """Division by zero in a kernel; numba.cuda raises the first class, and its simulator the second."""


def exception_of(raised: Raised) -> BaseException:
    """Return the exception of a kernel in the author's class."""
    fault, said = raised.fault, raised.fault.said(raised.values)
    text = f"{said} ({fault.place})".strip()
    if raised.thread is not None:
        thread, block = map(list, raised.thread)
        text = f"In function {fault.function!r}, file {fault.file}, line {fault.line}, tid={thread} ctaid={block}"
        text += f": {said}" * bool(said)
    kind = KernelZeroDivisionError if fault.kind is ZeroDivisionError else fault.kind
    try:
        return kind(text)
    except TypeError:  # a class with other parameters
        return KernelRuntimeError(f"{kind.__name__}: {text}", *(raised.thread or ()))


class CudaLoweringError(LoweringError):
    """Kernel that cannot be lowered to machine code."""


class KernelTypingError(KernelError, TypingError):
    """Kernel that cannot be compiled, or arguments that it cannot be launched with."""

    def __init__(self, message: str) -> None:
        TypingError.__init__(self, message)
