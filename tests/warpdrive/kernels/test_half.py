"""float16 in kernels: values, arithmetic and functions against NumPy, rational arithmetic and numba-cuda's types."""

from __future__ import annotations

import math
import operator
from fractions import Fraction

import numba
import numpy as np
import pytest
from cuda_on_host import type_of_call
from exhaustive import exhaustive
from numba import cuda, types
from numba.core.registry import cpu_target
from numba.cuda import fp16
from oracle import launch_gpu_code

import warpdrive as wd
import warpdrive.launching
from warpdrive.backends.host.mathematics import replacement
from warpdrive.checks.checked_interpreter import CheckedInterpreter
from warpdrive.checks.grid import Grid
from warpdrive.checks.null_log import NullLog
from warpdrive.kernels.kernel import kernel_from_source

ALL = np.arange(2**16, dtype=np.uint16).view(np.float16)


def run(body, *arrays):
    """Launch a kernel whose statements compute with element ``i`` of the arrays ``a``, ``b``, ... ."""
    names = "abcdefghjk"[: len(arrays)]
    lines = [f"def kernel({', '.join(names)}):", "    i = cuda.grid(1)", f"    if i < {names[0]}.size:"]
    lines += [f"        {line}" for line in body.splitlines()]
    namespace = {"cuda": cuda, "fp16": fp16, "np": np, "math": math, "abs": abs}
    kernel_from_source("\n".join(lines) + "\n", "kernel", namespace).forall(arrays[0].size)(*arrays)


def same(found, expected):
    """Return True if the bits are equal, or both are NaN."""
    found, expected = np.asarray(found), np.asarray(expected, found.dtype)
    unsigned = f"u{found.itemsize}"
    return bool(np.all((found.view(unsigned) == expected.view(unsigned)) | (np.isnan(found) & np.isnan(expected))))


def test_every_value_is_converted():
    single, double = np.zeros(ALL.size, np.float32), np.zeros(ALL.size)
    back, of_double = np.zeros_like(ALL), np.zeros_like(ALL)
    run("b[i] = a[i]\nc[i] = a[i]\nd[i] = b[i]\ne[i] = c[i]", ALL, single, double, back, of_double)
    assert same(single, ALL) and same(double, ALL)
    assert same(back, ALL) and same(of_double, ALL)


def test_conversions_round_to_the_nearest_even():
    finite = ALL[np.isfinite(ALL)].astype(np.float64)
    halfway = np.append((finite[1:] + finite[:-1]) / 2, [65520.0, -65520.0, 1e300, -1e-300, 5e-324, 2.0**-25])
    for dtype in (np.float32, np.float64):
        with np.errstate(over="ignore"):
            exact = halfway.astype(dtype)
        for x in (exact, np.nextafter(exact, dtype(np.inf)), np.nextafter(exact, dtype(-np.inf))):
            found = np.zeros(x.size, np.float16)
            run("b[i] = a[i]", x, found)
            with np.errstate(over="ignore"):
                assert same(found, x.astype(np.float16)), dtype


@pytest.mark.parametrize(
    "dtype", exhaustive(["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"], ("i1", "i4", "u8", "?"))
)
def test_integers(dtype):
    """A conversion to an integer rounds to the nearest, saturates, and gives 0 or 2**63 for NaN (PTX, cvt)."""
    whole = np.zeros(ALL.size, dtype)
    run("b[i] = a[i]", ALL, whole)
    if dtype == "?":
        assert np.array_equal(whole, ALL != 0)
        return
    limits = np.iinfo(dtype)
    for x, y in zip(ALL.tolist(), whole.tolist(), strict=True):
        if math.isnan(x):
            assert y == (0 if limits.bits < 64 else limits.min or 2**63)
        else:
            assert y == max(limits.min, min(limits.max, round(max(-1e30, min(1e30, x)))))
    x = np.random.default_rng(1).integers(limits.min, limits.max, 2000, dtype, endpoint=True)
    x[::2] >>= x[::2] % (limits.bits - 1)
    found = np.zeros(x.size, np.float16)
    run("b[i] = a[i]", x, found)
    with np.errstate(over="ignore"):
        assert same(found, x.astype(np.float64).astype(np.float16))


@pytest.fixture(scope="module")
def pairs():
    """Pairs of numbers of all magnitudes and of similar ones, among them special ones."""
    generator = np.random.default_rng(2)
    x, y = (generator.integers(0, 2**16, 6000, np.uint16).view(np.float16) for _ in range(2))
    x[2000:], y[2000:] = (generator.standard_normal(4000).astype(np.float16) for _ in range(2))
    special = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 65504, 2.0**-24, 2.0**-14], np.float16)
    x[:100], y[:100] = np.repeat(special, 10), np.tile(special, 10)
    return x, y


