"""Comparison of training with other libraries: all are evaluated alike, with the policies that they trained."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from harness.training.ppo_single_file import SingleFile
from harness.training.ppo_warpdrive import WarpDrive
from harness.training.report import SETTINGS, TITLES, Figures, table
from harness.training.settings import HIDDEN, Layers, Settings, mean_return

SMALL = Settings(num_envs=8, num_steps=4, minibatch_size=16)


def linear(weights: list[float]) -> Layers:
    """Push to the right where the weighted observation is positive."""
    column = 100.0 * np.array(weights, np.float32)
    return [(np.stack([-column, column], axis=-1), np.zeros(2, np.float32))]


def test_mean_returns_of_policies_that_are_known() -> None:
    assert mean_return(linear([0.0, 0.0, 1.0, 1.0])) > 195  # leaning where the pole falls keeps it up for long
    assert 8 <= mean_return(linear([0.0, 0.0, -1.0, -1.0])) <= 11  # and against it lets it fall at once


@pytest.mark.parametrize("kind", [WarpDrive, SingleFile])
def test_what_is_judged_is_what_acts_and_is_trained(kind: type[WarpDrive] | type[SingleFile]) -> None:
    contestant = kind(SMALL, seed=1)
    before = [weight.copy() for weight, _ in contestant.policy()]
    assert [weight.shape for weight in before] == [(4, HIDDEN[0]), HIDDEN, (HIDDEN[1], 2)]
    contestant.advance(1)
    layers = contestant.policy()
    assert all(not np.array_equal(weight, former) for (weight, _), former in zip(layers, before, strict=True))
    seen = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    hidden = seen.numpy()
    for weight, bias in layers[:-1]:
        hidden = np.tanh(hidden @ weight + bias)
    found = hidden @ layers[-1][0] + layers[-1][1]
    if isinstance(contestant, WarpDrive):
        expected = contestant.trainer.policies["agent"].model.logits(seen)
    else:
        expected = contestant.actor(seen)
    np.testing.assert_allclose(found, expected.detach().numpy(), atol=1e-6)


def test_the_table_tells_medians_and_what_was_missed() -> None:
    settings = SETTINGS["for the fewest seconds to 475"]
    reached = Figures(5.0, [1.0, 3.0, 2.0], [10.0, 30.0, 20.0], [2.0, 4.0, 3.0], [100, 300, 200])
    missed = Figures(5.0, [1.0, 1.0, 1.0], [10.0] * 3, [2.0, None, 3.0], [100, 300, 200])
    text = table(settings, {"warpdrive": reached, "sb3": missed, "jax": Figures(why_not="no JAX")})
    assert "| 20 | 3.00 | 200 | 2.0 (5.0) | 5.0 |" in text
    assert "not reached 1 of 3 times" in text and "no JAX" in text
    assert all(set(chosen) == set(TITLES) for chosen in SETTINGS.values())
    for values in (line for chosen in SETTINGS.values() for line in chosen.values()):
        made = Settings().with_values(**dict(item.split("=") for item in values.split()))
        assert made.batch_size % made.minibatch_size == 0
