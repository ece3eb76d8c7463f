"""Generation of the Python modules of a kernel whose threads wait for each other, each on a separate stack."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from warpdrive.backends.cpu import fibres
from warpdrive.backends.cpu.generate import ENTRY_OPTIONS, POSITION_PARAMETERS, LaunchKind, argument_loads
from warpdrive.backends.host.adapter import CpuAdapter
from warpdrive.backends.host.functions import (
    ALIGNMENT,
    INLINED_DECORATOR,
    aligned_bytes,
    count_copies,
    depends_on_int32,
    generate_functions,
    import_text,
    placed_shared_arrays,
)
from warpdrive.backends.shared.arguments import ArgumentKind
from warpdrive.backends.shared.module_writer import GeneratedModule, ModuleWriter, index_name
from warpdrive.kernels.language import AXES
from warpdrive.kernels.local_arrays import is_local_array
from warpdrive.kernels.lowering import LoweredKernel, ResolvedKernel
from warpdrive.kernels.syntax import GENERATED, assign, walk
from warpdrive.kernels.turns import MEET, WAIT, Turns
from warpdrive.kernels.variables import Variables

FIBRE_DECORATOR = f"@cfunc('void(intp, intp)', {ENTRY_OPTIONS})"
RUN_THREAD, TAKE, TABLE, HEADER, THREAD, ROOM, BLOCK = (
    GENERATED + name for name in ("run_thread", "take", "table", "header", "thread", "room", "block")
)


def generate_turns(
    kernel: ResolvedKernel, turns: Turns, kinds: Sequence[ArgumentKind], launch: LaunchKind, functions_module: str
) -> tuple[GeneratedModule, GeneratedModule]:
    """Generate the module of the device functions, and that of ``entry``, which runs on each stack.

    Threads are taken from the scheduler in sequence and run to completion; they wait by calling the scheduler.

    Args:
        kernel: The kernel, with its names resolved.
        turns: The kernel's functions, with calls of the scheduler where threads wait.
        kinds: Kind of each parameter, in order.
        launch: Properties of the launch that the code is specialised for.
        functions_module: Name of the module with the device functions.

    Returns:
        The module of the device functions and the module of ``entry``.
    """
    *device_functions, function = turns.functions
    lowered = LoweredKernel(
        function.parameters, [], function.body, [], Variables({}, []), device_functions, kernel.table
    )
    stack = fibres.stack_bytes(_local_bytes(lowered))
    calls = "\n".join(
        [
            "from warpdrive.backends.cpu.fibres import fibre_call",
            "from warpdrive.backends.host.intrinsics import array_at, load_word",
            f"{TAKE} = fibre_call({fibres.HEADER_TAKE}, {stack})",
            f"{WAIT} = fibre_call({fibres.HEADER_WAIT}, {stack})",
            f"{MEET} = fibre_call({fibres.HEADER_MEET}, {stack})",
        ]
    )
    functions = generate_functions(lowered, calls)
    adapter = CpuAdapter(depends_on_int32(lowered))
    writer = ModuleWriter(adapter)
    threads = [index_name(f"threadIdx.{axis}") for axis in AXES]
    parameters = [*function.parameters, *threads, *POSITION_PARAMETERS, *kernel.table.shared]
    sizes = zip(AXES, launch.block, strict=True)
    baked = [assign(index_name(f"blockDim.{axis}"), ast.Constant(size)) for axis, size in sizes]
    writer.function(INLINED_DECORATOR, RUN_THREAD, parameters, [*baked, *writer.adapt(function.body)])
    arrays, shared_bytes = placed_shared_arrays(kernel.table, launch.shared_bytes)
    writer.text(_fibre_text(function.parameters, parameters, kinds, launch, arrays))
    writer.line(f"SLOTS, STACK, SHARED, TAKES_TURNS, ROOM_BYTES = [], {stack}, {shared_bytes}, True, None")
    imports = f"{import_text(lowered, functions_module)}\n{calls}"
    return functions, writer.module(adapter.header(kernel.table, imports))


def _fibre_text(
    parameters: Sequence[str],
    passed: Sequence[str],
    kinds: Sequence[ArgumentKind],
    launch: LaunchKind,
    shared: Sequence[tuple[str, str, str]],
) -> str:
    """Return the source of the function that runs threads in sequence; ``passed`` are the arguments of a thread."""
    loaders, loads = argument_loads(TABLE, parameters, kinds, [])
    x, y, z = (index_name(f"threadIdx.{axis}") for axis in AXES)
    width, height, _ = launch.block
    grid = [index_name(f"gridDim.{axis}") for axis in AXES]
    block = [index_name(f"blockIdx.{axis}") for axis in AXES]
    body = [
        f"{THREAD} = {TAKE}(0, 0)",
        f"{ROOM} = load_word({HEADER} + {fibres.HEADER_ROOM})",
        f"{BLOCK} = load_word({ROOM} + {fibres.ROOM_BLOCK})",
        f"{x} = not_negative({THREAD} % {width})",
        f"{y} = not_negative({THREAD} // {width} % {height})",
        f"{z} = not_negative({THREAD} // {width * height})",
        f"{block[0]} = not_negative({BLOCK} % {grid[0]})",
        f"{block[1]} = not_negative({BLOCK} // {grid[0]} % {grid[1]})",
        f"{block[2]} = not_negative({BLOCK} // ({grid[0]} * {grid[1]}))",
        *(f"{name} = {array}({ROOM} + {fibres.ROOM_SHARED})" for name, array, _ in shared),
        f"{RUN_THREAD}({', '.join(passed)})",
    ]
    return "\n".join(
        [
            *loaders,
            *(f"{array} = array_at{arguments}" for _, array, arguments in shared),
            "",
            FIBRE_DECORATOR,
            f"def entry({TABLE}, {HEADER}):",
            *loads,
            "    while True:",
            *(f"        {line}" for line in body),
            "",
        ]
    )


def _local_bytes(kernel: LoweredKernel) -> int:
    """Return the maximum number of bytes of local arrays that a thread holds at once."""
    copies = count_copies(kernel)
    bodies = [(kernel.body, 1), *((function.body, copies[function.name]) for function in kernel.device_functions)]
    total = 0
    for body, times in bodies:
        for node in walk(body):
            if is_local_array(node):
                shape, dtype = (argument.value for argument in node.args)  # type: ignore[attr-defined]
                total += times * (aligned_bytes(shape, dtype) + ALIGNMENT)
    return total
