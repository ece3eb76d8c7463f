"""The scalar intrinsics of ``numba.cuda``, its constants, and the functions of ``math`` and NumPy that it has.

Types are compared with those that numba's own CUDA target infers, which needs no GPU; values with Python's integers,
``math`` and NumPy.
"""

from __future__ import annotations

import inspect
import linecache
import math
from fractions import Fraction

import numba
import numpy as np
import pytest
from exhaustive import exhaustive
from numba import cuda, types
from numba.core.registry import cpu_target
from numba.cuda.target import CUDATypingContext

import warpdrive as wd
from warpdrive.backends.host import mathematics, scalars
from warpdrive.checks.checked_interpreter import CheckedInterpreter
from warpdrive.checks.grid import Grid
from warpdrive.checks.null_log import NullLog

KINDS = (
    *(types.boolean, types.int8, types.int32, types.int64, types.uint8, types.uint32, types.uint64),
    *(types.float32, types.float64),
)


def launch(kernel, blocks, threads, *arguments):
    wd.kernel(kernel)[blocks, threads](*arguments)


def debug(kernel, blocks, threads, *arguments):
    wd.debug(kernel)[blocks, threads](*arguments)


def check(kernel, blocks, threads, *arguments):
    """Leave behind what the checks' own machine computes."""
    source, grid = wd.kernel(kernel).source, Grid.of(blocks, threads)
    CheckedInterpreter(source, grid, NullLog(grid)).check(dict(zip(source.parameters, arguments, strict=True)))


@pytest.fixture(scope="module")
def type_of():
    """Give a function that returns the type of a call's result on a target, or None where it has none."""
    contexts = {"cuda": CUDATypingContext(), "cpu": cpu_target.typing_context}
    for context in contexts.values():
        context.refresh()

    def find(target, function, arguments):
        context = contexts[target]
        if isinstance(function, str):
            function = context.resolve_getattr(types.Module(cuda), function)
        else:
            function = context.resolve_value_type(function)
        try:
            found = context.resolve_function_type(function, arguments, {})
        except (numba.core.errors.NumbaError, NotImplementedError):
            return None
        return found and found.return_type

    return find


def test_intrinsics_have_the_types_they_have_on_a_gpu(type_of) -> None:
    for name in ("popc", "clz", "ffs", "brev", "cbrt"):
        for kind in KINDS:
            expected = type_of("cuda", name, (kind,))
            assert type_of("cpu", getattr(scalars, name), (kind,)) == expected, (name, kind)
    for kind in KINDS:
        arguments = (types.float32, kind, types.float32)
        assert type_of("cpu", scalars.fma, arguments) == type_of("cuda", "fma", arguments)
        arguments = (types.boolean, kind, kind)
        assert type_of("cpu", scalars.selp, arguments) == type_of("cuda", "selp", arguments)


FUNCTIONS_OF_MATH = [
    *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "copysign", "cos", "cosh", "degrees", "erf"),
    *("erfc", "exp", "expm1", "fabs", "floor", "fmod", "frexp", "gamma", "hypot", "isfinite", "isinf", "isnan"),
    *("ldexp", "lgamma", "log", "log10", "log1p", "log2", "modf", "pow", "radians", "remainder", "sin", "sinh", "sqrt"),
    *("tan", "tanh", "trunc"),
]
OF_TWO = {"atan2", "copysign", "fmod", "hypot", "ldexp", "pow", "remainder"}


@pytest.mark.parametrize("name", FUNCTIONS_OF_MATH)
def test_math_has_the_types_it_has_on_a_gpu(name, type_of) -> None:
    original = getattr(math, name)
    ours = mathematics.replacement(original) or original
    count = 2 if name in OF_TWO else 1
    for first in KINDS:
        for second in KINDS if count == 2 else (None,):
            arguments = (first, second)[:count]
            expected = type_of("cuda", original, arguments)
            if expected is not None:
                assert type_of("cpu", ours, arguments) == expected, arguments


def bits(value: int, width: int) -> str:
    return format(value % 2**width, f"0{width}b")


def count_bits(numbers, results, reversed_bits):
    i = cuda.grid(1)
    results[0, i] = cuda.popc(numbers[i])
    results[1, i] = cuda.clz(numbers[i])
    results[2, i] = cuda.ffs(numbers[i])
    reversed_bits[i] = cuda.brev(numbers[i])


