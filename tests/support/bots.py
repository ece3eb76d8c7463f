"""Functions that act for agents, as users write them. Loaded by their file's path."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import warpdrive as wd


def say_what_is_wanted(observations: Tensor, env: wd.EnvWrapper, tag: str) -> Tensor:
    """The right answer of the odd agents of Echo: the successor of what they see."""
    assert tag == "odd" and observations.shape == (env.num_envs, 2, 3)
    return (observations.argmax(-1) + 1) % 3


def prefer_what_is_wanted(observations: Tensor, env: wd.EnvWrapper, tag: str) -> Tensor:
    """Logits of the wanted choices."""
    return 50.0 * observations.roll(1, -1)


def by_the_clock(observations: Tensor, env: wd.EnvWrapper, tag: str) -> Tensor:
    """Both choices of Leave's agents by the time of the episode, which the environment knows."""
    timestep = env.ctx["timestep"].view(-1, 1).expand(observations.shape[:2])
    return torch.stack([1 + 2 * (timestep == 1), timestep % 2], dim=-1)


def aim(observations: Tensor, env: wd.EnvWrapper, tag: str) -> Tensor:
    """The right action of Aim's aimers: (t, -t), where they see t."""
    return torch.cat([observations, -observations], dim=-1)


def nothing_of_use(observations: Tensor, env: wd.EnvWrapper, tag: str) -> Any:
    """One number for each agent."""
    return observations.sum(-1)


constant = 3
