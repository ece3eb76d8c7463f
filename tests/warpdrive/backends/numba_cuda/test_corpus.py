"""Kernels as the field writes them become GPU code, with the blocks and threads of their authors.

Every fourth one of the corpus, as compilation takes long: ``test_gpu.py`` runs all of them on a GPU. `make test`
compiles every twentieth, which ``tests/warpdrive/kernels/test_corpus.py`` compiles for the CPU, too.
"""

from __future__ import annotations

import numpy as np
import pytest
from corpus import CASES
from exhaustive import exhaustive
from oracle import OnGpu

import warpdrive as wd
from warpdrive.backends.numba_cuda.arguments import argument
from warpdrive.backends.numba_cuda.compile import compile_kernel
from warpdrive.backends.shared.arguments import baked_values, resolved_for


def compiled(kernel, arguments):
    """Compile a kernel for arrays and numbers such as these."""
    arguments = [OnGpu(value) if isinstance(value, np.ndarray) else value for value in arguments]
    named = dict(zip(kernel.parameters, arguments, strict=True))
    baked = baked_values(kernel, named)
    parameters = [argument(name, named[name], "of the corpus").parameter for name in named if name not in baked]
    resolved = resolved_for(kernel, baked, {parameter.name: parameter.kind for parameter in parameters})
    return compile_kernel(resolved, parameters, None, (9, 0))


@pytest.mark.parametrize("case", exhaustive(CASES[::4], CASES[::20]), ids=[case.name for case in CASES[::4]])
def test_compiles(case):
    def launch(kernel, blocks, threads, *arguments, shared=0):
        kernel = wd.kernel(kernel)
        assert compiled(kernel, arguments).image[:4] == b"\x7fELF"
        kernel[blocks, threads, 0, shared](*arguments)

    case.run(launch)
