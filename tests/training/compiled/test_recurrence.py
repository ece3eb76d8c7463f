"""Native recurrent units compared with PyTorch's cells in float64."""

import copy

import pytest
import torch
from exhaustive import exhaustive

from warpdrive.backends.host import workers
from warpdrive.training.compiled.plan import native_recurrence
from warpdrive.training.models import seeded
from warpdrive.training.models.recurrent import CELLS


def cell_of(kind, inputs, units):
    cell = CELLS[kind](inputs, units, "orthogonal")
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape))
    return cell


def passes(cell, sequences, derivatives):
    """States, and gradients of inputs, of the state before the first step and of parameters."""
    inputs, state, begins = sequences
    variables = [inputs.clone().requires_grad_(), state.clone().requires_grad_()]
    states = cell.sequence(*variables, begins)
    return states, *torch.autograd.grad(states, [*variables, *cell.parameters()], derivatives)


def sequences_of(cell, inputs, steps, count):
    """Random inputs, states and beginnings of episodes, and derivatives of the states."""
    size = cell.numbers * cell.hidden_size
    begins = torch.rand(steps, count) < 0.2
    return (torch.randn(steps, count, inputs), torch.randn(count, size), begins), torch.randn(steps, count, size)


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize(
    ("inputs", "units", "steps", "count"), exhaustive([(1, 1, 3, 1), (5, 7, 6, 3), (33, 35, 11, 57)], (1, 33))
)
def test_passes_equal_those_of_pytorch(kind, inputs, units, steps, count):
    with seeded(3):
        cell = cell_of(kind, inputs, units)
        (seen, state, begins), derivatives = sequences_of(cell, inputs, steps, count)
    expected = passes(copy.deepcopy(cell).double(), (seen.double(), state.double(), begins), derivatives.double())
    cell.native = native_recurrence(cell)
    assert cell.native is not None
    found = passes(cell, (seen, state, begins), derivatives)
    for own, wanted in zip(found, expected, strict=True):
        torch.testing.assert_close(own.double(), wanted, rtol=1e-4, atol=1e-5 * (1.0 + wanted.abs().max().item()))
    with torch.no_grad():
        assert torch.equal(cell.sequence(seen, state, begins), found[0])
        assert torch.equal(cell(seen[0], state.masked_fill(begins[0].unsqueeze(-1), 0.0)), found[0][0])


@pytest.mark.parametrize("kind", exhaustive(CELLS, ("gru",)))
def test_results_do_not_depend_on_the_number_of_threads(kind, monkeypatch):
    cell = cell_of(kind, 5, 7)
    cell.native, (sequences, derivatives) = native_recurrence(cell), sequences_of(cell, 5, 9, 100)
    found = []
    for count in (1, 2, 3):
        monkeypatch.setattr(workers, "_num_threads", count)
        found.append(passes(cell, sequences, derivatives))
    for other in found[1:]:
        assert all(torch.equal(one, two) for one, two in zip(found[0], other, strict=True))


def test_inputs_may_be_parts_of_other_tensors():
    cell = cell_of("lstm", 5, 7)
    (seen, state, begins), derivatives = sequences_of(cell, 5, 4, 6)
    expected = passes(cell, (seen, state, begins), derivatives)
    cell.native = native_recurrence(cell)
    wide = torch.cat([seen, seen], dim=-1).split(5, dim=-1)[1], state.t().contiguous().t(), begins.t().contiguous().t()
    for found, wanted in zip(passes(cell, wide, derivatives), expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def test_only_wanted_gradients_are_computed():
    cell = cell_of("gru", 5, 7)
    cell.native, (sequences, derivatives) = native_recurrence(cell), sequences_of(cell, 5, 4, 6)
    of_parameters = passes(cell, sequences, derivatives)[3:]
    found = torch.autograd.grad(cell.sequence(*sequences), list(cell.parameters()), derivatives)
    assert all(torch.equal(one, two) for one, two in zip(found, of_parameters, strict=True))
    cell.requires_grad_(False)
    assert not cell.sequence(*sequences).requires_grad


def test_copies_have_their_own_parameters():
    cell = cell_of("mingru", 5, 7)
    cell.native, (sequences, _) = native_recurrence(cell), sequences_of(cell, 5, 4, 6)
    copied = copy.deepcopy(cell)
    with torch.no_grad():
        copied.weight.mul_(2.0)
        expected = copied.advance_sequence(*sequences)
        torch.testing.assert_close(copied.sequence(*sequences), expected, rtol=1e-4, atol=1e-5)
        assert not torch.equal(expected, cell.sequence(*sequences))


def test_transforms_of_pytorch_see_its_own_cells():
    cell = cell_of("gru", 5, 7)
    plain, inputs, state = copy.deepcopy(cell), torch.randn(3, 6, 5), torch.randn(3, 6, 7)
    cell.native = native_recurrence(cell)
    assert torch.equal(torch.func.vmap(cell)(inputs, state), torch.func.vmap(plain)(inputs, state))
    assert torch.equal(torch.jit.trace(cell, (inputs[0], state[0]))(inputs[1], state[1]), plain(inputs[1], state[1]))
