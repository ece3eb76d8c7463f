"""Compilation of device functions that several kernels have."""

from __future__ import annotations

import gc

import numba

from warpdrive.backends.host.compiler import FunctionCompiler


def test_shared_code_outlives_the_function_that_it_was_compiled_for():
    def compiled():
        return numba.njit(lambda x: x * 3 + 1, pipeline_class=FunctionCompiler, _nrt=False, no_cpython_wrapper=True)

    first = compiled()
    second = compiled()
    first.compile((numba.int64,))
    second.compile((numba.int64,))
    del first
    gc.collect()
    assert numba.njit(lambda x: second(x) - 1)(4) == 12
