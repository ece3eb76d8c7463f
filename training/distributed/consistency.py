"""Consistency checks of a process group: of configurations at the start, and of weights during training."""

from __future__ import annotations

import hashlib
import inspect
import platform
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from warpdrive.environment import Environment
from warpdrive.errors import TeamError
from warpdrive.training.config.load import RunConfig
from warpdrive.training.config.yaml import flat
from warpdrive.training.distributed.process_group import ProcessGroup

_CODE = {".py", ".cu", ".cuh", ".h"}


def check_start(process_group: ProcessGroup, config: RunConfig, env: Environment) -> None:
    """Check that all processes have the same configuration, code and versions.

    Args:
        process_group: Process group.
        config: Run configuration of this process.
        env: Environment of this process.

    Raises:
        TeamError: If they differ; the message has the values of each process.
    """
    if process_group.world_size == 1:
        return
    run = config.model_dump(mode="json")
    run["env"] = run["env"] and {**run["env"], "name": Path(run["env"]["name"]).name}  # folders differ between machines
    own = {
        **flat(run),
        "the code of warpdrive": _code_of_warpdrive(),
        f"the code of {type(env).__name__}": _hash(Path(inspect.getfile(type(env))).read_bytes()),
        "the version of torch": torch.__version__,
        "the version of Python": platform.python_version(),
    }
    _check_same(process_group, own, "all processes of a run must agree")


@torch.no_grad()
def check_weights(process_group: ProcessGroup, models: Mapping[str, nn.Module]) -> None:
    """Check that models have bitwise equal parameters and buffers in all processes.

    Raises:
        TeamError: If they differ: reports the first tensor that does, and the processes.
    """
    if process_group.world_size > 1:
        own = {
            f"policy '{tag}': {name}": _hash(_bytes(tensor))
            for tag, model in models.items()
            for name, tensor in model.state_dict().items()
        }
        _check_same(process_group, own, "weights must be equal after each update")


def _check_same(process_group: ProcessGroup, own: Mapping[str, Any], why: str) -> None:
    everybody = process_group.all_gather_values(own)
    for name, value in everybody[0].items():
        others = [rank for rank, theirs in enumerate(everybody) if theirs.get(name, _ABSENT) != value]
        if others:
            found = _words(everybody[others[0]].get(name, _ABSENT))
            who = f"rank {others[0]} has" if len(others) == 1 else f"ranks {', '.join(map(str, others))} have"
            raise TeamError(f"{name}: rank 0 has {_words(value)}, but {who} {found}; {why}")
    if any(theirs.keys() != own.keys() for theirs in everybody):
        raise TeamError(f"the processes differ in policies or settings; {why}")


_ABSENT = "nothing"


def _words(value: Any) -> str:
    return f"{value[:12]}..." if isinstance(value, str) and len(value) == 64 else str(value)


@cache
def _code_of_warpdrive() -> str:
    found = [find_spec(name) for name in ("warpdrive", "warpdrive.envs", "warpdrive.training", "warpdrive.cuda_src")]
    folders = {Path(folder) for spec in found if spec for folder in spec.submodule_search_locations or ()}
    files = sorted(
        (path.relative_to(folder), path) for folder in folders for path in folder.rglob("*") if path.suffix in _CODE
    )
    return _hash(b"\0".join(str(name).encode() + path.read_bytes() for name, path in files))


def _bytes(tensor: Tensor) -> bytes:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).cpu().numpy().tobytes()


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
