"""Every registered environment behaves the same on every backend, for any number and packing of replicas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from environment_parameters import CONFIGURATIONS, LENGTH, UNLIKE
from exhaustive import exhaustive

import warpdrive as wd
from warpdrive.backends.interface import Backend
from warpdrive.backends.loading import load_backend, usable_backends
from warpdrive.checks.agreement import Setting, compare
from warpdrive.checks.environment import CheckingBackend
from warpdrive.checks.findings import Report
from warpdrive.environment import Environment, kernel_functions
from warpdrive.errors import DefinitionError

STEPS = 50


def runs(environment: Environment, backend: Backend) -> bool:
    try:
        kernel_functions(environment, backend.language)
    except DefinitionError:
        return False
    return True


RUNNING = [
    pytest.param(name, config, backend, id=f"{name}-{number}-{backend}")
    for name, configs in CONFIGURATIONS.items()
    for number, config in enumerate(configs)
    for backend in usable_backends()
    if runs(wd.make(name, **config), load_backend(backend))
]
"""All that can run here."""
FIRST = [running for running in RUNNING if "-0-" in running.id and running.values[0] in UNLIKE]
"""One configuration of each environment that differs from the others in more than its rules."""
USUAL = ("battle", "cartpole", "overcooked", "simple_tag", "tag_continuous")
"""Those that suffice for what depends on spaces, policy tags and barriers alone."""
LATER = [running for running in RUNNING if "-0-" not in running.id]


def on_others(running: list[Any]) -> list[Any]:
    return [parameters for parameters in running if parameters.values[2] != "cpu"]


def maker(name: str, config: dict[str, Any]) -> Callable[[], Environment]:
    return lambda: wd.make(name, **config)


def assert_backends_agree(name: str, config: dict[str, Any], backend: str, sampled: bool) -> None:
    """Assert that whole episodes have the same bits on the CPU backend and on another."""
    settings = Setting("cpu", 40), Setting(backend, 40)
    found = compare(maker(name, config), *settings, 0.0, STEPS, sampled=sampled, same_states=False)
    assert not found.wrong, f"{len(found.wrong)} differences in {found.steps} steps: {found.wrong[:5]}"
    assert found.episodes >= 20  # many replicas ended episodes and began others


@pytest.mark.parametrize(("name", "config", "backend"), on_others(LATER))
def test_steps(name: str, config: dict[str, Any], backend: str) -> None:
    assert_backends_agree(name, config, backend, sampled=False)


@pytest.mark.parametrize(("name", "config", "backend"), exhaustive(on_others(FIRST), ("battle", "simple_tag")))
def test_sampled_and_recorded_steps(name: str, config: dict[str, Any], backend: str) -> None:
    assert_backends_agree(name, config, backend, sampled=True)


@pytest.mark.parametrize("name", exhaustive(UNLIKE, ("matrix_game",)))
def test_python_agrees(name: str) -> None:
    """The kernels as Python runs them, with the numbers that compiled kernels have, under the checks.

    Every episode ends within the steps, and another begins.
    """
    length = LENGTH.get(name, "episode_length")
    config = {**CONFIGURATIONS[name][0], **({length: 7} if length else {})}
    report = Report()
    settings = Setting("cpu", 6), Setting(CheckingBackend(report, nan=True), 2, first_env=3)
    found = compare(maker(name, config), *settings, 0.0, 9, sampled=True, same_states=False)
    assert not found.wrong, found.wrong[:5]
    assert found.episodes >= 2
    assert report.clean and not report.notes, report


@pytest.mark.parametrize(("name", "config", "backend"), exhaustive(FIRST, ("simple_tag",)))
def test_numbers_of_replicas(name: str, config: dict[str, Any], backend: str) -> None:
    """A replica's bits do not depend on how many there are beside it: on a GPU, on how they are packed into blocks."""
    settings = Setting(backend, 70), Setting(backend, 6, first_env=31)
    found = compare(maker(name, config), *settings, 0.0, STEPS, sampled=True, same_states=False)
    assert not found.wrong
