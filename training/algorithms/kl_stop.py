"""Early stopping by KL divergence, without synchronising with the device."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

TOLERANCE = 1.5  # as in the authors' code of PPO (Spinning Up, Stable-Baselines3)


class KlStop:
    """Early stopping: skips all optimizer steps once the policy is too far from the behaviour policy.

    The rest of the update is still computed, since the host does not know. A scalar on the device tells the optimizer
    to skip steps: fused optimizers read it as ``found_inf``, as they do for ``torch.amp.GradScaler``.

    Args:
        optimizer: a fused optimizer.
        target_kl: KL divergence in nats, which may be exceeded by half; None: no early stopping.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, target_kl: float | None) -> None:
        self.optimizer, self.target_kl = optimizer, target_kl
        self._is_over: Tensor | None = None
        optimizer.found_inf = None  # type: ignore[attr-defined]

    def after(self, metrics: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Check ``approx_kl`` before an optimizer step. Returns a metric: 1 if the step is skipped, else 0."""
        if self.target_kl is None:
            return {}
        is_too_far = (metrics["approx_kl"] > TOLERANCE * self.target_kl).float()
        self._is_over = is_too_far if self._is_over is None else torch.maximum(self._is_over, is_too_far)
        self.optimizer.found_inf = self._is_over  # type: ignore[attr-defined]
        return {"skipped_steps": self._is_over}
