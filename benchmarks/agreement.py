"""Measure the agreement of the environments' kernels with their references: the table of docs/environments/index.md.

    python benchmarks/agreement.py                            # writes the table
    python benchmarks/agreement.py --steps 1000 --no-write    # fewer steps, print only
    python benchmarks/agreement.py lbf rware --steps 1000000  # these environments; the other rows are kept
    python benchmarks/agreement.py smax --against warpdrive.envs.smax.original:JaxMARL  # another reference

Kernels and references take the same actions, step by step from the same states, or over whole episodes from the same
start states. The table reports the largest difference of any observation or reward. A row is written as soon as it is
measured, if all steps agree. The exit code is 1 if any do not.
"""

from __future__ import annotations

import argparse
import itertools
from typing import Any

import numpy as np

import warpdrive as wd
from harness.agreement.table import cells_of, read_rows, row, write_table

HEAD = [
    "| environment | reference | compared | steps | episodes | largest difference | allowed | doubtful |",
    "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |",
]


BY_ACTIONS = {", discrete": {}, ", continuous": {"continuous_actions": True}}

SCENARIOS = (
    "simple",
    "simple_adversary",
    "simple_crypto",
    "simple_push",
    "simple_reference",
    "simple_speaker_listener",
    "simple_world_comm",
)
"""Particle environments whose constants are those of ``mpe2``."""

ENVIRONMENTS: dict[str, dict[str, dict[str, Any]]] = {
    "cartpole": {"": {}},
    "acrobot": {"": {}},
    "mountain_car": {"": {}},
    "continuous_mountain_car": {"": {}},
    "pendulum": {"": {}},
    "simple_spread": BY_ACTIONS,
    "simple_tag": BY_ACTIONS,
    **dict.fromkeys(SCENARIOS, BY_ACTIONS),
    "lbf": {
        ", 8x8-2p-2f-coop": {},
        ", 2s-10x10-3p-3f": {"field_size": 10, "players": 3, "max_num_food": 3, "sight": 2, "force_coop": False},
        ", 15x15-4p-5f": {"field_size": 15, "players": 4, "max_num_food": 5, "force_coop": False},
    },
    "matrix_game": {", climbing": {}, ", 3 agents": {"payoff": "climbing-3p", "observe_actions": True}},
    "connect_four": {", 6 x 7": {}, ", 9 x 9, five in a line": {"rows": 9, "columns": 9, "connect": 5}},
    "smax": {
        ", 3m": {},
        ", 3s5z_vs_3s6z": {"scenario": "3s5z_vs_3s6z"},
        ", smacv2_5_units, random attacks": {"scenario": "smacv2_5_units", "attack_mode": "random"},
        ", 6h_vs_8z, agents": {"scenario": "6h_vs_8z", "enemies": "agents", "see_enemy_actions": False},
    },
    "overcooked": {
        ", cramped_room": {},
        ", asymmetric_advantages, vectors": {"layout": "asymmetric_advantages", "encoding": "featurize_state"},
        ", coordination_ring, old dynamics": {"layout": "coordination_ring", "old_dynamics": True},
        ", forced_coordination, random start": {"layout": "forced_coordination", "random_start_positions": True},
        ", counter_circuit, random objects": {"layout": "counter_circuit", "random_objects": 0.5},
    },
    "rware": {
        ", tiny-2ag": {},
        ", tiny-4ag": {"n_agents": 4, "request_queue_size": 4},
        ", small-4ag": {"n_agents": 4, "request_queue_size": 4, "shelf_rows": 2},
        ", tiny-6ag-hard": {"n_agents": 6, "request_queue_size": 3},
        ", tiny-19ag": {"n_agents": 19, "request_queue_size": 19},
    },
    "flock": {", 20 boids": {"num_boids": 20, "world_size": 6.0}},
    "tag_gridworld": {"": {}},
    "tag_continuous": {", 3 taggers, 10 runners": {"num_taggers": 3, "num_runners": 10, "tagging_distance": 0.05}},
    "battle": {", 2 x 12 on 12 x 12 cells": {"agents_per_team": 12, "map_size": 12, "random_starts": True}},
}
"""Parameters to compare, by the name of the environment and that of the variant in the table."""


def line(
    name: str, variant: str, num_steps: int, whole_episodes: bool, against: str | None
) -> tuple[list[str], wd.testing.ParityReport]:
    """Return the cells of a row of the table, and the report."""
    env = wd.make(name, **ENVIRONMENTS[name][variant])
    found = wd.testing.check_parity(
        env, against, episodes=0, steps=num_steps, whole_episodes=whole_episodes, seed=17, replicas=50
    )
    allowed = env.parity.get("episode_tolerance") if whole_episodes else None
    cells = [
        f"`{name}`{variant}",
        found.reference,
        "whole episodes" if whole_episodes else "step by step",
        f"{found.steps:,}",
        f"{found.episodes:,}",
        f"{found.largest:.1e}",
        f"{allowed or env.parity['tolerance']:.0e}",
        str(found.doubtful),
    ]
    return cells, found


def main() -> None:
    """Compare all environments, and print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environments", nargs="*", help="environments to compare (default: all)", metavar="NAME")
    parser.add_argument("--steps", type=int, default=100_000, help="steps compared in each row (default: 100000)")
    parser.add_argument("--against", metavar="PACKAGE:CLASS", help="another reference, for one environment")
    parser.add_argument("--no-write", action="store_true", help="print the table without writing it")
    options = parser.parse_args()
    for name in options.environments:
        if name not in ENVIRONMENTS:
            parser.error(
                f"there is no environment {name!r} in this comparison, expected one of {', '.join(ENVIRONMENTS)}"
            )
    if options.against and len(options.environments) != 1:
        parser.error("--against needs the name of one environment")
    rows, disagreements = read_rows("agreement"), []
    for name in options.environments or ENVIRONMENTS:
        env = wd.make(name)
        state = env.initial_state(np.random.default_rng(0)).values()
        is_exact = not any(np.asarray(array).dtype.kind == "f" for array in state)
        kinds = [False, True] if is_exact or "episode_tolerance" in env.parity else [False]
        stored = {tuple(cells_of(text)[:3]): text for text in rows.get(name, ())}
        for variant, whole_episodes in itertools.product(ENVIRONMENTS[name], kinds):
            cells, found = line(name, variant, options.steps, whole_episodes, options.against)
            print(row(cells), flush=True)
            if not found:
                disagreements.append(str(found))
            elif not options.no_write:
                stored[tuple(cells[:3])] = row(cells)
                rows[name] = list(stored.values())
                write_table("agreement", HEAD + [text for key in ENVIRONMENTS for text in rows.get(key, ())])
    if disagreements:
        raise SystemExit("\n".join(disagreements))


if __name__ == "__main__":
    main()
