"""Synchronisation of the updates of several processes.

With ``gradients``, each gradient step takes one message: a process computes its part of the loss and its terms as sums
over its own rows, divided by the number of rows that count in all processes (``Rows.masked_mean``), which is
all-reduced once for all minibatches of an epoch; ``optimizer_step`` all-reduces gradient and terms together.
``Rows.mean`` is a whole mean, for expressions that are not linear, such as normalised advantages. Minibatches are drawn
from the rows of all ranks; samples of a replay buffer and groups of V-trace are drawn by all ranks and computed in
parts. Past versions of self-play act in the same replicas as in a single process.

A dedicated learner (``trainer.dedicated_learner``) is rank 0 with no replicas. ``RolloutSync.update`` gathers, and the
other ranks collect the next rollout ``meanwhile`` (``Trainer.update_ahead``), unless a checkpoint may follow. Opponents
start their rollouts on rank 0 as well, with the weights of the other ranks, as its checkpoints hold them; episodes are
counted before a rollout is collected ahead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Literal, Protocol

from torch import Tensor, nn

from warpdrive.rollout import Rollout
from warpdrive.training.distributed.process_group import tensors_of
from warpdrive.training.distributed.whole_rollout import WholeRollout
from warpdrive.training.models.running_moments import RunningMoments
from warpdrive.training.policy import Policy

Metrics = dict[str, dict[str, Tensor]]
"""Scalars on the device, by policy tag and name."""


class Sync(Protocol):
    """Updates policies such that they are equal in all processes afterwards."""

    def update(self, policies: Mapping[str, Policy], meanwhile: Callable[[], object]) -> Metrics:
        """Train every policy on the experience of all processes.

        Args:
            policies: Policies by policy tag.
            meanwhile: Called by the processes that do not train while another one does.

        Returns:
            Metrics of the updates.
        """


class GradientSync:
    """Data-parallel updates: every process computes the gradients of its own rows, which are all-reduced.

    Off-policy algorithms sample from the experience of all processes, which every process keeps, and each computes the
    gradients of a part of the minibatch. Buffers of user-defined models are set to those of rank 0, which are updated
    with its rows only.

    Args:
        whole: Gathers the rollouts.
    """

    def __init__(self, whole: WholeRollout) -> None:
        self.whole = whole

    def update(self, policies: Mapping[str, Policy], meanwhile: Callable[[], object]) -> Metrics:
        """See ``Sync``."""
        everything: Rollout | None = None
        metrics = {}
        for tag, policy in policies.items():
            if policy.off_policy and policy.config.to_train:
                everything = everything or self.whole.on_all_ranks()
                metrics[tag] = policy.update(everything)
            else:
                metrics[tag] = policy.update(self.whole.rollout)
        self.whole.process_group.broadcast(
            _kept_by_each(policy.model for policy in policies.values() if policy.config.to_train)
        )
        return metrics


class RolloutSync:
    """Central updates: rank 0 gathers the experience, updates like a single process, and broadcasts the actors.

    Args:
        whole: Gathers the rollouts.
    """

    def __init__(self, whole: WholeRollout) -> None:
        self.whole = whole

    def update(self, policies: Mapping[str, Policy], meanwhile: Callable[[], object]) -> Metrics:
        """See ``Sync``; metrics are returned on rank 0 only."""
        rollout, metrics = self.whole.on_leader(), {}
        if rollout is None:
            meanwhile()
        else:
            metrics = {tag: policy.update(rollout) for tag, policy in policies.items()}
        self.whole.process_group.broadcast(
            tensors_of(policy.actor for policy in policies.values() if policy.config.to_train)
        )
        return metrics


def sync_of(kind: Literal["gradients", "rollouts"], whole: WholeRollout) -> Sync:
    """Return the synchronisation that ``trainer.sync`` names."""
    return RolloutSync(whole) if kind == "rollouts" else GradientSync(whole)


def _kept_by_each(models: Iterable[nn.Module]) -> list[Tensor]:
    """Return persistent buffers that may differ between processes: none of those of the built-in models."""
    return [
        buffer
        for model in models
        for module in model.modules()
        if not isinstance(module, RunningMoments)
        for name, buffer in module.named_buffers(recurse=False)
        if name not in module._non_persistent_buffers_set
    ]
