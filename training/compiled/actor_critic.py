"""Native gradients of off-policy actor-critics: DDPG, TD3 and SAC.

Critics take observations and actions, concatenated. The gradient of a policy is backpropagated through the critics to
the actions, and then through the policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from llvmlite import ir

from warpdrive.training.compiled.gradient import Coefficient, Gradient, Inputs, Plan, Word
from warpdrive.training.compiled.heads import squashed_sample
from warpdrive.training.compiled.network import ROWS, Dense, Network, fill
from warpdrive.training.compiled.simd import Vector, gradients
from warpdrive.training.models.two_headed import MAX_LOG_STD, MIN_LOG_STD


@dataclass(frozen=True, kw_only=True)
class ActorCriticPlan(Plan):
    """Base class of the plans of critics and policy.

    Attributes:
        observations: Number of elements of a flat observation.
        components: Number of components of an action.
        policy: Layers of the policy, in the vector of its parameters.
        critics: Layers of each critic, in the vector of their parameters.
        soft: True for a stochastic policy with an entropy term (SAC), False for a deterministic policy.
        smoothed: True if noise is added to the actions of a deterministic target policy (TD3).
    """

    observations: int
    components: int
    policy: tuple[Dense, ...]
    critics: tuple[tuple[Dense, ...], ...]
    soft: bool
    smoothed: bool


class CriticPlan(ActorCriticPlan):
    """Plan of a gradient step of the critics, with targets from target networks."""

    @property
    def terms(self) -> tuple[str, ...]:
        """See ``Plan``."""
        return "value_loss", "q_values"

    def gradient(self, module: ir.Module, lanes: int) -> CriticGradient:
        """See ``Plan``."""
        return CriticGradient(self, module, lanes)


class ActorPlan(ActorCriticPlan):
    """Plan of a gradient step of the policy."""

    @property
    def terms(self) -> tuple[str, ...]:
        """See ``Plan``."""
        return ("policy_loss", "entropy") if self.soft else ("policy_loss",)

    def gradient(self, module: ir.Module, lanes: int) -> ActorGradient:
        """See ``Plan``."""
        return ActorGradient(self, module, lanes)


SomePlan = TypeVar("SomePlan", bound=ActorCriticPlan)


class _ActorCriticGradient(Gradient[SomePlan]):
    """Base class of both emitters, which train either the critics or the policy."""

    _policy: Network
    _critics: list[Network]
    _noise: list[int]

    def _declare_sampling(self, has_noise: bool) -> None:
        plan = self.plan
        self._noise = self.columns("noise", plan.components, plan.components) if has_noise else []
        self._log_prob = self.workspace.take(ROWS)
        if plan.soft:
            self.others("temperature")

    def begin(self) -> None:
        """See ``Gradient``."""
        super().begin()
        if self.plan.soft:
            self._temperature = self.code.broadcast(self.code.scalar(self.array("temperature"))).exp()

    def _act(self, outputs: int, inputs: Inputs) -> None:
        """Emit the policy's actions into the inputs of the critics, after the observations."""
        with self.code.loop(ROWS, step=self.code.lanes) as v:
            actions, log_prob = self._actions(self.units(outputs, self.plan.policy[-1].outputs, v), v)
            self.store(actions, inputs.columns + self.plan.observations * ROWS, v)
            if log_prob is not None:
                self.store([log_prob], self._log_prob, v)

    def _actions(self, outputs: list[Vector], at: Any) -> tuple[list[Vector], Vector | None]:
        """Return actions from -1 to 1 and, if they are sampled, their log-density."""
        if not self.plan.soft:
            return [output.tanh() for output in outputs], None
        means, log_stds = outputs[: self.plan.components], outputs[self.plan.components :]
        limited = [log_std.clamp(MIN_LOG_STD, MAX_LOG_STD) for log_std in log_stds]
        return squashed_sample(means, limited, [self.rows(place, at) for place in self._noise])

    def _minimum(self, outputs: Sequence[int], at: Any) -> tuple[Vector, list[Vector]]:
        """Return the minimum of the critics' estimates, and the estimates, which are variables."""
        values = [value for place in outputs for value in self.units(place, 1, at)]
        minimum = values[0]
        for value in values[1:]:
            minimum = minimum.minimum(value)
        return minimum, values


class CriticGradient(_ActorCriticGradient[CriticPlan]):
    """Emitter of the gradient of the critics' squared temporal-difference errors."""

    def __init__(self, plan: CriticPlan, module: ir.Module, lanes: int) -> None:
        super().__init__(plan, module, lanes)
        self._critic_inputs = self.inputs("inputs", plan.observations + plan.components)
        self._next = self.inputs("next_observations", plan.observations, more=plan.components)
        self._rewards, self._discounts = self.column("rewards"), self.column("discounts")
        self._declare_sampling(plan.soft or plan.smoothed)
        self._critics = [self.network(layers) for layers in plan.critics]
        self._policy = Network(plan.policy, self.workspace, backward=False)
        self._targets = self.workspace.take(ROWS)
        self.others("policy", "target_critics")

    def _actions(self, outputs: list[Vector], at: Any) -> tuple[list[Vector], Vector | None]:
        actions, log_prob = super()._actions(outputs, at)
        if self.plan.smoothed:
            std, limit = (self.coefficient[name] for name in (Coefficient.TARGET_NOISE, Coefficient.TARGET_NOISE_CLIP))
            smoothing = [(std * self.rows(place, at)).clamp(-limit, limit) for place in self._noise]
            actions = [(action + noise).clamp(-1.0, 1.0) for action, noise in zip(actions, smoothing, strict=True)]
        return actions, log_prob

    def tile(self) -> None:
        """See ``Gradient``."""
        code, plan = self.code, self.plan
        self._act(self.forward(self._policy, self._next.columns, "policy"), self._next)
        later = [self.forward(critic, self._next.columns, "target_critics") for critic in self._critics]
        with code.loop(ROWS, step=code.lanes) as v:
            value, _ = self._minimum(later, v)
            if plan.soft:
                value = value - self._temperature * self.rows(self._log_prob, v)
            target = self.rows(self._rewards, v) + self.rows(self._discounts, v) * value
            self.store([target], self._targets, v)
        for critic in self._critics:
            output = self.forward(critic, self._critic_inputs.columns)
            with code.loop(ROWS, step=code.lanes) as v:
                (value,), scale = self.units(output, 1, v), self.scale_of_rows(v)
                loss = (value - self.rows(self._targets, v)).square() * (0.5 if plan.soft else 1.0)
                self.store(gradients(loss * scale, [value]), critic.deltas[-1], v)
                self.report({"value_loss": loss, "q_values": value * (1.0 / len(plan.critics))}, scale)
            self.backward(critic, self._critic_inputs.rows)


