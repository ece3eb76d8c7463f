"""Generation of the Python modules that numba types or compiles for the host.

These are device functions, and a kernel without its barriers for type inference.

Device functions are inlined if few copies result: with calls, the step of ``tag_gridworld`` takes twice as long and
that of ``tag_continuous`` a quarter longer. An index has 32 bits on a GPU and 64 here, which vectorises better; in
kernels that call a function whose result depends on the width (``clz``, ``brev``, ``selp``, ``popc``, ``ffs``), each
use of an index is converted.
"""

from __future__ import annotations

import ast
import math
from collections import Counter
from collections.abc import Sequence

import warpdrive.math
from warpdrive.backends.host.adapter import DEPTH, CpuAdapter
from warpdrive.backends.shared.module_writer import GeneratedModule, ModuleWriter, hidden_parameters, index_name
from warpdrive.kernels.dtypes import dtype_of
from warpdrive.kernels.language import DYNAMIC, INDICES, INT32_SENSITIVE
from warpdrive.kernels.lowering import LoweredKernel, without_barriers, without_faults
from warpdrive.kernels.resolve import MAX_DEPTH, Function, Table, recursion_fault
from warpdrive.kernels.syntax import GENERATED, FunctionName, IntrinsicName, SharedName, assign, load, walk

NUMBA_OPTIONS = "_nrt=False, error_model='numpy', nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True"
FUNCTION_OPTIONS = f"{NUMBA_OPTIONS}, pipeline_class=FunctionCompiler"
FUNCTION_DECORATOR = f"@njit({FUNCTION_OPTIONS})"
INLINED_DECORATOR = f"@njit({FUNCTION_OPTIONS}, forceinline=True)"
CALLED_DECORATOR = f"@njit({NUMBA_OPTIONS}, pipeline_class=CalledFunctionCompiler, forceinline=False)"
OUTLINED_DECORATOR = f"@outlined\n{FUNCTION_DECORATOR}"
ALIGNMENT = 64
"""Alignment in bytes of arrays in memory that is not on the stack: a cache line."""
MAX_COPIES = 4
"""Maximum number of inlined copies of a device function.

A call passes each array as its address, shape and strides, in memory, and so hides constants from LLVM. Above this
number, LLVM decides whether to inline.
"""
MAX_COPIES_OF_MATH = 64
"""The same for the functions of ``wd.math``: a call keeps LLVM from vectorising the loop over replicas."""
OUTLINED_MATH = "_quarters_of_huge"
"""Function of ``wd.math`` for a branch that is seldom taken: see :func:`.outlining.outlined`."""


def generate_functions(kernel: LoweredKernel, imports: str = "") -> GeneratedModule:
    """Generate the module of the device functions that a kernel calls; ``imports`` are further lines of its header."""
    adapter = CpuAdapter(depends_on_int32(kernel))
    writer = ModuleWriter(adapter)
    copies = count_copies(kernel)
    for function in kernel.device_functions:
        parameters, check = [*function.parameters, *hidden_parameters(function)], []
        adapter.depth = "0"
        if function.is_recursive:
            code = kernel.table.faults.index(recursion_fault(function))
            check = ast.parse(f"if {DEPTH} > {MAX_DEPTH}: raise AssertionError('{code}')").body
            parameters.append(DEPTH)
            adapter.depth = f"{DEPTH} + 1"
        decorator = _decorator(function, copies[function.name])
        writer.function(decorator, function.name, parameters, [*check, *writer.adapt(function.body)])
    adapter.depth = "0"
    return writer.module(adapter.header(kernel.table, imports))


def _decorator(function: Function, copies: int) -> str:
    is_mathematics = function.source.file == warpdrive.math.__file__
    if is_mathematics and function.source.name == OUTLINED_MATH:
        return OUTLINED_DECORATOR
    if function.is_recursive:
        return FUNCTION_DECORATOR
    if not function.source.is_inlined:
        return CALLED_DECORATOR
    most = MAX_COPIES_OF_MATH if is_mathematics else MAX_COPIES
    return INLINED_DECORATOR if copies <= most else FUNCTION_DECORATOR


def count_copies(kernel: LoweredKernel) -> Counter[str]:
    """Return the number of copies of each device function in the machine code if all calls were inlined."""
    copies = Counter(_called_names(kernel.body))
    for function in reversed(kernel.device_functions):  # callers before callees
        for name in _called_names(function.body):
            copies[name] += copies[function.name]
    return copies


