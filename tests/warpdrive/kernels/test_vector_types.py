"""Vector types of ``numba.cuda``: construction, components, device functions and barriers."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda, types

import warpdrive as wd
from warpdrive.kernels.kernel import kernel_from_source
from warpdrive.kernels.libraries import VECTOR_ALIASES, VECTORS


@pytest.mark.parametrize("base", sorted({base for base, _ in VECTORS.values()}))
def test_constructors_take_numbers_and_shorter_vectors(base):
    one, two, three, four = (getattr(cuda, f"{base}x{count}") for count in range(1, 5))
    number = getattr(types, base)

    @cuda.jit
    def kernel(out):
        a = one(number(1))
        b = two(number(2), number(3))
        c = three(b, a)
        d = four(number(4), c)
        same = (one(a), two(a, number(3)), three(number(1), b), four(b, a, a), four(b, b), four(c, a), four(d))
        out[0] = same[0].x
        out[1], out[2] = same[1].x, same[1].y
        out[3], out[4], out[5] = same[2].x, same[2].y, same[2].z
        place = 6
        for v in (same[3], same[4], same[5], same[6], four(1.0, 2, True, a)):
            out[place], out[place + 1], out[place + 2], out[place + 3] = v.x, v.y, v.z, v.w
            place += 4

    expected = [1, *(1, 3), *(1, 2, 3), *(2, 3, 1, 1), *(2, 3, 2, 3), *(2, 3, 1, 1), *(4, 2, 3, 1), *(1, 2, 1, 1)]
    for run in (wd.kernel, wd.debug):
        out = np.zeros(26, base)
        run(kernel)[1, 1](out)
        assert out.tolist() == expected


def test_names_of_cuda_c():
    for alias, name in VECTOR_ALIASES.items():
        assert getattr(cuda, alias) is getattr(cuda, name)


@cuda.jit
def cross(a, b):
    return cuda.float3(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x)


@cuda.jit
def swapped(shared, v, i):
    shared[i] = v.x
    cuda.syncthreads()
    return cuda.float64x2(shared[i ^ 1], v.y)


@cuda.jit
def across_barriers(a, b, out):
    shared = cuda.shared.array(4, np.float64)
    i = cuda.grid(1)
    u = cuda.float32x3(a[i, 0], a[i, 1], a[i, 2])
    v = cuda.float32x3(cuda.float32x2(b[i, 0], b[i, 1]), b[i, 2])
    w = cross(u, v)
    other = swapped(shared, cuda.double2(w.x, w.y), i)
    best = u if i % 2 == 0 else v
    cuda.syncthreads()
    out[i, 0], out[i, 1], out[i, 2] = other.x, other.y, w.z
    out[i, 3] = best.x


@pytest.mark.parametrize("run", [wd.kernel, wd.debug])
def test_vectors_in_functions_branches_and_across_barriers(run):
    a, b = np.random.default_rng(1).standard_normal((2, 4, 3)).astype(np.float32)
    out = np.zeros((4, 4))
    run(across_barriers)[1, 4](a, b, out)
    product = np.cross(a, b)
    expected = np.stack([product[[1, 0, 3, 2], 0], product[:, 1], product[:, 2]], 1)
    np.testing.assert_allclose(out[:, :3], expected, 1e-5, 1e-6)
    np.testing.assert_array_equal(out[:, 3], np.where(np.arange(4) % 2 == 0, a[:, 0], b[:, 0]))
    assert wd.check_launch(across_barriers, 1, 4, a, b, out).clean


def test_components_are_converted():
    @cuda.jit
    def kernel(out):
        v = cuda.uchar4(300, -1, 2.9, 7)
        out[0], out[1], out[2], out[3] = v.x, v.y, v.z, v.w

    for run in (wd.kernel, wd.debug):
        out = np.zeros(4, np.int32)
        run(kernel)[1, 1](out)
        assert out.tolist() == [44, 255, 2, 7]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cuda.float3(1.0, 2.0)", r"cuda.float32x3 takes 3 components: numbers, and vectors of float32, found"),
        ("cuda.float2(cuda.int2(1, 2))", r"cuda.float32x2 takes 2 components"),
        ("cuda.float3(1.0, 2.0, 3.0).w", r"is float32x3, which has no 'w'"),
        ("cuda.float5(1.0)", r"cuda.float5 is not part of the kernel language"),
    ],
)
def test_mistakes(text, message):
    kernel = kernel_from_source(f"def kernel(out):\n    v = {text}\n    out[0] = v.x\n", "kernel", {"cuda": cuda})
    with pytest.raises(wd.KernelError, match=message):
        kernel[1, 1](np.zeros(4))
