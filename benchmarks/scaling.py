"""Measure training in several processes: throughput, efficiency, messages and bytes of rollouts and of updates.

    python benchmarks/scaling.py                    # 1 and 2 processes on the CPU, a core for each, about 10 minutes
    python benchmarks/scaling.py --processes 1 2 4 8 --backend numba     # a process for each GPU

Weak scaling: each process has as many replicas as a single process alone. Runs of one and of several processes
alternate; figures are medians over updates, and then over the rounds. The model of docs/guides/scaling.md is fitted to
them, and tables show its errors. On the CPU, several processes are also compared with one process that has all their
replicas, and a thread in place of each. Writes benchmarks/results/scaling_<backend>.md.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from harness.measure import machine
from harness.scaling.model import Costs, Network, Point, efficiency, fitted_costs, fitted_message, nccl_seconds
from warpdrive.training.distributed.launch import launch

RESULTS = Path(__file__).parent / "results"
WORKER = Path(__file__).parent / "harness" / "scaling" / "worker.py"

_CARTPOLE: dict[str, Any] = {"name": "cartpole", "config": "cartpole", "overrides": [], "steps": 32}
_TAG: dict[str, Any] = {"name": "tag_gridworld", "config": "tag_gridworld", "steps": 32}
WORKLOADS = [
    *({**_CARTPOLE, "replicas": replicas} for replicas in (16, 64, 256, 1024)),
    *({**_TAG, "replicas": replicas, "overrides": ["env.num_taggers=4"]} for replicas in (16, 64, 256)),
    *({**_TAG, "replicas": 64, "overrides": [f"env.num_taggers={taggers}"]} for taggers in (9, 19)),
]
"""Workloads with several numbers of replicas per process and of agents, to which the costs are fitted."""


def measured(processes: int, options: argparse.Namespace, threads: int = 1) -> tuple[list[Point], float]:
    """Return the measurements of a group of processes, and the seconds per byte sent between them.

    Args:
        processes: The number of processes.
        options: The options of the command.
        threads: The number of threads of each process, which has as many times the replicas.
    """
    os.environ.update(NUMBA_NUM_THREADS=str(threads), OMP_NUM_THREADS="1")  # of PyTorch one, as by default on few cores
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "found.json"
        sizes = [WORKLOADS[0], WORKLOADS[1]] if options.quick else WORKLOADS
        workloads = [{**size, "replicas": threads * size["replicas"]} for size in sizes]
        settings = {"workloads": workloads, "backend": options.backend, "updates": options.updates}
        settings |= {"output": str(output)}
        launch([str(WORKER), json.dumps(settings)], processes)
        found = json.loads(output.read_text())
    return [Point(**point) for point in found["points"]], found["byte"]


def median_points(rounds: Sequence[Sequence[Point]]) -> list[Point]:
    """Return the medians of several rounds, size by size."""
    return [
        replace(
            same[0],
            rollout=statistics.median(point.rollout for point in same),
            update=statistics.median(point.update for point in same),
            jitter=statistics.median(point.jitter for point in same),
        )
        for same in zip(*rounds, strict=True)
    ]


def measurements_table(points: Sequence[Point], costs: dict[str, Costs], network: Network) -> str:
    """Return the table of all measurements with the model's predictions and efficiencies."""
    lines = [
        "| workload | agents | replicas | processes | sync | steps/s, rollout | efficiency "
        "| steps/s, update | efficiency | messages | bytes | rollout, ms (model) | update, ms (model) |",
        "| --- | ---: | ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for point in points:
        alone = next(
            other
            for other in points
            if other.processes == 1
            and (other.workload, other.agents, other.replicas) == (point.workload, point.agents, point.replicas)
        )
        steps = point.processes * point.replicas * point.steps
        model = costs[point.workload].rollout(point), costs[point.workload].update(point) + network.seconds(point)
        cells = [
            *(point.workload, point.agents, point.replicas, point.processes, point.sync if point.processes > 1 else ""),
            *(f"{steps / point.rollout:,.0f}", f"{alone.rollout / point.rollout:.0%}"),
            *(f"{steps / point.update:,.0f}", f"{alone.update / point.update:.0%}"),
            *(f"{point.messages:,}", f"{point.bytes:,}"),
            *(f"{1e3 * point.rollout:.2f} ({1e3 * model[0]:.2f})", f"{1e3 * point.update:.1f} ({1e3 * model[1]:.1f})"),
        ]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def threads_table(points: Sequence[Point], threaded: Sequence[Point]) -> str:
    """Return the table of several processes compared with one process with as many threads and all their replicas."""
    lines = [
        "| workload | agents | replicas in all | cores | sync | processes, ms | threads, ms | speed of processes |",
        "| --- | ---: | ---: | ---: | --- | ---: | ---: | ---: |",
    ]
    for point in points:
        replicas = point.processes * point.replicas
        wanted = point.workload, point.agents, replicas, point.processes
        for one in threaded:
            if (one.workload, one.agents, one.replicas, one.processes) == wanted:
                times = (1e3 * (each.rollout + each.update) for each in (point, one))
                cells = [*wanted, point.sync, *(f"{each:.1f}" for each in times)]
                ratio = (one.rollout + one.update) / (point.rollout + point.update)
                lines.append("| " + " | ".join(map(str, [*cells, f"{ratio:.0%}"])) + " |")
    return "\n".join(lines)


def constants_table(costs: dict[str, Costs], network: Network, jitter: float) -> str:
    """Return the table of fitted constants, in microseconds."""
    lines = [
        "| | step | agent's step | gradient step | row of an update |",
        "| --- | ---: | ---: | ---: | ---: |",
        *(
            f"| {name}, microseconds | {1e6 * of.step:.0f} | {1e6 * of.agent_step:.3f} | {1e6 * of.gradient_step:.0f} "
            f"| {1e6 * of.row:.2f} |"
            for name, of in costs.items()
        ),
    ]
    message = f"A message takes {1e6 * network.message:.0f} microseconds, and {1e9 * network.byte:.2f} ns a byte"
    return "\n".join([*lines, "", f"{message}; the time of an update varies by {jitter:.1%} (standard deviation)."])


def on_paper(point: Point, jitter: float) -> str:
    """Return predicted efficiencies on GPUs, for updates of the given durations with the messages of ``point``."""
    sizes = [(8, 1), (64, 8), (1024, 128)]
    seconds = [nccl_seconds(point.messages, point.bytes, gpus, machines) for gpus, machines in sizes]
    lines = [
        "| a rollout and an update take a GPU | 8 GPUs, 1 machine | 64 GPUs, 8 machines | 1024 GPUs, 128 machines |",
        "| --- | ---: | ---: | ---: |",
    ]
    for alone in (0.01, 0.05, 0.25):
        cells = [f"{efficiency(alone, gpus, all_, jitter):.0%}" for (gpus, _), all_ in zip(sizes, seconds, strict=True)]
        lines.append(f"| {1e3 * alone:.0f} ms | " + " | ".join(cells) + " |")
    waiting = " | ".join(f"{1e3 * each:.1f} ms" for each in seconds)
    assumed = f"{point.messages} messages and {point.bytes:,} bytes an update ({point.workload}); jitter {jitter:.0%}."
    return "\n".join([assumed, "", *lines, f"| of it messages | {waiting} |"])


def main() -> None:
    """Print the tables and write them to a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--processes", type=int, nargs="+", default=[1, 2], help="sizes of process groups (default: 1 2)"
    )
    parser.add_argument("--backend", default="cpu", help="trainer.env_backend (default: cpu)")
    parser.add_argument("--updates", type=int, default=12, help="updates measured per size and round (default: 12)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds over all group sizes (default: 3)")
    parser.add_argument("--quick", action="store_true", help="two workloads, one round; nothing is written")
    parser.add_argument("--note", default="", help="remark for the head of the page")
    options = parser.parse_args()
    counts = sorted({1, *options.processes})
    found: dict[int, list[list[Point]]] = {count: [] for count in counts}
    threaded: dict[int, list[list[Point]]] = {count: [] for count in counts[1:] if options.backend == "cpu"}
    byte = 0.0
    for number in range(1 if options.quick else options.rounds):
        for count in counts:
            points, byte = measured(count, options)  # a core for each process, also for one alone
            found[count].append(points)
            print(f"round {number + 1}, processes: {count}", file=sys.stderr, flush=True)
            if count in threaded:
                threaded[count].append([replace(point, processes=count) for point in measured(1, options, count)[0]])
    points = [point for count in counts for point in median_points(found[count])]
    with_threads = [point for rounds in threaded.values() for point in median_points(rounds)]
    names = dict.fromkeys(point.workload for point in points)
    costs = {name: fitted_costs([point for point in points if point.workload == name]) for name in names}
    units = len(os.sched_getaffinity(0)) if options.backend == "cpu" else torch.cuda.device_count()
    own = [point for point in points if point.processes <= units]  # the model is that of processes with a core or a GPU
    network = Network(fitted_message(own, byte) if len({point.processes for point in own}) > 1 else 0.0, byte)
    jitter = statistics.median(point.jitter for point in points if point.processes == 1)
    command = f"`python benchmarks/scaling.py --processes {' '.join(map(str, counts))} --backend {options.backend}`"
    parts = [
        f"{datetime.date.today()}, {command}, {options.rounds} rounds. {options.note}".strip(),
        machine(),
        measurements_table(points, costs, network),
        constants_table(costs, network, jitter),
        *([threads_table(points, with_threads)] if with_threads else []),
        "On paper, with nccl:\n\n" + on_paper(max(points, key=lambda point: point.messages), 0.02),
    ]
    print("\n\n".join(parts))
    if not options.quick:
        (RESULTS / f"scaling_{options.backend}.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
