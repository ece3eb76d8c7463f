"""Compare generated kernels on the CPU backend with numba-cuda's own compilation (see ``cuda_on_host``).

The tests compare 40 kernels, ``benchmarks/kernel_oracle.py`` any number. 180 of the 198 kernels of the corpus are
compared as well; the others use features that numba-cuda lacks, such as parameters as sizes of arrays.
"""

from __future__ import annotations

import ast
import importlib.util
import itertools
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
from cuda_on_host import CAPABILITY, HostCode, HostKernel, llvm_modules, words_of
from generated_kernels import Generator
from numba.core.errors import NumbaError
from numba.cuda.core.errors import NumbaError as CudaError

import warpdrive as wd
from warpdrive.backends.numba_cuda import compile as gpu
from warpdrive.backends.numba_cuda.arguments import argument, read_all
from warpdrive.backends.shared.arguments import baked_values, resolved_for
from warpdrive.errors import WarpDriveError

CPU, GPU = "cpu", "gpu"
SAME, DIFFERENT, UNDETERMINED = "the same", "different", "results depend on the order of threads"
REFUSED, REFUSED_BY_CUDA = "refused by WarpDrive", "refused by numba-cuda"
KINDS = (SAME, DIFFERENT, REFUSED, REFUSED_BY_CUDA, UNDETERMINED)
FAULTS = (DIFFERENT, REFUSED, UNDETERMINED)
_numbers = itertools.count()


@dataclass(frozen=True)
class Outcome:
    """Outcome of a kernel: one of ``KINDS``, a description, and the kernel."""

    seed: int
    kind: str
    detail: str
    text: str


def examine(seed: int, folder: Path, targets: Sequence[str] = (CPU,)) -> Outcome:
    """Run the kernel of a seed with numba-cuda's compilation and for each target. Its source is written to the folder.

    Targets are ``CPU``, the CPU backend, and ``GPU``: what the Numba CUDA backend makes of it, on the host.
    """
    generator = Generator(seed)
    return _examined(generator, generator.text(), folder, targets)


def _examined(generator: Generator, text: str, folder: Path, targets: Sequence[str]) -> Outcome:
    module = _imported(text, folder)
    blocks, threads = generator.launch()
    expected, turned = (generator.arguments(module.RECORD) for _ in range(2))
    try:
        kernel = HostKernel(module.kernel, expected)
    except (NumbaError, CudaError, NotImplementedError) as error:
        return Outcome(generator.seed, REFUSED_BY_CUDA, str(error), text)
    kernel.launch(blocks, threads, expected)
    kernel.launch(blocks, threads, turned, falling=True)
    if detail := _difference(generator.parameters, expected, turned):
        return Outcome(generator.seed, UNDETERMINED, detail, text)
    for target in targets:
        found = generator.arguments(module.RECORD)
        try:
            if target == GPU:
                launch_gpu_code(module.kernel, blocks, threads, found)
            else:
                wd.kernel(module.kernel)[blocks, threads](*found)
        except WarpDriveError as error:
            return Outcome(generator.seed, REFUSED, f"{target}: {error}", text)
        if detail := _difference(generator.parameters, expected, found):
            return Outcome(generator.seed, DIFFERENT, f"{target}: {detail}", text)
    return Outcome(generator.seed, SAME, "", text)


class OnGpu:
    """An array as if it were on a GPU."""

    def __init__(self, array: np.ndarray) -> None:
        self.dtype = array.dtype
        self.__cuda_array_interface__ = {**array.__array_interface__, "version": 3}


def launch_gpu_code(
    function: Any, blocks: Any, threads: Any, arguments: Sequence[Any], compile_ptx: bool = False
) -> str:
    """Run the GPU code of the Numba CUDA backend on the host; return its PTX if it is compiled, too."""
    resolved, taken, given = _of_gpu(function, arguments)
    with llvm_modules(compile_ptx) as modules:
        ptx = str(_gpu_code(resolved, taken).ptx)
    words = read_all(taken, given)
    assert words is not None
    HostCode(modules).run(blocks, threads, [part for word in words for part in words_of(word)])
    return ptx


