"""Random kernels with barriers, lowered and interpreted.

The generator keeps to what CUDA allows: conditions around barriers, and bounds of loops around barriers, are the same
for all threads (variables ``u*``), while other conditions and values are each thread's own (``t*``): on those a thread
may leave the kernel for good. Between barriers a thread touches only its own elements of ``own``, and nobody writes to
``other``. Two buffers in shared memory, ``old`` and ``new``, change places; tuples (``p*``) are read across barriers.
"""

from __future__ import annotations

import importlib.util
import random
import sys

import numpy as np
import pytest
from exhaustive import exhaustive

THREADS = 6
SEEDS = (1, 2, 3, 5, 6, 9, 10, 11, 12, 13, 14, 16, 17, 20)
"""Of the first 24 seeds those whose kernels together have every construct that occurs, in each in which it occurs.

`make test` runs every third.
"""

NESTING = ("if", "uniform if", "loop", "while", "items", "until")
HEADER = """
import numpy as np
from numba import cuda

NUMBERS = (3, 1, 2)


def turned(own, other, i, n, x):
    own[i] = x
    cuda.syncthreads()
    if x > 20:
        x = x - other[(i + 2) % n]
    y = own[(i + 1) % n]
    cuda.syncthreads()
    return x + y


def bounded(x):
    for k in range(4):
        if x % (k + 3) == 1:
            return k - x % 7
    return x % 50
"""


