"""Settings of training: one table by family and algorithm, and what differs for single tasks."""

from __future__ import annotations

from typing import Any

from harness.cooperative.tasks import Task

Setting = dict[str, Any]
"""``steps``: environment steps; ``trainer`` and ``policy``: keys of a run configuration."""

ALGORITHMS = {"ippo": "IPPO", "mappo": "MAPPO", "qmix": "QMIX", "vdn": "VDN", "pqn_vdn": "PQN-VDN"}
GREEDY = ("qmix", "vdn", "pqn_vdn")
"""Algorithms whose policies take the best action when they are tested; the others sample, as in EPyMARL."""
MILLION = 1_000_000


def _ppo(**changes: Any) -> dict[str, Any]:
    network = {"hidden": [64, 64], "activation": "relu", "normalize_observations": True}
    return {"algorithm": "ppo", "epochs": 4, "minibatches": 4, "gae_lambda": 0.95, "model": network, **changes}


CENTRAL = {"centralized_critic": True}
_MATRIX = _ppo(lr=3e-3, gamma=0.0, entropy_coef=[[0, 1.0], [60_000, 0.01]], model={"hidden": [16]})
_PARTICLES = _ppo(lr=1e-3, gamma=0.95, entropy_coef=0.01)
_FORAGING = _ppo(lr=1e-3, gamma=0.95, entropy_coef=0.01)
_WAREHOUSE = _ppo(lr=5e-4, gamma=0.99, entropy_coef=0.01)
_KITCHEN = _ppo(lr=5e-4, gamma=0.99, entropy_coef=0.01)

SETTINGS: dict[str, dict[str, Setting]] = {
    "matrix": {
        "ippo": {"steps": 100_000, "trainer": {"num_envs": 64, "train_batch_size": 1600}, "policy": _MATRIX},
        "mappo": {
            "steps": 100_000,
            "trainer": {"num_envs": 64, "train_batch_size": 1600},
            "policy": _MATRIX | CENTRAL,
        },
    },
    "mpe": {
        "ippo": {"steps": 5 * MILLION, "trainer": {"num_envs": 256, "train_batch_size": 6400}, "policy": _PARTICLES},
        "mappo": {
            "steps": 5 * MILLION,
            "trainer": {"num_envs": 256, "train_batch_size": 6400},
            "policy": _PARTICLES | CENTRAL,
        },
    },
    "lbf": {
        "ippo": {"steps": 6 * MILLION, "trainer": {"num_envs": 64, "train_batch_size": 2048}, "policy": _FORAGING},
        "mappo": {
            "steps": 6 * MILLION,
            "trainer": {"num_envs": 64, "train_batch_size": 2048},
            "policy": _FORAGING | CENTRAL,
        },
    },
    "rware": {
        "ippo": {"steps": 20 * MILLION, "trainer": {"num_envs": 256, "train_batch_size": 16384}, "policy": _WAREHOUSE},
        "mappo": {
            "steps": 20 * MILLION,
            "trainer": {"num_envs": 256, "train_batch_size": 16384},
            "policy": _WAREHOUSE | CENTRAL,
        },
    },
    "overcooked": {
        "ippo": {"steps": 5 * MILLION, "trainer": {"num_envs": 64, "train_batch_size": 12800}, "policy": _KITCHEN},
        "mappo": {
            "steps": 5 * MILLION,
            "trainer": {"num_envs": 64, "train_batch_size": 12800},
            "policy": _KITCHEN | CENTRAL,
        },
    },
}

CHANGES: dict[tuple[str, str], Setting] = {
    ("lbf-8x8-2p-2f-coop", "ippo"): {"steps": 3 * MILLION},
    ("lbf-8x8-2p-2f-coop", "mappo"): {"steps": 3 * MILLION},
}
"""What differs for a task and an algorithm; ``trainer`` and ``policy`` are merged."""


def algorithms_of(task: Task) -> list[str]:
    """Return the algorithms that the task is trained with."""
    return [name for name in ALGORITHMS if name in SETTINGS[task.family]]


def configuration(task: Task, algorithm: str, seed: int, folder: str, scale: float = 1.0) -> dict[str, Any]:
    """Return the run configuration of a task.

    Args:
        task: The task.
        algorithm: One of ``ALGORITHMS``.
        seed: The seed.
        folder: Where the run folder is made.
        scale: Factor of the number of environment steps.
    """
    base, change = SETTINGS[task.family][algorithm], CHANGES.get((task.name, algorithm), {})
    trainer = base["trainer"] | change.get("trainer", {})
    policy = base["policy"] | change.get("policy", {})
    steps = max(trainer["train_batch_size"], round(change.get("steps", base["steps"]) * scale))
    opponent = {"algorithm": "function", "function": f"harness.cooperative.opponents:{task.opponent}"}
    return {
        "name": f"{task.name}_{algorithm}".replace("-", "_"),
        "env": {"name": task.environment, **task.parameters},
        "trainer": {"total_steps": steps, "seed": seed, "torch_threads": 1, **trainer},
        "policy": {tag: policy for tag in task.learning} | {tag: opponent for tag in task.others},
        "saving": {"folder": folder, "tensorboard": False, "checkpoint_every": MILLION, "log_every": 1},
    }
