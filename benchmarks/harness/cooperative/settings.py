"""Settings of training: one table by family and algorithm, and differences for single tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.cooperative.tasks import Task

Setting = dict[str, Any]
"""``steps``: environment steps; ``trainer`` and ``policy``: keys of a run configuration; ``env``: parameters of the
environment that differ in training.
"""

ALGORITHMS = {"ippo": "IPPO", "mappo": "MAPPO", "qmix": "QMIX", "vdn": "VDN"}
GREEDY = ("qmix", "vdn")
"""Algorithms whose policies take the best action when they are tested; the others sample, as in EPyMARL."""
MILLION = 1_000_000


TEAM = {"agent_ids": True, "team_reward": "sum"}
CENTRAL = {"centralized_critic": True}
JOINT = CENTRAL | {"critic_input": "observations"}
"""Observations of all agents as input of MAPPO's critic, as in EPyMARL, instead of the environment's own state."""
OWN = CENTRAL | {"critic_input": "agent_specific"}
"""The agent's own observation beside the environment's state."""
ACTIVATION = {"activation": "relu", "normalize_observations": True}
UNIFORM = {"initialization": "uniform"}
"""Initialisation of smaller action values than an orthogonal one's."""
NETWORK = {"hidden": [64, 64], **ACTIVATION}
RECURRENT = {"type": "gru", "hidden": [64], "units": 64, **ACTIVATION}
TANH = NETWORK | {"activation": "tanh"}
WAREHOUSE_STEPS = 40 * MILLION
WAREHOUSE = {
    "lr": [[0, 1e-3], [WAREHOUSE_STEPS, 1e-4]],
    "gamma": 0.99,
    "epochs": 1,
    "minibatches": 8,
    "normalize_advantage": False,
    "normalize_returns": True,
    "entropy_coef": [[0, 5e-4], [WAREHOUSE_STEPS, 0.0]],
}
"""For rare rewards: standardised advantages of rollouts that have none would be noise of full size."""
LR_DECAY = {"schedule": "linear", "start": 1e-3, "end": 1e-4}
ENTROPY_DECAY = {"schedule": "linear", "start": 0.01, "end": 0.0}
"""Schedule of the entropy coefficient of policies that are evaluated with sampled actions."""
PPO = {"algorithm": "ppo", "epochs": 4, "minibatches": 4, "gae_lambda": 0.95, "model": NETWORK}
MIXED = {
    "agent_ids": True,
    "model": RECURRENT,
    "normalize_rewards": True,
    "lr": 5e-4,
    "gamma": 0.95,
    "td_lambda": 0.6,
    "batch_size": 64,
    "buffer_size": 20_000,
    "gradient_steps": 2,
    "tau": 0.01,
    "target_update_every": 1,
    "learning_starts": 5000,
}
FORAGING_STEPS = 2_500_000
FORAGING_VALUES = {
    "lr": [[0, 1e-3], [FORAGING_STEPS, 1e-4]],
    "gamma": 0.9,
    "td_lambda": 0.3,
    "tau": 0.02,
    "gradient_steps": 8,
    "model": RECURRENT | UNIFORM,
}
"""Foraging pays late and little. Values of an orthogonal initialisation are larger than any return for long,
and with a discount factor near 1 the values of an agent's actions hardly differ: greedy policies load where no food is.
"""
PARTICLE_VALUES = {
    "lr": [[0, 1e-3], [MILLION, 1e-4]],
    "gamma": 0.9,
    "gradient_steps": 4,
    "model": {"hidden": [128, 128], **ACTIVATION, **UNIFORM},
}
WAREHOUSE_VALUE_STEPS = 2 * MILLION
WAREHOUSE_VALUES = {
    "lr": [[0, 1e-3], [WAREHOUSE_VALUE_STEPS, 1e-4]],
    "gamma": 0.99,
    "td_lambda": 0.9,
    "gradient_steps": 4,
    "model": RECURRENT | UNIFORM,
}
"""Long returns carry the reward of the first deliveries, which are rare, to the steps that led to them."""
GAME = {"model": {"hidden": [16]}, "agent_ids": True}
"""Best joint actions can differ between agents: a shared policy has to know them apart."""
REPEATED = {"model": {"hidden": [64], "activation": "relu"}, "gamma": 0.0, "buffer_size": 400, "learning_starts": 1000}
"""For games that only repeat: no memory, and no experience of former policies, in which coordination looked worse."""


