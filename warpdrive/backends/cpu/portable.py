"""Code of kernels for other processors: numba's LLVM code for the CPU, before any pass for this machine."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from warpdrive.backends.cpu.compile import CompiledKernel
from warpdrive.backends.cpu.generate import ENTRY_DECORATOR
from warpdrive.backends.cpu.launch import BoundKernel
from warpdrive.backends.host.compiler import captured_code
from warpdrive.backends.interface import PortableCode
from warpdrive.backends.shared import cache
from warpdrive.backends.shared.arguments import baked_numbers, baked_values
from warpdrive.garbage_collection import no_garbage_collection
from warpdrive.kernels.configuration import Configuration, dimensions
from warpdrive.kernels.errors import KernelError, place
from warpdrive.kernels.kernel import Kernel
from warpdrive.kernels.language import AXES
from warpdrive.kernels.lowering import resolve_kernel
from warpdrive.kernels.name_lookup import look_up, source_of

Array = npt.NDArray[Any]

_UNCACHED_DECORATOR = ENTRY_DECORATOR.replace(", cache=True", "")


def portable_code(kernel: Kernel, arguments: Mapping[str, Any], blocks: int, threads: int) -> PortableCode:
    """Return the code of a fused kernel; see :class:`warpdrive.backends.interface.PortableCompiler`.

    Args:
        kernel: The kernel.
        arguments: Argument of each parameter, by name.
        blocks: Number of blocks, one per replica.
        threads: Number of threads per block, one per agent.

    Returns:
        The code.

    Raises:
        KernelError: If threads or blocks wait for each other, which takes several stacks, or rounds of launches.
    """
    configuration = Configuration(dimensions(blocks, "blocks"), dimensions(threads, "threads"))
    bound = BoundKernel(kernel, arguments, configuration, replicas=blocks)
    compiled = bound.compiled
    if compiled.sites:
        raise KernelError(
            f"{compiled.sites[0]}: threads wait for each other here, for which other processors need "
            "a stack for each thread: use a barrier"
        )
    if compiled.module.ROOM_BYTES is not None:
        raise KernelError(
            f"{kernel.where}: blocks wait for each other, which other processors cannot do: use a launch for each stage"
        )
    text = _llvm(compiled)
    wrapped = re.search(r'@"?cfunc\.([^"(]+)"?\(', text)
    assert wrapped is not None
    return PortableCode(
        kernel.source.name,
        kernel.where,
        text,
        wrapped[1],
        _arrays(kernel, bound, configuration),
        tuple(fault.described() for fault in compiled.faults),
        _calls(kernel, arguments),
    )


def _llvm(compiled: CompiledKernel) -> str:
    """Return the LLVM assembly of a kernel, from the cache or from compiling its module anew."""
    module = compiled.module
    assert module.__file__ is not None
    with open(module.__file__, encoding="utf-8") as file:
        source = file.read()
    key = cache.key_of("llvm", source)
    with cache.one_process_at_a_time(key, "code for other processors"), no_garbage_collection():
        if not cache.is_stored(key):
            # as the stored module, which machine code of other kernels names if it has functions in common
            namespace = {"__name__": module.__name__, "__file__": module.__file__}
            program = compile(source.replace(ENTRY_DECORATOR, _UNCACHED_DECORATOR), module.__file__, "exec")
            cache.store(key, {"code.ll": captured_code(lambda: exec(program, namespace))})
        return cache.path(key, "code.ll").read_text(encoding="utf-8")


def _arrays(kernel: Kernel, bound: BoundKernel, configuration: Configuration) -> tuple[tuple[str, Array], ...]:
    """Return the arrays of the table, of which one part of the blocks needs memory for its variables."""
    sizes = [
        (f"{what}.{axis}", np.array([size]))
        for what, of_axes in (("gridDim", configuration.blocks), ("blockDim", configuration.threads))
        for axis, size in zip(AXES, of_axes, strict=True)
    ]
    rooms = [(f"kept.{number}", room) for number, room in enumerate(bound.rooms(parts=1))]
    given: Sequence[tuple[Any, Array | None]] = bound.table.arguments
    named = [(name, array) for name, (_, array) in zip(kernel.parameters, given, strict=True) if array is not None]
    return (*sizes, *rooms, *named)


def _calls(kernel: Kernel, arguments: Mapping[str, Any]) -> dict[str, str]:
    resolved = resolve_kernel(kernel.source, {**baked_numbers(arguments), **baked_values(kernel, arguments)})
    calls: dict[str, str] = {}
    for function in (resolved.function, *resolved.function.callees()):
        for node in function.source.facts.calls:
            is_of_python = source_of(look_up(node.func, function.source, function.source.facts.local_names)) is not None
            if isinstance(node.func, (ast.Name, ast.Attribute)) and not is_of_python:
                name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
                calls.setdefault(name, place(node))
    return calls
