"""Cooperative scheduling of threads that wait for each other: each on a separate stack, all on one core.

A thread runs until it waits, at a barrier or in a loop whose iteration changed nothing; then the next thread resumes
on another stack. If no thread waits, one stack serves all threads in sequence. A block begins when those before it have
ended or wait, so blocks may also wait for later ones.

The switch consists of a dozen instructions, assembled by LLVM, so that no C++ compiler is required.
"""

from __future__ import annotations

import mmap
import platform
import threading
from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from warpdrive.backends.host.interrupts import watch
from warpdrive.backends.host.native import native_module
from warpdrive.kernels.configuration import Dimensions
from warpdrive.kernels.errors import KernelError
from warpdrive.kernels.language import GRID_BARRIER
from warpdrive.kernels.turns import KINDS

MAX_THREADS = 1 << 16
"""Maximum number of threads that have begun and not ended: about as many as a large GPU holds."""

LIMIT = 10_000_000
"""Total number of unsuccessful polls, over all threads, after which a launch is reported as a deadlock."""

_HEADER = 256
"""Bytes of the header at the upper end of a stack, which describes the thread that runs on it."""

_ROOM = 26 * 64
"""Bytes of a block's barriers; its shared memory follows."""

_MAX_ROOM_BYTES = 1 << 34
"""Bytes of address space reserved for the shared memory of all blocks; only pages that are used take memory."""

COUNT, AND, WARP, GRID = (KINDS[path] for path in ("syncthreads_count", "syncthreads_and", "syncwarp", GRID_BARRIER))

# Callee-saved registers are pushed onto one stack and popped from the other. A new stack is laid out as if it had been
# suspended, with a return to wd_begin_fibre, which calls a function with two arguments, again if it returns.
_ASSEMBLY = {
    "x86_64": (
        "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
        "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
        "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret",
        "1:\nmovq %r12, %rdi\nmovq %r13, %rsi\ncallq *%rbx\njmp 1b",
        (9, 4, 3, 2, 6),
    ),
    "aarch64": (
        "sub sp, sp, #160\n"
        + "".join(f"stp x{n}, x{n + 1}, [sp, #{8 * (n - 19)}]\n" for n in range(19, 31, 2))
        + "".join(f"stp d{n}, d{n + 1}, [sp, #{8 * (n + 4)}]\n" for n in range(8, 16, 2))
        + "mov x9, sp\nstr x9, [x0]\nmov sp, x1\n"
        + "".join(f"ldp x{n}, x{n + 1}, [sp, #{8 * (n - 19)}]\n" for n in range(19, 31, 2))
        + "".join(f"ldp d{n}, d{n + 1}, [sp, #{8 * (n + 4)}]\n" for n in range(8, 16, 2))
        + "add sp, sp, #160\nret",
        "1:\nmov x0, x20\nmov x1, x21\nblr x19\nb 1b",
        (20, 0, 1, 2, 11),
    ),
}
"""Per processor: the instructions that switch stacks and that begin a fibre, and the layout of a new stack.

The layout gives the number of words, and the indices of the function, its two arguments and the return address.
"""

_PROCESSOR = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine().lower())


def _assembled(module: Any, name: str, kind: ir.FunctionType, text: str) -> Any:
    """Return a function of the module that consists of exactly the given instructions."""
    function = cgutils.get_or_insert_function(module, kind, name)
    if function.is_declaration:
        binding.initialize_native_asmparser()  # numba does not initialise it
        function.linkage = "linkonce_odr"
        function.attributes.add("naked")
        function.attributes.add("noinline")
        builder = ir.IRBuilder(function.append_basic_block())
        builder.asm(ir.FunctionType(ir.VoidType(), []), text, "~{memory}", [], True)
        builder.unreachable()
    return function


_WORD = ir.IntType(64)


