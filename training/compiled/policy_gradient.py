"""Native gradient of the losses of PPO and A2C, of a policy, a value function or both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from warpdrive.training.compiled.gradient import Coefficient, Gradient, Part, Plan
from warpdrive.training.compiled.heads import categorical, gaussian, squashed
from warpdrive.training.compiled.matrix import Matrix, transpose
from warpdrive.training.compiled.network import ROWS, Dense, fill
from warpdrive.training.compiled.simd import F32, I8, I32, Vector, gradients
from warpdrive.training.models.critic_inputs import RowLayout
from warpdrive.training.models.two_headed import MAX_LOG_STD, MIN_LOG_STD


@dataclass(frozen=True, kw_only=True)
class PolicyPlan(Plan):
    """Plan of PPO and A2C.

    Attributes:
        algorithm: ``"ppo"`` or ``"a2c"``.
        observations: Number of elements of a flat observation.
        trunk: Shared layers, possibly none.
        policy: Layers of the policy; empty if only the value function is trained.
        value: Layers of the value function; empty if only the policy is trained.
        choices: Number of options of each discrete choice; empty for actions in a Box.
        components: Number of choices, or of components of a Box.
        log_std: Index of the logarithms of the standard deviations in the parameters; None for discrete actions.
        log_reach: See ``gaussian``.
        squashed: True if actions in a Box are hyperbolic tangents of normal components.
        states: Layout of the inputs of a centralised critic; None if the value function takes the observations.
        mask: Number of columns of the action mask; 0 without one.
        value_clip: True if changes of value estimates are clipped.
        huber: True if the value loss is the Huber loss.
    """

    algorithm: str = "ppo"
    observations: int = 0
    trunk: tuple[Dense, ...] = ()
    policy: tuple[Dense, ...] = ()
    value: tuple[Dense, ...] = ()
    choices: tuple[int, ...] = ()
    components: int = 0
    log_std: int | None = None
    log_reach: float = 0.0
    squashed: bool = False
    states: RowLayout | None = None
    mask: int = 0
    value_clip: bool = False
    huber: bool = False

    @property
    def terms(self) -> tuple[str, ...]:
        """See ``Plan``."""
        value = ("value_loss",) if self.value else ()
        ppo = ("approx_kl", "clipfrac") if self.algorithm == "ppo" else ()
        return ("policy_loss", *value, "entropy", *ppo) if self.policy else value

    def gradient(self, module: ir.Module, lanes: int) -> PolicyGradient:
        """See ``Plan``."""
        return PolicyGradient(self, module, lanes)


class PolicyGradient(Gradient[PolicyPlan]):
    """Emitter of the gradient of the losses of PPO and A2C."""

    def __init__(self, plan: PolicyPlan, module: ir.Module, lanes: int) -> None:
        super().__init__(plan, module, lanes)
        if plan.policy or not plan.states:
            self._observations = self.inputs("observations", plan.observations)
        if plan.value and plan.states:
            own, common, which, agents = plan.states
            parts = Part("own", own), Part("common", common, of=agents), Part("which", which, among=agents)
            self._states = self.side_by_side(parts)
        if plan.trunk:
            self._trunk = self.network(plan.trunk)
            self._features = self.workspace.matrix(ROWS, plan.trunk[-1].outputs)
        if plan.policy:
            self._policy = self.network(plan.policy)
            kind = I32 if plan.choices else F32
            self._actions = self.columns("actions", plan.components, plan.components, kind)
            self._mask = self.columns("mask", sum(plan.choices), plan.mask, I8) if plan.mask else []
            self._log_std_sums = self.workspace.take(plan.components * lanes)
        if plan.value:
            self._value = self.network(plan.value)
        names = ("log_probabilities", "advantages") * bool(plan.policy) + ("returns", "values") * bool(plan.value)
        self._column = {name: self.column(name) for name in names}

    def begin(self) -> None:
        """See ``Gradient``."""
        super().begin()
        if self.plan.log_std is not None:
            fill(self.code, self.memory, self._log_std_sums, self.plan.components * self.code.lanes)

    def end(self) -> None:
        """See ``Gradient``."""
        super().end()
        if self.plan.log_std is not None:
            for component in range(self.plan.components):
                total = self.code.load(self.memory, self._log_std_sums + component * self.code.lanes).total()
                self.code.builder.store(total, self.code.at(self.gradient, self.plan.log_std + component))

    def tile(self) -> None:
        """See ``Gradient``."""
        plan, into = self.plan, None
        if plan.policy or not plan.states:
            inputs, features = self._observations.columns, self._observations.rows
        if plan.trunk:
            inputs, features, into = self.forward(self._trunk, inputs), self._features, self._trunk.deltas[-1]
            place, width = features
            source = Matrix(self.code.at(self.memory, inputs), ROWS)
            target = Matrix(self.code.at(self.memory, place), width)
            transpose(self.code, target, source, plan.trunk[-1].outputs, ROWS)
        if plan.policy:
            self._policy_loss(self.forward(self._policy, inputs))
            self.backward(self._policy, features, into)
        if plan.value and plan.states:
            self._value_loss(self.forward(self._value, self._states.columns))
            self.backward(self._value, self._states.rows)
        elif plan.value:
            self._value_loss(self.forward(self._value, inputs))
            self.backward(self._value, features, into, add=bool(plan.policy))
        if plan.trunk:
            self.backward(self._trunk, self._observations.rows)

    def _policy_loss(self, outputs: int) -> None:
        code, plan = self.code, self.plan
        with code.loop(ROWS, step=code.lanes) as v:
            variables = self.units(outputs, plan.policy[-1].outputs, v)
            log_stds: list[Vector] = []
            if plan.choices:
                log_prob, entropy = self._of_choices(variables, v)
            else:
                own = code.at(self.parameters, plan.log_std)
                log_stds = [code.variable(code.broadcast(code.scalar(own, n))) for n in range(plan.components)]
                log_prob, entropy = self._of_components(variables, log_stds, v)
            advantage, scale = self.rows(self._column["advantages"], v), self.scale_of_rows(v)
            terms = {"entropy": entropy}
            if plan.algorithm == "ppo":
                log_ratio = log_prob - self.rows(self._column["log_probabilities"], v)
                ratio, clip = log_ratio.exp(), self.coefficient[Coefficient.CLIP]
                clipped = ratio.clamp(1.0 - clip, 1.0 + clip)
                terms["policy_loss"] = -(ratio * advantage).minimum(clipped * advantage)
                terms["approx_kl"] = ratio - 1.0 - log_ratio
                outside = (ratio - 1.0).abs().compare(">", clip)
                terms["clipfrac"] = code.broadcast(1.0).where(outside, 0.0)
            else:
                terms["policy_loss"] = -(log_prob * advantage)
            loss = (terms["policy_loss"] - self.coefficient[Coefficient.ENTROPY_COEF] * entropy) * scale
            derivatives = gradients(loss, [*variables, *log_stds])
            self.store(derivatives[: len(variables)], self._policy.deltas[-1], v)
            for n, derivative in enumerate(derivatives[len(variables) :]):
                place = self._log_std_sums + n * code.lanes
                code.store(code.load(self.memory, place) + derivative, self.memory, place)
            self.report(terms, scale)

    def _of_choices(self, logits: list[Vector], at: Any) -> tuple[Vector, Vector]:
        """Return log-probability and entropy of discrete choices."""
        code = self.code
        zero = ir.Constant(ir.VectorType(I32, code.lanes), [0] * code.lanes)
        actions = [self.integers(place, at) for place in self._actions]
        mask = [code.builder.icmp_signed("!=", self.integers(place, at), zero) for place in self._mask]
        return categorical(code, logits, self.plan.choices, actions, mask or None)

    def _of_components(self, outputs: list[Vector], log_stds: list[Vector], at: Any) -> tuple[Vector, Vector]:
        """Return log-density and entropy of the components of a Box."""
        means, differences = outputs[: self.plan.components], outputs[self.plan.components :]
        if differences:
            pairs = zip(log_stds, differences, strict=True)
            log_stds = [(own + difference).clamp(MIN_LOG_STD, MAX_LOG_STD) for own, difference in pairs]
        actions = [self.rows(place, at) for place in self._actions]
        head = squashed if self.plan.squashed else gaussian
        return head(means, log_stds, actions, self.plan.log_reach)

    def _value_loss(self, outputs: int) -> None:
        code, plan = self.code, self.plan
        with code.loop(ROWS, step=code.lanes) as v:
            (value,), scale = self.units(outputs, 1, v), self.scale_of_rows(v)
            before, returns = self.rows(self._column["values"], v), self.rows(self._column["returns"], v)
            loss = self.value_error(value - returns, plan.huber)
            if plan.value_clip:
                limit = self.coefficient[Coefficient.VALUE_CLIP]
                clipped = before + (value - before).clamp(-limit, limit)
                loss = loss.maximum(self.value_error(clipped - returns, plan.huber))
            derivatives = gradients(loss * (scale * self.coefficient[Coefficient.VALUE_COEF]), [value])
            self.store(derivatives, self._value.deltas[-1], v)
            self.report({"value_loss": loss}, scale)
