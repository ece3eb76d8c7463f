"""libdevice, ``cuda.fp16``, float16 and vector types in GPU code: compiled for a GPU, and run on the host."""

from __future__ import annotations

import math

import numpy as np
from numba import cuda
from numba.cuda import fp16, libdevice
from oracle import launch_gpu_code, ptx_of

import warpdrive as wd
from warpdrive.backends.cuda.linker import link
from warpdrive.kernels.kernel import kernel_from_source
from warpdrive.kernels.libraries import FUNCTIONS


def test_all_functions_of_fp16_are_instructions():
    """Ptxas accepts the code, which needs no functions of CUDA C++ and leaves no product and sum to be contracted."""
    kinds = sorted({kind for path, types in FUNCTIONS.items() if path.startswith("fp16") for kind in "".join(types)})
    names = {kind: f"array_{place}" for place, kind in enumerate(kinds)}
    lines = [f"def kernel({', '.join(names.values())}):"]
    for place, (path, (results, arguments)) in enumerate(FUNCTIONS.items()):
        if path.startswith("fp16"):
            given = ", ".join(f"{names[kind]}[{number}]" for number, kind in enumerate(arguments))
            lines.append(f"    {names[results]}[{place}] = {path}({given})")
    kernel = kernel_from_source("\n".join(lines) + "\n", "kernel", {"fp16": fp16})
    ptx = ptx_of(kernel, [np.zeros(4, kind) for kind in kinds])
    assert "extern" not in ptx and "mul.f16" not in ptx and "add.f16" not in ptx
    for instruction in (
        "mul.rn.f16",
        "add.rn.f16",
        "fma.rn.f16",
        "cvt.rm.f16.f32",
        "cvt.rpi.s32.f16",
        "cvt.rz.f16.u64",
    ):
        assert instruction in ptx
    link(ptx, (9, 0))


@cuda.jit
def of_libdevice(x, out, n):
    i = cuda.grid(1)
    mantissa, exponent = libdevice.frexpf(x[i])
    sine, cosine = libdevice.sincos(x[i])
    corner = cuda.float2(libdevice.cbrtf(x[i]), mantissa)
    cuda.syncthreads()
    both = cuda.double3(sine, cuda.double2(cosine, corner.y))
    n[i] = exponent
    out[i] = both.x + 2 * both.y + 4 * both.z + corner.x


def test_libdevice_and_vectors_do_the_same():
    x = np.linspace(0.1, 9, 8, dtype=np.float32)
    expected, found = ((np.zeros(8), np.zeros(8, np.int32)) for _ in range(2))
    wd.kernel(of_libdevice)[2, 4](x, *expected)
    launch_gpu_code(of_libdevice, 2, 4, [x, *found])
    np.testing.assert_allclose(found[0], expected[0], 1e-6)
    np.testing.assert_array_equal(found[1], expected[1])


@cuda.jit
def of_half(x, single, half):
    i = cuda.grid(1)
    single[0, i] = x[i] ** 2
    single[1, i] = math.tan(x[i])
    half[i] = math.sqrt(x[i]) + abs(x[i]) + math.sin(x[i]) - math.floor(x[i])


def test_functions_of_float16_have_the_same_types():
    x = np.linspace(0, 3, 8).astype(np.float16)
    expected, found = ((np.zeros((2, 8), np.float32), np.zeros(8, np.float16)) for _ in range(2))
    wd.kernel(of_half)[1, 8](x, *expected)
    launch_gpu_code(of_half, 1, 8, [x, *found])
    np.testing.assert_allclose(found[0], expected[0], 2e-7)
    np.testing.assert_array_equal(found[1], expected[1])
    ptx = ptx_of(of_libdevice, [x.astype(np.float32), np.zeros(8), np.zeros(8, np.int32)])
    assert "extern" not in ptx
