"""Compare algorithms with published results, using the published settings: benchmarks/results/published.md.

    python benchmarks/published.py                               # all rows, three seeds each
    python benchmarks/published.py --only zoo-dqn-CartPole-v1    # these rows; the others are kept
    python benchmarks/published.py --seeds 0 --no-write          # one seed, print only
    python benchmarks/published.py --sb3                         # DQN rows with Stable-Baselines3 itself, print only

Sources of settings and results: the tables and hyperparameters of rl-baselines3-zoo (DLR-RM/rl-baselines3-zoo,
benchmark.md and hyperparams/*.yml at 22e3ff2), one run each, the deterministic policy after training; and CleanRL
(vwxyzjn/cleanrl, docs/rl-algorithms/ppo.md), three seeds, returns of the sampled actions at the end of training.
WarpDrive trains in its own environments, in a process per seed, and is evaluated over 100 episodes of Gymnasium's.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.evaluation import play

PAGE = Path(__file__).parent / "results" / "published.md"
BEGIN, END = "<!-- published -->", "<!-- end of published -->"
HEAD = [
    "| row | steps | published | spread | ours | spread | by seed | below by more than the spread |",
    "| --- | ---: | ---: | ---: | ---: | ---: | --- | --- |",
]
EPISODES = 100


@dataclass(frozen=True)
class Published:
    """A published result and its settings.

    Attributes:
        row: The source, algorithm and Gymnasium environment.
        environment: The name of our environment.
        steps: The number of environment steps of training.
        score: The published mean return.
        spread: The standard deviation; for the zoo over the episodes of its single run, for CleanRL over its seeds.
        trainer: ``num_envs`` and ``train_batch_size``.
        policy: The section of the policy.
        deterministic: If True, evaluation takes the most probable action, as in the source.
    """

    row: str
    environment: str
    steps: int
    score: float
    spread: float
    trainer: dict[str, int]
    policy: dict[str, Any]
    deterministic: bool = True

    @property
    def outside(self) -> str:
        """The id of the Gymnasium environment."""
        return self.row.split("-", 2)[2]

    def config(self, seed: int, folder: str) -> dict[str, Any]:
        """Return the run configuration."""
        return {
            "name": self.row.replace("-", "_"),
            "env": {"name": self.environment},
            "trainer": {**self.trainer, "total_steps": self.steps, "seed": seed, "torch_threads": 1, **POOL},
            "policy": {"agent": self.policy},
            "saving": {"folder": folder, "tensorboard": False, "log_every": 1000, "checkpoint_every": 1_000_000},
        }


POOL = {"reset_pool_size": 10_000}
"""Start states differ in every episode in Gymnasium; a large pool approximates this."""


def _dqn(width: int, explored: int, last: float, **settings: Any) -> dict[str, Any]:
    """Return the settings of Stable-Baselines3's DQN: not double; epsilon decays linearly over ``explored`` steps."""
    model = {"hidden": [width, width], "activation": "relu", "initialization": "uniform"}
    epsilon = [[0, 1.0], [explored, last]]
    return {"algorithm": "dqn", "double": False, "epsilon": epsilon, "model": model, **settings}


def _continuous(algorithm: str, hidden: list[int], **settings: Any) -> dict[str, Any]:
    model = {"hidden": hidden, "activation": "relu", "initialization": "uniform"}
    return {"algorithm": algorithm, "lr": 1e-3, "tau": 0.005, "gradient_steps": 1, "model": model, **settings}


def _cleanrl(environment: str, ours: str, score: float, spread: float) -> Published:
    policy = {
        "algorithm": "ppo",
        "lr": {"schedule": "linear", "start": 2.5e-4, "end": 0.0},
        "gamma": 0.99,
        "gae_lambda": 0.95,
        "epochs": 4,
        "minibatches": 4,
        "clip": 0.2,
        "value_clip": 0.2,
        "entropy_coef": 0.01,
        "value_coef": 0.5,
        "max_grad_norm": 0.5,
    }
    trainer = {"num_envs": 4, "train_batch_size": 512}
    return Published(f"cleanrl-ppo-{environment}", ours, 500_000, score, spread, trainer, policy, deterministic=False)


