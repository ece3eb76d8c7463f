"""Kernels as the field writes them become GPU code, with the blocks and threads of their authors."""

from __future__ import annotations

import numpy as np
import pytest
from corpus import CASES

import warpdrive as wd
from warpdrive.backends.arguments import ArgumentKind, baked_values, resolved_for
from warpdrive.backends.numba_cuda.compile import compile_kernel
from warpdrive.backends.numba_cuda.parameters import Parameter
from warpdrive.kernels.compile_time import shape_parameters, unassigned_parameters
from warpdrive.kernels.dtypes import dtype_text


def compiled(kernel, arguments):
    """Compile a kernel for the kinds of its arguments: arrays, numbers and None."""
    named = dict(zip(kernel.parameters, arguments, strict=True))
    source = kernel.source
    baked = baked_values(kernel, named, sorted(shape_parameters(source)), unassigned_parameters(source))
    parameters = [parameter(name, value) for name, value in named.items() if name not in baked]
    resolved = resolved_for(kernel, baked, {known.name: known.kind for known in parameters})
    return compile_kernel(resolved, parameters, None, (9, 0))


def parameter(name, value):
    dtype, rank = dtype_text(np.asarray(value).dtype), np.ndim(value)
    if not isinstance(value, np.ndarray):
        return Parameter(name, ArgumentKind(dtype, None))
    layout = "C" if value.flags.c_contiguous else "F" if value.flags.f_contiguous else "A"
    return Parameter(name, ArgumentKind(dtype, rank, layout, not value.flags.writeable), (None,) * rank)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_compiles(case):
    def launch(kernel, blocks, threads, *arguments, shared=0):
        kernel = wd.kernel(kernel)
        assert compiled(kernel, arguments).image[:4] == b"\x7fELF"
        kernel[blocks, threads, 0, shared](*arguments)

    case.run(launch)
