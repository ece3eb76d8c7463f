"""The models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from warpdrive.errors import ConfigError, DefinitionError
from warpdrive.training.models import build_actor_critic, seeded
from warpdrive.training.models.flatten import Flatten
from warpdrive.training.models.options import ConvolutionalConfig, FullyConnectedConfig, GRUConfig, LSTMConfig


def box(*shape: int) -> spaces.Box:
    return spaces.Box(-np.inf, np.inf, shape, np.float32)


def built(
    model: FullyConnectedConfig | ConvolutionalConfig,
    observations: spaces.Space[Any],
    actions: spaces.Space[Any],
    seed: int,
) -> Any:
    with seeded(seed):
        return build_actor_critic(model, observations, actions)


def test_shapes_over_any_leading_axes_and_dtypes() -> None:
    model = built(FullyConnectedConfig(hidden=[8, 4]), box(3, 2), spaces.Discrete(5), seed=0)
    for leading in [(), (7,), (6, 7)]:
        logits, values = model(torch.ones(*leading, 3, 2, dtype=torch.int32))
        assert logits.shape == (*leading, 5) and values.shape == leading
        assert logits.dtype == values.dtype == torch.float32


def test_what_keys_hold_is_flattened_and_put_side_by_side() -> None:
    space = spaces.Dict(
        picture=spaces.Box(0, 4, (2, 2), np.uint8), number=spaces.Discrete(3), pair=spaces.MultiDiscrete([5, 6])
    )
    flatten = Flatten(space, scale=True)
    observations = {
        "picture": torch.tensor([[[0, 1], [2, 4]]], dtype=torch.uint8),
        "number": torch.tensor([2], dtype=torch.int32),
        "pair": torch.tensor([[3, 5]], dtype=torch.int32),
    }
    parts = {"picture": [-1.0, -0.5, 0.0, 1.0], "number": [0.0, 0.0, 1.0], "pair": [3.0, 5.0]}
    expected = [*parts["number"], *parts["pair"], *parts["picture"]]  # in whatever order the space was made
    assert flatten(observations).tolist() == [expected] and flatten.size == 9
    model = built(FullyConnectedConfig(hidden=[8]), space, spaces.Discrete(5), seed=0)
    logits, values = model({key: tensor.expand(4, 3, *tensor.shape[1:]) for key, tensor in observations.items()})
    assert logits.shape == (4, 3, 5) and values.shape == (4, 3)


def test_no_hidden_layers_is_a_linear_model() -> None:
    model = built(FullyConnectedConfig(hidden=[]), box(3), spaces.Discrete(2), seed=0)
    assert sum(p.numel() for p in model.parameters()) == (3 * 2 + 2) + (3 + 1)


def test_initial_weights_are_orthogonal_and_the_policy_nearly_uniform() -> None:
    model = built(FullyConnectedConfig(hidden=[16, 16]), box(16), spaces.Discrete(5), seed=0)
    weights = [p for name, p in model.named_parameters() if name.endswith("weight")]
    for weight, gain in zip(weights, [2**0.5, 2**0.5, 0.01, 2**0.5, 2**0.5, 1.0], strict=True):
        torch.testing.assert_close(weight @ weight.T, gain**2 * torch.eye(len(weight)), atol=1e-5, rtol=0)
    probabilities = torch.softmax(model.logits(torch.rand(100, 16)), -1)
    assert (probabilities - 0.2).abs().max() < 0.02


@pytest.mark.parametrize("kind", ["fully_connected", "convolutional", "lstm"])
def test_initial_weights_may_be_those_of_xavier(kind: str) -> None:
    """Uniform with variance 2 gain^2 / (inputs + outputs), hence within sqrt(3) deviations, and not orthogonal."""
    settings: dict[str, Any] = {"hidden": [128], "initialization": "xavier"}
    space = box(2, 8, 8) if kind == "convolutional" else box(64)
    config = {"fully_connected": FullyConnectedConfig, "convolutional": ConvolutionalConfig, "lstm": LSTMConfig}[kind]
    model = built(config(type=kind, **settings), space, spaces.Discrete(5), seed=0)  # type: ignore[arg-type, operator]
    gates = 4 if kind == "lstm" else 1
    for name, parameter in model.named_parameters():
        if parameter.dim() < 2:
            continue
        gain = {"policy": 0.01, "value": 1.0}[name.split(".")[0]] if parameter.shape[0] in (1, 5) else 2**0.5
        parts = parameter.split(len(parameter) // gates) if "cells" in name else [parameter]
        for weight in parts:
            gain = 1.0 if "cells" in name else gain
            around = weight[0, 0].numel()  # of a convolution's kernel
            most = gain * (6 / (around * (weight.shape[0] + weight.shape[1]))) ** 0.5
            # of n uniform numbers the largest is above 0.9 of the bound but in one of 0.9^-n cases: n is 16 or more
            assert 0.7 * most < weight.abs().max() <= most, name


def test_initial_weights_may_be_those_of_pytorch() -> None:
    """Uniform within 1 / sqrt(inputs), biases too: the largest of n is above 0.7 of that but in one of 0.7^-n cases."""
    config = FullyConnectedConfig(hidden=[128], initialization="uniform")
    for name, parameter in built(config, box(64), spaces.Discrete(5), seed=0).named_parameters():
        most = {"0": 64, "2": 128}[name.split(".")[1]] ** -0.5
        assert parameter.abs().max() <= most and (len(parameter) < 64 or parameter.abs().max() > 0.7 * most), name


@pytest.mark.parametrize("kind", ["fully_connected", "convolutional", "gru"])
def test_a_shared_trunk_is_moved_by_either_loss(kind: str) -> None:
    space = box(1, 5, 5) if kind == "convolutional" else box(4)
    config = {"fully_connected": FullyConnectedConfig, "convolutional": ConvolutionalConfig, "gru": GRUConfig}[kind]
    model = built(config(type=kind, hidden=[8], trunk="shared"), space, spaces.Discrete(3), seed=0)  # type: ignore[arg-type, operator]
    own = {name for name, _ in model.named_parameters() if name.split(".")[0] in ("policy", "value")}
    assert {parameter.shape for name, parameter in model.named_parameters() if name in own} <= {
        (3, 8),
        (3,),
        (1, 8),
        (1,),
        (3, 64),
        (1, 64),
    }, "one layer each"
    for head, method in (("policy", model.logits), ("value", model.values)):
        model.zero_grad()
        method(torch.rand(6, *(space.shape or ()))).square().sum().backward()
        for name, parameter in model.named_parameters():
            is_of_the_other = name in own and not name.startswith(head)
            assert is_of_the_other == (parameter.grad is None), name


def test_the_seed_decides_and_the_global_random_state_is_left_alone() -> None:
    before = torch.random.get_rng_state()
    one, same, other = (
        built(FullyConnectedConfig(), box(4), spaces.Discrete(2), seed).state_dict() for seed in (3, 3, 4)
    )
    assert torch.equal(before, torch.random.get_rng_state())
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not torch.equal(one["policy.0.weight"], other["policy.0.weight"])


def test_policy_and_value_share_no_parameters() -> None:
    """Known mistake: an actor loss that leaves gradients on the critic."""
    model = built(FullyConnectedConfig(), box(4), spaces.Discrete(3), seed=0)
    model.logits(torch.rand(5, 4)).sum().backward()
    assert all(p.grad is None for p in model.value.parameters())  # type: ignore[union-attr]
    model.zero_grad()
    model.values(torch.rand(5, 4)).sum().backward()
    assert all(p.grad is None for p in model.policy.parameters())  # type: ignore[union-attr]


def test_standard_deviations_do_not_depend_on_the_observation_and_begin_at_1() -> None:
    model = built(FullyConnectedConfig(hidden=[8]), box(3), box(2), seed=0)
    logits = model.logits(torch.rand(6, 7, 3))
    assert logits.shape == (6, 7, 4)
    assert (logits[..., 2:] == 0).all() and (logits[..., :2] != logits[:1, :1, :2]).any()
    logits.sum().backward()
    assert model.get_parameter("log_std").grad.tolist() == [42.0, 42.0]  # type: ignore[union-attr]


def test_bounded_observations_are_scaled_where_that_is_asked_for() -> None:
    space = spaces.Box(np.array([-1, 0, -np.inf], np.float32), np.array([3, 0.5, 7], np.float32))
    plain, scaled = (
        built(FullyConnectedConfig(scale_observations=scale), space, spaces.Discrete(2), seed=0)
        for scale in (False, True)
    )
    seen, wanted = (
        torch.tensor([[-1.0, 0.5, 9.0], [2.0, 0.25, -3.0]]),
        torch.tensor([[-1.0, 1.0, 9.0], [0.5, 0.0, -3.0]]),
    )
    for name in ("logits", "values"):
        torch.testing.assert_close(getattr(scaled, name)(seen), getattr(plain, name)(wanted))
    assert plain.state_dict().keys() == scaled.state_dict().keys()


def test_limits_of_the_dtype_are_no_bounds() -> None:
    """As of the velocities of CartPole in Gymnasium before 1.0, which a scale of 2 / (high - low) would set to 0."""
    most = np.finfo(np.float32).max
    space = spaces.Box(np.array([-4.8, -most, 3.0e38], np.float32), np.array([4.8, most, 3.2e38], np.float32))
    scaled = Flatten(space, scale=True)(torch.tensor([[2.4, -1.5, 3.2e38]]))
    torch.testing.assert_close(scaled, torch.tensor([[0.5, -1.5, 1.0]]))


def convolutional(**settings: Any) -> ConvolutionalConfig:
    return ConvolutionalConfig(type="convolutional", **settings)


def test_images_go_through_convolutions_over_any_leading_axes() -> None:
    model = built(convolutional(filters=[4, 6], hidden=[8]), box(3, 7, 9), spaces.Discrete(5), seed=0)
    images = torch.rand(6, 2, 3, 7, 9)
    logits, values = model(images)
    assert logits.shape == (6, 2, 5) and values.shape == (6, 2)
    torch.testing.assert_close(model.logits(images[4, 1]), logits[4, 1])
    torch.testing.assert_close(model.values(images[4]), values[4])


@pytest.mark.parametrize("settings", [{}, {"kernel_size": 2, "stride": 1}, {"kernel_size": 5, "stride": 3}])
def test_convolutions_are_those_of_the_definition(settings: dict[str, int]) -> None:
    """One filter and no hidden layer, worked out pixel by pixel in NumPy."""
    model = built(convolutional(filters=[2], hidden=[], activation="tanh", **settings), box(3, 5, 4), box(1), seed=1)
    size, stride = settings.get("kernel_size", 3), settings.get("stride", 2)
    image = torch.rand(3, 5, 4)
    padded = np.pad(image.numpy(), [(0, 0), (size // 2,) * 2, (size // 2,) * 2])
    kernel = model.value[0].weight.detach().numpy()
    rows, columns = ((n - size) // stride + 1 for n in padded.shape[1:])
    seen = [
        np.tanh((kernel[f] * padded[:, r * stride : r * stride + size, c * stride : c * stride + size]).sum())
        for f in range(2)
        for r in range(rows)
        for c in range(columns)
    ]
    expected = np.dot(model.value[-1][0].weight.detach().numpy()[0], seen)
    assert model.values(image).item() == pytest.approx(expected, abs=1e-5)


def test_convolutions_begin_orthogonal_and_the_policy_nearly_uniform() -> None:
    model = built(convolutional(), box(5, 9, 9), spaces.Discrete(5), seed=0)
    for stack in (model.policy, model.value):
        for layer, gain in ((stack[0], 2**0.5), (stack[2], 2**0.5)):
            weight = layer.weight.flatten(1)
            torch.testing.assert_close(weight @ weight.T, gain**2 * torch.eye(len(weight)), atol=1e-5, rtol=0)
    probabilities = torch.softmax(model.logits(torch.rand(100, 5, 9, 9)), -1)
    assert (probabilities - 0.2).abs().max() < 0.02


def test_convolutions_have_standard_deviations_and_scaled_images_too() -> None:
    space = spaces.Box(0, 255, (1, 6, 6), np.uint8)
    plain, scaled = (built(convolutional(scale_observations=scale), space, box(2), seed=0) for scale in (False, True))
    images = torch.randint(0, 256, (7, 1, 6, 6), dtype=torch.uint8)
    assert scaled.logits(images).shape == (7, 4) and (scaled.logits(images)[:, 2:] == 0).all()
    torch.testing.assert_close(scaled.values(images), plain.values(255 * (images.float() / 127.5 - 1)))


def test_images_of_bytes_are_divided_by_255_and_other_bytes_are_not() -> None:
    image = torch.randint(0, 256, (7, 1, 6, 6), dtype=torch.uint8)
    torch.testing.assert_close(Flatten(spaces.Box(0, 255, (1, 6, 6), np.uint8))(image), image.flatten(1) / 255)
    for space in (spaces.Box(0, 9, (1, 6, 6), np.uint8), spaces.Box(0, 255, (36,), np.uint8)):
        torch.testing.assert_close(Flatten(space)(image.view(7, *space.shape)), image.flatten(1).float())


def test_convolutions_with_sizes_of_their_own_are_those_of_the_published_network() -> None:
    """1,684,128 parameters of the trunk: Mnih et al. (2015), 32 x 8 x 8 / 4, 64 x 4 x 4 / 2, 64 x 3 x 3 / 1, 512."""
    options = convolutional(
        filters=[32, 64, 64], kernel_size=[8, 4, 3], stride=[4, 2, 1], padding=False, hidden=[512], trunk="shared"
    )
    model = built(options, spaces.Box(0, 255, (4, 84, 84), np.uint8), spaces.Discrete(6), seed=0)
    expected = (4 * 64 + 1) * 32 + (32 * 16 + 1) * 64 + (64 * 9 + 1) * 64 + (64 * 7 * 7 + 1) * 512
    assert sum(parameter.numel() for parameter in model.trunk.parameters()) == expected == 1_684_128
    assert model.logits(torch.zeros(3, 4, 84, 84, dtype=torch.uint8)).shape == (3, 6)
    with pytest.raises(DefinitionError, match="nothing is left"):
        built(options, spaces.Box(0, 255, (4, 20, 20), np.uint8), spaces.Discrete(6), seed=0)
    with pytest.raises(ConfigError, match=r"stride: found \[2, 1\] .*one number, or one for each of the 3 filters"):
        convolutional(filters=[8, 8, 8], stride=[2, 1])


def test_what_is_no_image_is_refused() -> None:
    for space in (box(12), spaces.Discrete(4), spaces.Dict(image=box(1, 3, 3))):
        with pytest.raises(DefinitionError, match="expected a Box of images"):
            built(convolutional(), space, spaces.Discrete(2), seed=0)
