"""The functions of ``numba.cuda.libdevice`` on the CPU, against exact arithmetic, mpmath and NumPy.

Each function is called in a kernel with those of the same types; the tests together call all of them,
and those of `make test` nearly all of float32.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from exhaustive import exhaustive
from numba import cuda
from numba.cuda import libdevice

import warpdrive as wd
import warpdrive.launching
from warpdrive.kernels.kernel import kernel_from_source
from warpdrive.kernels.libraries import FUNCTIONS

mpf = mpmath.mpf
MODES = ("rn", "rd", "ru", "rz")
WIDTHS = {"f": np.float32, "d": np.float64}


def call(names: Sequence[str], *arguments: Any) -> list[list[np.ndarray]]:
    """Return the results of functions of the same types, each a list of arrays, for arrays of arguments."""
    (types,) = {FUNCTIONS[f"libdevice.{name}"] for name in names}
    given = ", ".join(f"x{n}" for n in range(len(types.arguments)))
    results = [f"y{n}" for n in range(len(types.results))]
    lines = [f"def kernel({given}, {', '.join(results)}):", "    i = cuda.grid(1)"]
    for row, name in enumerate(names):
        values = given.replace(",", "[i],") + "[i]"
        lines.append(f"    {', '.join(f'{result}[{row}, i]' for result in results)} = libdevice.{name}({values})")
    kernel = kernel_from_source("\n".join(lines) + "\n", "kernel", {"cuda": cuda, "libdevice": libdevice})
    arrays = [np.asarray(x, kind) for x, kind in zip(arguments, types.arguments, strict=True)]
    outputs = [np.zeros((len(names), arrays[0].size), kind) for kind in types.results]
    kernel[1, arrays[0].size](*arrays, *outputs)
    return [[output[row] for output in outputs] for row in range(len(names))]


def of_kind(*kinds: str) -> list[str]:
    return [name.removeprefix("libdevice.") for name, types in FUNCTIONS.items() if ".".join(types) in kinds]


def _cube_root(x):
    return mpmath.sign(x) * mpmath.cbrt(abs(x))


ELEMENTARY: dict[str, tuple[Callable[[Any], Any], tuple[float, float], float]] = {
    "acos": (mpmath.acos, (-1, 1), 2),
    "acosh": (mpmath.acosh, (1, 1e5), 3),
    "asin": (mpmath.asin, (-1, 1), 2),
    "asinh": (mpmath.asinh, (-30, 30), 3),
    "atan": (mpmath.atan, (-30, 30), 2),
    "atanh": (mpmath.atanh, (-1, 1), 2),
    "cbrt": (_cube_root, (-1e5, 1e5), 1),
    "cos": (mpmath.cos, (-30, 30), 2),
    "cosh": (mpmath.cosh, (-80, 80), 1),
    "cospi": (mpmath.cospi, (-30, 30), 2),
    "erf": (mpmath.erf, (-5, 5), 2),
    "erfc": (mpmath.erfc, (-5, 9), 5),
    "erfcinv": (lambda z: mpmath.erfinv(1 - z), (0, 2), 6),
    "erfcx": (lambda x: mpmath.exp(x * x) * mpmath.erfc(x), (-5, 40), 4),
    "erfinv": (mpmath.erfinv, (-1, 1), 5),
    "exp": (mpmath.exp, (-80, 80), 1),
    "exp10": (lambda x: mpf(10) ** x, (-35, 35), 1),
    "exp2": (lambda x: mpf(2) ** x, (-120, 120), 1),
    "expm1": (mpmath.expm1, (-20, 80), 1),
    "lgamma": (lambda x: mpmath.log(abs(mpmath.gamma(x))), (3, 100), 4),
    "log": (mpmath.log, (1e-30, 1e5), 1),
    "log10": (mpmath.log10, (1e-30, 1e5), 1),
    "log1p": (mpmath.log1p, (-1, 100), 1),
    "log2": (lambda x: mpmath.log(x, 2), (1e-30, 1e5), 1),
    "normcdf": (mpmath.ncdf, (-12, 5), 5),
    "normcdfinv": (lambda p: mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1), (0, 1), 8),
    "rcbrt": (lambda x: 1 / _cube_root(x), (-1e5, 1e5), 1),
    "rsqrt": (lambda x: 1 / mpmath.sqrt(x), (0, 1e5), 1),
    "sin": (mpmath.sin, (-30, 30), 2),
    "sinh": (mpmath.sinh, (-80, 80), 2),
    "sinpi": (mpmath.sinpi, (-30, 30), 2),
    "tan": (mpmath.tan, (-30, 30), 2),
    "tanh": (mpmath.tanh, (-30, 30), 2),
    "tgamma": (mpmath.gamma, (-10, 34), 10),
}
"""The exact function, a range of arguments and the largest error (ulp) that CUDA documents for float64."""
BESSEL = {
    "j0": lambda x: mpmath.besselj(0, x),
    "j1": lambda x: mpmath.besselj(1, x),
    "y0": lambda x: mpmath.bessely(0, x),
    "y1": lambda x: mpmath.bessely(1, x),
}
FAST = ("cosf", "exp10f", "expf", "log10f", "log2f", "logf", "sinf", "tanf")


@pytest.mark.parametrize("suffix", exhaustive(["", "f"], ("f",)))
def test_elementary_functions(suffix):
    names = list(ELEMENTARY)
    dtype = np.float32 if suffix else np.float64
    generator = np.random.default_rng(1)
    with mpmath.workprec(300):
        arguments = {name: generator.uniform(*bounds, 12).astype(dtype) for name, (_, bounds, _) in ELEMENTARY.items()}
        for name in ("erfcinv", "normcdfinv"):
            arguments[name][:3] = 1e-20, 1e-7, 0.4
        arguments["erfinv"][:2] = 1e-20, 1 - 2**-20
        given = np.stack([arguments[name] for name in names])
        wanted = names + [f"fast_{name.removesuffix('f')}" for name in FAST] * bool(suffix)
        found = call([name + suffix for name in wanted], given.ravel())
        for row, name in enumerate(wanted):
            name = name.removeprefix("fast_")
            exact_value, _, limit = ELEMENTARY[name]
            place = names.index(name) * 12
            for x, y in zip(arguments[name], found[row][0][place : place + 12], strict=True):
                exact = exact_value(mpf(float(x)))
                error = abs(mpf(float(y)) - exact) / float(np.spacing(dtype(abs(float(exact)))))
                assert error <= limit, (name + suffix, x, y, float(error))


@pytest.mark.parametrize("suffix", exhaustive(["", "f"], ("f",)))
def test_bessel_functions(suffix):
    x = np.array([0.5, 1.0, 3.7, 8.0, 20.3], np.float32 if suffix else np.float64)
    tolerance = 1e-7 if suffix else 1e-15
    for (found,), exact in zip(call([f"{name}{suffix}" for name in BESSEL], x), BESSEL.values(), strict=True):
        np.testing.assert_allclose(found, [float(exact(mpf(float(value)))) for value in x], tolerance * 4, tolerance)
    ((first,), (second,)) = call([f"jn{suffix}", f"yn{suffix}"], np.full(5, 3), x)
    np.testing.assert_allclose(first, [float(mpmath.besselj(3, float(v))) for v in x], 10 * tolerance)
    np.testing.assert_allclose(second, [float(mpmath.bessely(3, float(v))) for v in x], 10 * tolerance)


def rounded(exact: Fraction, kind: str, mode: str) -> float:
    """Return a rational number rounded to float32 (``f``) or float64 (``d``), by integer arithmetic."""
    if exact == 0:
        return 0.0
    digits, least, largest = {"f": (24, -149, 128), "d": (53, -1074, 1024)}[kind]
    size, sign = abs(exact), -1 if exact < 0 else 1
    power = size.numerator.bit_length() - size.denominator.bit_length()
    power -= size < Fraction(2) ** power
    unit = max(power - digits + 1, least)
    scaled = size / Fraction(2) ** unit
    is_up = {"rn": None, "rd": sign < 0, "ru": sign > 0, "rz": False}[mode]
    whole = round(scaled) if is_up is None else math.ceil(scaled) if is_up else math.floor(scaled)
    if whole * Fraction(2) ** unit >= Fraction(2) ** largest:
        big = math.ldexp(2.0**digits - 1, largest - digits)
        return sign * (math.inf if is_up or is_up is None else big)
    return sign * float(whole * Fraction(2) ** unit)


def numbers(kind: str, count: int) -> np.ndarray:
    """Return finite floats of all magnitudes, of which some are close to each other, special or integers."""
    dtype = np.dtype(kind)
    generator = np.random.default_rng(2)
    found = np.frombuffer(generator.bytes(count * dtype.itemsize), dtype).copy()
    found[::3] = generator.standard_normal(found[::3].size) * 2.0 ** generator.integers(-4, 4, found[::3].size)
    limits = np.finfo(dtype)
    found[:6] = limits.max, -limits.max, limits.smallest_subnormal, -limits.tiny, 1.0, 3.0
    return np.where(np.isfinite(found), found, dtype.type(7))


def square_root(exact: Fraction) -> Fraction:
    """Return the square root of a rational number, to more digits than matter unless it is rational."""
    scale = 2**2400
    root = math.isqrt(exact.numerator * exact.denominator * scale * scale)
    return Fraction(root, exact.denominator * scale)


EXACT: dict[str, tuple[int, Callable[..., Fraction]]] = {
    "add": (2, lambda x, y: x + y),
    "sub": (2, lambda x, y: x - y),
    "mul": (2, lambda x, y: x * y),
    "div": (2, lambda x, y: x / y),
    "sqrt": (1, square_root),
    "rcp": (1, lambda x: 1 / x),
    "fma": (3, lambda x, y, z: x * y + z),
}


@pytest.mark.parametrize("kind", exhaustive(WIDTHS, ("f",)))
@pytest.mark.parametrize("count", [1, 2, 3])
def test_rounding_modes(kind, count):
    names = {
        f"{f'fma{kind}'.removesuffix('d') if name == 'fma' else kind + name}_{mode}": (exact, mode)
        for name, (arity, exact) in EXACT.items()
        for mode in MODES
        if arity == count and (kind, name) != ("d", "sub")
    }
    arguments = [np.roll(numbers(kind, 300), 7 * n) for n in range(count)]
    if count == 1:
        arguments = [abs(arguments[0])]
    if count == 2:
        arguments[1][50:100] = -arguments[0][50:100] * (1 + np.finfo(kind).eps * np.arange(50))
    if count == 3:
        with np.errstate(all="ignore"):  # cancellation
            arguments[2][50:150] = -(arguments[0] * arguments[1])[50:150]
        arguments[2] = np.where(np.isfinite(arguments[2]), arguments[2], 1)
    arguments = [np.where(x == 0, np.dtype(kind).type(1), x) for x in arguments]
    for (found,), (name, (exact, mode)) in zip(call(list(names), *arguments), names.items(), strict=True):
        for *given, value in zip(*arguments, found, strict=True):
            expected = rounded(exact(*(Fraction(float(x)) for x in given)), kind, mode)
            assert float(value) == expected, (name, given, value, expected)


@pytest.mark.parametrize("kind", exhaustive(WIDTHS, ("f",)))
def test_rounding_modes_of_zeros_and_infinities(kind):
    add = [f"{kind}add_{mode}" for mode in MODES]
    x, y = [1.5, 0.0, -0.0, 0.0, np.inf, np.inf], [-1.5, 0.0, -0.0, -0.0, -1.0, -np.inf]
    for mode, (found,) in zip(MODES, call(add, x, y), strict=True):
        zero = -0.0 if mode == "rd" else 0.0
        np.testing.assert_array_equal(found, [zero, 0.0, -0.0, zero, np.inf, np.nan])
        assert np.signbit(found[:4]).tolist() == np.signbit([zero, 0.0, -0.0, zero]).tolist()
    for (found,) in call([f"{kind}div_{mode}" for mode in MODES], [1, -1, 0, np.inf, 1], [0, 0, 0, 2, np.inf]):
        np.testing.assert_array_equal(found, [np.inf, -np.inf, np.nan, np.inf, 0.0])


def test_reciprocal_of_the_square_root():
    x = abs(numbers("f", 500))
    ((found,),) = call(["frsqrt_rn"], x)
    expected = [rounded(1 / square_root(Fraction(float(v))), "f", "rn") if v else np.inf for v in x]
    np.testing.assert_array_equal(found, np.float32(expected))


INTEGERS = {"int": (32, True), "uint": (32, False), "ll": (64, True), "ull": (64, False)}


@pytest.mark.parametrize("source", exhaustive(INTEGERS, ("int", "ull")))
def test_rounded_conversions_of_integers(source):
    bits, is_signed = INTEGERS[source]
    generator = np.random.default_rng(3)
    given = generator.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), 200) >> generator.integers(0, bits - 1, 200)
    given[:5] = 0, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), 1
    meant = [int(x) if is_signed else int(x) % 2**bits for x in given]
    for target, kind in (("float", "f"), ("double", "d")):
        names = [name for mode in MODES if f"libdevice.{(name := f'{source}2{target}_{mode}')}" in FUNCTIONS]
        for name, (found,) in zip(names, call(names, given), strict=True):
            assert [float(y) for y in found] == [rounded(Fraction(x), kind, name[-2:]) for x in meant], name


@pytest.mark.parametrize("source", WIDTHS)
def test_conversions_to_integers(source):
    given = np.array([0.5, 1.5, -2.5, 7.9, -7.9, 3e9, -3e9, 5e9, 1e19, -1e19, 2e19, np.inf, -np.inf, np.nan], source)
    name = {"f": "float", "d": "double"}[source]
    for target, (bits, is_signed) in INTEGERS.items():
        low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if is_signed else (0, 2**bits - 1)
        for mode, (found,) in zip(MODES, call([f"{name}2{target}_{mode}" for mode in MODES], given), strict=True):
            whole = {"rn": np.rint, "rd": np.floor, "ru": np.ceil, "rz": np.trunc}[mode](np.float64(given[:-3]))
            expected = [min(max(int(x), low), high) for x in whole] + [high, low]
            expected.append(0 if bits == 32 and source == "f" else 2 ** (bits - 1))  # PTX, cvt: NaN
            assert [int(y) % 2**bits for y in found] == [y % 2**bits for y in expected], (name, target, mode)


def test_conversions_between_floats():
    x = numbers("d", 300)
    x[:100] = numbers("f", 100)
    x[100:200] = (x[:100] * (1 + 2.0**-24)).clip(-1e300, 1e300)
    for mode, (found,) in zip(MODES, call([f"double2float_{mode}" for mode in MODES], x), strict=True):
        assert [float(y) for y in found] == [rounded(Fraction(float(v)), "f", mode) for v in x]
    with np.errstate(over="ignore"):
        single = x.astype(np.float32)
        ((bits,),) = call(["float2half_rn"], single)
        np.testing.assert_array_equal(bits.view(np.float16), single.astype(np.float16))
    ((wide,),) = call(["half2float"], bits)
    np.testing.assert_array_equal(wide, bits.view(np.float16).astype(np.float32))


def signed(x: int, bits: int) -> int:
    return (x + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


def byte_perm(x: int, y: int, s: int) -> int:
    data = struct.pack("<II", x % 2**32, y % 2**32)
    return int.from_bytes(bytes(data[s >> 4 * n & 7] for n in range(4)), "little")


def unsigned_24(x: int) -> int:
    return x % 2**24


OF_INT32: dict[str, Callable[..., int]] = {
    "abs": abs,
    "brev": lambda x: int(f"{x % 2**32:032b}"[::-1], 2),
    "clz": lambda x: 32 - (x % 2**32).bit_length(),
    "ffs": lambda x: (x & -x).bit_length(),
    "popc": lambda x: (x % 2**32).bit_count(),
    "hadd": lambda x, y: (x + y) >> 1,
    "max": max,
    "min": min,
    "mul24": lambda x, y: signed(x, 24) * signed(y, 24),
    "mulhi": lambda x, y: x * y >> 32,
    "rhadd": lambda x, y: (x + y + 1) >> 1,
    "uhadd": lambda x, y: (x % 2**32 + y % 2**32) >> 1,
    "umax": lambda x, y: max(x % 2**32, y % 2**32),
    "umin": lambda x, y: min(x % 2**32, y % 2**32),
    "umul24": lambda x, y: unsigned_24(x) * unsigned_24(y),
    "umulhi": lambda x, y: (x % 2**32) * (y % 2**32) >> 32,
    "urhadd": lambda x, y: (x % 2**32 + y % 2**32 + 1) >> 1,
    "byte_perm": byte_perm,
    "sad": lambda x, y, z: abs(x - y) + z,
    "usad": lambda x, y, z: abs(x % 2**32 - y % 2**32) + z,
}
OF_INT64: dict[str, Callable[..., int]] = {
    "brevll": lambda x: int(f"{x % 2**64:064b}"[::-1], 2),
    "llabs": abs,
    "clzll": lambda x: 64 - (x % 2**64).bit_length(),
    "ffsll": lambda x: (x & -x).bit_length(),
    "popcll": lambda x: (x % 2**64).bit_count(),
    "llmax": max,
    "llmin": min,
    "mul64hi": lambda x, y: x * y >> 64,
    "ullmax": lambda x, y: max(x % 2**64, y % 2**64),
    "ullmin": lambda x, y: min(x % 2**64, y % 2**64),
    "umul64hi": lambda x, y: (x % 2**64) * (y % 2**64) >> 64,
}


@pytest.mark.parametrize(("bits", "functions"), [(32, OF_INT32), (64, OF_INT64)])
def test_integer_functions(bits, functions):
    generator = np.random.default_rng(4)
    x, y, z = (generator.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), 100) for _ in range(3))
    x[:6], y[:3] = (0, -1, 1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), 5), -1
    z[:50] %= 2**16
    for kinds in {FUNCTIONS[f"libdevice.{name}"] for name in functions}:
        names = [name for name in functions if FUNCTIONS[f"libdevice.{name}"] == kinds]
        given = (x, y, z)[: len(kinds.arguments)]
        for name, (found,) in zip(names, call(names, *given), strict=True):
            width = found.itemsize * 8
            expected = [signed(functions[name](*map(int, arguments)), width) for arguments in zip(*given, strict=True)]
            assert found.tolist() == expected, name


@pytest.mark.parametrize("suffix", exhaustive(["", "f"], ("f",)))
def test_exact_functions(suffix):
    """NumPy's functions are exact, and those of the C library are rounded correctly here or called with such values."""
    kind = "f" if suffix else "d"
    x = np.array([0.0, -0.0, 0.5, -0.5, 2.5, -2.5, 1e-40, 9e30, np.inf, -np.inf, np.nan, 10.75], kind)
    y = np.array([1.0, -2.0, 0.5, 3.0, -1.5, 2.0, 1e-39, 7.0, 1.0, 2.0, 1.0, 2.5], kind)
    integers = np.arange(-6, 6)
    one = {
        **{name: getattr(np, name) for name in ("ceil", "floor", "trunc", "rint", "fabs", "sqrt")},
        "nearbyint": np.rint,
        "round": lambda x: np.copysign(np.floor(np.abs(x) + np.dtype(kind).type(0.5)), x),
        "logb": lambda x: np.where(
            np.isfinite(x) & (x != 0), np.frexp(x)[1] - 1.0, np.where(x == 0, -np.inf, np.abs(x))
        ),
    }
    two = {
        **{name: getattr(np, name) for name in ("copysign", "fmax", "fmin", "nextafter", "fmod", "hypot", "arctan2")},
        "remainder": np.vectorize(lambda x, y: math.remainder(x, y) if math.isfinite(x) else math.nan),
        "fdim": lambda x, y: np.where(x <= y, 0, x - y),
        "pow": lambda x, y: np.where(np.isnan(x), x, np.float64(x) ** np.float64(y)).astype(kind),
    }
    two = {name.replace("arctan2", "atan2"): function for name, function in two.items()}
    with np.errstate(all="ignore"):
        for functions, given in ((one, (x,)), (two, (x, y))):
            names = [name + suffix for name in functions]
            for (found,), (name, expected) in zip(call(names, *given), functions.items(), strict=True):
                np.testing.assert_allclose(found, expected(*given), rtol=2 * np.finfo(kind).eps, err_msg=name)
        ((found,), (scaled,), (power,)) = call([f"{n}{suffix}" for n in ("ldexp", "scalbn", "powi")], y, integers)
        np.testing.assert_array_equal([found, scaled], [np.ldexp(y, integers)] * 2)
        np.testing.assert_allclose(power, (np.float64(y) ** integers).astype(kind), rtol=np.finfo(kind).eps)
        if suffix:
            ((saturated,),) = call(["saturatef"], x)
            np.testing.assert_array_equal(saturated, np.nan_to_num(x.clip(0, 1)))
            ((quotient,), (fast_power,)) = call(["fast_fdividef", "fast_powf"], abs(y), y)
            np.testing.assert_array_equal(quotient, abs(y) / y)
            np.testing.assert_allclose(fast_power, (np.float64(abs(y)) ** y).astype("f"), rtol=1e-7)


