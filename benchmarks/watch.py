"""Measure the cost of ``warpdrive train --watch``: runs without it, with it, and with an open page, alternately.

python benchmarks/watch.py
python benchmarks/watch.py --only tag_gridworld --seconds 120
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from harness.measure import machine
from warpdrive.importing import module_command

CONFIGURATIONS = ("cartpole", "tag_gridworld")
VARIANTS = ("without", "--watch", "--watch, page open")
SMALL = ["trainer.evaluation.num_episodes=1", "saving.tensorboard=false", "--no-replay", "--no-report", "--quiet"]
BETWEEN_LOOKS = 2.0  # seconds, as of the page


@dataclass(frozen=True)
class Figures:
    """Figures of one run.

    Attributes:
        steps: environment steps.
        seconds: wall time of training, without start and evaluation.
        cpu: processor time of all of its processes, in seconds.
        episodes: number of episodes that the page has shown.
    """

    steps: int
    seconds: float
    cpu: float
    episodes: int


class Page(threading.Thread):
    """Requests of a browser that shows the page.

    Args:
        address: address of the page.
    """

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self.address, self.episodes = address, 0
        self.closed = threading.Event()
        self.start()

    def run(self) -> None:
        """Look until the server has ended."""
        generation, rows, shown = 0, 0, 0
        while not self.closed.wait(BETWEEN_LOOKS):
            try:
                state = json.loads(self._get(f"state?generation={generation}&rows={rows}"))
                curves, episode = state.get("curves"), state.get("episode")
                if curves:
                    generation, rows = curves["generation"], curves["first"] + len(curves["rows"])
                if episode and episode["number"] != shown:
                    shown = episode["number"]
                    self._get(f"episode/{shown}")
                    self.episodes += 1
            except OSError:
                return

    def _get(self, place: str) -> bytes:
        with urllib.request.urlopen(self.address + place, timeout=60) as response:
            content: bytes = response.read()
            return content


def train(name: str, steps: int, variant: str) -> Figures:
    """Train with a shipped configuration in a new process."""
    with tempfile.TemporaryDirectory() as folder:
        sizes = [f"trainer.total_steps={steps}", f"saving.folder={folder}"]
        command = [*module_command("warpdrive"), "train", name, *sizes, *SMALL]
        command += ["--watch"] if variant != VARIANTS[0] else []
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        page = None
        for line in process.stdout:
            if "http://" in line and variant == VARIANTS[2]:
                page = Page(line.split()[-1])
        _, status, usage = os.wait4(process.pid, 0)  # including waited-for child processes
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}")
        if page is not None:
            page.closed.set()
            page.join()
        summary = json.loads(next(Path(folder).glob("*/*/summary.json")).read_text())
    cpu = usage.ru_utime + usage.ru_stime
    return Figures(summary["env_steps"], summary["seconds"], cpu, page.episodes if page else 0)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="runs of each variant (default: 5)")
    parser.add_argument("--seconds", type=float, default=60, help="duration of a run, about (default: 60)")
    parser.add_argument("--only", choices=CONFIGURATIONS, action="append", help="this configuration only (repeatable)")
    options = parser.parse_args()
    print(machine())
    print(f"medians of {options.rounds} alternating runs\n")
    print("| configuration | variant | training, s | cost | processor time, s | episodes shown |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name in options.only or CONFIGURATIONS:
        train(name, 100_000, VARIANTS[2])  # compiles
        pilot = train(name, 500_000, VARIANTS[0])
        steps = round(options.seconds * pilot.steps / pilot.seconds)
        found: dict[str, list[Figures]] = {variant: [] for variant in VARIANTS}
        for _ in range(options.rounds):
            for variant in VARIANTS:
                found[variant].append(train(name, steps, variant))
                time.sleep(1.0)
        alone = statistics.median(figures.seconds for figures in found[VARIANTS[0]])
        for variant, runs in found.items():
            seconds, cpu, episodes = (
                statistics.median(getattr(figures, key) for figures in runs) for key in ("seconds", "cpu", "episodes")
            )
            cost = f"{100 * (seconds / alone - 1):+.1f} %"
            print(f"| {name} | {variant} | {seconds:.1f} | {cost} | {cpu:.1f} | {episodes:g} |", flush=True)


if __name__ == "__main__":
    main()
