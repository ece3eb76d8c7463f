"""Compile a kernel for the CPU, or find it compiled."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numba
from numba import types
from numba.core.errors import NumbaError

from warpdrive.backends.cpu import cache
from warpdrive.backends.cpu.generate import (
    ArgumentKind,
    LaunchKind,
    Slot,
    generate_functions,
    generate_kernel,
    generate_typing_twin,
)
from warpdrive.backends.cpu.module_writer import GeneratedModule
from warpdrive.backends.cpu.slot_types import infer_slots, known_slots
from warpdrive.kernels.classes import authors_class
from warpdrive.kernels.dtypes import dtype_of
from warpdrive.kernels.errors import KernelError
from warpdrive.kernels.lowering import LoweredKernel, ResolvedKernel, lower
from warpdrive.kernels.syntax import GENERATED


@dataclass(frozen=True)
class CompiledKernel:
    """Machine code of a kernel for one kind of arguments.

    ``address`` is that of a C function ``void(table, part, parts)``. The table holds the grid's and a block's
    three dimensions, an array ``[parts, threads, *shape]`` for each slot, and the kernel's arguments. ``faults`` are
    what the exceptions mean that it raises, which say a number.
    """

    address: int
    slots: tuple[Slot, ...]
    module: ModuleType  # keeps the machine code in memory
    faults: tuple[str, ...] = ()


_compiled: dict[str, CompiledKernel] = {}


def compile_kernel(kernel: ResolvedKernel, kinds: Mapping[str, ArgumentKind], launch: LaunchKind) -> CompiledKernel:
    """Compile a kernel for arguments of the given types, or read it from the cache.

    Raises :class:`KernelError`, with the author's file and line, for what cannot be compiled.
    """
    key = cache.key_of(kernel.content(), repr(list(kinds.items())), repr(launch))
    with cache.ONE_AT_A_TIME:
        if key not in _compiled:
            _compiled[key] = _compile(key, kernel, kinds, launch)
        return replace(_compiled[key], faults=tuple(kernel.table.faults))


def _compile(key: str, kernel: ResolvedKernel, kinds: Mapping[str, ArgumentKind], launch: LaunchKind) -> CompiledKernel:
    origins: dict[str, GeneratedModule] = {}
    with _errors_at_their_origin(kernel, origins):
        if not cache.is_stored(key):
            arrays = [name for name, kind in kinds.items() if kind.rank is not None]
            _generate(key, lower(kernel, arrays), kinds, launch, origins)
        try:
            return _load(key)
        except Exception:
            cache.discard(key)
            if origins or cache.is_stored(key):
                raise
    return _compile(key, kernel, kinds, launch)  # what was stored is damaged


def _load(key: str) -> CompiledKernel:
    cache.load(key, "functions")
    module = cache.load(key, "kernel")
    slots = tuple(Slot(*slot) for slot in module.SLOTS)
    return CompiledKernel(module.entry.address, slots, module)


def _generate(
    key: str,
    kernel: LoweredKernel,
    kinds: Mapping[str, ArgumentKind],
    launch: LaunchKind,
    origins: dict[str, GeneratedModule],
) -> None:
    kernel.table.classes.update((named.alias, named) for kind in kinds.values() for named in kind.classes())
    functions_module = cache.module_name(key, "functions")
    functions = generate_functions(kernel)
    origins["functions"] = functions
    if launch.block == (1, 1, 1):
        slots = []
    elif set(known_slots(kernel)) == set(kernel.variables.kept):
        slots = list(known_slots(kernel).values())
    else:
        twin = generate_typing_twin(kernel, functions_module)
        origins["twin"] = twin
        own = f"{key}-{os.getpid()}"  # the folder for all to see comes with everything in it
        cache.store(own, {"functions": functions.text})
        cache.import_file(functions_module, cache.path(own, "functions"))
        cache.discard(own)
        slots = infer_slots(kernel, _twin_function(twin), [_numba_type(kind) for kind in kinds.values()])
    generated = generate_kernel(kernel, list(kinds.values()), slots, functions_module, launch)
    origins["kernel"] = generated
    cache.store(key, {"functions": functions.text, "kernel": generated.text})


def _twin_function(twin: GeneratedModule) -> Any:
    namespace: dict[str, Any] = {}
    exec(compile(twin.text, "<twin>", "exec"), namespace)
    return namespace["twin"]


def _numba_type(kind: ArgumentKind) -> types.Type:
    if kind.parts is not None:
        named = kind.named
        made = None if named is None else authors_class(named.base, named.name, named.members)
        return types.BaseTuple.from_types([_numba_type(part) for part in kind.parts], made)
    if not kind.dtype:
        return types.none
    element = numba.from_dtype(dtype_of(kind.dtype))
    return element if kind.rank is None else types.Array(element, kind.rank, kind.layout, readonly=kind.readonly)


@contextmanager
def _errors_at_their_origin(kernel: ResolvedKernel, origins: Mapping[str, GeneratedModule]) -> Iterator[None]:
    """Turn numba's errors about generated code into errors about the author's."""
    try:
        yield
    except NumbaError as error:
        text = str(error)
        named = (match.groups() for match in re.finditer(_PLACE, text, re.MULTILINE))
        places = (_origin(a or b, int(m or n), origins) for a, m, b, n in named)
        found = next((place for place in places if place is not None), None)
        source = kernel.function.source
        file, line = found or (source.file, source.tree.lineno)
        raise KernelError(
            f"{file}:{line}: kernel '{source.name}' cannot be compiled: {_first_sentence(text)}"
        ) from error


_PLACE = r'File "([^"]+)", line (\d+)|^During: .* at (\S+) \((\d+)\)$'
"""How numba says where it was, of what it types and of what it compiles."""

_TAKES_MEMORY = "this takes new memory, which a kernel cannot: compute and assign element by element, in a loop"
_IN_WORDS = {
    "NRT required but not enabled": _TAKES_MEMORY,
    "_ol_array_allocate(": _TAKES_MEMORY,
    "Only accept returning of array passed into the function as argument": "this may copy the array, which takes new "
    "memory, which a kernel cannot: use reshape",
}
"""What numba says, by a part of it, as an author understands it."""


def _origin(file: str, line: int, origins: Mapping[str, GeneratedModule]) -> tuple[str, int] | None:
    """Return the author's file and line behind a line of generated code; numba names the innermost first."""
    module = origins.get("twin" if file == "<twin>" else re.split(r"[/\\\\]", file)[-1].removesuffix(".py"))
    return module.origins[line - 1] if module and line <= len(module.origins) else None


def _first_sentence(text: str) -> str:
    """Return what numba's message says first, without its headings."""
    text = re.sub(r"\x1b\[[0-9;]*m|, defined at \S+ \(\d+\)", "", text)
    text = re.sub(rf"\b{GENERATED}(own_|\d+_|class_[0-9a-f]+_|builtins_|numpy_|math_)?|(?<=\w)\.\d+(?=')", "", text)
    text = text.replace("- Resolution failure for literal arguments:", "numba cannot compile this for a kernel:")
    text = text.replace(" npy_", " ")
    ours = re.search(r"TypingError: (cuda\..+)", text)
    if ours:
        return ours[1]
    lines = [line.strip() for line in text.splitlines()]
    said = [line for line in lines if line and not line.startswith("Failed in")]
    signature = next((line.removeprefix(">>> ") for line in said if line.startswith(">>> ")), "")
    sentence = f"{said[0]} {signature}".rstrip() if said else text
    return next((meant for part, meant in _IN_WORDS.items() if part in sentence), sentence)