def test_arithmetic_rounds_after_each_operation(pairs):
    x, y = pairs
    results = [np.zeros_like(x) for _ in range(7)]
    names = "cdefghj"
    forms = ["a[i] + b[i]", "a[i] - b[i]", "a[i] * b[i]", "a[i] / b[i]", "-a[i]", "abs(a[i])", "a[i] * b[i] + a[i]"]
    run("\n".join(f"{n}[i] = {form}" for n, form in zip(names, forms, strict=True)), x, y, *results)
    with np.errstate(all="ignore"):
        for found, expected in zip(results, (x + y, x - y, x * y, x / y, -x, abs(x), x * y + x), strict=True):
            assert same(found, expected)


def test_comparisons(pairs):
    x, y = pairs
    signs = ("==", "!=", "<", "<=", ">", ">=")
    found = np.zeros((6, x.size), bool)
    run("\n".join(f"c[{n}, i] = a[i] {sign} b[i]" for n, sign in enumerate(signs)), x, y, found)
    expected = [x == y, x != y, x < y, x <= y, x > y, x >= y]
    assert np.array_equal(found, expected)
    quiet = [x == y, (x < y) | (x > y), *expected[2:]]
    names = ("heq", "hne", "hlt", "hle", "hgt", "hge")
    unordered = np.isnan(x) | np.isnan(y)
    for suffix, of_nan in (("", quiet), ("u", [values | unordered for values in expected])):
        prefix = "__" if suffix else ""
        lines = [f"c[{n}, i] = fp16.{prefix}{name}{suffix}(a[i], b[i])" for n, name in enumerate(names)]
        run("\n".join(lines), x, y, found)
        assert np.array_equal(found, of_nan), suffix


def rounded(exact, mode):
    """Return a rational number as a float16, by integer arithmetic."""
    size = abs(exact)
    power = size.numerator.bit_length() - size.denominator.bit_length() if size else -14
    power -= size < Fraction(2) ** power
    unit = Fraction(2) ** max(power - 10, -24)
    is_up = {"rn": None, "rd": exact < 0, "ru": exact > 0, "rz": False}[mode]
    whole = round(size / unit) if is_up is None else math.ceil(size / unit) if is_up else math.floor(size / unit)
    largest = np.inf if is_up or is_up is None else 65504.0
    value = largest if whole * unit >= 65536 else float(whole * unit)
    return np.float16(-value if exact < 0 else value)


def test_fma_rounds_once(pairs):
    x, y = (values[np.isfinite(values)][:3000] for values in pairs)
    with np.errstate(all="ignore"):
        z = np.where(np.arange(3000) % 2, -(x * y), np.roll(x, 5))
    z = np.where(np.isfinite(z), z, np.float16(2.0**-24))
    found = np.zeros((3, 3000), np.float16)
    run("d[0, i] = fp16.hfma(a[i], b[i], c[i])\nd[1, i] = fp16.__hfma_sat(a[i], b[i], c[i])", x, y, z, found)
    run("d[2, i] = fp16.__hfma_relu(a[i], b[i], c[i])", x, y, z, found)
    for *given, once, saturated, rectified in zip(x, y, z, *found, strict=True):
        a, b, c = (Fraction(float(value)) for value in given)
        exact = rounded(a * b + c, "rn")
        assert once == exact and saturated == exact.clip(0, 1) and rectified == max(exact, np.float16(0)), given


SOURCES = {"float": "f", "int": "i", "uint": "I", "ll": "q", "ull": "Q", "short": "h", "ushort": "H"}


@pytest.mark.parametrize("source", exhaustive(SOURCES, ("float", "int", "ull")))
def test_conversions_with_a_rounding_mode(source):
    kind, modes = SOURCES[source], ("rn", "rd", "ru", "rz")
    generator = np.random.default_rng(3)
    if kind == "f":
        x = (generator.standard_normal(500) * 2.0 ** generator.integers(-30, 20, 500)).astype(np.float32)
    else:
        limits = np.iinfo(kind)
        x = generator.integers(limits.min, limits.max, 500, kind) >> generator.integers(0, limits.bits - 1, 500, kind)
    found = np.zeros((4, 500), np.float16)
    run("\n".join(f"b[{n}, i] = fp16.__{source}2half_{mode}(a[i])" for n, mode in enumerate(modes)), x, found)
    for mode, values in zip(modes, found, strict=True):
        assert values.tolist() == [rounded(Fraction(v), mode) for v in x.tolist()], mode
    if kind != "f":
        whole = np.zeros((4, ALL.size), kind)
        run("\n".join(f"b[{n}, i] = fp16.__half2{source}_{mode}(a[i])" for n, mode in enumerate(modes)), ALL, whole)
        finite = np.isfinite(ALL)
        for function, values in zip((np.rint, np.floor, np.ceil, np.trunc), whole, strict=True):
            expected = function(ALL[finite].astype(np.float64)).clip(limits.min, limits.max)
            assert np.array_equal(values[finite].astype(np.float64), expected.astype(kind).astype(np.float64))