@pytest.mark.parametrize("suffix", exhaustive(["", "f"], ("f",)))
def test_functions_with_several_results(suffix):
    kind = "f" if suffix else "d"
    x = np.array([0.75, -1.25, 3.5, -17.0, 1e-40, 100.25, 2.0, 2.5], kind)
    y = np.array([2.0, 0.5, -1.0, 3.0, 1.0, 7.0, 1.25, 1.0], kind)
    fast = ["fast_sincosf"] if suffix else []
    found = call([f"modf{suffix}", f"sincos{suffix}", f"sincospi{suffix}", *fast], x)
    np.testing.assert_array_equal(found[0], np.modf(x))
    for values in [found[1], *found[3:]]:
        np.testing.assert_allclose(values, [np.sin(x), np.cos(x)], rtol=2 * np.finfo(kind).eps)
    exact = [[float(function(mpf(float(v)))) for v in x] for function in (mpmath.sinpi, mpmath.cospi)]
    np.testing.assert_allclose(found[2], np.array(exact, kind), rtol=2 * np.finfo(kind).eps)
    ((mantissa, exponent),) = call([f"frexp{suffix}"], x)
    np.testing.assert_array_equal([mantissa, exponent], np.frexp(x))
    ((rest, quotient),) = call([f"remquo{suffix}"], x, y)
    exact_quotients = [round(Fraction(float(a)) / Fraction(float(b))) for a, b in zip(x, y, strict=True)]
    assert rest.tolist() == [math.remainder(float(a), float(b)) for a, b in zip(x, y, strict=True)]
    assert quotient.tolist() == [int(math.copysign(abs(q) % 8, q)) for q in exact_quotients]


