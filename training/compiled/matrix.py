"""Products and transposition of small matrices in the cache, with strides known when the code is emitted."""

from __future__ import annotations

from typing import Any, NamedTuple

from llvmlite import ir

from warpdrive.training.compiled.simd import I32, Code, Vector


class Matrix(NamedTuple):
    """Matrix in memory: element ``[i, j]`` is at ``memory[offset + i * row + j * column]``.

    Attributes:
        memory: Address of the first element, a float32.
        row: Stride of the rows, in elements.
        column: Stride of the columns, in elements.
    """

    memory: Any
    row: int
    column: int = 1


def multiply(
    code: Code, c: Matrix, a: Matrix, b: Matrix, size: tuple[Any, int, Any], bias: Any = None, add: bool = False
) -> None:
    """Emit ``c = a @ b``, plus a ``bias`` for each row or, if ``add``, plus the previous ``c``.

    Tiles of ``c`` stay in registers during the loop over ``k``: each step multiplies a column of ``a``, broadcast over
    lanes, by vectors of a row of ``b``.

    Args:
        code: Code to emit into.
        c: Result ``[m, n]``, with contiguous rows.
        a: ``[m, k]``.
        b: ``[k, n]``, with contiguous rows.
        size: ``m``, ``n`` and ``k``; ``m`` and ``k`` may be values of the code.
        bias: Address of ``[m]`` float32, or None.
        add: If True, add to ``c``.
    """
    strides = (c.row, a.row, a.column, b.row)
    lengths = [length if isinstance(length, int) else "any" for length in size]
    name = "_".join(map(str, ("multiply", *lengths, *strides, int(bias is not None), int(add))))
    values = [length for length in size if not isinstance(length, int)]

    def emit(c_: Any, a_: Any, b_: Any, *further: Any) -> None:
        more = iter(further)
        m, n, k = (length if isinstance(length, int) else next(more) for length in size)
        matrices = c._replace(memory=c_), a._replace(memory=a_), b._replace(memory=b_)
        _multiply(code, *matrices, (m, n, k), next(more, None), add)

    code.call(name, emit, c.memory, a.memory, b.memory, *values, *([] if bias is None else [bias]))


def _multiply(code: Code, c: Matrix, a: Matrix, b: Matrix, size: tuple[Any, int, Any], bias: Any, add: bool) -> None:
    m, n, k = size
    lanes = code.lanes
    start = 0
    while start < n:
        left = n - start
        if left >= lanes:
            width, count = lanes, min(left // lanes, 4)
            if count == 3:
                count = 2
        else:
            width, count = 1 << (left.bit_length() - 1), 1
        most = max(1, _REGISTERS.get(lanes, 12) // count)
        end = start + left // (width * count) * (width * count)
        with code.loop(end, start=start, step=width * count) as column:
            panel = _Panel(c, a, b, k, column, width, count, bias, add)
            first: Any = 0
            for height in _heights(m, most):
                last = code.add(first, code.times(code.divide(code.subtract(m, first), height), height))
                with code.loop(last, start=first, step=height) as i:
                    _emit(code, panel, i, height)
                first = last
        start = end


def _heights(m: Any, most: int) -> list[int]:
    """Return the heights of the tiles, at most ``most``, that cover ``m`` rows, in order."""
    if isinstance(m, int):
        return [height for height in (min(most, m), m % min(most, m)) if height]
    return [most, *(1 << bit for bit in reversed(range((most - 1).bit_length())))]


_REGISTERS = {16: 24, 8: 12, 4: 16}
"""Number of vectors of a tile by the number of lanes: as many as fit into registers along with the operands."""


class _Panel(NamedTuple):
    c: Matrix
    a: Matrix
    b: Matrix
    k: Any
    start: Any
    width: int
    vectors: int
    bias: Any
    add: bool


def _emit(code: Code, panel: _Panel, i: Any, tall: int) -> None:
    """Emit ``tall`` rows of a panel from row ``i`` on."""
    c, a, b, k, start, width, count, bias, add = panel
    kind = ir.VectorType(code.vector_type.element, width)
    cells = [[code.allocate(kind) for _ in range(count)] for _ in range(tall)]
    first_c, first_a = code.times(i, c.row), code.times(i, a.row)
    for row in range(tall):
        for part in range(count):
            if add:
                value = code.load(c.memory, code.add(code.add(first_c, start), row * c.row + part * width), width)
            elif bias is not None:
                value = code.broadcast(code.scalar(bias, code.add(i, row)), width)
            else:
                value = code.broadcast(0.0, width)
            code.builder.store(value.value, cells[row][part])
    with code.loop(k) as step:
        first_b, column = code.times(step, b.row), code.add(first_a, code.times(step, a.column))
        vectors = [
            code.load(b.memory, code.add(code.add(first_b, start), part * width), width) for part in range(count)
        ]
        for row in range(tall):
            factor = code.broadcast(code.scalar(a.memory, code.add(column, row * a.row)), width)
            for part in range(count):
                cell = cells[row][part]
                total = factor.fma(vectors[part], Vector(code, code.builder.load(cell)))
                code.builder.store(total.value, cell)
    for row in range(tall):
        for part in range(count):
            value = Vector(code, code.builder.load(cells[row][part]))
            code.store(value, c.memory, code.add(code.add(first_c, start), row * c.row + part * width))


def transpose(code: Code, target: Matrix, source: Matrix, rows: int, columns: int) -> None:
    """Emit ``target [columns, rows] = source [rows, columns]`` transposed, in blocks that fit into registers.

    Args:
        code: Code to emit into.
        target: Result; its rows are long enough for whole blocks.
        source: Matrix whose rows are long enough for whole blocks.
        rows: Rows of ``source``; memory has whole blocks of lanes.
        columns: Columns of ``source``.
    """
    name = f"transpose_{rows}_{columns}_{target.row}_{source.row}"

    def emit(target_: Any, source_: Any) -> None:
        _transpose(code, target._replace(memory=target_), source._replace(memory=source_), rows, columns)

    code.call(name, emit, target.memory, source.memory)


def _transpose(code: Code, target: Matrix, source: Matrix, rows: int, columns: int) -> None:
    lanes = code.lanes
    height, width = (-(-count // lanes) * lanes for count in (rows, columns))
    with code.loop(height, step=lanes) as i, code.loop(width, step=lanes) as j:
        first = code.add(code.times(i, source.row), j)
        block = [code.load(source.memory, code.add(first, n * source.row)).value for n in range(lanes)]
        distance = 1
        while distance < lanes:
            low = [(n - distance) + lanes if n & distance else n for n in range(lanes)]
            high = [n + lanes if n & distance else n + distance for n in range(lanes)]
            for n in range(lanes):
                if not n & distance:
                    x, y = block[n], block[n + distance]
                    block[n] = _shuffle(code, x, y, low)
                    block[n + distance] = _shuffle(code, x, y, high)
            distance *= 2
        first = code.add(code.times(j, target.row), i)
        for n in range(lanes):
            code.store(Vector(code, block[n]), target.memory, code.add(first, n * target.row))


def _shuffle(code: Code, x: Any, y: Any, mask: list[int]) -> Any:
    return code.builder.shuffle_vector(x, y, ir.Constant(ir.VectorType(I32, len(mask)), mask))
