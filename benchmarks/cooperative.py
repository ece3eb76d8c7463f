"""Train the tasks of the cooperative benchmark and evaluate the policies in the original packages.

    python benchmarks/cooperative.py                                  # all tasks and algorithms, five seeds
    python benchmarks/cooperative.py lbf rware-tiny-2ag               # a family and a task
    python benchmarks/cooperative.py lbf --algorithms ippo --seeds 1  # one seed of an algorithm
    python benchmarks/cooperative.py lbf --reproduce --seeds 1        # again, although its results are stored
    python benchmarks/cooperative.py --list                           # the runs, and which of them are finished
    python benchmarks/cooperative.py --report                         # write the pages again, train nothing
    python benchmarks/cooperative.py --quick                          # a smoke test: one short run each, no pages

The tasks are those of Papoudakis et al. (2021), "Benchmarking Multi-Agent Deep Reinforcement Learning Algorithms in
Cooperative Tasks" (arXiv 2006.07869), and the five classic layouts of Overcooked. Each run is a process of its own on
one core. Finished runs, in --folder or benchmarks/results/cooperative.json, are not trained again while their settings
stay the same; runs with other settings leave the pages. After every run benchmarks/results/cooperative.md, .json and
.csv are written, and the table in docs/reference/cooperative.md, which explains it; at the end the learning curves in
docs/images/curves/.

The tasks `mpe-adversary` and `mpe-tag` need the opponents that EPyMARL ships: EPYMARL=<path of a checkout>.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from harness.cooperative.originals import CHECKOUT
from harness.cooperative.report import as_csv, as_json, draw_family, merged, read, references, replaced, table
from harness.cooperative.run import Run, finished, folder_of, is_current, train
from harness.cooperative.settings import ALGORITHMS, algorithms_of, configuration
from harness.cooperative.tasks import FAMILIES, TASKS, Task, chosen

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGES = (RESULTS / "cooperative.md", ROOT / "docs" / "reference" / "cooperative.md")
CURVES = ROOT / "docs" / "images" / "curves"
PACKAGES = {
    "mpe": ("mpe2", "mpe2"),
    "lbf": ("lbforaging", "lbforaging"),
    "rware": ("rware", "rware"),
    "overcooked": ("overcooked_ai_py", "--no-deps overcooked_ai==1.1.0"),  # its rules need neither gym nor pygame
}
"""Module of a family's original environments, and what pip installs."""
QUICK_STEPS, QUICK_EPISODES = 1e-9, 2  # one update
EPISODES = 100

Job = tuple[Task, str, int]


def missing(task: Task) -> str | None:
    """Return the missing requirements to train and evaluate a task on this machine, or None."""
    module, package = PACKAGES.get(task.family, (None, None))
    if module and importlib.util.find_spec(module) is None:
        return f"{module} is not installed: pip install {package}"
    if task.opponent and CHECKOUT not in os.environ:
        return f"{CHECKOUT} is not set to a checkout of EPyMARL"
    return None


def measured(job: Job, options: argparse.Namespace) -> Run:
    """Train and evaluate in a separate process."""
    task, algorithm, seed = job
    own = folder_of(options.folder, task.name, algorithm, seed)
    own.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, __file__, task.name, "--algorithms", algorithm, "--here", str(seed)]
    command += ["--folder", str(options.folder), "--steps", str(options.steps), "--episodes", str(options.episodes)]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "WARPDRIVE_NUM_THREADS"), "1")
    with (own / "output.txt").open("w", encoding="utf-8") as output:
        done = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, env=os.environ | threads, check=False)
    found = finished(options.folder, task, algorithm, seed, options.steps)
    if done.returncode or found is None:
        last = (own / "output.txt").read_text(encoding="utf-8").strip().splitlines()[-1:]
        raise RuntimeError(f"{' '.join(last) or 'no output'} (all of it is in {own / 'output.txt'})")
    return found


def run_all(jobs: list[Job], options: argparse.Namespace, stored: list[Run]) -> list[str]:
    """Run the unfinished jobs, several processes at a time, and write the results after each.

    Args:
        jobs: The runs.
        options: The options of the command.
        stored: Results that a reproduced run is printed beside.

    Returns:
        A line for each run that failed.
    """
    began, failed, count = time.perf_counter(), [], 0
    scores = {(run.task, run.algorithm, run.seed): f"stored: {run.score:.2f}, " for run in stored}
    with ThreadPoolExecutor(options.processes) as pool:
        waiting = {pool.submit(measured, job, options): job for job in jobs}
        for future in as_completed(waiting):
            task, algorithm, seed = waiting[future]
            count += 1
            hours = (time.perf_counter() - began) / count * (len(jobs) - count) / 3600
            head = f"{count}/{len(jobs)} {task.name} {algorithm} seed {seed}"
            try:
                run = future.result()
            except RuntimeError as error:
                failed.append(f"{task.name} {algorithm} seed {seed}: {error}")
                print(f"{head}: failed: {error}", file=sys.stderr, flush=True)
                continue
            steps = f"{run.env_steps:,} steps in {run.minutes:.1f} min"
            before = scores.get((task.name, algorithm, seed), "") if options.reproduce else ""
            print(f"{head}: {run.score:.2f} ({before}{steps}); {hours:.1f} h left", file=sys.stderr, flush=True)
            if not (options.quick or options.reproduce):
                write([run], with_curves=False)
    return failed


