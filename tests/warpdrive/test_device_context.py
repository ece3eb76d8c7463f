"""The device context: one piece of memory, arrays that alias it, and saving, loading and cloning replicas."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from warpdrive.device_context import DeviceContext
from warpdrive.errors import DefinitionError


def filled(num_envs: int = 4) -> DeviceContext:
    context = DeviceContext("cpu", num_envs)
    context.declare("position", (3, 2), np.float32)
    context.declare("alive", (), np.bool_)
    context.declare("code", (5,), np.uint8)
    context.allocate()
    context["position"].copy_(torch.arange(num_envs * 6).view(num_envs, 3, 2))
    context["alive"].copy_(torch.arange(num_envs) % 2 == 0)
    context["code"].copy_(torch.arange(num_envs * 5).view(num_envs, 5))
    return context


def test_arrays_share_one_piece_of_memory_and_do_not_overlap() -> None:
    context = filled()
    arrays = [context[name] for name in context.state_names]
    assert len({array.untyped_storage().data_ptr() for array in arrays}) == 1
    ends = sorted((array.data_ptr(), array.data_ptr() + array.nbytes) for array in arrays)
    assert all(end <= start for (_, end), (start, _) in pairwise(ends))
    assert all(array.is_contiguous() for array in arrays)


def test_saved_replicas_can_be_loaded_into_others() -> None:
    context, other = filled(), filled()
    for name in other.state_names:
        other[name].zero_()
    state = context.save_state([3, 1])
    assert state.dtype == torch.uint8 and state.shape == (2, context.bytes_per_env)
    context["position"].zero_()  # the saved state is a copy
    other.load_state(state, [0, 2])
    source = filled()
    for name in other.state_names:
        assert torch.equal(other[name][[0, 2]], source[name][[3, 1]])
        assert not other[name][[1, 3]].any()


def test_the_whole_state_survives_a_round_trip() -> None:
    context, other = filled(), DeviceContext("cpu", 4)
    state = context.save_state()
    for name in ("position", "alive", "code"):
        other.declare(name, context[name].shape[1:], context[name].numpy().dtype)
    other.allocate()
    other.load_state(state)
    for name in context.state_names:
        assert torch.equal(other[name], context[name])


def test_clone_copies_one_replica_over_others() -> None:
    context = filled()
    context.clone_env(2, [0, 3])
    source = filled()
    for name in context.state_names:
        assert torch.equal(context[name], source[name][[2, 1, 2, 2]])


def test_the_environment_may_refuse_values() -> None:
    """Neither arrays that are kept nor the target are touched."""
    context, source = filled(), filled()
    source["position"][3, 2, 1] = np.nan
    seen = []

    def is_finite(position: Any) -> None:
        seen.append(position)
        if not np.isfinite(position).all():
            raise DefinitionError("the position is not finite")

    context.state_checks = {"position": is_finite}
    with pytest.raises(DefinitionError, match="the position is not finite"):
        context.load_state(source.save_state([1, 3]), [0, 1])
    assert torch.equal(context.save_state(), filled().save_state())
    np.testing.assert_array_equal(seen[0], source["position"][[1, 3]])
    context.load_state(source.save_state(), keep=["position"])
    context.load_state(source.save_state([1]), [3])
    assert len(seen) == 2
    context.state_checks = {"postion": is_finite}
    with pytest.raises(KeyError, match="Did you mean 'position'"):
        context.load_state(source.save_state())


@pytest.mark.parametrize("envs", [[4], [0, -1], torch.tensor([9])])
def test_replicas_that_do_not_exist_are_refused(envs: Any) -> None:
    with pytest.raises(DefinitionError, match=r"replica (4|-1|9) does not exist: there are 4"):
        filled().save_state(envs)


@pytest.mark.parametrize(
    ("envs", "found"),
    [
        (2, "envs is 2, expected a list or tensor"),
        ([0.7, 1.0], r"envs is \[0.7, 1.0\], expected"),
        ([[0, 1]], r"envs is \[\[0, 1\]\], expected"),
        ({0, 1}, r"envs is \{0, 1\}, expected"),
        ([None], r"envs is \[None\], expected"),
        (torch.tensor([1.5]), r"envs is torch.float32 \(1,\), expected"),
    ],
)
def test_replicas_are_a_list_of_integers(envs: Any, found: str) -> None:
    context = filled()
    with pytest.raises(DefinitionError, match=found):
        context.save_state(envs)
    with pytest.raises(DefinitionError, match=found):
        context.load_state(context.save_state([0]), envs)


def test_a_mask_is_not_taken_for_numbers() -> None:
    context = filled()
    with pytest.raises(DefinitionError, match="not by a mask"):
        context.save_state(torch.tensor([False, False, True, True]))
    assert len(context.save_state([])) == 0


def test_memory_is_known_before_it_is_taken() -> None:
    context = DeviceContext("cpu", 1000)
    context.declare("position", (110, 2), np.float32)
    context.declare("alive", (), np.bool_)
    assert context.memory_report() == {"position": 1000 * 110 * 2 * 4, "alive": 1000}
    assert context.bytes_per_env == 881
    context.allocate()
    assert context.memory_report() == {name: context[name].nbytes for name in context}


@pytest.mark.parametrize(
    ("state", "envs", "message"),
    [
        (torch.zeros(4, 29, dtype=torch.uint8), None, "expected torch.uint8"),
        (torch.zeros(4, 30), None, "expected torch.uint8"),
        (np.zeros((4, 30), np.uint8), None, "the state is a ndarray: expected a tensor, torch.uint8"),
        (torch.zeros(3, 30, dtype=torch.uint8), None, "expected 1 or 4$"),
        (torch.zeros(2, 30, dtype=torch.uint8), [0], "holds 2 replicas: expected 1$"),
        (torch.zeros(3, 30, dtype=torch.uint8), [3, 1, 3], "envs has replica 3 more than once"),
    ],
)
def test_a_state_that_does_not_fit_is_refused(state: torch.Tensor, envs: list[int] | None, message: str) -> None:
    context = filled()
    assert context.bytes_per_env == 30
    with pytest.raises(DefinitionError, match=message):
        context.load_state(state, envs)


def test_names_and_dtypes_are_checked() -> None:
    context = filled()
    with pytest.raises(KeyError, match="Did you mean 'position'"):
        context["positon"]
    with pytest.raises(DefinitionError, match="after the memory was allocated"):
        context.declare("late", (), np.int32)
    fresh = DeviceContext("cpu", 1)
    with pytest.raises(DefinitionError, match="array 'text' has dtype"):
        fresh.declare("text", (), np.dtype("U3"))
    with pytest.raises(DefinitionError, match="num_envs is 0"):
        DeviceContext("cpu", 0)


def test_leaving_the_context_frees_its_arrays() -> None:
    with filled() as context:
        assert "position" in context
    assert "position" not in context


def test_too_much_memory_is_refused_before_it_is_taken() -> None:
    context = DeviceContext("cpu", 1 << 40)
    context.declare("position", (110, 2), np.float32)
    with pytest.raises(DefinitionError, match=r"the state of the replicas needs 901120.0 GiB .* use fewer replicas"):
        context.allocate()


def test_only_a_lack_of_memory_is_reported_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for found, expected in ((torch.cuda.OutOfMemoryError, DefinitionError), (RuntimeError, RuntimeError)):

        def zeros(*shape: int, error: type[RuntimeError] = found, **options: Any) -> torch.Tensor:
            raise error("CUDA error: an illegal memory access was encountered")

        monkeypatch.setattr(torch, "zeros", zeros)
        with pytest.raises(expected):
            DeviceContext("cuda").zeros("x", (3,), torch.float32)
