"""Random numbers: the published vectors, the documented streams, and the shapes of the distributions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numba import cuda

import warpdrive as wd
from warpdrive.errors import DefinitionError
from warpdrive.random import initial_rng

# philox4x32-10 in kat_vectors of the Random123 library (Salmon et al., SC 2011): counter, key, result
KNOWN_ANSWERS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


@wd.kernel
def run_philox(counters, keys, results):
    i = cuda.grid(1)
    words = wd.random.philox4x32(counters[i, 0], counters[i, 1], counters[i, 2], counters[i, 3], keys[i, 0], keys[i, 1])
    results[i, 0], results[i, 1], results[i, 2], results[i, 3] = words


@wd.kernel
def draw_all(rng, uniforms, normals, integers, n):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    for k in range(uniforms.shape[2]):
        uniforms[env, agent, k] = wd.random.uniform(rng, env, agent)
        normals[env, agent, k] = wd.random.normal(rng, env, agent)
        integers[env, agent, k] = wd.random.integer(rng, env, agent, n)


@wd.kernel
def draw_fours(rng, fours):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    for k in range(fours.shape[2]):
        a, b, c, d = wd.random.four_uniforms(rng, env, agent)
        fours[env, agent, k, 0], fours[env, agent, k, 1] = a, b
        fours[env, agent, k, 2], fours[env, agent, k, 3] = c, d


def words(text: str) -> list[int]:
    return [int(word, 16) for word in text.split()]


def philox(counter: tuple[int, ...], key: tuple[int, ...]) -> tuple[int, ...]:
    """Philox4x32-10 in Python's own integers."""
    c, k = list(counter), list(key)
    for _ in range(10):
        first, second = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(second >> 32) ^ c[1] ^ k[0], second & 0xFFFFFFFF, (first >> 32) ^ c[3] ^ k[1], first & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return tuple(c)


def test_philox_gives_the_published_answers() -> None:
    counters, keys, expected = (
        np.array([words(answer[part]) for answer in KNOWN_ANSWERS], np.uint32) for part in range(3)
    )
    results = np.zeros_like(expected)
    run_philox[1, len(KNOWN_ANSWERS)](counters, keys, results)
    np.testing.assert_array_equal(results, expected)


def draws(seed: int, first_env: int, num_envs: int, num_agents: int, count: int) -> tuple[np.ndarray, ...]:
    rng = initial_rng(seed, first_env, num_envs, num_agents)
    shape = (num_envs, num_agents, count)
    uniforms, normals = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    integers = np.zeros(shape, np.int32)
    draw_all[num_envs, num_agents](rng, uniforms, normals, integers, 10)
    return uniforms, normals, integers


def test_streams_are_what_the_documentation_says() -> None:
    seed, first_env = (7 << 32) + 11, 5
    uniforms, normals, integers = draws(seed, first_env, 2, 3, 2)
    for env in range(2):
        for agent in range(3):
            for k in range(2):
                first, second, third = (philox((first_env + env, agent, 3 * k + j, 0), (11, 7)) for j in range(3))
                assert uniforms[env, agent, k] == np.float32((first[0] >> 8) * 2.0**-24)
                radius = math.sqrt(-2 * math.log(((second[0] >> 8) + 1) * 2.0**-24))
                expected = radius * math.cos(2 * math.pi * (second[1] >> 8) * 2.0**-24)
                assert normals[env, agent, k] == pytest.approx(expected, rel=5e-7, abs=1e-7)
                assert integers[env, agent, k] == third[0] * 10 >> 32


def test_four_numbers_of_one_draw() -> None:
    fours = np.zeros((2, 3, 2, 4), np.float32)
    draw_fours[2, 3](initial_rng((7 << 32) + 11, 5, 2, 3), fours)
    expected = [[[philox((5 + env, agent, k, 0), (11, 7)) for k in range(2)] for agent in range(3)] for env in range(2)]
    np.testing.assert_array_equal(fours, (np.array(expected) >> 8) * 2.0**-24)


def test_a_replica_draws_the_same_whatever_number_there_is() -> None:
    for part, whole in zip(draws(3, 4, 2, 3, 5), draws(3, 0, 8, 3, 5), strict=True):
        np.testing.assert_array_equal(part, whole[4:6])


def test_distributions() -> None:
    """Fixed seed; for another, each bound below is over 6 standard errors: together they fail with p < 1e-8."""
    uniforms, normals, integers = (values.ravel() for values in draws(0, 0, 100, 10, 200))
    count = len(uniforms)
    assert uniforms.min() >= 0 and uniforms.max() < 1
    assert abs(uniforms.mean() - 0.5) < 6 * math.sqrt(1 / 12 / count)
    assert abs(normals.mean()) < 6 / math.sqrt(count)
    assert abs(normals.var() - 1) < 6 * math.sqrt(2 / count)
    assert abs((normals**4).mean() - 3) < 6 * math.sqrt(96 / count)
    exact = np.array([0.5 + 0.5 * math.erf(value / math.sqrt(2)) for value in np.sort(normals)])
    largest_gap = np.abs(exact - (np.arange(count) + 0.5) / count).max() + 0.5 / count
    assert largest_gap < 3.5 / math.sqrt(count)  # Kolmogorov and Smirnov: p = 2 exp(-2 * 3.5**2) = 5e-11
    for bound in (2, 3, 4):
        share = math.erfc(bound / math.sqrt(2))
        assert abs((np.abs(normals) > bound).mean() - share) < 6 * math.sqrt(share / count) + 6 / count
    shares = np.bincount(integers, minlength=10) / count
    assert len(shares) == 10
    assert np.abs(shares - 0.1).max() < 6 * math.sqrt(0.09 / count)


@pytest.mark.parametrize("seed", [-1, 1 << 64])
def test_seeds_out_of_range_are_refused(seed: int) -> None:
    with pytest.raises(DefinitionError, match="seed is"):
        initial_rng(seed, 0, 1, 1)


def test_global_indices_of_replicas_have_32_bits() -> None:
    assert initial_rng(0, (1 << 32) - 2, 2, 1)[:, 0, 2].tolist() == [(1 << 32) - 2, (1 << 32) - 1]
    with pytest.raises(DefinitionError, match="first_env is 4294967295: the global indices of 2 replicas from there"):
        initial_rng(0, (1 << 32) - 1, 2, 1)
