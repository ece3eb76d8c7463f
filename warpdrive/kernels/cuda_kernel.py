"""``wd.cuda_kernel``: kernel functions written in CUDA C."""

from __future__ import annotations

import os
import sys
from functools import cached_property
from pathlib import Path
from typing import Any

from warpdrive.errors import nearest
from warpdrive.kernels.cuda_signature import Signature, read_signatures
from warpdrive.kernels.errors import KernelError


class CudaKernel:
    """``WD_KERNEL`` function of a CUDA C file, which every thread of every replica runs.

    The file is read on first use.

    Attributes:
        file: Absolute path of the file.
        name: Name of the function.
    """

    def __init__(self, file: Path, name: str) -> None:
        self.file, self.name = file, name

    @cached_property
    def text(self) -> str:
        """Text of the file. Raises :class:`KernelError` if it cannot be read."""
        try:
            return self.file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            beside = [path.name for path in self.file.parent.glob("*.cu*")] if self.file.parent.is_dir() else []
            raise KernelError(
                f"the CUDA C file {self.file} cannot be read: {reason}.{nearest(self.file.name, beside)}"
            ) from None

    @cached_property
    def signature(self) -> Signature:
        """Signature of the function. Raises :class:`KernelError` if it does not exist, or cannot be bound."""
        found = read_signatures(self.text, str(self.file))
        if self.name not in found:
            known = ", ".join(found) or "none"
            raise KernelError(
                f"{self.file}: there is no kernel function 'WD_KERNEL void {self.name}(...)', "
                f"found: {known}.{nearest(self.name, found)}"
            )
        return found[self.name]

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters, in order."""
        return tuple(parameter.name for parameter in self.signature.parameters)

    @property
    def where(self) -> str:
        """Location of the definition, as ``file:line``."""
        return self.signature.where

    def may_change(self, name: str) -> bool:
        """Return True if the function has a parameter of that name that it may write to.

        Args:
            name: Name of a parameter.
        """
        return any(p.name == name and p.is_pointer and not p.is_const for p in self.signature.parameters)

    def __repr__(self) -> str:
        return f"<CudaKernel {self.name} of {self.file.name}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise :class:`KernelError`: a kernel function cannot be called on the host."""
        raise KernelError(f"{self!r} runs as part of an environment, with env_backend='pycuda'")


def cuda_kernel(file: str | os.PathLike[str], function: str) -> CudaKernel:
    """Return a reference to a ``WD_KERNEL`` function of a CUDA C file, for ``step``, ``observe`` or ``reset``.

    ```python
    class MyGame(wd.Environment):
        step = wd.cuda_kernel("my_game.cu", "step")
    ```

    Args:
        file: Path of the file, absolute or relative to the folder of the calling module.
        function: Name of the function.

    Returns:
        The kernel function, for use in an environment.
    """
    calling = sys._getframe(1).f_globals.get("__file__")
    folder = Path(calling).resolve().parent if calling else Path.cwd()
    return CudaKernel(folder / file, function)
