"""Generalised advantage estimation, with gamma = lambda = 1/2 where it is computed by hand: gamma * lambda = 1/4."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from gae import by_definition
from lanes import Lanes

from warpdrive.backends.cpu import CpuBackend
from warpdrive.backends.cuda.packing import Packing
from warpdrive.backends.interface import Backend
from warpdrive.backends.numba_cuda.compile import compile_kernel
from warpdrive.backends.numba_cuda.fused import prepare
from warpdrive.backends.pycuda import ON_HOST_VARIABLE, PyCudaBackend
from warpdrive.backends.pycuda.nvrtc import compile_fused
from warpdrive.kernels.fusion import Fusion
from warpdrive.training.experience.advantages import AdvantageEstimator

Array = npt.NDArray[Any]


def generalised_advantages(
    values: torch.Tensor,
    final_values: torch.Tensor,
    backend: Backend | None = None,
    absent_value: float = 0.0,
    **arguments: Any,
) -> torch.Tensor:
    """Return the advantages of an estimator with these values."""
    estimator = AdvantageEstimator(backend or CpuBackend(), num_final=len(final_values), **arguments)
    estimator.absent_value.fill_(absent_value)
    estimator.values.copy_(values)
    estimator.final_values.copy_(final_values)
    estimator.launch()
    return estimator.advantages


def advantages(
    rewards: list[float],
    values: list[float],
    *,
    terminated: list[int] | None = None,
    truncated: list[int] | None = None,
    final_value: float = 0.0,
    active: list[int] | None = None,
    still_active: list[int] | None = None,
    absent_value: float | None = None,
) -> list[float]:
    """Advantages of one agent in one replica, whose returns go on after it left if ``absent_value`` is given."""
    steps = len(rewards)
    column = lambda flags: torch.tensor(flags or [0] * steps, dtype=torch.bool).view(-1, 1)  # noqa: E731
    return (
        generalised_advantages(
            rewards=torch.tensor(rewards, dtype=torch.float32).view(-1, 1, 1),
            terminated=column(terminated),
            truncated=column(truncated),
            final_slot=torch.where(column(truncated), 0, -1).int(),
            active=None if active is None else column(active).unsqueeze(-1),
            still_active=None if still_active is None else column(still_active).unsqueeze(-1),
            agent_ids=torch.tensor([0], dtype=torch.int32),
            values=torch.tensor(values, dtype=torch.float32).view(-1, 1, 1),
            final_values=torch.full((1, 1, 1), final_value),
            gamma=0.5,
            gae_lambda=0.5,
            returns_after_leaving=absent_value is not None,
            absent_value=absent_value or 0.0,
        )
        .flatten()
        .tolist()
    )


def test_an_episode_that_goes_on_beyond_the_rollout() -> None:
    # d2 = 3 + 4/2 - 2 = 3; d1 = 2 + 2/2 - 4 = -1; d0 = 1 + 4/2 - 2 = 1
    # A2 = 3; A1 = -1 + 3/4 = -0.25; A0 = 1 - 0.25/4 = 0.9375
    assert advantages([1, 2, 3], [2, 4, 2, 4]) == [0.9375, -0.25, 3.0]


def test_nothing_follows_a_termination() -> None:
    # d1 = 2 - 4 = -2 without the value of the next episode; A0 = 1 + -2/4 = 0.5
    assert advantages([1, 2, 3], [2, 4, 2, 4], terminated=[0, 1, 0]) == [0.5, -2.0, 3.0]


def test_a_time_limit_is_continued_with_the_value_of_the_final_observations() -> None:
    """Known mistake: a time limit treated as termination, or continued with the value of the next episode."""
    # d1 = 2 + 6/2 - 4 = 1 with the final value 6; A1 = 1; A0 = 1 + 1/4 = 1.25
    assert advantages([1, 2, 3], [2, 4, 2, 4], truncated=[0, 1, 0], final_value=6.0) == [1.25, 1.0, 3.0]


def test_terminated_in_the_last_step_the_time_limit_allows_counts_as_terminated() -> None:
    both = advantages([1, 2, 3], [2, 4, 2, 4], terminated=[0, 1, 0], truncated=[0, 1, 0], final_value=6.0)
    assert both == [0.5, -2.0, 3.0]


def test_an_agent_that_leaves_has_its_last_step_where_it_was_last_active() -> None:
    # it leaves in step 1: A1 = 2 - 4 = -2, A0 = 1 - 2/4 = 0.5, and afterwards rewards and values are nobody's
    found = advantages([1, 2, 100], [2, 4, 100, 100], active=[1, 1, 0], still_active=[1, 0, 0])
    assert found == [0.5, -2.0, 0.0]


def test_an_agent_that_leaves_in_the_last_step_of_the_rollout_or_of_an_episode() -> None:
    # nothing tells so but still_active: A2 = 3 - 2 = 1 although the rollout ends with the value 4
    assert advantages([1, 2, 3], [2, 4, 2, 4], active=[1, 1, 1], still_active=[1, 1, 0])[2] == 1.0
    # and although the time limit comes in the same step
    found = advantages([2], [4, 9], truncated=[1], final_value=6.0, active=[1], still_active=[0])
    assert found == [-2.0]


def test_an_agent_that_left_plays_again_in_the_next_episode() -> None:
    # left in step 0 (A0 = 1 - 2 = -1), out in step 1, in which the episode terminates; then A2 = 3 + 4/2 - 2 = 3
    found = advantages([1, 50, 3], [2, 50, 2, 4], terminated=[0, 1, 0], active=[1, 0, 1], still_active=[0, 0, 1])
    assert found == [-1.0, 0.0, 3.0]


def test_an_agent_that_left_is_paid_until_the_episode_ends() -> None:
    """Known mistake: leaving ends the return, also where the team is paid for it later."""
    # it leaves in step 0, and the episode terminates in step 2: G2 = 8, G1 = 4 + 8/2 = 8, G0 = 1 + 8/2 = 5, whatever
    # lambda is; A0 = G0 - 2 = 3, and what stands for values while it is out, 100, is not looked at
    left = {"active": [1, 0, 0], "still_active": [0, 0, 0]}
    assert advantages([1, 4, 8], [2, 100, 100, 9], terminated=[0, 0, 1], absent_value=0.0, **left) == [3.0, 8.0, 8.0]
    # cut by the rollout, or by a time limit whose final observations would be worth 6: G2 = 8 + 4/2 = 10,
    # G1 = 4 + 10/2 = 9, G0 = 1 + 9/2 = 5.5; the rows while it is out say by how much that differs from 4
    assert advantages([1, 4, 8], [2, 100, 100, 9], absent_value=4.0, **left) == [3.5, 5.0, 6.0]
    found = advantages([1, 4, 8], [2, 100, 100, 9], truncated=[0, 0, 1], final_value=6.0, absent_value=4.0, **left)
    assert found == [3.5, 5.0, 6.0]
    # back in step 2: d2 = 8 + 9/2 - 5 = 7.5 = A2, G1 = 4 + (5 + 7.5 * lambda)/2 = 8.375, G0 = 1 + 8.375/2 = 5.1875
    found = advantages([1, 4, 8], [2, 100, 5, 9], active=[1, 0, 1], still_active=[0, 1, 1], absent_value=0.0)
    assert found == [3.1875, 8.375, 7.5]


@pytest.mark.parametrize("agent_ids", [[0, 1, 2, 3], [3, 1]])
def test_against_the_definition(agent_ids: list[int]) -> None:
    rng = np.random.default_rng(1)
    steps, envs, agents, slots = 12, 70, 4, 12
    rewards = rng.normal(size=(steps, envs, agents)).astype(np.float32)
    values = rng.normal(size=(steps + 1, envs, len(agent_ids))).astype(np.float32)
    final_values = rng.normal(size=(slots, envs, len(agent_ids))).astype(np.float32)
    terminated = rng.random((steps, envs)) < 0.15
    truncated = rng.random((steps, envs)) < 0.15
    final_slot = np.where(truncated, np.cumsum(truncated, 0) - 1, -1).astype(np.int32)
    found = generalised_advantages(
        rewards=torch.from_numpy(rewards),
        terminated=torch.from_numpy(terminated),
        truncated=torch.from_numpy(truncated),
        final_slot=torch.from_numpy(final_slot),
        active=None,
        still_active=None,
        agent_ids=torch.tensor(agent_ids, dtype=torch.int32),
        values=torch.from_numpy(values),
        final_values=torch.from_numpy(final_values),
        gamma=0.97,
        gae_lambda=0.9,
    )
    for env in range(envs):
        for column, agent in enumerate(agent_ids):
            final = final_values[final_slot[:, env], env, column]
            expected = by_definition(
                rewards[:, env, agent], values[:, env, column], final, terminated[:, env], truncated[:, env], 0.97, 0.9
            )
            np.testing.assert_allclose(found[:, env, column], expected, rtol=1e-4, atol=1e-5)


def drawn(seed: int, steps: int, envs: int, agents: int, agent_ids: list[int]) -> dict[str, Any]:
    """Everything an estimator reads, of agents that come and go."""
    generator = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.rand(shape, generator=generator)  # noqa: E731
    truncated, active = draw(steps, envs) < 0.1, draw(steps, envs, agents) < 0.8
    return {
        "rewards": draw(steps, envs, agents) - 0.5,
        "terminated": draw(steps, envs) < 0.1,
        "truncated": truncated,
        "final_slot": torch.where(truncated, truncated.cumsum(0) - 1, -1).int(),
        "active": active,
        "still_active": active & (draw(steps, envs, agents) < 0.9),
        "agent_ids": torch.tensor(agent_ids, dtype=torch.int32),
        "values": draw(steps + 1, envs, len(agent_ids)),
        "final_values": draw(steps, envs, len(agent_ids)),
        "gamma": 0.97,
        "gae_lambda": 0.9,
    }


@pytest.mark.parametrize("returns_after_leaving", [True, False])
@pytest.mark.parametrize("language", ["numba.cuda", "CUDA C"])
def test_gpu_code_does_what_cpu_code_does(
    monkeypatch: pytest.MonkeyPatch, language: str, returns_after_leaving: bool
) -> None:
    """GPU code of numba.cuda, run on the CPU thread by thread, and CUDA C, compiled for the host."""
    monkeypatch.setenv(ON_HOST_VARIABLE, "1")
    arguments = drawn(2, steps=9, envs=37, agents=6, agent_ids=[5, 0, 3])
    arguments |= {"returns_after_leaving": returns_after_leaving, "absent_value": 0.5}
    expected = generalised_advantages(**arguments)
    found = generalised_advantages(**arguments, backend=PyCudaBackend() if language == "CUDA C" else Lanes())
    assert torch.equal(found, expected)


class Compiler:
    """A backend that compiles for a GPU with both compilers, and launches nothing."""

    name, language, device = "compiler", "Python", torch.device("cpu")

    def __init__(self, capability: tuple[int, int]) -> None:
        self.capability = capability
        self.codes: list[Any] = []

    def bind(self, fusion: Fusion, arguments: Any, blocks: int, threads: int) -> Any:
        fused = prepare(fusion.kernel(), arguments, blocks)
        self.codes.append(
            compile_kernel(fused.kernel, fused.parameters, Packing.of(threads, fused.shared_bytes), self.capability)
        )
        self.codes.append(compile_fused(fusion, arguments, blocks, threads, self.capability)[0])
        return lambda: None


@pytest.mark.parametrize("capability", [(8, 0), (9, 0)])
@pytest.mark.parametrize("agent_ids", [[0], [5, 0, 3], list(range(40))])
def test_it_compiles_for_gpus_and_computes_in_float32(capability: tuple[int, int], agent_ids: list[int]) -> None:
    compiler = Compiler(capability)
    generalised_advantages(**drawn(3, 4, 9, 40, agent_ids), backend=compiler)
    assert len(compiler.codes) == 2
    for code in compiler.codes:
        assert f".target sm_{capability[0]}{capability[1]}" in code.ptx
        assert ".f64" not in code.ptx
        assert code.resources.local_bytes == 0 and code.resources.registers <= 80  # 24 warps on a multiprocessor
