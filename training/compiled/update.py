"""Native code of gradient steps on minibatches of rows.

``gradient`` computes the gradient of a part of a minibatch, see the module ``gradient``. ``reduce`` sums the parts in a
fixed order, so that results do not depend on the number of threads. ``apply`` clips the gradient and takes Adam's step.
``finish`` does both.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from warpdrive.training.compiled.gradient import Coefficient, Plan, Word
from warpdrive.training.compiled.simd import F32, F64, I64, Code, Vector


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
        code.builder.store(code.broadcast(0.0).value, total)
        with code.loop(parts) as part:
            place = code.add(code.times(part, len(plan.terms) * lanes), number * lanes)
            value = Vector(code, code.builder.load(total)) + code.load(sums, place)
            code.builder.store(value.value, total)
        code.builder.store(Vector(code, code.builder.load(total)).total(), code.at(metrics, number))
    code.finish()


def _emit_apply(plan: Plan, module: ir.Module, lanes: int) -> None:
    """Clip the gradient and take Adam's step (Kingma & Ba 2015, arXiv:1412.6980) as PyTorch's fused implementation."""
    code = Code(module, "apply", lanes)
    builder = code.builder
    padded = plan.padded_parameters
    gradient, parameters = code.pointer(Word.GRADIENTS), code.pointer(Word.PARAMETERS)
    coefficients, adam = code.pointer(Word.COEFFICIENTS), code.pointer(Word.ADAM, F64)
    count = len(plan.terms)
    metrics = code.at(code.pointer(Word.METRICS), code.times(code.word(Word.MINIBATCH), count + 2))
    squares = [code.allocate(code.vector_type) for _ in range(4)]
    for cell in squares:
        builder.store(code.broadcast(0.0).value, cell)
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
        far = builder.fcmp_ordered(">", kl, code.scalar(coefficients, int(Coefficient.MAX_KL)))
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
            factor, size, root, eps, new1, old2, new2 = (code.broadcast(x, width) for x in numbers)
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


def _emit_finish(module: ir.Module, lanes: int) -> None:
    """Reduce and apply."""
    code = Code(module, "finish", lanes)
    for name in ("reduce", "apply"):
        code.builder.call(module.globals[name], [code.table, code.part, code.parts])
    code.finish()


def emit(plan: Plan, module: ir.Module, lanes: int) -> None:
    """Emit the functions of a plan into a module."""
    plan.gradient(module, lanes).emit()
    _emit_reduce(plan, module, lanes)
    _emit_apply(plan, module, lanes)
    _emit_finish(module, lanes)
