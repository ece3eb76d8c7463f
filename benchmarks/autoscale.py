"""Compare ``warpdrive autoscale`` with brute force under a limit of the address space.

    python benchmarks/autoscale.py                      # five run configurations, about 13 minutes on two cores
    python benchmarks/autoscale.py --only cartpole --memory 800MiB --address_space 3GiB

Everything runs under a limit of the address space (``ulimit -v``), of which a training process takes about 1.5 GiB
before it has any replicas. After a search, every power of two of replicas and of rollout lengths is tried, each in a
separate process; the fastest and the winner of the search are then measured alternately. The table of all five
configurations is written to benchmarks/results/<date>_autoscale.md.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from harness.measure import machine

CONFIGURATIONS: dict[str, tuple[str, ...]] = {
    "tag_gridworld": ("trainer.total_steps=1000000",),
    "cartpole": ("trainer.total_steps=1000000",),
    "tag_continuous_small": (),
    "pendulum_sac": (),
    "tag_gridworld_published": ("trainer.num_envs=200", "trainer.train_batch_size=8000"),
}
"""Overrides by run configuration; the last one, A2C, starts from a size for the CPU."""
RESULTS = Path(__file__).parent / "results"
FINALISTS = 1
"""The number of brute-force candidates measured alternately with the winner."""


@dataclass(frozen=True)
class Comparison:
    """Result for one run configuration.

    Attributes:
        name: The name of the configuration.
        winner: The result of the search, ``{"num_envs": ..., "rollout_length": ...}``, and its steps per second.
        best: The result of brute force, in the same format.
        probes: The number of processes of the search.
        seconds: The duration of the search.
        tried: The number of sizes tried by brute force.
        fitting: The number of those that fit into memory.
    """

    name: str
    winner: tuple[dict[str, int], float]
    best: tuple[dict[str, int], float]
    probes: int
    seconds: float
    tried: int
    fitting: int

    @property
    def ratio(self) -> float:
        """Speed of the winner relative to the best."""
        return self.winner[1] / self.best[1]


def compare(name: str, options: argparse.Namespace, until: float) -> Comparison:
    """Run the search and brute force, then measure the winners alternately, within the limits of this process.

    Args:
        name: The run configuration.
        options: The command line options.
        until: The deadline.

    Returns:
        The result.
    """
    from warpdrive.training.autoscale.memory import parse_bytes
    from warpdrive.training.autoscale.prober import Prober
    from warpdrive.training.autoscale.size import Size
    from warpdrive.training.config.load import load_config

    fixed = list(CONFIGURATIONS[name])
    began = time.monotonic()
    found = search(name, fixed, options)
    seconds = time.monotonic() - began
    winner = Size(**found["winner"])
    config = load_config(name, fixed)
    memory = parse_bytes(options.memory) if options.memory else None
    speeds: dict[Size, float] = {}
    with closing(Prober(config, options.brute_seconds, 120.0, memory)) as prober:
        for size in grid(config.trainer.total_steps, options):
            if time.monotonic() > until:
                print("time limit reached: the remaining sizes are not tried", flush=True)
                break
            outcome = prober(size)
            speeds[size] = outcome.speed
            print(f"  {size}: {outcome.speed:,.0f} {outcome.failure or ''}", flush=True)
    fastest = sorted(speeds, key=lambda size: -speeds[size])[:FINALISTS]
    rounds: dict[Size, list[float]] = {size: [] for size in (winner, *fastest)}
    with closing(Prober(config, options.seconds, 120.0, memory)) as prober:
        for number in range(options.rounds):
            for size in list(rounds)[:: 1 if number % 2 == 0 else -1]:
                rounds[size].append(prober(size).speed)
    for size, found_speeds in rounds.items():
        print(f"  in turns: {size}: {', '.join(f'{speed:,.0f}' for speed in found_speeds)}", flush=True)
    final = {size: statistics.median(found) for size, found in rounds.items()}
    best = max(final, key=lambda size: final[size])
    return Comparison(
        name,
        (winner._asdict(), final[winner]),
        (best._asdict(), final[best]),
        found["probes"],
        seconds,
        len(speeds),
        sum(speed > 0 for speed in speeds.values()),
    )


def search(name: str, fixed: Sequence[str], options: argparse.Namespace) -> dict[str, Any]:
    """Run ``warpdrive autoscale`` as a user would and return its output."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "found.yaml")
        command = [sys.executable, "-m", "warpdrive", "autoscale", name, *fixed, "-o", str(output)]
        command += ["--seconds", str(options.seconds), *(["--memory", options.memory] if options.memory else [])]
        probes = 0
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            for line in process.stdout:
                print(f"  {line}", end="", flush=True)
                probes += " replicas x " in line and ": not tried" not in line
        if process.returncode:
            raise SystemExit(process.returncode)
        return json.loads(output.with_suffix(".json").read_text()) | {"probes": probes}


