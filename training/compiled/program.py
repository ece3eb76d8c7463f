"""Compilation of emitted code with LLVM, and the disk cache of the machine code."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import torch
from llvmlite import ir

from warpdrive.backends.host.workers import get_num_threads, launch_on_all_cores, launch_rounds
from warpdrive.backends.shared import cache as disk
from warpdrive.garbage_collection import no_garbage_collection
from warpdrive.training.compiled.simd import host_lanes

_FILE = "program.o"
_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
_MIN_ROWS = 128  # fewer are not split: to clear and sum the gradient of a part takes as long as 3 rows of any network
_ROWS_OF_A_PART = 256
_MAX_PARTS = 16
_programs: dict[str, Program] = {}


class Program:
    """Machine code of functions ``void(table, part, parts)`` in memory.

    Args:
        machine_code: Object file.
    """

    def __init__(self, machine_code: bytes) -> None:
        module = llvm.parse_assembly("")
        self._engine = llvm.create_mcjit_compiler(module, _machine())
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(machine_code))
        self._engine.finalize_object()
        self._functions: dict[str, Callable[[int, int, int], None]] = {}
        self._addresses: dict[str, int] = {}

    def run(self, name: str, table: int, parts: int = 1) -> None:
        """Run all parts of a function, on several threads if available. The GIL is released.

        Args:
            name: Name of the function.
            table: Address of the argument table.
            parts: Number of parts.
        """
        if parts > 1 and get_num_threads() > 1:
            launch_on_all_cores(self.address(name), table, parts)()
            return
        if name not in self._functions:
            self._functions[name] = _FUNCTION(self.address(name))
        for part in range(parts):
            self._functions[name](table, part, parts)

    def run_rounds(self, name: str, then: str, table: int, counter: int, last: int, parts: int) -> None:
        """Run all parts of a function and then another function, a number of times. The GIL is released.

        Args:
            name: Name of the function.
            then: Name of the other function.
            table: Address of the argument table.
            counter: Word with the index of the first round, incremented after each round.
            last: Index of the round to end before.
            parts: Number of parts.
        """
        launch_rounds(self.address(name), self.address(then), table, table + 8 * counter, last, parts)

    def address(self, name: str) -> int:
        """Return the address of a function."""
        if name not in self._addresses:
            self._addresses[name] = int(self._engine.get_function_address(name))
        return self._addresses[name]


def program_of(emit: Callable[[ir.Module, int], Any], specialisation: str) -> Program:
    """Return the program of emitted functions, compiled now or loaded from the cache.

    Args:
        emit: Emits the functions into a module, for a number of lanes.
        specialisation: All that the functions depend on, besides this package's source and the processor.

    Returns:
        The program.
    """
    features = llvm.get_host_cpu_features().flatten()
    versions = (llvmlite.__version__, llvm.get_host_cpu_name(), features, _own_content())
    key = disk.key_of("compiled training", specialisation, *versions)
    with disk.ONE_AT_A_TIME:
        if key not in _programs:
            with (
                disk.one_process_at_a_time(key, f"native {specialisation.partition('(')[0].strip()}"),
                no_garbage_collection(),
            ):
                _programs[key] = _stored(key) or _compiled(key, emit)
        return _programs[key]


def _stored(key: str) -> Program | None:
    if not disk.is_stored(key):
        return None
    try:
        return Program(disk.path(key, _FILE).read_bytes())
    except (OSError, RuntimeError):  # the stored file is damaged
        disk.discard(key)
        return None


def _compiled(key: str, emit: Callable[[ir.Module, int], Any]) -> Program:
    module = ir.Module("warpdrive")
    module.triple = _triple()
    emit(module, host_lanes())
    machine_code = _translated(str(module))
    disk.store(key, {_FILE: machine_code})
    return Program(machine_code)


def _translated(text: str) -> bytes:
    """Return the object file of LLVM assembly. It is vectorised as emitted, so higher levels make it no faster."""
    machine = _machine()
    module = llvm.parse_assembly(text)
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    found: bytes = machine.emit_object(module)
    return found


def _machine() -> Any:
    _initialise()
    return llvm.Target.from_triple(_triple()).create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=2, jit=True
    )


def _triple() -> str:
    """Return the LLVM target triple of this machine. MCJIT requires ELF object files on Windows as well."""
    triple: str = llvm.get_process_triple()
    return f"{triple}-elf" if sys.platform == "win32" else triple


@cache
def _initialise() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@cache
def _own_content() -> str:
    return "\0".join(path.read_text() for path in sorted(Path(__file__).parent.glob("*.py")))


def table_of(arguments: Mapping[int, Any], count: int) -> Any:
    """Return the argument table: addresses of tensors and NumPy arrays, or integers, by word.

    Args:
        arguments: Arguments, which must stay in memory as long as the table is used.
        count: Number of words.

    Returns:
        Array of 64-bit words.
    """
    words = (ctypes.c_int64 * count)()
    for word, value in arguments.items():
        if isinstance(value, torch.Tensor):
            words[word] = value.data_ptr()
        else:
            words[word] = value if isinstance(value, int) else value.ctypes.data
    return words


def address_of(table: Any) -> int:
    """Return the address of an argument table."""
    return ctypes.addressof(table)


def parts_of(rows: int) -> int:
    """Return the number of parts that work on ``rows`` rows is split into.

    It does not depend on the number of threads: parts are summed in a fixed order. It is even, so that two threads
    finish together.
    """
    if rows < _MIN_ROWS:
        return 1
    return max(2, min(_MAX_PARTS, rows // _ROWS_OF_A_PART // 2 * 2))
