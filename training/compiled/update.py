"""Native code of gradient steps on minibatches of rows.

``gradient`` computes the gradient of a part of a minibatch: per tile of rows it gathers them by index, runs the
networks, evaluates the loss with its derivatives, and runs backwards. ``reduce`` sums the parts in a fixed order, so
that results do not depend on the number of threads; ``apply`` clips and takes Adam's step; ``update`` does all of this
for several minibatches.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, auto
from typing import Any

from llvmlite import ir

from warpdrive.training.compiled.heads import categorical, gaussian
from warpdrive.training.compiled.matrix import Matrix, transpose
from warpdrive.training.compiled.network import ROWS, Dense, Network, Workspace, copy_floats, fill
from warpdrive.training.compiled.simd import F32, F64, I32, I64, Code, Vector, gradients


class Word(IntEnum):
    """Words of the argument table."""

    PARAMETERS = 0
    GRADIENTS = auto()  # [parts, parameters] float32, the first is the sum after ``reduce``
    FIRST_MOMENT = auto()
    SECOND_MOMENT = auto()
    STEP = auto()  # float32
    WORKSPACE = auto()  # [parts, size] float32
    SUMS = auto()  # [parts, terms, lanes] float32
    METRICS = auto()  # [minibatches, terms + 2] float32
    ORDER = auto()  # [rows] int64
    BOUNDS = auto()  # [minibatches + 1] int64
    COUNTING = auto()  # [minibatches] float32
    OBSERVATIONS = auto()  # [rows, size] float32
    STATES = auto()  # [rows, size] float32, inputs of a centralised critic
    ACTIONS = auto()  # [rows, parts] int32 or float32
    MASK = auto()  # [rows, choices] bool
    LOG_PROBABILITIES = auto()
    ADVANTAGES = auto()
    RETURNS = auto()
    VALUES = auto()
    WEIGHT = auto()
    COEFFICIENTS = auto()  # float32, see Coefficient
    ADAM = auto()  # float64: lr, beta1, beta2, eps
    MINIBATCH = auto()  # number of the current one
    PARTS = auto()
    FIRST = auto()
    LAST = auto()
    STOPPED = auto()  # float32, 1 once target_kl is exceeded


class Coefficient(IntEnum):
    """Coefficients of the loss."""

    CLIP = 0
    VALUE_CLIP = auto()
    VALUE_COEF = auto()
    ENTROPY_COEF = auto()
    HUBER_DELTA = auto()
    MAX_GRAD_NORM = auto()
    MOST_KL = auto()


@dataclass(frozen=True)
class Plan:
    """Specialisation of the native code: model, action distribution and loss.

    Attributes:
        algorithm: ``"ppo"``, ``"a2c"``, or ``"q"`` for action values.
        parameters: number of parameters.
        observations: number of elements of a flat observation.
        states: number of inputs of a centralised critic; 0: the value function sees the observations.
        trunk: shared layers, maybe none.
        policy: layers of the policy, or of the action values.
        value: layers of the value function; none with action values.
        choices: number of options of each discrete choice; empty for actions in a Box.
        log_std: index of the logarithms of standard deviations in the parameters, or None.
        log_reach: see ``gaussian``.
        mask: number of columns of the action mask; 0 without one.
        value_clip: True if changes of value estimates are clipped.
        huber: True if the value loss is Huber's.
        early_stopping: True if there is a target KL divergence.
    """

    algorithm: str
    parameters: int
    observations: int
    trunk: tuple[Dense, ...]
    policy: tuple[Dense, ...]
    value: tuple[Dense, ...]
    choices: tuple[int, ...] = ()
    states: int = 0
    log_std: int | None = None
    log_reach: float = 0.0
    mask: int = 0
    value_clip: bool = False
    huber: bool = False
    early_stopping: bool = False

    @property
    def padded_parameters(self) -> int:
        """Number of parameters, rounded up to whole cache lines."""
        return -(-self.parameters // 16) * 16

    @property
    def components(self) -> int:
        """Number of choices, or of components of a Box."""
        return len(self.choices) or self.policy[-1].outputs

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of the terms of the loss that are reported."""
        if self.algorithm == "q":
            return "td_loss", "q_values"
        ppo = ("approx_kl", "clipfrac") if self.algorithm == "ppo" else ()
        return ("policy_loss", "value_loss", "entropy", *ppo)


