"""Kernels given as CUDA C in a string, without barriers: compiled for the host, thread after thread."""

from __future__ import annotations

import ctypes
import re
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from warpdrive.backends.pycuda.generate import LIBRARY
from warpdrive.backends.pycuda.host import FLAGS, host_compiler
from warpdrive.errors import DefinitionError, one_line, shown
from warpdrive.interop.warpdrive2.devices import on_gpu
from warpdrive.numba_cuda.arrays import as_host_array

_SIGNATURE = re.compile(r"__global__\s+void\s+(\w+)\s*\(([^)]*)\)")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_NUMBERS: dict[str, type[np.generic]] = {
    **{"int": np.int32, "unsigned": np.uint32, "unsigned int": np.uint32, "size_t": np.uint64},
    **{"long": np.int64, "long int": np.int64, "long long": np.int64, "long long int": np.int64},
    **{"unsigned long": np.uint64, "unsigned long long": np.uint64},
    **{"short": np.int16, "unsigned short": np.uint16, "char": np.int8, "unsigned char": np.uint8},
    **{f"int{bits}_t": np.dtype(f"int{bits}").type for bits in (8, 16, 32, 64)},
    **{f"uint{bits}_t": np.dtype(f"uint{bits}").type for bits in (8, 16, 32, 64)},
    **{"float": np.float32, "double": np.float64, "bool": np.bool_},
}
"""Types of numbers as parameters; a wider one than the array that holds its value would be read beyond the end."""
_HEADER = """\
#include <cmath>
#include <cstdint>
#include <cstdio>
struct wd_index { unsigned x, y, z; };
static wd_index threadIdx, blockIdx, blockDim, gridDim;
#define __global__
#define __device__ static inline
#define __constant__ static const
#define __forceinline__ inline
#include "host/atomics.h"
#line 1
"""
_ENTRY = """
extern "C" void wd_launch_{name}(void **arguments, const unsigned *shape) {{
    gridDim = {{shape[0], shape[1], 1}}, blockDim = {{shape[2], shape[3], shape[4]}};
    for (blockIdx.y = 0; blockIdx.y < gridDim.y; ++blockIdx.y)
        for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x)
            for (threadIdx.z = 0; threadIdx.z < blockDim.z; ++threadIdx.z)
                for (threadIdx.y = 0; threadIdx.y < blockDim.y; ++threadIdx.y)
                    for (threadIdx.x = 0; threadIdx.x < blockDim.x; ++threadIdx.x) {name}({arguments});
}}
"""


class CudaSource:
    """Compiled kernels of a text in CUDA C, as attributes: ``source.name(*arguments, block=..., grid=...)``.

    Args:
        text: The text. Its kernels are ``__global__`` functions without barriers and shared memory.

    Raises:
        DefinitionError: If it cannot be compiled, or there is a GPU.
    """

    def __init__(self, text: str) -> None:
        if on_gpu():
            raise DefinitionError("CUDA C in a string runs on the host only: write the kernel with numba.cuda")
        found = _SIGNATURE.findall(_COMMENT.sub(" ", text))
        self._types = {name: _types_of(given) for name, given in found}
        entries = [_ENTRY.format(name=name, arguments=_casts(types)) for name, types in self._types.items()]
        with tempfile.TemporaryDirectory(prefix="warpdrive-") as folder:
            file, library = Path(folder) / "kernels.cu", Path(folder) / "kernels.so"
            file.write_text(_HEADER + text + "".join(entries), encoding="utf-8")
            command = [host_compiler(), *FLAGS, f"-I{LIBRARY}", str(file), "-o", str(library)]
            outcome = subprocess.run(command, capture_output=True, text=True, errors="replace")
            if outcome.returncode:
                errors = [line for line in outcome.stderr.splitlines() if "error:" in line]
                raise DefinitionError(f"CUDA C cannot be compiled for the host: {one_line(' '.join(errors), 500)}")
            self._library = ctypes.CDLL(str(library))

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("_") or name not in self._types:
            raise AttributeError(f"there is no kernel '{name}'")
        entry, types = self._library[f"wd_launch_{name}"], self._types[name]

        def launch(*arguments: Any, block: Any = (1, 1, 1), grid: Any = (1, 1)) -> None:
            words = [_word(argument, kind) for argument, kind in zip(arguments, types, strict=True)]
            addresses = (ctypes.c_void_p * len(words))(*(word.ctypes.data for word in words))
            entry(addresses, (ctypes.c_uint * 5)(*(*grid, 1)[:2], *(*block, 1, 1)[:3]))

        return launch


def _types_of(parameters: str) -> list[str]:
    """Return the types of parameters; raise :class:`DefinitionError` if a number has an unknown one."""
    types = [] if parameters.strip() in ("", "void") else [_type_of(given) for given in parameters.split(",")]
    for kind in types:
        if "*" not in kind and _number(kind) not in _NUMBERS:
            raise DefinitionError(
                f"a kernel has a parameter of the type {shown(kind)}: expected a pointer, or one of "
                f"{', '.join(_NUMBERS)}"
            )
    return types


def _number(kind: str) -> str:
    """Return the type of a number without ``const``."""
    return " ".join(word for word in kind.split() if word != "const")


def _type_of(parameter: str) -> str:
    """Return the type of a parameter, without its name."""
    return re.sub(r"\w+\s*$", "", parameter.replace("[]", "").strip()).strip()


def _casts(types: list[str]) -> str:
    return ", ".join(f"*({kind} *)arguments[{index}]" for index, kind in enumerate(types))


def _word(argument: Any, kind: str) -> np.ndarray[Any, Any]:
    """Return an array with the value of a parameter: a number, or the address of an array."""
    if "*" in kind:
        return np.array([as_host_array(argument).ctypes.data], np.uintp)
    return np.array([argument], _NUMBERS[_number(kind)])
