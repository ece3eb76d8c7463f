"""Generation of fused kernels in CUDA C, from authors' functions and those of the library in ``cuda_src``.

The output is one translation unit, identical for the GPU and the host except for its last part: a ``__global__``
function on the GPU, and a function that runs a part of the replicas on the host.

The text includes ``warpdrive.cuh`` and those library functions that are called, found by name: ``wd_sample_discrete``
in ``sampler.cuh`` is ``warpdrive.sampler.sample_discrete``. ``WD_KERNEL`` functions in an author's file that the fused
kernel does not call are blanked, as their parameters are unknown; line numbers are preserved. Except for signatures,
the author's text is not parsed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import warpdrive.cuda_src
from warpdrive.backends.cuda.packing import MAX_THREADS, Packing
from warpdrive.backends.pycuda.arguments import declarations, extents, view
from warpdrive.backends.pycuda.unsupported import check_text
from warpdrive.kernels.cuda_kernel import CudaKernel
from warpdrive.kernels.cuda_signature import is_array, without_comments, without_functions
from warpdrive.kernels.errors import KernelError
from warpdrive.kernels.fusion import Barrier, Call, FusedStep, Fusion, When
from warpdrive.kernels.kernel import DeviceFunction
from warpdrive.kernels.language import WARP

LIBRARY = Path(warpdrive.cuda_src.__file__).parent
"""Folder of the device library."""

GENERATED = "fused_step.cu"
"""File name of the generated text in compiler messages."""

HOST_ENTRY = "wd_run_part"


@dataclass(frozen=True)
class FusedSource:
    """Fused kernel in CUDA C.

    Attributes:
        name: Name of the kernel.
        text: The translation unit.
        folders: Include folders of authors' files.
        included: Texts of all included files, of the library and of authors.
        authors: Texts of the authors' files that are part of it, by path.
    """

    name: str
    text: str
    folders: tuple[Path, ...]
    included: tuple[str, ...]
    authors: Mapping[str, str]


def packing_of(agents: int) -> Packing:
    """Return the packing for replicas with this many agents.

    Raises :class:`KernelError` if they exceed the maximum number of threads per block.
    """
    if agents > MAX_THREADS:
        raise KernelError(
            f"a replica has {agents} agents: kernel functions in CUDA C run on a block of at most {MAX_THREADS} "
            "threads, one for each agent; env_backend 'numba' and 'cpu' take any number"
        )
    return Packing.of(agents)


def device_source(fusion: Fusion, arguments: Mapping[str, Any], replicas: int, packing: Packing) -> FusedSource:
    """Generate a fused kernel for a GPU.

    Args:
        fusion: The fused kernel.
        arguments: Argument of each parameter, by name.
        replicas: Number of replicas.
        packing: Assignment of replicas to the GPU.

    Returns:
        The source.

    Raises:
        KernelError: If a function has no counterpart in CUDA C.
    """
    name = f"wd_{fusion.name}"
    return _source(fusion, arguments, replicas, packing, name, [*_global_function(fusion, name, packing)])


def host_source(fusion: Fusion, arguments: Mapping[str, Any], replicas: int, packing: Packing) -> FusedSource:
    """Generate a fused kernel for the host.

    Args:
        fusion: The fused kernel.
        arguments: Argument of each parameter, by name.
        replicas: Number of replicas.
        packing: Assignment of replicas to blocks.

    Returns:
        The source.

    Raises:
        KernelError: If a function has no counterpart in CUDA C.
    """
    return _source(fusion, arguments, replicas, packing, f"wd_{fusion.name}", [*_host_functions(fusion)])


def uses_raw_shared_memory(fusion: Fusion) -> bool:
    """Return True if an author declares ``__shared__`` variables, so that replicas cannot share a block."""
    texts = [without_comments(text) for text in _authors(fusion).values()]
    texts += [without_comments(text) for text in _local_files(_authors(fusion)).values()]
    return any(re.search(r"\b__shared__\b", text) for text in texts)


def _source(
    fusion: Fusion, arguments: Mapping[str, Any], replicas: int, packing: Packing, name: str, last_part: Sequence[str]
) -> FusedSource:
    authors = _authors(fusion)
    headers = sorted({_header(call.function) for call in fusion.calls() if isinstance(call.function, DeviceFunction)})
    named_by_authors = {
        parameter: arguments[parameter]
        for call in fusion.calls()
        if isinstance(call.function, CudaKernel)
        for parameter in call.arguments
        if is_array(arguments[parameter])
    }
    kernels = [call.function for call in fusion.calls() if isinstance(call.function, CudaKernel)]
    lines = [
        f"#define WD_NUM_AGENTS {packing.agents}",
        f"#define WD_REPLICAS_PER_WARP {packing.replicas_per_warp}",
        f"#define WD_WARPS_PER_BLOCK {packing.threads // WARP if packing.replicas_per_warp else 1}",
        *(f'#include "{_quoted(str(LIBRARY / header))}"' for header in ["warpdrive.cuh", *headers]),
        *(f"typedef {extents(key, value, replicas)} wd_extents_of_{key};" for key, value in named_by_authors.items()),
        f'#include "{_quoted(str(LIBRARY / "author.cuh"))}"',
    ]
    for path, text in authors.items():
        kept = without_functions(text, {kernel.name for kernel in kernels if str(kernel.file) == path})
        check_text(kept, path, named_by_authors)
        lines += [f'#line 1 "{_quoted(path)}"', kept]
    lines += [
        f'#line 1 "{GENERATED}"',
        "struct wd_arguments {",
        *(f"    {declaration}" for declaration in declarations(arguments, replicas)),
        "};",
        *_views(fusion, arguments, replicas),
        *last_part,
    ]
    folders = tuple(dict.fromkeys(Path(path).parent for path in authors))
    library = {str(path): path.read_text(encoding="utf-8") for path in sorted(LIBRARY.rglob("*")) if _is_header(path)}
    included = [*library.values(), *_local_files(authors).values()]
    return FusedSource(name, "\n".join(lines) + "\n", folders, tuple(included), authors)


def _is_header(path: Path) -> bool:
    return path.suffix in (".cuh", ".h") or path.parent.name == "nvrtc"


def _authors(fusion: Fusion) -> dict[str, str]:
    """Return the texts of the authors' files, by path."""
    kernels = [call.function for call in fusion.calls() if isinstance(call.function, CudaKernel)]
    return {str(kernel.file): kernel.text for kernel in kernels}