class _Gradient:
    """Emitter of the gradient of a part of a minibatch."""

    def __init__(self, plan: Plan, module: ir.Module, lanes: int) -> None:
        self.plan = plan
        self.code = Code(module, "gradient", lanes)
        workspace = Workspace(lanes)
        self.rows, self.width = workspace.matrix(ROWS, plan.observations)
        self.columns = workspace.take(workspace.padded(plan.observations) * ROWS)
        self.state_rows = workspace.matrix(ROWS, plan.states)
        self.state_columns = workspace.take(workspace.padded(plan.states) * ROWS)
        self.trunk = Network(plan.trunk, workspace) if plan.trunk else None
        self.features = workspace.matrix(ROWS, plan.trunk[-1].outputs) if plan.trunk else (self.rows, self.width)
        self.policy = Network(plan.policy, workspace)
        self.value = Network(plan.value, workspace)
        names = ["log_probabilities", "advantages", "returns", "values", "weight"]
        self.column = {name: workspace.take(ROWS) for name in names}
        self.actions = [workspace.take(ROWS) for _ in range(plan.components)]
        self.masks = [workspace.take(ROWS) for _ in range(sum(plan.choices) if plan.mask else 0)]
        self.log_std_sums = workspace.take(plan.components * lanes) if plan.log_std is not None else 0
        self.size = workspace.size

    def emit(self) -> None:
        code, plan = self.code, self.plan
        builder = code.builder
        index = code.word(Word.MINIBATCH)
        bounds = code.pointer(Word.BOUNDS, I64)
        begin, end = code.scalar(bounds, index), code.scalar(bounds, code.add(index, 1))
        tiles = builder.sdiv(code.add(builder.sub(end, begin), ROWS - 1), code.integer(ROWS))
        first = builder.sdiv(builder.mul(tiles, code.part), code.parts)
        last = builder.sdiv(builder.mul(tiles, code.add(code.part, 1)), code.parts)
        self.memory = memory = code.at(code.pointer(Word.WORKSPACE), code.times(code.part, self.size))
        self.parameters = code.pointer(Word.PARAMETERS)
        padded = plan.padded_parameters
        self.gradient = code.at(code.pointer(Word.GRADIENTS), code.times(code.part, padded))
        self.sums = code.at(code.pointer(Word.SUMS), code.times(code.part, len(plan.terms) * code.lanes))
        fill(code, self.gradient, 0, padded)
        fill(code, self.sums, 0, len(plan.terms) * code.lanes)
        networks = [network for network in (self.trunk, self.policy, self.value) if network is not None]
        for network in networks:
            network.begin(code, memory)
        if plan.log_std is not None:
            fill(code, memory, self.log_std_sums, plan.components * code.lanes)
        counting = code.scalar(code.pointer(Word.COUNTING), index)
        self.scale = code.spread(builder.fdiv(ir.Constant(F32, 1.0), counting))
        coefficients = code.pointer(Word.COEFFICIENTS)
        self.coefficient = {name: code.spread(code.scalar(coefficients, int(name))) for name in Coefficient}
        with code.loop(last, start=first) as tile:
            self._gather(builder.add(begin, code.times(tile, ROWS)), end)
            self._step()
        for network in networks:
            network.end(code, memory, self.gradient)
        if plan.log_std is not None:
            for component in range(plan.components):
                total = code.load(memory, self.log_std_sums + component * code.lanes).total()
                builder.store(total, code.at(self.gradient, plan.log_std + component))
        code.finish()

    def _gather(self, start: Any, end: Any) -> None:
        """Copy the tile's rows from everywhere; rows beyond the end are the last row with weight 0."""
        code, plan, memory = self.code, self.plan, self.memory
        builder = code.builder
        order, weight = code.pointer(Word.ORDER, I64), code.pointer(Word.WEIGHT)
        sources = {name: code.pointer(Word[name.upper()]) for name in self.column}
        observations = code.pointer(Word.OBSERVATIONS)
        integral = bool(plan.choices)
        actions = code.pointer(Word.ACTIONS, I32 if integral else F32)
        as_integers = builder.bitcast(memory, I32.as_pointer())
        mask = code.pointer(Word.MASK, ir.IntType(8))
        final = builder.sub(end, code.integer(1))
        with code.loop(ROWS) as r:
            wanted = builder.add(start, r)
            inside = builder.icmp_signed("<=", wanted, final)
            row = code.scalar(order, builder.select(inside, wanted, final))
            target, source = code.add(code.times(r, self.width), self.rows), code.times(row, plan.observations)
            copy_floats(code, memory, target, observations, source, plan.observations)
            if plan.states:
                place, width = self.state_rows
                target, source = code.add(code.times(r, width), place), code.times(row, plan.states)
                copy_floats(code, memory, target, code.pointer(Word.STATES), source, plan.states)
            for name, place in self.column.items():
                if name == "weight":
                    number = builder.select(inside, code.scalar(weight, row), ir.Constant(F32, 0.0))
                else:
                    number = code.scalar(sources[name], row)
                builder.store(number, code.at(memory, code.add(r, place)))
            for part, place in enumerate(self.actions):
                number = code.scalar(actions, code.add(code.times(row, plan.components), part))
                builder.store(number, code.at(as_integers if integral else memory, code.add(r, place)))
            for choice, place in enumerate(self.masks):
                allowed = code.scalar(mask, code.add(code.times(row, plan.mask), choice))
                builder.store(builder.zext(allowed, I32), code.at(as_integers, code.add(r, place)))
        matrices = [(self.columns, (self.rows, self.width), plan.observations)]
        if plan.states:
            matrices.append((self.state_columns, self.state_rows, plan.states))
        for columns, (rows, width), size in matrices:
            source = Matrix(code.at(memory, rows), width)
            transpose(code, Matrix(code.at(memory, columns), ROWS), source, ROWS, size)

    def _step(self) -> None:
        code, plan, memory, parameters = self.code, self.plan, self.memory, self.parameters
        inputs, trunk = self.columns, self.trunk
        if trunk is not None:
            inputs = trunk.forward(code, memory, trunk.parameters(code, parameters), self.columns)
            place, width = self.features
            source = Matrix(code.at(memory, inputs), ROWS)
            transpose(code, Matrix(code.at(memory, place), width), source, plan.trunk[-1].outputs, ROWS)
        into = None if trunk is None else trunk.deltas[-1]
        loss = self._q_loss if plan.algorithm == "q" else self._policy_loss
        loss(self.policy.forward(code, memory, self.policy.parameters(code, parameters), inputs))
        self.policy.backward(code, memory, self.policy.parameters(code, parameters), self.gradient, self.features, into)
        features, add = self.features, True
        if not plan.value:
            return
        if plan.states:
            inputs, features, into, add = self.state_columns, self.state_rows, None, False
        self._value_loss(self.value.forward(code, memory, self.value.parameters(code, parameters), inputs))
        self.value.backward(code, memory, self.value.parameters(code, parameters), self.gradient, features, into, add)
        if trunk is not None:
            trunk.backward(code, memory, trunk.parameters(code, parameters), self.gradient, (self.rows, self.width))

    def _integers(self, start: Any, at: Any) -> Any:
        kind = ir.VectorType(I32, self.code.lanes)
        address = self.code.at(self.memory, self.code.add(start, at))
        value = self.code.builder.load(self.code.builder.bitcast(address, kind.as_pointer()))
        value.align = 4
        return value

    def _policy_loss(self, outputs: int) -> None:
        code, plan, memory = self.code, self.plan, self.memory
        count = plan.policy[-1].outputs
        delta = self.policy.deltas[-1]
        with code.loop(ROWS, step=code.lanes) as v:
            column = {name: code.load(memory, code.add(v, place)) for name, place in self.column.items()}
            logits = [code.variable(code.load(memory, code.add(v, outputs + n * ROWS))) for n in range(count)]
            log_stds: list[Vector] = []
            if plan.choices:
                zero = ir.Constant(ir.VectorType(I32, code.lanes), [0] * code.lanes)
                actions = [self._integers(place, v) for place in self.actions]
                mask = [code.builder.icmp_signed("!=", self._integers(place, v), zero) for place in self.masks]
                log_prob, entropy = categorical(code, logits, plan.choices, actions, mask or None)
            else:
                assert plan.log_std is not None
                log_stds = [
                    code.variable(code.spread(code.scalar(self.parameters, plan.log_std + n)))
                    for n in range(plan.components)
                ]
                taken = [code.load(memory, code.add(v, place)) for place in self.actions]
                log_prob, entropy = gaussian(logits, log_stds, taken, plan.log_reach)
            advantage, scale = column["advantages"], self.scale * column["weight"]
            terms = {"entropy": entropy}
            if plan.algorithm == "ppo":
                log_ratio = log_prob - column["log_probabilities"]
                ratio, clip = log_ratio.exp(), self.coefficient[Coefficient.CLIP]
                clipped = ratio.clamp(1.0 - clip, 1.0 + clip)
                terms["policy_loss"] = -(ratio * advantage).minimum(clipped * advantage)
                terms["approx_kl"] = ratio - 1.0 - log_ratio
                outside = (ratio - 1.0).abs().compare(">", clip)
                terms["clipfrac"] = code.spread(1.0).where(outside, 0.0)
            else:
                terms["policy_loss"] = -(log_prob * advantage)
            loss = (terms["policy_loss"] - self.coefficient[Coefficient.ENTROPY_COEF] * entropy) * scale
            derivatives = gradients(loss, [*logits, *log_stds])
            for n, derivative in enumerate(derivatives[:count]):
                code.store(derivative, memory, code.add(v, delta + n * ROWS))
            for n, derivative in enumerate(derivatives[count:]):
                place = self.log_std_sums + n * code.lanes
                code.store(code.load(memory, place) + derivative, memory, place)
            self._report(terms, scale)

    def _q_loss(self, outputs: int) -> None:
        """Emit the loss of the values of the actions taken, whose targets are the returns."""
        code, memory, delta = self.code, self.memory, self.policy.deltas[-1]
        kind = ir.VectorType(I32, code.lanes)
        with code.loop(ROWS, step=code.lanes) as v:
            column = {name: code.load(memory, code.add(v, place)) for name, place in self.column.items()}
            action, scale = self._integers(self.actions[0], v), self.scale * column["weight"]
            (choices,) = self.plan.choices
            taken = [
                code.builder.icmp_signed("==", action, ir.Constant(kind, [n] * code.lanes)) for n in range(choices)
            ]
            value = code.spread(0.0)
            for n, is_taken in enumerate(taken):
                value = code.load(memory, code.add(v, outputs + n * ROWS)).where(is_taken, value)
            value = code.variable(value)
            loss = self._value_error(value - column["returns"])
            (derivative,) = gradients(loss * scale, [value])
            for n, is_taken in enumerate(taken):
                code.store(derivative.where(is_taken, 0.0), memory, code.add(v, delta + n * ROWS))
            self._report({"td_loss": loss, "q_values": value}, scale)

    def _value_loss(self, outputs: int) -> None:
        code, plan, memory = self.code, self.plan, self.memory
        delta = self.value.deltas[-1]
        with code.loop(ROWS, step=code.lanes) as v:
            column = {name: code.load(memory, code.add(v, place)) for name, place in self.column.items()}
            value, scale = code.variable(code.load(memory, code.add(v, outputs))), self.scale * column["weight"]
            loss = self._value_error(value - column["returns"])
            if plan.value_clip:
                limit = self.coefficient[Coefficient.VALUE_CLIP]
                clipped = column["values"] + (value - column["values"]).clamp(-limit, limit)
                loss = loss.maximum(self._value_error(clipped - column["returns"]))
            (derivative,) = gradients(loss * (scale * self.coefficient[Coefficient.VALUE_COEF]), [value])
            code.store(derivative, memory, code.add(v, delta))
            self._report({"value_loss": loss}, scale)

    def _value_error(self, difference: Vector) -> Vector:
        if not self.plan.huber:
            return 0.5 * difference.square()
        limit, size = self.coefficient[Coefficient.HUBER_DELTA], difference.abs()
        return (0.5 * difference.square()).where(size.compare("<=", limit), limit * (size - 0.5 * limit))

    def _report(self, terms: dict[str, Vector], scale: Vector) -> None:
        """Add the terms of these rows to the sums of the part."""
        code = self.code
        for name, term in terms.items():
            place = self.plan.terms.index(name) * code.lanes
            code.store(term.fma(scale, code.load(self.sums, place)), self.sums, place)


