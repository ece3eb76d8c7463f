"""Versions and hardware of a run, in ``machine.json``."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import TYPE_CHECKING

from warpdrive.backends.system_info import this_machine
from warpdrive.training.checkpoint.run_folder import RunFolder
from warpdrive.training.runtime.atomic_write import write_json

if TYPE_CHECKING:
    from warpdrive.training.learner import Learner


def write_machine(learner: Learner, run: RunFolder) -> None:
    """Write versions, hardware and devices to the folder of a run."""
    machine = this_machine()
    found = {
        "python": machine.python,
        **machine.packages,
        "CUDA of PyTorch": machine.pytorch.cuda,
        "NVIDIA driver": machine.driver.release,
        "system": machine.system,
        "CPU": _cpu(),
        "CPU cores": machine.cores,
        "GPUs": ", ".join(gpu.name for gpu in machine.driver.gpus) or None,
        "backend": learner.env.backend.name,
        "device of rollouts": str(learner.env.device),
        "device of updates": str(learner.backend.device),
        "processes": learner.process_group.world_size,
    }
    write_json(run.machine, found, indent=2)


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()
