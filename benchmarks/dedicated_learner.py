"""Measure the speedup of ``trainer.dedicated_learner``: updates and rollouts overlap in separate processes, on the CPU.

    python benchmarks/dedicated_learner.py              # two processes, about four minutes on an idle machine
    python benchmarks/dedicated_learner.py --processes 3

Three kinds of runs alternate: one process, several processes that alternate between rollouts and updates
(``sync: rollouts``), and several processes of which one is a dedicated learner. Figures are environment steps per
second over rollouts and updates, medians over the updates and then over the rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

from harness.measure import machine, medians
from warpdrive.training.distributed.launch import launch

_TAG = ("tag_gridworld", "policy.tagger.to_train=false")  # runners learn against fixed taggers
WORKLOADS = {
    "PPO, 1 of 5 agents learns": (*_TAG, "policy.runner.epochs=1"),
    "PPO, 1 of 8 agents learns": (*_TAG, "policy.runner.epochs=1", "env.num_taggers=7"),
    "A2C, 1 of 10 agents learns": (*_TAG, "policy.runner.algorithm=a2c", "env.num_taggers=9"),
}
WAYS = {
    "one process": "trainer.sync=rollouts",
    "in turns": "trainer.sync=rollouts",
    "one learns": "trainer.sync=rollouts trainer.dedicated_learner=true",
}
_WARM_UP = 3


def worker(name: str, overrides: list[str], updates: int, output: str) -> None:
    """Train in this process as one rank of a group; rank 0 writes its throughput."""
    from warpdrive.training.config.load import load_config
    from warpdrive.training.reports import UpdateReport
    from warpdrive.training.trainer import Trainer, make_env

    quiet = ["saving.checkpoint_every=1000000", "saving.tensorboard=false", f"saving.folder={Path(output).parent}"]
    config = load_config(name, ["trainer.env_backend=cpu", *quiet, *overrides])
    total = (_WARM_UP + updates) * config.trainer.train_batch_size
    config = load_config(config.model_dump(mode="json"), [f"trainer.total_steps={total}"])
    found: list[dict[str, float]] = []

    def note(report: UpdateReport) -> None:
        found.append(report.metrics)

    trainer = Trainer(make_env(config), config)
    trainer.train(on_update=note)
    if trainer.process_group.is_leader:
        names = ("perf/env_steps_per_second", "perf/rollout_seconds", "perf/update_seconds")
        measured = {name: statistics.median(row[name] for row in found[_WARM_UP:-1]) for name in names}
        Path(output).write_text(json.dumps(measured))


def measured(workload: tuple[str, ...], way: str, processes: int, updates: int) -> dict[str, float]:
    """Return the medians over the updates of a run, by metric."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "found.json"
        name, *overrides = workload
        arguments = [name, json.dumps([*overrides, *WAYS[way].split()]), str(updates), str(output)]
        launch([__file__, "--worker", *arguments], 1 if way == "one process" else processes)
        found: dict[str, float] = json.loads(output.read_text())
        return found


def main() -> None:
    """Print a table."""
    if sys.argv[1:2] == ["--worker"]:
        name, overrides, updates, output = sys.argv[2:]
        worker(name, json.loads(overrides), int(updates), output)
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=2, help="processes of a group (default: 2)")
    parser.add_argument("--updates", type=int, default=60, help="updates measured in each run (default: 60)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each kind (default: 3)")
    options = parser.parse_args()
    print(machine(), "\n")
    print(f"| workload, {options.processes} processes | one process: update / rollout | {' | '.join(WAYS)} | gained |")
    print(f"| --- | {'---: | ' * (len(WAYS) + 2)}")
    os.environ["OMP_NUM_THREADS"] = "1"
    for title, workload in WORKLOADS.items():
        parts: list[float] = []

        def speed(way: str, workload: tuple[str, ...] = workload, parts: list[float] = parts) -> float:
            found = measured(workload, way, options.processes, options.updates)
            if way == "one process":
                parts.append(found["perf/update_seconds"] / found["perf/rollout_seconds"])
            return found["perf/env_steps_per_second"]

        speeds = medians({way: lambda way=way: speed(way) for way in WAYS}, options.rounds)  # type: ignore[misc]
        figures = " | ".join(f"{speeds[way]:,.0f}" for way in WAYS)
        gained = speeds["one learns"] / speeds["in turns"] - 1
        print(f"| {title} | {statistics.median(parts):.2f} | {figures} | {gained:+.0%} |", flush=True)


if __name__ == "__main__":
    main()
