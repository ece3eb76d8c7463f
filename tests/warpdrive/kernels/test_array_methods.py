"""Attributes, methods and ways to index arrays, for arrays of every layout; allocations are refused."""

from __future__ import annotations

import cmath
import inspect

import numpy as np
import pytest
from numba import cuda, float32

import warpdrive as wd
from warpdrive.checks.checked_interpreter import CheckedInterpreter
from warpdrive.checks.grid import Grid
from warpdrive.checks.null_log import NullLog

ROWS = np.arange(32, dtype=np.float32).reshape(8, 4)
UNIT = np.complex64(1 + 2j)


def attributes(m, out):
    i = cuda.grid(1)
    height, width = m.shape
    zero = m.dtype.type(0)
    zero += m[i, 0]
    out[i] = height * width + m.ndim + m.size * 10 + m.itemsize + m.strides[0] + len(m) + m.nbytes + zero


def flat(m, out):
    i = cuda.grid(1)
    out[i] = m.flat[i + 5] + m.flat[0]
    for value in m.flat:
        out[i] += value


def turned(m, out):
    i = cuda.grid(1)
    across, other = m.T, m.transpose()
    cuda.syncthreads()
    out[i] = across[1, i] + 100 * other[2, i] + across.shape[0]


def reshaped(m, out):
    i = cuda.grid(1)
    line, wide, tall = m.reshape(32), m.reshape((4, 8)), m.reshape(-1, 2)
    bits = m.view(np.int32)
    out[i] = line[i] + wide[1, i] + tall[i + 8, 1] + bits[i, 0] // 2**20


def parts(m, out):
    i = cuda.grid(1)
    a, b, c, d = m[1:7:2, ::-1], m[..., 1], m[i, ...], m[-3:, 1:]
    e, f = m[np.newaxis, i], m[:, None, 2]
    place = (i, 2)
    cuda.syncthreads()
    out[i] = a[i % 3, i % 4] + b[i] + c[2] + d[i % 3, 1] + a.shape[0] * 100 + e[0, 1] + f[i, 0] + m[place]


def iterated(m, out):
    i = cuda.grid(1)
    total = 0.0
    for row in m:
        total += row[1]
    for k, value in enumerate(m[i]):
        total += k * value
    for first, second in zip(m[i], m[0]):  # noqa: B905
        total += first * second
    for row, column in np.ndindex(m.shape):
        total += m[row, column] * row
    for (_, column), value in np.ndenumerate(m):
        total += value * column
    out[i] = total + np.sum(m[i])
    if i in m[0] or i in (5, 6):
        out[i] += 1000


def filled(m, out):
    i = cuda.grid(1)
    own = cuda.local.array(4, float32)
    own[:] = 1
    own[::2] = i
    cuda.syncthreads()
    own[:2] = m[i, 0]
    out[i] = own[0] + 10 * own[1] + 100 * own[2] + 1000 * own[3]


def run(kernel, *arguments):
    """Launch a kernel of one block of 8 threads; compare with ``wd.debug`` and the machine of the checks."""
    given, debugged, checked = ([argument.copy() for argument in arguments[1:]] for _ in range(3))
    wd.kernel(kernel)[1, 8](arguments[0], *given)
    wd.debug(kernel)[1, 8](arguments[0], *debugged)
    grid = Grid.of(1, 8)
    named = zip(inspect.signature(kernel).parameters, [arguments[0], *checked], strict=True)
    CheckedInterpreter(wd.kernel(kernel).source, grid, NullLog(grid)).check(dict(named))
    for found, *expected in zip(given, debugged, checked, strict=True):
        for other in expected:
            np.testing.assert_allclose(found, other, rtol=1e-6)
    return given[-1]


def expected_of(kernel):
    i, m = np.arange(8), ROWS.astype(np.float64)
    line = m.ravel()
    return {
        attributes: 32 + 2 + 320 + 4 + 16 + 8 + 128 + m[:, 0],
        flat: line[i + 5] + line[0] + line.sum(),
        turned: m[:, 1] + 100 * m[:, 2] + 4,
        reshaped: line[i] + line[8 + i] + line[2 * i + 17] + ROWS.view(np.int32)[:, 0] // 2**20,
        parts: m[1:7:2, ::-1][i % 3, i % 4] + m[:, 1] + m[:, 2] + m[5 + i % 3, 2] + 300 + m[:, 1] + 2 * m[:, 2],
        iterated: m[:, 1].sum()
        + m @ np.arange(4)
        + m @ m[0]
        + (m.sum(1) * i).sum()
        + (m.sum(0) * np.arange(4)).sum()
        + m.sum(1)
        + 1000 * (i < 4)
        + 1000 * ((i == 5) | (i == 6)),
        filled: m[:, 0] * 11 + 100 * i + 1000,
    }[kernel]


@pytest.mark.parametrize(
    "kernel", [attributes, flat, turned, reshaped, parts, iterated, filled], ids=lambda kernel: kernel.__name__
)
def test_arrays_have_what_those_of_numba_cuda_have(kernel):
    np.testing.assert_allclose(run(kernel, ROWS, np.zeros(8)), expected_of(kernel))


