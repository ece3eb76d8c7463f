"""What it costs to train in several processes: throughput, efficiency and bytes, of rollouts and of updates.

    python benchmarks/scaling.py                    # 1 and 2 processes on the CPU, about two minutes
    python benchmarks/scaling.py --processes 1 2 4 8 --backend numba     # a process for each GPU

Weak scaling: each process has as many replicas as the process alone. Every figure is a median over updates, and what is
fitted to them is the model of docs/scaling.md, whose constants are printed last.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from measure import machine

WORKLOADS: dict[str, tuple[str, dict[str, Any]]] = {
    "cartpole, PPO": ("cartpole", {"trainer.num_envs": 64, "trainer.train_batch_size": 64 * 32}),
    "tag_gridworld, A2C": ("tag_gridworld_published", {"trainer.num_envs": 50, "trainer.train_batch_size": 50 * 40}),
}


def worker(settings: dict[str, Any]) -> None:
    """Train in this process, one of a team; process 0 writes what it measured."""
    import torch

    from warpdrive.training.config import load_config
    from warpdrive.training.distributed.meeting import join
    from warpdrive.training.distributed.processes import Processes
    from warpdrive.training.trainer import Trainer, make_env

    torch.set_num_threads(1)
    team = join(120)
    sizes = {key: value * team.size for key, value in settings["sizes"].items()}
    overrides = [f"{key}={value}" for key, value in {**sizes, **settings["fixed"]}.items()]
    config = load_config(settings["name"], [*overrides, "trainer.total_steps=1000000000"])
    trainer = Trainer(make_env(config), config)
    spans: dict[str, list[float]] = {"rollout": [], "update": []}
    traffic: dict[str, int] = {}
    for number in range(settings["updates"] + 2):  # two to warm up
        for part, work in (("rollout", trainer.collect), ("update", trainer.update)):
            before = dict(team.traffic) if isinstance(team, Processes) else {}
            team.gather_objects(None)  # all begin at the same time
            began = time.perf_counter()
            work()
            if trainer.env.device.type == "cuda":
                torch.cuda.synchronize(trainer.env.device)
            if number >= 2:
                spans[part].append(time.perf_counter() - began)
            if isinstance(team, Processes) and part == "update":
                traffic = {what: count - before.get(what, 0) for what, count in team.traffic.items()}
    if team.leads:
        parameters = sum(p.numel() for model in trainer.models.values() for p in model.parameters())
        found = {
            "steps": config.trainer.train_batch_size,
            "agents": trainer.env.num_agents,
            "parameters": parameters,
            "traffic": {what: count for what, count in traffic.items() if count},
            **{part: statistics.median(seconds) for part, seconds in spans.items()},
        }
        Path(settings["output"]).write_text(json.dumps(found))


def measured(name: str, sizes: dict[str, Any], fixed: dict[str, Any], processes: int, updates: int) -> dict[str, Any]:
    """Return what process 0 of so many measured."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "found.json"
        settings = {"name": name, "sizes": sizes, "fixed": fixed, "updates": updates, "output": str(output)}
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
        command = [sys.executable, *(launcher if processes > 1 else []), __file__, "--worker", json.dumps(settings)]
        subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.DEVNULL)
        found: dict[str, Any] = json.loads(output.read_text())
        return found


def message_seconds() -> None:
    """In each of two processes: how long sums of small and large tensors take; process 0 prints a fit."""
    import torch

    from warpdrive.training.distributed.meeting import join

    torch.set_num_threads(1)
    team = join(120)
    seconds = {}
    for numbers in (1, 1_000_000):
        values = torch.zeros(numbers)
        team.sum(values)
        began = time.perf_counter()
        for _ in range(repeats := 200 if numbers == 1 else 20):
            team.sum(values)
        seconds[numbers] = (time.perf_counter() - began) / repeats
    if team.leads:
        per_byte = (seconds[1_000_000] - seconds[1]) / (4 * 999_999)
        print(f"a message: {seconds[1] * 1e6:.0f} us, and {per_byte * 1e9:.2f} ns a byte", flush=True)


def main() -> None:
    """Print a table, and what a message costs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2], help="how many (1 2)")
    parser.add_argument("--backend", default="cpu", help="trainer.env_backend (cpu)")
    parser.add_argument("--updates", type=int, default=20, help="measured updates (20)")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker == "message":
        message_seconds()
        return
    if options.worker:
        worker(json.loads(options.worker))
        return
    print(machine(), "\n")
    print("| workload | sync | processes | steps/s, rollout | efficiency | steps/s, update | efficiency | bytes |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for title, (name, sizes) in WORKLOADS.items():
        for sync in ("gradients", "rollouts"):
            alone: dict[str, float] = {}
            for processes in options.processes:
                fixed = {"trainer.env_backend": options.backend, "trainer.sync": sync}
                found = measured(name, sizes, fixed, processes, options.updates)
                cells = []
                for part in ("rollout", "update"):
                    speed = found["steps"] / found[part]
                    alone.setdefault(part, speed / processes)
                    cells.append(f"{speed:,.0f} | {speed / processes / alone[part]:.0%}")
                traffic = ", ".join(f"{what} {count:,}" for what, count in found["traffic"].items()) or "none"
                print(f"| {title} | {sync} | {processes} | {cells[0]} | {cells[1]} | {traffic} |", flush=True)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    print(flush=True)
    subprocess.run([*launcher, __file__, "--worker", "message"], check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})


if __name__ == "__main__":
    main()