class Generator:
    """Writes one kernel ``kernel(own, other, out, u0)``."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.fresh = 0
        self.uniform, self.own, self.pairs = ["u0"], ["t0", "t1"], ["p0"]

    def text(self) -> str:
        self.line(0, "def kernel(own, other, out, u0):")
        self.line(1, "i, n = cuda.threadIdx.x, cuda.blockDim.x")
        self.line(1, "t0 = own[i]")
        self.line(1, "t1 = i * u0")
        self.line(1, "p0 = (t0, i)")
        self.line(1, "old, new = cuda.shared.array(8, np.int64), cuda.shared.array(8, np.int64)")
        self.line(1, "old[i], new[i] = t0, i")
        self.block(1, depth=0, barriers=True, in_loop=False, length=5)
        for number, name in enumerate(self.own):
            self.line(1, f"out[i, {number}] = {name}")
        return HEADER + "\n\n" + "\n".join(self.lines) + "\n"

    def line(self, indentation: int, text: str) -> None:
        self.lines.append("    " * indentation + text)

    def block(self, indentation: int, depth: int, barriers: bool, in_loop: bool, length: int) -> None:
        known = len(self.uniform), len(self.own), len(self.pairs)
        self.line(indentation, f"{self.random.choice(self.own)} += 1")
        for _ in range(self.random.randint(1, length)):
            self.statement(indentation, depth, barriers, in_loop)
        # what was assigned here may not be assigned elsewhere
        if depth:
            del self.uniform[known[0] :], self.own[known[1] :], self.pairs[known[2] :]

    def statement(self, indentation: int, depth: int, barriers: bool, in_loop: bool) -> None:
        kinds = ["assign", "assign", "augment", "new", "store", "if", "pair"]
        if barriers:
            kinds += ["barrier", "barrier", "uniform if", "loop", "while", "call", "new uniform", "swap", "leave"]
            kinds += ["count", "agree", "change places", "exchange", "items", "until"]
            if in_loop:
                kinds += ["jump", "jump"]
        if depth >= 3:
            kinds = [kind for kind in kinds if kind not in NESTING]
        kind = self.random.choice(kinds)
        choose = self.random.choice
        if kind == "assign":
            self.line(indentation, f"{choose(self.own)} = {self.value()}")
        elif kind == "augment":
            self.line(indentation, f"{choose(self.own)} {choose(['+=', '-=', '^='])} {self.value()}")
        elif kind == "new":
            value = self.value()
            self.own.append(self.name("t"))
            self.line(indentation, f"{self.own[-1]} = {value}")
        elif kind == "new uniform":
            self.uniform.append(self.name("u"))
            self.line(indentation, f"{self.uniform[-1]} = ({choose(self.uniform[:-1])} * 3 + 1) % 7")
        elif kind == "pair":
            first, second = choose(self.own), self.value()
            self.pairs.append(self.name("p"))
            self.line(indentation, f"{self.pairs[-1]} = ({first}, {second})")
        elif kind == "count":
            self.uniform.append(self.name("u"))
            self.line(indentation, f"{self.uniform[-1]} = cuda.syncthreads_count({choose(self.own)} % 3 == 1)")
        elif kind == "agree":
            vote = f"cuda.syncthreads_{choose(['and', 'or', 'count'])}({choose(self.own)} % {choose([2, 5])})"
            self.line(indentation, f"{choose(self.own)} {choose(['=', '+='])} {vote} * {choose(self.own)} % 60")
        elif kind == "change places":
            self.line(indentation, "old, new = new, old")
        elif kind == "exchange":
            self.line(indentation, "cuda.syncthreads()")
            self.line(indentation, f"{choose(['old', 'new'])}[i] = {self.value()}")
            self.line(indentation, "cuda.syncthreads()")
            self.line(indentation, f"{choose(self.own)} = {choose(['old', 'new'])}[(i + 1) % n] % 70")
            self.line(indentation, "cuda.syncthreads()")
        elif kind == "items":
            variable = self.name("u")
            self.line(indentation, f"for {variable} in {choose(['other', 'NUMBERS', '(2, 0, 1)'])}:")
            self.uniform.append(variable)
            self.block(indentation + 1, depth + 1, True, True, 3)
            self.uniform.remove(variable)
        elif kind == "until":
            variable, flag = self.name("t"), choose(["or", "and"])
            self.line(indentation, f"{variable} = {choose(self.own)} % 4")
            self.line(indentation, f"while cuda.syncthreads_{flag}({variable} > 0):")
            self.line(indentation + 1, f"{variable} -= 1")
            self.block(indentation + 1, depth + 1, True, True, 3)
        elif kind == "store":
            self.line(indentation, f"own[i] = bounded({self.value()})")
        elif kind == "swap":
            first, second = choose(self.own), choose(self.own)
            self.line(indentation, f"{first}, {second} = {second}, {first}")
        elif kind == "barrier":
            self.line(indentation, "cuda.syncthreads()")
        elif kind == "call":
            self.line(indentation, "cuda.syncthreads()")
            call = f"turned(own, other, i, n, {choose(self.own)} % 40)"
            self.line(indentation, f"{choose(self.own)} = {choose([call, f'{choose(self.own)} + {call}'])}")
        elif kind == "if":
            self.line(indentation, f"if {choose(self.own)} % {choose([2, 3])} {choose(['==', '>'])} 0:")
            self.block(indentation + 1, depth + 1, False, in_loop, 3)
            if choose([True, False]):
                self.line(indentation, "else:")
                self.block(indentation + 1, depth + 1, False, in_loop, 2)
        elif kind == "uniform if":
            self.line(indentation, f"if {self.condition()}:")
            self.block(indentation + 1, depth + 1, True, in_loop, 3)
            if choose([True, False]):
                self.line(indentation, f"elif {self.condition()}:")
                self.block(indentation + 1, depth + 1, True, in_loop, 2)
                self.line(indentation, "else:")
                self.block(indentation + 1, depth + 1, True, in_loop, 2)
        elif kind == "loop":
            variable = self.name("u")
            self.line(
                indentation, f"for {variable} in range({choose(['3', '4, 0, -2', f'{choose(self.uniform)} % 4'])}):"
            )
            self.uniform.append(variable)
            self.block(indentation + 1, depth + 1, True, True, 4)
            self.uniform.remove(variable)
        elif kind == "while":
            variable = self.name("u")
            self.line(indentation, f"{variable} = 0")
            self.line(indentation, f"while {variable} < {choose(['2', '3'])}:")
            self.line(indentation + 1, f"{variable} += 1")
            self.uniform.append(variable)
            self.block(indentation + 1, depth + 1, True, True, 4)
            self.uniform.remove(variable)
        elif kind == "leave":
            self.line(indentation, f"if {choose(self.own)} % 9 == {choose(['4', '7'])}:")
            self.line(indentation + 1, "return")
        elif kind == "jump":
            self.line(indentation, f"if {self.condition()}:")
            self.line(indentation + 1, choose(["break", "continue", "break", "continue", "return"]))

    def name(self, kind: str) -> str:
        self.fresh += 1
        return f"{kind}{self.fresh + 1}"

    def value(self) -> str:
        choose = self.random.choice
        return choose(
            [
                f"{choose(self.own)} % 100 + {choose(self.own)} % 50",
                f"{choose(self.own)} % 9 * {choose([*self.uniform, '2', 'i'])}",
                f"other[(i + {choose(self.uniform)}) % n]",
                f"bounded({choose(self.own)})",
                f"own[i] - {choose(self.own)} % 30",
                f"max({choose(self.own)}, {choose([*self.uniform, '5'])})",
                f"{choose(self.pairs)}[{choose([0, 1])}] % 40 + {choose(self.own)} % 40",
                f"{choose(self.own)} if {choose(self.own)} > 3 else {choose(self.own)} // 2",
            ]
        )

    def condition(self) -> str:
        choose = self.random.choice
        first = f"{choose(self.uniform)} {choose(['<', '>', '=='])} {choose(['0', '1', '2'])}"
        return choose([first, first, f"not {choose(self.uniform)}", f"{first} or {choose(self.uniform)} % 2"])


@pytest.mark.parametrize("seed", exhaustive(SEEDS, SEEDS[::3]))
def test_a_random_kernel_does_what_its_python_does(check, tmp_path, seed):
    path = tmp_path / f"random_kernel_{seed}.py"
    path.write_text(Generator(seed).text())
    specification = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(specification)
    sys.modules[path.stem] = module
    specification.loader.exec_module(module)
    own, other = np.random.default_rng(seed).integers(0, 40, (2, THREADS))
    for u0 in (0, 1, 3):
        check(module.kernel, 1, THREADS, own, other, np.zeros((THREADS, 40), np.int64), u0)
    if SEEDS.index(seed) % 2:  # blocks of one thread are compiled in another way
        check(module.kernel, 1, 1, own, other, np.zeros((1, 40), np.int64), 2)
