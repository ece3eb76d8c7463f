"""One run of the cooperative benchmark: training in our environment, evaluation in the original one."""

from __future__ import annotations

import csv
import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harness.cooperative.originals import play
from harness.cooperative.settings import GREEDY, algorithms_of, configuration
from harness.cooperative.tasks import TASKS, Task

POINTS = 40
"""Number of points of a learning curve."""
RESULT = "result.json"


@dataclass(frozen=True)
class Run:
    """Result of a run.

    Attributes:
        task: The name of the task.
        algorithm: The name of the algorithm.
        seed: The seed.
        env_steps: Environment steps of training.
        minutes: Processor time of training, which uses one core.
        episodes: The number of episodes in the original environment.
        sampled: Their mean return with sampled actions.
        greedy: Their mean return with the most probable, or best, actions.
        settings: Digest of the run configuration, without the folder of its results.
        curve: Environment steps and mean return of the training episodes.
    """

    task: str
    algorithm: str
    seed: int
    env_steps: int
    minutes: float
    episodes: int
    sampled: float
    greedy: float
    settings: str = ""
    curve: list[tuple[int, float]] = field(default_factory=list)

    @property
    def score(self) -> float:
        """Mean return of the policy as EPyMARL tests it."""
        return self.greedy if self.algorithm in GREEDY else self.sampled


def folder_of(folder: Path, task: str, algorithm: str, seed: int) -> Path:
    """Return the folder of a run."""
    return folder / task / algorithm / str(seed)


def finished(
    folder: Path, task: Task, algorithm: str, seed: int, scale: float, known: Sequence[Run] = ()
) -> Run | None:
    """Return the result of a run that was made with the present settings; None if there is none.

    Args:
        folder: Of all runs.
        task: The task.
        algorithm: The name of the algorithm.
        seed: The seed.
        scale: Factor of the number of environment steps.
        known: Runs that were made elsewhere.
    """
    path = folder_of(folder, task.name, algorithm, seed) / RESULT
    own = [run_of(json.loads(path.read_text(encoding="utf-8")))] if path.exists() else []
    wanted = (task.name, algorithm, seed, _digest(configuration(task, algorithm, seed, "", scale)))
    return next((run for run in (*own, *known) if (run.task, run.algorithm, run.seed, run.settings) == wanted), None)


def is_current(run: Run) -> bool:
    """Return True if a run was made with the present settings and all of their environment steps."""
    known = run.task in TASKS and run.algorithm in algorithms_of(TASKS[run.task])
    return known and run.settings == _digest(configuration(TASKS[run.task], run.algorithm, run.seed, ""))


def run_of(saved: dict[str, Any]) -> Run:
    """Return the run with these attributes."""
    return Run(**saved | {"curve": [(int(steps), float(value)) for steps, value in saved["curve"]]})


def train(folder: Path, name: str, algorithm: str, seed: int, scale: float, episodes: int) -> Run:
    """Train and evaluate in this process, and write the result to the folder of the run.

    Args:
        folder: Of all runs.
        name: The name of the task.
        algorithm: The name of the algorithm.
        seed: The seed.
        scale: Factor of the number of environment steps.
        episodes: The number of evaluation episodes.

    Returns:
        The result.

    Raises:
        RuntimeError: Training was stopped before its end.
    """
    import warpdrive as wd
    from warpdrive.training.config.load import load_config
    from warpdrive.training.trainer import make_env

    task, own = TASKS[name], folder_of(folder, name, algorithm, seed)
    own.mkdir(parents=True, exist_ok=True)
    given = configuration(task, algorithm, seed, str(own), scale)
    config = load_config(given)
    env = make_env(config)
    trainer, began = wd.Trainer(env, config), time.process_time()
    summary = trainer.train()
    minutes = (time.process_time() - began) / 60
    if summary.env_steps < config.trainer.total_steps:
        raise RuntimeError(f"training was stopped after {summary.env_steps:,} environment steps")
    agents = {tag: len(env.policy_tags[tag]) for tag in task.learning}
    policies = {tag: wd.load_policy(summary.run_folder, tag, seed=seed) for tag in task.learning}
    returns = {
        greedy: task.team_return(float(play(task.original, policies, episodes, greedy).mean()))
        for greedy in (False, True)
    }
    curve = learning_curve(Path(summary.run_folder) / "metrics.csv", task, agents)
    scores = (returns[False], returns[True])
    run = Run(name, algorithm, seed, summary.env_steps, minutes, episodes, *scores, _digest(given), curve)
    part = own / f"{RESULT}.part"
    part.write_text(json.dumps(asdict(run), indent=1), encoding="utf-8")
    part.replace(own / RESULT)
    return run


def _digest(config: dict[str, Any]) -> str:
    """Return a digest of a run configuration without the folder of its results."""
    text = json.dumps({key: part for key, part in config.items() if key != "saving"}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def learning_curve(metrics: Path, task: Task, agents: dict[str, int]) -> list[tuple[int, float]]:
    """Return environment steps and mean team return of the training episodes, in ``POINTS`` parts of a run.

    Args:
        metrics: The table that the run has logged.
        task: The task.
        agents: The number of agents of each learning tag.
    """
    with metrics.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    points = []
    for row in rows:
        values = [row.get(f"charts/episodic_return/{tag}") for tag in agents]
        if all(values):
            total = sum(float(value or 0) * count for value, count in zip(values, agents.values(), strict=True))
            points.append((int(row["env_steps"]), task.team_return(total)))
    size = -(-len(points) // POINTS) or 1
    parts = [points[i : i + size] for i in range(0, len(points), size)]
    return [(part[-1][0], round(sum(value for _, value in part) / len(part), 4)) for part in parts]