@intrinsic  # type: ignore[untyped-decorator]
def switch_stacks(typingctx: Any, left: Any, stack: Any) -> Any:
    """Switch from the current stack, whose pointer is stored at the address ``left``, to a suspended one.

    Args:
        typingctx: Typing context of numba.
        left: Address (intp) at which the pointer of the current stack is stored.
        stack: Pointer (intp) of the suspended stack.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [_WORD, _WORD])
        builder.call(_assembled(builder.module, "wd_switch_stacks", kind, _ASSEMBLY[_PROCESSOR][0]), args)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp), codegen


@intrinsic  # type: ignore[untyped-decorator]
def fibre_entry(typingctx: Any) -> Any:
    """Return the address of the code that a new stack returns to."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [])
        begin = _assembled(builder.module, "wd_begin_fibre", kind, _ASSEMBLY[_PROCESSOR][1])
        return builder.ptrtoint(begin, _WORD)

    return types.intp(), codegen


def fibre_call(place: int, stack_bytes: int) -> Any:
    """Return a function, for use in compiled code, that calls ``intp(header, a, b)`` of the scheduler.

    Its address is a word of the header at the upper end of the caller's stack, which is found by rounding the address
    of a stack variable.
    """

    @intrinsic  # type: ignore[untyped-decorator]
    def call(typingctx: Any, first: Any, second: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            here = builder.ptrtoint(cgutils.alloca_once(builder, _WORD), _WORD)
            end = builder.or_(here, ir.Constant(_WORD, stack_bytes - 1))
            header = builder.sub(end, ir.Constant(_WORD, _HEADER - 1))
            kind = ir.FunctionType(_WORD, [_WORD, _WORD, _WORD])
            word = builder.inttoptr(builder.add(header, ir.Constant(_WORD, place)), _WORD.as_pointer())
            function = builder.inttoptr(builder.load(word), kind.as_pointer())
            values = [context.cast(builder, v, t, types.intp) for v, t in zip(args, signature.args, strict=True)]
            return builder.call(function, [header, *values])

        return types.intp(first, second), codegen

    return call


# Words of the launch, of a header and of a room, by their offsets in bytes. A room holds the shared state of a block:
# first the barrier of the block and those of its warps, each with the number of threads that have not ended, the number
# that have arrived, the list of waiting threads, the number of votes, and the outcome: the final votes and arrivals.
(
    _LEFT, _FIBRE, _TABLE, _BLOCKS, _THREADS, _NEXT_BLOCK, _NEXT_THREAD, _NEWEST, _STACKS, _STACK_BYTES, _NUM_STACKS,
    _MAX_STACKS, _IDLE, _NUM_IDLE, _FIRST, _LAST, _LENGTH, _STALLS, _WAITED, _FREE, _ROOMS, _ROOM_BYTES, _NUM_ROOMS,
    _LIVE, _FAILED, _TAKE, _WAIT, _BARRIER, _AHEAD, _GRID,
) = range(0, 8 * 30, 8)  # fmt: skip
(
    _STACK, _LAUNCH, _OWN_ROOM, _THREAD, _SITE, _FOLLOWING, HEADER_TAKE, HEADER_WAIT, HEADER_MEET,
) = range(0, 8 * 9, 8)  # fmt: skip
HEADER_ROOM, HEADER_THREAD = _OWN_ROOM, _THREAD
ROOM_BLOCK, _FREE_ROOM, _BARRIERS = 0, 8, 64
ROOM_SHARED = _ROOM
_UNENDED, _ARRIVED, _WAITING, _VOTES, _VOTED, _MET = range(0, 8 * 6, 8)
_BARRIER_BYTES = 48
_LAUNCH_BYTES = _GRID + _BARRIER_BYTES  # the barrier of the grid is the last word and those after it


def _text() -> str:
    words, function, first, second, back = _ASSEMBLY[_PROCESSOR][2]
    names = {name: value for name, value in globals().items() if isinstance(value, int) and name.isupper()}
    return "\n".join(
        [
            "from numba import cfunc, njit",
            "from warpdrive.backends.host.intrinsics import load_word as get, store_word as put",
            "from warpdrive.backends.cpu.fibres import fibre_entry, switch_stacks",
            *(f"{name} = {value}" for name, value in names.items()),
            f"WORDS, FUNCTION, ARGUMENT_1, ARGUMENT_2, BACK = {words}, {function}, {first}, {second}, {back}",
            _SCHEDULER,
        ]
    )


_SCHEDULER = '''
inner = njit(_nrt=False, error_model="numpy")

@inner
def push(launch, fibre):
    put(fibre + _FOLLOWING, 0)
    if get(launch + _LENGTH) == 0:
        put(launch + _FIRST, fibre)
    else:
        put(get(launch + _LAST) + _FOLLOWING, fibre)
    put(launch + _LAST, fibre)
    put(launch + _LENGTH, get(launch + _LENGTH) + 1)

@inner
def pop(launch):
    fibre = get(launch + _FIRST)
    put(launch + _FIRST, get(fibre + _FOLLOWING))
    put(launch + _LENGTH, get(launch + _LENGTH) - 1)
    return fibre

@inner
def made_progress(launch):
    put(launch + _STALLS, 0)
    put(launch + _WAITED, 0)

@inner
def begin_block(launch, own):
    """Start the next block, if there is one and memory for all of its threads; ``own`` further stacks are free."""
    block, threads = get(launch + _NEXT_BLOCK), get(launch + _THREADS)
    free = get(launch + _MAX_STACKS) - get(launch + _NUM_STACKS) + get(launch + _NUM_IDLE) + own
    room = get(launch + _FREE)
    if block >= get(launch + _BLOCKS) or free < threads or (room == 0 and get(launch + _NUM_ROOMS) == 0):
        return False
    if room != 0:
        put(launch + _FREE, get(room + _FREE_ROOM))
    else:
        room = get(launch + _ROOMS)
        put(launch + _ROOMS, room + get(launch + _ROOM_BYTES))
        put(launch + _NUM_ROOMS, get(launch + _NUM_ROOMS) - 1)
    put(room + ROOM_BLOCK, block)
    for number in range(1 + (threads + 31) // 32):
        barrier = room + _BARRIERS + _BARRIER_BYTES * number
        put(barrier + _UNENDED, threads if number == 0 else min(32, threads - 32 * (number - 1)))
        put(barrier + _ARRIVED, 0)
        put(barrier + _WAITING, 0)
        put(barrier + _VOTES, 0)
    put(launch + _NEXT_BLOCK, block + 1)
    put(launch + _NEXT_THREAD, 0)
    put(launch + _NEWEST, room)
    made_progress(launch)
    return True

@inner
def new_fibre(launch):
    fibre = get(launch + _IDLE)
    if fibre != 0:
        put(launch + _IDLE, get(fibre + _FOLLOWING))
        put(launch + _NUM_IDLE, get(launch + _NUM_IDLE) - 1)
        return fibre
    number = get(launch + _NUM_STACKS)
    put(launch + _NUM_STACKS, number + 1)
    fibre = get(launch + _STACKS) + (number + 1) * get(launch + _STACK_BYTES) - _HEADER
    put(fibre + _LAUNCH, launch)
    put(fibre + _THREAD, -1)
    put(fibre + HEADER_TAKE, get(launch + _TAKE))
    put(fibre + HEADER_WAIT, get(launch + _WAIT))
    put(fibre + HEADER_MEET, get(launch + _BARRIER))
    stack = fibre - 8 * WORDS
    for word in range(WORDS):
        put(stack + 8 * word, 0)
    put(stack + 8 * FUNCTION, get(launch + _FIBRE))
    put(stack + 8 * ARGUMENT_1, get(launch + _TABLE))
    put(stack + 8 * ARGUMENT_2, fibre)
    put(stack + 8 * BACK, fibre_entry())
    put(fibre + _STACK, stack)
    return fibre

@inner
def choose(launch):
    """Return the fibre to resume when a thread waits: one for the next thread to start, or the next that is ready."""
    if get(launch + _NEXT_THREAD) < get(launch + _THREADS):
        return new_fibre(launch)
    length = get(launch + _LENGTH)
    if get(launch + _STALLS) >= length:  # all have polled without success: start half as many blocks as there are
        put(launch + _AHEAD, 1 + length // (2 * get(launch + _THREADS)))
    if get(launch + _AHEAD) > 0 and begin_block(launch, 0):
        put(launch + _AHEAD, get(launch + _AHEAD) - 1)
        return new_fibre(launch)
    if length == 0 or get(launch + _WAITED) > max(LIMIT, 100 * length):
        put(launch + _FAILED, 1)
        return 0
    return pop(launch)

@inner
def leave(launch, fibre, other):
    if other != fibre:
        switch_stacks(fibre + _STACK, get((launch + _LEFT) if other == 0 else (other + _STACK)))

@inner
def open_barrier(launch, barrier):
    put(barrier + _VOTED, get(barrier + _VOTES))
    put(barrier + _MET, get(barrier + _ARRIVED))
    put(barrier + _VOTES, 0)
    put(barrier + _ARRIVED, 0)
    first, fibre = 0, get(barrier + _WAITING)
    while fibre != 0:  # the list is in reverse order of arrival
        following = get(fibre + _FOLLOWING)
        put(fibre + _FOLLOWING, first)
        first, fibre = fibre, following
    while first != 0:
        following = get(first + _FOLLOWING)
        push(launch, first)
        first = following
    put(barrier + _WAITING, 0)
    made_progress(launch)

@inner
def end_thread(launch, fibre):
    room, thread = get(fibre + _OWN_ROOM), get(fibre + _THREAD)
    put(fibre + _THREAD, -1)
    put(launch + _LIVE, get(launch + _LIVE) - 1)
    made_progress(launch)
    of_block = room + _BARRIERS
    for barrier in (of_block + _BARRIER_BYTES * (1 + thread // 32), of_block, launch + _GRID):
        unended = get(barrier + _UNENDED) - 1
        put(barrier + _UNENDED, unended)
        if unended > 0 and get(barrier + _ARRIVED) == unended:
            open_barrier(launch, barrier)
    if get(room + _BARRIERS + _UNENDED) == 0:
        put(room + _FREE_ROOM, get(launch + _FREE))
        put(launch + _FREE, room)

@cfunc("intp(intp, intp, intp)", _nrt=False, cache=True)
def take(fibre, _, __):
    """Return the next thread for a stack whose thread has ended."""
    launch = get(fibre + _LAUNCH)
    if get(fibre + _THREAD) >= 0:
        end_thread(launch, fibre)
    if get(launch + _NEXT_THREAD) >= get(launch + _THREADS):
        if get(launch + _LENGTH) > 0 or not begin_block(launch, 1):
            put(fibre + _FOLLOWING, get(launch + _IDLE))
            put(launch + _IDLE, fibre)
            put(launch + _NUM_IDLE, get(launch + _NUM_IDLE) + 1)
            other = 0
            if get(launch + _LENGTH) > 0:
                other = pop(launch)
            elif get(launch + _LIVE) > 0:
                put(launch + _FAILED, 1)
            leave(launch, fibre, other)
    thread = get(launch + _NEXT_THREAD)
    put(launch + _NEXT_THREAD, thread + 1)
    put(launch + _LIVE, get(launch + _LIVE) + 1)
    put(fibre + _OWN_ROOM, get(launch + _NEWEST))
    put(fibre + _THREAD, thread)
    return thread

@cfunc("intp(intp, intp, intp)", _nrt=False, cache=True)
def wait(fibre, site, turns):
    """Yield to the other threads after an iteration that changed nothing; return the number of such iterations."""
    launch = get(fibre + _LAUNCH)
    put(fibre + _SITE, site)
    if turns == 0:
        put(launch + _WAITED, 0)
    put(launch + _STALLS, get(launch + _STALLS) + 1)
    put(launch + _WAITED, get(launch + _WAITED) + 1)
    push(launch, fibre)
    leave(launch, fibre, choose(launch))
    return turns + 1

@cfunc("intp(intp, intp, intp)", _nrt=False, cache=True)
def wait_at_barrier(fibre, place, vote):
    """Wait for the other threads of the block, the warp or the grid; return the result of the vote."""
    launch, room = get(fibre + _LAUNCH), get(fibre + _OWN_ROOM)
    site, kind = place // 8, place % 8
    put(fibre + _SITE, site)
    number = 1 + get(fibre + _THREAD) // 32 if kind == WARP else 0
    barrier = launch + _GRID if kind == GRID else room + _BARRIERS + _BARRIER_BYTES * number
    put(barrier + _VOTES, get(barrier + _VOTES) + (vote != 0))
    arrived = get(barrier + _ARRIVED) + 1
    put(barrier + _ARRIVED, arrived)
    if arrived == get(barrier + _UNENDED):
        open_barrier(launch, barrier)
    else:
        put(fibre + _FOLLOWING, get(barrier + _WAITING))
        put(barrier + _WAITING, fibre)
        leave(launch, fibre, choose(launch))
    voted = get(barrier + _VOTED)
    if kind == COUNT:
        return voted
    if kind == AND:
        return voted == get(barrier + _MET)
    return voted > 0

@njit("void(intp)", nogil=True, _nrt=False, cache=True)
def run(launch):
    """Run all threads of all blocks."""
    if begin_block(launch, 0):
        fibre = new_fibre(launch)
        switch_stacks(launch + _LEFT, get(fibre + _STACK))
'''


@cache
def _scheduler() -> ModuleType:
    return native_module(_text())


def stack_bytes(local_bytes: int) -> int:
    """Return the size in bytes of the stacks of threads with this much local memory: a power of two."""
    return 1 << (127 * 1024 + local_bytes + _HEADER - 1).bit_length()


class WaitingLaunch:
    """Launch whose threads wait for each other.

    Args:
        name: Name of the kernel.
        fibre: Address of its machine code, ``void(table, header)``, which runs on each stack.
        table: Address of its argument table.
        blocks: Number of blocks in each dimension.
        threads: Number of threads per block in each dimension.
        stack: Size of a stack in bytes.
        shared_bytes: Shared memory of a block in bytes.
        sites: Source locations at which threads may wait, by number.

    Raises:
        KernelError: If the processor is neither x86-64 nor ARM64, or the system is Windows.
    """

    def __init__(
        self,
        name: str,
        fibre: int,
        table: int,
        blocks: Dimensions,
        threads: Dimensions,
        stack: int,
        shared_bytes: int,
        sites: Sequence[str],
    ) -> None:
        if _PROCESSOR not in _ASSEMBLY or not hasattr(mmap, "MAP_PRIVATE"):
            raise KernelError(
                f"threads of kernel '{name}' may wait for each other ({sites[0]}), which the CPU backend supports "
                f"only on x86-64 and ARM64 of Linux and macOS, not on {platform.machine()} of {platform.system()}"
            )
        self.name, self.sites, self.blocks, self.threads = name, sites, blocks, threads
        self.stack, self.fibre, self.table = stack, fibre, table
        self.room = _ROOM + -(-shared_bytes // 64) * 64
        self.words = np.zeros(_LAUNCH_BYTES // 8, np.int64)
        self.stacks: mmap.mmap | None = None
        self.in_use = threading.Lock()
        watch(WaitingLaunch.run.__code__)

    def run(self) -> None:
        """Run all threads. Raises :class:`KernelError` on a deadlock."""
        with self.in_use:
            if self.stacks is None:
                self._take_memory()
            self.words[:] = self.first_words
            _scheduler().run(self.words.ctypes.data)
            if self.words[_FAILED // 8]:
                raise KernelError(self._deadlock_locations())

    def _take_memory(self) -> None:
        blocks, threads = _product(self.blocks), _product(self.threads)
        most = max(threads, min(MAX_THREADS, blocks * threads))
        while self.stacks is None:
            rooms = max(1, min(blocks, most // threads, _MAX_ROOM_BYTES // self.room))
            try:
                self.rooms = _reserve(rooms * self.room + 64)
                self.stacks = _reserve((most + 1) * self.stack)
            except (OSError, OverflowError) as error:
                if most == threads:
                    raise KernelError(f"no memory for the stacks of {most} threads of '{self.name}': {error}") from None
                most = max(threads, most // 4)
        scheduler = _scheduler()
        words = dict.fromkeys(range(0, _LAUNCH_BYTES, 8), 0)
        first = -(-_address(self.stacks) // self.stack) * self.stack
        words |= {_FIBRE: self.fibre, _TABLE: self.table, _BLOCKS: blocks, _THREADS: threads, _NEXT_THREAD: threads}
        words |= {_STACKS: first, _STACK_BYTES: self.stack, _MAX_STACKS: most, _ROOM_BYTES: self.room}
        words |= {_GRID + _UNENDED: blocks * threads}
        words |= {_ROOMS: -(-_address(self.rooms) // 64) * 64, _NUM_ROOMS: rooms}
        words |= {_TAKE: scheduler.take.address, _WAIT: scheduler.wait.address}
        words |= {_BARRIER: scheduler.wait_at_barrier.address}
        self.first_words = np.array([words[place] for place in sorted(words)], np.int64)

    def _deadlock_locations(self) -> str:
        """Return the description of a deadlock: the locations at which unfinished threads wait."""
        assert self.stacks is not None
        first, number, begun = (int(self.words[word // 8]) for word in (_STACKS, _NUM_STACKS, _NEXT_BLOCK))
        memory = np.frombuffer(self.stacks, np.int64)
        base = first - _address(self.stacks)
        groups: dict[int, list[tuple[int, int]]] = {}
        for stack in range(number):
            header = (base + (stack + 1) * self.stack - _HEADER) // 8
            thread, site, room = (int(memory[header + word // 8]) for word in (_THREAD, _SITE, _OWN_ROOM))
            if thread >= 0:
                own = np.frombuffer(self.rooms, np.int64, 1, room - _address(self.rooms) + ROOM_BLOCK)
                groups.setdefault(site, []).append((int(own[0]), thread))
        parts = []
        for site, threads in sorted(groups.items(), key=lambda group: min(group[1])):
            block, thread = min(threads)
            who = f"thread {_position(thread, self.threads)} of block {_position(block, self.blocks)}"
            others = f" and {len(threads) - 1} more" if len(threads) > 1 else ""
            parts.append(f"{who}{others} at {self.sites[site]}")
        left = _product(self.blocks) - begun
        if left:
            parts.append(f"{left} blocks have not started, as at most {MAX_THREADS} threads run at once")
        return f"kernel '{self.name}' is deadlocked: all its threads wait, and none can continue: {'; '.join(parts)}"


def _position(number: int, dimensions: Dimensions) -> str:
    x, y, _ = dimensions
    if dimensions[1:] == (1, 1):
        return str(number)
    return str((number % x, number // x % y, number // (x * y)))


def _product(dimensions: Dimensions) -> int:
    return dimensions[0] * dimensions[1] * dimensions[2]


def _reserve(size: int) -> mmap.mmap:
    """Return zeroed memory whose pages are allocated on first use."""
    unreserved = getattr(mmap, "MAP_NORESERVE", 0x4000 if platform.system() == "Linux" else 0x40)
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | unreserved)


def _address(memory: mmap.mmap) -> int:
    return int(np.frombuffer(memory, np.uint8).ctypes.data)
