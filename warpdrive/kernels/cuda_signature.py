"""Parsing of ``WD_KERNEL`` function signatures in CUDA C, and type checks of the bound arguments."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from warpdrive.errors import nearest
from warpdrive.kernels.errors import KernelError

_C_TYPES = {
    "bool": ("bool",),
    "int8": ("signed char", "int8_t"),
    "int16": ("short", "int16_t", "short int"),
    "int32": ("int", "int32_t", "signed", "signed int"),
    "int64": ("long long", "int64_t", "long long int"),
    "uint8": ("unsigned char", "uint8_t"),
    "uint16": ("unsigned short", "uint16_t", "unsigned short int"),
    "uint32": ("unsigned int", "uint32_t", "unsigned"),
    "uint64": ("unsigned long long", "uint64_t", "unsigned long long int"),
    "float32": ("float",),
    "float64": ("double",),
}
"""CUDA C types of each array dtype, the usual one first."""

_DTYPE_OF = {c_type: dtype for dtype, c_types in _C_TYPES.items() for c_type in c_types}
_QUALIFIERS = {"const", "restrict", "__restrict", "__restrict__"}
_SCALARS = ("int32", "float32", "bool")


@dataclass(frozen=True)
class Parameter:
    """Parameter of a kernel function: a number, or a pointer to an array of numbers."""

    name: str
    dtype: str
    is_pointer: bool
    is_const: bool
    where: str

    @property
    def text(self) -> str:
        """C type of the parameter."""
        const = "const " * (self.is_pointer and self.is_const)
        return f"{const}{_C_TYPES[self.dtype][0]}{' *' * self.is_pointer}"


@dataclass(frozen=True)
class Signature:
    """Signature of a ``WD_KERNEL`` function: its name, parameters in order, and ``file:line``."""

    name: str
    parameters: tuple[Parameter, ...]
    where: str

    def check(self, values: Mapping[str, Any]) -> None:
        """Check the types of the bound arguments: tensors, NumPy arrays or NumPy numbers, by name.

        Read-only arrays are constants. Raises :class:`KernelError` with both types on a mismatch.
        """
        for parameter in self.parameters:
            _check(self, parameter, values[parameter.name])


def c_type(value: Any) -> str:
    """Return the C type of an array's elements, or of a number."""
    return _C_TYPES[dtype_name(value)][0]


def dtype_name(value: Any) -> str:
    """Return the name of the dtype of a tensor, NumPy array or NumPy number, such as ``"float32"``."""
    return str(value.dtype).removeprefix("torch.")


def is_array(value: Any) -> bool:
    """Return True if a value is passed by address."""
    return isinstance(value, (torch.Tensor, np.ndarray))


def is_constant(value: Any) -> bool:
    """Return True if a value is a read-only array."""
    return isinstance(value, np.ndarray) and not value.flags.writeable


def read_signatures(text: str, file: str) -> dict[str, Signature]:
    """Return the ``WD_KERNEL`` functions in the text of a file, by name.

    Raises :class:`KernelError`, with file and line, for one that cannot be bound: a parameter that is neither a number
    nor a pointer to numbers, a return value, or a duplicate name.
    """
    plain = without_comments(text)
    found: dict[str, Signature] = {}
    for match in re.finditer(r"\bWD_KERNEL\b", plain):
        if re.search(r"#\s*(define|undef|ifn?def)\b[^\n]*\Z", plain[: match.start()]):
            continue
        signature = _read(plain, match.end(), file)
        if signature.name in found:
            raise KernelError(
                f"{signature.where}: function '{signature.name}' is already defined at "
                f"{found[signature.name].where}: rename one of them"
            )
        found[signature.name] = signature
    return found


def without_comments(text: str) -> str:
    """Return C code with comments and string literals blanked; line numbers are unchanged."""
    return re.sub(
        r"//(?:[^\n\\]|\\.|\\\n)*|/\*.*?\*/|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)+'",
        lambda match: re.sub(r"[^\n]", " ", match[0]),
        text,
        flags=re.DOTALL,
    )


