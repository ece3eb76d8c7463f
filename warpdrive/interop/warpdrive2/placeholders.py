"""Arrays of observations, actions and rewards that a step reads and writes, and batches of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from warpdrive.errors import DefinitionError
from warpdrive.interop.warpdrive2.data_feed import Constants, DataFeed

AgentIds = Sequence[Any]


def create_and_push_data_placeholders(
    env_wrapper: Any,
    action_sampler: Any = None,
    policy_tag_to_agent_id_map: Mapping[str, AgentIds] | None = None,
    create_separate_placeholders_for_each_policy: bool = False,
    obs_dim_corresponding_to_num_agents: str = "first",
    training_batch_size_per_env: int | None = None,
    push_data_batch_placeholders: bool = True,
) -> None:
    """Allocate the arrays that a step reads and writes, and batches for training, unless they exist.

    The arrays are ``observations[_<policy>][_<key>]``, ``sampled_actions[_<component>][_<policy>]`` and
    ``rewards[_<policy>]``; the batches ``<processed_observations, sampled_actions, rewards>_batch_<policy>`` and
    ``done_flags_batch``.

    Args:
        env_wrapper: Replicas of an environment.
        action_sampler: Sampler that is prepared for the actions; None: none.
        policy_tag_to_agent_id_map: Agent ids by policy tag; None: one policy, ``"shared"``.
        create_separate_placeholders_for_each_policy: If True, each policy has arrays of its own.
        obs_dim_corresponding_to_num_agents: Position of the agents in the observations: ``"first"`` or ``"last"``.
        training_batch_size_per_env: Steps of a batch; None: no batches.
        push_data_batch_placeholders: If True, there are batches of actions, rewards and ends of episodes.

    Raises:
        DefinitionError: If agents that share arrays have different spaces, or an agent has not exactly one policy.
    """
    observations = env_wrapper.obs_at_reset()
    tags = checked_tags(policy_tag_to_agent_id_map, observations)
    by_policy = {f"_{tag}": ids for tag, ids in tags.items()}
    groups = by_policy if create_separate_placeholders_for_each_policy else {"": sorted(observations)}
    data = env_wrapper.cuda_data_manager
    for suffix, ids in groups.items():
        space = common_space(env_wrapper.env.action_space, ids, "action")
        common_space(env_wrapper.env.observation_space, ids, "observation")
        feed = _observations(env_wrapper, ids, obs_dim_corresponding_to_num_agents, suffix)
        size = (env_wrapper.n_envs, len(ids))
        feed.add_data(Constants.REWARDS + suffix, np.zeros(size, np.float32))
        dtype, choices = action_type(space)
        components = [f"_{index}" for index in range(len(choices))] if len(choices) > 1 else []
        feed.add_data(Constants.ACTIONS + suffix, np.zeros((*size, len(choices)), dtype))
        for component in components:
            feed.add_data(Constants.ACTIONS + component + suffix, np.zeros((*size, 1), dtype))
        _push(data, feed)
        for component, count in zip(components or [""], choices, strict=True) if action_sampler else ():
            name = Constants.ACTIONS + component + suffix
            action_sampler.register_actions(data, name, count, is_deterministic=dtype is np.float32)
    if training_batch_size_per_env is not None:
        _push(data, _batches(env_wrapper, tags, training_batch_size_per_env, push_data_batch_placeholders))


def _observations(env_wrapper: Any, ids: AgentIds, position: str, suffix: str) -> DataFeed:
    feed, starts = DataFeed(), [env_wrapper.obs_at_reset() for _ in range(env_wrapper.n_envs)]
    first = starts[0][ids[0]]
    for key in first if isinstance(first, Mapping) else [None]:
        values = np.stack([get_obs(start, ids, position, key) for start in starts])
        name = Constants.OBSERVATIONS + suffix + ("" if key is None else f"_{key}")
        feed.add_data(name, values, save_copy_and_apply_at_reset=True)
    return feed


def _batches(env_wrapper: Any, tags: Mapping[str, AgentIds], steps: int, of_all: bool) -> DataFeed:
    feed = DataFeed()
    for tag, ids in tags.items():
        size = (steps, env_wrapper.n_envs, len(ids))
        observed = get_flattened_obs_size(env_wrapper.env.observation_space[ids[0]])
        feed.add_data(f"{Constants.PROCESSED_OBSERVATIONS}_batch_{tag}", np.zeros((*size, observed), np.float32))
        if of_all:
            dtype, choices = action_type(env_wrapper.env.action_space[ids[0]])
            feed.add_data(f"{Constants.ACTIONS}_batch_{tag}", np.zeros((*size, len(choices)), dtype))
            feed.add_data(f"{Constants.REWARDS}_batch_{tag}", np.zeros(size, np.float32))
    if of_all:
        feed.add_data(f"{Constants.DONE_FLAGS}_batch", np.zeros((steps, env_wrapper.n_envs), np.int32))
    return feed


def _push(data: Any, feed: DataFeed) -> None:
    new = {name: content for name, content in feed.items() if not data.is_data_on_device(name)}
    data.push_data_to_device(new, torch_accessible=True)


def checked_tags(
    policy_tag_to_agent_id_map: Mapping[str, AgentIds] | None, agents: Mapping[Any, Any]
) -> dict[str, list[Any]]:
    """Return the agent ids by policy tag, checked.

    Args:
        policy_tag_to_agent_id_map: Agent ids by policy tag; None: one policy, ``"shared"``, for all agents.
        agents: Observations by agent id.

    Raises:
        DefinitionError: If an agent has not exactly one policy.
    """
    if policy_tag_to_agent_id_map is None:
        return {"shared": sorted(agents)}
    tags = {tag: list(ids) for tag, ids in policy_tag_to_agent_id_map.items()}
    mapped = [agent for ids in tags.values() for agent in ids]
    for agent in agents:
        if mapped.count(agent) != 1:
            raise DefinitionError(f"agent {agent} has {mapped.count(agent)} policies in {tags}, expected one")
    return tags


def common_space(by_agent: Mapping[Any, Any], ids: AgentIds, kind: str) -> Any:
    """Return the space of several agents.

    Args:
        by_agent: Spaces by agent id.
        ids: Agent ids.
        kind: The kind of space, for the error message.

    Raises:
        DefinitionError: If the spaces differ in more than their bounds.
    """
    forms = [_form(by_agent[agent]) for agent in ids]
    for agent, form in zip(ids, forms, strict=True):
        if form != forms[0]:
            raise DefinitionError(
                f"agents {ids[0]} and {agent} have the {kind} spaces {by_agent[ids[0]]} and {by_agent[agent]}: "
                "expected equal ones, or create_separate_placeholders_for_each_policy=True"
            )
    return by_agent[ids[0]]


def _form(space: Any) -> Any:
    if hasattr(space, "spaces"):
        return {key: _form(part) for key, part in space.spaces.items()}
    return type(space).__name__, getattr(space, "n", None), getattr(space, "shape", None)


def action_type(space: Any) -> tuple[type, list[int]]:
    """Return the dtype of an action space, and the number of choices of each component, 1 for continuous ones.

    Raises:
        DefinitionError: If the space is none of Discrete, MultiDiscrete and Box.
    """
    if hasattr(space, "nvec"):
        return np.int32, [int(count) for count in space.nvec]
    if hasattr(space, "low"):
        return np.float32, [1] * int(space.shape[0])
    if hasattr(space, "n"):
        return np.int32, [int(space.n)]
    raise DefinitionError(f"found the action space {space}, expected Discrete, MultiDiscrete or Box")


def get_obs(
    obs: Mapping[Any, Any],
    agent_ids: AgentIds,
    obs_dim_corresponding_to_num_agents: str = "first",
    obs_key: str | None = None,
) -> Any:
    """Return the observations of several agents as an array.

    Args:
        obs: Observations by agent id.
        agent_ids: Agent ids.
        obs_dim_corresponding_to_num_agents: Position of the agents in the result: ``"first"`` or ``"last"``.
        obs_key: Key of observations that are dictionaries.

    Returns:
        ``[agents, *shape]``, or with the first and the last axis exchanged.
    """
    values = np.array([obs[agent] if obs_key is None else obs[agent][obs_key] for agent in agent_ids])
    last = obs_dim_corresponding_to_num_agents == "last" and len(agent_ids) > 1
    return np.swapaxes(values, 0, -1) if last else values


def get_flattened_obs_size(observation_space: Any) -> int:
    """Return the number of elements of an observation, without its action mask."""
    parts = getattr(observation_space, "spaces", {"": observation_space})
    return sum(int(np.prod(space.shape)) for key, space in parts.items() if key != Constants.ACTION_MASK)