def test_flat_is_in_the_order_of_the_indices_whatever_the_memory():
    wide = np.zeros((8, 8), np.float32)
    wide[:, ::2] = ROWS
    for array in (wide[:, ::2], np.asfortranarray(ROWS)):
        np.testing.assert_allclose(run(flat, array, np.zeros(8)), expected_of(flat))


def of_unusual_layouts(reversed_, skipping, turned, same, one, none, out):
    i = cuda.grid(1)
    out[i] = (
        reversed_[i] + skipping[i, 1] + turned[1, i] + same[i] + one[()] + none.shape[1] + len(none) + same.strides[0]
    )
    for row in none:
        out[i] += row[0] + 100


def test_arrays_of_unusual_layouts():
    same, one = np.broadcast_to(np.float32(3), 8), np.array(2.0)
    one.flags.writeable = False
    given = [ROWS[::-1, 0], ROWS[:, ::-2], ROWS.T, same, one, np.zeros((0, 3)), np.zeros(8)]
    wd.kernel(of_unusual_layouts)[1, 8](*given)
    np.testing.assert_array_equal(given[-1], ROWS[::-1, 0] + ROWS[:, 1] + ROWS[:, 1] + 3 + 2 + 3)
    debugged = np.zeros(8)
    wd.debug(of_unusual_layouts)[1, 8](*given[:-1], debugged)
    np.testing.assert_array_equal(debugged, given[-1])
    assert not wd.check_launch(of_unusual_layouts, 1, 8, *given).bounds


def characters(words, letters, out):
    i = cuda.grid(1)
    if words[i] == words[1]:
        out[i] = 1
    if words[i] == b"abcd":
        out[i] = 2
    out[i] += 10 * len(letters[i])


def test_characters_are_compared():
    words = np.array([b"ab", b"c", b"abcd", b"c"] * 2, "S4")
    letters = np.array(["", "a", "bc", "def"] * 2)
    out = np.zeros(8)
    wd.kernel(characters)[1, 8](words, letters, out)
    assert out.tolist() == [0, 11, 22, 31] * 2


def complex_numbers(a, b, out):
    i = cuda.grid(1)
    z = a[i]
    w = z * UNIT + np.complex64(2) - z.conjugate()
    b[i] = cmath.exp(z) / (2 + 4j) + cmath.sqrt(z) + complex(1, i) + w**2
    out[i, 0] = z.real + 10 * z.imag + abs(z) + cmath.phase(z)
    out[i, 1] = a.real[i] + a.imag[i] + (w == z) + (-w != w)
    out[i, 2], out[i, 3] = cmath.polar(w)


def test_complex_numbers_and_their_functions():
    a = (np.arange(8) * (0.25 + 0.5j)).astype(np.complex64)
    b, out = np.zeros(8, np.complex128), np.zeros((8, 4))
    run(complex_numbers, a, b, out)
    wd.kernel(complex_numbers)[1, 8](a, b, out)
    w = a * UNIT + np.complex64(2) - a.conjugate()
    np.testing.assert_allclose(b, np.exp(a) / (2 + 4j) + np.sqrt(a) + 1 + 1j * np.arange(8) + w**2, rtol=1e-5)
    np.testing.assert_allclose(out[:, 0], a.real + 10 * a.imag + abs(a) + np.angle(a), rtol=1e-5)
    np.testing.assert_allclose(out[:, 1], a.real + a.imag + 1, rtol=1e-5)
    np.testing.assert_allclose(out[:, 2:], np.stack([abs(w), np.angle(w)], 1), rtol=1e-5)


def adds_arrays(m, out):
    total = m[0] + m[1]  # here
    out[0] = total[0]


def copies_a_part(m, out):
    row = out
    row[:] = m[:, 0]  # here


def adds_to_a_part(m, out):
    out[:] += m[0, 0]  # here


def makes_an_array(m, out):
    zeros = np.zeros(3)  # here
    out[0] = zeros[0]


def unravels(m, out):
    out[0] = m.ravel()[3]  # here


LOOP = "allocates memory.*: compute and assign element by element, in a loop"


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        (adds_arrays, LOOP),
        (copies_a_part, LOOP),
        (adds_to_a_part, LOOP),
        (makes_an_array, "np.zeros allocates an array: use cuda.local.array or cuda.shared.array"),
        (unravels, "may copy the array, and a kernel cannot allocate memory: use reshape"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_takes_new_memory_is_refused_with_its_line(kernel, said):
    lines, first = inspect.getsourcelines(kernel)
    line = first + next(number for number, text in enumerate(lines) if "# here" in text)
    with pytest.raises(wd.KernelError, match=rf"test_array_methods.py:{line}: .*{said}"):
        wd.kernel(kernel)[1, 8](ROWS, np.zeros(8))


def test_checks_refuse_to_compute_with_whole_arrays():
    with pytest.raises(wd.KernelError, match=r"test_array_methods.py:\d+: .*element by element, in a loop"):
        wd.check_launch(adds_arrays, 1, 1, ROWS, np.zeros(8))
