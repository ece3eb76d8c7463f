"""Generation of the Python module that numba.cuda compiles for a GPU: the code of one GPU thread.

All threads reach every barrier: code between barriers that only some threads run is guarded (see
:mod:`warpdrive.kernels.regions`). Barriers thus have the author's semantics, however replicas are packed.

A vote of lanes (``ballot_sync``), which replaces ``syncthreads_count`` within a warp, does not order memory accesses: a
``syncwarp`` follows it. Indices of packed replicas are masked to 31 bits, since no compiler can infer that they are not
negative: otherwise each access of an array tests for an index from the end and loads the array's length (in cartpole's
step, 49 of 208 additions and 41 of 110 parameters).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from warpdrive.backends.cuda.packing import Packing
from warpdrive.backends.numba_cuda.adapter import CUDA, CudaAdapter
from warpdrive.backends.numba_cuda.parameters import Parameter
from warpdrive.backends.shared.module_writer import GeneratedModule, ModuleWriter, hidden_parameters, index_name
from warpdrive.backends.shared.slots import Slot, without_array_calls
from warpdrive.kernels.errors import KernelError
from warpdrive.kernels.language import AXES, DIMENSIONS, DYNAMIC, WARP
from warpdrive.kernels.lowering import LoweredKernel
from warpdrive.kernels.regions import GridBarrier, Loop, Once, Part, Region, UniformBranch, UniformLoop
from warpdrive.kernels.syntax import GENERATED, ITEMS, RANGE, TALLY, assign, copy_tree, load, loaded_names, stored_names
from warpdrive.kernels.variables import exposed_names, needed, unsettled_names

ENTRY = "entry"
NOT_NEGATIVE = (1 << 31) - 1
"""Mask that leaves indices unchanged and makes NVVM omit the wraparound check for negative ones."""
REPLICAS, ROUND, PLACE, MASK = (GENERATED + name for name in ("replicas", "round", "place", "mask"))


def generate(
    kernel: LoweredKernel, parameters: Sequence[Parameter], slots: Sequence[Slot], packing: Packing | None
) -> GeneratedModule:
    """Generate the module of a kernel and its device functions.

    Args:
        kernel: The lowered kernel, split into regions.
        parameters: Parameters of the kernel, except compile-time constants.
        slots: Slots of the variables kept between barriers if a thread runs several agents; else empty.
        packing: Assignment of replicas to the GPU; None if blocks and threads are the author's own.

    Returns:
        The generated module.
    """
    adapter = CudaAdapter()
    writer = ModuleWriter(adapter)
    for function in kernel.device_functions:
        arguments = [*function.parameters, *hidden_parameters(function)]
        writer.function(f"@{CUDA}.jit(device=True)", function.name, arguments, writer.adapt(function.body))
    names: list[str] = [REPLICAS] * (packing is not None)
    loads: list[ast.stmt] = []
    loaders: list[str] = []
    for parameter in parameters:
        if parameter.kind.rank is None:
            names.append(parameter.name)
            continue
        words = [f"{GENERATED}word_{len(names) + n}" for n in range(len(parameter.words))]
        names += words
        loader = f"{GENERATED}array_{len(loaders)}"
        kind = parameter.kind
        loaders.append(f"{loader} = array_at{(kind.dtype, kind.rank, kind.layout, kind.readonly, parameter.extents)!r}")
        loads.append(assign(parameter.name, ast.Call(load(loader), [ast.Tuple([*map(load, words)], ast.Load())], [])))
    body = [
        *_position(packing),
        *loads,
        *_shared_arrays(kernel, adapter, packing),
        *_Body(kernel, slots, adapter, writer, packing).statements(),
    ]
    writer.function("", ENTRY, names, body)
    imports = ", ".join(["array_at", *(f"{name} as {alias}" for alias, name in ITEMS.items())])
    return writer.module([*adapter.header(kernel.table), f"from {_INTRINSICS} import {imports}", *loaders])


_INTRINSICS = "warpdrive.backends.numba_cuda.intrinsics"


def _position(packing: Packing | None) -> list[ast.stmt]:
    """Return the statements that compute a thread's position in the author's grid. Threads without an agent return."""
    if packing is None:
        return _parse(f"{index_name(f'{d}.{axis}')} = {CUDA}.{d}.{axis}" for d in DIMENSIONS for axis in AXES)
    thread, block = f"{CUDA}.threadIdx.x", f"{CUDA}.blockIdx.x"
    int32 = f"{GENERATED}int32"
    lines = [f"{index_name(f'{d}.{axis}')} = {int32}({int(d.endswith('Dim'))})" for d in DIMENSIONS for axis in "yz"]
    lines.append(f"{index_name('blockDim.x')} = {int32}({packing.agents})")
    lines.append(f"{index_name('gridDim.x')} = {int32}({REPLICAS})")
    if packing.replicas_per_warp:
        lane, n = f"{GENERATED}lane", packing.agents
        lines += [
            f"{lane} = {thread} % {WARP}",
            f"{PLACE} = {thread} // {WARP} * {packing.replicas_per_warp} + {lane} // {n}",
            f"{index_name('blockIdx.x')} = {int32}({block} * {packing.replicas_per_block} + {PLACE} & {NOT_NEGATIVE})",
            f"{index_name('threadIdx.x')} = {int32}({lane} % {n})",
            f"if {lane} >= {packing.replicas_per_warp * n} or {index_name('blockIdx.x')} >= {REPLICAS}:\n    return",
            f"{MASK} = {int32}({(1 << n) - 1} << ({lane} // {n} * {n}))",
        ]
    else:
        lines.append(f"{index_name('blockIdx.x')} = {block}")
        lines += [f"{index_name('threadIdx.x')} = {thread}"] * (packing.rounds == 1)
    return _parse(lines)


def _parse(lines: Iterable[str]) -> list[ast.stmt]:
    return ast.parse("\n".join(lines)).body


def _shared_arrays(kernel: LoweredKernel, adapter: CudaAdapter, packing: Packing | None) -> list[ast.stmt]:
    """Return the statements that allocate the shared arrays: each replica of a block has its own."""
    count = packing.replicas_per_block if packing else 1
    statements: list[ast.stmt] = []
    for name, (shape, dtype) in kernel.table.shared.items():
        if count == 1 or shape == DYNAMIC:
            array = adapter.array("shared", 0 if shape == DYNAMIC else shape, dtype)
        else:
            array = ast.Subscript(adapter.array("shared", (count, *shape), dtype), load(PLACE), ast.Load())
        statements.append(assign(name, array))
    return statements


class _Body:
    """Generator of a kernel's statements, with the barriers between its regions.

    During generation, ``is_synced`` is True if all threads have just passed a barrier, so that none is needed.
    """

    def __init__(
        self,
        kernel: LoweredKernel,
        slots: Sequence[Slot],
        adapter: CudaAdapter,
        writer: ModuleWriter,
        packing: Packing | None,
    ) -> None:
        self.kernel, self.adapter, self.writer = kernel, adapter, writer
        self.slots = {slot.name: slot for slot in slots}
        self.packing = packing
        self.rounds = packing.rounds if packing else 1
        self.is_alone = packing is not None and packing.agents == 1
        self.is_packed = packing is not None and packing.replicas_per_warp > 0
        self.votes_synchronise = not self.is_packed  # warp votes do not order memory accesses
        self.is_synced = True

    def statements(self) -> list[ast.stmt]:
        rooms = [
            assign(slot.array, self.adapter.array("local", (self.rounds, *slot.shape), slot.dtype))
            for slot in self.slots.values()
        ]
        return [*rooms, *self.sequence(self.kernel.parts)]

    def sequence(self, parts: Sequence[Part]) -> list[ast.stmt]:
        return [statement for part in parts for statement in self.part(part)]

    def part(self, part: Part) -> list[ast.stmt]:
        if isinstance(part, Region):
            return self.region(part)
        if isinstance(part, Once):
            return self.writer.adapt([part.statement])
        if isinstance(part, GridBarrier):
            self.is_synced = True
            return _parse([f"{CUDA}.cg.this_grid().sync()"])
        if isinstance(part, UniformLoop):
            self.is_synced = False
            body = self.sequence(part.body)
            self.is_synced = False
            return [ast.While(self.writer.adapt_expression(part.test), body or [ast.Pass()], [])]
        if isinstance(part, UniformBranch):
            before = self.is_synced
            body = self.sequence(part.body)
            self.is_synced = before
            orelse = self.sequence(part.orelse)
            self.is_synced = False
            test = self.writer.adapt_expression(part.test)
            return [ast.If(test, body or [ast.Pass()], orelse)]
        return self.loop(part)

    def loop(self, loop: Loop) -> list[ast.stmt]:
        """Return a loop around barriers, which iterates as long as at least one thread of the replica does."""
        count = f"{GENERATED}threads_going"
        counting = ast.AugAssign(ast.Name(count, ast.Store()), ast.Add(), load(loop.going))
        advance = self.over_rounds([*loop.advance.statements, counting])
        leave = ast.If(ast.UnaryOp(ast.Not(), self.any(count)), [ast.Break()], [])
        self.is_synced = self.votes_synchronise
        body = self.sequence(loop.body)
        self.is_synced = self.votes_synchronise  # after the vote that ends the loop
        return [ast.While(ast.Constant(True), [assign(count, ast.Constant(0)), *advance, leave, *body], [])]

    def region(self, region: Region) -> list[ast.stmt]:
        barrier = [] if self.is_synced else self.barrier()
        self.is_synced = False
        tallies = sorted(name for name in stored_names(region.statements) if name.startswith(TALLY))
        body = self.over_rounds(region.statements)
        counts = [assign(name, self.count(name)) for name in tallies]
        self.is_synced = bool(tallies) and self.votes_synchronise
        return [*barrier, *body, *counts]

    def over_rounds(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """Return the statements that a thread runs for its agent, or for each of its agents in turn."""
        if self.rounds == 1:
            return self.writer.adapt([*copy_tree(needed(self.kernel.variables.recomputed, statements)), *statements])
        used = loaded_names(statements) | stored_names(statements)
        kept = [slot for name, slot in self.slots.items() if name in used]
        arrays = [slot for slot in kept if slot.shape]
        values = [slot for slot in kept if not slot.shape]
        loaded = exposed_names(statements) | unsettled_names(statements)
        stored = stored_names(statements)
        body = [
            *copy_tree(needed(self.kernel.variables.recomputed, statements)),
            *(assign(slot.name, _element(slot, ast.Load())) for slot in arrays),
            *(assign(slot.name, _element(slot, ast.Load())) for slot in values if slot.name in loaded),
            *without_array_calls(statements, {slot.name for slot in arrays}),
            *(ast.Assign([_element(slot, ast.Store())], load(slot.name)) for slot in values if slot.name in stored),
        ]
        assert self.packing is not None
        agent = index_name("threadIdx.x")
        (loop,) = _parse(
            [
                f"for {ROUND} in {RANGE}({self.rounds}):",
                f"    {agent} = {GENERATED}int32({ROUND} * {self.packing.threads} + {CUDA}.threadIdx.x)",
                f"    if {agent} < {self.packing.agents}:",
                "        pass",
            ]
        )
        assert isinstance(loop, ast.For) and isinstance(loop.body[1], ast.If)
        loop.body[1].body = self.writer.adapt(body) or [ast.Pass()]
        return [loop]

    def barrier(self) -> list[ast.stmt]:
        if self.is_alone:
            return []
        return _parse([f"{CUDA}.syncwarp({MASK})" if self.is_packed else f"{CUDA}.syncthreads()"])

    def any(self, name: str) -> ast.expr:
        """Return the expression that is True if a number is not 0 in any thread of the replica; it is a barrier."""
        if self.is_alone:
            return load(name)
        vote = f"any_sync({MASK}, {name} != 0)" if self.is_packed else f"syncthreads_or({name})"
        return _expression(f"{CUDA}.{vote} != 0")

    def count(self, name: str) -> ast.expr:
        """Return the sum of a number, at most the number of rounds, over the threads of a replica; it is a barrier."""
        if self.is_alone:
            return load(name)
        if self.is_packed:
            return _expression(f"{CUDA}.popc({CUDA}.ballot_sync({MASK}, {name} != 0))")
        votes = (f"{GENERATED}int32({name} > {n})" for n in range(self.rounds))
        return _expression(" + ".join(f"{CUDA}.syncthreads_count({vote})" for vote in votes))


def _element(slot: Slot, context: ast.expr_context) -> ast.Subscript:
    if slot.kind:
        raise KernelError(
            f"'{slot.name}' is a view, a tuple, a vector or a record that is used after a barrier: with more than 1024 "
            "agents, only numbers and local arrays can be kept across a barrier on a GPU"
        )
    return ast.Subscript(load(slot.array), load(ROUND), context)


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body
