"""Compilation of fused CUDA C with the machine's C++ compiler, and execution on its cores.

The threads of a replica run in sequence on one stack. If one waits at a barrier, the next starts on another stack, and
a switch takes a dozen instructions; if none waits, there is no switch. The fused step's own barriers are free: the code
between two of them is a loop over the threads. A thread finds its replica and agent by rounding its stack pointer,
since access to a thread-local variable of a shared library costs a call. A barrier that some threads do not reach is an
error here; on a GPU, they would silently synchronise with the others at the next barrier of the fused step.
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from warpdrive.backends.host.workers import launch_on_all_cores, parts_of
from warpdrive.backends.pycuda.arguments import argument_bytes
from warpdrive.backends.pycuda.generate import GENERATED, HOST_ENTRY, LIBRARY, FusedSource, host_source, packing_of
from warpdrive.backends.pycuda.messages import compile_error
from warpdrive.backends.shared import cache
from warpdrive.backends.system_info import CXX_COMPILERS
from warpdrive.errors import BackendError
from warpdrive.kernels.errors import KernelError
from warpdrive.kernels.fusion import Fusion

FLAGS = (
    *("-std=c++17", "-O2", "-shared", "-fPIC", "-w", "-x", "c++"),
    *("-ffp-contract=off", "-fno-strict-aliasing", "-fno-math-errno"),
    f"-I{LIBRARY / 'host' / 'include'}",
)
"""Compiler flags. Contraction of products and sums is off, as it would change results between backends."""

_TEXT_BYTES = 1020
_LIBRARY = "fused_step.so"


def bind_on_host(fusion: Fusion, arguments: Mapping[str, Any], replicas: int, agents: int) -> Callable[[], None]:
    """See ``Backend.bind``. The function raises :class:`KernelError` if not all threads of a replica reach a barrier.

    Raises:
        KernelError: If the kernel cannot be compiled.
        BackendError: If there is no compiler.
    """
    source = host_source(fusion, arguments, replicas, packing_of(agents))
    library = load_for_host(source)
    entry = ctypes.cast(getattr(library, HOST_ENTRY), ctypes.c_void_p).value
    assert entry is not None
    return _Launch(library, entry, argument_bytes(arguments, replicas), arguments, replicas).run


class _Launch:
    """Compiled kernel with its arguments and its buffer for errors."""

    def __init__(
        self, library: ctypes.CDLL, entry: int, words: bytes, arguments: Mapping[str, Any], replicas: int
    ) -> None:
        self._keep = library, dict(arguments)
        self._failure = np.zeros(4 + _TEXT_BYTES, np.uint8)
        self._work = np.frombuffer(words + int(self._failure.ctypes.data).to_bytes(8, "little"), np.uint8).copy()
        self._run = launch_on_all_cores(entry, int(self._work.ctypes.data), parts_of(replicas))

    def run(self) -> None:
        """Run all replicas. Raises :class:`KernelError` if the kernel reported an error."""
        self._run()
        if self._failure[0]:
            text = self._failure[4:].tobytes().partition(b"\0")[0].decode(errors="replace")
            self._failure[:] = 0
            raise KernelError(text)


def load_for_host(source: FusedSource) -> ctypes.CDLL:
    """Return the shared library of a fused kernel, compiled now or loaded from the cache."""
    compiler = host_compiler()
    key = cache.key_of(source.text, *source.included, _version(compiler), platform.machine(), *FLAGS)
    with cache.one_process_at_a_time(key, f"kernel {source.name}"):
        if cache.is_stored(key):
            try:
                return _load(key)
            except OSError:  # the stored library is damaged
                cache.discard(key)
        cache.store(key, {_LIBRARY: _compile(compiler, source)})
        return _load(key)


def _load(key: str) -> ctypes.CDLL:
    return ctypes.CDLL(str(cache.path(key, _LIBRARY)))


def _compile(compiler: str, source: FusedSource) -> bytes:
    """Return a shared library. Raises :class:`KernelError` with the author's file and line."""
    with tempfile.TemporaryDirectory(prefix="warpdrive-") as folder:
        file, library = Path(folder) / GENERATED, Path(folder) / _LIBRARY
        file.write_text(source.text, encoding="utf-8")
        includes = [f"-I{included}" for included in source.folders]
        command = [compiler, *FLAGS, *_flags_of(compiler), *includes, str(file), "-o", str(library)]
        outcome = subprocess.run(
            command, capture_output=True, text=True, errors="replace", env={**os.environ, "LC_ALL": "C"}
        )
        if outcome.returncode != 0:
            raise compile_error(outcome.stderr, source.authors)
        return library.read_bytes()


def host_compiler() -> str:
    """Return the path of the C++ compiler: ``$CXX``, or the first of the usual ones.

    Raises :class:`BackendError` if there is none.
    """
    wanted = os.environ.get("CXX")
    for name in [wanted] if wanted else CXX_COMPILERS:
        found = shutil.which(name)
        if found:
            return found
    missing = (
        f"CXX is '{wanted}', which is not a program" if wanted else f"none of {', '.join(CXX_COMPILERS)} was found"
    )
    raise BackendError(
        f"CUDA C on the host (WARPDRIVE_CUDA_ON_HOST) needs a C++ compiler: {missing}; install one, such as the "
        "package g++, or set CXX"
    )


def _flags_of(compiler: str) -> list[str]:
    """Return the flags with which this compiler reports errors in macros at their use, as other compilers do."""
    return [] if "clang" in _version(compiler) else ["-ftrack-macro-expansion=0"]


@functools.cache
def _version(compiler: str) -> str:
    outcome = subprocess.run([compiler, "--version"], capture_output=True, text=True, errors="replace")
    return f"{compiler} {outcome.stdout}"
