"""The functions of ``wd.math``: how accurate they are, special values, and the same bits on every backend."""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from exhaustive import exhaustive
from float32_errors import BINARY, EXACT, SPECIAL, errors, exact, kernel_of as new_kernel_of, pairs, sample
from oracle import launch_gpu_code

import warpdrive as wd
from warpdrive.backends.pycuda import PyCudaBackend
from warpdrive.backends.pycuda.nvrtc import compile_fused
from warpdrive.kernels.cuda_kernel import cuda_kernel
from warpdrive.kernels.fusion import Call, Fusion

BITS = {
    "sin": "eb691e9413633a9a",
    "cos": "061314537a71bf9a",
    "tan": "14d13c261a58cbed",
    "exp": "5f54dfe49cb8bead",
    "log": "d64b6c16d9c1bb49",
    "tanh": "7907cac510b746ba",
    "sqrt": "5eb05dc086c4baf5",
    "rsqrt": "34343d5221074e67",
    "pow": "a2e32bf9a6d25ed8",
    "atan2": "af95ff57490f026d",
}
"""By name: the SHA-256 of the bits of all results of the sample."""

NAN, INF = np.nan, np.inf
OF_C99 = {
    "sin": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "cos": [(0.0, 1.0), (-0.0, 1.0), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "tan": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "exp": [(0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, 0.0), (NAN, NAN), (88.73, INF), (-104.0, 0.0)],
    "log": [(1.0, 0.0), (0.0, -INF), (-0.0, -INF), (-1.0, NAN), (-INF, NAN), (INF, INF), (NAN, NAN)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0), (NAN, NAN), (1e-45, 1e-45)],
    "sqrt": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-1.0, NAN), (-INF, NAN), (NAN, NAN)],
    "rsqrt": [(0.0, INF), (-0.0, -INF), (INF, 0.0), (-1.0, NAN), (-INF, NAN), (NAN, NAN)],
}
"""``(argument, value)``, of Annex F of C99; ``rsqrt`` is that of CUDA."""
OF_TWO_IN_C99 = {
    "pow": [
        *[(x, y, 1.0) for x in (0.0, -0.0, -2.0, INF, -INF, NAN) for y in (0.0, -0.0)],
        *[(1.0, y, 1.0) for y in (-3.5, INF, -INF, NAN)],
        *[(0.0, -3.0, INF), (-0.0, -3.0, -INF), (-0.0, -2.0, INF), (-0.0, -0.5, INF), (-0.0, -INF, INF)],
        *[(0.0, 3.0, 0.0), (-0.0, 3.0, -0.0), (-0.0, 2.0, 0.0), (-0.0, 2.5, 0.0)],
        *[(-1.0, INF, 1.0), (-1.0, -INF, 1.0), (-2.0, 0.5, NAN), (-2.0, 3.0, -8.0), (-2.0, -2.0, 0.25)],
        *[(0.5, INF, 0.0), (0.5, -INF, INF), (-2.0, INF, INF), (-2.0, -INF, 0.0)],
        *[(-INF, -3.0, -0.0), (-INF, -2.5, 0.0), (-INF, 3.0, -INF), (-INF, 2.5, INF)],
        *[(INF, -1.0, 0.0), (INF, 0.5, INF), (NAN, 1.0, NAN), (2.0, NAN, NAN), (-1.0, 16777217.0, 1.0)],
    ],
    "atan2": [
        *[(0.0, 0.0, 0.0), (-0.0, 0.0, -0.0), (0.0, 1.0, 0.0), (-0.0, INF, -0.0), (0.0, NAN, NAN), (NAN, 0.0, NAN)],
        *[(0.0, -0.0, np.pi), (-0.0, -0.0, -np.pi), (0.0, -1.0, np.pi), (-0.0, -INF, -np.pi)],
        *[(1.0, 0.0, np.pi / 2), (-1.0, -0.0, -np.pi / 2), (INF, 3.0, np.pi / 2), (-INF, -3.0, -np.pi / 2)],
        *[(INF, INF, np.pi / 4), (INF, -INF, 3 * np.pi / 4), (-INF, INF, -np.pi / 4), (-INF, -INF, -3 * np.pi / 4)],
        *[(2.0, INF, 0.0), (2.0, -INF, np.pi), (-2.0, -INF, -np.pi)],
    ],
}


kernel_of = cache(new_kernel_of)
USUAL = ("sin", "exp", "rsqrt", "pow")
"""Functions that `make test` also computes by GPU code and in Python."""


@cache
def arguments_of(name: str) -> tuple[np.ndarray, ...]:
    """Return the arguments that a function is tested on."""
    generator = np.random.default_rng(5)
    return pairs(name, generator, 20_000) if name in BINARY else (sample(generator),)


def computed(name: str, *arguments: np.ndarray) -> np.ndarray:
    """Return what the CPU backend computes, in blocks of one size, for which the kernel is compiled once."""
    out = np.full(len(arguments[0]), 7, np.float32)
    kernel_of(name)[-(-len(out) // 128), 128](*arguments, out)
    return out


@cache
def computed_sample(name: str) -> np.ndarray:
    """Return what the CPU backend computes of the arguments that a function is tested on."""
    return computed(name, *arguments_of(name))


def digest(values: np.ndarray) -> str:
    """Return a hash of the bits of numbers, of which NaN has many."""
    bits = np.where(np.isnan(values), np.float32(NAN), values).astype("<f4")
    return hashlib.sha256(bits.tobytes()).hexdigest()[:16]


@pytest.mark.parametrize("name", EXACT)
def test_within_a_unit_in_the_last_place(name: str) -> None:
    arguments = arguments_of(name)
    found = errors(computed_sample(name), exact(name, *arguments))
    worst = found.argmax()
    assert found[worst] <= 1.0, [argument[worst] for argument in arguments]


@pytest.mark.parametrize("name", [*OF_C99, *OF_TWO_IN_C99])
def test_special_values(name: str) -> None:
    table = OF_C99[name] if name in OF_C99 else OF_TWO_IN_C99[name]
    *arguments, expected = np.array(table, np.float32).T.copy()
    found = computed(name, *arguments)
    np.testing.assert_array_equal(found, expected)
    is_number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found)[is_number], np.signbit(expected)[is_number])


