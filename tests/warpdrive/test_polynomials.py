"""Logarithm and cosine of normal samples: accuracy, and bitwise equality on all backends."""

from __future__ import annotations

import hashlib
import inspect
import re
from typing import Any

import numpy as np
import pytest
from numba import cuda, types

import warpdrive as wd
from warpdrive import polynomials
from warpdrive.random import initial_rng

STEPS = 1 << 24
"""Number of values of a uniform random number."""
CHUNK = 1 << 20

FUNCTIONS = {"minus_two_log": (0.9, "b00d8e903a145f58"), "cosine_of_turns": (2.1, "46df362181fea39e")}
"""By name: how many units in the last place it is off at most, and the SHA-256 of all its values' bits."""


@wd.kernel
def tabulate(first, logarithms, cosines):
    i = cuda.grid(1)
    logarithms[i] = polynomials.minus_two_log(np.float32(first + i + 1) * np.float32(2.0**-24))
    cosines[i] = polynomials.cosine_of_turns(np.float32(first + i) * np.float32(2.0**-24))


@pytest.fixture(scope="module")
def tables() -> dict[str, Any]:
    """Give all values that normal draws are made of, by the name of the function."""
    found = {name: np.zeros(STEPS, np.float32) for name in FUNCTIONS}
    for first in range(0, STEPS, CHUNK):
        tabulate[CHUNK // 256, 256](first, *(values[first : first + CHUNK] for values in found.values()))
    return found


def exact(name: str, first: int) -> Any:
    """Return the same in float64; the cosine by way of a sine, which is accurate where it is small."""
    numbers = np.arange(first, first + CHUNK)
    if name == "minus_two_log":
        return -2 * np.log((numbers + 1) / STEPS)
    return np.sin(2 * np.pi * (np.abs(numbers / STEPS - 0.5) - 0.25))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_accuracy(name: str, tables: dict[str, Any]) -> None:
    """Over everything that a uniform number can be."""
    for first in range(0, STEPS, CHUNK):
        expected, found = exact(name, first), tables[name][first : first + CHUNK]
        last_place = np.spacing(np.abs(expected).astype(np.float32))
        assert np.all(np.abs(found - expected) <= FUNCTIONS[name][0] * last_place)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_bits(name: str, tables: dict[str, Any]) -> None:
    """Bits that any processor and any compiler must produce."""
    assert hashlib.sha256(tables[name].astype("<f4").tobytes()).hexdigest()[:16] == FUNCTIONS[name][1]


@wd.kernel
def draw(rng, normals):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    for k in range(normals.shape[2]):
        normals[env, agent, k] = wd.random.normal(rng, env, agent)


@wd.kernel
def draw_again(rng, normals):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    for k in range(normals.shape[2]):
        assert wd.random.normal(rng, env, agent) == normals[env, agent, k]


def test_bits_in_python() -> None:
    """The debugger and the checks, which run kernels in Python, draw the same bits."""
    normals = np.zeros((3, 2, 50), np.float32)
    draw[3, 2](initial_rng(5, 0, 3, 2), normals)
    assert len(np.unique(normals)) == normals.size
    wd.debug(draw_again)[3, 2](initial_rng(5, 0, 3, 2), normals)
    assert wd.check_launch(draw_again, 3, 2, initial_rng(5, 0, 3, 2), normals).clean
    normals[1, 0, 7] = np.nextafter(normals[1, 0, 7], np.float32(9))
    with pytest.raises(wd.KernelError, match="AssertionError"):
        wd.check_launch(draw_again, 3, 2, initial_rng(5, 0, 3, 2), normals)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_instructions_of_a_gpu(name: str) -> None:
    """A GPU's compiler keeps every fma, makes no other of the rest, and computes in float32."""
    function = getattr(polynomials, name).function
    text, _ = cuda.compile_ptx(function, (types.float32,), device=True, cc=(8, 0))
    found = re.findall(r"^\s+(?:@%p\d+ )?([a-z]+[\w.]*\.f(?:16|32|64))\s", text, re.MULTILINE)
    allowed = {"fma.rn.f32", "mul.f32", "add.f32", "sub.f32", "abs.f32", "setp.lt.f32", "selp.f32"}
    assert set(found) - {"ld.param.f32", "st.f32", "mov.f32"} <= allowed
    assert found.count("fma.rn.f32") == inspect.getsource(function).count("cuda.fma(")
