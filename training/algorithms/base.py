"""What the trainer asks of an algorithm."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import Tensor, nn

from warpdrive.training.distributed.team import ALONE, Team
from warpdrive.training.models.base import Actor

Experience = TypeVar("Experience")


class Stateful(Protocol):
    """What can be stored in a checkpoint and be put back."""

    def state_dict(self) -> dict[str, Any]:
        """Tensors, numbers and strings, and lists and dictionaries of these."""

    def load_state_dict(self, state_dict: dict[str, Any], /) -> object:
        """Become as another was when its state was taken."""


BeforeStep = Callable[[Mapping[str, Tensor]], Mapping[str, Tensor]]


class Descent(Protocol):
    """Takes one step of an optimizer, down the gradient of a loss.

    Of several processes each has its part of the loss and of its terms (``Rows.part_of_mean``); what is descended, and
    returned, is their sum.
    """

    def __call__(
        self,
        loss: Tensor,
        terms: Mapping[str, Tensor],
        optimizer: torch.optim.Optimizer,
        module: nn.Module,
        max_grad_norm: float = math.inf,
        before: BeforeStep | None = None,
    ) -> dict[str, Tensor]:
        """Change the parameters of ``module``, which ``optimizer`` holds ``as_vector``.

        Args:
            loss: a scalar.
            terms: scalars without gradient that are to be known of it.
            optimizer: takes the step.
            module: what is trained.
            max_grad_norm: to which the gradient is shortened where it is longer.
            before: called with the terms before the step is taken; returns more of them.

        Returns:
            the terms, and ``"grad_norm"``, the norm of the gradient before it was shortened: scalars on the device.
        """


def as_vector(module: nn.Module) -> nn.Parameter:
    """All parameters of a module that are trained, as one vector, whose memory they are parts of from now on.

    An optimizer of one vector does a step with a tenth of the operations. The module must be on its device already.
    """
    parameters = _trained(module)
    vector = nn.Parameter(torch.cat([parameter.detach().flatten() for parameter in parameters]))
    parts = vector.detach().split([parameter.numel() for parameter in parameters])
    for parameter, part in zip(parameters, parts, strict=True):
        parameter.data = part.view_as(parameter)
    return vector


def gradient_of(loss: Tensor, module: nn.Module) -> Tensor:
    """The gradient of a scalar as one vector, of all parameters of a module that are trained."""
    gradients = torch.autograd.grad(loss, _trained(module), materialize_grads=True)
    return torch.cat([gradient.flatten() for gradient in gradients])


def take_step(optimizer: torch.optim.Optimizer, gradient: Tensor, max_grad_norm: float = math.inf) -> Tensor:
    """Change the vector that ``optimizer`` holds. Returns the norm of its gradient, which is shortened in place."""
    norm: Tensor = gradient.norm()
    gradient.mul_((max_grad_norm / (norm + 1e-6)).clamp(max=1.0))
    (vector,) = optimizer.param_groups[0]["params"]
    vector.grad = gradient
    optimizer.step()
    return norm


def descend(
    loss: Tensor,
    terms: Mapping[str, Tensor],
    optimizer: torch.optim.Optimizer,
    module: nn.Module,
    max_grad_norm: float = math.inf,
    before: BeforeStep | None = None,
    team: Team = ALONE,
) -> dict[str, Tensor]:
    """Take the step in all processes of a team. See ``Descent``."""
    gradient, summed = team.sum_gradient(gradient_of(loss, module), terms)
    more = before(summed) if before else {}
    return {**summed, **more, "grad_norm": take_step(optimizer, gradient, max_grad_norm)}


def _trained(module: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in module.parameters() if parameter.requires_grad]


class Algorithm(ABC, Generic[Experience]):
    """Trains the model of one policy tag: owns its loss and its update.

    Attributes:
        model: the policy, which acts when it is evaluated.
        actor: acts in the rollouts that are learned from: the model, or the model and what makes it explore.
        descend: takes the gradient steps; may be replaced by one that does so for several processes.
    """

    model: Actor
    actor: Actor
    descend: Descent = staticmethod(descend)

    @abstractmethod
    def update(self, experience: Experience, generator: torch.Generator) -> dict[str, Tensor]:
        """Train on experience with random numbers of ``generator``. Returns scalars on the device."""

    @abstractmethod
    def parts(self) -> Mapping[str, Stateful]:
        """What else than the model's parameters belongs into a checkpoint."""

    def begin(self, env_steps: int) -> None:
        """Prepare for the rollout and the update that begin at ``env_steps``."""

    def advice(self, tag: str) -> str:
        """What to try where a loss of the policy of ``tag`` is no longer finite."""
        return f"Try a smaller policy.{tag}.lr, and look for rewards or observations that are not finite"


class Every:
    """Says of every n-th call that it is one."""

    def __init__(self, n: int) -> None:
        self.n, self.calls = n, 0

    def __call__(self) -> bool:
        """Count a call and return whether it is one."""
        self.calls += 1
        return self.calls % self.n == 0

    def state_dict(self) -> dict[str, Any]:
        """See ``Stateful``."""
        return {"calls": self.calls}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """See ``Stateful``."""
        self.calls = state_dict["calls"]