def _local_files(files: Mapping[str, str]) -> dict[str, str]:
    """Return the texts of the files included with quotes, by path."""
    found: dict[str, str] = {}
    for path, text in files.items():
        for name in re.findall(r'^\s*#\s*include\s*"([^"\n]+)"', text, re.MULTILINE):
            file = Path(path).parent / name
            if file.is_file() and str(file) not in found:
                here = {str(file): file.read_text(encoding="utf-8", errors="replace")}
                found |= here | _local_files(here)
    return found


def _header(function: DeviceFunction) -> str:
    """Return the header of the device library with the CUDA C version of a library function."""
    module = function.function.__module__.rpartition(".")[2]
    header = LIBRARY / f"{module}.cuh"
    if not header.is_file() or f" {_library_name(function)}(" not in header.read_text(encoding="utf-8"):
        raise KernelError(
            f"{function.where}: '{function.source.name}' is in Python and has no twin in CUDA C, which this backend "
            "requires"
        )
    return header.name


def _library_name(function: DeviceFunction) -> str:
    return f"wd_{function.source.name}"


def _quoted(path: str) -> str:
    return path.replace("\\", "\\\\").replace('"', '\\"')


def _views(fusion: Fusion, arguments: Mapping[str, Any], replicas: int) -> Iterator[str]:
    """Yield a function that returns the view of each array passed to a function of the library."""
    calls = [call for call in fusion.calls() if isinstance(call.function, DeviceFunction)]
    for parameter in dict.fromkeys(name for call in calls for name in call.arguments):
        value = arguments[parameter]
        if not is_array(value):
            raise KernelError(f"'{parameter}', passed to a function of the library, is not an array")
        kind, made = view(parameter, value, replicas)
        yield f"WD_FUNCTION {kind} wd_view_{parameter}(const wd_arguments &given) {{ return {made}; }}"