@pytest.mark.parametrize("run", [launch, debug, check])
@pytest.mark.parametrize("dtype", exhaustive([np.int32, np.uint32, np.int64, np.uint64], (np.int32, np.uint64)))
def test_bits(dtype, run) -> None:
    info, width = np.iinfo(dtype), 8 * np.dtype(dtype).itemsize
    values = [0, 1, 2, 3, 12, 2**20, info.max, info.min, info.max // 3, info.min // 2 + 5]
    results, reversed_bits = np.zeros((3, len(values)), np.int64), np.zeros(len(values), np.uint64)
    run(count_bits, 2, len(values) // 2, np.array(values, dtype), results, reversed_bits)
    texts = [bits(value, width) for value in values]
    assert results[0].tolist() == [text.count("1") for text in texts]
    assert results[1].tolist() == [width - len(text.lstrip("0")) for text in texts]
    assert results[2].tolist() == [text[::-1].find("1") + 1 for text in texts]
    if dtype is not np.int64:  # numba.cuda takes the lower half of that alone
        assert reversed_bits.tolist() == [int(text[::-1], 2) for text in texts]


def narrow_bits(numbers, results):
    i = cuda.grid(1)
    results[0, i] = cuda.popc(numbers[i])
    results[1, i] = cuda.clz(numbers[i])


@pytest.mark.parametrize("run", [launch, debug, check])
@pytest.mark.parametrize("dtype", exhaustive([np.int8, np.uint8, np.int16, np.uint16], (np.int8, np.uint16)))
def test_bits_of_short_integers(dtype, run) -> None:
    info, width = np.iinfo(dtype), 8 * np.dtype(dtype).itemsize
    values = [0, 1, 5, info.max, info.min, info.max // 3]
    results = np.zeros((2, len(values)), np.int64)
    run(narrow_bits, 1, len(values), np.array(values, dtype), results)
    texts = [bits(value, width) for value in values]
    assert results.tolist() == [[text.count("1") for text in texts], [width - len(text.lstrip("0")) for text in texts]]


def zeros_before(x):
    return cuda.clz(x) + 100 * cuda.clz(cuda.blockDim.x)


def of_threads(out):
    """Indices have 32 bits, sums of them 64; lanes count through a block of three dimensions."""
    i = cuda.blockDim.x * (cuda.threadIdx.y + cuda.blockDim.y * cuda.threadIdx.z) + cuda.threadIdx.x
    lane = cuda.laneid
    out[i, 0] = cuda.clz(cuda.threadIdx.x)
    out[i, 1] = cuda.clz(cuda.threadIdx.x + 0)
    cuda.syncthreads()
    out[i, 2] = lane
    out[i, 3] = cuda.warpsize + cuda.clz(cuda.warpsize)
    out[i, 4] = zeros_before(lane)
    out[i, 5] = cuda.clz(cuda.grid(1))
    cuda.nanosleep(10)


@pytest.mark.parametrize("run", [launch, debug, check])
def test_indices_and_lanes(run) -> None:
    out = np.zeros((60, 6), np.int64)
    run(of_threads, 1, (5, 4, 3), out)
    for i, found in enumerate(out.tolist()):
        x, lane = i % 5, i % 32
        assert found == [
            32 - x.bit_length(), 64 - x.bit_length(), lane, 32 + 26, 32 - lane.bit_length() + 2900, 64 - x.bit_length()
        ]  # fmt: skip


def of_floats(x, y, z, out):
    i = cuda.grid(1)
    out[0, i] = cuda.fma(x[i], y[i], z[i])
    out[1, i] = cuda.cbrt(x[i])
    out[2, i] = cuda.selp(x[i] < y[i], x[i], z[i])


def rounded(value: Fraction, dtype) -> float:
    """Round a fraction once: to the closest of the numbers around it."""
    near = dtype(float(value))
    candidates = [near, np.nextafter(near, dtype(-np.inf)), np.nextafter(near, dtype(np.inf))]
    return min(candidates, key=lambda number: abs(Fraction(float(number)) - value))


@pytest.mark.parametrize("run", [launch, debug, check])
@pytest.mark.parametrize("dtype", exhaustive([np.float32, np.float64], (np.float32,)))
def test_floats(dtype, run) -> None:
    x, y = np.random.default_rng(0).normal(size=(2, 50)).astype(dtype)
    z = -(x * y)  # so that most of what is left is what two roundings would lose
    out = np.zeros((3, 50), dtype)
    run(of_floats, 5, 10, x, y, z, out)
    exact = [Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c)) for a, b, c in zip(x, y, z, strict=True)]
    assert out[0].tolist() == [rounded(value, dtype) for value in exact]
    np.testing.assert_allclose(out[1], np.cbrt(x.astype(np.float64)), rtol=4 * np.finfo(dtype).eps)
    np.testing.assert_array_equal(out[2], np.where(x < y, x, z))


TABLE = np.arange(12.0, dtype=np.float32).reshape(2, 3, 2)
FLAGS = np.array([True, False, True])
POINTS = np.array([(1, 2.5), (-3, 0.5)], np.dtype([("kind", np.int8), ("place", np.float64)], align=True))
NOTHING = np.zeros((0, 3))


def constants(out):
    i = cuda.threadIdx.x
    table = cuda.const.array_like(TABLE)
    flags = cuda.const.array_like(FLAGS)
    points = cuda.const.array_like(POINTS)
    nothing = cuda.const.array_like(NOTHING)
    cuda.syncthreads()
    if flags[i]:
        out[i] = table[1, i, 1] + table.shape[1] + nothing.shape[0]
    cuda.syncthreads()
    out[i] += points[i % 2]["place"] * points[i % 2]["kind"]


@pytest.mark.parametrize("run", [launch, debug, check])
def test_constant_arrays(run) -> None:
    out = np.zeros(3)
    run(constants, 1, 3, out)
    assert out.tolist() == [7 + 3 + 2.5, -1.5, 11 + 3 + 2.5]


def writes_a_constant(out):
    table = cuda.const.array_like(TABLE)
    table[0, 0, 0] = 1  # here


def kernel_of(names, module):
    """Make a kernel that applies each function to all arguments: ``out[k, i] = name_k(x[i])``, or of two arguments."""
    arguments = {name: "x[i], y[i]" if name in OF_TWO | NUMPY_OF_TWO else "x[i]" for name in names}
    lines = [f"    out[{k}, i] = module.{name}({arguments[name]})" for k, name in enumerate(names)]
    text = "\n".join(["def kernel(x, y, out):", "    i = cuda.grid(1)", *lines, ""])
    linecache.cache[f"<functions of {module.__name__} {names[0]}>"] = (len(text), None, text.splitlines(True), "")
    namespace = {"cuda": cuda, "module": module}
    exec(compile(text, f"<functions of {module.__name__} {names[0]}>", "exec"), namespace)
    return wd.kernel(namespace["kernel"])


SAMPLES = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, 2.5, -2.5, 3.75, -7.3, 20.25, 1e-3, math.inf, -math.inf, math.nan]
SAMPLES_OF_TWO = [(x, y) for x in (0.0, 2.5, -2.5, 7.0, math.inf, math.nan) for y in (-0.75, 2.0, 3.0, -math.inf)]


