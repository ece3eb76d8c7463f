"""All kinds of bad input."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from bad_inputs import actions, configurations, environments, machines, runs
from bad_inputs.verdict import Case

KINDS: dict[str, Callable[[Path], Iterator[Case]]] = {
    "keys": lambda folder: configurations.values_of_keys(),
    "parameters": lambda folder: configurations.parameters_of_environments(),
    "documents": configurations.documents,
    "conversions": configurations.conversions,
    "overrides": lambda folder: configurations.overrides(),
    "environments": environments.environments,
    "files": environments.files,
    "wrappers": environments.wrappers,
    "actions": actions.actions,
    "observations": actions.observations,
    "damages": runs.damages,
    "forged": runs.forged,
    "of others": runs.of_others,
    "run folders": runs.run_folders,
    "sizes": machines.sizes,
    "machines": machines.machines,
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
