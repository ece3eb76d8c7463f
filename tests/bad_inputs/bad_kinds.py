"""All kinds of bad input."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import bad_actions
import bad_configurations
import bad_environments
import bad_machines
import bad_runs
from judged import Case

KINDS: dict[str, Callable[[Path], Iterator[Case]]] = {
    "keys": lambda folder: bad_configurations.values_of_keys(),
    "parameters": lambda folder: bad_configurations.parameters_of_environments(),
    "documents": bad_configurations.documents,
    "overrides": lambda folder: bad_configurations.overrides(),
    "environments": bad_environments.environments,
    "files": bad_environments.files,
    "wrappers": bad_environments.wrappers,
    "actions": bad_actions.actions,
    "observations": bad_actions.observations,
    "damages": bad_runs.damages,
    "forged": bad_runs.forged,
    "of others": bad_runs.of_others,
    "run folders": bad_runs.run_folders,
    "sizes": bad_machines.sizes,
    "machines": bad_machines.machines,
}


def in_a_folder(cases: Callable[[Path], Iterator[Case]]) -> Iterator[Case]:
    """Go through cases in a folder of their own, which is the working directory."""
    with tempfile.TemporaryDirectory() as folder:
        former = Path.cwd()
        os.chdir(folder)
        try:
            yield from cases(Path(folder))
        finally:
            os.chdir(former)
