"""What all agents of a replica see, for a critic that may know it while the policies may not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from gymnasium import Space
from torch import Tensor, nn

from warpdrive.rollout import Rollout
from warpdrive.training.models.flatten import Flatten


class JointObservations(nn.Module):
    """Puts the observations of all agents of all tags side by side, and then which agent of the tag looks at them.

    Args:
        tag: of those who look.
        spaces: of one agent's observations, by policy tag.
        counts: how many agents there are, by policy tag.

    Attributes:
        size: the numbers in a row.
    """

    which: Tensor

    def __init__(self, tag: str, spaces: Mapping[str, Space[Any]], counts: Mapping[str, int]) -> None:
        super().__init__()
        self.tags = list(spaces)
        parts = [Flatten(space) for space in spaces.values()]
        self.flatten = nn.ModuleList(parts)
        self.register_buffer("which", torch.eye(counts[tag]), persistent=False)
        self.size: int = counts[tag] + sum(part.size * counts[name] for part, name in zip(parts, spaces, strict=True))

    def of(self, rollout: Rollout, name: str) -> Tensor:
        """``[steps x num_envs x agents of the tag, size]`` float32.

        Args:
            rollout: has the observations, of agents out of the episode whatever the environment leaves there.
            name: ``observations`` or ``final_observations``.
        """
        seen = [
            part(rollout.of(name, tag)).flatten(2) for part, tag in zip(self.flatten, self.tags, strict=True)
        ]  # each [steps, num_envs, agents x size]
        together = torch.cat(seen, dim=-1).unsqueeze(2).expand(-1, -1, len(self.which), -1)
        return torch.cat([together, self.which.expand(*together.shape[:2], -1, -1)], dim=-1).flatten(0, 2)
