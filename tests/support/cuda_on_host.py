"""Kernels as numba-cuda itself types and lowers them, run on the host: a fibre for each thread of a block.

Independent of the library, but for the conversions of float16. numba-cuda compiles the author's function, for the
types of the arguments, to the LLVM modules that it would hand to NVVM. Here these are retargeted: shared arrays
become global variables of the process, the special registers words that a scheduler sets, and every barrier a switch
to the scheduler, which continues when all threads of the block wait. LLVM contracts no products and sums, as the
library's own GPU backend does not let NVVM do.

The functions of libdevice are those of the C library here, so results of ``math`` are only close to a GPU's. Shuffles,
cooperative groups and blocks that wait for each other are not supported.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import product
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import llvmlite.binding as llvm
import numpy as np
from numba import cfunc
from numba.core.errors import NumbaError
from numba.cuda import codegen, compile, dispatcher, types
from numba.cuda.core.errors import NumbaError as CudaError
from numba.cuda.cudadrv import nvvm
from numba.cuda.descriptor import cuda_target
from numba.cuda.typing.typeof import Purpose, typeof
from numba.cuda.utils import numba_target_override

from warpdrive.backends.host.libdevice import libdevice_float2half_rn, libdevice_half2float

CAPABILITY = (9, 0)
WARP, MAX_THREADS, MAX_SHARED, STACK, CONTEXT = 32, 1024, 228 * 1024, 1 << 18, 4096
AXES = [f"{register}.{axis}" for register in ("tid", "ctaid", "ntid", "nctaid") for axis in "xyz"]
WORDS = [*AXES, "laneid", "dynamic", "waits", "vote", "outcome", "fibre", "scheduler"]
"""Words of 64 bits shared by the scheduler and the threads."""
DONE, WARP_BARRIER, WARP_VOTE, BARRIER, COUNT, AND, OR = range(7)
"""Events that a thread waits for."""
FULL = 2**WARP - 1
VOTES = {COUNT: sum, AND: all, OR: any}


class DeadlockError(Exception):
    """Threads of a block wait for each other at barriers that they do not share."""


class HostCode:
    """The LLVM modules of a kernel, its own first, as code of the host."""

    def __init__(self, modules: Sequence[str]) -> None:
        entry = re.search(r'^define void @"([^"]+)"\((.*)\)$', modules[0], re.MULTILINE)
        assert entry is not None, modules[0]
        parameters = re.findall(r'(.+?) %"[^"]+"(?:, |$)', entry[2])
        linked = llvm.parse_assembly(_runtime(entry[1], parameters))
        for text in modules:
            module = llvm.parse_assembly(_retargeted(text))
            module.triple, module.data_layout = linked.triple, linked.data_layout
            linked.link_in(module)
        linked.verify()
        declared = [function.name for function in linked.functions if function.is_declaration]
        missing = [name for name in declared if name.startswith(("gpu.", "nv_"))]
        assert not missing, f"cannot be run on the host: {', '.join(missing)}"  # else no symbol at all would be found
        self.shared = [(m[1], m[2]) for text in modules for m in re.finditer(_SHARED, text, re.MULTILINE)]
        self.engine = llvm.create_mcjit_compiler(linked, _target().create_target_machine(opt=0))
        self.engine.finalize_object()
        self.words = (ctypes.c_uint64 * len(WORDS)).from_address(self.engine.get_global_value_address("gpu.words"))
        address = self.engine.get_global_value_address("gpu.arguments")
        self.arguments = (ctypes.c_uint64 * max(1, len(parameters))).from_address(address)
        self.start = self.engine.get_function_address("gpu.start")

    def run(self, blocks: Any, threads: Any, words: Sequence[int], shared: int = 0, falling: bool = False) -> None:
        """Run a grid, block after block. Between barriers threads run in rising order, or in ``falling``.

        Args:
            blocks: number of blocks, in up to three dimensions.
            threads: number of threads per block, in up to three dimensions.
            words: the arguments as numba-cuda hands them over.
            shared: the bytes of dynamic shared memory.
            falling: the order of threads.

        Raises:
            DeadlockError: threads wait at different barriers.
        """
        grid, block = _three(blocks), _three(threads)
        assert len(words) <= len(self.arguments)
        self.arguments[: len(words)] = words
        self._set("dynamic", shared)
        self._set("ntid.x", *block)
        self._set("nctaid.x", *grid)
        for z, y, x in product(*(range(n) for n in reversed(grid))):
            self._set("ctaid.x", x, y, z)
            self._run_block(block, falling)

    def _set(self, first: str, *values: int) -> None:
        place = WORDS.index(first)
        self.words[place : place + len(values)] = values

    def _get(self, name: str) -> int:
        return self.words[WORDS.index(name)]

    def _run_block(self, block: tuple[int, int, int], falling: bool) -> None:
        self._spoil(0xA5 if falling else 0x5A)
        places = [(x, y, z) for z, y, x in product(*(range(n) for n in reversed(block)))]
        fibres = [_fibre(number, self.start) for number in range(len(places))]
        waiting: dict[int, int] = dict.fromkeys(range(len(places)), DONE)  # what each waits for; first to begin
        votes: dict[int, int] = {}
        outcome, ready = 0, list(waiting)
        while ready:
            for number in sorted(ready, reverse=falling):
                self._set("tid.x", *places[number])
                self._set("laneid", number % WARP, self._get("dynamic"), DONE, 0, outcome)
                self._set("fibre", fibres[number], _scheduler())
                _libc().swapcontext(ctypes.c_void_p(_scheduler()), ctypes.c_void_p(fibres[number]))
                waiting[number], votes[number] = self._get("waits"), self._get("vote")
                if waiting[number] == DONE:
                    del waiting[number], votes[number]
            ready, outcome = _released(waiting, votes)

    def _spoil(self, byte: int) -> None:
        """Fill shared memory, which holds anything at the start of a block."""
        ctypes.memset(self.engine.get_global_value_address("gpu.dynamic"), byte, MAX_SHARED)
        for name, kind in self.shared:
            ctypes.memset(self.engine.get_global_value_address(name), byte, _bytes(kind))


class HostKernel(HostCode):
    """A kernel compiled by numba-cuda for arguments such as these, to run on the host.

    Raises what numba-cuda raises for what it does not compile.
    """

    def __init__(self, function: Any, arguments: Sequence[Any]) -> None:
        kinds = [typeof(value, Purpose.argument) for value in arguments]
        plain = getattr(function, "py_func", function)
        with llvm_modules() as modules:
            compile(plain, types.void(*kinds), device=False, abi="numba", cc=CAPABILITY)
        super().__init__(modules)

    def launch(
        self, blocks: Any, threads: Any, arguments: Sequence[Any], shared: int = 0, falling: bool = False
    ) -> None:
        """Launch the kernel; see ``run``."""
        self.run(blocks, threads, [word for value in arguments for word in words_of(value)], shared, falling)


def _released(waiting: dict[int, int], votes: dict[int, int]) -> tuple[list[int], int]:
    """Return the threads that continue and the outcome of their vote, if any."""
    if not waiting:
        return [], 0
    kinds = set(waiting.values())
    if len(kinds) == 1 and not kinds & {WARP_BARRIER, WARP_VOTE}:
        (kind,) = kinds
        outcome = int(VOTES[kind](vote != 0 for vote in votes.values())) if kind in VOTES else 0
        return list(waiting), outcome
    for number, kind in waiting.items():
        if kind in (WARP_BARRIER, WARP_VOTE):
            mask, first = votes[number] & FULL, number - number % WARP
            lanes = [first + lane for lane in range(WARP) if mask >> lane & 1 and first + lane in waiting]
            if all(waiting[lane] == kind and votes[lane] & FULL == mask for lane in lanes):
                return lanes, sum(1 << lane % WARP for lane in lanes if votes[lane] >> 32)
    raise DeadlockError(f"threads wait at different barriers: {waiting}")


@contextmanager
def llvm_modules(ptx: bool = False) -> Iterator[list[str]]:
    """Collect the LLVM modules that numba-cuda writes for NVVM in the block; with ``ptx``, NVVM compiles them, too."""
    found: list[str] = []
    compiled = codegen.CUDACodeLibrary.get_asm_strs

    def take(library: Any, cc: Any = None) -> list[str]:
        found.extend(library.llvm_strs)
        return compiled(library, cc) if ptx else [".visible .entry nothing"]

    with _a_device(), patch.object(codegen.CUDACodeLibrary, "get_asm_strs", take):
        yield found


def type_of_call(function: Any, arguments: Sequence[Any]) -> Any:
    """Return the type that numba-cuda gives to a call of a function with arguments of these types, or None."""
    context = cuda_target.typing_context
    with _a_device(), numba_target_override():
        context.refresh()
        try:
            if getattr(function, "__module__", "") != "_operator":
                function = context.resolve_value_type(function)
            found = context.resolve_function_type(function, tuple(arguments), {})
        except (NumbaError, CudaError, ValueError):
            return None
    return found and types.unliteral(found.return_type)


def unified(*kinds: Any) -> Any:
    """Return the type that a variable has after branches that gave it these, or None."""
    return cuda_target.typing_context.unify_types(*kinds)


@contextmanager
def _a_device() -> Iterator[None]:
    """Provide the device whose capability numba-cuda asks for when it compiles functions."""
    device = SimpleNamespace(compute_capability=CAPABILITY)
    with patch.object(dispatcher, "get_current_device", lambda: device):
        yield


_SHARED = r'^@"(_cudapy_smem_\d+)" = addrspace\(3\) global (.+) undef'
_DYNAMIC = r'^@"(_cudapy_smem_\d+)" = external addrspace\(3\) global .*$'


def _retargeted(text: str) -> str:
    """Return a module with a single address space, which calls functions of ``_runtime`` for GPU instructions."""
    text = nvvm.llvm_replace(text)
    for name in re.findall(_DYNAMIC, text, re.MULTILINE):
        text = text.replace(f'"{name}"', '"gpu.dynamic"')
    text = re.sub(r'^@"gpu.dynamic" = external.*$', "", text, flags=re.MULTILINE)
    text = text.replace('asm sideeffect "mov.u32 $0, %dynamic_smem_size;", "=r"()', '@"gpu.dynamic_size"()')
    text = text.replace("addrspacecast", "bitcast")
    text = re.sub(r" ?addrspace\(\d\)", "", text)
    text = re.sub(r"^(target|!nvvm|@llvm.used|@\"llvm.used).*$", "", text, flags=re.MULTILINE)
    text = text.replace('@"llvm.nvvm.', '@"gpu.').replace('@"__nv_', '@"nv_')
    if "gpu.dynamic" in text:
        text += '\n@"gpu.dynamic" = external global i8\ndeclare i32 @"gpu.dynamic_size"()\n'
    text, instructions = _with_half(text)
    rest = [line for line in text.splitlines() if " asm " in line]
    assert not rest, f"what this kernel does is not there on the host: {rest[0]}"
    return _with_functions_of_c(text) + instructions


_PTX = re.compile(r'asm +(?:sideeffect )?"([\w.]+) \$0[^"]*", "[^"]*"')
_ROUNDED = {"rni": "rint", "rmi": "floor", "rpi": "ceil", "rzi": "trunc"}
_LLVM = {"f16": "i16", "f32": "float", "f64": "double", **{f"{s}{n}": f"i{n}" for s in "su" for n in (16, 32, 64)}}


def _with_half(text: str) -> tuple[str, str]:
    """Return a module that calls functions in place of the PTX instructions of float16, and these functions."""
    names = sorted(set(_PTX.findall(text)))
    if not names:
        return text, ""
    functions = ["declare float @half.to_float(i16)", "declare i16 @half.of_float(float)"]
    functions += [f"declare float @llvm.{rounded}.f32(float)" for rounded in _ROUNDED.values()]
    _half_functions()
    return _PTX.sub(r'@"ptx.\1"', text), "\n".join([*functions, *map(_ptx_function, names)])


def _ptx_function(name: str) -> str:
    """Return the definition of the function for a PTX instruction."""
    operation, mode, *kinds = name.split(".")
    if operation != "cvt":
        return f"""define internal i16 @"ptx.{name}"(i16 %a, i16 %b) {{
  %f = call float @half.to_float(i16 %a)
  %g = call float @half.to_float(i16 %b)
  %h = f{operation} float %f, %g
  %r = call i16 @half.of_float(float %h)
  ret i16 %r
}}"""
    target, source = kinds if len(kinds) == 2 else (mode, *kinds)
    to, of = _LLVM[target], _LLVM[source]
    read = {"f16": "call float @half.to_float(i16 %a)", "f32": "freeze float %a"}
    lines = [f"%f = {read.get(source, f'{source[0]}itofp {of} %a to float')}"]
    lines.append(
        f"%g = call float @llvm.{_ROUNDED[mode]}.f32(float %f)" if mode in _ROUNDED else "%g = fadd float %f, -0.0"
    )
    write = {
        "f16": "call i16 @half.of_float(float %g)",
        "f32": "fadd float %g, -0.0",
        "f64": "fpext float %g to double",
    }
    lines.append(f"%r = {write.get(target, f'fpto{target[0]}i float %g to {to}')}")
    body = "\n  ".join(lines)
    return f'define internal {to} @"ptx.{name}"({of} %a) {{\n  {body}\n  ret {to} %r\n}}'


@cache
def _half_functions() -> list[Any]:
    """Let LLVM find our conversions, which ``test_half.py`` compares with NumPy's for all values."""
    to_float = cfunc("float32(uint16)")(_to_float)
    of_float = cfunc("uint16(float32)")(_of_float)
    llvm.add_symbol("half.to_float", to_float.address)
    llvm.add_symbol("half.of_float", of_float.address)
    return [to_float, of_float]