FUNCTIONS = {
    "hsin": np.sin,
    "hcos": np.cos,
    "htanh": np.tanh,
    "htanh_approx": np.tanh,
    "hexp": np.exp,
    "hexp2": np.exp2,
    "hexp10": lambda x: 10.0**x,
    "hlog": np.log,
    "hlog2": np.log2,
    "hlog10": np.log10,
    "hsqrt": np.sqrt,
    "hrsqrt": lambda x: 1 / np.sqrt(x),
    "hrcp": lambda x: 1 / x,
    "hceil": np.ceil,
    "hfloor": np.floor,
    "htrunc": np.trunc,
    "hrint": np.rint,
    "habs": np.abs,
    "hneg": np.negative,
}


def test_functions_of_every_value():
    """Each result is the nearest float16 to the exact value, or its neighbour where that is nearly halfway."""
    found = np.zeros((len(FUNCTIONS), ALL.size), np.float16)
    run("\n".join(f"b[{n}, i] = fp16.{name}(a[i])" for n, name in enumerate(FUNCTIONS)), ALL, found)
    with np.errstate(all="ignore"):
        for values, (name, function) in zip(found, FUNCTIONS.items(), strict=True):
            exact = function(ALL.astype(np.float64))
            nearest = exact.astype(np.float16)
            if not same(values, nearest):
                differ = ~((values == nearest) | (np.isnan(values) & np.isnan(nearest)))
                error = abs(values[differ].astype(np.float64) - exact[differ])
                assert differ.mean() < 1e-3 and np.all(error <= 0.501 * np.spacing(nearest[differ])), name


def test_extremes_and_saturation(pairs):
    x, y = pairs
    names = ("hmax", "hmin", "__hmax_nan", "__hmin_nan", "__hadd_sat", "__hsub_sat", "__hmul_sat")
    found = np.zeros((7, x.size), np.float16)
    run("\n".join(f"c[{n}, i] = fp16.{name}(a[i], b[i])" for n, name in enumerate(names)), x, y, found)
    with np.errstate(all="ignore"):
        expected = [np.fmax(x, y), np.fmin(x, y), np.maximum(x, y), np.minimum(x, y)]
        expected += [np.nan_to_num((value).clip(0, 1)) for value in (x + y, x - y, x * y)]
    for values, wanted, name in zip(found, expected, names, strict=True):
        np.testing.assert_array_equal(values, wanted, name)
    zeros = np.float16([0.0, -0.0])
    assert np.signbit(found[:2, 0:2]).tolist() == [[False, False], [False, True]] and np.signbit(zeros[1])


def test_bits_and_predicates():
    found, bits, again = np.zeros((2, ALL.size), np.int32), np.zeros((2, ALL.size), np.int64), np.zeros_like(ALL)
    run("b[0, i] = fp16.__hisnan(a[i])\nb[1, i] = fp16.__hisinf(a[i])", ALL, found)
    run("b[0, i] = fp16.__half_as_short(a[i])\nb[1, i] = np.float16(a[i]).view(np.uint16)", ALL, bits)
    run("b[i] = fp16.__short_as_half(np.int16(c[0, i]))", ALL, again, bits)
    assert np.array_equal(found, [np.isnan(ALL), np.isinf(ALL) * np.nan_to_num(np.sign(ALL))])
    assert np.array_equal(bits, [ALL.view(np.int16), ALL.view(np.uint16)]) and same(again, ALL)


KINDS = (
    *(types.boolean, types.int8, types.int16, types.int32, types.int64, types.uint8, types.uint16, types.uint32),
    *(types.uint64, types.float32, types.float64, types.complex64),
)
OPERATORS = (
    *(operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow),
    *(operator.iadd, operator.lt, operator.eq, operator.ne),
)


def type_on_the_cpu(function, arguments):
    context = cpu_target.typing_context
    context.refresh()
    try:
        if getattr(function, "__module__", "") != "_operator":
            function = context.resolve_value_type(replacement(function) or function)
        found = context.resolve_function_type(function, arguments, {})
    except (numba.core.errors.NumbaError, ValueError):
        return None
    return found and str(types.unliteral(found.return_type))


@pytest.mark.parametrize("function", OPERATORS)
def test_types_of_operators(function):
    for other in (types.float16, *KINDS):
        for arguments in ((types.float16, other), (other, types.float16)):
            theirs = type_of_call(function, [getattr(cuda.types, str(kind), None) or kind for kind in arguments])
            assert type_on_the_cpu(function, arguments) == (theirs and str(theirs)), arguments


