"""Python that kernels may use beside arithmetic: exceptions, lambdas, loops over things that are no range."""

from __future__ import annotations

import importlib.util
import inspect
import operator
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from forked_programs import ForkedProgram
from numba import cuda

import warpdrive as wd

double = lambda x: 2 * x  # noqa: E731
both = (lambda x: x + 1, lambda x: x - 1)
add_one = both[0]


def with_lambdas(values, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = double(values[i]) + add_one(values[i]) * 100


def of_operator(operation):
    @cuda.jit
    def kernel(values, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = operation(values[i], 3)

    return kernel


def dimensions_by_other_names(values, out):
    thread = cuda.threadIdx
    block, size = cuda.blockIdx, cuda.blockDim
    i = thread.x + cuda.blockIdx.x * cuda.blockDim.x
    cuda.syncthreads()
    if i < out.size:
        out[i] = thread.x * 10 + block.x * 100 + size.x


LIMIT = 50


def asserts_beside_what_is_kept(values, out):
    global LIMIT
    i = cuda.threadIdx.x
    assert values[0] < LIMIT
    total = 0.0
    if values[i] == 0:
        total -= 1
    if values[i] > LIMIT:
        raise ValueError
    cuda.syncthreads()
    out[i] = total + LIMIT


def bin_of(value):
    if value > 5:
        return None
    return int(value)


def histogram(values, out):
    i = cuda.grid(1)
    place = bin_of(values[i])
    if place is not None and place < out.size:
        cuda.atomic.add(out, place, 1)


def with_barrier(value, shared):
    shared[cuda.threadIdx.x] = value
    cuda.syncthreads()
    return shared[(cuda.threadIdx.x + 1) % cuda.blockDim.x]


STEPS = (1, 2, 4)


def over_sequences(values, out):
    i, n = cuda.threadIdx.x, cuda.blockDim.x
    memory = cuda.shared.array(16, np.int64)
    total = values[i]
    for step in STEPS:
        memory[i] = total
        cuda.syncthreads()
        total += memory[(i + step) % n]
        cuda.syncthreads()
    for value in values:
        total += with_barrier(value * i, memory)
        if total > 500:
            break
        cuda.syncthreads()
    for low, high in ((1, 2), (3, 4)):
        cuda.syncthreads()
        total += low * 1000 + high
    out[i] = total


def loops_with_else(values, out):
    i = cuda.threadIdx.x
    found = -1
    for k in range(4):
        cuda.syncthreads()
        if values[k] > values[i]:
            found = k
            break
    else:
        cuda.syncthreads()
        found = 100
    left = 3
    while left > 0:
        left -= 1
        cuda.syncthreads()
        if values[i] == left:
            break
    else:
        found += 1000
    out[i] = found


def returns_from_a_loop(values, out):
    i = cuda.threadIdx.x
    out[i] = first_above(values, i)


def first_above(values, i):
    for k in range(4):
        cuda.syncthreads()
        if values[k] > values[i]:
            return k
    else:
        cuda.syncthreads()
        return 100


def raises(values, out):
    i = cuda.grid(1)
    if values[i] > limit_of(i):
        raise ValueError("too large", 7)  # here
    out[i] = values[i]


def limit_of(i):
    if i > 1000:
        raise IndexError
    return 5


class Limits:
    MESSAGE = "beyond"


def raises_a_member(values, out):
    if values[0] > 5:
        raise ValueError(Limits.MESSAGE)
    assert values[0] != 3, Limits.MESSAGE


@pytest.mark.parametrize("made", [wd.kernel, wd.debug], ids=["kernel", "debug"])
def test_lambdas_are_device_functions(made):
    values, out = np.arange(10), np.zeros(10, np.int64)
    made(with_lambdas)[1, 16](values, out)
    np.testing.assert_array_equal(out, 2 * values + (values + 1) * 100)


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (lambda x, y: x * y, np.arange(10) * 3),
        (cuda.jit(lambda x, y: x - y), np.arange(10) - 3),
        pytest.param(max, np.maximum(np.arange(10), 3), marks=pytest.mark.exhaustive),
        (np.power, np.arange(10) ** 3),
        pytest.param(operator.floordiv, np.arange(10) // 3, marks=pytest.mark.exhaustive),
    ],
    ids=["lambda", "jitted", "builtin", "ufunc", "operator"],
)
def test_kernels_are_made_with_functions(operation, expected):
    out = np.zeros(10, np.int64)
    wd.kernel(of_operator(operation))[1, 16](np.arange(10), out)
    np.testing.assert_array_equal(out, expected)


def test_two_lambdas_that_cannot_be_told_apart():
    k = len("a closure's variable")
    first, _second = (lambda x: x + k), (lambda x: x - k)
    with pytest.raises(wd.KernelError, match=r"test_language.py:\d+: the lambdas on this line cannot be distinguished"):
        wd.kernel(of_operator(lambda x, y: first(x)))[1, 16](np.arange(10), np.zeros(10, np.int64))


@pytest.mark.parametrize("kernel", [over_sequences, loops_with_else, returns_from_a_loop], ids=lambda k: k.__name__)
def test_loops_with_barriers(check, kernel):
    values = np.array([1, 3, 0, 2, 7, 5, 1, 2], np.int64)
    _, out = check(kernel, 1, 8, values, np.zeros(8, np.int64), uniform=False)
    debugged = np.zeros(8, np.int64)
    wd.debug(kernel)[1, 8](values, debugged)
    np.testing.assert_array_equal(out, debugged)
    assert len(set(out.tolist())) > 2


@pytest.mark.parametrize("made", [wd.kernel, wd.debug], ids=["kernel", "debug"])
def test_dimensions_by_other_names(made):
    out = np.zeros(10, np.int64)
    made(dimensions_by_other_names)[3, 4](out, out)
    i = np.arange(10)
    np.testing.assert_array_equal(out, i % 4 * 10 + i // 4 * 100 + 4)


ASSERTING = """
import numpy as np
import warpdrive as wd

@wd.kernel
def kernel(out):
    assert out[0] == 1, "found"
    out[0] = 2

try:
    kernel[1, 1](np.zeros(1))
except wd.KernelError as error:
    print(error)
"""


@pytest.mark.parametrize(("value", "message"), [(6, "ValueError"), (3, "assert")])
def test_messages_of_exceptions_may_be_constants_of_the_module(value, message):
    with pytest.raises(wd.KernelError, match=rf"test_language.py:\d+: .*{message}.*: beyond"):
        wd.kernel(raises_a_member)[1, 1](np.array([value]), np.zeros(1))


def test_the_line_of_an_assertion_is_that_of_the_file_now(tmp_path):
    """Machine code comes from the cache, although the lines have moved."""
    script = tmp_path / "script.py"
    environment = {"WARPDRIVE_CACHE_DIR": str(tmp_path / "cache")}
    for number, before in enumerate(("", "# one more line\n")):
        script.write_text(before + ASSERTING)
        line = 1 + next(n for n, text in enumerate(script.read_text().splitlines()) if "assert" in text)
        _, said = ForkedProgram(script, tmp_path / f"output_{number}.txt", environment).result(timeout=120)
        assert said == f"{script}:{line}: the assertion failed: found\n"
    assert len(list((tmp_path / "cache").rglob("kernel.py"))) == 3  # the kernel's, once, and two of the backend's own


SIMULATED = """
import numpy as np
from numba import cuda
import warpdrive as wd

@cuda.jit("float32(float32)", device=True)
def double(x):
    return 2 * x

@cuda.jit("void(float32[:])")
def kernel(out):
    memory = cuda.shared.array(8, np.float32)
    memory[cuda.threadIdx.x] = cuda.grid(1)
    cuda.syncthreads()
    out[cuda.threadIdx.x] = double(memory[7 - cuda.threadIdx.x])
    cuda.atomic.add(out, 0, 1)

out = np.zeros(8, np.float32)
wd.kernel(kernel)[1, 8](out)
print(out.tolist())
"""


def test_kernels_compiled_at_once_need_numba_s_simulator_to_be_imported(tmp_path):
    """Without a driver numba refuses to import a kernel with a signature, unless it is told to simulate."""
    script = tmp_path / "script.py"
    script.write_text(SIMULATED)
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "[22.0, 12.0, 10.0, 8.0, 6.0, 4.0, 2.0, 0.0]\n", done.stderr


def test_exceptions_stand_beside_variables_that_are_kept(check):
    values = np.array([1, 3, 0, 2], np.int64)
    _, out = check(asserts_beside_what_is_kept, 1, 4, values, np.zeros(4))
    assert out.tolist() == [50, 50, 49, 50]


def test_a_function_may_return_a_place_or_none():
    values, out = np.array([1, 3, 9, 0, 3, 7, 5], np.int64), np.zeros(6, np.int32)
    wd.kernel(histogram)[1, 7](values, out)
    assert out.tolist() == [1, 1, 0, 2, 0, 1]


def test_an_exception_is_told_with_its_line():
    lines, first = inspect.getsourcelines(raises)
    line = first + next(n for n, text in enumerate(lines) if "# here" in text)
    kernel = wd.kernel(raises)
    out = np.zeros(8, np.int64)
    kernel[1, 8](np.arange(8) % 5, out)
    np.testing.assert_array_equal(out, np.arange(8) % 5)
    with pytest.raises(wd.KernelError, match=rf"test_language.py:{line}: ValueError: too large, 7"):
        kernel[1, 8](np.arange(8), out)
    with pytest.raises(ValueError, match="too large"):
        wd.debug(kernel)[1, 8](np.arange(8), out)
    with pytest.raises(wd.KernelError, match=rf"test_language.py:{line}: thread 6 of block 0 stopped with ValueError"):
        wd.check_launch(kernel, 1, 8, np.arange(8), out)


def test_a_file_that_has_changed_is_not_compiled(tmp_path, monkeypatch):
    path = tmp_path / "changing.py"
    text = "import warpdrive as wd\n\n@wd.kernel\ndef kernel(out):\n    out[0] = 1\n"
    path.write_text(text)
    specification = importlib.util.spec_from_file_location("changing", path)
    module = importlib.util.module_from_spec(specification)
    monkeypatch.setitem(sys.modules, "changing", module)
    specification.loader.exec_module(module)
    path.write_text(text.replace("= 1", "= 2 + 2"))
    with pytest.raises(wd.KernelError, match=re.escape(f"{path}:3: the file has changed since 'kernel' was imported")):
        module.kernel[1, 1](np.zeros(1))
    os.utime(path, (10**9, 10**9))  # else Python may take the bytecode it has for that of the new text
    specification.loader.exec_module(module)
    out = np.zeros(1)
    module.kernel[1, 1](out)
    assert out[0] == 4