def ptx_of(function: Any, arguments: Sequence[Any]) -> str:
    """Return the PTX of the Numba CUDA backend for a kernel."""
    resolved, taken, _ = _of_gpu(function, arguments)
    return str(_gpu_code(resolved, taken).ptx)


def _of_gpu(function: Any, arguments: Sequence[Any]) -> tuple[Any, list[Any], list[Any]]:
    """Return a kernel for arrays on a GPU, the arguments as the backend takes them, and their values."""
    kernel = wd.kernel(function)
    given = [OnGpu(value) if isinstance(value, np.ndarray) else value for value in arguments]
    named = dict(zip(kernel.parameters, given, strict=True))
    baked = baked_values(kernel, named)
    taken = [argument(name, value, "kernel") for name, value in named.items() if name not in baked]
    resolved = resolved_for(kernel, baked, {known.parameter.name: known.parameter.kind for known in taken})
    return resolved, taken, [named[known.parameter.name] for known in taken]


def _gpu_code(resolved: Any, taken: Sequence[Any]) -> Any:
    with patch.object(gpu, "link", lambda ptx, capability: (b"", None)):
        return gpu._compile("", resolved, [known.parameter for known in taken], None, CAPABILITY)


def shrunk(outcome: Outcome, folder: Path, targets: Sequence[str] = (CPU,)) -> Outcome:
    """Return a kernel with as few of the statements as have the same kind of outcome."""
    generator, best = Generator(outcome.seed), outcome
    generator.text()  # its arguments and its launch depend on nothing else
    while True:
        for text in _with_a_statement_less(best.text):
            try:
                tried = _examined(generator, text, folder, targets)
            except Exception:  # without the statement it means nothing
                continue
            if tried.kind == outcome.kind:
                best = tried
                break
        else:
            return best


def _with_a_statement_less(text: str) -> Iterator[str]:
    """Yield a module's text without one statement of a function, or with a branch in the place of an ``if``."""
    whole = ast.parse(text)
    count = sum(len(body) for body in _bodies(whole))
    for number in range(count):
        tree = ast.parse(text)
        place = number
        for body in _bodies(tree):
            if place < len(body):
                if len(body) == 1:
                    break
                del body[place]
                yield ast.unparse(tree)
                break
            place -= len(body)


def _bodies(tree: ast.Module) -> Iterator[list[ast.stmt]]:
    for function in tree.body:
        if isinstance(function, ast.FunctionDef):
            for node in ast.walk(function):
                for field in ("body", "orelse"):
                    statements = getattr(node, field, None)
                    if isinstance(statements, list) and statements:
                        yield statements


def _difference(names: Sequence[str], expected: Sequence[Any], found: Sequence[Any]) -> str:
    """Say where arguments differ after a launch, and how; nothing if they do not. ``near`` need only be close."""
    said = []
    for name, first, second in zip(names, expected, found, strict=True):
        if not isinstance(first, np.ndarray):
            continue
        for field in first.dtype.names or [...]:
            a, b = first[field], second[field]
            same = (a == b) | ((a != a) & (b != b))
            if name == "near":
                same |= np.isclose(a, b, rtol=1e-6)
            for place in np.argwhere(~same)[:2]:
                where = tuple(map(int, place))
                label = name if field is ... else f"{name}.{field}"
                said.append(f"{label}{list(where)}: {a[where]!r} expected, found {b[where]!r}")
    return "\n".join(said)


def _imported(text: str, folder: Path) -> ModuleType:
    """Import a kernel from a file, from which its source is read."""
    path = folder / f"generated_kernel_{os.getpid()}_{next(_numbers)}.py"
    path.write_text(text)
    specification = importlib.util.spec_from_file_location(path.stem, path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[path.stem] = module
    specification.loader.exec_module(module)
    return module
