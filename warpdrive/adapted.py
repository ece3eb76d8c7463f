"""Environments as cooperating policies train in them: agent ids, team rewards, a policy tag for each agent.

The kernel functions are those of the original environment and write its arrays. The fused step copies their
observations to arrays ``extended.observations_<tag>`` with the ids, which policies observe and rollouts record, and
records rewards of teams in rollouts only: statistics of episodes are of the environment's own rewards.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from warpdrive.environment import Environment, spaces_by_tag
from warpdrive.errors import DefinitionError

TeamReward = Literal["own", "sum", "mean"]


@dataclass(frozen=True)
class Adaptation:
    """Changes of an environment outside of its kernel functions, by its policy tags.

    Attributes:
        agent_ids: Tags whose agents observe a one-hot index of themselves among the agents of the tag.
        team_rewards: Rewards that rollouts record for the agents of a tag: the sum or the mean over these agents.
        separate: Tags that are replaced by a tag for each agent: ``agent`` by ``agent_0``, ``agent_1`` and so on.
    """

    agent_ids: Collection[str] = ()
    team_rewards: Mapping[str, TeamReward] = field(default_factory=dict)
    separate: Collection[str] = ()

    @property
    def extends_observations(self) -> bool:
        """True if observations are copied to arrays for each tag."""
        return bool(self.agent_ids or self.separate)


class Team(NamedTuple):
    """Agents whose rewards are added.

    Attributes:
        number: ``[num_agents]`` int32, equal for agents of one team.
        share: ``[num_agents]`` float32, factor of the sum of rewards.
        place: ``[num_agents]`` int32, index of the agent among those of its original tag; -1 if it is not observed.
    """

    number: npt.NDArray[np.int32]
    share: npt.NDArray[np.float32]
    place: npt.NDArray[np.int32]


class BoxWithIds(spaces.Box):
    """Space of observations followed by a one-hot index of the agent.

    Args:
        original: Space of the observations, with one axis.
        num_ids: Number of agents.
    """

    def __init__(self, original: spaces.Box, num_ids: int) -> None:
        self.original, self.num_ids, zeros = original, num_ids, np.zeros(num_ids, original.dtype)
        bounds = np.concatenate([original.low, zeros]), np.concatenate([original.high, zeros + 1])
        super().__init__(*bounds, dtype=original.dtype)


class AdaptedEnvironment(Environment):
    """Environment with an :class:`Adaptation`; all other attributes are those of the original environment.

    Args:
        original: The environment.
        adaptation: Its changes.

    Raises:
        DefinitionError: If observations with ids are not one-dimensional Boxes, or tags with separate action spaces
            would be split.
    """

    def __init__(self, original: Environment, adaptation: Adaptation) -> None:
        tags: dict[str, list[int]] = {}
        source: dict[str, str] = {}
        for tag, agents in original.policy_tags.items():
            separate = tag in adaptation.separate
            parts = {f"{tag}_{n}": [int(agent)] for n, agent in enumerate(agents)} if separate else {tag: agents}
            tags |= {name: [int(agent) for agent in ids] for name, ids in parts.items()}
            source |= dict.fromkeys(parts, tag)
        if adaptation.separate and isinstance(original.action_space, dict):
            raise DefinitionError(
                f"{next(iter(adaptation.separate))}_0.parameter_sharing: found false, expected true for an environment "
                "whose policy tags have action spaces of their own"
            )
        observed = spaces_by_tag(original, original.observation_space)
        shown: dict[str, spaces.Space[Any]] = dict(observed)
        for tag in adaptation.agent_ids:
            if not isinstance(space := observed[tag], spaces.Box) or len(space.shape) != 1:
                name = f"{tag}_0" if tag in adaptation.separate else tag
                raise DefinitionError(
                    f"{name}.agent_ids: found observations in {space}, expected a Box with one axis, to which ids are "
                    "appended"
                )
            shown[tag] = BoxWithIds(space, len(original.policy_tags[tag]))
        own = object.__getattribute__(self, "__dict__")
        own |= {"original": original, "adaptation": adaptation, "policy_tags": tags}
        if adaptation.extends_observations:
            own["observation_space"] = {tag: shown[source[tag]] for tag in tags}

    def __getattribute__(self, name: str) -> Any:
        own = object.__getattribute__(self, "__dict__")
        return own[name] if name in own else getattr(own["original"], name)


def adaptation_of(environment: Environment) -> Adaptation:
    """Return the changes of an environment, none if it is not adapted."""
    return environment.adaptation if isinstance(environment, AdaptedEnvironment) else Adaptation()


def original_of(environment: Environment) -> Environment:
    """Return the environment that an adapted one is of, or ``environment`` itself."""
    found: Environment = environment.original if isinstance(environment, AdaptedEnvironment) else environment
    return found


def team_of(environment: Environment) -> Team:
    """Return the teams of all agents; an agent with its own reward is a team of one."""
    adaptation, original = adaptation_of(environment), original_of(environment)
    count = int(original.num_agents)
    team = Team(np.arange(count, dtype=np.int32), np.ones(count, np.float32), np.full(count, -1, np.int32))
    for tag, agents in original.policy_tags.items():
        ids = [int(agent) for agent in agents]
        if tag in adaptation.agent_ids:
            team.place[ids] = np.arange(len(ids))
        if tag in adaptation.team_rewards:
            team.number[ids] = ids[0]
            team.share[ids] = 1.0 / len(ids) if adaptation.team_rewards[tag] == "mean" else 1.0
    return team
