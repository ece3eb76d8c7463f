"""Reference of ``smax``: the classes of ``jaxmarl``, with the random numbers that the kernels draw."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpdrive.envs.smax import reference

if TYPE_CHECKING:
    from warpdrive.envs.smax.smax import Smax


class JaxMARL:
    """``SMAX``, or ``HeuristicEnemySMAX`` if enemies are no agents, as a :class:`warpdrive.testing.Reference`.

    Functions of ``jax.random`` are replaced while ``jaxmarl`` calls them: a key is a dict of the numbers to be drawn.

    Args:
        env: The environment under test.
    """

    def __init__(self, env: Smax) -> None:
        import jax.numpy as jnp
        from jaxmarl.environments import smax

        self.env = env
        types = jnp.array([*env.scenario.allies, *env.scenario.enemies], jnp.uint8)
        options = {
            "scenario": smax.Scenario(types, env.num_allies, env.num_enemies, env.draws_positions, env.draws_types),
            "map_width": env.map_width,
            "map_height": env.map_height,
            "world_steps_per_env_step": env.num_world_steps,
            "time_per_step": env.time_step,
            "use_self_play_reward": env.is_zero_sum,
            "see_enemy_actions": env.see_enemy_actions,
            "won_battle_bonus": env.won_battle_bonus,
            "walls_cause_death": env.walls_cause_death,
            "max_steps": env.max_steps,
        }
        if env.enemies_are_agents:
            self.original: Any = smax.SMAX(**options)
        else:
            mode = "random" if env.attacks_at_random else "closest"
            self.original = smax.HeuristicEnemySMAX(enemy_shoots=env.enemy_shoots, attack_mode=mode, **options)
        self._state: dict[str, Any] = {}
        self._theirs: Any = None

    def set_state(self, state: dict[str, Any]) -> None:
        """Put the original into a state."""
        import jax.numpy as jnp
        from jaxmarl.environments.smax.heuristic_enemy import HeuristicPolicyState
        from jaxmarl.environments.smax.heuristic_enemy_smax_env import State as StateWithEnemies
        from jaxmarl.environments.smax.smax_env import State

        first = self.env.num_allies
        action = np.asarray(state["last_action"])
        moves = np.where(action[:, None] < reference.STOP, reference.DIRECTIONS[action % 4], 0)
        state_of_units = State(
            unit_positions=jnp.stack([jnp.array(state["loc_x"]), jnp.array(state["loc_y"])], axis=-1),
            unit_alive=jnp.array(state["health"] > 0),
            unit_teams=jnp.array(np.arange(self.env.num_units) >= first, jnp.float32),
            unit_health=jnp.array(state["health"]),
            unit_types=jnp.array(state["unit_type"]),
            unit_weapon_cooldowns=jnp.array(state["cooldown"]),
            prev_movement_actions=jnp.array(moves, jnp.float32),
            prev_attack_actions=jnp.array(np.where(action >= reference.FIRST_ATTACK, action, 0), jnp.int32),
            step=jnp.array(int(state["timestep"])),
            done=jnp.array(False),
        )
        focus = np.asarray(state["focus"])[first:]
        policy = HeuristicPolicyState(
            default_target=jnp.stack([jnp.array(state["goal_x"]), jnp.array(state["goal_y"])], axis=-1)[first:],
            last_attacked_enemy=jnp.array(np.where(focus < 0, -1, first - 1 - focus), jnp.int32),
        )
        self._state = state
        self._theirs = (
            state_of_units
            if self.env.enemies_are_agents
            else StateWithEnemies(state=state_of_units, enemy_policy_state=policy)
        )

    def step(self, actions: Any) -> Mapping[str, Any]:
        """Take one step of the original, with the numbers that the reference in NumPy draws."""
        import jax.numpy as jnp

        self._state, drawn = reference.step_and_draws(self.env, self._state, actions)
        key = {"enemies": jnp.array(drawn.choices[self.env.num_allies :]), "world": jnp.array(drawn.deviations)}
        possible = jnp.array(self._state["last_action"][: self.env.num_agents])
        named = dict(zip(self.original.agents, possible, strict=True))
        with _numbers_instead_of_keys():
            seen, self._theirs, rewards, _, _ = self.original.step_env(key, self._theirs, named)
        theirs = self._theirs if self.env.enemies_are_agents else self._theirs.state
        alive = np.asarray(theirs.unit_alive)
        lost = not alive[: self.env.num_allies].any() or not alive[self.env.num_allies :].any()
        after: dict[str, Any] = {
            "loc_x": theirs.unit_positions[:, 0],
            "loc_y": theirs.unit_positions[:, 1],
            "health": theirs.unit_health,
            "cooldown": theirs.unit_weapon_cooldowns,
            "active": alive[: self.env.num_agents],
            "world_state": seen["world_state"],
            "action_mask": self._masks(),
            "rewards": [rewards[name] for name in self.original.agents],
            "terminated": lost,
        }
        return {name: np.asarray(value) for name, value in after.items()}

    def _masks(self) -> npt.NDArray[np.bool_]:
        masks = np.zeros((self.env.num_agents, self.env.num_actions), bool)
        for row, mask in zip(masks, self.original.get_avail_actions(self._theirs).values(), strict=True):
            row[: len(mask)] = np.asarray(mask)
        return masks

    def observations(self) -> npt.NDArray[np.float32]:
        """Return the observations of the present state."""
        seen = self.original.get_obs(self._theirs)
        return np.stack([np.asarray(seen[name]) for name in self.original.agents])


@contextmanager
def _numbers_instead_of_keys() -> Iterator[None]:
    """Replace the functions of ``jax.random`` that ``jaxmarl`` uses in a step."""
    import jax

    replaced = {"split": _split, "uniform": _uniform, "choice": _choice}
    kept = {name: getattr(jax.random, name) for name in replaced}
    try:
        for name, function in replaced.items():
            setattr(jax.random, name, function)
        yield
    finally:
        for name, function in kept.items():
            setattr(jax.random, name, function)


def _split(key: dict[str, Any], num: int = 2) -> Any:
    """Return the numbers of the parts of a step: enemies, each with two choices, and world steps, with all units."""
    import jax.numpy as jnp

    if "enemies" in key and "world" in key:
        return {"world": key["world"]}, {"enemies": key["enemies"]}
    if "enemies" in key:
        return {"enemy": key["enemies"]}
    if "enemy" in key:
        return {"choice": key["enemy"][1]}, {"choice": key["enemy"][0]}
    if "world" in key:
        return {"world": jnp.roll(key["world"], -1, axis=0)}, {"units": key["world"][0]}
    return {"unit": key["units"]}


def _uniform(key: dict[str, Any], minval: float = 0.0, maxval: float = 1.0) -> Any:
    return minval + (maxval - minval) * key["unit"]


def _choice(key: dict[str, Any], a: Any, p: Any) -> Any:
    """Return the element of ``a`` that is number ``key`` of those with a positive probability."""
    import jax.numpy as jnp

    return a[jnp.argmax(jnp.cumsum(p > 0) == key["choice"] + 1)]
