"""Opponents of the particle environments that do not learn, as functions of a run configuration."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from harness.cooperative.originals import pretrained


def prey(observations: Tensor, env: Any, tag: str) -> Tensor:
    """Return the actions of EPyMARL's prey for the observations of its agents."""
    return _actions("prey", observations)


def adversary(observations: Tensor, env: Any, tag: str) -> Tensor:
    """Return the actions of EPyMARL's adversary for the observations of its agents."""
    return _actions("adversary", observations)


def _actions(name: str, observations: Tensor) -> Tensor:
    flat = observations.reshape(-1, observations.shape[-1]).numpy()
    return torch.from_numpy(pretrained(name)(flat)).to(torch.int32).view(observations.shape[:-1])
