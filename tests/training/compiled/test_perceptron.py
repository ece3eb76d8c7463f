"""Native perceptrons compared with PyTorch's layers in float64."""

import copy

import pytest
import torch

from warpdrive.backends.host import workers
from warpdrive.training.compiled.plan import native_perceptron
from warpdrive.training.models import seeded
from warpdrive.training.models.options import PerceptronConfig
from warpdrive.training.models.perceptron import perceptron

CASES = [
    ([4, 64, 64, 2], {}),
    ([7, 33, 5, 3], {"activation": "relu"}),
    ([21, 18, 1], {"activation": "silu", "layer_norm": True}),
    ([3, 9, 4], {"activation": "elu"}),
    ([11, 6], {}),
    ([617, 3], {}),
]


def passes(module, inputs, derivatives):
    """Outputs, and gradients of inputs and parameters."""
    inputs = inputs.clone().requires_grad_()
    outputs = module(inputs)
    return outputs, *torch.autograd.grad(outputs, [inputs, *module.parameters()], derivatives)


@pytest.mark.parametrize(("sizes", "options"), CASES)
@pytest.mark.parametrize("shape", [(1,), (32,), (3, 29), (1300,)])
def test_passes_equal_those_of_pytorch(sizes, options, shape):
    with seeded(3):
        module = perceptron(sizes, PerceptronConfig(**options), last_gain=1.0)
        inputs, derivatives = 2.0 * torch.randn(*shape, sizes[0]), torch.randn(*shape, sizes[-1])
    expected = passes(copy.deepcopy(module).double(), inputs.double(), derivatives.double())
    module.native = native_perceptron(module)
    assert module.native is not None
    for found, wanted in zip(passes(module, inputs, derivatives), expected, strict=True):
        torch.testing.assert_close(found.double(), wanted, rtol=1e-4, atol=1e-5 * (1.0 + wanted.abs().max().item()))
    with torch.no_grad():
        without_gradient = module(inputs)
    assert torch.equal(without_gradient, passes(module, inputs, derivatives)[0])


def test_only_wanted_gradients_are_computed():
    module = perceptron([5, 8, 2], PerceptronConfig(), last_gain=1.0)
    plain, inputs = copy.deepcopy(module), torch.randn(40, 5, requires_grad=True)
    module.native = native_perceptron(module)
    for network in (module, plain):
        network.requires_grad_(False)
    (found,), (wanted,) = (torch.autograd.grad(network(inputs).square().sum(), [inputs]) for network in (module, plain))
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def test_copies_have_their_own_parameters():
    module = perceptron([5, 8, 2], PerceptronConfig(), last_gain=1.0)
    module.native = native_perceptron(module)
    copied, inputs = copy.deepcopy(module), torch.randn(40, 5)
    with torch.no_grad():
        copied[0].weight.mul_(2.0)
        torch.testing.assert_close(copied(inputs), torch.nn.Sequential(*copied)(inputs))
        assert not torch.equal(copied(inputs), module(inputs))


def test_sums_do_not_depend_on_the_number_of_threads(monkeypatch):
    module = perceptron([5, 8, 2], PerceptronConfig(), last_gain=1.0)
    module.native, inputs = native_perceptron(module), torch.randn(3000, 5)
    found = []
    for count in (1, 2, 3):
        monkeypatch.setattr(workers, "_num_threads", count)
        found.append(passes(module, inputs, torch.ones(3000, 2)))
    for other in found[1:]:
        assert all(torch.equal(one, two) for one, two in zip(found[0], other, strict=True))


def test_transforms_of_pytorch_see_its_own_layers():
    module = perceptron([5, 8, 2], PerceptronConfig(), last_gain=1.0)
    plain, inputs = copy.deepcopy(module), torch.randn(6, 5)
    module.native = native_perceptron(module)
    assert torch.equal(torch.func.vmap(module)(inputs), torch.func.vmap(plain)(inputs))
    assert torch.equal(torch.jit.trace(module, inputs)(inputs), plain(inputs))


def test_stacked_parameters_are_left_to_pytorch():
    module = perceptron([5, 8, 2], PerceptronConfig(), last_gain=1.0)
    for parameter in module.parameters():
        parameter.data = torch.stack([parameter.data] * 3)
    assert native_perceptron(module) is None
