"""The device library in CUDA C, compiled for the host, against its Python twins on the CPU backend."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import warpdrive.cuda_src
from warpdrive import episode_log, math, polynomials, random, resetter, sampler
from warpdrive.backends.cpu import CpuBackend
from warpdrive.backends.pycuda import PyCudaBackend
from warpdrive.backends.pycuda.nvrtc import compile_fused
from warpdrive.fused_step.fuse import rollout_writer as recorder
from warpdrive.kernels.fusion import Barrier, Call, Fusion
from warpdrive.kernels.kernel import DeviceFunction

LIBRARY = Path(warpdrive.cuda_src.__file__).parent
ENVS, AGENTS, STEPS = 400, 6, 5

Arrays = dict[str, np.ndarray]
RunBoth = Callable[..., tuple[Arrays, Arrays]]


def called(function: DeviceFunction, **names: str) -> Call:
    """Return a call with arguments of the parameters' names, or those given instead."""
    return Call(function, tuple(names.get(parameter, parameter) for parameter in function.parameters))


@pytest.fixture
def run_both(monkeypatch: pytest.MonkeyPatch) -> RunBoth:
    """Give a function that calls functions of the library, with a barrier after each, in both languages.

    It returns the arrays as the Python functions leave them, and as those in CUDA C do, which GPUs take, too.
    """
    monkeypatch.setenv("WARPDRIVE_CUDA_ON_HOST", "1")

    def run_both(calls: Sequence[Call], arrays: Mapping[str, np.ndarray], times: int = 1) -> tuple[Arrays, Arrays]:
        steps = [step for call in calls for step in (call, Barrier())]
        fusion = Fusion("library", tuple(arrays), tuple(steps))
        for capability in ((8, 0), (9, 0)):
            tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
            assert ".f64" not in compile_fused(fusion, tensors, ENVS, AGENTS, capability)[0].ptx
        outcomes = []
        for backend in (CpuBackend(), PyCudaBackend()):
            tensors = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
            launch = backend.bind(fusion, tensors, ENVS, AGENTS)
            for _ in range(times):
                launch()
            outcomes.append({name: tensor.numpy() for name, tensor in tensors.items()})
        return outcomes[0], outcomes[1]

    return run_both


def assert_same(expected: Arrays, found: Arrays, changed: set[str]) -> None:
    """Assert that all arrays have the same values; ``changed`` says what the functions must have written to."""
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)
    assert all(np.any(found[name]) for name in changed), changed


