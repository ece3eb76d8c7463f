"""Native gradient steps of off-policy actor-critics: critics, policy, temperature and target networks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from warpdrive.training.compiled.actor_critic import TemperaturePlan
from warpdrive.training.compiled.learn import CompiledUpdate, Minibatches
from warpdrive.training.compiled.plan import actor_critic_plans_of, vector_of
from warpdrive.training.distributed.process_group import SINGLE_PROCESS
from warpdrive.training.experience.transitions import Transitions
from warpdrive.training.models.continuous import Critic, DeterministicActor, SquashedActor
from warpdrive.training.models.parameters import joined


class CompiledActorCritic:
    """Gradient steps of DDPG, TD3 and SAC.

    Args:
        model: The policy.
        critics: Action-value function.
        target_model: Target network of a deterministic policy; None for a policy without one.
        target_critics: Target network of the critics.
        policy_optimizer, critic_optimizer: Optimizers of policy and critics, each of one vector.
        temperature_optimizer: Optimizer of the logarithm of the temperature of a stochastic policy, or None.
        smoothed: If True, noise is added to the actions of the target policy.

    Raises:
        NoPlanError: If there is no native code for these.
    """

    def __init__(
        self,
        model: DeterministicActor | SquashedActor,
        critics: Critic,
        target_model: DeterministicActor | None,
        target_critics: Critic,
        policy_optimizer: torch.optim.Optimizer,
        critic_optimizer: torch.optim.Optimizer,
        temperature_optimizer: torch.optim.Optimizer | None = None,
        smoothed: bool = False,
    ) -> None:
        self.model = model
        of_critics, of_policy = actor_critic_plans_of(model, critics, policy_optimizer, critic_optimizer, smoothed)
        self._critics = CompiledUpdate(of_critics, critic_optimizer)
        self._policy = CompiledUpdate(of_policy, policy_optimizer)
        policy, values = vector_of(policy_optimizer).detach(), vector_of(critic_optimizer).detach()
        target_values = joined(list(target_critics.parameters()))
        self._targets = [(target_values, values)]
        self._vectors = {"policy": policy, "critics": values, "target_critics": target_values}
        if target_model is not None:
            self._vectors["policy"] = joined(list(target_model.parameters()))
            self._targets.append((self._vectors["policy"], policy))
        self._temperature = None
        if temperature_optimizer is not None:
            terms = of_policy.terms
            plan = TemperaturePlan(stride=len(terms) + 2, entropy=terms.index("entropy"))
            self._temperature = CompiledUpdate(plan, temperature_optimizer)
            self._vectors["temperature"] = vector_of(temperature_optimizer).detach()

    @torch.no_grad()
    def steps(
        self,
        rows: Transitions,
        noise: Tensor,
        parts: Sequence[Tensor],
        gamma: float,
        tau: float,
        coefficients: Mapping[str, float],
        policy_is_due: Callable[[], bool] = lambda: True,
    ) -> dict[str, Tensor]:
        """Take a gradient step on each minibatch.

        Args:
            rows: Transitions of all minibatches.
            noise: ``[samples, rows, components]``, standard normal; the first is for the next actions, the last for the
                actions.
            parts: Indices of the rows of each minibatch.
            gamma: Discount per step.
            tau: Interpolation factor of the target networks.
            coefficients: Coefficients of the losses, see ``CompiledUpdate.steps``.
            policy_is_due: Called after each step of the critics; returns True if the policy and the target networks are
                updated as well.

        Returns:
            Metrics by name, ``[steps]`` each; those of the policy only of its own steps.
        """
        minibatches = Minibatches.of(rows, parts)
        flat, actions = self.model.flatten(rows.observations), self.model.done(rows.actions)
        arrays = {
            **self._vectors,
            "inputs": torch.cat([flat, actions], dim=-1),
            "next_observations": self.model.flatten(rows.next_observations),
            "rewards": rows.rewards,
            "discounts": rows.discounts(gamma),
        }
        first, last = ({"noise": sample} for sample in (noise[:1].flatten(0, 1), noise[-1:].flatten(0, 1)))
        critics = self._critics.steps(minibatches, {**arrays, **first}, coefficients)
        policy = self._policy.steps(minibatches, {**arrays, **last}, coefficients)
        temperature, temperatures = None, []
        if self._temperature is not None:
            of_entropy = {"metrics": policy.metrics, "present": minibatches.counts.clamp(max=1.0)}
            # a scalar loss without rows: the entropy is already that of all processes
            scalars = replace(minibatches, bounds=np.zeros_like(minibatches.bounds), process_group=SINGLE_PROCESS)
            no_limit = {**coefficients, "max_grad_norm": torch.inf}
            temperature = self._temperature.steps(scalars, of_entropy, no_limit)
        taken = []
        for number in range(len(parts)):
            critics.take(number, number + 1)
            if not policy_is_due():
                continue
            taken.append(number)
            policy.take(number, number + 1)
            if temperature is not None:
                temperature.take(number, number + 1)
                temperatures.append(self._vectors["temperature"].exp())
            for target, source in self._targets:
                target.lerp_(source, tau)
        of_critics, of_policy = critics.columns(), policy.columns(taken) if taken else {}
        found = {**of_critics, **of_policy, "grad_norm": of_critics["grad_norm"]}
        return {**found, "temperature": torch.cat(temperatures)} if temperatures else found