def _emit_reduce(plan: Plan, module: ir.Module, lanes: int) -> None:
    """Sum gradients and terms of all parts."""
    code = Code(module, "reduce", lanes)
    padded = plan.padded_parameters
    gradient, sums = code.pointer(Word.GRADIENTS), code.pointer(Word.SUMS)
    parts = code.word(Word.PARTS)
    with code.loop(padded, step=lanes) as i, code.loop(parts, start=1) as part:
        other = code.load(gradient, code.add(i, code.times(part, padded)))
        code.store(code.load(gradient, i) + other, gradient, i)
    metrics = code.at(code.pointer(Word.METRICS), code.times(code.word(Word.MINIBATCH), len(plan.terms) + 2))
    for number in range(len(plan.terms)):
        total = code.allocate(code.vector_type)
        code.builder.store(code.spread(0.0).value, total)
        with code.loop(parts) as part:
            place = code.add(code.times(part, len(plan.terms) * lanes), number * lanes)
            value = Vector(code, code.builder.load(total)) + code.load(sums, place)
            code.builder.store(value.value, total)
        code.builder.store(Vector(code, code.builder.load(total)).total(), code.at(metrics, number))
    code.finish()


def _emit_apply(plan: Plan, module: ir.Module, lanes: int) -> None:
    """Clip the gradient and take Adam's step (Kingma & Ba 2015, arXiv:1412.6980), as PyTorch's fused one."""
    code = Code(module, "apply", lanes)
    builder = code.builder
    padded = plan.padded_parameters
    gradient, parameters = code.pointer(Word.GRADIENTS), code.pointer(Word.PARAMETERS)
    coefficients, adam = code.pointer(Word.COEFFICIENTS), code.pointer(Word.ADAM, F64)
    count = len(plan.terms)
    metrics = code.at(code.pointer(Word.METRICS), code.times(code.word(Word.MINIBATCH), count + 2))
    squares = [code.allocate(code.vector_type) for _ in range(4)]
    for cell in squares:
        builder.store(code.spread(0.0).value, cell)
    with code.loop(padded, step=4 * lanes if padded % (4 * lanes) == 0 else lanes) as i:
        for n, cell in enumerate(squares if padded % (4 * lanes) == 0 else squares[:1]):
            x = code.load(gradient, code.add(i, n * lanes))
            builder.store(x.fma(x, Vector(code, builder.load(cell))).value, cell)
    total = Vector(code, builder.load(squares[0]))
    for cell in squares[1:]:
        total = total + Vector(code, builder.load(cell))
    norm = code.intrinsic("sqrt", F32, total.total())
    builder.store(norm, code.at(metrics, count))
    stopped = code.pointer(Word.STOPPED)
    if plan.early_stopping:
        kl = code.scalar(metrics, plan.terms.index("approx_kl"))
        far = builder.fcmp_ordered(">", kl, code.scalar(coefficients, int(Coefficient.MOST_KL)))
        builder.store(builder.select(far, ir.Constant(F32, 1.0), code.scalar(stopped)), stopped)
    over = code.scalar(stopped)
    builder.store(over, code.at(metrics, count + 1))
    going_on = builder.fcmp_unordered("==", over, ir.Constant(F32, 0.0))
    with builder.if_then(going_on):
        limit = builder.fdiv(
            code.scalar(coefficients, int(Coefficient.MAX_GRAD_NORM)), builder.fadd(norm, ir.Constant(F32, 1e-6))
        )
        one, unit = ir.Constant(F32, 1.0), ir.Constant(F64, 1.0)
        factor = builder.select(builder.fcmp_ordered(">", limit, one), one, limit)
        step = code.pointer(Word.STEP)
        number = builder.fadd(code.scalar(step), one)
        builder.store(number, step)
        lr, beta1, beta2, eps = (code.scalar(adam, n) for n in range(4))
        count = builder.fptosi(number, I64)
        bias1, bias2 = (builder.fsub(unit, _power(code, beta, count)) for beta in (beta1, beta2))
        size, root = builder.fdiv(lr, bias1), code.intrinsic("sqrt", F64, bias2)
        new1, new2 = (builder.fsub(unit, beta) for beta in (beta1, beta2))
        numbers = [factor, *(builder.fptrunc(x, F32) for x in (size, root, eps, new1, beta2, new2))]
        first, second = code.pointer(Word.FIRST_MOMENT), code.pointer(Word.SECOND_MOMENT)

        def advance(i: Any, width: int) -> None:
            factor, size, root, eps, new1, old2, new2 = (code.spread(x, width) for x in numbers)
            g, m = code.load(gradient, i, width) * factor, code.load(first, i, width)
            m = (g - m).fma(new1, m)
            v = (g * g).fma(new2, code.load(second, i, width) * old2)
            code.store(m, first, i)
            code.store(v, second, i)
            change = size * m / (v.sqrt() / root + eps)
            code.store(code.load(parameters, i, width) - change, parameters, i)

        whole = plan.parameters // lanes * lanes
        with code.loop(whole, step=lanes) as i:
            advance(i, lanes)
        with code.loop(plan.parameters, start=whole) as i:
            advance(i, 1)
    code.finish()


