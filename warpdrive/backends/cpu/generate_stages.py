"""Generation of the code of kernels with barriers of the grid: stages, which each block runs up to the next barrier.

A block is in one stage at a time. The function of a stage runs the threads of the block and returns the next stage,
``ENDED``, or ``WAITS - n`` if the block goes on with stage ``n`` once all blocks have reached a barrier of the grid. A
launch is a number of rounds, in each of which every block runs until it waits or ends, in parallel over the cores.
State that outlives a round is stored for each block: variables of its threads, and its shared memory.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence

from warpdrive.backends.shared.slots import Slot
from warpdrive.kernels.regions import GridBarrier, Loop, Part, UniformBranch, UniformLoop, all_parts
from warpdrive.kernels.syntax import GENERATED, RANGE

ENDED, WAITS = -1, -2
STAGE = Slot(f"{GENERATED}stage", "int64", is_of_block=True)
WAITING = Slot(f"{GENERATED}waiting", "int64")
"""Stage of each block, and number of waiting blocks of each part."""
MEMORY = f"{GENERATED}memory"
"""Parameter with the address of the shared memory of all blocks."""
ROOM = f"{GENERATED}room"
"""Variable with the address of the shared memory of a block."""


class Stages:
    """Statements of each stage of a kernel, made from its regions and the control flow between them.

    Args:
        parts: The regions.
        statements: Returns the statements of a part without barriers of the grid.
        advance: Returns the statements that begin an iteration of a divergent loop, and the condition to leave it.
        expression: Returns the generated form of a uniform condition.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        statements: Callable[[Part], list[ast.stmt]],
        advance: Callable[[Loop], tuple[list[ast.stmt], ast.expr]],
        expression: Callable[[ast.expr], ast.expr],
    ) -> None:
        self.statements, self.advance, self.expression = statements, advance, expression
        self.bodies: list[list[ast.stmt]] = [[]]
        self.current = 0
        self._sequence(parts)
        self._go_to(ast.Constant(ENDED))

    def _sequence(self, parts: Sequence[Part]) -> None:
        for part in parts:
            if not any(isinstance(inner, GridBarrier) for inner in all_parts([part])):
                self.bodies[self.current] += self.statements(part)
            elif isinstance(part, UniformBranch):
                body, orelse, after = self._new(), self._new(), self._new()
                self._go_to(ast.IfExp(self.expression(part.test), _number(body), _number(orelse)))
                for place, inner in ((body, part.body), (orelse, part.orelse)):
                    self.current = place
                    self._sequence(inner)
                    self._go_to(_number(after))
                self.current = after
            elif isinstance(part, (Loop, UniformLoop)):
                self._loop(part)
            else:
                after = self._new()
                self._go_to(_number(WAITS - after))
                self.current = after

    def _loop(self, part: Loop | UniformLoop) -> None:
        head, body, after = self._new(), self._new(), self._new()
        self._go_to(_number(head))
        self.current = head
        if isinstance(part, UniformLoop):
            self._go_to(ast.IfExp(self.expression(part.test), _number(body), _number(after)))
        else:
            statements, leaves = self.advance(part)
            self.bodies[head] += statements
            self._go_to(ast.IfExp(leaves, _number(after), _number(body)))
        self.current = body
        self._sequence(part.body)
        self._go_to(_number(head))
        self.current = after

    def _new(self) -> int:
        self.bodies.append([])
        return len(self.bodies) - 1

    def _go_to(self, stage: ast.expr) -> None:
        self.bodies[self.current].append(ast.Return(stage))


def _number(stage: int) -> ast.expr:
    return ast.Constant(stage)


def stages_text(
    functions: Mapping[str, Sequence[str]], own: Mapping[str, str], index: str, span: tuple[str, str], room_bytes: int
) -> list[str]:
    """Return the lines that run one round of the blocks of a part.

    Args:
        functions: Function of each stage, in order, with its parameters.
        own: Arguments by parameter that are not variables of that name.
        index: Variable for the number of a block.
        span: Variables with the first block and the end.
        room_bytes: Shared memory of a block in bytes.

    Returns:
        The lines, indented as the body of a function.
    """
    stage, number, part = f"{GENERATED}now", f"{GENERATED}number", f"{GENERATED}part"
    lines = [
        f"    {number} = 0",
        f"    {WAITING.array}[{part}, 0] = 0",
        f"    for {index} in {RANGE}({', '.join(span)}):",
        f"        {ROOM} = {MEMORY} + {index} * {room_bytes}",
        f"        {stage} = {STAGE.array}[{index}, 0]",
        f"        while {stage} > {ENDED}:",
    ]
    for place, (name, wanted) in enumerate(functions.items()):
        arguments = ", ".join(own.get(parameter, parameter) for parameter in wanted)
        lines.append(f"            {'el' * (place > 0)}if {stage} == {place}:")
        lines.append(f"                {stage} = {name}({arguments})")
    return [
        *lines,
        f"        if {stage} <= {WAITS}:",
        f"            {stage} = {WAITS} - {stage}",
        f"            {number} += 1",
        f"        {STAGE.array}[{index}, 0] = {stage}",
        f"    {WAITING.array}[{part}, 0] = {number}",
    ]