# Stable-Baselines3 counts environment steps between two updates of the target network, WarpDrive counts gradient steps:
# its 10 steps are less than one of CartPole's training phases of 128 gradient steps; its 600 are 300 of MountainCar's.
ONE_STEP = {"num_envs": 1, "train_batch_size": 1}
DETERMINISTIC = {"gamma": 0.98, "buffer_size": 200_000, "learning_starts": 10_000, "batch_size": 256}
NOISE = {"noise": {"type": "gaussian", "std": 0.1}}
SB3_SETTINGS = ["lr", "gamma", "batch_size", "buffer_size", "learning_starts", "gradient_steps"]
SB3_NAMES = {"lr": "learning_rate"}
ROWS = [
    Published(
        "zoo-dqn-CartPole-v1", "cartpole", 50_000, 500.0, 0.0, {"num_envs": 1, "train_batch_size": 256},
        _dqn(256, 8000, 0.04, lr=2.3e-3, gamma=0.99, batch_size=64, buffer_size=100_000, learning_starts=1000,
             gradient_steps=128, target_update_every=128),
    ),
    Published(
        "zoo-dqn-Acrobot-v1", "acrobot", 100_000, -76.639, 11.752, {"num_envs": 1, "train_batch_size": 4},
        _dqn(256, 12_000, 0.1, lr=6.3e-4, gamma=0.99, batch_size=128, buffer_size=50_000, learning_starts=0,
             gradient_steps=4, target_update_every=250),
    ),
    Published(
        "zoo-dqn-MountainCar-v0", "mountain_car", 120_000, -100.849, 9.925, {"num_envs": 1, "train_batch_size": 16},
        _dqn(256, 24_000, 0.07, lr=4e-3, gamma=0.98, batch_size=128, buffer_size=10_000, learning_starts=1000,
             gradient_steps=8, target_update_every=300),
    ),
    Published(
        "zoo-ppo-Acrobot-v1", "acrobot", 1_000_000, -73.506, 18.201, {"num_envs": 16, "train_batch_size": 4096},
        {"algorithm": "ppo", "lr": 3e-4, "gamma": 0.99, "gae_lambda": 0.94, "epochs": 4, "minibatches": 64,
         "entropy_coef": 0.0, "normalize_returns": True, "model": {"normalize_observations": True}},
    ),
    Published(
        "zoo-sac-Pendulum-v1", "pendulum", 20_000, -156.995, 88.714, ONE_STEP,
        _continuous("sac", [256, 256], gamma=0.99, buffer_size=1_000_000, learning_starts=100, batch_size=256),
    ),
    Published(
        "zoo-td3-Pendulum-v1", "pendulum", 20_000, -151.855, 90.227, ONE_STEP,
        _continuous("td3", [400, 300], **DETERMINISTIC, **NOISE),
    ),
    Published(
        "zoo-ddpg-Pendulum-v1", "pendulum", 20_000, -152.099, 94.282, ONE_STEP,
        _continuous("ddpg", [400, 300], **DETERMINISTIC, **NOISE),
    ),
    _cleanrl("CartPole-v1", "cartpole", 490.04, 6.12),
    _cleanrl("Acrobot-v1", "acrobot", -86.36, 1.32),
]  # fmt: skip


def train(published: Published, seed: int) -> float:
    """Train in this process and return the mean return in Gymnasium's environment."""
    import warpdrive as wd
    from warpdrive.training.config.load import load_config
    from warpdrive.training.trainer import make_env

    with tempfile.TemporaryDirectory() as folder:
        config = load_config(published.config(seed, folder))
        summary = wd.Trainer(make_env(config), config).train()
        policy = wd.load_policy(summary.run_folder, seed=seed)
        return play(published.outside, EPISODES, lambda seen: policy.act(seen, deterministic=published.deterministic))


