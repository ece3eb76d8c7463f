"""Train a task of the cooperative benchmark with EPyMARL itself, in a separate Python environment.

    python benchmarks/harness/cooperative/epymarl.py lbf-8x8-2p-2f-coop qmix --python epymarl-env/bin/python
        --checkout epymarl --steps 2050000 --seeds 5

The result, the last test over 100 episodes in the unit of the table, goes to
benchmarks/results/cooperative_epymarl.csv. EPyMARL's code and settings are not changed. An empty module replaces
`smaclite`, which it imports but does not need for these tasks, the particle environments of `mpe2` get the names of
those that PettingZoo no longer has, and the actions of the opponents' networks are swapped as in ``originals.py``.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(BENCHMARKS))

from harness.cooperative.report import half_interval, references  # noqa: E402
from harness.cooperative.tasks import TASKS, Task  # noqa: E402

RESULTS = BENCHMARKS / "results" / "cooperative_epymarl.csv"
COLUMNS = ("task", "algorithm", "mean", "interval", "source")
PARTICLES = ("simple_speaker_listener_v4", "simple_spread_v3", "simple_adversary_v3", "simple_tag_v3")
START = f"""
import importlib, runpy, sys, types
sys.modules.setdefault("smaclite", types.ModuleType("smaclite"))
sys.path.insert(0, "src")
try:
    import gymnasium
    import envs.pretrained.ddpg
    import envs.pz_wrapper
    act = envs.pretrained.ddpg.DDPG.step
    envs.pretrained.ddpg.DDPG.step = lambda network, observation: (0, 2, 1, 4, 3)[act(network, observation)]
    for name in {PARTICLES}:
        sys.modules["pettingzoo.mpe." + name] = importlib.import_module("mpe2." + name)
        gymnasium.register("pz-mpe-" + name.replace("_", "-"), entry_point="envs.pz_wrapper:PettingZooWrapper",
                           kwargs={{"lib_name": "mpe", "env_name": name}})
except ImportError:
    pass
sys.argv[0] = "src/main.py"
runpy.run_path("src/main.py", run_name="__main__")
"""


def command(task: Task, algorithm: str, seed: int, steps: int) -> list[str]:
    """Return the arguments of EPyMARL's ``main.py``."""
    wrapper = {"prey": "PretrainedTag", "adversary": "PretrainedAdversary"}.get(task.opponent or "")
    return [
        f"--config={algorithm}",
        "--env-config=gymma",
        "with",
        f"env_args.key={task.key}",
        f"env_args.time_limit={task.steps}",
        *([f"env_args.pretrained_wrapper={wrapper}"] if wrapper else []),
        f"seed={seed}",
        f"t_max={steps}",
        f"test_interval={min(50_000, steps)}",
        "use_cuda=False",
    ]


def trained(task: Task, algorithm: str, seed: int, options: argparse.Namespace) -> float:
    """Train with one seed and return the last test's mean return."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    paths = str(options.matrix_games.resolve()) if options.matrix_games else ""
    records = options.checkout / "results" / "sacred"
    before = set(records.rglob("metrics.json"))
    subprocess.run(
        [options.python, "-c", START, *command(task, algorithm, seed, options.steps)],
        cwd=options.checkout,
        env=os.environ | threads | {"PYTHONPATH": paths},
        check=True,
    )
    (metrics,) = set(records.rglob("metrics.json")) - before
    rewards = json.loads(metrics.read_text(encoding="utf-8"))["test_return_mean"]["values"][-1]
    return task.team_return(rewards["value"] if isinstance(rewards, dict) else rewards)


def main() -> None:
    """Train with all seeds and add the result to the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=[task.name for task in TASKS.values() if task.key], metavar="TASK")
    parser.add_argument("algorithm", choices=["ippo", "mappo", "qmix", "vdn"])
    parser.add_argument("--checkout", type=Path, required=True, help="folder of EPyMARL")
    parser.add_argument("--matrix-games", type=Path, help="folder of uoe-agents/matrix-games, for the matrix games")
    parser.add_argument("--python", default=sys.executable, help="interpreter with the packages that EPyMARL requires")
    parser.add_argument("--steps", type=int, default=2_050_000, help="environment steps (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds (default: 5)")
    parser.add_argument("--no-write", action="store_true", help="print the result without writing it")
    options = parser.parse_args()
    if "/" in options.python:
        options.python = str(Path(options.python).absolute())  # not resolved: links belong to the environment
    values = [trained(TASKS[options.task], options.algorithm, seed, options) for seed in range(options.seeds)]
    interval = half_interval(values)
    print(f"{options.task} {options.algorithm}: {statistics.mean(values):.3f}, interval {interval}, of {values}")
    if options.no_write:
        return
    seeds = "1 seed" if options.seeds == 1 else f"{options.seeds} seeds"
    known = {key: vars(row) for key, row in references(RESULTS).items()}
    known[options.task, options.algorithm] = {
        "task": options.task,
        "algorithm": options.algorithm,
        "mean": round(statistics.mean(values), 4),
        "interval": "" if interval is None else round(interval, 4),
        "source": f"EPyMARL run here, {seeds}, {options.steps:,} environment steps, last test",
    }
    with RESULTS.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(known[key] for key in sorted(known))


if __name__ == "__main__":
    main()
