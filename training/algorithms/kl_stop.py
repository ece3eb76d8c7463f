"""Ends an update that has moved a policy far enough, without anybody waiting for the device to say so."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

_TOLERANCE = 1.5  # as in the authors' code of PPO (Spinning Up, Stable-Baselines3)


class KlStop:
    """From the gradient step on that finds the policy too far from the one that acted, no step changes anything.

    What is left of the update is computed all the same, as the host does not know. Whether steps count is a number on
    the device, which the optimizer looks at: fused optimizers take none where it says so (``found_inf``, with which
    they serve ``torch.amp.GradScaler``).

    Args:
        optimizer: a fused one.
        target_kl: the distance in nats, which may be exceeded by half; None: the update is never ended.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, target_kl: float | None) -> None:
        self.optimizer, self.target_kl = optimizer, target_kl
        self._is_over: Tensor | None = None
        optimizer.found_inf = None  # type: ignore[attr-defined]

    def after(self, metrics: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Take notice of ``approx_kl``, before a step. Returns a metric: 1 if that is skipped, and 0 if not."""
        if self.target_kl is None:
            return {}
        is_too_far = (metrics["approx_kl"] > _TOLERANCE * self.target_kl).float()
        self._is_over = is_too_far if self._is_over is None else torch.maximum(self._is_over, is_too_far)
        self.optimizer.found_inf = self._is_over  # type: ignore[attr-defined]
        return {"skipped_steps": self._is_over}
