"""QMIX (Rashid et al. 2018, arXiv:1803.11485; 2020, arXiv:2003.08839).

The value of a joint action is a monotonic function of the agents' values of their own actions and of the global state.
"""

from __future__ import annotations

from typing import Literal

from warpdrive.environment import Environment
from warpdrive.training.algorithms.base import UpdateSize
from warpdrive.training.algorithms.task import Task
from warpdrive.training.algorithms.value_decomposition import ValueDecomposition, ValueDecompositionConfig, build_with
from warpdrive.training.config.messages import Problem
from warpdrive.training.config.values import Width
from warpdrive.training.experience.team_sequences import SequenceBuffer
from warpdrive.training.models.mixers import MonotonicMixer


class QMIXConfig(ValueDecompositionConfig):
    """QMIX, for a team with a single Discrete action per agent."""

    algorithm: Literal["qmix"] = "qmix"
    mixing_units: Width = 32
    """Number of units of the mixing network."""
    hypernetwork_units: Width | None = 64
    """Hidden units of the hypernetworks, which compute the mixing network's weights; None: no hidden layer."""
    mixer_input: Literal["auto", "global_state", "observations"] = "auto"
    """Input of the hypernetworks: the environment's ``global_state``, or the observations of all agents.

    ``auto``: the global state if the environment has one.
    """

    def problems(self, size: UpdateSize, env: Environment) -> list[Problem]:
        """See ``LearningConfig``."""
        found = super().problems(size, env)
        if self.mixer_input == "global_state" and not env.global_state:
            text = (
                f"found 'global_state', but {type(env).__name__} has none: name its arrays (docs/guides/authoring.md)"
            )
            found.append(("mixer_input", f"{text}, or use observations"))
        return found


def build(config: QMIXConfig, task: Task) -> tuple[ValueDecomposition, SequenceBuffer]:
    """Build the algorithm and its source of experience."""
    agents, mixer_input = len(task.agent_ids), task.shared_input(config.mixer_input)
    hidden = [] if config.hypernetwork_units is None else [config.hypernetwork_units]
    options = mixer_input.size - agents, config.mixing_units, hidden
    mixer = task.new_critic(lambda: MonotonicMixer(agents, *options, config.model.normalize_observations))
    return build_with(config, task, mixer, mixer_input)
