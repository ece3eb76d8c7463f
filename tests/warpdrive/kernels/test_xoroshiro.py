"""The functions of ``numba.cuda.random`` in kernels, against xoroshiro128+ and SplitMix64 in Python's own integers."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from numba import cuda
from numba.cuda import random as cuda_random
from numba.cuda.random import (
    init_xoroshiro128p_state,
    xoroshiro128p_jump,
    xoroshiro128p_next,
    xoroshiro128p_normal_float32,
    xoroshiro128p_normal_float64,
    xoroshiro128p_uniform_float32,
)

import warpdrive as wd
from warpdrive.errors import DefinitionError

WORD = (1 << 64) - 1
State = tuple[int, int]


def rotated(x: int, k: int) -> int:
    return (x << k | x >> (64 - k)) & WORD


def splitmix64(seed: int) -> int:
    """The first number of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014)."""
    z = (seed + 0x9E3779B97F4A7C15) & WORD
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & WORD
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & WORD
    return z ^ z >> 31


def step(state: State) -> State:
    """One step of xoroshiro128+ (Blackman and Vigna, 2016: rotations by 55 and 36, a shift by 14)."""
    s0, s1 = state
    s1 ^= s0
    return rotated(s0, 55) ^ s1 ^ (s1 << 14 & WORD), rotated(s1, 36)


def draws(state: State, count: int) -> tuple[list[int], State]:
    numbers = []
    for _ in range(count):
        numbers.append(sum(state) & WORD)
        state = step(state)
    return numbers, state


def bits_of(state: State) -> np.ndarray:
    return np.array([word >> place & 1 for word in state for place in range(64)], np.int64)


@pytest.fixture(scope="module")
def far_ahead() -> np.ndarray:
    """Matrix of 2**64 steps on the bits of a state: a step is linear, so its matrix is squared 64 times."""
    matrix = np.empty((128, 128), np.int64)
    for place in range(128):
        unit = (1 << place, 0) if place < 64 else (0, 1 << place - 64)
        matrix[:, place] = bits_of(step(unit))
    for _ in range(64):
        matrix = matrix @ matrix % 2
    return matrix


def pairs(states: np.ndarray) -> list[State]:
    return [(int(state["s0"]), int(state["s1"])) for state in states]


def test_states_are_those_of_create_xoroshiro128p_states(far_ahead) -> None:
    assert splitmix64(0) == 0xE220A8397B1DCDAF and splitmix64(1234567) == 6457827717110365317  # published
    for seed in (0, 1, 2**64 - 1):
        states = pairs(wd.random.xoroshiro128p_states(4, seed))
        assert states[0] == (splitmix64(seed), splitmix64(seed))
        for earlier, later in itertools.pairwise(states):
            np.testing.assert_array_equal(bits_of(later), far_ahead @ bits_of(earlier) % 2)
    assert wd.random.xoroshiro128p_states(2, 5, subsequence_start=2).tolist() == (
        wd.random.xoroshiro128p_states(4, 5)[2:].tolist()
    )
    assert wd.random.xoroshiro128p_states(0, 5).shape == (0,)
    for arguments in ((-1, 0), (1, -1), (1, 2**64), (1, 0, -1)):
        with pytest.raises(DefinitionError, match="must lie between 0"):
            wd.random.xoroshiro128p_states(*arguments)


def draw_one_of_each(states, integers, uniforms, normals):
    i = cuda.grid(1)
    if i < states.shape[0]:
        integers[i, 0] = xoroshiro128p_next(states, i)
        uniforms[i, 0] = xoroshiro128p_uniform_float32(states, i)
        uniforms[i, 1] = cuda_random.xoroshiro128p_uniform_float64(states, i)
        cuda.syncthreads()
        normals[i, 0] = xoroshiro128p_normal_float32(states, i)
        normals[i, 1] = xoroshiro128p_normal_float64(states, i)
        integers[i, 1] = cuda.random.xoroshiro128p_next(states, i)


def uniform(number: int) -> float:
    return (number >> 11) * 2.0**-53


def normal(first: int, second: int) -> float:
    u1, u2 = (float(np.float32(uniform(number))) for number in (first, second))
    return math.sqrt(-2.0 * math.log(u1)) * math.cos(2.0 * math.pi * u2)


def launch(kernel, blocks, threads, *arguments):
    wd.kernel(kernel)[blocks, threads](*arguments)


def debug(kernel, blocks, threads, *arguments):
    wd.debug(kernel)[blocks, threads](*arguments)


@pytest.mark.parametrize("run", [launch, debug])
def test_numbers_drawn_in_a_kernel(run) -> None:
    count = 22
    states = wd.random.xoroshiro128p_states(count, 2024)
    before = pairs(states)
    integers, uniforms, normals = np.zeros((count, 2), np.uint64), np.zeros((count, 2)), np.zeros((count, 2))
    run(draw_one_of_each, 3, 8, states, integers, uniforms, normals)
    expected = [draws(state, 8) for state in before]
    assert pairs(states) == [after for _, after in expected]
    for i, (numbers, _) in enumerate(expected):
        assert integers[i].tolist() == [numbers[0], numbers[7]]
        assert uniforms[i].tolist() == [np.float32(uniform(numbers[1])), uniform(numbers[2])]
        np.testing.assert_allclose(normals[i, 0], normal(numbers[3], numbers[4]), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(normals[i, 1], normal(numbers[5], numbers[6]), rtol=1e-6)  # of a float32's log


@wd.kernel
def start_and_jump(states, seed):
    i = cuda.grid(1)
    init_xoroshiro128p_state(states, i, seed + i)
    xoroshiro128p_jump(states, i)


def test_states_made_in_a_kernel(far_ahead) -> None:
    states = np.zeros(2, cuda_random.xoroshiro128p_dtype)
    start_and_jump[2, 1](states, 7)
    for i, state in enumerate(pairs(states)):
        first = splitmix64(7 + i)
        np.testing.assert_array_equal(bits_of(state), far_ahead @ bits_of((first, first)) % 2)


def one_state_for_all(states, out):
    out[cuda.threadIdx.x] = xoroshiro128p_uniform_float32(states, 0)


def test_threads_that_share_a_state_race() -> None:
    states, out = wd.random.xoroshiro128p_states(1, 3), np.zeros(4, np.float32)
    report = wd.check_launch(one_state_for_all, 1, 4, states, out)
    assert {finding.array for finding in report.races} == {"states"}
    own = wd.check_launch(draw_one_of_each, 1, 2, wd.random.xoroshiro128p_states(2, 3), np.zeros((2, 2), np.uint64),
                          np.zeros((2, 2)), np.zeros((2, 2)))  # fmt: skip
    assert not own.races and not own.bounds
