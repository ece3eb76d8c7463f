"""Log-probabilities and entropies of discrete actions."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from gymnasium import spaces

from warpdrive.errors import DefinitionError
from warpdrive.training.models.distributions import Categorical, Gaussian, distribution_of


def test_one_part_by_hand() -> None:
    # softmax of (0, ln 3) is (1/4, 3/4)
    logits = torch.tensor([[0.0, math.log(3.0)], [0.0, math.log(3.0)]])
    log_prob, entropy = Categorical([2]).log_prob_and_entropy(logits, torch.tensor([0, 1], dtype=torch.int32))
    assert log_prob.tolist() == pytest.approx([math.log(0.25), math.log(0.75)])
    # -(1/4 ln 1/4 + 3/4 ln 3/4) = 0.562335
    assert entropy.tolist() == pytest.approx([0.562335, 0.562335], abs=1e-6)


def test_parts_add_up_by_hand() -> None:
    # parts of 2 and 3 choices with probabilities (1/4, 3/4) and (1/4, 1/4, 1/2)
    logits = torch.tensor([[0.0, math.log(3.0), 5.0, 5.0, 5.0 + math.log(2.0)]])
    log_prob, entropy = Categorical([2, 3]).log_prob_and_entropy(logits, torch.tensor([[1, 2]], dtype=torch.int32))
    assert log_prob.item() == pytest.approx(math.log(0.75) + math.log(0.5))
    # 0.562335 + (1/4 ln 4 + 1/4 ln 4 + 1/2 ln 2) = 0.562335 + 1.039721
    assert entropy.item() == pytest.approx(1.602056, abs=1e-6)


@pytest.mark.parametrize("sizes", [(5,), (3, 2, 4), (1, 2)])
def test_against_torch_distributions(sizes: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = 3.0 * torch.randn(7, 2, sum(sizes), generator=generator, dtype=torch.float64)
    actions = torch.stack([torch.randint(n, (7, 2), generator=generator) for n in sizes], -1)
    parts = [torch.distributions.Categorical(logits=part) for part in logits.split(sizes, -1)]
    expected_log_prob = sum(part.log_prob(actions[..., i]) for i, part in enumerate(parts))
    expected_entropy = sum(part.entropy() for part in parts)
    log_prob, entropy = Categorical(sizes).log_prob_and_entropy(logits, actions)
    torch.testing.assert_close(log_prob, expected_log_prob)
    torch.testing.assert_close(entropy, expected_entropy)


def test_masked_choices_have_no_probability_and_no_gradient() -> None:
    logits = torch.tensor([[9.0, 0.0, math.log(3.0)], [0.0, 9.0, math.log(3.0)]], requires_grad=True)
    mask = torch.tensor([[False, True, True], [True, False, True]])  # each row has a mask of its own
    log_prob, entropy = Categorical([3]).log_prob_and_entropy(logits, torch.tensor([1, 2]), mask)
    assert log_prob.tolist() == pytest.approx([math.log(0.25), math.log(0.75)])
    assert entropy.tolist() == pytest.approx([0.562335, 0.562335], abs=1e-6)
    (log_prob.sum() + entropy.sum()).backward()
    assert logits.grad is not None and torch.isfinite(logits.grad).all()
    assert logits.grad[~mask].tolist() == [0.0, 0.0]


def test_a_row_that_allows_nothing_stays_finite() -> None:
    """Agents out of the episode may have an empty mask; they are weighted 0, which a NaN would survive."""
    logits = torch.randn(1, 3, requires_grad=True)
    log_prob, entropy = Categorical([3]).log_prob_and_entropy(
        logits, torch.tensor([0]), torch.zeros(1, 3, dtype=torch.bool)
    )
    (log_prob + entropy).sum().backward()
    assert torch.isfinite(log_prob).all() and torch.isfinite(entropy).all()
    assert logits.grad is not None and torch.isfinite(logits.grad).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_forbidden_choices_have_probability_0_whatever_the_logits_are(dtype: torch.dtype) -> None:
    """Models that mask by themselves write -inf, which must not make what is forbidden the most probable."""
    limits = torch.finfo(dtype)
    extremes = [-math.inf, math.inf, math.nan, limits.min, limits.max, 0.0]
    rows = [[forbidden, allowed, allowed] for forbidden in extremes for allowed in extremes]
    logits = torch.tensor(rows, dtype=dtype).requires_grad_()
    mask = torch.tensor([False, True, True]).expand(len(rows), 3)
    choices, generator = Categorical([3]), torch.Generator().manual_seed(0)
    told = ~logits[:, 1].isnan()  # what a model made of NaN must not look like a number to a loss
    for action, expected in ((0, -math.inf), (1, math.log(0.5)), (2, math.log(0.5))):
        log_prob, entropy = choices.log_prob_and_entropy(logits, torch.full((len(rows),), action), mask)
        assert log_prob[told].tolist() == pytest.approx([expected] * 30)
        assert entropy[told].tolist() == pytest.approx([math.log(2.0)] * 30)
        assert log_prob[~told].isnan().all() and entropy[~told].isnan().all()
    gradient = torch.autograd.grad(entropy[told].sum() + log_prob[told].sum(), logits)[0]
    assert gradient.isfinite().all() and (gradient[:, 0] == 0).all()
    assert (choices.mode(logits, mask) == 1).all()
    drawn = torch.stack([choices.sample(logits, generator, mask) for _ in range(20)])
    assert set(drawn.unique().tolist()) == {1, 2}  # one is missed with probability 2**-719


def test_the_limits_of_infinite_logits() -> None:
    """Beside +inf a number has no probability; where every logit is -inf, or nothing is allowed, all are equal."""
    inf = math.inf
    logits = torch.tensor([[inf, 5.0, inf], [-inf, -inf, -inf], [9.0, -inf, 1.0], [7.0, inf, -inf]])
    mask = torch.tensor([[True] * 3, [True] * 3, [True] * 3, [False] * 3])
    wanted = torch.tensor([[0.5, 0, 0.5], [1 / 3] * 3, [1 / (1 + math.exp(-8)), 0, 1 / (1 + math.exp(8))], [1 / 3] * 3])
    choices = Categorical([3])
    for action in range(3):
        log_prob, entropy = choices.log_prob_and_entropy(logits, torch.full((4,), action), mask)
        torch.testing.assert_close(log_prob.exp(), wanted[:, action])
    torch.testing.assert_close(entropy, torch.special.entr(wanted).sum(-1))
    assert choices.mode(logits, mask).flatten().tolist() == [0, 0, 0, 0]


def test_a_normal_component_by_hand() -> None:
    # mean 1, standard deviation 2, at 3: -1/2 - ln 2 - ln(2 pi) / 2; entropy 1/2 + ln 2 + ln(2 pi) / 2
    log_prob, entropy = Gaussian(1).log_prob_and_entropy(torch.tensor([[1.0, math.log(2.0)]]), torch.tensor([[3.0]]))
    assert log_prob.tolist() == pytest.approx([-0.5 - math.log(2.0) - 0.5 * math.log(2.0 * math.pi)])
    assert entropy.tolist() == pytest.approx([0.5 + math.log(2.0) + 0.5 * math.log(2.0 * math.pi)])


@pytest.mark.parametrize("shape", [(1,), (5,), (2, 3), ()])
def test_normal_components_against_torch_distributions(shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(0)
    size = math.prod(shape)
    logits = torch.randn(7, 2, 2 * size, generator=generator, dtype=torch.float64).requires_grad_()
    actions = 3.0 * torch.randn(7, 2, *shape, generator=generator, dtype=torch.float64)
    normal = torch.distributions.Normal(logits[..., :size], logits[..., size:].exp())
    expected = normal.log_prob(actions.flatten(2) if shape else actions.unsqueeze(-1)).sum(-1), normal.entropy().sum(-1)
    found = Gaussian(size).log_prob_and_entropy(logits, actions)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs)
        gradients = [torch.autograd.grad(sums.sum(), logits, retain_graph=True)[0] for sums in (ours, theirs)]
        torch.testing.assert_close(*gradients)


BOXES = [(10.0, 20.0), (-0.02, 0.02), (-100.0, 300.0), (0.0, np.inf), (3.0, 3.0), (-np.inf, np.inf)]


def test_normal_components_in_units_of_half_the_range_against_torch_distributions() -> None:
    """Equal to PyTorch's change of variables; components without bounds or width are unchanged."""
    low, high = np.float32(BOXES).T
    found = distribution_of(spaces.Box(low, high), normalize=True)
    centre, reach = torch.tensor([15.0, 0.0, 100.0, 0.0, 0.0, 0.0]), torch.tensor([5.0, 0.02, 200.0, 1.0, 1.0, 1.0])
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(7, 12, generator=generator)
    mean, log_std = logits.chunk(2, -1)
    affine = torch.distributions.AffineTransform(centre, reach)
    normal = torch.distributions.Normal(mean, log_std.exp())
    actions = affine(mean + log_std.exp() * torch.randn(7, 6, generator=generator))
    log_prob, entropy = found.log_prob_and_entropy(logits, actions)
    expected = torch.distributions.TransformedDistribution(normal, [affine])
    torch.testing.assert_close(log_prob, expected.log_prob(actions).sum(-1), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(entropy, normal.entropy().sum(-1) + reach.log().sum())
    torch.testing.assert_close(found.mode(logits), affine(mean))
    drawn = found.sample(logits[:1].expand(20_000, -1), generator)
    # the mean and the standard deviation of 20,000, within 5 of their standard errors: wrong once in 100,000 runs
    torch.testing.assert_close(drawn.mean(0) / reach, affine(mean)[0] / reach, rtol=0, atol=5 * 5 / 20_000**0.5)
    torch.testing.assert_close(drawn.std(0) / reach, log_std[0].exp(), rtol=5 / 40_000**0.5, atol=0)


def test_squashed_components_by_integration() -> None:
    """Densities over the Box add up to 1, and minus their mean logarithm is the entropy, with the same gradient."""
    low, high = 10.0, 20.0
    found = distribution_of(spaces.Box(low, high, (1,)), squash=True)
    inner = torch.linspace(-12, 12, 200_001, dtype=torch.float64)  # before the hyperbolic tangent
    reached = low + 0.5 * (high - low) * (1 + inner.tanh())
    for mean, log_std in ((0.0, -2.0), (0.7, 0.0), (-1.0, 0.3)):
        logits = torch.tensor([[mean, log_std]], dtype=torch.float64, requires_grad=True)
        log_prob, entropy = found.log_prob_and_entropy(logits.expand(len(inner), 2), inner.unsqueeze(-1))
        total, expected = (torch.trapezoid(y, reached) for y in (log_prob.exp(), -log_prob.exp() * log_prob))
        assert total.item() == pytest.approx(1.0, abs=1e-4)
        assert entropy[0].item() == pytest.approx(expected.item(), abs=5e-3)
        gradients = [torch.autograd.grad(y, logits, retain_graph=True)[0] for y in (entropy[0], expected)]
        torch.testing.assert_close(*gradients, atol=5e-3, rtol=0)
    assert found.mode(torch.tensor([[0.5, 0.0]])).item() == pytest.approx(15 + 5 * math.tanh(0.5))


def test_spaces_and_their_distributions() -> None:
    discrete, several = distribution_of(spaces.Discrete(5)), distribution_of(spaces.MultiDiscrete([3, 4]))
    assert isinstance(discrete, Categorical) and discrete.sizes == (5,)
    assert isinstance(several, Categorical) and several.sizes == (3, 4)
    assert (several.num_outputs, several.num_log_stds) == (7, 0)
    box = distribution_of(spaces.Box(-1, 1, (2, 3), np.float32))
    assert isinstance(box, Gaussian) and (box.num_outputs, box.num_log_stds) == (6, 6)


@pytest.mark.parametrize("space", [spaces.MultiBinary(3), spaces.Discrete(3, start=1)])
def test_other_spaces_are_refused(space: spaces.Space[object]) -> None:
    with pytest.raises(DefinitionError, match="expected Box, or Discrete or MultiDiscrete"):
        distribution_of(space)
