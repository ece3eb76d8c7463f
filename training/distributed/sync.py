"""How the processes of a team learn together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from torch import Tensor, nn

from warpdrive.rollout import Rollout
from warpdrive.training.distributed.experience import WholeRollout
from warpdrive.training.distributed.team import tensors_of
from warpdrive.training.models.running_moments import RunningMoments
from warpdrive.training.policy import Policy

Metrics = dict[str, dict[str, Tensor]]
"""By policy tag and name, scalars on the device."""


class Sync(Protocol):
    """Updates policies so that they are the same in all processes afterwards."""

    def update(self, policies: Mapping[str, Policy], meanwhile: Callable[[], object]) -> Metrics:
        """Train every policy on what all processes have collected.

        Args:
            policies: by policy tag.
            meanwhile: what processes do that do not learn, while another one does.
        """


class GradientSync:
    """Every process computes the gradients of its own rows; their sums are what everybody's optimizer gets.

    Algorithms that learn from old experience draw from that of all, which every process keeps, and each computes the
    gradients of a part of what was drawn. What models of users keep in buffers becomes what it is on process 0, which
    has seen its own rows.

    Args:
        whole: gathers the rollouts.
    """

    def __init__(self, whole: WholeRollout) -> None:
        self.whole = whole

    def update(self, policies: Mapping[str, Policy], meanwhile: Callable[[], object]) -> Metrics:
        """See ``Sync``."""
        everything: Rollout | None = None
        metrics = {}
        for tag, policy in policies.items():
            if policy.learns_from_all and policy.config.to_train:
                everything = everything or self.whole.everywhere()
                metrics[tag] = policy.update(everything)
            else:
                metrics[tag] = policy.update(self.whole.rollout)
        self.whole.team.broadcast(_kept_by_each(policy.model for policy in policies.values() if policy.config.to_train))
        return metrics


class RolloutSync:
    """Process 0 gathers the experience, updates as a process alone does, and sends everybody what acts.

    Args:
        whole: gathers the rollouts.
    """

    def __init__(self, whole: WholeRollout) -> None:
        self.whole = whole

    def update(self, policies: Mapping[str, Policy], meanwhile: Callable[[], object]) -> Metrics:
        """See ``Sync``; on process 0, on the others there are no metrics."""
        rollout, metrics = self.whole.on_leader(), {}
        if rollout is None:
            meanwhile()
        else:
            metrics = {tag: policy.update(rollout) for tag, policy in policies.items()}
        self.whole.team.broadcast(tensors_of(policy.actor for policy in policies.values() if policy.config.to_train))
        return metrics


def _kept_by_each(models: Iterable[nn.Module]) -> list[Tensor]:
    """Return persistent buffers that each process may have changed in its own way: none of those of our own models."""
    return [
        buffer
        for model in models
        for module in model.modules()
        if not isinstance(module, RunningMoments)
        for name, buffer in module.named_buffers(recurse=False)
        if name not in module._non_persistent_buffers_set
    ]
