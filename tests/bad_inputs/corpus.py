"""All kinds of bad input."""

from __future__ import annotations

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
