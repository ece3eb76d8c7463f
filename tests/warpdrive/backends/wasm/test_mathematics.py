"""Functions that WebAssembly lacks give the bits of the C library, or of exact arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import llvmlite.binding as llvm
import numpy as np
import pytest

from warpdrive.backends.wasm.compile import FEATURES, LAYOUT, TRIPLE, _target
from warpdrive.backends.wasm.link import link
from warpdrive.backends.wasm.mathematics import with_own_functions
from warpdrive.backends.wasm.run import instance_of

TEXT = """
declare float @llvm.fma.f32(float, float, float)
declare float @llvm.minnum.f32(float, float)
declare double @llvm.maxnum.f64(double, double)
define float @fma(float %x, float %y, float %z) {
  %r = call float @llvm.fma.f32(float %x, float %y, float %z)
  ret float %r
}
define float @fmod(float %x, float %y) {
  %r = frem float %x, %y
  ret float %r
}
define double @fmod_of_doubles(double %x, double %y) {
  %r = frem double %x, %y
  ret double %r
}
define float @least(float %x, float %y) {
  %r = call float @llvm.minnum.f32(float %x, float %y)
  ret float %r
}
define double @greatest(double %x, double %y) {
  %r = call double @llvm.maxnum.f64(double %x, double %y)
  ret double %r
}
"""
NAMES = ("fma", "fmod", "fmod_of_doubles", "least", "greatest")
Functions = dict[str, Callable[..., float]]


@pytest.fixture(scope="module")
def functions() -> Functions:
    """Give functions of one instruction each, called in wasmtime."""
    module = llvm.parse_assembly(
        f'target triple = "{TRIPLE}"\ntarget datalayout = "{LAYOUT}"\n{with_own_functions(TEXT)}'
    )
    machine = _target().create_target_machine(opt=3, features=FEATURES)
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    builder.getModulePassManager().run(module, builder)
    store, exports = instance_of(link(machine.emit_object(module), NAMES).module)
    return {name: lambda *numbers, own=exports[name]: own(store, *numbers) for name in NAMES}


def random_floats(count: int, dtype: str) -> np.ndarray:
    """Return floats of any bits: of all sizes, subnormal, infinite and NaN."""
    words = np.random.default_rng(0).integers(0, 1 << (32 if dtype == "f4" else 64), count, dtype=f"u{dtype[1]}")
    return words.view(dtype)


def same(one: float, other: float, dtype: str) -> bool:
    return bool(np.array(one, dtype).tobytes() == np.array(other, dtype).tobytes()) or (one != one and other != other)


def test_fma_rounds_the_exact_result_once(functions: Functions) -> None:
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 3000)).astype(np.float32)
    close = (-x * y * (1 + rng.normal(size=3000) * 2.0 ** -rng.integers(0, 50, 3000))).astype(np.float32)
    tiny = x * np.float32(2.0) ** rng.integers(-149, -100, 3000).astype(np.float32)
    for numbers in (zip(x, y, close, strict=True), zip(tiny, y, tiny[::-1], strict=True)):
        for triple in numbers:
            a, b, c = map(float, triple)
            exact = Fraction(a) * Fraction(b) + Fraction(c)
            assert same(functions["fma"](a, b, c), float32_of(exact, a * b + c), "f4"), triple


def float32_of(exact: Fraction, sign_of_zero: float) -> float:
    """Return the float32 closest to a number, the even one of two."""
    if exact == 0:
        return math.copysign(0.0, sign_of_zero)
    size = abs(exact)
    exponent = max(size.numerator.bit_length() - size.denominator.bit_length() - 24, -149)
    while size / Fraction(2) ** exponent >= 1 << 24:
        exponent += 1
    while exponent > -149 and size / Fraction(2) ** exponent < 1 << 23:
        exponent -= 1
    rounded = round(size / Fraction(2) ** exponent)  # to even
    return math.copysign(float(rounded * Fraction(2) ** exponent), float(exact) or (1 if exact > 0 else -1))


@pytest.mark.parametrize(("name", "dtype"), [("fmod", "f4"), ("fmod_of_doubles", "f8")])
def test_the_remainder_of_a_division_is_exact(functions: Functions, name: str, dtype: str) -> None:
    numbers = random_floats(4000, dtype)
    with np.errstate(invalid="ignore"):
        for x, y in zip(numbers[::2], numbers[1::2], strict=True):
            assert same(functions[name](float(x), float(y)), float(np.fmod(x, y)), dtype), (x, y)
    for x, y in ((5.5, 2.0), (-5.5, 2.0), (6.0, 3.0), (-6.0, 3.0), (1.0, math.inf), (0.0, 3.0), (-0.0, 3.0)):
        assert same(functions[name](x, y), math.fmod(x, y), dtype)
    assert math.isnan(functions[name](1.0, 0.0)) and math.isnan(functions[name](math.inf, 2.0))


def test_extremes_leave_out_nan(functions: Functions) -> None:
    assert functions["least"](1.0, 2.0) == 1.0 and functions["greatest"](1.0, 2.0) == 2.0
    for name in ("least", "greatest"):
        assert functions[name](math.nan, 2.0) == 2.0 and functions[name](2.0, math.nan) == 2.0