def _call(call: Call) -> str:
    """Return the C++ expression of a call; the arguments of the fused kernel are in ``given``."""
    if isinstance(call.function, CudaKernel):
        parameters = zip(call.function.signature.parameters, call.arguments, strict=True)
        values = [f"({p.text})given.wd_{name}" if p.is_pointer else f"given.wd_{name}" for p, name in parameters]
        return f"::{call.function.name}({', '.join(values)})"
    assert isinstance(call.function, DeviceFunction)
    return f"{_library_name(call.function)}({', '.join(f'wd_view_{name}(given)' for name in call.arguments)})"


def _global_function(fusion: Fusion, name: str, packing: Packing) -> Iterator[str]:
    yield f'extern "C" __global__ void __launch_bounds__({packing.threads}) {name}(const wd_arguments given) {{'
    yield "    if (!wd_is_live(given.wd_num_replicas)) return;"
    yield from _statements(fusion.steps, "    ")
    yield "}"


def _statements(steps: Sequence[FusedStep], indent: str) -> Iterator[str]:
    for step in steps:
        if isinstance(step, Barrier):
            yield f"{indent}wd_wait();"
        elif isinstance(step, When):
            yield f"{indent}if (wd_{step.condition}) {{"
            yield from _statements(step.steps, indent + "    ")
            yield f"{indent}}}"
        else:
            result = f"const bool wd_{step.result} = " if step.result else ""
            yield f"{indent}{result}{_call(step)};"


def _host_functions(fusion: Fusion) -> Iterator[str]:
    """Yield a function for the code between each pair of barriers, and one that runs replicas with them."""
    results = [call.result for call in fusion.calls() if call.result]
    yield "struct wd_work {"
    yield "    wd_arguments given;"
    yield "    wd_failure *failure;"
    yield "};"
    yield "struct wd_part {"
    yield "    const wd_work *work;"
    yield "    int first, end;"
    for result in results:
        yield f"    bool {result}[WD_NUM_AGENTS];"
    yield "};"
    parts = list(_between_barriers(fusion.steps))
    for number, part in enumerate(parts):
        yield f"static void wd_between_barriers_{number}(void *wd_given) {{"
        yield "    wd_part &part = *static_cast<wd_part *>(wd_given);"
        yield "    const wd_arguments &given = part.work->given;"
        for conditions, call in part:
            guard = " && ".join(f"part.{condition}[wd_agent()]" for condition in conditions)
            result = f"part.{call.result}[wd_agent()] = " if call.result else ""
            yield f"    {f'if ({guard}) ' if guard else ''}{result}{_call(call)};"
        yield "}"
    yield "static void wd_run_replicas(wd_replica *replica, void *wd_given) {"
    yield "    wd_part &part = *static_cast<wd_part *>(wd_given);"
    yield "    for (replica->env = part.first; replica->env < part.end; ++replica->env) {"
    for number, part in enumerate(parts):
        run = "wd_run_threads" if any(isinstance(call.function, CudaKernel) for _, call in part) else "wd_run_alone"
        yield f"        {run}(replica, wd_between_barriers_{number}, wd_given);"
    yield "    }"
    yield "}"
    yield f'extern "C" void {HOST_ENTRY}(const wd_work *work, intptr_t number, intptr_t parts) {{'
    yield "    static thread_local wd_core core;"
    yield "    const intptr_t replicas = work->given.wd_num_replicas;"
    yield "    wd_part part = {work, int(number * replicas / parts), int((number + 1) * replicas / parts)};"
    yield "    core.run(work->failure, wd_run_replicas, &part);"
    yield "}"


Guarded = list[tuple[tuple[str, ...], Call]]


def _between_barriers(steps: Sequence[FusedStep]) -> Iterator[Guarded]:
    """Split the steps at their barriers; yield the calls of each piece with their conditions."""
    piece: Guarded = []
    for conditions, step in _flat(steps, ()):
        if isinstance(step, Call):
            piece.append((conditions, step))
        elif piece:
            yield piece
            piece = []
    if piece:
        yield piece


def _flat(steps: Sequence[FusedStep], conditions: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Call | Barrier]]:
    for step in steps:
        if isinstance(step, When):
            yield from _flat(step.steps, (*conditions, step.condition))
        else:
            yield conditions, step
