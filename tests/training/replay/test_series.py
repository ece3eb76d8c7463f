"""Series of player pages."""

from __future__ import annotations

import json

import numpy as np
import pytest
from series_reader import numbers_of

from warpdrive.training.replay.player.series import series, size_of

RNG = np.random.default_rng(3)
SERIES = {
    "walk": RNG.normal(size=(50, 7)).cumsum(axis=0),
    "line": np.linspace(-3, 500, 60)[:, None] * [1.0, -2.0],
    "noise": RNG.uniform(-1e6, 1e6, (20, 3)),
    "jumps": np.where(np.arange(40) % 7, 0.0, 1e9)[:, None],
    "one step": np.array([[0.25, -7.5]]),
    "tiny": RNG.normal(scale=1e-20, size=(9, 2)),
}


@pytest.mark.parametrize("name", SERIES)
@pytest.mark.parametrize("resolution", [None, 1.0])
def test_numbers_are_rounded_to_the_resolution(name, resolution):
    values = SERIES[name]
    step = np.ptp(values) / 2**16 if resolution is None else resolution
    found = numbers_of(json.loads(json.dumps(series(values, resolution))), *values.shape)
    np.testing.assert_allclose(found, values, rtol=0, atol=0.5001 * step)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64, np.bool_])
def test_integers_are_exact(dtype):
    low, high = (0, 1) if dtype == np.bool_ else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    values = RNG.integers(max(low, -(2**52)), min(high, 2**52), (30, 4), endpoint=True).astype(dtype)
    assert (numbers_of(series(values)) == values).all()


def test_axes_behind_the_steps_are_columns():
    values = np.arange(24).reshape(4, 3, 2)
    assert (numbers_of(series(values)) == values.reshape(4, 6)).all()


def test_a_constant_is_a_number():
    assert series(np.full((9, 4), 2.5)) == 2.5
    assert series(np.full((9, 4), True)) == 1.0


def test_numbers_that_are_not_finite_become_nan():
    values = np.array([[1.0, 2.0], [np.nan, 3.0], [np.inf, -np.inf]])
    written = json.dumps(series(values), allow_nan=False)
    np.testing.assert_allclose(
        numbers_of(json.loads(written)), np.where(np.isfinite(values), values, np.nan), atol=1e-4
    )
    assert np.isnan(numbers_of(series(np.full((2, 2), np.nan)))).all()


def test_what_hardly_changes_takes_few_bytes():
    walk = RNG.normal(scale=0.01, size=(500, 100)).cumsum(axis=0)
    bits = np.log2(10 * np.sqrt(2 * np.pi * np.e))  # the entropy of differences of a standard deviation of 10
    assert size_of(series(walk, 0.001)) < 1.1 * walk.size * bits / 8 * 4 / 3
