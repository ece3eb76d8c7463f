"""The example of docs/guides/cuda_c.md equals NumPy, and messages and names are those of the page."""

from __future__ import annotations

import re

import numpy as np
import pytest
from pages import write_files
from paths import ROOT

import warpdrive as wd

PAGE = (ROOT / "docs" / "guides" / "cuda_c.md").read_text()


@pytest.fixture
def example(tmp_path, monkeypatch):
    """The files of the example in a folder, which is where the process is."""
    write_files(PAGE, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WARPDRIVE_CUDA_ON_HOST", "1")
    return tmp_path


def test_the_example_does_what_it_says(example):
    env = wd.EnvWrapper(env_name=f"{example}/gather.py:Gather", num_envs=50, env_backend="pycuda", seed=3)
    generator = np.random.default_rng(0)
    ended = 0
    for _ in range(60):
        x, y = (env.ctx[name].numpy().copy() for name in "xy")
        actions = generator.integers(0, 5, (50, 4), dtype=np.int32)
        observations, rewards, terminated, truncated, info = env.step(actions)
        moves = env.env.moves[actions]
        x, y = (np.clip(place + moves[..., axis], 0, 1) for axis, place in enumerate((x, y)))
        distance = np.hypot(x - x.mean(axis=1, keepdims=True), y - y.mean(axis=1, keepdims=True))
        np.testing.assert_allclose(rewards.numpy(), -distance, atol=1e-6)
        np.testing.assert_array_equal(terminated.numpy(), (distance < 0.1).all(axis=1))
        done = (terminated | truncated).numpy()
        last = np.where(done[:, None, None, None], info["final_observations"].numpy(), observations.numpy())
        expected = np.stack([np.roll(np.stack([x, y], axis=2), -agent, axis=1) for agent in range(4)], axis=1)
        np.testing.assert_allclose(last, expected, atol=1e-6)
        ended += int(done.sum())
    assert ended >= 50
    assert len(np.unique(env.ctx["x"].numpy())) > 150  # starts are drawn


def test_what_the_page_names_exists():
    headers = "\n".join(path.read_text() for path in (ROOT / "cuda_src").rglob("*") if path.suffix in (".cuh", ".h"))
    named = set(re.findall(r"\bwd_\w+|\bWD_\w+", PAGE))
    assert {name for name in named if not re.search(rf"\b{name}\b", headers)} == set()


def error_of(environment):
    with pytest.raises(wd.KernelError) as caught:
        env = wd.EnvWrapper(environment, env_backend="pycuda")
        env.step(np.zeros((1, 4), np.int32))
    return str(caught.value)


def test_the_messages_are_those_that_the_page_shows(example):
    shown = " ".join(PAGE.split())
    environment = wd.make(f"{example}/gather.py:Gather")
    head, step = (example / "gather.cu").read_text().split("WD_KERNEL void step")
    for before, after in (
        ("float *x, ", "int *x, "),
        ("float near", "float naer"),
        ("    wd_barrier();  // the", "    if (agent == 2) return;\n    wd_barrier();  // the"),
    ):
        path = example / f"{len(after)}.cu"  # each text is another file's
        path.write_text(f"{head}WD_KERNEL void step{step.replace(before, after, 1)}")
        environment.step = wd.cuda_kernel(path, "step")
        assert error_of(environment).replace(str(path), "gather.cu") in shown