def _both(
    steps: int, num_envs: int, train_batch_size: int, critic: Mapping[str, Any] = CENTRAL, **policy: Any
) -> dict[str, Setting]:
    """Return the settings of IPPO and of MAPPO, which has a separate critic."""
    trainer = {"num_envs": num_envs, "train_batch_size": train_batch_size}
    ippo = {"steps": steps, "trainer": trainer, "policy": PPO | policy}
    return {"ippo": ippo, "mappo": ippo | {"policy": PPO | policy | critic}}


def _mixed(steps: int, num_envs: int, length: int, annealed: int, **policy: Any) -> dict[str, Setting]:
    """Return the settings of QMIX and VDN: the length of sequences, and the steps in which epsilon decreases."""
    trainer = {"num_envs": num_envs, "train_batch_size": num_envs * length, "stagger_episodes": True}
    own = {"steps": steps, "trainer": trainer}
    policy = MIXED | {"epsilon": [[0, 1.0], [annealed, 0.05]], **policy}
    return {name: own | {"policy": policy | {"algorithm": name}} for name in ("qmix", "vdn")}


def _many_replicas(
    num_envs: int, length: int, annealed: int, buffer_size: int, steps: int = 10 * MILLION, **policy: Any
) -> Setting:
    """Return a change of QMIX and VDN to more replicas and as many times the steps, with as many gradient steps.

    Each sequence is then learned from less often.
    """
    schedules = {"lr": [[0, 1e-3], [steps, 1e-4]], "epsilon": [[0, 1.0], [annealed, 0.05]]}
    trainer = {"num_envs": num_envs, "train_batch_size": num_envs * length}
    return {"steps": steps, "trainer": trainer, "policy": {**policy, **schedules, "buffer_size": buffer_size}}


