"""Plans of native updates, and the emission of the gradient of a minibatch.

The function ``gradient`` computes the gradient of a part of a minibatch. For each tile of rows, it gathers the rows by
index, runs the networks forward, evaluates the loss and its derivatives, and runs the networks backward.
``policy_gradient``, ``action_values`` and ``actor_critic`` derive plans and emitters from the classes of this module.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum, auto
from typing import Any, Generic, NamedTuple, TypeVar

from llvmlite import ir

from warpdrive.training.compiled.matrix import Matrix, transpose
from warpdrive.training.compiled.network import ROWS, Dense, Network, Workspace, copy_floats, fill
from warpdrive.training.compiled.simd import F32, I32, I64, Code, Vector


class Word(IntEnum):
    """Words of the argument table."""

    PARAMETERS = 0
    GRADIENTS = auto()  # [parts, parameters] float32; ``reduce`` writes the sum to the first
    FIRST_MOMENT = auto()
    SECOND_MOMENT = auto()
    STEP = auto()  # float32
    WORKSPACE = auto()  # [parts, size] float32
    SUMS = auto()  # [parts, terms, lanes] float32
    METRICS = auto()  # [minibatches, terms + 2] float32
    ORDER = auto()  # [rows] int64
    BOUNDS = auto()  # [minibatches + 1] int64
    COUNTING = auto()  # [minibatches] float32
    COEFFICIENTS = auto()  # float32, see Coefficient
    ADAM = auto()  # float64: lr, beta1, beta2, eps
    MINIBATCH = auto()  # index of the current one
    PARTS = auto()
    STOPPED = auto()  # float32, 1 once target_kl is exceeded
    ARRAYS = auto()  # addresses of ``Gradient.arrays``


class Coefficient(IntEnum):
    """Coefficients of the losses."""

    CLIP = 0
    VALUE_CLIP = auto()
    VALUE_COEF = auto()
    ENTROPY_COEF = auto()
    HUBER_DELTA = auto()
    MAX_GRAD_NORM = auto()
    MAX_KL = auto()
    TARGET_NOISE = auto()
    TARGET_NOISE_CLIP = auto()
    TARGET_ENTROPY = auto()


@dataclass(frozen=True, kw_only=True)
class Plan(ABC):
    """Specialisation of the native code: model, action distribution and loss.

    Attributes:
        parameters: Number of parameters.
        steps: Number of steps per sequence, if the rows are those of sequences of equal length, ordered by step first.
        early_stopping: True if there is a target KL divergence.
    """

    parameters: int
    steps: int = 1
    early_stopping: bool = False

    @property
    @abstractmethod
    def terms(self) -> tuple[str, ...]:
        """Names of the terms of the loss that are reported."""

    @abstractmethod
    def gradient(self, module: ir.Module, lanes: int) -> Gradient[Any]:
        """Return the emitter of the gradient of a part of a minibatch."""

    @property
    def padded_parameters(self) -> int:
        """Number of parameters, rounded up to whole cache lines."""
        return -(-self.parameters // 16) * 16


SomePlan = TypeVar("SomePlan", bound=Plan)


class Part(NamedTuple):
    """Array ``[rows, size]`` float32, a part of the inputs: their row ``r`` contains its row ``r // of % among``.

    Attributes:
        name: Name of the array.
        size: Number of elements of a row.
        of: Number of consecutive rows of the inputs that share a row.
        among: Number of rows after which they repeat; None if they do not.
    """

    name: str
    size: int
    of: int = 1
    among: int | None = None


class Inputs(NamedTuple):
    """Concatenated rows of arrays for a tile, in the workspace.

    Attributes:
        parts: The arrays.
        size: Number of elements of a row.
        rows: Index of ``[ROWS, size]``, and its row stride.
        columns: Index of ``[size, ROWS]``.
    """

    parts: Sequence[Part]
    size: int
    rows: tuple[int, int]
    columns: int


class Columns(NamedTuple):
    """Columns of an array ``[rows, stride]`` for a tile, each at its index of the workspace."""

    name: str
    places: list[int]
    stride: int
    kind: ir.Type


class Gradient(ABC, Generic[SomePlan]):
    """Emitter of the gradient of a part of a minibatch. Derived classes declare inputs and networks, then emit a tile.

    Args:
        plan: Properties that the code is specialised for.
        module: Module of the function.
        lanes: Number of float32 per vector.

    Attributes:
        arrays: Names of the arrays that it reads, in the order of their words.
        buffers: Those of them that hold intermediate results, with the number of float32 per sequence.
    """

    def __init__(self, plan: SomePlan, module: ir.Module, lanes: int) -> None:
        self.plan = plan
        self.code = Code(module, "gradient", lanes)
        self.workspace = Workspace(lanes)
        self.arrays: list[str] = []
        self.buffers: dict[str, int] = {}
        self._inputs: list[Inputs] = []
        self._columns: list[Columns] = []
        self._trained: list[Network] = []
        self._weight = self.column("weight")

    @property
    def size(self) -> int:
        """Number of float32 of the workspace of a part."""
        return self.workspace.size

    # -- declarations

    def inputs(self, name: str, size: int, more: int = 0) -> Inputs:
        """Declare an array ``[rows, size]`` float32; the tile's columns have room for ``more`` elements."""
        return self.side_by_side([Part(name, size)], more)

    def side_by_side(self, parts: Sequence[Part], more: int = 0) -> Inputs:
        """Declare inputs that concatenate several arrays; the tile's columns have room for ``more`` elements."""
        workspace, size = self.workspace, sum(part.size for part in parts)
        rows = workspace.matrix(ROWS, size)
        found = Inputs(parts, size, rows, workspace.take(max(workspace.padded(size), size + more) * ROWS))
        self._inputs.append(found)
        self.arrays += [part.name for part in parts]
        return found

    def columns(self, name: str, count: int, stride: int, kind: ir.Type = F32) -> list[int]:
        """Declare the first ``count`` columns of an array ``[rows, stride]`` of float32, int32 or bool.

        Returns:
            Index of each ``[ROWS]``, of float32 or int32.
        """
        places = [self.workspace.take(ROWS) for _ in range(count)]
        self._columns.append(Columns(name, places, stride, kind))
        self.arrays.append(name)
        return places

    def column(self, name: str) -> int:
        """Declare an array ``[rows]`` float32, and return its index."""
        return self.columns(name, 1, 1)[0]

    def others(self, *names: str) -> None:
        """Declare arrays that are not gathered by row, such as parameters that are not trained."""
        self.arrays += names

    def buffer(self, name: str, size: int) -> str:
        """Declare an array of ``size`` float32 per sequence for intermediate results, and return its name."""
        self.buffers[name] = size
        self.arrays.append(name)
        return name

    def network(self, layers: tuple[Dense, ...]) -> Network:
        """Declare a network to train."""
        network = Network(layers, self.workspace)
        self._trained.append(network)
        return network

    # -- emission

    def emit(self) -> None:
        """Emit the function."""
        code, plan = self.code, self.plan
        builder = code.builder
        index = code.word(Word.MINIBATCH)
        bounds = code.pointer(Word.BOUNDS, I64)
        begin, end = code.scalar(bounds, index), code.scalar(bounds, code.add(index, 1))
        self.memory = code.at(code.pointer(Word.WORKSPACE), code.times(code.part, self.size))
        self.parameters = code.pointer(Word.PARAMETERS)
        padded, sums = plan.padded_parameters, len(plan.terms) * code.lanes
        self.gradient = code.at(code.pointer(Word.GRADIENTS), code.times(code.part, padded))
        self.sums = code.at(code.pointer(Word.SUMS), code.times(code.part, sums))
        fill(code, self.gradient, 0, padded)
        fill(code, self.sums, 0, sums)
        self.begin()
        counting = code.scalar(code.pointer(Word.COUNTING), index)
        self.scale = code.broadcast(builder.fdiv(ir.Constant(F32, 1.0), counting))
        coefficients = code.pointer(Word.COEFFICIENTS)
        self.coefficient = {name: code.broadcast(code.scalar(coefficients, int(name))) for name in Coefficient}
        self.rows_of_part(begin, end)
        self.end()
        code.finish()

    def begin(self) -> None:
        """Emit the start of a part."""
        for network in self._trained:
            network.begin(self.code, self.memory)

    def rows_of_part(self, begin: Any, end: Any) -> None:
        """Emit the passes over the part's share of the rows from ``begin`` to ``end``."""
        code = self.code
        tiles = code.divide(code.add(code.subtract(end, begin), ROWS - 1), ROWS)
        first, last = code.share(tiles)
        with code.loop(last, start=first) as tile:
            start = code.add(begin, code.times(tile, ROWS))
            self.gather(lambda r: self.within(code.add(start, r), end), self._inputs, self._columns)
            self.tile()

    def within(self, row: Any, end: Any) -> tuple[Any, Any]:
        """Return a row clamped to the last one before ``end``, and a bit that is False if it was clamped."""
        builder, final = self.code.builder, self.code.subtract(end, 1)
        is_inside = builder.icmp_signed("<=", row, final)
        return builder.select(is_inside, row, final), is_inside

    @abstractmethod
    def tile(self) -> None:
        """Emit forward passes, loss and backward passes of a tile of rows."""

    def end(self) -> None:
        """Emit the end of a part."""
        for network in self._trained:
            network.end(self.code, self.memory, self.gradient)

    def gather(
        self, place_of: Callable[[Any], tuple[Any, Any]], inputs: Sequence[Inputs], columns: Sequence[Columns]
    ) -> None:
        """Copy the tile's rows of arrays.

        Args:
            place_of: Returns the index of a row of the tile in the order of all minibatches, and a bit, which is False
                for rows beyond the last one: they have weight 0.
            inputs: Inputs to gather.
            columns: Columns to gather.
        """
        code, memory = self.code, self.memory
        builder = code.builder
        order = code.pointer(Word.ORDER, I64)
        as_integers = builder.bitcast(memory, I32.as_pointer())
        arrays = {part.name: self.array(part.name) for matrix in inputs for part in matrix.parts}
        arrays_of_columns = [self.array(part.name, part.kind) for part in columns]
        with code.loop(ROWS) as r:
            wanted, inside = place_of(r)
            row = code.scalar(order, wanted)
            for parts, _, (place, width), _ in inputs:
                target = code.add(code.times(r, width), place)
                for part in parts:
                    source = row if part.of == 1 else code.divide(row, part.of)
                    source = source if part.among is None else code.remainder(source, part.among)
                    copy_floats(code, memory, target, arrays[part.name], code.times(source, part.size), part.size)
                    target = code.add(target, part.size)
            for (name, places, stride, kind), array in zip(columns, arrays_of_columns, strict=True):
                for number, place in enumerate(places):
                    value = code.scalar(array, code.add(code.times(row, stride), number))
                    if name == "weight":
                        value = builder.select(inside, value, ir.Constant(F32, 0.0))
                    value = builder.zext(value, I32) if kind not in (F32, I32) else value
                    builder.store(value, code.at(memory if kind is F32 else as_integers, code.add(r, place)))
        for _, size, (place, width), by_unit in inputs:
            source = Matrix(code.at(memory, place), width)
            transpose(code, Matrix(code.at(memory, by_unit), ROWS), source, ROWS, size)

    def array(self, name: str, kind: ir.Type = F32) -> Any:
        """Return the address of an array."""
        return self.code.pointer(Word.ARRAYS + self.arrays.index(name), kind)

    def forward(self, network: Network, inputs: int, vector: str | None = None) -> int:
        """Emit a forward pass.

        Args:
            network: The network.
            inputs: Index of the inputs ``[inputs, ROWS]``.
            vector: Name of the vector of its parameters if they are not trained; None for the trained parameters.

        Returns:
            Index of the outputs ``[outputs, ROWS]``.
        """
        parameters = network.parameters(self.code, self.parameters if vector is None else self.array(vector))
        return network.forward(self.code, self.memory, parameters, inputs, keep=vector is None)

    def backward(self, network: Network, rows: tuple[int, int], into: int | None = None, add: bool = False) -> None:
        """Emit the backward pass of a trained network, see ``Network.backward``.

        Args:
            network: The network, with derivatives in the last of its ``deltas``.
            rows: Index of the inputs ``[ROWS, inputs]``, and their row stride.
            into: Index of the derivatives of the inputs ``[inputs, ROWS]``, or None.
            add: If True, add to the derivatives of the inputs.
        """
        code, parameters = self.code, network.parameters(self.code, self.parameters)
        network.backward(code, self.memory, parameters, self.gradient, rows, into, add)

    def rows(self, place: int, at: Any) -> Vector:
        """Return the vector at offset ``at`` of an array ``[ROWS]`` in the workspace."""
        return self.code.load(self.memory, self.code.add(at, place))

    def units(self, place: int, count: int, at: Any) -> list[Vector]:
        """Return a variable for each unit, at offset ``at`` of an array ``[count, ROWS]`` in the workspace."""
        return [self.code.variable(self.rows(place + unit * ROWS, at)) for unit in range(count)]

    def store(self, vectors: Sequence[Vector], place: int, at: Any) -> None:
        """Store a vector for each unit, at offset ``at`` of an array ``[units, ROWS]`` in the workspace."""
        for unit, vector in enumerate(vectors):
            self.code.store(vector, self.memory, self.code.add(at, place + unit * ROWS))

    def integers(self, place: int, at: Any) -> Any:
        """Return the vector at offset ``at`` of an array ``[ROWS]`` int32 in the workspace."""
        kind = ir.VectorType(I32, self.code.lanes)
        address = self.code.at(self.memory, self.code.add(place, at))
        value = self.code.builder.load(self.code.builder.bitcast(address, kind.as_pointer()))
        value.align = 4
        return value

    def scale_of_rows(self, at: Any) -> Vector:
        """Return the weights of rows in the mean over the minibatch."""
        return self.scale * self.rows(self._weight, at)

    def report(self, terms: dict[str, Vector], scale: Vector) -> None:
        """Add the terms of some rows to the sums of the part."""
        code = self.code
        for name, term in terms.items():
            place = self.plan.terms.index(name) * code.lanes
            code.store(term.fma(scale, code.load(self.sums, place)), self.sums, place)

    def value_error(self, difference: Vector, huber: bool) -> Vector:
        """Return half the squared differences or, if ``huber``, the Huber loss."""
        if not huber:
            return 0.5 * difference.square()
        limit, size = self.coefficient[Coefficient.HUBER_DELTA], difference.abs()
        return (0.5 * difference.square()).where(size.compare("<=", limit), limit * (size - 0.5 * limit))