def test_bits_and_predicates():
    x = np.array([0.0, -0.0, 1.5, -2.0, 1e-310, np.inf, -np.inf, np.nan])
    y = x.astype(np.float32)
    flags = {"isnan": np.isnan, "isinf": np.isinf, "signbit": np.signbit}
    for suffix, given, finite in (("d", x, "isfinited"), ("f", y, "finitef")):
        ilogb = "ilogbf" if suffix == "f" else "ilogb"
        *found, (exponents,) = call([*(name + suffix for name in flags), finite, ilogb], given)
        for (values,), function in zip(found, (*flags.values(), np.isfinite), strict=True):
            np.testing.assert_array_equal(values[:-1] != 0, function(given)[:-1])
            assert values[-1] != 0 or function is not np.isnan
        smallest = -1030 if suffix == "d" else -(2**31)
        assert exponents.tolist() == [-(2**31), -(2**31), 0, 1, smallest, 2**31 - 1, 2**31 - 1, -(2**31)]
    ((high,), (low,)) = call(["double2hiint", "double2loint"], x)
    np.testing.assert_array_equal(np.stack([low, high], 1).ravel().view(np.float64), x)
    ((joined,),) = call(["hiloint2double"], high, low)
    np.testing.assert_array_equal(joined, x)
    ((bits,), (nearest,), (away,)) = call(["double_as_longlong", "llrint", "llround"], [0.5, 1.5, -2.5, 7.0])
    assert nearest.tolist() == [0, 2, -2, 7] and away.tolist() == [1, 2, -3, 7]
    ((again,),) = call(["longlong_as_double"], bits)
    assert again.tolist() == [0.5, 1.5, -2.5, 7.0]
    ((near,), (far,)) = call(["llrintf", "llroundf"], [0.5, 1.5, -2.5, 7.0])
    assert near.tolist() == nearest.tolist() and far.tolist() == away.tolist()
    ((words,),) = call(["float_as_int"], y)
    ((floats,),) = call(["int_as_float"], words)
    np.testing.assert_array_equal(floats.view(np.int32), y.view(np.int32))