def _exploring(steps: int, entropy: float = 0.05, **policy: Any) -> Setting:
    """Return settings for the kitchens in which some runs otherwise deliver no or few soups."""
    return {
        "steps": steps,
        "trainer": {"num_envs": 128, "train_batch_size": 12_800},
        "policy": {"lr": [[0, 1e-3], [steps, 1e-4]], "entropy_coef": [[0, entropy], [2 * steps // 3, 0.01]], **policy},
    }


SETTINGS: dict[str, dict[str, Setting]] = {
    "matrix": {
        **_both(100_000, 64, 1600, lr=3e-3, gamma=0.0, entropy_coef=[[0, 1.0], [60_000, 0.01]], **GAME),
        **_mixed(100_000, 8, 25, 50_000, **REPEATED),
    },
    "mpe": {
        **_both(3 * MILLION, 64, 1600, **TEAM, lr=1e-3, gamma=0.95, entropy_coef=0.01),
        **_mixed(MILLION, 32, 25, 100_000, **PARTICLE_VALUES),
    },
    "lbf": {
        **_both(10 * MILLION, 32, 1024, OWN, lr=LR_DECAY, gamma=0.95, epochs=2, entropy_coef=ENTROPY_DECAY, model=TANH),
        **_mixed(FORAGING_STEPS, 64, 10, 400_000, **FORAGING_VALUES),
    },
    "rware": {
        **_both(WAREHOUSE_STEPS, 256, 32_768, JOINT, **WAREHOUSE),
        **_mixed(WAREHOUSE_VALUE_STEPS, 64, 20, MILLION, **WAREHOUSE_VALUES),
    },
    "overcooked": _both(3 * MILLION, 64, 6400, JOINT, lr=1e-3, gamma=0.99, entropy_coef=0.01, normalize_returns=True),
}

SPREAD = {
    "team_reward": "own",
    "agent_ids": False,
    "model": {"hidden": [64, 64]},
    "lr": [[0, 3e-3], [3 * MILLION, 2e-4]],
    "gamma": 0.9,
    "epochs": 2,
    "minibatches": 8,
    "entropy_coef": [[0, 0.01], [2_600_000, 0.0]],
    "normalize_returns": True,
}
CHASE_STEPS = 10 * MILLION
CHASE: Setting = {
    "steps": CHASE_STEPS,
    "policy": SPREAD | TEAM | {"lr": [[0, 3e-3], [CHASE_STEPS, 2e-4]], "entropy_coef": [[0, 0.01], [8 * MILLION, 0.0]]},
}
CHASE_ALONE: Setting = {
    "steps": 2 * CHASE_STEPS,
    "policy": CHASE["policy"]
    | {"lr": [[0, 3e-3], [2 * CHASE_STEPS, 2e-4]], "entropy_coef": [[0, 0.01], [16 * MILLION, 0.0]]},
}
"""For actors without a central critic, whose returns still grow after 10 million steps."""
LANGUAGE = SPREAD | TEAM | {"entropy_coef": [[0, 0.03], [2_600_000, 0.0]]}
LANGUAGE_ALONE: Setting = {
    "steps": 6 * MILLION,
    "policy": {
        "lr": [[0, 1e-3], [3 * MILLION, 1e-3], [6 * MILLION, 1e-4]],
        "entropy_coef": [[0, 0.01], [3 * MILLION, 0.01], [5 * MILLION, 0.0]],
    },
}
"""For actors without a central critic, of which some stay silent if entropy or learning rate is higher at first."""
DECEPTION: Setting = CHASE | {
    "trainer": {"num_envs": 256, "train_batch_size": 6400},
    "policy": CHASE["policy"]
    | {
        "model": {"type": "gru", "hidden": [64], "units": 64},
        "gamma": 0.95,
        "epochs": 4,
        "entropy_coef": [[0, 0.03], [6 * MILLION, 0.0]],
    },
}
"""Agents do not observe their velocities, and both go to the goal at first, although one of them has to lead astray."""
WITHIN_EPISODES = {
    "gamma": 0.95,
    "td_lambda": 0.8,
    "bootstrap_truncated": False,
    "gradient_steps": 16,
    "model": {"hidden": [64, 64], **ACTIVATION, **UNIFORM},
}
"""More gradient steps, with which values bootstrapped after the time limit grow while returns fall."""
MANY_REPLICAS = _many_replicas(160, 25, 500_000, 100_000, **WITHIN_EPISODES)
COVERAGE_STEPS = 5 * MILLION
COVERAGE: Setting = MANY_REPLICAS | {
    "steps": COVERAGE_STEPS,
    "policy": MANY_REPLICAS["policy"]
    | {
        "lr": [[0, 3e-3], [COVERAGE_STEPS, 1e-4]],
        "gamma": 0.9,
        "model": {"hidden": [128, 128], **ACTIVATION, **UNIFORM},
    },
}
TOLD = _many_replicas(160, 25, 500_000, 100_000)
"""For a listener, whose values are bootstrapped after the time limit."""
LARGE_FIELD = _many_replicas(256, 10, 1_600_000, 80_000)
"""For foraging's larger tasks."""
MANY_FOODS = _many_replicas(1024, 10, 6_400_000, 80_000, 40 * MILLION)
"""For five foods and three players, for whom 10 million steps are too few."""
RARE_DELIVERIES = _many_replicas(1024, 20, 16 * MILLION, 60_000, WAREHOUSE_STEPS)
"""For the small warehouse, in which 2 million steps have hardly any delivery."""
REMEMBERING: Setting = {
    "steps": 2 * MILLION,
    "policy": WITHIN_EPISODES
    | {
        "lr": [[0, 1e-3], [2 * MILLION, 1e-4]],
        "gradient_steps": 8,
        "epsilon": [[0, 1.0], [400_000, 0.05]],
        "model": RECURRENT | UNIFORM,
    },
}
"""For agents that do not observe their velocities."""
SMALL_FIELD: Setting = {
    "steps": 4 * MILLION,
    "trainer": {"num_envs": 64, "train_batch_size": 2048},
    "policy": {"epochs": 4, "model": NETWORK},
}
"""For foraging's smallest task, of which one of five runs with smaller updates failed."""
THREE_FOODS: Setting = {"policy": {"entropy_coef": ENTROPY_DECAY | {"start": 0.03}}}
"""With less entropy some runs stay at 0.85."""
WHOLE_SOUPS = {
    "start_all_orders": [{"ingredients": ["onion"] * number} for number in (1, 2, 3)],
    "recipe_values": [0, 0, 20],
    "recipe_times": [400, 400, 20],
}
"""Soups that take the whole episode unless they have three onions: policies otherwise cook single onions for the shaped
rewards of dishes and soups, and never deliver.
"""
CIRCUIT: Setting = {"env": {"params_to_overwrite": WHOLE_SOUPS}}
MEMORY = {"policy": {"epochs": 4, "model": RECURRENT}}
LIMITED_SIGHT: Setting = {
    "steps": 12 * MILLION,
    "trainer": {"num_envs": 256, "train_batch_size": 8192},
    "policy": MEMORY["policy"] | {"minibatches": 8},
}
"""Larger updates, with which recurrent units take fewer minutes for more steps."""
CHANGES: dict[tuple[str, str], Setting] = {
    **{
        (task, algorithm): change
        for algorithm in ("ippo", "mappo")
        for task, change in {
            "mpe-spread": {"policy": SPREAD},
            "mpe-tag": CHASE,
            "mpe-adversary": DECEPTION,
            "lbf-8x8-2p-2f-coop": SMALL_FIELD,
            "lbf-8x8-2p-2f-2s-coop": {"steps": 3 * MILLION, **MEMORY},
            "lbf-10x10-3p-3f": THREE_FOODS,
            "lbf-15x15-4p-3f": THREE_FOODS,
            "lbf-15x15-3p-5f": {"steps": 20 * MILLION},
            "lbf-15x15-4p-5f": {"steps": 5 * MILLION, "policy": {"epochs": 4}},
            "lbf-10x10-3p-3f-2s": LIMITED_SIGHT,
            "overcooked-coordination_ring": _exploring(6 * MILLION),
            "overcooked-forced_coordination": _exploring(6 * MILLION),
        }.items()
    },
    **{
        (task, algorithm): change
        for algorithm in ("qmix", "vdn")
        for task, change in {
            "mpe-spread": COVERAGE,
            "mpe-tag": MANY_REPLICAS,
            "mpe-adversary": REMEMBERING,
            "mpe-speaker-listener": TOLD,
            "lbf-10x10-3p-3f": LARGE_FIELD,
            "lbf-10x10-3p-3f-2s": LARGE_FIELD,
            "lbf-15x15-4p-3f": LARGE_FIELD,
            "lbf-15x15-3p-5f": MANY_FOODS,
            "lbf-15x15-4p-5f": LARGE_FIELD,
            "rware-small-4ag": RARE_DELIVERIES,
        }.items()
    },
    ("mpe-adversary", "mappo"): DECEPTION | {"policy": DECEPTION["policy"] | OWN},
    ("mpe-speaker-listener", "ippo"): LANGUAGE_ALONE,
    ("mpe-speaker-listener", "mappo"): {"policy": LANGUAGE},
    ("mpe-tag", "ippo"): CHASE_ALONE,
    ("overcooked-counter_circuit_o_1order", "ippo"): _exploring(6 * MILLION, 0.1) | CIRCUIT,
    ("overcooked-counter_circuit_o_1order", "mappo"): _exploring(12 * MILLION, 0.1, **OWN) | CIRCUIT,
}
"""Differences by task and algorithm; ``trainer``, ``policy`` and ``env`` are merged with the settings of the family."""


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
        scale: Factor of the number of environment steps, and of the steps of schedules.
    """
    base, change = SETTINGS[task.family][algorithm], CHANGES.get((task.name, algorithm), {})
    trainer = base["trainer"] | change.get("trainer", {})
    policy = {key: _scaled(value, scale) for key, value in (base["policy"] | change.get("policy", {})).items()}
    steps = max(trainer["train_batch_size"], round(change.get("steps", base["steps"]) * scale))
    opponent = {"algorithm": "function", "function": f"harness.cooperative.opponents:{task.opponent}"}
    return {
        "name": f"{task.name}_{algorithm}".replace("-", "_"),
        "env": {"name": task.environment, **task.parameters, **change.get("env", {})},
        "trainer": {"total_steps": steps, "seed": seed, "torch_threads": 1, **trainer},
        "policy": {tag: policy for tag in task.learning} | {tag: opponent for tag in task.others},
        "saving": {"folder": folder, "tensorboard": False, "checkpoint_every": MILLION, "log_every": 1},
    }


def _scaled(value: Any, factor: float) -> Any:
    """Return a schedule, points of steps and values, with its steps scaled; other values are unchanged."""
    if not (isinstance(value, list) and all(isinstance(point, list) for point in value)):
        return value
    return [[max(n, round(step * factor)), number] for n, (step, number) in enumerate(value)]  # steps increase
