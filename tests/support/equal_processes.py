"""Train run configurations in one process and in several, and compare all that they log, metric by metric.

    python tests/support/equal_processes.py cartpole tag_gridworld trainer.seed=3 --num_envs 24
    python tests/support/equal_processes.py my_run.yaml --processes 2 3 4 --sync rollouts --updates 5 --metrics
    python tests/support/equal_processes.py pendulum_sac --processes 2 3 --resume 1 4

Every run is as configured, but for ``--num_envs`` replicas in all, rollouts of at most ``--steps`` steps and so many
updates. With ``--resume`` runs are stopped halfway, and go on with other numbers of processes. Prints the largest
difference of each run: |one - several| as a part of the larger of |one| and 0.1, as what is nearer to 0 is a difference
of larger numbers. Fails where that is more than ``--tolerance``: then something else differs than the order of sums, or
a rounding has flipped a sampled action, which fewer updates tell apart.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from logged_metrics import rows_of

from warpdrive.training.config.load import RunConfig, load_config, shipped_configs
from warpdrive.training.distributed.launch import launch
from warpdrive.training.reports import UpdateReport
from warpdrive.training.run.callbacks import Callback
from warpdrive.training.trainer import Trainer, make_env

Job = dict[str, Any]
"""A configuration, a folder for its run, and the updates after which it is stopped; a run that is there goes on."""


class StopAfter(Callback):
    """Ends a run as Ctrl-C does."""

    def __init__(self, updates: int) -> None:
        self.updates = updates

    def on_update(self, trainer: Trainer, report: UpdateReport) -> None:
        if report.update == self.updates:
            raise KeyboardInterrupt


def train(jobs: Sequence[Job]) -> None:
    """In each process: do one run after the other."""
    torch.set_num_threads(1)
    for job in jobs:
        run = run_in(Path(job["folder"]))
        if run is None:
            config = load_config(job["config"], [f"saving.folder={job['folder']}"])
            trainer = Trainer(make_env(config), config)
        else:
            trainer = Trainer.resume(run)
        trainer.train(callbacks=[StopAfter(job["updates"])])


def run_in(folder: Path) -> Path | None:
    return next((path.parent for path in folder.glob("*/*/config.yaml")), None)


def train_in(processes: int, jobs: Sequence[Job], folder: Path) -> None:
    if processes == 1:
        return train(jobs)
    file = folder / "jobs.json"
    file.write_text(json.dumps(jobs))
    launch([__file__, "--jobs", str(file)], processes)


def small(name: str, num_envs: int, steps: int, updates: int, overrides: Sequence[str]) -> RunConfig:
    """A configuration with fewer and shorter rollouts; learning from old experience begins with the second one."""
    found = load_config(name).trainer
    length = min(found.rollout_length, steps)
    batch = num_envs * length
    sizes = [
        f"trainer.num_envs={num_envs}",
        f"trainer.train_batch_size={batch}",
        f"trainer.total_steps={max(found.total_steps, updates * batch)}",
    ]
    sizes += [
        f"policy.{tag}.learning_starts={batch}"
        for tag, policy in load_config(name).policy.items()
        if hasattr(policy, "learning_starts")
    ]
    return load_config(name, [*sizes, "saving.tensorboard=false", "saving.log_every=1", *overrides])


def metrics_of(folder: Path) -> list[dict[str, str]]:
    run = run_in(folder)
    assert run is not None
    return rows_of(run)


def differences(one: list[dict[str, str]], other: list[dict[str, str]]) -> dict[str, tuple[float, int]]:
    """By metric, the largest difference, and the update that it is of."""
    if [row.keys() for row in one] != [row.keys() for row in other]:
        return {"updates or metrics": (math.inf, 0)}
    found = {name: (0.0, 0) for name in one[0]}
    for update, (ours, theirs) in enumerate(zip(one, other, strict=True), 1):
        for name in found:
            found[name] = max(found[name], (difference(ours[name], theirs[name]), update), key=lambda pair: pair[0])
    return found


def difference(one: str, other: str) -> float:
    if one == other:
        return 0.0
    if not one or not other:
        return math.inf
    return abs(float(one) - float(other)) / max(abs(float(one)), 0.1)


def main(options: argparse.Namespace) -> int:
    names = [word for word in options.names if "=" not in word] or list(shipped_configs())
    overrides = [word for word in options.names if "=" in word]
    configs = {
        Path(name).stem: small(name, options.num_envs, options.steps, options.updates, overrides).model_dump(
            mode="json"
        )
        for name in names
    }
    halfway = options.updates // 2 if options.resume else options.updates
    failed = False
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)

        def jobs(what: str, sync: str, updates: int) -> list[Job]:
            return [
                {
                    "config": config | {"trainer": config["trainer"] | {"sync": sync}},
                    "folder": str(folder / what / sync / name),
                    "updates": updates,
                }
                for name, config in configs.items()
            ]

        train_in(1, jobs("1", "gradients", options.updates), folder)
        print(f"{'run':24} {'sync':9} {'processes':9}  largest difference")
        for processes in options.processes:
            for then in options.resume or [None]:
                what = str(processes) if then is None else f"{processes}, {then}"
                both = [job for sync in options.sync for job in jobs(what, sync, halfway)]
                train_in(processes, both, folder)
                if then is not None:
                    train_in(then, [job | {"updates": options.updates} for job in both], folder)
                for sync in options.sync:
                    for name in configs:
                        found = differences(
                            metrics_of(folder / "1" / "gradients" / name), metrics_of(folder / what / sync / name)
                        )
                        found = dict(sorted(found.items(), key=lambda item: -item[1][0]))
                        worst, (value, update) = next(iter(found.items()))
                        failed |= value > options.tolerance
                        told = f"{value:.1e} of {worst} in update {update}" if value else "none"
                        print(f"{name:24} {sync:9} {what:9}  {told}", flush=True)
                        if options.metrics:
                            for metric, (value, update) in found.items():
                                print(f"{'':46}{value:.1e} {metric}, update {update}")
    return int(failed)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME or key=value", help="configurations; none: all shipped ones")
    parser.add_argument("--processes", type=int, nargs="+", default=[2], metavar="N")
    parser.add_argument("--resume", type=int, nargs="+", metavar="N", help="go on with so many from halfway on")
    parser.add_argument("--sync", nargs="+", choices=["gradients", "rollouts"], default=["gradients", "rollouts"])
    parser.add_argument("--num_envs", type=int, default=16)
    parser.add_argument("--steps", type=int, default=32)
    parser.add_argument("--updates", type=int, default=4)
    parser.add_argument("--metrics", action="store_true", help="print the differences of all metrics")
    parser.add_argument("--tolerance", type=float, default=1e-3)
    parser.add_argument("--jobs", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.jobs:
        train(json.loads(Path(given.jobs).read_text()))
    else:
        sys.exit(main(given))
