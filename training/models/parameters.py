"""Parameters of a module as one vector."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


def trainable(module: nn.Module) -> list[nn.Parameter]:
    """Return the parameters that are trained."""
    return [parameter for parameter in module.parameters() if parameter.requires_grad]


def as_vector(module: nn.Module) -> nn.Parameter:
    """Return all trainable parameters of a module as one vector, and make the parameters views of its memory.

    An optimizer of a single vector needs a tenth of the operations per step. The module must be on its device already.
    """
    return nn.Parameter(joined(trainable(module)))


def joined(parameters: Sequence[nn.Parameter]) -> Tensor:
    """Return parameters as one vector, and make them views of its memory."""
    vector = torch.cat([parameter.detach().flatten() for parameter in parameters])
    parts = vector.split([parameter.numel() for parameter in parameters])
    for parameter, part in zip(parameters, parts, strict=True):
        parameter.data = part.view_as(parameter)
    return vector


def adam_state(optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """Return the state of fused Adam of one vector, as its first step would create it."""
    (vector,) = optimizer.param_groups[0]["params"]
    state: dict[str, torch.Tensor] = optimizer.state[vector]
    if not state:
        state["step"] = torch.zeros((), dtype=torch.float32, device=vector.device)
        state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(vector), torch.zeros_like(vector)
    return state