def _called_names(body: list[ast.stmt]) -> list[str]:
    return [node.function.name for node in walk(body) if isinstance(node, FunctionName)]


def depends_on_int32(kernel: LoweredKernel) -> bool:
    """Return True if the kernel calls a function whose result depends on indices being int32, as on a GPU."""
    bodies = (kernel.body, *(function.body for function in kernel.device_functions))
    return any(
        isinstance(node, IntrinsicName) and node.path in INT32_SENSITIVE for body in bodies for node in walk(body)
    )


def generate_typing_twin(kernel: LoweredKernel, functions_module: str) -> GeneratedModule:
    """Generate a function ``twin`` with the kernel's statements, without barriers, for type inference."""
    adapter = CpuAdapter(depends_on_int32(kernel))
    writer = ModuleWriter(adapter)
    parameters = [*kernel.parameters, *map(index_name, INDICES)]
    body = [*shared_arrays(kernel, adapter, 1), *writer.adapt(without_faults(without_barriers(kernel.body)))]
    writer.function("", "twin", parameters, body)
    return writer.module(adapter.header(kernel.table, import_text(kernel, functions_module)))


def shared_arrays(kernel: LoweredKernel, adapter: CpuAdapter, dynamic_bytes: int) -> list[ast.stmt]:
    """Return the statements that allocate the shared arrays of a block.

    Arrays of dynamic size all begin at the same address, whatever their dtypes.

    Args:
        kernel: The lowered kernel.
        adapter: Source of the functions that allocate arrays.
        dynamic_bytes: Size of the dynamic shared memory, in bytes.

    Returns:
        One assignment per array, after one for the dynamic memory if there is any.
    """
    statements: list[ast.stmt] = []
    dynamic = f"{GENERATED}dynamic"
    if DYNAMIC in (shape for shape, _ in kernel.table.shared.values()):
        memory = adapter.stack_array((dynamic_bytes,), "uint8")
        statements.append(assign(dynamic, ast.Call(load(memory), [], [])))
    for name, (shape, dtype) in kernel.table.shared.items():
        if shape == DYNAMIC:
            call = ast.Call(load(adapter.view(dtype)), [load(dynamic)], [])
        else:
            call = ast.Call(load(adapter.stack_array(shape, dtype)), [], [])
        statements.append(assign(name, call))
    return statements


def placed_shared_arrays(table: Table, dynamic_bytes: int) -> tuple[list[tuple[str, str, str]], int]:
    """Return the offsets of shared arrays in the memory of a block, if it outlives a function.

    Arrays of dynamic size all begin at the same address, after the other arrays.

    Args:
        table: The shared arrays of the kernel.
        dynamic_bytes: Size of the dynamic shared memory, in bytes.

    Returns:
        Name, function and arguments of ``intrinsics.array_at`` for each array, and the total size in bytes.
    """
    sizes = {
        name: 0 if shape == DYNAMIC else aligned_bytes(shape, dtype) for name, (shape, dtype) in table.shared.items()
    }
    found, place, last = [], 0, sum(sizes.values())
    for number, (name, (shape, dtype)) in enumerate(table.shared.items()):
        is_dynamic = shape == DYNAMIC
        extents = (dynamic_bytes // dtype_of(dtype).itemsize,) if is_dynamic else shape
        array = repr((extents, dtype, last if is_dynamic else place))
        found.append((name, f"{GENERATED}shared_at_{number}", array))
        place += sizes[name]
    return found, -(-(last + dynamic_bytes) // ALIGNMENT) * ALIGNMENT


def aligned_bytes(shape: tuple[int, ...], dtype: str) -> int:
    """Return the size of an array in bytes, a multiple of its alignment."""
    return -(-math.prod(shape) * dtype_of(dtype).itemsize // ALIGNMENT) * ALIGNMENT


def shared_variables(body: Sequence[ast.stmt]) -> set[str]:
    """Return the variables that only hold one array in shared memory."""
    stores = Counter(node.id for node in walk(body) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    assigned = (node for node in walk(body) if isinstance(node, ast.Assign) and isinstance(node.value, SharedName))
    names = (target.id for node in assigned for target in node.targets if isinstance(target, ast.Name))
    return {name for name in names if stores[name] == 1}


def import_text(kernel: LoweredKernel, functions_module: str) -> str:
    """Return the line that imports the device functions of a kernel."""
    names = ", ".join(function.name for function in kernel.device_functions)
    return f"from {functions_module} import {names}" if names else ""