@wd.kernel
def compute_of_others(out):
    out[0] = wd.math.sin(0.1)
    out[1] = wd.math.atan2(1, 2)
    out[2] = wd.math.pow(2.5, np.int64(3))


def test_other_numbers_are_converted() -> None:
    out = np.zeros(3)
    compute_of_others[1, 1](out)
    one = np.ones(1, np.float32)
    expected = [computed("sin", one * np.float32(0.1)), computed("atan2", one, 2 * one), [15.625]]
    np.testing.assert_array_equal(out, np.concatenate(expected))


def test_huge_angles() -> None:
    """The one that is nearest to a multiple of pi/2, the largest, and powers of two, by mpmath with 300 bits."""
    x = np.array([16367173 * 2.0**72, 3.4028234663852886e38, 2.0**17, -(2.0**100)], np.float32)
    sines = [1.0, -0.521876523334, -0.999113788951, 0.872183605418]
    cosines = [-1.61476979825e-9, 0.85302103983, 0.0420908152503, 0.489178656975]
    np.testing.assert_allclose(computed("sin", x), sines, rtol=1.2e-7)
    np.testing.assert_allclose(computed("cos", x), cosines, rtol=1.2e-7)
    np.testing.assert_allclose(computed("tan", x), np.divide(sines, cosines), rtol=1.2e-7)


@pytest.mark.parametrize("name", EXACT)
def test_bits_of_the_cpu_backend(name: str) -> None:
    """Results that every processor and compiler must give."""
    assert digest(computed_sample(name)) == BITS[name]


@pytest.mark.parametrize("name", exhaustive(EXACT, USUAL))
def test_gpu_code(name: str) -> None:
    """Code that the Numba CUDA backend compiles for a GPU has these bits on the host.

    The instructions use float32 only, round everything, and keep subnormal numbers.
    """
    arguments = arguments_of(name)
    out = np.zeros(len(arguments[0]), np.float32)
    ptx = launch_gpu_code(kernel_of(name), -(-len(out) // 256), 256, [*arguments, out], compile_ptx=True)
    assert digest(out) == BITS[name]
    assert ".f64" not in ptx
    assert ".approx" not in ptx
    assert ".ftz" not in ptx
    assert ("fma.rn.f32" in ptx) == (name != "sqrt")


@pytest.mark.parametrize("words", [("x",), ("x", "y")], ids=["of one number", "of two"])
def test_bits_of_cuda_c(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """CUDA C on the host; for a GPU it is compiled without float64. One kernel computes all functions."""
    monkeypatch.setenv("WARPDRIVE_CUDA_ON_HOST", "1")
    names = [name for name in EXACT if (name in BINARY) == (len(words) == 2)]
    arguments = {name: arguments_of(name) for name in names}
    parameters, lines, arrays = [], [], {}
    for name in names:
        own = [f"{name}_{word}" for word in words]
        parameters += [*(f"const float *{word}" for word in own), f"float *{name}_out"]
        given = ", ".join(f"{word}[wd_index({word}, i)]" for word in own)
        lines.append(f"    {name}_out[wd_index({name}_out, i)] = wd_{name}({given});\n")
        arrays |= dict(zip(own, arguments[name], strict=True)) | {f"{name}_out": np.zeros_like(arguments[name][0])}
    file = tmp_path / "functions.cu"
    text = f"WD_KERNEL void compute({', '.join(parameters)}) {{\n    const int i = wd_env();\n{''.join(lines)}}}\n"
    file.write_text(text)
    kernel = cuda_kernel(file, "compute")
    tensors = {word: torch.from_numpy(array) for word, array in arrays.items()}
    fusion = Fusion("compute", kernel.parameters, (Call(kernel, kernel.parameters),))
    (replicas,) = {len(array) for array in arrays.values()}
    assert ".f64" not in compile_fused(fusion, tensors, replicas, 1, (9, 0))[0].ptx
    PyCudaBackend().bind(fusion, tensors, replicas, 1)()
    assert {name: digest(arrays[f"{name}_out"]) for name in names} == {name: BITS[name] for name in names}


@pytest.mark.parametrize("name", exhaustive(EXACT, USUAL))
def test_bits_in_python(name: str) -> None:
    """The debugger and the checks, which run kernels in Python, compute the same bits."""
    kernel, every = kernel_of(name), 97
    arguments = tuple(np.append(argument[: len(SPECIAL)], argument[::every]) for argument in arguments_of(name))
    expected, found, checked = (np.zeros(len(arguments[0]), np.float32) for _ in range(3))
    kernel[-(-len(expected) // 128), 128](*arguments, expected)
    blocks = -(-len(expected) // 32)
    wd.debug(kernel)[blocks, 32](*arguments, found)
    np.testing.assert_array_equal(found, expected)
    findings = wd.check_launch(kernel, blocks, 32, *arguments, checked)
    assert findings.clean, findings
    np.testing.assert_array_equal(checked, np.zeros_like(checked))
