"""An interpreter of kernels, independent of the library, to compare lowered kernels with.

It runs the author's Python thread by thread. Every function becomes a generator that yields where a barrier stands;
the threads of a block go on together from barrier to barrier. Threads run in falling order and the library runs them
in rising order, so that a kernel whose result depends on the order does not pass unnoticed.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
from collections.abc import Callable, Generator
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numba import cuda, types
from numba.np.numpy_support import as_dtype

import warpdrive as wd
from warpdrive.kernels.kernel import DeviceFunction

Check = Callable[..., list[Any]]
VOTES = {"syncthreads_count": sum, "syncthreads_and": all, "syncthreads_or": any}
Place = Any  # (line, column, function), or a tuple of them: of a call, and of what is called there


@pytest.fixture(scope="session")
def check() -> Check:
    """Give a function that runs a kernel both ways on copies of its arguments, compares, and returns them after."""

    def run(
        kernel: Any,
        blocks: Any,
        threads: Any,
        *arguments: Any,
        rtol: float = 1e-5,
        uniform: bool = True,
        shared_bytes: int = 0,
    ) -> list[Any]:
        lowered, interpreted = _copies(arguments), _copies(arguments)
        wd.kernel(kernel)[blocks, threads, 0, shared_bytes](*lowered)
        Interpreter(blocks, threads, uniform, shared_bytes).run(kernel, [_with_fields(value) for value in interpreted])
        for number, (found, expected) in enumerate(zip(lowered, interpreted, strict=True)):
            if isinstance(found, np.ndarray):
                message = f"argument {number} of the kernel"
                if found.dtype.kind in "fc":
                    np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-6, err_msg=message)
                else:
                    np.testing.assert_array_equal(found, expected, err_msg=message)
        return lowered

    return run


def _copies(arguments: tuple[Any, ...]) -> list[Any]:
    return [value.copy() if isinstance(value, np.ndarray) else value for value in arguments]


class Interpreter:
    """Runs a kernel's Python on a grid of threads.

    Threads must meet at the same barrier if the kernel is ``uniform``. If not, those that wait at the barrier that
    comes first in the text go on before the others.
    """

    def __init__(self, blocks: Any, threads: Any, uniform: bool = True, shared_bytes: int = 0) -> None:
        self.uniform, self.shared_bytes = uniform, shared_bytes
        self.grid, self.block = _three(blocks), _three(threads)
        self.shared: dict[Any, Any] = {}
        self.functions: dict[FunctionType, Any] = {}
        self.ballots: dict[Any, bool] = {}
        self.outcome: list[bool] = []
        self.cuda = SimpleNamespace(
            threadIdx=SimpleNamespace(),
            blockIdx=SimpleNamespace(),
            blockDim=SimpleNamespace(**dict(zip("xyz", self.block, strict=True))),
            gridDim=SimpleNamespace(**dict(zip("xyz", self.grid, strict=True))),
            syncthreads=cuda.syncthreads,
            syncwarp=cuda.syncwarp,
            **{name: getattr(cuda, name) for name in VOTES},
            threadfence=lambda: None,
            threadfence_block=lambda: None,
            threadfence_system=lambda: None,
            grid=lambda rank: self.position(rank, lambda b, d, t, g: b * d + t),
            gridsize=lambda rank: self.position(rank, lambda b, d, t, g: g * d),
            popc=lambda word: _bits(word).count("1"),
            clz=lambda word: len(_bits(word)) - len(_bits(word).lstrip("0")),
            ffs=lambda word: _bits(word)[::-1].find("1") + 1,
            brev=lambda word: type(word)(int(_bits(word)[::-1], 2)),
            fma=lambda x, y, z: x * y + z,
            selp=lambda condition, x, y: x if condition else y,
            cbrt=np.cbrt,
            const=SimpleNamespace(array_like=lambda array: array),
            local=SimpleNamespace(array=_array),
            shared=SimpleNamespace(array=self.shared_array),
            atomic=SimpleNamespace(
                add=_atomic(lambda old, value: old + value),
                sub=_atomic(lambda old, value: old - value),
                max=_atomic(max),
                min=_atomic(min),
                nanmax=_atomic(np.fmax),
                nanmin=_atomic(np.fmin),
                and_=_atomic(lambda old, value: old & value),
                or_=_atomic(lambda old, value: old | value),
                xor=_atomic(lambda old, value: old ^ value),
                inc=_atomic(lambda old, value: 0 if old >= value else old + 1),
                dec=_atomic(lambda old, value: value if old == 0 or old > value else old - 1),
                exch=_atomic(lambda old, value: value),
                cas=_atomic(lambda old, expected, value: value if old == expected else old),
                compare_and_swap=lambda array, expected, value: self.cuda.atomic.cas(array, 0, expected, value),
            ),
        )
        self.stand_ins = {id(cuda): self.cuda, id(cuda.local): self.cuda.local, id(cuda.shared): self.cuda.shared}
        self.stand_ins[id(cuda.atomic)] = self.cuda.atomic
        for name in vars(self.cuda):
            self.stand_ins[id(getattr(cuda, name))] = getattr(self.cuda, name)

    def run(self, kernel: Any, arguments: list[Any]) -> None:
        function = self.generator_of(kernel)
        for block in reversed(_positions(self.grid)):
            self.shared.clear()
            threads = [(place, function(*arguments), ()) for place in reversed(_positions(self.block))]
            vars(self.cuda.blockIdx).update(zip("xyz", block, strict=True))
            with np.errstate(all="ignore"):
                while threads:
                    threads = self.until_barrier(threads)

    def until_barrier(self, threads: list[Any]) -> list[Any]:
        waiting = []
        first = min(barrier for _, _, barrier in threads)
        together = [place for place, _, barrier in threads if barrier == first]
        self.outcome = [self.ballots.pop(place) for place in together if place in self.ballots]
        for place, thread, barrier in threads:
            if barrier != first:
                waiting.append((place, thread, barrier))
                continue
            vars(self.cuda.threadIdx).update(zip("xyz", place, strict=True))
            try:
                waiting.append((place, thread, next(thread)))
            except StopIteration:
                continue
        barriers = {barrier for _, _, barrier in waiting}
        assert not self.uniform or len(barriers) <= 1, f"threads wait at different barriers, in lines {barriers}"
        return waiting

    def generator_of(self, value: Any) -> Any:
        function = value.function if isinstance(value, DeviceFunction) else getattr(value, "py_func", value)
        if function not in self.functions:
            namespace = {**vars(builtins), **function.__globals__, **inspect.getclosurevars(function).nonlocals}
            namespace = {name: self.stand_ins.get(id(item), item) for name, item in namespace.items()}
            namespace["interpreter_call"] = self.call
            exec(compile(_as_generator(function), function.__code__.co_filename, "exec"), namespace)
            made = namespace[function.__name__]
            made.__defaults__ = function.__defaults__
            self.functions[function] = made
        return self.functions[function]

    def call(self, place: Place, function: Any, *args: Any, **kwargs: Any) -> Generator[Place, None, Any]:
        """Call what an author's function calls; a barrier, and what contains one, yields where it stands."""
        if function in (cuda.syncthreads, cuda.syncwarp):
            yield (place,)
            return None
        for name, outcome in VOTES.items():
            if function is getattr(cuda, name):
                self.ballots[tuple(vars(self.cuda.threadIdx).values())] = bool(args[0])
                yield (place,)
                return int(outcome(self.outcome))
        if function == self.shared_array:
            return function(place, *args, **kwargs)
        is_kernel_code = isinstance(function, (DeviceFunction, FunctionType)) or hasattr(function, "py_func")
        if is_kernel_code and getattr(function, "__module__", None) != __name__:
            return (yield from _below(place, self.generator_of(function)(*args, **kwargs)))
        return function(*args, **kwargs)

    def position(self, rank: int, formula: Callable[..., int]) -> Any:
        dimensions = (self.cuda.blockIdx, self.cuda.blockDim, self.cuda.threadIdx, self.cuda.gridDim)
        axes = [formula(*(getattr(dimension, axis) for dimension in dimensions)) for axis in "xyz"[:rank]]
        return axes[0] if rank == 1 else tuple(axes)

    def shared_array(self, place: Place, shape: Any, dtype: Any) -> Any:
        """One array for a block at one place of the source; those without a size are one dynamic memory."""
        if shape == 0:
            memory = self.shared.setdefault("dynamic", np.full(self.shared_bytes, 77, np.uint8))
            kind = as_dtype(dtype) if isinstance(dtype, types.Type) else np.dtype(dtype)
            return memory[: self.shared_bytes // kind.itemsize * kind.itemsize].view(kind)
        return self.shared.setdefault(place, _array(shape, dtype))


def _below(place: Place, thread: Generator[Any, None, Any]) -> Generator[Any, None, Any]:
    """Let a function's barriers be told together with the place the function is called from."""
    while True:
        try:
            inner = next(thread)
        except StopIteration as end:
            return end.value
        yield (place, *inner)


class _Generator(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        place = ast.Constant((node.lineno, node.col_offset, self.name))
        call = ast.Call(ast.Name("interpreter_call", ast.Load()), [place, node.func, *node.args], node.keywords)
        return ast.YieldFrom(call)

    def run(self, definition: ast.FunctionDef) -> ast.FunctionDef:
        self.name = definition.name
        definition.body = [self.visit(statement) for statement in definition.body]
        definition.body.append(ast.Expr(ast.Yield()))  # never reached, but it makes the function a generator
        definition.body.insert(-1, ast.Return())
        definition.decorator_list = []
        definition.args.defaults = []
        return definition


def _as_generator(function: FunctionType) -> ast.Module:
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(definition, ast.FunctionDef)
    module = ast.Module([_Generator().run(definition)], [])
    return ast.fix_missing_locations(module)


def _array(shape: Any, dtype: Any) -> Any:
    """Return uninitialised memory, filled with an unlikely number."""
    return _with_fields(np.full(shape, 77, as_dtype(dtype) if isinstance(dtype, types.Type) else dtype))


def _with_fields(value: Any) -> Any:
    """Let fields of records be attributes, as in a kernel."""
    is_structured = isinstance(value, np.ndarray) and value.dtype.names is not None
    return value.view(np.recarray) if is_structured else value


def _bits(word: Any) -> str:
    """Return the binary digits of an integer as wide as its type."""
    width = 8 * np.asarray(word).itemsize
    return f"{int(word) % 2**width:0{width}b}"


def _atomic(combine: Callable[..., Any]) -> Callable[..., Any]:
    def operate(array: Any, index: Any, *values: Any) -> Any:
        old = array[index]
        array[index] = combine(old, *values)
        return old

    return operate


def _three(value: Any) -> tuple[int, int, int]:
    given = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    return (*given, 1, 1)[:3]  # type: ignore[return-value]


def _positions(dimensions: tuple[int, int, int]) -> list[tuple[int, int, int]]:
    width, height, depth = dimensions
    return [(x, y, z) for z in range(depth) for y in range(height) for x in range(width)]