def write(new: list[Run], with_curves: bool) -> None:
    """Write the tables and data of all runs with the current settings, with ``new`` runs in place of former ones."""
    path = RESULTS / "cooperative.json"
    runs = [run for run in merged(read(path), new) if is_current(run)]
    path.write_text(as_json(runs), encoding="utf-8")
    path.with_suffix(".csv").write_text(as_csv(runs), encoding="utf-8")
    published = references(RESULTS / "cooperative_published.csv")
    by_epymarl = references(RESULTS / "cooperative_epymarl.csv")
    for family in FAMILIES if with_curves else ():
        draw_family(CURVES / f"cooperative_{family}.svg", family, runs)
    drawn = {path.stem.partition("_")[2]: path for path in CURVES.glob("cooperative_*.svg")}
    for page in PAGES:
        pictures = {family: os.path.relpath(path, page.parent) for family, path in drawn.items()}
        tables = table(runs, published, by_epymarl, pictures)
        page.write_text(replaced(page.read_text(encoding="utf-8"), tables), encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Run the chosen tasks, and return 1 if a run failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", metavar="TASK", help=f"of {', '.join([*FAMILIES, *TASKS])} (default: all)")
    parser.add_argument("--algorithms", default=",".join(ALGORITHMS), help="separated by commas (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds (default: 5)")
    parser.add_argument("--processes", type=int, default=2, help="runs at the same time, a core each (default: 2)")
    parser.add_argument(
        "--steps",
        type=float,
        default=1.0,
        help="factor of the environment steps, and of schedules; the pages have only runs with 1 (default: 1)",
    )
    parser.add_argument("--episodes", type=int, default=EPISODES, help="evaluation episodes (default: %(default)s)")
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "cooperative", help="of the finished runs")
    parser.add_argument("--quick", action="store_true", help="one update and two episodes each; writes no pages")
    parser.add_argument(
        "--reproduce",
        action="store_true",
        help="train runs whose results are stored, too, and print both; writes no pages, and keeps what is in --folder",
    )
    parser.add_argument("--list", action="store_true", help="print the runs")
    parser.add_argument("--report", action="store_true", help="write the pages and the learning curves only")
    parser.add_argument("--here", type=int, metavar="SEED", help=argparse.SUPPRESS)  # one run, in this process
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.tasks) - {*TASKS, *FAMILIES})
    algorithms = options.algorithms.split(",")
    if unknown or not set(algorithms) <= set(ALGORITHMS):
        parser.error(f"unknown: {', '.join(unknown) or options.algorithms}; --help lists tasks and algorithms")
    if options.quick:
        options.steps, options.episodes, options.seeds = QUICK_STEPS, QUICK_EPISODES, 1
    if options.here is not None:
        train(options.folder, options.tasks[0], algorithms[0], options.here, options.steps, options.episodes)
        return 0
    if options.report:
        write([], with_curves=True)
        return 0
    jobs: list[Job] = []
    for task in chosen(options.tasks):
        if reason := missing(task):
            print(f"{task.name} is left out: {reason}", file=sys.stderr)
            continue
        taken = [algorithm for algorithm in algorithms_of(task) if algorithm in algorithms]
        jobs += [(task, algorithm, seed) for algorithm in taken for seed in range(options.seeds)]
    stored = read(RESULTS / "cooperative.json")
    known = [] if options.reproduce else stored
    found = {job: finished(options.folder, *job, options.steps, known) for job in jobs}
    if options.list:
        width = max(len(task.name) for task in TASKS.values()) + 2
        for (task, algorithm, seed), run in found.items():
            steps = configuration(task, algorithm, seed, "", options.steps)["trainer"]["total_steps"]
            state = f"{run.score:.2f} in {run.minutes:.1f} min" if run else "to do"
            print(f"{task.name:{width}}{algorithm:9}{seed:3}  {steps:>12,} steps  {state}")
        return 0
    done = [run for run in found.values() if run is not None]
    writes = not (options.quick or options.reproduce)
    if done and writes:
        write(done, with_curves=False)
    failed = run_all([job for job, run in found.items() if run is None], options, stored)
    if writes:
        write([], with_curves=True)
    print("\n".join(["failed:", *failed]) if failed else "all runs are finished", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    raise SystemExit(main())