def expected_of(name, x, y=None):
    """Return the result of C's function: Python's, with NaN and infinity where Python raises."""
    if math.isnan(x) and name not in ("hypot", "pow", "isnan", "isinf", "isfinite", "copysign", "ldexp"):
        return math.nan
    if name == "pow":
        with np.errstate(all="ignore"):
            return float(np.power(x, y))
    whole = {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc}
    if name in whole:
        return float(whole[name](x))
    poles = {("log", 0.0): -math.inf, ("log2", 0.0): -math.inf, ("log10", 0.0): -math.inf, ("log1p", -1.0): -math.inf,
             ("atanh", 1.0): math.inf, ("atanh", -1.0): -math.inf}  # fmt: skip
    if y is None and (name, x) in poles:
        return poles[name, x]
    if name == "gamma" and x == 0:
        return math.copysign(math.inf, x)
    if name == "gamma" and x < 0 and x == int(x) if math.isfinite(x) else False:
        return math.nan
    if name == "lgamma" and x <= 0 and (math.isinf(x) or x == int(x)):
        return math.inf
    try:
        return getattr(math, name)(*((x,) if y is None else (x, y)))
    except ValueError:
        return math.nan
    except OverflowError:
        return math.inf


OF_ONE = [name for name in FUNCTIONS_OF_MATH if name not in {*OF_TWO, "modf", "frexp"}]


