"""Generation of the Python modules that numba compiles for the CPU: loops over threads, and blocks in parallel.

One module holds the device functions. Another holds ``wd__run_block`` (one loop over the threads of a block for each
region between barriers) and ``entry`` (one part of the blocks), which reads its arguments from a table.

The block size is a constant of the generated code, since LLVM unrolls and vectorises loops over a known number of
threads; another number of agents is compiled anew. So are the extents of the arrays of a fused kernel, except for the
first axis and, in rollouts, the axis of the replicas: copies of rows and sums over choices then have no loops. Aliasing
of its arrays is declared to LLVM as well, so that values common to all replicas are read once, and loops are vectorised
over replicas. A kernel launched alone accepts arrays of any shape, which may overlap.

If a block has several axes, the number of threads per row is hidden from LLVM (``not_constant``), which would otherwise
unroll the row and vectorise over columns, with a gather for each access.

A vote (``syncthreads_count``) is an addition to a variable of the block and a barrier. Its result is uniform, so that
whatever depends on it alone is computed once per block. ``syncwarp`` separates regions like ``syncthreads``.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from warpdrive.backends.cpu.accumulators import accumulators
from warpdrive.backends.cpu.generate_stages import MEMORY, ROOM, STAGE, WAITING, Stages, stages_text
from warpdrive.backends.host.adapter import TOGETHER, CpuAdapter
from warpdrive.backends.host.functions import (
    INLINED_DECORATOR,
    NUMBA_OPTIONS,
    depends_on_int32,
    import_text,
    placed_shared_arrays,
    shared_arrays,
    shared_variables,
)
from warpdrive.backends.shared.arguments import ArgumentKind
from warpdrive.backends.shared.module_writer import GeneratedModule, ModuleWriter, index_name
from warpdrive.backends.shared.slots import Slot, without_array_calls
from warpdrive.kernels.configuration import Configuration, Dimensions
from warpdrive.kernels.fission import first_calls, groups
from warpdrive.kernels.language import AXES, DIMENSIONS, MET
from warpdrive.kernels.lowering import LoweredKernel, without_barriers
from warpdrive.kernels.regions import GridBarrier, Loop, Once, Part, Region, UniformBranch, UniformLoop, all_parts
from warpdrive.kernels.syntax import (
    GENERATED,
    RANGE,
    IntrinsicName,
    assign,
    at,
    contains_barrier,
    copy_tree,
    load,
    loaded_names,
    stored_names,
)
from warpdrive.kernels.variables import exposed_names, needed, unsettled_names


def _block_decorator(compiler: str) -> str:
    return f"@njit({NUMBA_OPTIONS}, pipeline_class={compiler}, forceinline=True)"


BLOCK_DECORATOR, SEPARATE_BLOCK_DECORATOR = _block_decorator("EntryCompiler"), _block_decorator("BlockCompiler")
"""Decorators of the function of a block without arrays in shared memory; the second if no arrays overlap.

Optimised separately before it is inlined, such a function makes environment steps up to 7 percent faster. With shared
arrays, a reduction runs three times as fast if it is optimised only once, with the entry.
"""
ACCUMULATORS = accumulators.__module__
ENTRY_OPTIONS = "pipeline_class=EntryCompiler, _nrt=False, error_model='numpy', cache=True"
ENTRY_DECORATOR = f"@cfunc('void(intp, intp, intp)', {ENTRY_OPTIONS})"
QUICK_DECORATOR = ENTRY_DECORATOR.replace("EntryCompiler", "QuickCompiler")
THREAD = f"{GENERATED}thread"
RUN_BLOCK = f"{GENERATED}run_block"


@dataclass(frozen=True)
class LaunchKind:
    """Properties of a launch's dimensions that the machine code is specialised for.

    Attributes:
        grid_rank: 1 for a grid of one dimension, which needs no divisions, and 3 otherwise.
        block: Threads per block in each dimension. As they are constants, LLVM unrolls and vectorises the loops over
            threads, and a block of one thread needs no loop.
        shared_bytes: Bytes of dynamic shared memory, which is on the stack.
        views: Pairs of an array and the one whose memory it shares from the same address on, if no others share any
            and all are C-ordered; None otherwise.
        is_single: If True, the launch has a single thread, as in tests: short compile time is more important than fast
            code.
    """

    grid_rank: int
    block: Dimensions
    shared_bytes: int
    views: tuple[tuple[str, str], ...] | None = None
    is_single: bool = False

    @staticmethod
    def of(configuration: Configuration) -> LaunchKind:
        """Return the kind of a launch with this configuration."""
        grid_rank = 1 if configuration.blocks[1:] == (1, 1) else 3
        is_single = configuration.blocks == configuration.threads == (1, 1, 1)
        return LaunchKind(grid_rank, configuration.threads, configuration.shared_bytes, is_single=is_single)


PACK = 256
"""Number of single-thread blocks that run one piece of a kernel before any runs the next.

