"""Compilation of portable code to a WebAssembly module: LLVM's passes and code generation for wasm32.

Only pointers shrink: indices, shapes and the words of argument tables keep their 64 bits. Atomic operations become
plain ones, since a module runs in one thread. Loops are vectorised, which makes policies faster, but not unrolled,
which makes modules larger and no faster.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import llvmlite.binding as llvm

from warpdrive.backends.interface import PortableCode, PortableCompiler
from warpdrive.backends.shared.cache import is_stored, key_of, one_process_at_a_time, path, store
from warpdrive.backends.wasm.functions import replaced, replacement, symbol, with_replacements
from warpdrive.backends.wasm.link import Linked, UndefinedSymbolsError, link
from warpdrive.backends.wasm.mathematics import with_own_functions
from warpdrive.errors import BackendError
from warpdrive.kernels.errors import KernelError

TRIPLE = "wasm32-unknown-unknown"
LAYOUT = "e-m:e-p:32:32-p10:8:8-p20:8:8-i64:64-i128:128-n32:64-S128-ni:1:10:20"
FEATURES = "+bulk-memory,+mutable-globals,+nontrapping-fptoint,+sign-ext,+simd128"
"""Extensions of the first version of WebAssembly, in all browsers since 2023."""


def compile_module(codes: Mapping[str, PortableCode], compiler: PortableCompiler) -> Linked:
    """Compile kernels to one WebAssembly module.

    Args:
        codes: Code of each kernel, by the name of the exported function ``(table: i32) -> i32``: it takes the address
            of an argument table and returns 0, or another number if the kernel has raised an exception.
        compiler: Compiler of the functions of ``wd.math`` that kernels lack.

    Returns:
        The module.

    Raises:
        KernelError: If a kernel calls a function that WebAssembly lacks; the message has its file and line.
        BackendError: If LLVM has no target for WebAssembly.
    """
    texts = {name: (code, _exported(name, code.function)) for name, code in codes.items()}
    functions = dict.fromkeys(name for code in codes.values() for name in replaced(code))
    texts |= {symbol(name): replacement(name, compiler) for name in functions}
    key = key_of("wasm", *(part for code, exported in texts.values() for part in (exported, code.llvm)))
    with one_process_at_a_time(key, f"WebAssembly of {', '.join(codes)}"):
        if not is_stored(key):
            linked = _compile(codes, texts)
            store(key, {"module.wasm": linked.module, "first_free": str(linked.first_free)})
        return Linked(path(key, "module.wasm").read_bytes(), int(path(key, "first_free").read_text()))


def _compile(codes: Mapping[str, PortableCode], texts: Mapping[str, tuple[PortableCode, str]]) -> Linked:
    machine = _target().create_target_machine(opt=3, features=FEATURES)
    whole = llvm.parse_assembly(f'target triple = "{TRIPLE}"\ntarget datalayout = "{LAYOUT}"\n')
    for name, (code, exported) in texts.items():
        whole.link_in(_module(name, code, exported))
        if name not in codes:
            whole.get_function(name).linkage = "internal"
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization, options.loop_unrolling = True, False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(whole, builder)
    try:
        return link(machine.emit_object(whole), list(codes))
    except UndefinedSymbolsError as error:
        raise _refusal(error.args, codes.values()) from None


def _module(name: str, code: PortableCode, exported: str) -> Any:
    """Return the LLVM module of a kernel, in which only one function is visible: its name, and its definition."""
    text = with_own_functions(with_replacements(code.llvm))
    text = re.sub(r'^target triple = ".*"$', f'target triple = "{TRIPLE}"', text, flags=re.MULTILINE)
    text = re.sub(r'^target datalayout = ".*"$', f'target datalayout = "{LAYOUT}"', text, flags=re.MULTILINE)
    # what hides a constant from LLVM is an instruction of no bytes, which its target for WebAssembly does not take
    text = re.sub(r'call i64 asm "", "=r,0"\(i64 ([^)]+)\)', r"add i64 \1, 0", text)
    module = llvm.parse_assembly(f"{text}\n{exported}")
    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration and value.name != name:
            value.linkage = "internal"
    return module


def _exported(name: str, function: str) -> str:
    return f"""
define i32 @{name}(i32 %table) {{
  %result = alloca ptr
  %exception = alloca ptr
  %address = zext i32 %table to i64
  %status = call i32 @"{function}"(ptr %result, ptr %exception, i64 %address, i64 0, i64 1)
  ret i32 %status
}}
"""


def _refusal(symbols: Iterable[str], codes: Iterable[PortableCode]) -> KernelError:
    """Return the error for calls of functions that are missing."""
    calls = {name: place for code in codes for name, place in code.calls.items()}
    where = next(iter(codes)).where
    found = []
    for missing in symbols:
        names = (missing, missing.removesuffix("f"), missing.removeprefix("numba_"))
        name = next((name for name in names if name in calls), None)
        found.append(f"{calls[name]}: {name}" if name else f"{where}: {missing}")
    return KernelError(
        f"{'; '.join(dict.fromkeys(found))}: WebAssembly has no such function of this type: use one of wd.math, "
        "whose float32 functions have the same bits on every backend"
    )


@cache
def _target() -> Any:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    try:
        return llvm.Target.from_triple(TRIPLE)
    except RuntimeError as error:
        raise BackendError(f"this llvmlite has no target for WebAssembly: {error}") from None