@pytest.mark.parametrize("dtype", exhaustive([np.float32, np.float64], (np.float32,)))
@pytest.mark.parametrize("names", [OF_ONE, sorted(OF_TWO - {"ldexp"})], ids=["one", "two"])
def test_values_of_math(names, dtype) -> None:
    pairs = [(x, 0.0) for x in SAMPLES] if names is OF_ONE else SAMPLES_OF_TWO
    x, y = (np.array(column, dtype) for column in zip(*pairs, strict=True))
    out = np.zeros((len(names), len(pairs)))
    kernel_of(names, math)[1, len(pairs)](x, y, out)
    tolerance = 30 * np.finfo(dtype).eps
    for name, found in zip(names, out, strict=True):
        columns = [x.astype(float).tolist()] + [y.astype(float).tolist()] * (names is not OF_ONE)
        expected = np.array([expected_of(name, *given) for given in zip(*columns, strict=True)])
        with np.errstate(over="ignore"):
            expected = expected.astype(dtype)
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance, err_msg=name)


def parts(x, exponents, out):
    i = cuda.grid(1)
    out[0, i], out[1, i] = math.modf(x[i])
    out[2, i], out[3, i] = math.frexp(x[i])
    out[4, i] = math.ldexp(x[i], exponents[i])


@pytest.mark.parametrize("dtype", exhaustive([np.float32, np.float64], (np.float32,)))
def test_parts_of_floats(dtype) -> None:
    x = np.array([0.0, 2.75, -2.75, 1e-3, -1024.5, math.inf, -math.inf], dtype)
    exponents, out = np.arange(-3, 4, dtype=np.int32), np.zeros((5, 7))
    launch(parts, 1, 7, x, exponents, out)
    whole = np.array([math.modf(number) for number in x]).T
    np.testing.assert_array_equal(out[:2], whole)
    np.testing.assert_array_equal(np.signbit(out[:2]), np.signbit(whole))
    np.testing.assert_array_equal(out[2:4, :5], np.array([math.frexp(number) for number in x[:5]]).T)
    np.testing.assert_array_equal(out[4], np.ldexp(x, exponents))


NUMPY_OF_ONE = [
    *("sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh"),
    *("deg2rad", "rad2deg", "log", "log2", "log10", "logical_not"),
]
NUMPY_OF_TWO = {
    *("arctan2", "hypot", "greater", "greater_equal", "less", "less_equal", "equal", "not_equal", "logical_and"),
    *("logical_or", "logical_xor", "maximum", "minimum", "fmax", "fmin"),
}


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_values_of_numpy(dtype) -> None:
    for names in (NUMPY_OF_ONE, sorted(NUMPY_OF_TWO)):
        pairs = [(x, 0.0) for x in SAMPLES] if names is NUMPY_OF_ONE else SAMPLES_OF_TWO
        pairs = [pair for pair in pairs if dtype is np.float32 or all(map(math.isfinite, pair))]
        x, y = (np.array(column).astype(dtype) for column in zip(*pairs, strict=True))
        out = np.zeros((len(names), len(pairs)))
        kernel_of(names, np)[1, len(pairs)](x, y, out)
        for name, found in zip(names, out, strict=True):
            with np.errstate(all="ignore"):
                expected = getattr(np, name)(*((x,) if names is NUMPY_OF_ONE else (x, y)))
            np.testing.assert_allclose(found, expected, rtol=4e-6, atol=1e-6, err_msg=name)


def on_integers(x, y, out):
    i = cuda.grid(1)
    out[0, i] = np.bitwise_and(x[i], y[i])
    out[1, i] = np.bitwise_or(x[i], y[i])
    out[2, i] = np.bitwise_xor(x[i], y[i])
    out[3, i] = np.left_shift(x[i], y[i])
    out[4, i] = np.right_shift(x[i], y[i])
    out[5, i] = np.invert(x[i])
    out[6, i] = math.sqrt(x[i] * x[i])
    out[7, i] = math.floor(x[i])
    out[8, i] = math.isnan(x[i]) + 2 * math.isfinite(x[i])
    out[9, i] = min(x[i], y[i]) * 10 + max(x[i], y[i])


