"""Measure frames per second of the environment ``atari`` on the CPU backend, compared with ale-py.

    python benchmarks/atari.py            # writes benchmarks/results/atari.md
    taskset -c 0 python benchmarks/atari.py    # one core only, the same one for all, on a busy machine
    python benchmarks/atari.py --quick    # one short run of each, print only

On one core, figures are frames per second of processor time, so that other programs matter less. ale-py is driven in
its fastest form, ``ALEInterface.act`` in a loop; the screen that it draws is not read. On all cores, figures are frames
per second, and ale-py is its vector environment.
"""

from __future__ import annotations

import argparse
import datetime
import os
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

import warpdrive as wd
from harness.environments import peers
from harness.environments.peers import Measure
from harness.measure import alternating, machine, rate
from warpdrive.backends.host import workers

PAGE = Path(__file__).parent / "results" / "atari.md"
GAMES = ("pong", "breakout")
REPLICAS, ON_ALL_CORES = 8, 64
"""Number of consoles on one core, and on all."""
FRAME_SKIP = 4
SECONDS = 0.05
"""Duration of a measurement: short, so that those that are compared find the machine equally busy."""
ALE = "ale-py, `act` in a loop"
VECTOR = "ale-py, vector environment"
DRAWN = "every frame drawn, none observed"
ROWS: Mapping[str, Mapping[str, Any]] = {
    DRAWN: {"frame_skip": 2, "frame_stack": 1},
    "every frame drawn, and observed": {"frame_skip": 1, "frame_stack": 1, "max_pool": False},
    "default: 2 of 4 frames drawn, grey levels, 84 x 84": {},
    "memory (`obs_type: ram`), nothing drawn": {"obs_type": "ram"},
}
"""Options of ours, by name."""


def ale(game: str, seconds: float) -> Measure:
    """Return a benchmark of one console of ale-py; an action lasts for four frames."""
    import ale_py

    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    emulator = ale_py.ALEInterface()
    emulator.setFloat("repeat_action_probability", 0.0)
    emulator.setInt("frame_skip", 1)
    emulator.setInt("random_seed", 0)
    emulator.loadROM(ale_py.roms.get_rom_path(game))
    emulator.reset_game()
    minimal = emulator.getMinimalActionSet()
    actions = [minimal[choice] for choice in np.random.default_rng(0).integers(len(minimal), size=100)]

    def work() -> None:
        for action in actions:
            for _ in range(FRAME_SKIP):
                emulator.act(action)
            if emulator.game_over():
                emulator.reset_game()

    return lambda: rate(work, FRAME_SKIP * len(actions), seconds, time.process_time)


def ours(game: str, options: Mapping[str, Any], cores: int, replicas: int, seconds: float) -> Measure:
    """Return a benchmark of steps with random actions."""
    workers.set_num_threads(cores)
    definition = wd.make(f"atari/{game}", repeat_action_probability=0.0, **options)
    if options == ROWS[DRAWN]:
        definition.observe = None
    env = wd.EnvWrapper(definition, num_envs=replicas, reset_pool_size=replicas, env_backend="cpu")
    env.step()  # compiles, for so many cores
    frames = replicas * options.get("frame_skip", FRAME_SKIP)
    clock = time.process_time if cores == 1 else time.perf_counter
    return lambda: rate(env.step, frames, seconds, clock)


def ale_vector(game: str, replicas: int, seconds: float) -> Measure:
    """Return a benchmark of ale-py's vector environment."""
    measure = peers.ale_py(game)(replicas, seconds)
    return lambda: FRAME_SKIP * measure()


def table(game: str, cores: int, rounds: int) -> list[str]:
    """Return the rows of a game: frames per second, and the ratios to ale-py."""
    lines = compared(game, 1, {ALE: ale(game, SECONDS)}, REPLICAS, rounds)
    if cores > 1:
        lines += compared(game, cores, {VECTOR: ale_vector(game, ON_ALL_CORES, SECONDS)}, ON_ALL_CORES, rounds)
    return lines


def compared(game: str, cores: int, of_ale: Mapping[str, Measure], replicas: int, rounds: int) -> list[str]:
    """Return the rows of a game and a number of cores; ``of_ale`` has one candidate."""
    candidates = {**of_ale, **{name: ours(game, options, cores, replicas, SECONDS) for name, options in ROWS.items()}}
    figures = alternating(candidates, rounds)
    (other,) = of_ale
    lines = [f"| `{game}`, {cores} core{'s' * (cores > 1)} | {other} | {median(figures[other]):,.0f} | |"]
    for name in ROWS:
        lines.append(f"| | **{name}** | {median(figures[name]):,.0f} | {ratio(figures[name], figures[other]):.2f} |")
    return lines


def ratio(figures: Sequence[float], others: Sequence[float]) -> float:
    """Return the median ratio of figures of the same round."""
    return median(a / b for a, b in zip(figures, others, strict=True))


def main() -> None:
    """Print the table and write it to a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one short run of each; nothing is written")
    parser.add_argument("--rounds", type=int, default=30, help="measurements of each candidate (default: 30)")
    parser.add_argument("--note", default="", help="remark for the head of the page")
    options = parser.parse_args()
    rounds = 1 if options.quick else options.rounds
    torch.set_num_threads(1)  # PyTorch's idle threads would keep the cores of other measurements busy
    cores = len(os.sched_getaffinity(0))
    lines = ["| game | | frames per second | ours / ale-py |", "| --- | --- | ---: | ---: |"]
    for game in GAMES:
        lines += table(game, cores, rounds)
        print("\n".join(lines), "\n", flush=True)
    if not options.quick:
        head = f"{datetime.date.today()}, `python benchmarks/atari.py --rounds {rounds}`. {options.note}".strip()
        words = f"{machine()}, ale-py {version('ale-py')}"
        PAGE.write_text(f"{head}\n\n{words}\n\n" + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
