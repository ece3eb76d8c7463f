"""PPO on cartpole beside other libraries: environment steps per second in training, and seconds to a return of 475.

Each contestant trains in a process of its own, in turns with the others, and the median of the rounds counts. All have
the same networks, coefficients and number of epochs; the number of replicas, the sizes of rollouts and minibatches and
the learning rate are what served each best of what was tried (``SETTINGS``). The first round fills the caches of
compiled code and is left out, but for the time it takes to start.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from measure import machine

FOLDER = Path(__file__).parent
PAGE = FOLDER / "results" / "training.md"
WORKER = FOLDER / "training_worker.py"

TITLES = {
    "warpdrive": "**WarpDrive**",
    "sb3": "Stable-Baselines3",
    "single": "single file, as CleanRL",
    "arrays": "the same, Gymnasium's cartpole for arrays",
    "jax": "one JAX program, as PureJaxRL",
}
SETTINGS = {
    "for the most steps per second": {
        "warpdrive": "num_envs=1024 num_steps=32 minibatch_size=8192 lr=6e-3 threads=2",
        "sb3": "num_envs=64 num_steps=128 minibatch_size=8192 lr=2.5e-3 threads=2",
        "single": "num_envs=64 num_steps=128 minibatch_size=8192 lr=2.5e-3 threads=2",
        "arrays": "num_envs=1024 num_steps=32 minibatch_size=8192 lr=6e-3 threads=2",
        "jax": "num_envs=256 num_steps=32 minibatch_size=1024 lr=2.5e-3",
    },
    "for the fewest seconds to 475": {
        "warpdrive": "num_envs=256 num_steps=16 minibatch_size=1024 lr=4e-3 threads=2",
        "sb3": "num_envs=64 num_steps=32 minibatch_size=512 lr=2.5e-3 threads=1",
        "single": "num_envs=64 num_steps=32 minibatch_size=512 lr=2.5e-3 threads=1",
        "arrays": "num_envs=256 num_steps=16 minibatch_size=1024 lr=4e-3 threads=2",
        "jax": "num_envs=64 num_steps=32 minibatch_size=256 lr=2.5e-3",
    },
}


@dataclass
class Figures:
    """What was measured of a contestant in all rounds.

    Attributes:
        first_start: seconds from the start of the process to the end of the first update, before anything was cached.
        start: likewise, afterwards.
        speed: environment steps per second.
        seconds: of training until the mean return was reached; None where it was not.
        steps: environment steps until then.
        why_not: why nothing was measured.
    """

    first_start: float | None = None
    start: list[float] = field(default_factory=list)
    speed: list[float] = field(default_factory=list)
    seconds: list[float | None] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    why_not: str = ""


def measured(name: str, settings: str, seed: int, seconds: float, limit: float) -> dict[str, float | None] | str:
    """Run a contestant, and return its figures, or why there are none."""
    command = [sys.executable, str(WORKER), name, *settings.split(), "--seed", str(seed), "--seconds", str(seconds)]
    command += ["--limit", str(limit), "--began", str(time.time())]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=FOLDER)
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["no reason given"])[-1]
    figures: dict[str, float | None] = json.loads(done.stdout.strip().splitlines()[-1])
    return figures


def compared(settings: dict[str, str], rounds: int, seconds: float, limit: float) -> dict[str, Figures]:
    """Measure all contestants in turns; each round has a seed of its own."""
    results = {name: Figures() for name in settings}
    for number in range(rounds + 1):
        for name, values in settings.items():
            result = results[name]
            if result.why_not:
                continue
            found = measured(name, values, number, seconds if number else 0.1, limit if number else 0.0)
            if isinstance(found, str):
                result.why_not = found
            elif number == 0:
                result.first_start = found["start_up"]
            else:
                assert found["start_up"] is not None and found["steps_per_second"] is not None
                result.start.append(found["start_up"])
                result.speed.append(found["steps_per_second"])
                result.seconds.append(found["seconds"])
                result.steps.append(int(found["steps"] or 0))
            print(f"  round {number}: {name} {_brief(found)}", file=sys.stderr, flush=True)
    return results


def table(settings: dict[str, str], results: dict[str, Figures]) -> str:
    """Return what was measured in Markdown."""
    lines = [
        "| | replicas x steps, minibatch, learning rate | steps per second | seconds to 475 | steps to 475 "
        "| start (first time) | with start |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, result in results.items():
        values = dict(item.split("=") for item in settings[name].split())
        used = f"{values['num_envs']} x {values['num_steps']}, {values['minibatch_size']}, {values['lr']}"
        lines.append(f"| {TITLES[name]} | {used} | {_cells(result)} |")
    return "\n".join(lines)


def _cells(result: Figures) -> str:
    if result.why_not:
        return f"{result.why_not} | | | |"
    speed, start = statistics.median(result.speed), statistics.median(result.start)
    reached = [seconds for seconds in result.seconds if seconds is not None]
    cells = [f"{speed:,.0f}"]
    if len(reached) < len(result.seconds):
        missed = f"not reached {len(result.seconds) - len(reached)} of {len(result.seconds)} times"
        cells += [missed, ""]
        whole = ""
    else:
        cells += [f"{statistics.median(reached):.2f}", f"{statistics.median(result.steps):,.0f}"]
        whole = f"{statistics.median(reached) + start:.1f}"
    return " | ".join([*cells, f"{start:.1f} ({result.first_start:.1f})", whole])


def _brief(found: dict[str, float | None] | str) -> str:
    if isinstance(found, str):
        return found
    return ", ".join(f"{name} {value}" for name, value in found.items() if name != "curve")


def versions() -> str:
    """Return the versions of the libraries that ours is measured beside."""
    installed = []
    for name in ("stable-baselines3", "gymnasium", "jax"):
        try:
            installed.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return ", ".join(installed)


def main() -> None:
    """Print the tables, and write them down."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one short round of ours and JAX, not written down")
    parser.add_argument("--rounds", type=int, default=3, help="each with a seed of its own (default 3)")
    parser.add_argument("--only", nargs="+", choices=TITLES, help="contestants; then nothing is written down")
    parser.add_argument("--note", default="", help="what else is to be known of this run")
    options = parser.parse_args()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    rounds, seconds, limit = (1, 0.5, 5.0) if options.quick else (options.rounds, 2.0, 15.0)
    chosen = options.only or (["warpdrive", "jax"] if options.quick else list(TITLES))
    parts = []
    for purpose, settings in SETTINGS.items():
        kept = {name: settings[name] for name in chosen}
        parts.append(f"Settings {purpose}:\n\n{table(kept, compared(kept, rounds, seconds, limit))}")
        print(f"\n{parts[-1]}\n", flush=True)
    if not options.quick and not options.only:
        command = f"`python benchmarks/training.py --rounds {rounds}`"
        head = f"{datetime.date.today()}, {command}. {options.note}".strip()
        PAGE.write_text("\n\n".join([head, f"{machine()}, {versions()}", *parts]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
