"""How policies that learn from old experience act while they learn."""

from __future__ import annotations

import torch
from torch import Tensor

from warpdrive.env_wrapper import EnvWrapper
from warpdrive.observations import Observations
from warpdrive.training.models.action_values import ActionValues
from warpdrive.training.models.base import Actor


class EpsilonGreedy(Actor):
    """Explores with probability ``epsilon``, else takes the best choice.

    To explore is to repeat the last choice with probability ``repeat``, and to choose uniformly at random otherwise: a
    way of going on in one direction for a while, as in temporally extended epsilon-greedy exploration (Dabney et al.
    2021, arXiv:2006.01782), where the durations are geometrically distributed.

    Args:
        model: estimates the value of each choice.
        repeat: see above; 0 is ordinary epsilon-greedy exploration.

    Attributes:
        epsilon: a scalar on the device, to be changed in place.
    """

    epsilon: Tensor

    def __init__(self, model: ActionValues, repeat: float = 0.0) -> None:
        super().__init__()
        self.model, self.repeat = model, repeat
        self.register_buffer("epsilon", torch.ones(()))

    def logits(self, observations: Observations) -> Tensor:
        """See ``Actor``; as if episodes began here and everything were allowed."""
        values = self.model(observations)
        return _mixed(self.epsilon, torch.full_like(values, 1.0 / values.shape[-1]), values)

    def act(self, env: EnvWrapper, tag: str) -> None:
        """See ``Actor``."""
        values, mask = self.model(env.observations(tag)), env.action_mask(tag)
        if mask is None:
            anything = torch.full_like(values, 1.0 / values.shape[-1])
        else:
            values = values.masked_fill(~mask, -torch.inf)
            anything = mask / mask.sum(-1, keepdim=True).clamp(min=1)  # agents out of the episode may do nothing
        if self.repeat:
            again = torch.zeros_like(values).scatter_(-1, env.actions(tag).long().unsqueeze(-1), 1.0)
            repeat = self.repeat * (env.ctx["timestep"] > 0).view(-1, 1, 1)
            anything = anything + repeat * (again - anything)
        env.logits(tag).copy_(_mixed(self.epsilon, anything, values))


def _mixed(epsilon: Tensor, anything: Tensor, values: Tensor) -> Tensor:
    """Logarithms of the probabilities of choices: ``anything`` with probability epsilon, else the best one."""
    best = torch.zeros_like(values).scatter_(-1, values.argmax(-1, keepdim=True), 1.0)
    return (epsilon * anything + (1.0 - epsilon) * best).log()