def test_functions_of_integers() -> None:
    x, y = np.array([1, 6, -13, 100], np.int32), np.array([3, 2, 1, 4], np.int32)
    out = np.zeros((10, 4), np.int64)
    launch(on_integers, 2, 2, x, y, out)
    expected = [x & y, x | y, x ^ y, x << y, x >> y, ~x, abs(x), x, 2 + 0 * x, np.minimum(x, y) * 10 + np.maximum(x, y)]
    np.testing.assert_array_equal(out, np.array(expected))


def whole_numbers(x, n, out):
    i = cuda.grid(1)
    out[0, i] = math.floor(x[i]) / np.float32(2)
    out[1, i] = math.ceil(x[i]) * 0.5
    out[2, i] = math.trunc(x[i]) + math.floor(n[i])
    out[3, i] = -n[i]
    out[4, i] = math.pow(x[i], np.int32(3))


@pytest.mark.parametrize("run", [launch, check])
def test_whole_numbers_stay_floats(run) -> None:
    x, n = np.array([0.5, 2.5, -3e30, -2.25], np.float32), np.array([1, 2, 127, -128], np.int8)
    out = np.zeros((5, 4))
    run(whole_numbers, 2, 2, x, n, out)
    with np.errstate(over="ignore"):
        expected = [np.floor(x) / 2, np.ceil(x) / 2, np.trunc(x).astype(float) + n, -n, x**3]
    np.testing.assert_allclose(out, np.array(expected, np.float64), rtol=1e-6)


def unknown_in_fp16(out):
    out[0] = cuda.fp16.hypotenuse(out[0], out[0])


def reciprocal_root(out):
    out[0] = cuda.rsqrt(out[0])


def of_the_host(out):
    out[0] = cuda.to_device(out)


def misspelt(out):
    out[0] = cuda.pop(out[0])


def choice_of_two_types(out):
    out[0] = cuda.selp(out[0] > 0, 1, 1.0)


def choice_by_a_number(out):
    out[0] = cuda.selp(1, 1.0, 2.0)


def two_numbers(out):
    out[0] = cuda.popc(1, 2)


def function_alone(out):
    out[0] = cuda.popc


def float_as_index(out):
    out[math.floor(0.5)] = 1


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (unknown_in_fp16, "cuda.fp16.hypotenuse is not part"),
        (reciprocal_root, r"cuda.rsqrt is not part .*1 / math.sqrt\(x\)"),
        (of_the_host, "cuda.to_device is not part .*is host code"),
        (misspelt, "cuda.pop is not part .*Did you mean 'popc'"),
        (choice_of_two_types, "cuda.selp chooses between two numbers of one type .*int64 and float64"),
        (choice_by_a_number, "cuda.selp takes a comparison or another boolean"),
        (two_numbers, "cuda.popc takes 1 arguments by position .x., found 2"),
        (function_alone, "cuda.popc cannot be used alone"),
        (writes_a_constant, "read-only array"),
        (float_as_index, "float64"),
    ],
)
def test_what_is_refused(kernel, message) -> None:
    lines, first = inspect.getsourcelines(kernel)
    line = first + next((i for i, text in enumerate(lines) if "# here" in text), 1)
    with pytest.raises(wd.errors.WarpDriveError, match=rf"test_intrinsics.py:{line}: .*{message}"):
        launch(kernel, 1, 1, np.ones(1))


@pytest.mark.parametrize("kernel", [reciprocal_root, of_the_host])
def test_the_checks_refuse_the_same(kernel) -> None:
    line = inspect.getsourcelines(kernel)[1] + 1
    for run in (wd.check_launch, debug):
        with pytest.raises(wd.errors.WarpDriveError, match=rf"test_intrinsics.py:{line}: .*is not part"):
            run(kernel, 1, 1, np.ones(1))


def rounded_and_counted(x, n, y):
    i = cuda.grid(1)
    y[i] = round(x[i], 3 - 2 * i)
    n[i] = n[i].bit_count()


def test_rounding_to_digits_is_computed_in_float64():
    x, n, y = np.float32([0.3425, 12.5, np.inf]), np.uint8([255, 5, 0]), np.zeros(3, np.float32)
    launch(rounded_and_counted, 1, 3, x, n, y)
    assert y.tolist() == [np.float32(0.343), 12.5, np.inf]  # as a float32, 0.3425 is more than halfway
    assert n.tolist() == [8, 2, 0]