def test_types_of_functions():
    names = [name for name in dir(math) if callable(getattr(math, name)) and not name.startswith("_")]
    for function in [getattr(math, name) for name in names] + [abs, float, operator.neg, operator.pos]:
        theirs = type_of_call(function, [cuda.types.float16])
        if theirs is not None:
            assert type_on_the_cpu(function, (types.float16,)) == str(theirs), function


record = np.dtype([("half", np.float16), ("count", np.int32), ("halves", np.float16, 3)], align=True)
CONSTANT = np.float16(0.1)
TABLE = np.array([1.5, 2.5], np.float16)


@cuda.jit
def scaled(x, factor=CONSTANT):
    return x * factor


@cuda.jit
def everywhere(x, records, total):
    """Use float16 in shared and local arrays, records, constants, arguments, and across barriers."""
    shared = cuda.shared.array(8, np.float16)
    own = cuda.local.array(2, types.float16)
    i = cuda.threadIdx.x
    kept = scaled(x[i]) + np.float16(i)
    pair = (kept, TABLE[i % 2])
    own[0], own[1] = pair
    shared[i] = own[0] * own[1]
    cuda.syncthreads()
    other = shared[7 - i]
    records[i].half = other if other > kept else kept
    records[i]["halves"][2] = math.sqrt(abs(kept)) + min(kept, other)
    records[i].count = cuda.syncthreads_count(other > np.float16(2))
    if kept and not other < np.float16(0):
        total[i] = pair[1] + float(kept)
    else:
        total[i] = max(np.float32(kept), other) * 2


def test_values_are_kept_wherever_numbers_may_be():
    x = np.linspace(-3, 3, 8).astype(np.float16)
    kept = x * CONSTANT + np.arange(8, dtype=np.float16)
    other = (kept * TABLE[np.arange(8) % 2])[::-1]
    results = []
    for launch in (wd.kernel, wd.debug):
        records, total = np.zeros(8, record), np.zeros(8)
        launch(everywhere)[1, 8](x, records, total)
        results.append((records, total))
        assert same(records["half"], np.maximum(other, kept))
        assert same(records["halves"][:, 2], np.sqrt(abs(kept)) + np.minimum(kept, other))
        assert np.array_equal(records["count"], np.full(8, np.sum(other > 2)))
        branch = kept.astype(bool) & (other >= 0)
        wide = np.maximum(kept.astype(np.float32), other) * 2
        assert np.array_equal(total, np.where(branch, TABLE[np.arange(8) % 2] + kept, wide))
    report = wd.check_launch(everywhere, 1, 8, x, np.zeros(8, record), np.zeros(8))
    assert not report.races and not report.bounds and not report.arithmetic


def test_numbers_as_arguments():
    found = np.zeros(2, np.float16)

    @cuda.jit
    def kernel(y, x, text):
        y[0] = x * x
        y[1] = x + 1

    wd.kernel(kernel)[1, 1](found, np.float16(0.3), None)
    assert same(found, [np.float16(0.3) * np.float16(0.3), np.float16(float(np.float16(0.3)) + 1)])


def test_operations_of_the_checks_are_those_of_the_kernel():
    """Operators with all types of the other operand."""
    others = [np.dtype(kind).type(3) for kind in "bhiqBHIQfd?"]
    for sign in ("+", "*", "/", "//", "%", "-", "**"):
        text = "def kernel(y, x, z):\n" + "".join(
            f"    y[{n}] = x {sign} z[{n}]\n    y[{n + len(others)}] = z[{n}] {sign} x\n" for n in range(len(others))
        )
        kernel = kernel_from_source(text, "kernel", {})
        found, expected = np.zeros(2 * len(others)), np.zeros(2 * len(others))
        given = {"x": np.float16(0.7), "z": tuple(others)}
        kernel[1, 1](expected, **given)
        grid = Grid.of(1, 1)
        CheckedInterpreter(kernel.source, grid, NullLog(grid)).check({"y": found, **given})
        np.testing.assert_allclose(found, expected, 1e-6, err_msg=sign)


def test_code_for_gpus_does_the_same():
    """It is run on the host; PTX instructions of float16 are functions there."""
    x = np.linspace(-3, 3, 8).astype(np.float16)
    results = []
    for launch in (
        lambda *given: wd.kernel(everywhere)[1, 8](*given),
        lambda *given: launch_gpu_code(everywhere, 1, 8, given),
    ):
        records, total = np.zeros(8, record), np.zeros(8)
        launch(x, records, total)
        results.append((records, total))
    for expected, found in zip(*results, strict=True):
        np.testing.assert_array_equal(found, expected)