def without_functions(text: str, keep: Collection[str]) -> str:
    """Return CUDA C with ``WD_KERNEL`` functions blanked, except those in ``keep`` and those they call.

    The blanked functions belong to other fused kernels, with other parameters.
    """
    plain = without_comments(text)
    spans: dict[str, tuple[int, int]] = {}
    for match in re.finditer(r"\bWD_KERNEL\b[^;{}()]*?(\w+)\s*\([^)]*\)\s*\{", plain):
        depth, end = 1, match.end()
        while depth and end < len(plain):
            depth += {"{": 1, "}": -1}.get(plain[end], 0)
            end += 1
        spans[match[1]] = match.start(), end
    while True:
        dropped = {name: span for name, span in spans.items() if name not in keep}
        rest = _blanked(plain, dropped.values())
        named = {name for name in dropped if re.search(rf"\b{name}\s*\(", rest)}
        if not named:
            return _blanked(text, dropped.values())
        keep = {*keep, *named}


def _blanked(text: str, spans: Iterable[tuple[int, int]]) -> str:
    for start, end in spans:
        text = text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]
    return text


def _read(plain: str, start: int, file: str) -> Signature:
    where = _where(plain, start, file)
    head = re.compile(r"\s*([\w\s*&:<>]*?)\s*\b(\w+)\s*\(").match(plain, start)
    end = plain.find(")", start)
    if head is None or end < 0:
        raise KernelError(f"{where}: expected 'WD_KERNEL void name(parameters)'")
    result, name = head[1], head[2]
    where = _where(plain, head.start(2), file)
    if result != "void":
        raise KernelError(
            f"{where}: kernel function '{name}' returns '{result}', expected 'WD_KERNEL void {name}(...)'"
        )
    parameters = tuple(_parameters(plain, head.end(), end, name, file))
    names = [parameter.name for parameter in parameters]
    for parameter in parameters:
        if names.count(parameter.name) > 1:
            raise KernelError(f"{parameter.where}: kernel function '{name}' has two parameters '{parameter.name}'")
    return Signature(name, parameters, where)


def _parameters(plain: str, start: int, end: int, function: str, file: str) -> Iterator[Parameter]:
    if plain[start:end].strip() in ("", "void"):
        return
    for match in re.finditer(r"[^,]+", plain[start:end]):
        text = match[0]
        where = _where(plain, start + match.start() + len(text) - len(text.lstrip()), file)
        yield _parameter(" ".join(text.split()), where, function)


def _parameter(text: str, where: str, function: str) -> Parameter:
    tokens = re.findall(r"\w+|\S", text)
    words = [token for token in tokens if token not in _QUALIFIERS and token != "*"]
    is_pointer = tokens.count("*") == 1
    name, c_type = words[-1] if words else "", " ".join(words[:-1])
    if c_type not in _DTYPE_OF or tokens.count("*") > 1 or not name.isidentifier():
        near = nearest(c_type, _DTYPE_OF) if re.fullmatch(r"[\w ]+", c_type) else ""
        raise KernelError(
            f"{where}: parameter '{text}' of kernel function '{function}': expected a number (int, float, bool) or a "
            f"pointer to numbers (such as 'float *{name if name.isidentifier() else 'x'}').{near}"
        )
    before = tokens[: tokens.index("*")] if is_pointer else []
    return Parameter(name, _DTYPE_OF[c_type], is_pointer, "const" in before, where)


def _check(signature: Signature, parameter: Parameter, value: Any) -> None:
    is_what = "the environment's constant" if is_constant(value) or not is_array(value) else "the array"
    name, found = parameter.name, dtype_name(value)
    title = f"{parameter.where}: parameter '{parameter.text}{'' if parameter.is_pointer else ' '}{name}' of "
    title += f"kernel function '{signature.name}'"
    if is_array(value) and found not in _C_TYPES:
        raise KernelError(f"{title}: {is_what} '{name}' holds {found}, which has no corresponding type")
    if is_array(value):
        const = "const " * is_constant(value)
        expected = f"{const}{_C_TYPES[found][0]} *"
        fits = parameter.is_pointer and parameter.dtype == found and (parameter.is_const or not const)
        what = f"{is_what} '{name}' holds {found}{' and may not be written to' if const else ''}"
    else:
        expected = _C_TYPES[found][0] + " "
        fits = not parameter.is_pointer and parameter.dtype == found
        what = f"{is_what} '{name}' is one {found}, {value}"
    if not fits:
        raise KernelError(f"{title}: {what}: expected '{expected}{name}'")


def _where(plain: str, position: int, file: str) -> str:
    return f"{file}:{plain.count(chr(10), 0, position) + 1}"