def _to_float(bits: Any) -> Any:
    return libdevice_half2float(np.int16(bits))


def _of_float(value: Any) -> Any:
    return libdevice_float2half_rn(value)


OWN = (
    *("ffs", "ffsll", "brev", "brevll", "powi", "powif"),
    *("isnand", "isnanf", "isinfd", "isinff", "isfinited", "finitef"),
)
"""The functions of libdevice that C lacks; the others have the same name there."""


def _with_functions_of_c(text: str) -> str:
    return re.sub(r'@"nv_(\w+)"', lambda m: m[0] if m[1] in OWN else f'@"{m[1]}"', text)


def _runtime(kernel: str, parameters: list[str]) -> str:
    """Return a module with the words, the special registers, the barriers, atomics, and the start of a thread."""
    lines = [
        f"@gpu.words = global [{len(WORDS)} x i64] zeroinitializer",
        f"@gpu.arguments = global [{max(1, len(parameters))} x i64] zeroinitializer",
        f"@gpu.dynamic = global [{MAX_SHARED} x i8] zeroinitializer, align 64",
        *(_register(f"gpu.read.ptx.sreg.{name}", name) for name in (*AXES, "laneid")),
        _register("gpu.dynamic_size", "dynamic"),
        f"define i32 @gpu.read.ptx.sreg.warpsize() {{ ret i32 {WARP} }}",
        *(f"define void @gpu.membar.{level}() {{ ret void }}" for level in ("cta", "gl", "sys")),
    ]
    waits, vote, outcome, fibre, scheduler = (_word(WORDS[n]) for n in range(-5, 0))
    lines.append(f"""
declare i32 @swapcontext(ptr, ptr)
define i32 @gpu.wait(i64 %kind, i64 %vote) noinline {{
  store volatile i64 %kind, ptr {waits}
  store volatile i64 %vote, ptr {vote}
  %from = load volatile ptr, ptr {fibre}
  %to = load volatile ptr, ptr {scheduler}
  %failed = call i32 @swapcontext(ptr %from, ptr %to)
  %outcome = load volatile i64, ptr {outcome}
  %word = trunc i64 %outcome to i32
  ret i32 %word
}}
define void @gpu.barrier0() {{
  %all = call i32 @gpu.wait(i64 {BARRIER}, i64 0)
  ret void
}}
define void @gpu.bar.warp.sync(i32 %mask) {{
  %lanes = zext i32 %mask to i64
  %all = call i32 @gpu.wait(i64 {WARP_BARRIER}, i64 %lanes)
  ret void
}}
define {{i32, i1}} @gpu.vote.sync(i32 %mask, i32 %mode, i1 %says) {{
  %lanes = zext i32 %mask to i64
  %high = select i1 %says, i64 {1 << 32}, i64 0
  %vote = or i64 %lanes, %high
  %ballot = call i32 @gpu.wait(i64 {WARP_VOTE}, i64 %vote)
  %all = icmp eq i32 %ballot, %mask
  %any = icmp ne i32 %ballot, 0
  %none = icmp eq i32 %ballot, 0
  %equal = or i1 %all, %none
  %is.all = icmp eq i32 %mode, 0
  %is.any = icmp eq i32 %mode, 1
  %other = select i1 %is.any, i1 %any, i1 %equal
  %holds = select i1 %is.all, i1 %all, i1 %other
  %one = insertvalue {{i32, i1}} undef, i32 %ballot, 0
  %both = insertvalue {{i32, i1}} %one, i1 %holds, 1
  ret {{i32, i1}} %both
}}""")
    for name, kind in {"popc": COUNT, "and": AND, "or": OR}.items():
        lines.append(f"""define i32 @gpu.barrier0.{name}(i32 %says) {{
  %vote = zext i32 %says to i64
  %all = call i32 @gpu.wait(i64 {kind}, i64 %vote)
  ret i32 %all
}}""")
    for name, operation, kind in (
        ("add.f32.p0f32", "fadd", "float"),
        ("add.f64.p0f64", "fadd", "double"),
        ("inc.32.p0i32", "uinc_wrap", "i32"),
        ("dec.32.p0i32", "udec_wrap", "i32"),
    ):
        lines.append(f"""define {kind} @gpu.atomic.load.{name}(ptr %to, {kind} %value) {{
  %old = atomicrmw {operation} ptr %to, {kind} %value seq_cst
  ret {kind} %old
}}""")
    for width, suffix in ((32, ""), (64, "ll")):
        lines.append(f"""declare i{width} @llvm.bitreverse.i{width}(i{width})
declare i{width} @llvm.cttz.i{width}(i{width}, i1)
define i{width} @nv_brev{suffix}(i{width} %x) {{
  %turned = call i{width} @llvm.bitreverse.i{width}(i{width} %x)
  ret i{width} %turned
}}
define i32 @nv_ffs{suffix}(i{width} %x) {{
  %zeros = call i{width} @llvm.cttz.i{width}(i{width} %x, i1 0)
  %place = add i{width} %zeros, 1
  %none = icmp eq i{width} %x, 0
  %found = select i1 %none, i{width} 0, i{width} %place
  %wide = zext i{width} %found to i128
  %word = trunc i128 %wide to i32
  ret i32 %word
}}""")
    for kind, nan, inf, finite, powi, pow in (
        ("double", "isnand", "isinfd", "isfinited", "powi", "pow"),
        ("float", "isnanf", "isinff", "finitef", "powif", "powf"),
    ):
        lines.append(f"""declare {kind} @{pow}({kind}, {kind})
define {kind} @nv_{powi}({kind} %x, i32 %n) {{
  %y = sitofp i32 %n to {kind}
  %power = call {kind} @{pow}({kind} %x, {kind} %y)
  ret {kind} %power
}}""")
        bits = {nan: 3, inf: 516, finite: 504}
        for name, mask in bits.items():
            code = "f64" if kind == "double" else "f32"
            lines.append(f"""define i32 @nv_{name}({kind} %x) {{
  %is = call i1 @llvm.is.fpclass.{code}({kind} %x, i32 {mask})
  %word = zext i1 %is to i32
  ret i32 %word
}}""")
    lines += ["declare i1 @llvm.is.fpclass.f32(float, i32)", "declare i1 @llvm.is.fpclass.f64(double, i32)"]
    lines.append(f'declare void @"{kernel}"({", ".join(parameters)})')
    lines.append("define void @gpu.start() {")
    for number, kind in enumerate(parameters):
        place = f"getelementptr(i64, ptr @gpu.arguments, i64 {number})"
        lines.append(f"  %a{number} = load {kind}, ptr {place}")
    given = ", ".join(f"{kind} %a{number}" for number, kind in enumerate(parameters))
    lines += [f'  call void @"{kernel}"({given})', "  ret void", "}"]
    _target()
    return f'target triple = "{llvm.get_process_triple()}"\n' + "\n".join(lines)