def test_arguments_are_converted_and_checked():
    @cuda.jit
    def kernel(x, n):
        x[0] = libdevice.sinf(1) + libdevice.fmaf(x[0], 2, n)

    x = np.float32([3.0])
    wd.kernel(kernel)[1, 1](x, np.int64(1))
    assert x[0] == np.float32(math.sin(1)) + np.float32(7)
    with pytest.raises(wd.KernelError, match=r"libdevice.sinf takes 1 arguments by position \(x\), found 2"):
        kernel_from_source("def k(x):\n    x[0] = libdevice.sinf(1.0, 2.0)\n", "k", {"libdevice": libdevice})[1, 1](x)
    with pytest.raises(wd.KernelError, match=r"cuda.libdevice.sinn is not part .*Did you mean 'sin"):
        kernel_from_source("def k(x):\n    x[0] = libdevice.sinn(1.0)\n", "k", {"libdevice": libdevice})[1, 1](x)


def test_the_debugger_computes_the_same():
    @cuda.jit
    def kernel(x, y, n):
        i = cuda.grid(1)
        mantissa, exponent = libdevice.frexpf(x[i])
        n[i] = exponent + libdevice.float2int_rd(x[i])
        y[i] = libdevice.fadd_ru(mantissa, libdevice.erfinvf(libdevice.sinpif(x[i])))

    x = np.linspace(-3, 3.1, 16, dtype=np.float32)
    results = []
    for run in (wd.kernel, wd.debug):
        results.append((np.zeros(16, np.float32), np.zeros(16, np.int32)))
        run(kernel)[1, 16](x, *results[-1])
    np.testing.assert_array_equal(results[0], results[1])
