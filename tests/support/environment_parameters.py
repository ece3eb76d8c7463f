"""Parameters of the registered environments with which several tests compare backends."""

from __future__ import annotations

from typing import Any

SHORT = {"episode_length": 17}
WAREHOUSE = """
......
.xx.x.
.xx.x.
.gg...
"""
CONFIGURATIONS: dict[str, list[dict[str, Any]]] = {
    "tag_gridworld": [
        {**SHORT, "num_taggers": 2, "grid_length": 4, "random_starts": True, "seed": 3, "wall_hit_penalty": 0.7},
        {**SHORT, "num_taggers": 40, "grid_length": 9, "use_full_observation": False},
    ],
    "tag_continuous": [
        {
            **SHORT,
            "num_taggers": 2,
            "num_runners": 3,
            "grid_length": 3.0,
            "tagging_distance": 0.1,
            "seed": 1,
            "runner_exits_game_after_tagged": False,
            "edge_hit_penalty": -0.5,
            "max_turn": 2.5,
            "min_turn": -7.0,
            "skill_level_tagger": 2.0,
        },
        {
            **SHORT,
            "num_taggers": 4,
            "num_runners": 29,
            "use_full_observation": False,
            "num_other_agents_observed": 5,
            "tagging_distance": 0.05,
        },
    ],
    "battle": [
        {**SHORT, "agents_per_team": 4, "map_size": 6, "random_starts": True, "view_range": 1, "damage": 5.0},
        {**SHORT, "agents_per_team": 9, "map_size": 8, "spacing": 1, "gap": 0, "minimap": True, "damage": 5.0},
    ],
    "cartpole": [
        {
            **SHORT,
            "gravity": 12.0,
            "push_force": 25.0,
            "see_velocities": False,
            "pole_mass": 0.3,
            "start_range": 0.15,
            "time_step": 0.05,
        }
    ],
    "acrobot": [{**SHORT, "gravity": 6.0}],
    "mountain_car": [{**SHORT, "force": 0.02, "goal_position": 0.1}],
    "continuous_mountain_car": [{**SHORT, "power": 0.02, "goal_position": 0.1}],
    "pendulum": [{**SHORT, "length": 1.5}],
    "flock": [{**SHORT, "num_boids": 9, "world_size": 3.0, "num_neighbours": 3, "max_turn": 2.5}],
    "simple_spread": [{**SHORT, "num_agents": 5, "num_landmarks": 2, "continuous_actions": True}],
    "lbf": [
        {
            "max_episode_steps": 17,
            "players": 4,
            "field_size": 5,
            "sight": 2,
            "penalty": 0.1,
            "force_coop": False,
            "max_player_level": [1, 2, 3, 2],
        },
        {"max_episode_steps": 17, "players": 3, "field_size": (6, 4), "sight": 1, "grid_observation": True},
    ],
    "matrix_game": [
        {**SHORT, "payoff": [[1.5, -2.0, 3.0], [4.0, 5.0, -6.0]], "observe_actions": True},
        {**SHORT, "payoff": "climbing-3p"},
    ],
    "connect_four": [
        {"rows": 2, "columns": 4, "connect": 3},
        {"rows": 9, "columns": 8, "connect": 5, "starts": "yellow"},
    ],
    "overcooked": [
        {
            "horizon": 17,
            "layout": "counter_circuit",
            "encoding": "featurize_state",
            "random_start_positions": True,
            "random_objects": 0.7,
        },
        {
            "horizon": 17,
            "layout": "XXPXX\nO 3 T\nX1 2X\nXDXSX",
            "old_dynamics": True,
            "channels_first": True,
            "params_to_overwrite": {"start_all_orders": [{"ingredients": ["onion", "onion", "tomato"]}]},
        },
    ],
    "smax": [
        {"max_steps": 16, "scenario": "1m1z_vs_2g1s", "attack_mode": "random", "map_width": 16.0},
        {"max_steps": 16, "scenario": "smacv2_3_units", "enemies": "agents", "map_height": 20.0},
    ],
    "simple": [SHORT],
    "simple_adversary": [{**SHORT, "num_good_agents": 4}],
    "simple_crypto": [SHORT],
    "simple_push": [SHORT],
    "simple_reference": [SHORT],
    "simple_speaker_listener": [SHORT],
    "simple_world_comm": [{**SHORT, "num_adversaries": 2, "num_forests": 3}],
    "rware": [
        {"max_steps": 17, "n_agents": 6, "request_queue_size": 4, "layout": WAREHOUSE, "max_inactivity_steps": 12},
        {
            "max_steps": 17,
            "n_agents": 3,
            "msg_bits": 2,
            "sensor_range": 2,
            "layout": WAREHOUSE,
            "request_queue_size": 3,
            "reward_type": "two_stage",
            "observation_type": "dict",
        },
    ],
    "simple_tag": [{**SHORT, "num_adversaries": 2, "num_good_agents": 2, "num_obstacles": 3}],
}
"""Configurations by the registered name, with short episodes, so that many end.

Tests that use the same ones share compiled kernels, of which numbers of agents and sizes of observations are constants.
"""
LENGTH = {
    "lbf": "max_episode_steps",
    "overcooked": "horizon",
    "rware": "max_steps",
    "smax": "max_steps",
    "connect_four": None,
}
"""Names of the parameter for the length of an episode, where it is not ``episode_length``; None if there is none."""
UNLIKE = [
    name for name in CONFIGURATIONS if name in ("simple_tag", "simple_world_comm") or not name.startswith("simple")
]
"""Environments that differ in more than their rules; the other particle environments share spaces and kernels."""
