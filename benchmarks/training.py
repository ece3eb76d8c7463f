"""Compare PPO on cartpole with other libraries: environment steps per second, and seconds to a mean return of 475.

    python benchmarks/training.py                        # writes benchmarks/results/training.md
    python benchmarks/training.py --quick                # WarpDrive and JAX, one short round, print only
    python benchmarks/training.py --only warpdrive sb3   # these contestants, print only

Each contestant trains in a separate process, alternately with the others, and the median of the rounds is reported. All
have the same networks, coefficients and number of epochs; the number of replicas, the sizes of rollouts and minibatches
and the learning rate are the best found for each (harness/training/report.py). The first round fills the compile caches
and is discarded, except for its startup time.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from harness.measure import machine
from harness.training.report import SETTINGS, TITLES, Figures, table

FOLDER = Path(__file__).parent
PAGE = FOLDER / "results" / "training.md"
WORKER = FOLDER / "harness" / "training" / "worker.py"


def measured(name: str, settings: str, seed: int, seconds: float, limit: float) -> dict[str, float | None] | str:
    """Run a contestant, and return its figures, or the reason why there are none."""
    command = [sys.executable, str(WORKER), name, *settings.split(), "--seed", str(seed), "--seconds", str(seconds)]
    command += ["--limit", str(limit), "--began", str(time.time())]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=FOLDER)
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["no reason given"])[-1]
    figures: dict[str, float | None] = json.loads(done.stdout.strip().splitlines()[-1])
    return figures


def compared(settings: dict[str, str], rounds: int, seconds: float, limit: float) -> dict[str, Figures]:
    """Measure all contestants alternately; each round has its own seed."""
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


def _brief(found: dict[str, float | None] | str) -> str:
    if isinstance(found, str):
        return found
    return ", ".join(f"{name} {value}" for name, value in found.items() if name != "curve")


def versions() -> str:
    """Return the versions of the libraries in the comparison."""
    installed = []
    for name in ("stable-baselines3", "gymnasium", "jax"):
        try:
            installed.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return ", ".join(installed)


def main() -> None:
    """Print the tables and write them to a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="WarpDrive and JAX, one short round; nothing is written")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, each with another seed (default: 3)")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=TITLES,
        metavar="NAME",
        help=f"contestants, of {', '.join(TITLES)}; nothing is written",
    )
    parser.add_argument("--note", default="", help="remark for the head of the page")
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