def logits(generator: np.random.Generator, *shape: int) -> np.ndarray:
    """Return logits that differ much or little, some of them equal, and some of them all the same."""
    drawn = generator.normal(0, 3, shape).astype(np.float32)
    drawn[generator.random(shape) < 0.3] = 2.5
    drawn[: shape[0] // 8] = 0.0
    return drawn


def sampling_arrays(generator: np.random.Generator, greedy: bool) -> Arrays:
    """Return what all sampling functions are given, for the agents 1, 2, 4 and 5 in the rows 2, 0, 1 and 3."""
    return {
        "log_probability": np.zeros((ENVS, AGENTS), np.float32),
        "greedy": np.array([greedy], np.int32),
        "rng": random.initial_rng(17, 3, ENVS, AGENTS, random.SAMPLER_FIRST_DRAW),
        "rows": np.array([-1, 2, 0, -1, 1, 3], np.int32),
        "action_rows": np.array([0, 1, 2, 3, 4, 5], np.int32),
    }


@pytest.mark.parametrize("module", [sampler, resetter, recorder, episode_log, random, math, polynomials])
def test_every_function_has_a_twin_with_its_parameters(module: Any) -> None:
    header = (LIBRARY / f"{module.__name__.rpartition('.')[2]}.cuh").read_text()
    functions = [value for value in vars(module).values() if isinstance(value, DeviceFunction)]
    own = [function for function in functions if function.function.__module__ == module.__name__]
    own = [function for function in own if not function.source.name.startswith("_")]
    assert own
    for function in own:
        found = re.search(rf"WD_FUNCTION [\w ]+ wd_{function.source.name}\(([^)]*)\)", header)
        assert found, f"{function.source.name} has no twin"
        names = tuple(re.findall(r"(\w+)(?:,|$)", found[1]))
        assert names == function.parameters, function.source.name


@pytest.mark.parametrize("greedy", [False, True], ids=["sampled", "greedy"])
def test_sampling_one_of_several(run_both: RunBoth, greedy: bool) -> None:
    generator = np.random.default_rng(0)
    arrays = {
        **sampling_arrays(generator, greedy),
        "logits": logits(generator, ENVS, 4, 7),
        "masked_logits": np.zeros((ENVS, 4, 7), np.float32),
        "action_mask": generator.random((ENVS, AGENTS, 7)) < 0.6,
        "actions": np.full((ENVS, AGENTS), -1, np.int32),
    }
    arrays["action_mask"][..., 3] = True
    arrays["action_mask"][:9] = np.arange(7) == 3  # one choice is left
    for row, extreme in enumerate((-np.inf, np.inf, np.nan, -3.402e38, 3.402e38, -65504.0)):
        some = generator.random((40, 4, 7)) < 0.5
        arrays["logits"][60 + 50 * row : 100 + 50 * row][some] = extreme
        arrays["logits"][100 + 50 * row : 110 + 50 * row] = extreme
    arrays["action_mask"][::7] = False  # nothing is left
    calls = [called(sampler.mask_logits), called(sampler.sample_discrete, logits="masked_logits")]
    expected, found = run_both(calls, arrays, times=3)
    assert_same(expected, found, {"actions", "log_probability", "masked_logits"})
    actions = found["actions"]
    assert (actions[:, [0, 3]] == -1).all()  # nobody else's
    actions = actions[:, [2, 4, 1, 5], None]
    likely = probabilities(arrays["logits"], arrays["action_mask"][:, [2, 4, 1, 5]])
    chosen = np.take_along_axis(likely, actions, axis=2)
    assert (chosen > 0).all()
    if greedy:
        np.testing.assert_array_equal(actions[..., 0], likely.argmax(axis=2))  # of equals the first
    np.testing.assert_allclose(found["log_probability"][:, [2, 4, 1, 5]], np.log(chosen[..., 0]), atol=1e-5)


def probabilities(logits: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return the softmax of what is allowed, as a limit in float64; NaN counts as -inf, and nothing allowed as all."""
    logits = np.where(mask, np.where(np.isnan(logits), -np.inf, logits), -np.inf).astype(np.float64)
    top = logits.max(axis=-1, keepdims=True)
    allowed = mask | ~mask.any(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        weights = np.where(np.isfinite(top), np.exp(logits - top), (logits == top) & allowed)
    return weights / weights.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("greedy", [False, True], ids=["sampled", "greedy"])
def test_sampling_several_components(run_both: RunBoth, greedy: bool) -> None:
    generator = np.random.default_rng(1)
    arrays = {
        **sampling_arrays(generator, greedy),
        "logits": logits(generator, ENVS, 4, 3 + 5 + 1),
        "actions": np.full((ENVS, AGENTS, 3), -1, np.int32),
        "num_choices": np.array([3, 5, 1], np.int32),
    }
    expected, found = run_both([called(sampler.sample_multi_discrete)], arrays, times=3)
    assert_same(expected, found, {"actions", "log_probability"})


def test_drawing_among_what_there_is(run_both: RunBoth) -> None:
    generator = np.random.default_rng(3)
    arrays = {
        "rng": random.initial_rng(17, 3, ENVS, AGENTS, random.SAMPLER_FIRST_DRAW),
        "action_rows": np.array([-1, 2, 0, -1, 1, 3], np.int32),
        "logits": np.zeros((ENVS, 4, 7), np.float32),
        "num_choices": np.array([3, 5, 1], np.int32),
        "low": np.array([-1.0, -np.inf, 0.5], np.float32),
        "high": np.array([1.0, 2.0, 0.75], np.float32),
        "action_mask": generator.random((ENVS, AGENTS, 9)) < 0.5,
        "one": np.full((ENVS, AGENTS), -1, np.int32),
        "several": np.full((ENVS, 4 * 3), -1, np.int32),
        "allowed": np.full((ENVS, 4 * 3), -1, np.int32),
        "continuous": np.zeros((ENVS, 4 * 3), np.float32),
    }
    arrays["action_mask"][:9] = False  # nothing is allowed: anything is drawn
    calls = [
        called(sampler.draw_discrete, actions="one"),
        called(sampler.draw_multi_discrete, actions="several"),
        called(sampler.draw_allowed, actions="allowed"),
        called(sampler.draw_continuous, actions="continuous"),
    ]
    expected, found = run_both(calls, arrays, times=3)
    assert_same(expected, found, {"one", "several", "allowed", "continuous"})
    assert found["one"].min() == 0 and found["one"].max() == 6
    allowed = found["allowed"].reshape(ENVS, 4, 3)
    assert (allowed >= 0).all() and (allowed < arrays["num_choices"]).all()
    for row, agent in enumerate([2, 4, 1, 5]):
        for component, first in enumerate((0, 3, 8)):
            mask = arrays["action_mask"][:, agent, first : first + arrays["num_choices"][component]]
            chosen = np.take_along_axis(mask, allowed[:, row, component, None], axis=1)[:, 0]
            assert (chosen == mask.any(axis=1)).all()


@pytest.mark.parametrize(("squash", "normalize"), [(0, 0), (0, 1), (1, 0)], ids=["clipped", "normalized", "squashed"])
@pytest.mark.parametrize("greedy", [False, True], ids=["sampled", "greedy"])
def test_sampling_continuous_actions(run_both: RunBoth, greedy: bool, squash: int, normalize: int) -> None:
    generator = np.random.default_rng(2)
    arrays = {
        **sampling_arrays(generator, greedy),
        "logits": generator.normal(0, 1, (ENVS, 4, 6)).astype(np.float32),
        "actions": np.zeros((ENVS, AGENTS * 3), np.float32),
        "sampled": np.zeros((ENVS, AGENTS * 3), np.float32),
        "squash": np.array([squash], np.int32),
        "normalize": np.array([normalize], np.int32),
        "low": np.array([-1.0, -3.0 if squash else -np.inf, 0.5], np.float32),
        "high": np.array([1.0, 2.0, 0.75], np.float32),
    }
    arrays["logits"][: ENVS // 2, :, 3:] = np.inf  # nothing has been said
    expected, found = run_both([called(sampler.sample_gaussian)], arrays, times=3)
    assert_same(expected, found, {"actions", "sampled", "log_probability"})
    acting, drawn = (found[name].reshape(ENVS, AGENTS, 3)[:, [2, 4, 1, 5]] for name in ("actions", "sampled"))
    low, high = arrays["low"].astype(np.float64), arrays["high"].astype(np.float64)
    assert (acting >= low).all() and (acting <= high).all()
    bounded = np.isfinite(low)
    centre, half = np.where(bounded, 0.5 * (low + high), 0.0), np.where(bounded, 0.5 * (high - low), 1.0)
    if squash:
        np.testing.assert_allclose(acting, centre + half * np.tanh(drawn.astype(np.float64)), rtol=1e-5, atol=1e-5)
        return
    np.testing.assert_array_equal(acting, np.clip(drawn, arrays["low"], arrays["high"]))
    mean, log_std = np.split(arrays["logits"][ENVS // 2 :].astype(np.float64), 2, axis=2)
    if normalize:
        mean, log_std = centre + half * mean, log_std + np.log(half)
    told = found["log_probability"][ENVS // 2 :, [2, 4, 1, 5]]
    deviation = (drawn[ENVS // 2 :] - mean) / np.exp(log_std)
    density = -0.5 * deviation**2 - log_std - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(told, density.sum(2), rtol=1e-4, atol=1e-4)
    assert greedy == (np.abs(deviation).max() < 1e-3)


def test_recording(run_both: RunBoth) -> None:
    generator = np.random.default_rng(3)
    row = 11  # which the threads cannot share out evenly
    arrays = {
        "slot": np.array([2], np.int32),
        "of_agents": generator.normal(size=(ENVS, AGENTS)).astype(np.float32),
        "record_of_agents": np.zeros((STEPS, ENVS, AGENTS), np.float32),
        "of_envs": generator.random(ENVS) < 0.5,
        "record_of_envs": np.zeros((STEPS, ENVS), np.bool_),
        "source": generator.integers(0, 9, (ENVS, row)).astype(np.int32),
        "record": np.zeros((STEPS, ENVS, row), np.int32),
        "record_next": np.zeros((STEPS, ENVS, row), np.int32),
        "copy": np.zeros((ENVS, row), np.int32),
        "terminated": generator.random(ENVS) < 0.3,
        "truncated": generator.random(ENVS) < 0.6,
        "final_slot": np.zeros((STEPS, ENVS), np.int32),
        "final_count": np.zeros(ENVS, np.int32),
        "final": np.zeros((2, ENVS, row), np.int32),
        "team": np.array([0, 1, 0, 1, 4, 0], np.int32),
        "share": generator.random(AGENTS).astype(np.float32),
        "record_of_teams": np.zeros((STEPS, ENVS, AGENTS), np.float32),
        "seen": generator.normal(size=(ENVS, AGENTS, 3)).astype(np.float32),
        "copy_with_ids": np.zeros((ENVS, 2, 5), np.float32),
        "source_rows": np.arange(AGENTS, dtype=np.int32),
        "target_rows": np.array([-1, 1, -1, 0, -1, -1], np.int32),
        "place": np.array([-1, 1, -1, 0, -1, -1], np.int32),
    }
    calls = [
        called(recorder.record_per_agent, source="of_agents", record="record_of_agents"),
        called(recorder.record_team_reward, rewards="of_agents", record="record_of_teams"),
        called(recorder.extend_observation, source="seen", target="copy_with_ids"),
        called(recorder.record_per_env, source="of_envs", record="record_of_envs"),
        called(recorder.record_row),
        called(recorder.record_next_row, record="record_next"),
        called(recorder.copy_row, target="copy"),
        called(recorder.note_final_slot),
        called(recorder.record_final_row, record="final"),
    ]
    expected, found = run_both(calls, arrays, times=4)  # more truncations than there are slots
    assert_same(expected, found, {name for name in arrays if name.startswith(("record", "copy", "final"))})
    np.testing.assert_array_equal(found["record"][2], arrays["source"])
    np.testing.assert_array_equal(found["record_next"][3], arrays["source"])


def test_the_ends_and_beginnings_of_episodes(run_both: RunBoth) -> None:
    generator = np.random.default_rng(4)
    row, pool_size = 13, 5
    sums = {name: np.zeros((ENVS, AGENTS), np.float32) for name in ("running_return", "last_return", "return_sum")}
    counts = ("last_length", "length_sum", "episodes", "terminations", "choice")
    arrays = {
        **sums,
        **{name: np.zeros(ENVS, np.int32) for name in counts},
        "began": np.array([0, -1, *[0] * (ENVS - 2)], np.int32),  # -1: midway, which counts for nothing
        "timestep": generator.integers(0, 9, ENVS).astype(np.int32),
        "rewards": np.ones((ENVS, AGENTS), np.float32),
        "step_rewards": generator.normal(size=(ENVS, AGENTS)).astype(np.float32),
        "of_some": np.tile(np.array([1.0, np.nan, -np.inf, 2.0, 3.0, np.nan], np.float32), (ENVS, 1)),
        "active": np.tile([True, False, False, True, False, True], (ENVS, 1)),
        "acted": np.zeros((ENVS, AGENTS), np.bool_),
        "terminated": np.ones(ENVS, np.bool_),
        "truncated": np.ones(ENVS, np.bool_),
        "ended": generator.random(ENVS) < 0.5,
        "episode_length": np.array([9], np.int32),
        "stream": random.initial_rng(8, 2, ENVS, 1)[:, 0].copy(),
        "pool_size": np.array([pool_size], np.int32),
        "pool": generator.normal(size=(pool_size, row)).astype(np.float32),
        "target": np.zeros((ENVS, row), np.float32),
        "of_next": np.ones(ENVS, np.int32),
        "return_of_next": np.ones((ENVS, AGENTS), np.float32),
        "continued": np.ones(ENVS, np.bool_),
    }
    calls = [
        called(episode_log.begin_step),
        called(resetter.clear_continued),
        called(episode_log.note_acting),
        called(episode_log.end_step),
        called(episode_log.clear_absent_rewards, rewards="of_some"),
        called(episode_log.add_rewards, rewards="step_rewards"),
        called(episode_log.log_episode, choice="began", terminated="ended"),
        called(resetter.choose_start),
        called(resetter.copy_start),
        called(resetter.start_episode, timestep="of_next", running_return="return_of_next"),
    ]
    expected, found = run_both(calls, arrays, times=3)
    assert_same(expected, found, {*sums, *counts, "truncated", "target"})
    for cleared in (expected["of_some"], found["of_some"]):
        np.testing.assert_array_equal(cleared, np.tile(np.array([1, 0, 0, 2, 3, np.nan], np.float32), (ENVS, 1)))
    assert not expected["continued"].any() and not found["continued"].any()
    np.testing.assert_array_equal(found["timestep"], arrays["timestep"] + 3)
    assert found["episodes"].tolist() == [3, 0, *[3] * (ENVS - 2)] and not found["return_sum"][1].any()
    assert not found["rewards"].any() and not found["of_next"].any() and not found["return_of_next"].any()
    np.testing.assert_array_equal(found["truncated"], found["timestep"] >= 9)
    np.testing.assert_array_equal(found["target"], arrays["pool"][found["choice"]])
    assert set(found["choice"]) == set(range(pool_size))
