"""Script that each process of ``scaling.py`` runs: rollouts and updates of several sizes, and the cost of a message."""

from __future__ import annotations

import json
import statistics
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # benchmarks/, for a script that is started by its path

from harness.scaling.model import Point
from warpdrive.training.config.load import load_config
from warpdrive.training.distributed.bootstrap import join
from warpdrive.training.distributed.torch_process_group import TorchProcessGroup
from warpdrive.training.trainer import Trainer, make_env

_WARM_UP = 2


def measured(workload: dict[str, Any], sync: str, backend: str, updates: int) -> Point:
    """Train and return the measurement.

    Args:
        workload: An entry of ``WORKLOADS`` in ``scaling.py``, with sizes per process.
        sync: ``trainer.sync``.
        backend: ``trainer.env_backend``.
        updates: The number of measured updates.
    """
    process_group = join()
    replicas, steps = workload["replicas"] * process_group.world_size, workload["steps"]
    sizes = [f"trainer.num_envs={replicas}", f"trainer.train_batch_size={replicas * steps}"]
    fixed = [f"trainer.env_backend={backend}", f"trainer.sync={sync}", "trainer.total_steps=1000000000"]
    config = load_config(workload["config"], [*workload["overrides"], *sizes, *fixed])
    trainer = Trainer(make_env(config), config)
    spans: dict[str, list[float]] = {"collect": [], "update": []}
    messages, sent = 0, 0
    for number in range(_WARM_UP + updates):
        for part, seconds in spans.items():
            process_group.all_gather_values(None)  # all begin at the same time
            before = _traffic(process_group)
            began = time.perf_counter()
            getattr(trainer, part)()
            if trainer.env.device.type == "cuda":
                torch.cuda.synchronize(trainer.env.device)
            if number >= _WARM_UP:
                seconds.append(time.perf_counter() - began)
        messages, sent = (now - then for now, then in zip(_traffic(process_group), before, strict=True))
    both = [rollout + update for rollout, update in zip(*spans.values(), strict=True)]
    return Point(
        workload=workload["name"],
        processes=process_group.world_size,
        sync=sync,
        replicas=workload["replicas"],
        agents=trainer.env.num_agents,
        steps=steps,
        gradient_steps=sum(policy.epochs * policy.minibatches for policy in config.policy.values()),  # type: ignore[union-attr]
        messages=messages,
        bytes=sent,
        rollout=statistics.median(spans["collect"]),
        update=statistics.median(spans["update"]),
        jitter=_spread(both) / statistics.median(both),
    )


def seconds_per_byte(numbers: int = 4_000_000, repeats: int = 20) -> float:
    """Return the seconds per byte of all-reduces on the CPU: large ones, minus the duration of an empty one."""
    process_group = join()

    def seconds(tensor: torch.Tensor, repeats: int) -> float:
        process_group.all_reduce(tensor)
        began = time.perf_counter()
        for _ in range(repeats):
            process_group.all_reduce(tensor)
        return (time.perf_counter() - began) / repeats

    return (seconds(torch.zeros(numbers), repeats) - seconds(torch.zeros(1), 10 * repeats)) / (4 * numbers)


def _traffic(process_group: Any) -> tuple[int, int]:
    """Return the number of messages so far, and the bytes that this process has contributed."""
    return (
        (process_group.messages, sum(process_group.traffic.values()))
        if isinstance(process_group, TorchProcessGroup)
        else (0, 0)
    )


def _spread(seconds: list[float]) -> float:
    """Return a robust estimate of the standard deviation, from the interquartile range assuming normality."""
    low, _, high = statistics.quantiles(seconds, n=4)
    return (high - low) / 1.349


def main() -> None:
    """Run all measurements; the last rank, the only one that sends some of the messages, writes the results."""
    settings = json.loads(sys.argv[1])
    process_group = join(300)
    syncs = ["gradients", "rollouts"] if process_group.world_size > 1 else ["gradients"]
    points = [
        asdict(measured(workload, sync, settings["backend"], settings["updates"]))
        for workload in settings["workloads"]
        for sync in syncs
    ]
    byte = seconds_per_byte()
    if process_group.rank == process_group.world_size - 1:
        Path(settings["output"]).write_text(json.dumps({"points": points, "byte": byte}))


if __name__ == "__main__":
    main()
