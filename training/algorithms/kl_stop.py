"""Early stopping by KL divergence, without synchronising with the device.

Once the policy is too far from the behaviour policy, all optimizer steps are skipped: parameters, moments and the step
count stay. The rest of the update is still computed, since the host does not wait for the result. Fused optimizers read
the decision from a scalar at a fixed address, as ``found_inf`` of ``torch.amp.GradScaler``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

TOLERANCE = 1.5  # as in the authors' code of PPO (Spinning Up, Stable-Baselines3)


def begin(optimizer: Any, target_kl: float | None) -> None:
    """Begin an update, whose steps are not skipped yet.

    Args:
        optimizer: A fused optimizer.
        target_kl: KL divergence in nats, which may be exceeded by half; None: no early stopping.
    """
    if target_kl is None:
        optimizer.found_inf = None
    elif getattr(optimizer, "found_inf", None) is None:
        optimizer.found_inf = torch.zeros((), device=optimizer.param_groups[0]["params"][0].device)
    else:
        optimizer.found_inf.zero_()


def check(optimizer: Any, target_kl: float | None, terms: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Compare ``approx_kl`` with its target before an optimizer step.

    Args:
        optimizer: The optimizer given to :func:`begin`.
        target_kl: KL divergence in nats; None: no early stopping.
        terms: Terms of the loss.

    Returns:
        A metric: 1 if the step is skipped, else 0.
    """
    if target_kl is None:
        return {}
    is_over: Tensor = optimizer.found_inf
    is_over.copy_(torch.maximum(is_over, (terms["approx_kl"] > TOLERANCE * target_kl).float()))
    return {"skipped_steps": is_over.clone()}
