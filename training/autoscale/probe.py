"""Probe process that tries one size: ``python -m warpdrive.training.autoscale.probe <folder>``.

It reads ``request.json`` in the folder, writes its progress to ``stage``, and its result to ``result.json``. If memory
runs out, the OOM killer ends this process before others.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import torch

from warpdrive.env_wrapper import EnvWrapper
from warpdrive.errors import WarpDriveError
from warpdrive.training.autoscale.memory import available_memory, gib
from warpdrive.training.config.load import RunConfig, load_config
from warpdrive.training.experience.replay_buffer import ReplayBuffer
from warpdrive.training.experience.team_sequences import SequenceBuffer
from warpdrive.training.reports import UpdateReport
from warpdrive.training.run.metrics import memory_gib
from warpdrive.training.trainer import Trainer, make_env

_MIN_UPDATES = 2
_MIN_ADDRESS_SPACE = 2**28
"""Minimum address space in bytes: with less, OpenBLAS (0.3.30) retries its allocation of buffers for ever."""
_SURVEYED = 97
"""Number of replicas of the memory survey: small, and unlikely to be the size of another axis."""


def main(folder: Path) -> None:
    """Process the request in ``request.json``."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    request = json.loads((folder / "request.json").read_text())

    def stage(name: str) -> None:
        (folder / "stage").write_text(name)

    try:
        config = load_config(request["config"])
        stage("creating the replicas")
        result = survey(config) if request["survey"] else measure(config, request, stage)
    except (MemoryError, torch.OutOfMemoryError) as error:
        result = {"failure": "memory", "reason": _one_line(error)}
    except WarpDriveError as error:
        result = {"failure": "memory" if _of_memory(error) else "refused", "reason": _one_line(error)}
    except RuntimeError as error:
        if not _of_memory(error):
            raise
        result = {"failure": "memory", "reason": _one_line(error)}
    (folder / "result.json").write_text(json.dumps(result))


def survey(config: RunConfig) -> dict[str, Any]:
    """Measure a few replicas: bytes of their arrays, available memory and parallel replicas of the device."""
    available = available_memory()
    if "ulimit" in available.limited_by and available.bytes < _MIN_ADDRESS_SPACE:
        raise MemoryError(
            f"{gib(available.bytes)} remain of {available.limited_by} after importing all libraries (it also counts "
            f"reserved memory): expected at least {gib(_MIN_ADDRESS_SPACE)}"
        )
    small = config.model_dump() | {"trainer": config.trainer.model_dump() | {"num_envs": _SURVEYED}}
    small["trainer"]["train_batch_size"] = _SURVEYED
    env = make_env(RunConfig.model_validate(small))
    length = config.trainer.rollout_length
    one, all_steps = (_bytes_of_rollout(env, steps) for steps in (1, length))
    per_step = (all_steps - one) / max(1, length - 1) / _SURVEYED
    report = env.ctx.memory_report()
    of_replicas = sum(taken for name, taken in report.items() if env.ctx[name].shape[:1] == (_SURVEYED,))
    limit, limited_by = available_memory()
    if env.device.type == "cuda":
        limit, limited_by = torch.cuda.mem_get_info(env.device)[0], f"free memory of {env.device}"
    return {
        "backend": env.backend.name,
        "device": str(env.device),
        "num_agents": env.num_agents,
        "at_once": env.replicas_at_once(),
        "state_bytes": of_replicas / _SURVEYED,
        "rollout_bytes": one / _SURVEYED - per_step,
        "step_bytes": per_step,
        "fixed_bytes": sum(report.values()) - of_replicas,
        "available": limit if limit != float("inf") else None,
        "limited_by": limited_by,
        "baseline": _peak_memory(env.device),
    }


def measure(config: RunConfig, request: Mapping[str, Any], stage: Callable[[str], None]) -> dict[str, Any]:
    """Train as a run does, with logging and checkpoints, and with full replay buffers.

    After a first update the measurement takes about ``request["seconds"]``, and at most half of that if it is slower
    than ``request["hopeless"]``.

    Args:
        config: Run configuration of the size to try.
        request: Contents of ``request.json``.
        stage: Called with a description of the current stage.

    Returns:
        The measurements.
    """
    trainer = Trainer(make_env(config), config)
    stage("the first rollout and update")
    moments: list[float] = []
    parts: list[tuple[float, float]] = []
    seconds, hopeless, grows = request["seconds"], request["hopeless"], 0

    def on_update(report: UpdateReport) -> None:
        nonlocal grows
        stage("rollouts and updates")
        if not moments:
            buffers = [policy.experience for policy in trainer.policies.values()]
            grows = sum(buffer.fill() for buffer in buffers if isinstance(buffer, ReplayBuffer | SequenceBuffer))
        moments.append(time.perf_counter())
        parts.append((report.metrics["perf/rollout_seconds"], report.metrics["perf/update_seconds"]))
        elapsed, updates = moments[-1] - moments[0], len(moments) - 1
        is_slow = updates > 0 and config.trainer.train_batch_size * updates < hopeless * elapsed
        if elapsed >= (0.5 if is_slow else 1.0) * seconds and (
            updates >= _MIN_UPDATES or is_slow or elapsed >= 3 * seconds
        ):
            raise KeyboardInterrupt  # ends a run properly, with a checkpoint

    trainer.train(on_update, progress=False)
    each = [after - before for before, after in pairwise(moments)]
    return {
        "speed": config.trainer.train_batch_size / median(each),
        "rollout_seconds": median(rollout for rollout, _ in parts[1:]),
        "update_seconds": median(update for _, update in parts[1:]),
        "memory": _peak_memory(trainer.env.device),
        "grows": grows,
    }


def _bytes_of_rollout(env: EnvWrapper, num_steps: int) -> int:
    return env.allocate_rollout(num_steps).nbytes


def _peak_memory(device: torch.device) -> float:
    """Return the peak memory in bytes. On the CPU ``getrusage`` is not used, as it includes the parent process."""
    if device.type == "cuda":
        return float(torch.cuda.max_memory_reserved(device))
    with suppress(OSError):
        found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
        if found:
            return int(found[1]) * 1024.0
    return memory_gib(device) * 2**30


def _of_memory(error: Exception) -> bool:
    """Return True if the message of an untyped error reports a lack of memory."""
    text = str(error).lower()
    return any(said in text for said in ("alloc", "out of memory", "enough memory", "memory_error", " gib for "))


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    allocation = re.search(r"tried to allocate (\d+) bytes", text)
    if allocation:
        return f"failed to allocate another {int(allocation[1]) / 2**20:.0f} MiB"
    return text if len(text) < 300 else f"{text[:297]}..."


if __name__ == "__main__":
    main(Path(sys.argv[1]))
