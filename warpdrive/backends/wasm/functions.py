"""Functions of ``math`` that WebAssembly lacks: the float32 ones are replaced by those of ``wd.math``.

They are compiled as kernels of one thread, which are called with an argument table on the stack. Results are not
bitwise those of the C library, which the CPU backend calls.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

import warpdrive.math
from warpdrive.backends.interface import PortableCode, PortableCompiler
from warpdrive.kernels.fusion import Fusion
from warpdrive.kernels.kernel import kernel_from_source

_PARAMETERS = {
    **dict.fromkeys(("sin", "cos", "tan", "exp", "log", "tanh"), ("x",)),
    **dict.fromkeys(("pow", "atan2"), ("x", "y")),
}
_SYMBOLS = {name: rf"@(?:llvm\.{name}\.f32|{name}f)(?=\()" for name in _PARAMETERS}


def replaced(code: PortableCode) -> dict[str, str]:
    """Return the functions in a kernel that are replaced, with file and line of a call of each."""
    return {name: code.calls.get(name, code.where) for name, found in _SYMBOLS.items() if re.search(found, code.llvm)}


def with_replacements(llvm: str) -> str:
    """Return an LLVM module that calls :func:`symbol` of functions where it called those of LLVM or a C library."""
    for name, found in _SYMBOLS.items():
        llvm = re.sub(found, f"@{symbol(name)}", llvm)
    return llvm


def symbol(name: str) -> str:
    """Return the symbol of a replacement."""
    return f"wd.math.{name}"


def replacement(name: str, compiler: PortableCompiler) -> tuple[PortableCode, str]:
    """Return the code of a replacement, and the LLVM definition of its symbol that calls it.

    Args:
        name: Name of the function.
        compiler: Compiler of kernels.

    Returns:
        The code of a kernel, and a function definition to be added to its LLVM module.
    """
    parameters = _PARAMETERS[name]
    given = ", ".join(f"{parameter}[0]" for parameter in parameters)
    source = f"def call_{name}(found, {', '.join(parameters)}):\n    found[0] = function({given})\n"
    kernel = kernel_from_source(source, f"call_{name}", {"function": getattr(warpdrive.math, name)})
    cells: Mapping[str, Any] = {parameter: np.zeros(1, np.float32) for parameter in ("found", *parameters)}
    code = compiler.portable(Fusion.of(kernel), cells, 1, 1)
    lines = []
    words: list[str] = []
    for number, (own, array) in enumerate(code.arrays):
        kind, value = ("float", f"%{own}.value") if own in parameters else ("i64", "1")
        lines.append(f"  %cell.{number} = alloca i64")
        if own != "found":
            lines.append(f"  store {kind} {value}, ptr %cell.{number}")
        lines.append(f"  %address.{number} = ptrtoint ptr %cell.{number} to i64")
        words += [f"%address.{number}", *map(str, (*array.shape, *array.strides))]
    for place, word in enumerate(words):
        lines.append(f"  %word.{place} = getelementptr i64, ptr %table, i64 {place}")
        lines.append(f"  store i64 {word}, ptr %word.{place}")
    found = next(number for number, (own, _) in enumerate(code.arrays) if own == "found")
    text = "\n".join(
        [
            f"define float @{symbol(name)}({', '.join(f'float %{own}.value' for own in parameters)}) {{",
            "  %result = alloca ptr",
            "  %exception = alloca ptr",
            f"  %table = alloca [{len(words)} x i64]",
            *lines,
            "  %begin = ptrtoint ptr %table to i64",
            f'  call i32 @"{code.function}"(ptr %result, ptr %exception, i64 %begin, i64 0, i64 1)',
            f"  %value = load float, ptr %cell.{found}",
            "  ret float %value",
            "}",
        ]
    )
    return code, text