def grid(most: int, options: argparse.Namespace) -> list[Any]:
    """Return all powers of two of replicas and rollout steps, small batches first: they predict larger ones."""
    from warpdrive.training.autoscale.size import Size

    sizes = [Size(2**envs, 2**steps) for envs in range(20) for steps in range(3, 8)]
    least, most = options.least_batch, min(most, options.most_batch)
    return sorted((size for size in sizes if least <= size.batch <= most), key=lambda size: (size.batch, size))


def table(comparisons: Sequence[Comparison]) -> str:
    """Return the results as a Markdown table."""
    lines = [
        "| | winner of the search | steps/s | best of brute force and search | steps/s | winner / best | search, s "
        "| probes | brute force: sizes, fitting |",
        "| --- | --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for found in comparisons:
        (winner, speed), (best, fastest) = found.winner, found.best
        lines.append(
            f"| {found.name} | {winner['num_envs']} x {winner['rollout_length']} | {speed:,.0f} "
            f"| {best['num_envs']} x {best['rollout_length']} | {fastest:,.0f} | {found.ratio:.2f} "
            f"| {found.seconds:.0f} | {found.probes} | {found.tried}, {found.fitting} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Compare each configuration, and print the table after each."""
    from warpdrive.training.autoscale.memory import parse_bytes

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only",
        nargs="+",
        choices=CONFIGURATIONS,
        default=list(CONFIGURATIONS),
        metavar="CONFIG",
        help=f"run configurations (default: {', '.join(CONFIGURATIONS)}); with fewer than all nothing is written",
    )
    parser.add_argument(
        "--address_space", default="2100MiB", help="limit of the address space of each process (default: 2100MiB)"
    )
    parser.add_argument("--memory", help="value of autoscale --memory (default: none)")
    parser.add_argument(
        "--seconds", type=int, default=1, help="seconds per probe of the search, and per final measurement (default: 1)"
    )
    parser.add_argument(
        "--brute_seconds", type=float, default=0.5, help="seconds per size tried by brute force (default: 0.5)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="final measurements of each candidate (default: 3)")
    parser.add_argument(
        "--least_batch", type=int, default=2**12, help="smallest batch tried by brute force (default: 4096)"
    )
    parser.add_argument(
        "--most_batch", type=int, default=2**17, help="largest batch tried by brute force (default: 131072)"
    )
    parser.add_argument(
        "--minutes", type=float, default=13.0, help="time limit of all searches and brute force (default: 13)"
    )
    options = parser.parse_args()
    limit = parse_bytes(options.address_space)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    found: list[Comparison] = []
    began = time.monotonic()
    for number, name in enumerate(options.only):
        print(f"\n{name}", flush=True)
        until = began + 60 * options.minutes * (number + 1) / len(options.only)
        found.append(compare(name, options, until))
    command = " ".join(["python", "benchmarks/autoscale.py", *sys.argv[1:]])
    minutes = (time.monotonic() - began) / 60
    text = (
        f"{date.today()}, `{command}`: {minutes:.1f} minutes\n\n{machine()}; {options.address_space} of address space\n"
    )
    text += f"\n{table(found)}\n"
    print(f"\n{text}")
    if options.only == list(CONFIGURATIONS):
        (RESULTS / f"{date.today()}_autoscale.md").write_text(text)


if __name__ == "__main__":
    main()
