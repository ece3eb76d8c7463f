"""Native gradient of the action-value loss of DQN and PQN."""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from warpdrive.training.compiled.gradient import Gradient, Plan
from warpdrive.training.compiled.network import ROWS, Dense
from warpdrive.training.compiled.simd import I32, gradients


@dataclass(frozen=True, kw_only=True)
class ActionValuePlan(Plan):
    """Plan of the regression of action values on given targets.

    Attributes:
        layers: Layers of the network.
        huber: True for the Huber loss, False for half the squared error.
    """

    layers: tuple[Dense, ...]
    huber: bool

    @property
    def terms(self) -> tuple[str, ...]:
        """See ``Plan``."""
        return "td_loss", "q_values"

    def gradient(self, module: ir.Module, lanes: int) -> ActionValueGradient:
        """See ``Plan``."""
        return ActionValueGradient(self, module, lanes)


class ActionValueGradient(Gradient[ActionValuePlan]):
    """Emitter of the gradient of the loss, which depends on the values of the actions taken."""

    def __init__(self, plan: ActionValuePlan, module: ir.Module, lanes: int) -> None:
        super().__init__(plan, module, lanes)
        self._observations = self.inputs("observations", plan.layers[0].inputs)
        self._network = self.network(plan.layers)
        (self._action,) = self.columns("actions", 1, 1, I32)
        self._returns = self.column("returns")

    def tile(self) -> None:
        """See ``Gradient``."""
        code, plan, outputs = self.code, self.plan, self.forward(self._network, self._observations.columns)
        kind = ir.VectorType(I32, code.lanes)
        with code.loop(ROWS, step=code.lanes) as v:
            action, scale = self.integers(self._action, v), self.scale_of_rows(v)
            values = self.units(outputs, plan.layers[-1].outputs, v)
            chosen = code.broadcast(0.0)
            for n, value in enumerate(values):
                is_taken = code.builder.icmp_signed("==", action, ir.Constant(kind, [n] * code.lanes))
                chosen = value.where(is_taken, chosen)
            loss = self.value_error(chosen - self.rows(self._returns, v), plan.huber)
            self.store(gradients(loss * scale, values), self._network.deltas[-1], v)
            self.report({"td_loss": loss, "q_values": chosen}, scale)
        self.backward(self._network, self._observations.rows)
