"""xoroshiro128+ of ``numba.cuda.random``: states on the host, draws in kernels.

The generator is that of Blackman and Vigna, "Scrambled linear pseudorandom number generators", TOMS 2021, with the
constants (55, 14, 36) of its first version; states are seeded by SplitMix64 and lie 2**64 draws apart.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from warpdrive.backends.host.native import native_module
from warpdrive.numba_cuda.arrays import to_device

xoroshiro128p_dtype = np.dtype([("s0", np.uint64), ("s1", np.uint64)], align=True)
xoroshiro128p_type = numba.from_dtype(xoroshiro128p_dtype)

_WORD = (1 << 64) - 1
_A, _64_MINUS_A = np.uint64(55), np.uint64(9)
_B = np.uint64(14)
_C, _64_MINUS_C = np.uint64(36), np.uint64(28)
_SHIFT, _UNIT = np.uint64(11), 2.0**-53
_TWO_PI, _TWO_PI_32 = 2 * math.pi, np.float32(2 * math.pi)

_STATES = """
from numba import njit, uint64

@njit("UniTuple(uint64, 2)(uint64, uint64)", cache=True, _nrt=False)
def jump(s0, s1):
    t0 = t1 = uint64(0)
    for word in (uint64(0xBEAC0467EBA5FACB), uint64(0xD86B048B86AA9922)):
        for bit in range(64):
            if word >> uint64(bit) & uint64(1):
                t0 ^= s0
                t1 ^= s1
            s1 ^= s0
            s0 = (s0 << uint64(55) | s0 >> uint64(9)) ^ s1 ^ s1 << uint64(14)
            s1 = s1 << uint64(36) | s1 >> uint64(28)
    return t0, t1

@njit(cache=True, _nrt=False)
def fill(states, seed, skipped):
    z = seed + uint64(0x9E3779B97F4A7C15)
    z = (z ^ z >> uint64(30)) * uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> uint64(27)) * uint64(0x94D049BB133111EB)
    s0 = s1 = z ^ z >> uint64(31)
    for _ in range(skipped):
        s0, s1 = jump(s0, s1)
    for index in range(len(states)):
        states[index]["s0"] = s0
        states[index]["s1"] = s1
        s0, s1 = jump(s0, s1)
"""


@numba.njit
def xoroshiro128p_next(states, index):  # type: ignore[no-untyped-def]
    """Return the next word (uint64) of a state."""
    s0 = states[index]["s0"]
    s1 = states[index]["s1"]
    s2 = s0 ^ s1
    states[index]["s0"] = ((s0 << _A) | (s0 >> _64_MINUS_A)) ^ s2 ^ (s2 << _B)
    states[index]["s1"] = (s2 << _C) | (s2 >> _64_MINUS_C)
    return s0 + s1


@numba.njit
def uint64_to_unit_float64(x):  # type: ignore[no-untyped-def]
    """Return the upper 53 bits of a word as float64 in [0, 1)."""
    return np.float64(np.uint64(x) >> _SHIFT) * _UNIT


@numba.njit
def uint64_to_unit_float32(x):  # type: ignore[no-untyped-def]
    """Return a word as float32 in [0, 1]."""
    return np.float32(uint64_to_unit_float64(x))


@numba.njit
def xoroshiro128p_uniform_float32(states, index):  # type: ignore[no-untyped-def]
    """Return a uniform float32 in [0, 1)."""
    return uint64_to_unit_float32(xoroshiro128p_next(states, index))


@numba.njit
def xoroshiro128p_uniform_float64(states, index):  # type: ignore[no-untyped-def]
    """Return a uniform float64 in [0, 1)."""
    return uint64_to_unit_float64(xoroshiro128p_next(states, index))


@numba.njit
def xoroshiro128p_normal_float32(states, index):  # type: ignore[no-untyped-def]
    """Return a standard normal float32 (Box and Muller, 1958)."""
    u1 = xoroshiro128p_uniform_float32(states, index)
    u2 = xoroshiro128p_uniform_float32(states, index)
    return math.sqrt(np.float32(-2.0) * math.log(u1)) * math.cos(_TWO_PI_32 * u2)


@numba.njit
def xoroshiro128p_normal_float64(states, index):  # type: ignore[no-untyped-def]
    """Return a standard normal float64, made of two uniform float32."""
    u1 = xoroshiro128p_uniform_float32(states, index)
    u2 = xoroshiro128p_uniform_float32(states, index)
    return math.sqrt(-2.0 * math.log(u1)) * math.cos(_TWO_PI * u2)


def create_xoroshiro128p_states(n: int, seed: int, subsequence_start: int = 0, stream: Any = 0) -> Any:
    """Return a device array of states.

    Args:
        n: Number of states.
        seed: Seed of the first one.
        subsequence_start: Number of subsequences of 2**64 draws to skip.
        stream: Stream of later copies.

    Returns:
        ``[n]`` of ``xoroshiro128p_dtype``.
    """
    states = np.empty(n, xoroshiro128p_dtype)
    init_xoroshiro128p_states_cpu(states, seed, subsequence_start)
    return to_device(states, stream)


def init_xoroshiro128p_states(states: Any, seed: int, subsequence_start: int = 0, stream: Any = 0) -> None:
    """Initialise the states in a device array; see :func:`create_xoroshiro128p_states`.

    Args:
        states: ``[n]`` of ``xoroshiro128p_dtype``.
        seed: Seed of the first one.
        subsequence_start: Number of subsequences of 2**64 draws to skip.
        stream: Ignored: calls are synchronous.
    """
    found = np.empty(states.shape, xoroshiro128p_dtype)
    init_xoroshiro128p_states_cpu(found, seed, subsequence_start)
    states.copy_to_device(found)


def init_xoroshiro128p_states_cpu(states: npt.NDArray[Any], seed: int, subsequence_start: int) -> None:
    """Initialise the states in a NumPy array; see :func:`create_xoroshiro128p_states`."""
    if len(states):
        native_module(_STATES).fill(states, np.uint64(int(seed) & _WORD), np.int64(subsequence_start))