def _power(code: Code, base: Any, exponent: Any) -> Any:
    """Return a float64 to the power of a positive integer, by squaring."""
    builder = code.builder
    result, square, left = (code.allocate(kind) for kind in (F64, F64, I64))
    for cell, value in ((result, ir.Constant(F64, 1.0)), (square, base), (left, exponent)):
        builder.store(value, cell)
    with code.loop(32):
        bits, factor, so_far = builder.load(left), builder.load(square), builder.load(result)
        is_odd = builder.icmp_signed("!=", builder.and_(bits, code.integer(1)), code.integer(0))
        builder.store(builder.select(is_odd, builder.fmul(so_far, factor), so_far), result)
        builder.store(builder.fmul(factor, factor), square)
        builder.store(builder.ashr(bits, code.integer(1)), left)
    return builder.load(result)


def _emit_update(plan: Plan, module: ir.Module, lanes: int) -> None:
    """All gradient steps from minibatch FIRST to LAST, on one thread."""
    code = Code(module, "update", lanes)
    builder = code.builder
    functions = [module.globals[name] for name in ("gradient", "reduce", "apply")]
    parts = code.word(Word.PARTS)
    with code.loop(code.word(Word.LAST), start=code.word(Word.FIRST)) as minibatch:
        address = builder.inttoptr(code.add(code.table, 8 * Word.MINIBATCH), I64.as_pointer())
        builder.store(minibatch, address)
        with code.loop(parts) as part:
            builder.call(functions[0], [code.table, part, parts])
        for function in functions[1:]:
            builder.call(function, [code.table, code.integer(0), code.integer(1)])
    code.finish()


def emit(plan: Plan, module: ir.Module, lanes: int) -> None:
    """Emit the functions of a plan into a module."""
    _Gradient(plan, module, lanes).emit()
    _emit_reduce(plan, module, lanes)
    _emit_apply(plan, module, lanes)
    _emit_update(plan, module, lanes)


def workspace_size(plan: Plan, lanes: int) -> int:
    """Return the number of float32 of the workspace of a part."""
    return _Gradient(plan, ir.Module(), lanes).size
