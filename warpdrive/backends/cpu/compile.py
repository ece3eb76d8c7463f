"""Compilation of kernels for the CPU, with a cache of compiled kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import ModuleType

from numba.core.errors import NumbaError

from warpdrive.backends.cpu.generate import LaunchKind, generate_kernel
from warpdrive.backends.cpu.generate_turns import generate_turns
from warpdrive.backends.host.functions import generate_functions
from warpdrive.backends.host.typing import array_names, lower_with_slots
from warpdrive.backends.shared import cache
from warpdrive.backends.shared.arguments import ArgumentKind
from warpdrive.backends.shared.module_writer import GeneratedModule
from warpdrive.backends.shared.origins import errors_at_their_origin
from warpdrive.backends.shared.slots import Slot
from warpdrive.garbage_collection import no_garbage_collection
from warpdrive.kernels.faults import Fault
from warpdrive.kernels.lowering import ResolvedKernel, lower
from warpdrive.kernels.turns import Turns, turns_of


@dataclass(frozen=True)
class CompiledKernel:
    """Machine code of a kernel for one kind of arguments.

    Attributes:
        address: Address of a C function ``void(table, part, parts)``. The table holds the three dimensions of the grid
            and of a block, an array ``[parts, threads, *shape]`` for each slot, and the kernel's arguments. If
            ``sites`` is not empty, the function is the one that
            :class:`warpdrive.backends.cpu.fibres.WaitingLaunch` takes.
        slots: Slots of the variables that are kept between regions.
        module: Module that owns the machine code; the reference keeps the code in memory.
        faults: The exceptions the kernel raises, indexed by the number an exception carries.
        sites: Source locations at which threads wait for each other; empty if they never wait.
    """

    address: int
    slots: tuple[Slot, ...]
    module: ModuleType  # keeps the machine code in memory
    faults: tuple[Fault, ...] = ()
    sites: tuple[str, ...] = ()


_compiled: dict[str, CompiledKernel] = {}


def compile_kernel(kernel: ResolvedKernel, kinds: Mapping[str, ArgumentKind], launch: LaunchKind) -> CompiledKernel:
    """Compile a kernel for arguments of the given kinds, or load it from the cache.

    Args:
        kernel: The kernel, with its names resolved.
        kinds: Kind of each parameter, by name.
        launch: Properties of the launch that the machine code is specialised for.

    Returns:
        The compiled kernel.

    Raises:
        KernelError: If the kernel cannot be compiled; the message has the file and line of its source.
    """
    key = cache.key_of(kernel.content(), repr(list(kinds.items())), repr(launch))
    with cache.ONE_AT_A_TIME:
        if key not in _compiled:
            with cache.one_process_at_a_time(key, f"kernel {kernel.function.name}"), no_garbage_collection():
                _compiled[key] = _compile(key, kernel, kinds, launch)
        turns = turns_of(kernel) if _compiled[key].module.TAKES_TURNS else None
        return replace(
            _compiled[key], faults=tuple(kernel.table.faults), sites=() if turns is None else tuple(turns.sites)
        )


def _compile(key: str, kernel: ResolvedKernel, kinds: Mapping[str, ArgumentKind], launch: LaunchKind) -> CompiledKernel:
    origins: dict[str, GeneratedModule] = {}
    with errors_at_their_origin(kernel, origins, (NumbaError, NotImplementedError)):
        if not cache.is_stored(key):
            turns = turns_of(kernel)
            if turns is not None:
                _generate_turns(key, kernel, turns, kinds, launch, origins)
            else:
                _generate(key, kernel, kinds, launch, origins)
        try:
            return _load(key)
        except Exception:
            cache.discard(key)
            if origins or cache.is_stored(key):
                raise
    return _compile(key, kernel, kinds, launch)  # the stored module is damaged


def _load(key: str) -> CompiledKernel:
    cache.load(key, "functions")
    module = cache.load(key, "kernel")
    slots = tuple(Slot(*slot) for slot in module.SLOTS)
    return CompiledKernel(module.entry.address, slots, module)


def _generate(
    key: str,
    kernel: ResolvedKernel,
    kinds: Mapping[str, ArgumentKind],
    launch: LaunchKind,
    origins: dict[str, GeneratedModule],
) -> None:
    kernel.table.classes.update((named.alias, named) for kind in kinds.values() for named in kind.classes())
    is_thread = launch.block == (1, 1, 1) and kernel.grid_barrier is None
    lowered, slots = (
        (lower(kernel, array_names(kinds)), [])
        if is_thread
        else lower_with_slots(key, kernel, kinds, origins, on_cpu=True)
    )
    functions = generate_functions(lowered)
    origins["functions"] = functions
    functions_module = cache.module_name(key, "functions")
    generated = generate_kernel(lowered, list(kinds.values()), slots, functions_module, launch)
    origins["kernel"] = generated
    cache.store(key, {"functions.py": functions.text, "kernel.py": generated.text})


def _generate_turns(
    key: str,
    kernel: ResolvedKernel,
    turns: Turns,
    kinds: Mapping[str, ArgumentKind],
    launch: LaunchKind,
    origins: dict[str, GeneratedModule],
) -> None:
    kernel.table.classes.update((named.alias, named) for kind in kinds.values() for named in kind.classes())
    functions_module = cache.module_name(key, "functions")
    functions, generated = generate_turns(kernel, turns, list(kinds.values()), launch, functions_module)
    origins |= {"functions": functions, "kernel": generated}
    cache.store(key, {"functions.py": functions.text, "kernel.py": generated.text})
