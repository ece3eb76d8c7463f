"""Train and evaluate the shipped run configurations: the table of docs/reference/targets.md.

    python benchmarks/targets.py                           # all configurations, one run after the other
    python benchmarks/targets.py --only cartpole battle    # these rows; the others are kept
    python benchmarks/targets.py --seeds 0 --no-write      # one seed, print only
    python benchmarks/targets.py --curves --no-write       # only the learning curves, in docs/images/curves/

Each configuration is trained with several seeds, each in a separate process. Single-agent policies are then loaded with
``wd.load_policy`` and evaluated in Gymnasium's own environment with the most probable action; multi-agent policies are
evaluated in the environments they were trained in, with sampled actions. The exit code is 1 if a target is missed.

With ``--curves`` the policies are also evaluated at 21 points of training, and the mean and the range of the seeds are
drawn. The evaluations do not change the results, but are part of the times.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harness.evaluation import play

DOCS = Path(__file__).parents[1] / "docs"
PAGE, CURVES = DOCS / "reference" / "targets.md", DOCS / "images" / "curves"
BEGIN, END = "<!-- targets -->", "<!-- end of targets -->"
HEAD = [
    "| configuration | return of | target | random policy | return by seed | env steps | CPU time | wall-clock time |",
    "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
]


@dataclass(frozen=True)
class Target:
    """Target of a configuration.

    Attributes:
        config: The name of the run configuration.
        goal: The mean return over the evaluation episodes.
        outside: The id of the Gymnasium environment used for evaluation; None for the training environment.
        tag: The policy tag whose return counts; None if there is only one.
        random: The policy tags that act at random in the evaluation.
        episodes: The number of evaluation episodes.
    """

    config: str
    goal: float
    outside: str | None = None
    tag: str | None = None
    random: tuple[str, ...] = ()
    episodes: int = 100


TARGETS = [
    Target("cartpole", 475, "CartPole-v1"),
    Target("cartpole_reinforce", 475, "CartPole-v1"),
    Target("cartpole_vtrace", 475, "CartPole-v1"),
    Target("cartpole_pqn", 475, "CartPole-v1"),
    Target("cartpole_recurrent", 475, tag="agent"),
    Target("acrobot", -100, "Acrobot-v1"),
    Target("mountain_car", -110, "MountainCar-v0"),
    Target("continuous_mountain_car", 90, "MountainCarContinuous-v0"),
    Target("pendulum", -200, "Pendulum-v1"),
    Target("pendulum_sac", -200, "Pendulum-v1"),
    Target("pendulum_td3", -200, "Pendulum-v1"),
    Target("pendulum_ddpg", -200, "Pendulum-v1"),
    Target("tag_gridworld", 7, tag="tagger", random=("runner",)),
    Target("tag_gridworld_a2c", 7, tag="tagger", random=("runner",)),
    Target("tag_continuous_small", 20, tag="tagger", random=("runner",)),
    Target("simple_spread", -15, tag="agent"),
    Target("simple_spread_mappo", -9.67, tag="agent", episodes=400),
    Target("simple", -10, tag="agent"),
    Target("simple_adversary", 12, tag="good_agent", random=("adversary",)),
    Target("simple_crypto", 8, tag="bob", random=("eve",)),
    Target("simple_push", -12, tag="good_agent", random=("adversary",)),
    Target("simple_reference", -10, tag="agent"),
    Target("simple_speaker_listener", -10, tag="listener"),
    Target("simple_tag", 40, tag="adversary", random=("good_agent",)),
    Target("simple_world_comm", 12, tag="adversary", random=("good_agent",)),
    Target("matrix_game", 150, tag="agent"),
    Target("smax", 1.9, tag="ally"),
    Target("connect_four", 0.95, tag="red", random=("yellow",)),
    Target("atari/pong_ram", 18, tag="agent"),
    Target("lbf", 0.45, tag="agent"),
    Target("lbf_vdn", 0.45, tag="agent"),
    Target("lbf_qmix", 0.45, tag="agent"),
    Target("overcooked", 290, tag="agent"),
    Target("rware", 12, tag="agent"),
    Target("flock", 260, tag="boid"),
    Target("battle", 5, tag="red"),
    Target("battle_self_play", 5, tag="red", random=("blue",)),
]


@dataclass(frozen=True)
class Outcome:
    """Result of one run."""

    result: float
    env_steps: int
    processor_seconds: float = 0.0
    clock_seconds: float = 0.0
    curve: list[tuple[int, float]] = field(default_factory=list)
    """Environment steps and return of each evaluation during training."""


def train(target: Target, seed: int, folder: str, with_curve: bool) -> Outcome:
    """Train in this process and evaluate the policy."""
    import warpdrive as wd
    from harness.targets.curves import LearningCurve
    from warpdrive.training.config.load import load_config

    settings = [f"trainer.seed={seed}", f"saving.folder={folder}", "saving.tensorboard=off"]
    config = load_config(target.config, settings)
    trainer = wd.Trainer(_make_env(config), config)
    curve = LearningCurve(target.tag, target.random, deterministic=target.outside is not None)
    summary = trainer.train(callbacks=[curve] if with_curve else [])
    if target.outside is not None:
        policy = wd.load_policy(summary.run_folder)
        result = play(target.outside, target.episodes, lambda seen: policy.act(seen, deterministic=True))
    else:
        found = wd.Trainer.load(summary.run_folder).evaluate(target.episodes, random=target.random)
        result = found.mean_return[_tag_of(target, found.mean_return)]
    return Outcome(result, summary.env_steps, curve=curve.points)


def act_at_random(target: Target) -> Outcome:
    """Return the result of the same episodes with uniformly random actions of all agents."""
    import numpy as np

    import warpdrive as wd
    from warpdrive.training.config.load import load_config

    if target.outside is not None:
        return Outcome(play(target.outside, target.episodes, None), 0)
    config = load_config(target.config)
    trainer = wd.Trainer(_make_env(config), config)
    found = trainer.evaluate(target.episodes, random=tuple(trainer.env.policy_tags))
    assert np.isfinite(list(found.mean_return.values())).all()
    return Outcome(found.mean_return[_tag_of(target, found.mean_return)], 0)


def _make_env(config: Any) -> Any:
    from warpdrive.training.trainer import make_env

    return make_env(config)


def _tag_of(target: Target, returns: dict[str, float]) -> str:
    return target.tag or next(iter(returns))


def measured(target: Target, seed: int | None, with_curve: bool = False) -> Outcome:
    """Return the result and duration of a run in a separate process; ``seed`` None: random actions."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        chosen = ["--seeds", str(seed)] if seed is not None else []
        chosen += ["--curves"] if with_curve else []
        command = [sys.executable, __file__, "--only", target.config, *chosen, "--here", folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    outcome = json.loads(done.stdout.splitlines()[-1])
    return Outcome(outcome["result"], outcome["env_steps"], seconds, time.perf_counter() - began, outcome["curve"])


def row(target: Target, random: Outcome, runs: Sequence[Outcome]) -> str:
    """Return a row of the table: results of all seeds, steps of the longest run, duration of the slowest one."""
    reached = ", ".join(_shown(run.result, target.goal) for run in runs)
    cells = [
        f"`{target.config}`",
        _return_of(target),
        f"{target.goal:g}",
        _rounded(random.result, target.goal),
        reached,
        f"{max(run.env_steps for run in runs):,}",
        f"{max(run.processor_seconds for run in runs):.0f} s",
        f"{max(run.clock_seconds for run in runs):.0f} s",
    ]
    return f"| {' | '.join(cells)} |"


def _return_of(target: Target) -> str:
    against = f", {' and '.join(f'`{tag}`' for tag in target.random)} at random" if target.random else ""
    return f"`{target.outside}`" if target.outside else f"`{target.tag}`{against}"


def _shown(result: float, goal: float) -> str:
    return _rounded(result, goal) if result >= goal else f"{_rounded(result, goal)} (missed)"


def _rounded(result: float, goal: float) -> str:
    return f"{result:.2f}" if abs(goal) < 1 else f"{result:.1f}"


def table(former: str, rows: Sequence[str]) -> str:
    """Return the table with ``rows`` replacing those of the same configurations, in the order of ``TARGETS``."""
    lines = {text.split("|")[1].strip(" `"): text for text in (*former.splitlines(), *rows) if text.startswith("| `")}
    return "\n".join([BEGIN, *HEAD, *(lines[target.config] for target in TARGETS if target.config in lines), END])


def write(rows: Sequence[str]) -> None:
    """Write ``rows`` to the page, and tables and curves to the pages of the algorithms."""
    text = PAGE.read_text(encoding="utf-8")
    new = table(text.partition(BEGIN)[2].partition(END)[0], rows)
    PAGE.write_text(re.sub(f"{BEGIN}.*{END}", lambda _: new, text, flags=re.DOTALL), encoding="utf-8")
    for page in [PAGE, *(PAGE.parent / "algorithms").glob("*.md")]:
        page.write_text(with_results(page, new), encoding="utf-8")


def with_results(page: Path, former: str) -> str:
    """Return the text of a page with the present results of the configurations named by ``<!-- results: a b -->``.

    A page has their rows, without the times, and learning curves. Without names: the learning curves of all.

    Args:
        page: a file of the documentation.
        former: the table of all configurations.
    """
    lines = {text.split("|")[1].strip(" `"): text for text in former.splitlines() if text.startswith("| `")}
    folder = os.path.relpath(CURVES, page.parent)

    def results(found: re.Match[str]) -> str:
        names = found[1].split()
        rows = [*HEAD, *(lines[name] for name in names if name in lines)] if names else []
        rows = ["|".join([*text.split("|")[:-3], ""]) for text in rows]  # without the times
        rows += [""] * bool(rows)
        drawn = [name for name in names or lines if (CURVES / f"{name}.svg").exists()]
        curves = [f"![Learning curve of {name}]({folder}/{name}.svg)" for name in drawn]
        return "\n".join([f"<!-- results:{found[1]}-->", *rows, *curves, "<!-- end of results -->"])

    pattern = r"<!-- results:(.*?)-->.*?<!-- end of results -->"
    return re.sub(pattern, results, page.read_text(encoding="utf-8"), flags=re.DOTALL)


def main() -> None:
    """Train and evaluate the configurations, and print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [target.config for target in TARGETS]
    parser.add_argument(
        "--only", nargs="+", choices=names, default=names, metavar="CONFIG", help="run configurations (default: all)"
    )
    parser.add_argument("--seeds", nargs="*", type=int, default=None, help="seeds (default: 0 1 2)")
    parser.add_argument("--no-write", action="store_true", help="print the table without writing it")
    parser.add_argument(
        "--curves", action="store_true", help=f"draw learning curves in {CURVES.relative_to(DOCS.parent)}"
    )
    parser.add_argument("--here", metavar="FOLDER", help=argparse.SUPPRESS)  # one run, in this process
    options = parser.parse_args()
    chosen = [target for target in TARGETS if target.config in options.only]
    if options.here:
        if options.seeds:
            outcome = train(chosen[0], options.seeds[0], options.here, options.curves)
        else:
            outcome = act_at_random(chosen[0])
        print(json.dumps(asdict(outcome)))
        return
    print("\n".join(HEAD), flush=True)
    missed = []
    for target in chosen:
        runs = [measured(target, seed, options.curves) for seed in (options.seeds or [0, 1, 2])]
        if options.curves:
            from harness.targets.curves import draw

            curves = [run.curve for run in runs]
            draw(CURVES / f"{target.config}.svg", curves, target.goal, _return_of(target).replace("`", ""))
            write([])
        text = row(target, measured(target, None), runs)
        print(text, flush=True)
        missed += [target.config for run in runs if run.result < target.goal]
        if not options.no_write:
            write([text])
    if missed:
        raise SystemExit(f"missed: {', '.join(dict.fromkeys(missed))}")


if __name__ == "__main__":
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    main()
