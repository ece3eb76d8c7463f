"""What the actor-critic algorithms share."""

from __future__ import annotations

from torch import Tensor

from warpdrive.training.batch import Batch


def normalised(advantages: Tensor, batch: Batch) -> Tensor:
    """Advantages with mean 0 and standard deviation 1 over the rows that count."""
    centred = advantages - batch.mean(advantages)
    return centred / (batch.mean(centred.square()).sqrt() + 1e-8)


def explained_variance(batch: Batch) -> Tensor:
    """1 - Var[returns - values] / Var[returns]: 1 is a perfect value estimate, 0 no better than a constant."""
    unexplained = batch.returns - batch.values
    spread = batch.returns - batch.mean(batch.returns)
    residue = unexplained - batch.mean(unexplained)
    return 1.0 - batch.mean(residue.square()) / batch.mean(spread.square()).clamp(min=1e-8)