def _word(name: str) -> str:
    return f"getelementptr(i64, ptr @gpu.words, i64 {WORDS.index(name)})"


def _register(function: str, word: str) -> str:
    return f"define i32 @{function}() {{\n  %word = load volatile i32, ptr {_word(word)}\n  ret i32 %word\n}}"


def _bytes(kind: str) -> int:
    """Return the size of an LLVM type such as ``[8 x [12 x i8]]``."""
    sizes = {"i1": 1, "float": 4, "double": 8, **{f"i{8 * n}": n for n in (1, 2, 4, 8)}}
    array = re.fullmatch(r"\[(\d+) x (.+)\]", kind)
    if array is not None:
        return int(array[1]) * _bytes(array[2])
    return sum(map(_bytes, kind[1:-1].split(", "))) if kind.startswith("{") else sizes[kind]


def words_of(value: Any) -> Iterator[int]:
    """Yield an argument's words as numba-cuda passes it to a kernel."""
    if isinstance(value, np.ndarray):
        yield from (0, 0, value.size, value.itemsize, value.ctypes.data, *value.shape)
        yield from (stride % 2**64 for stride in value.strides)
    elif isinstance(value, tuple):
        for part in value:
            yield from words_of(part)
    elif isinstance(value, np.void):
        yield value.__array_interface__["data"][0]
    elif isinstance(value, (complex, np.complexfloating)):
        yield from words_of(value.real)
        yield from words_of(value.imag)
    elif value is not None:
        data = np.asarray(value).tobytes()
        yield int.from_bytes(data, "little")


@cache
def _target() -> llvm.Target:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.load_library_permanently("libm.so.6")
    return llvm.Target.from_triple(llvm.get_process_triple())


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)


@cache
def _scheduler() -> int:
    """Return the address of the scheduler's saved context."""
    _kept.append(np.zeros(CONTEXT, np.uint8))
    return int(_kept[-1].ctypes.data)


@cache
def _memory(number: int) -> np.ndarray:
    return np.empty(CONTEXT + STACK, np.uint8)


_kept: list[np.ndarray] = []


def _fibre(number: int, start: int) -> int:
    """Return the address of a context that begins at ``start`` on a stack of its own, and ends in the scheduler's."""
    memory = _memory(number).ctypes.data
    memory += -memory % 64
    context = ctypes.c_void_p(memory)
    _libc().getcontext(context)
    link = (ctypes.c_uint64 * 5).from_address(memory)  # flags, what follows, stack: address, flags, size
    link[1], link[2], link[4] = _scheduler(), memory + CONTEXT, STACK - 64
    _libc().makecontext(context, ctypes.c_void_p(start), 0)
    return memory


def _three(value: Any) -> tuple[int, int, int]:
    given = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    return (*given, 1, 1)[:3]  # type: ignore[return-value]