LLVM can vectorise over them, and their data stays in the cache.
"""

BLOCKS_PER_ROW = 256
"""Largest number of neighbouring blocks of several axes and without barriers whose rows of threads are one loop.

Rows of 16 threads are too short for vectors and for the hardware's prefetching; rows of a large matrix too long for the
reuse of what other rows have read.
"""

MAX_THREADS_BY_THREAD = 16
"""Number of threads up to which functions that begin a fused step run with the loop over blocks inside.

So few threads do not fill vectors well: the sampling of actions is then vectorised over blocks.
"""

THREAD_INDEX = index_name("threadIdx.x")
ROW = f"{GENERATED}first_block", f"{GENERATED}last_block"
"""Parameters of a function that runs several blocks, from one along the x axis to before another."""

POSITION_PARAMETERS = [index_name(f"{dimension}.{axis}") for dimension in DIMENSIONS[1:] for axis in AXES]


def generate_kernel(
    kernel: LoweredKernel,
    argument_kinds: Sequence[ArgumentKind],
    slots: Sequence[Slot],
    functions_module: str,
    launch: LaunchKind,
) -> GeneratedModule:
    """Generate the module with ``wd__run_block`` and ``entry``.

    Args:
        kernel: The lowered kernel.
        argument_kinds: Kind of each parameter, in order.
        slots: Slots of the variables that are kept between regions.
        functions_module: Name of the module with the device functions.
        launch: Properties of the launch that the code is specialised for.

    Returns:
        The generated module, which also defines ``SLOTS``, ``TAKES_TURNS``, and ``ROOM_BYTES``, which is None unless
        blocks run in stages.
    """
    kinds = dict(zip(kernel.parameters, argument_kinds, strict=True))
    in_stages = any(isinstance(part, GridBarrier) for part in all_parts(kernel.parts))
    sums = sorted(accumulators(kernel.body, kinds)) if launch.views is None and not in_stages else []
    accumulated = {name: own_name(name) for name in sums}
    adapter = CpuAdapter(depends_on_int32(kernel), accumulated, shared_variables(kernel.body))
    writer = ModuleWriter(adapter)
    by_thread: list[list[ast.stmt]] = []  # bodies that each thread runs for all blocks before the next one does
    shared = shared_arrays(kernel, adapter, launch.shared_bytes)
    by_row = launch.block[1:] != (1, 1) and not (shared or contains_barrier(kernel.body))
    placed, room_bytes = placed_shared_arrays(kernel.table, launch.shared_bytes)
    if in_stages:
        bodies = _Block(kernel, slots, adapter, writer, launch.block).stages()
        slots = [*slots, STAGE, WAITING]
        shared = [assign(name, ast.Call(load(array), [load(ROOM)], [])) for name, array, _ in placed]
        writer.line("from warpdrive.backends.host.intrinsics import array_at")
        for _, array, arguments in placed:
            writer.line(f"{array} = array_at{arguments}")
    elif launch.block == (1, 1, 1):
        bodies = [_single_thread(piece, writer) for piece in kernel.pieces]
    elif by_row:
        bodies = [_of_row(kernel, writer, launch.block)]
    else:
        if launch.views is not None and launch.block <= (MAX_THREADS_BY_THREAD, 1, 1):
            calls = first_calls(kernel.parts, {slot.name for slot in slots}, kernel.device_functions)
            by_thread = [_of_thread(call, kernel, writer) for call in calls]
            kernel = replace(kernel, parts=kernel.parts[bool(calls) :])
        divided = (
            groups(kernel.parts, kernel.variables, kernel.table.shared, kernel.device_functions)
            if launch.views is not None
            else [kernel.parts]
        )
        block = _Block(kernel, slots, adapter, writer, launch.block)
        bodies = [*by_thread, *map(block.sequence, divided)]
    dimensions: list[ast.stmt] = [
        assign(index_name(f"blockDim.{axis}"), ast.Constant(n)) for axis, n in zip(AXES, launch.block, strict=True)
    ]
    positions = [_not_negative(index_name(f"blockIdx.{axis}")) for axis in AXES[by_row : launch.grid_rank]]
    places = [*POSITION_PARAMETERS[1:], *ROW] if by_row else [THREAD_INDEX, *POSITION_PARAMETERS]
    parameters = [*kernel.parameters, *places, *(slot.array for slot in slots), ROOM, *map(own_name, sums)]
    functions: dict[str, list[str]] = {}
    owners, known_arrays = dict(launch.views or ()), dict[str, str]()
    if launch.views is not None:
        for name, kind in kinds.items():
            if kind.extents is not None:
                known_arrays[name] = f"{GENERATED}known_{name}"
                writer.line(f"{known_arrays[name]} = known_array({kind.extents!r})")
    for number, body in enumerate(bodies):
        beginning: list[ast.stmt] = list(dimensions)
        decorator = BLOCK_DECORATOR if launch.views is None else SEPARATE_BLOCK_DECORATOR
        if launch.is_single or (shared and stored_names(shared) & loaded_names(body)):
            # optimised separately, it would lack what LLVM infers in the entry
            beginning, decorator = [*dimensions, *shared], INLINED_DECORATOR
        elif in_stages or launch.block != (1, 1, 1):
            beginning += positions
        sharing = []
        if decorator == SEPARATE_BLOCK_DECORATOR:
            used = loaded_names([*beginning, *body])
            used |= {owners[name] for name in owners.keys() & used}
            sharing = [
                assign(name, ast.Call(load(function), [load(name), load(owners.get(name, name))], []))
                for name, function in known_arrays.items()
                if name in used
            ]
        name = f"{RUN_BLOCK}_{number}"
        used = loaded_names([*sharing, *beginning, *body])
        functions[name] = [parameter for parameter in parameters if parameter in used]
        writer.function(decorator, name, functions[name], [*sharing, *beginning, *body])
    stage_bytes = room_bytes if in_stages else None
    order = len(by_thread), by_row, stage_bytes, sums
    if sums:
        writer.line(f"from {ACCUMULATORS} import add_accumulator, is_own, own_accumulator, share_memory")
    writer.text(_entry_text(functions, *order, kernel.parameters, argument_kinds, slots, launch))
    writer.line(f"SLOTS = {[tuple(vars(slot).values()) for slot in slots]!r}")
    writer.line(f"TAKES_TURNS, ROOM_BYTES = False, {stage_bytes}")
    return writer.module(adapter.header(kernel.table, import_text(kernel, functions_module)))


def own_name(name: str) -> str:
    """Return the name of the variable that is True if an accumulator is a copy."""
    return f"{GENERATED}apart_{name}"


def _not_negative(name: str) -> ast.stmt:
    return assign(name, ast.Call(load("not_negative"), [load(name)], []))


def _of_thread(call: ast.stmt, kernel: LoweredKernel, writer: ModuleWriter) -> list[ast.stmt]:
    """Return a call of a device function by one thread, with the variables that it needs."""
    body = writer.adapt([*copy_tree(needed(kernel.variables.recomputed, [call])), call])
    used = loaded_names(body)
    return [
        *(assign(name, ast.Constant(0)) for axis in "yz" if (name := index_name(f"threadIdx.{axis}")) in used),
        *body,
    ]


def _single_thread(piece: list[ast.stmt], writer: ModuleWriter) -> list[ast.stmt]:
    """Return the statements of single-thread blocks, which have no barriers."""
    body = writer.adapt(without_barriers(piece))
    used = loaded_names(body)
    indices = (index_name(f"threadIdx.{axis}") for axis in AXES)
    return [*(assign(name, ast.Constant(0)) for name in indices if name in used), *body]


def _of_row(kernel: LoweredKernel, writer: ModuleWriter, block: Dimensions) -> list[ast.stmt]:
    """Return the loops over the threads of neighbouring blocks without barriers, which run along a row through all."""
    width, height, depth = block
    x, y, z = (index_name(f"threadIdx.{axis}") for axis in AXES)
    first, last = ROW
    column = f"{GENERATED}column"
    text = [
        f"for {z} in {RANGE}({depth}):",
        f" for {y} in {RANGE}({height}):",
        f"  for {column} in {RANGE}({first} * {width}, {last} * {width}):",
        f"   {x}, {index_name('blockIdx.x')} = {column} % {width}, {column} // {width}",
    ]
    loops = _with_innermost(text, writer.adapt(kernel.body))
    return [*map(_not_negative, ROW), loops]


class _Block:
    """Generator of the body of ``wd__run_block``."""

    def __init__(
        self,
        kernel: LoweredKernel,
        slots: Sequence[Slot],
        adapter: CpuAdapter,
        writer: ModuleWriter,
        block: tuple[int, int, int],
    ) -> None:
        self.kernel, self.adapter, self.writer, self.block = kernel, adapter, writer, block
        self.slots = {slot.name: slot for slot in slots if not slot.is_of_block}
        self.of_block = [slot for slot in slots if slot.is_of_block]

    def sequence(self, parts: Sequence[Part]) -> list[ast.stmt]:
        return [statement for part in parts for statement in self.part(part)]

    def part(self, part: Part) -> list[ast.stmt]:
        if isinstance(part, Region):
            return [self.region(part)]
        if isinstance(part, Once):
            return self.writer.adapt([part.statement])
        if isinstance(part, UniformLoop):
            return [ast.While(self.writer.adapt_expression(part.test), self.sequence(part.body), [])]
        if isinstance(part, UniformBranch):
            test = self.writer.adapt_expression(part.test)
            return [ast.If(test, self.sequence(part.body) or [ast.Pass()], self.sequence(part.orelse))]
        assert isinstance(part, Loop), "a kernel with barriers of the grid runs in stages"
        return self.loop(part)

    def stages(self) -> list[list[ast.stmt]]:
        """Return the statements of each stage of a kernel with barriers of the grid."""
        stages = Stages(self.kernel.parts, self.part, self.advance, self.writer.adapt_expression).bodies
        return list(map(self.with_block_variables, stages))

    def with_block_variables(self, stage: list[ast.stmt]) -> list[ast.stmt]:
        """Return a stage that loads the variables of its block from their slots, and stores them before it returns."""
        *statements, end = stage
        stored = stored_names(stage)
        used = loaded_names(stage) | stored  # an augmented assignment reads its target
        loads = [self.from_slot(slot, ast.Constant(0)) for slot in self.of_block if slot.name in used]
        stores = [self.to_slot(slot, ast.Constant(0)) for slot in self.of_block if slot.name in stored]
        return [*loads, *statements, *stores, end]

    def loop(self, loop: Loop) -> list[ast.stmt]:
        """Return a loop around barriers, which iterates as long as at least one thread does."""
        advance, leaves = self.advance(loop)
        body = [*advance, ast.If(leaves, [ast.Break()], []), *self.sequence(loop.body)]
        return [ast.While(ast.Constant(True), body, [])]

    def advance(self, loop: Loop) -> tuple[list[ast.stmt], ast.expr]:
        """Return the statements that begin an iteration of a loop, and the condition to leave it."""
        count = f"{GENERATED}threads_going"
        counting = ast.AugAssign(ast.Name(count, ast.Store()), ast.Add(), load(loop.going))
        advance = self.region(Region([*loop.advance.statements, counting]))
        none_goes = ast.Compare(load(count), [ast.Eq()], [ast.Constant(0)])
        return [assign(count, ast.Constant(0)), advance], none_goes

    def region(self, region: Region) -> ast.stmt:
        statements = region.statements
        used = loaded_names(statements) | stored_names(statements)
        kept = [slot for name, slot in self.slots.items() if name in used]
        arrays = [slot for slot in kept if slot.shape and not slot.kind]
        values = [slot for slot in kept if slot.kind or not slot.shape]
        loaded = exposed_names(statements) | unsettled_names(statements)
        stored = stored_names(statements)
        body = [
            *copy_tree(needed(self.kernel.variables.recomputed, statements)),
            *(self.from_slot(slot, load(THREAD)) for slot in arrays),
            *(self.from_slot(slot, load(THREAD)) for slot in values if slot.name in loaded),
            *without_array_calls(statements, {slot.name for slot in arrays}),
            *(self.to_slot(slot, load(THREAD)) for slot in values if slot.name in stored),
        ]
        return self.over_threads(self.writer.adapt(self.together(body)))

    def together(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """Return the statements with functions of a warp that read the slots of all threads."""
        slots, adapter = self.slots, self.adapter

        class Together(ast.NodeTransformer):
            def visit_Call(self, node: ast.Call) -> ast.expr:
                self.generic_visit(node)
                if not (isinstance(node.func, IntrinsicName) and node.func.path.startswith(MET)):
                    return node
                mask, sent, *further = node.args
                read = [sent, *(word.value for word in node.keywords)]
                arrays = [load(slots[variable.id].array) for variable in read if isinstance(variable, ast.Name)]
                further = [mask] if node.keywords else further
                name = TOGETHER + adapter.of_warp(node.func.path)
                return at(node, ast.Call(load(name), [*arrays, load(THREAD), *further], []))

        return [Together().visit(statement) for statement in copy_tree(statements)]

    def from_slot(self, slot: Slot, place: ast.expr) -> ast.stmt:
        if slot.kind:
            get, _ = self.adapter.accessors(slot.kind)
            return assign(slot.name, ast.Call(load(get), [load(slot.array), place], []))
        return assign(slot.name, ast.Subscript(load(slot.array), place, ast.Load()))

    def to_slot(self, slot: Slot, place: ast.expr) -> ast.stmt:
        if slot.kind:
            _, put = self.adapter.accessors(slot.kind)
            return ast.Expr(ast.Call(load(put), [load(slot.array), place, load(slot.name)], []))
        target = ast.Subscript(load(slot.array), place, ast.Store())
        return ast.Assign([target], load(slot.name))

    def over_threads(self, body: list[ast.stmt]) -> ast.stmt:
        """Return the loops over the threads of a block, the x axis innermost."""
        x, y, z = (index_name(f"threadIdx.{axis}") for axis in AXES)
        width, height, depth = self.block
        used = loaded_names(body)
        is_row = height == depth == 1
        if is_row:
            text = [f"for {x} in {RANGE}({width}):"]
            text += [f"    {THREAD} = {x}"] * (THREAD in used)
            text += [f"    {name} = 0" for name in (y, z) if name in used]
        else:
            text = [
                f"{' ' * n}for {i} in {RANGE}({length}):"
                for n, (i, length) in enumerate(zip((z, y, x), (depth, height, f"not_constant({width})"), strict=True))
            ]
            text += [f"   {THREAD} = ({z} * {height} + {y}) * {width} + {x}"] * (THREAD in used)
        return _with_innermost(text, body)


def _with_innermost(text: Sequence[str], body: list[ast.stmt]) -> ast.stmt:
    """Return nested loops, whose lines are indented by a space or more, with statements at the end of the innermost."""
    last = text[-1]
    indent = last[: len(last) - len(last.lstrip())] + " " * last.endswith(":")
    (outermost,) = ast.parse("\n".join([*text, f"{indent}pass"])).body
    innermost = outermost
    while isinstance(innermost, ast.For) and isinstance(innermost.body[0], ast.For):
        innermost = innermost.body[0]
    assert isinstance(innermost, ast.For)
    innermost.body[-1:] = body or [ast.Pass()]
    return outermost


def _entry_text(
    functions: Mapping[str, Sequence[str]],
    by_thread: int,
    by_row: bool,
    stage_bytes: int | None,
    sums: Sequence[str],
    parameters: Sequence[str],
    kinds: Sequence[ArgumentKind],
    slots: Sequence[Slot],
    launch: LaunchKind,
) -> str:
    """Return the source of the function that runs one part of the blocks, and of the loaders of its arguments.

    Each of ``functions``, which have these parameters, is called for every block of a pack before the next one; the
    first ``by_thread`` of them for one thread after the other. If ``by_row``, the only function is called for the
    blocks of a row, at most ``BLOCKS_PER_ROW`` at once. If they are stages, ``stage_bytes`` is the size of the shared
    memory of a block. The arrays ``sums`` are accumulated in copies where that is faster.
    """
    grid = [index_name(f"gridDim.{axis}") for axis in AXES]
    block = [index_name(f"blockDim.{axis}") for axis in AXES]
    part, parts, blocks, index, table = (GENERATED + name for name in ("part", "parts", "blocks", "index", "table"))
    if stage_bytes is not None:
        parameters, kinds = [MEMORY, *parameters], [ArgumentKind("int64", None), *kinds]
    loaders, loads = argument_loads(table, parameters, kinds, slots)
    position = [f"not_negative({index})", "0", "0"]
    if launch.grid_rank > 1:
        decoded = (f"{index} % {grid[0]}", f"{index} // {grid[0]} % {grid[1]}", f"{index} // ({grid[0]} * {grid[1]})")
        position = [f"not_negative({place})" for place in decoded]
    own = dict(zip(POSITION_PARAMETERS, [*position, *block, *grid], strict=True))
    own |= {slot.array: f"{slot.array}[{part if stage_bytes is None else index}]" for slot in slots}
    own |= {name: f"{GENERATED}sum_{name}" for name in sums}
    begin, end, first, last = (GENERATED + name for name in ("begin", "end", "first", "last"))
    own[THREAD_INDEX] = f"not_negative({THREAD})" if stage_bytes is None else "0"
    loops = []
    for number, (name, wanted) in enumerate(functions.items()):
        threads = launch.block[0] if number < by_thread else 1
        call = f"{name}({', '.join(own.get(parameter, parameter) for parameter in wanted)})"
        if by_row:
            loops.append(f"        {index} = {first}")
            loops.append(f"        while {index} < {last}:")
            loops.append(f"            {ROW[0]} = {index} % {grid[0]}")
            loops.append(f"            {ROW[1]} = min({ROW[0]} + min({last} - {index}, {BLOCKS_PER_ROW}), {grid[0]})")
            loops.append(f"            {call}")
            loops.append(f"            {index} += {ROW[1]} - {ROW[0]}")
            continue
        loops.append(f"        for {THREAD} in {RANGE}({threads}):")
        loops.append(f"            for {index} in {RANGE}({first}, {last}):")
        loops.append(f"                {call}")
    pack = PACK if len(functions) > 1 else blocks
    copies, additions = list[str](), list[str]()
    arrays = [name for name, kind in zip(parameters, kinds, strict=True) if kind.rank]
    for name in sums:
        shared = " or ".join(f"share_memory({name}, {other})" for other in arrays if other != name) or "False"
        copies.append(f"    {own[name]} = own_accumulator({name}, ({end} - {begin}) * {' * '.join(block)}, {shared})")
        copies.append(f"    {own_name(name)} = is_own({own[name]}, {name})")
        additions += [f"    if {own_name(name)}:", f"        add_accumulator({own[name]}, {name})"]
    packs = [
        *copies,
        f"    for {first} in {RANGE}({begin}, {end}, {pack}):",
        f"        {last} = {first} + {pack} if {first} + {pack} < {end} else {end}",
        *loops,
        *additions,
    ]
    return "\n".join(
        [
            *loaders,
            "",
            QUICK_DECORATOR if launch.is_single else ENTRY_DECORATOR,
            f"def entry({table}, {part}, {parts}):",
            *loads,
            f"    {blocks} = {' * '.join(grid)}",
            f"    {begin}, {end} = {part} * {blocks} // {parts}, ({part} + 1) * {blocks} // {parts}",
            *(packs if stage_bytes is None else stages_text(functions, own, index, (begin, end), stage_bytes)),
            "",
        ]
    )


def argument_loads(
    table: str, parameters: Sequence[str], kinds: Sequence[ArgumentKind], slots: Sequence[Slot]
) -> tuple[list[str], list[str]]:
    """Generate the loading of arguments from a table.

    Args:
        table: Name of the variable with the table's address.
        parameters: Names of the kernel's parameters.
        kinds: Kind of each parameter.
        slots: Slots of the variables that are kept between regions.

    Returns:
        The lines that define the loaders, and those that load the arguments.
    """
    sizes = [index_name(f"{dimension}.{axis}") for dimension in ("gridDim", "blockDim") for axis in AXES]
    whole = ArgumentKind("int64", None)
    room_kinds = [ArgumentKind(slot.dtype, 2 + len(slot.shape)) for slot in slots]
    names = [*sizes, *(slot.array for slot in slots), *parameters]
    loaders: list[str] = []
    loads, place = [], 0
    for name, kind in zip(names, [*[whole] * 6, *room_kinds, *kinds], strict=True):
        loads.append(f"    {name} = {_load_text(kind, table, place, loaders)}")
        place += kind.words
    return loaders, loads


def _load_text(kind: ArgumentKind, table: str, place: int, loaders: list[str]) -> str:
    """Return the expression that loads an argument whose words begin at ``place``; its loaders go to ``loaders``."""
    if kind.parts is not None:
        parts = []
        for part in kind.parts:
            parts.append(_load_text(part, table, place, loaders) + ", ")
            place += part.words
        return f"{kind.named.alias if kind.named else ''}({''.join(parts)})"
    if not kind.dtype:
        return "None"
    name = f"{GENERATED}load_{len(loaders)}"
    if kind.rank is None:
        loaders.append(f"{name} = number_loader({kind.dtype!r})")
    else:
        loaders.append(f"{name} = array_loader{kind.loader_arguments!r}")
    return f"{name}({table} + {8 * place})"