class ActorGradient(_ActorCriticGradient[ActorPlan]):
    """Emitter of the gradient of a policy that maximises the critics' values of its actions."""

    def __init__(self, plan: ActorPlan, module: ir.Module, lanes: int) -> None:
        super().__init__(plan, module, lanes)
        self._critic_inputs = self.inputs("inputs", plan.observations + plan.components)
        self._declare_sampling(plan.soft)
        self._policy = self.network(plan.policy)
        used = plan.critics if plan.soft else plan.critics[:1]
        self._critics = [Network(layers, self.workspace) for layers in used]
        self._action_deltas = self.workspace.take(plan.components * ROWS)
        self.others("critics")

    def begin(self) -> None:
        """See ``Gradient``."""
        super().begin()
        for critic in self._critics:
            critic.begin(self.code, self.memory)

    def tile(self) -> None:
        """See ``Gradient``."""
        code, plan = self.code, self.plan
        outputs = self.forward(self._policy, self._critic_inputs.columns)
        self._act(outputs, self._critic_inputs)
        values = [self.forward(critic, self._critic_inputs.columns, "critics") for critic in self._critics]
        with code.loop(ROWS, step=code.lanes) as v:
            scale = self.scale_of_rows(v)
            value, estimates = self._minimum(values, v)
            for critic, derivative in zip(self._critics, gradients(-value * scale, estimates), strict=True):
                self.store([derivative], critic.deltas[-1], v)
            terms = {"policy_loss": -value}
            if plan.soft:
                log_prob = self.rows(self._log_prob, v)
                terms = {"policy_loss": self._temperature * log_prob - value, "entropy": -log_prob}
            self.report(terms, scale)
        for number, critic in enumerate(self._critics):
            parameters = critic.parameters(code, self.array("critics"))
            rows, into, first = self._critic_inputs.rows, self._action_deltas, plan.observations
            critic.backward(code, self.memory, parameters, None, rows, into, add=number > 0, first=first)
        with code.loop(ROWS, step=code.lanes) as v:
            variables = self.units(outputs, plan.policy[-1].outputs, v)
            actions, log_density = self._actions(variables, v)
            # surrogate whose derivative with respect to the outputs is that of the loss
            loss = (
                code.broadcast(0.0) if log_density is None else self._temperature * log_density * self.scale_of_rows(v)
            )
            for component, action in enumerate(actions):
                loss = loss + action * self.rows(self._action_deltas + component * ROWS, v)
            self.store(gradients(loss, variables), self._policy.deltas[-1], v)
        self.backward(self._policy, self._critic_inputs.rows)


@dataclass(frozen=True, kw_only=True)
class TemperaturePlan(Plan):
    """Plan of a gradient step of the temperature, whose logarithm is the parameter.

    Attributes:
        stride: Stride between the metrics of minibatches.
        entropy: Index of the entropy among the metrics of a minibatch.
    """

    parameters: int = 1
    stride: int
    entropy: int

    @property
    def terms(self) -> tuple[str, ...]:
        """See ``Plan``."""
        return ()

    def gradient(self, module: ir.Module, lanes: int) -> TemperatureGradient:
        """See ``Plan``."""
        return TemperatureGradient(self, module, lanes)


class TemperatureGradient(Gradient[TemperaturePlan]):
    """Emitter of the gradient of ``temperature * (entropy - target)``; it is zero without rows of weight 1."""

    def __init__(self, plan: TemperaturePlan, module: ir.Module, lanes: int) -> None:
        super().__init__(plan, module, lanes)
        self.others("metrics", "present")

    def emit(self) -> None:
        """See ``Gradient``."""
        code, gradient = self.code, self.code.pointer(Word.GRADIENTS)
        number = code.word(Word.MINIBATCH)
        fill(code, gradient, 0, self.plan.padded_parameters)
        wanted = code.load(code.pointer(Word.COEFFICIENTS), int(Coefficient.TARGET_ENTROPY), 1)
        entropy = code.load(self.array("metrics"), code.add(code.times(number, self.plan.stride), self.plan.entropy), 1)
        temperature = code.load(code.pointer(Word.PARAMETERS), 0, 1).exp()
        code.store(temperature * (entropy - wanted) * code.load(self.array("present"), number, 1), gradient)
        code.finish()

    def tile(self) -> None:
        """See ``Gradient``: there are no rows."""
