"""Value decomposition networks (VDN: Sunehag et al. 2018, arXiv:1706.05296).

The value of a joint action is the sum of the agents' values of their own actions.
"""

from __future__ import annotations

from typing import Literal

from warpdrive.training.algorithms.task import Task
from warpdrive.training.algorithms.value_decomposition import ValueDecomposition, ValueDecompositionConfig, build_with
from warpdrive.training.experience.team_sequences import SequenceBuffer
from warpdrive.training.models.mixers import SumMixer


class VDNConfig(ValueDecompositionConfig):
    """Value decomposition networks, for a team with a single Discrete action per agent."""

    algorithm: Literal["vdn"] = "vdn"


def build(config: VDNConfig, task: Task) -> tuple[ValueDecomposition, SequenceBuffer]:
    """Build the algorithm and its source of experience."""
    return build_with(config, task, SumMixer())