def train_with_sb3(published: Published, seed: int) -> float:
    """Return the mean return of Stable-Baselines3's own DQN with the settings of a row."""
    import torch
    from stable_baselines3 import DQN  # type: ignore[import-not-found]

    torch.set_num_threads(1)
    policy, train_freq = published.policy, published.trainer["train_batch_size"]
    (_, first), (explored, last) = policy["epsilon"]
    model = DQN(
        "MlpPolicy",
        published.outside,
        **{SB3_NAMES.get(name, name): policy[name] for name in SB3_SETTINGS},
        train_freq=train_freq,
        target_update_interval=policy["target_update_every"] * train_freq // policy["gradient_steps"],
        exploration_initial_eps=first,
        exploration_final_eps=last,
        exploration_fraction=explored / published.steps,
        policy_kwargs={"net_arch": policy["model"]["hidden"]},
        seed=seed,
    )
    model.learn(published.steps)
    return play(published.outside, EPISODES, lambda seen: model.predict(seen, deterministic=True)[0])


def measured(published: Published, seed: int) -> float:
    """Train in a separate process, print the duration, and return the mean return."""
    began = time.perf_counter()
    command = [sys.executable, __file__, "--only", published.row, "--seeds", str(seed), "--here"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    score = float(json.loads(done.stdout.splitlines()[-1]))
    seconds = time.perf_counter() - began
    print(f"{published.row}, seed {seed}: {score:.1f} in {seconds:.0f} s", file=sys.stderr, flush=True)
    return score


def line(published: Published, scores: Sequence[float]) -> str:
    """Return a line of the table."""
    mean, spread = statistics.mean(scores), statistics.stdev(scores) if len(scores) > 1 else 0.0
    below = published.score - mean
    cells = [
        f"`{published.row}`",
        f"{published.steps:,}",
        f"{published.score:.1f}",
        f"{published.spread:.1f}",
        f"{mean:.1f}",
        f"{spread:.1f}",
        ", ".join(f"{score:.1f}" for score in scores),
        f"by {below:.1f}" if below > max(published.spread, spread) else "no",
    ]
    return f"| {' | '.join(cells)} |"


def write(lines: Sequence[str]) -> None:
    """Write the given rows to the page; other rows are kept."""
    text = PAGE.read_text(encoding="utf-8")
    former = text.partition(BEGIN)[2].partition(END)[0]
    known = {row.split("|")[1].strip(" `"): row for row in (*former.splitlines(), *lines) if row.startswith("| `")}
    table = "\n".join([BEGIN, *HEAD, *(known[published.row] for published in ROWS if published.row in known), END])
    PAGE.write_text(re.sub(f"{BEGIN}.*{END}", lambda _: table, text, flags=re.DOTALL), encoding="utf-8")


def main() -> None:
    """Train and evaluate the rows, and print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [published.row for published in ROWS]
    parser.add_argument(
        "--only", nargs="+", choices=names, default=names, metavar="ROW", help=f"rows (default: {', '.join(names)})"
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2], help="seeds (default: 0 1 2)")
    parser.add_argument("--no-write", action="store_true", help="print the table without writing it")
    parser.add_argument(
        "--sb3", action="store_true", help="train the DQN rows with Stable-Baselines3; nothing is written"
    )
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)  # one run, in this process
    options = parser.parse_args()
    chosen = [published for published in ROWS if published.row in options.only]
    if options.sb3:
        for published in chosen:
            if published.policy["algorithm"] == "dqn":
                for seed in options.seeds:
                    score = train_with_sb3(published, seed)
                    print(f"Stable-Baselines3, {published.row}, seed {seed}: {score:.1f}", flush=True)
        return
    if options.here:
        print(json.dumps(train(chosen[0], options.seeds[0])))
        return
    print("\n".join(HEAD), flush=True)
    for published in chosen:
        text = line(published, [measured(published, seed) for seed in options.seeds])
        print(text, flush=True)
        if not options.no_write:
            write([text])


if __name__ == "__main__":
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    main()
