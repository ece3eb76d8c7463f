"""Random kernels in the language of numba.cuda, with types of every width, whose results are determined.

The generator knows the type of every variable at every place, since it asks numba-cuda's own rules for the type of each
operation, and so writes kernels that numba-cuda compiles. It uses few names, and uses them again for values of other
types. It knows which values are the same for all threads of a block, and lets only these decide about barriers.

No thread reads what another one writes without a barrier between; integers are shifted by less than their width,
and made of floats only where these are in range. What many threads change atomically, they change
by one operation whose order does not matter, and floats only by small whole numbers. What functions of ``math`` give,
which no two machines compute alike, is only written to ``near``.
"""

from __future__ import annotations

import math
import operator
import random
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from cuda_on_host import type_of_call, unified
from numba import cuda
from numba.cuda import types

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float32", "float64")
ATOMICS = ("int32", "uint32", "int64", "uint64")
NAMES = "abcdefh"
THREADS = 6
COLUMNS = 24
HEADER = """
import math

import numba
import numpy as np
from numba import cuda

TABLE = (3, -5, 11, 2)
WEIGHTS = np.array([0.5, -2.0, 1.25, 8.0], np.float32)
"""
OPERATORS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
ARITHMETIC = [mark for mark in OPERATORS if mark not in COMPARISONS]
AUGMENTED = ("+", "-", "*", "&", "|", "^", "//", "%", ">>", "<<")
Name = str


@dataclass(frozen=True)
class Value:
    """An expression: its text, its type, and whether it is the same for all threads of a block."""

    text: str
    type: Any
    uniform: bool

    @property
    def is_integer(self) -> bool:
        return isinstance(self.type, types.Integer)

    @property
    def is_float(self) -> bool:
        return isinstance(self.type, types.Float)


def _type(kind: str) -> Any:
    """Return the type of numba-cuda that a dtype has."""
    return getattr(types, "boolean" if kind == "bool" else kind)


INDICES = (
    Value("cuda.threadIdx.x", types.int32, False),
    Value("cuda.blockIdx.x", types.int32, True),
    Value("cuda.blockDim.x", types.int32, True),
    Value("cuda.gridDim.x", types.int32, True),
    Value("cuda.grid(1)", types.int64, False),
    Value("cuda.gridsize(1)", types.int64, True),
    Value("cuda.laneid", types.int32, False),
    Value("cuda.warpsize", types.int32, True),
)


@cache
def _result(function: Any, *arguments: Any) -> Any:
    return type_of_call(function, arguments)


def _counter(*bounds: Any) -> Any:
    """Return the type of the variable of a loop over a range of numbers of these types."""
    return _result(range, *bounds).dtype


@dataclass
class Flow:
    """Position of the next statement: the threads that reach it, known values, and allowed operations."""

    known: dict[Name, tuple[Any, bool]]
    uniform: bool = True  # whether all threads that have not returned come here together
    barriers: bool = True
    in_loop: bool = False
    pinned: frozenset[Name] = frozenset()  # may only be given values of the type they have
    frozen: frozenset[Name] = frozenset()  # may not be given values
    depth: int = 0
    ended: bool = False  # by return, break or continue


@dataclass
class Shared:
    """A shared array, and the accesses to it since the last barrier."""

    name: str
    type: Any
    rows: int  # of a 2-D array, or 0
    own: bool = False  # threads wrote to their own elements
    others: bool = False  # threads read each other's
    record: str = ""  # the field that is used

    def at(self, place: str, row: str) -> str:
        text = f"{self.name}[{row}, {place}]" if self.rows else f"{self.name}[{place}]"
        return f"{text}{self.record}"


class Generator:
    """Writer of the kernel of a seed, and of its arguments."""

    def __init__(self, seed: int) -> None:
        self.fresh = 0
        self.random = random.Random(seed)
        self.seed = seed
        self.body: list[str] = []
        self.functions: list[str] = []
        self.column = 0
        self.two_axes = self.random.random() < 0.25
        self.alone = self.random.random() < 0.15  # blocks of one thread
        self.fields = {name: self.random.choice((*INTEGERS, *FLOATS, "bool")) for name in ("x", "y", "z")}
        self.inputs = {f"i{n}": kind for n, kind in enumerate(self.random.sample((*INTEGERS, "bool"), 3))}
        self.inputs |= {f"f{n}": kind for n, kind in enumerate(FLOATS)}
        self.inputs["special"] = self.random.choice(FLOATS)
        self.scalars = {"n": self.random.choice(INTEGERS), "v": self.random.choice(FLOATS)}
        self.counters = {
            "total": self.random.choice((*ATOMICS, *FLOATS)),
            "extreme": self.random.choice((*ATOMICS, *FLOATS)),
            "bits": self.random.choice(ATOMICS),
        }
        self.operation = {
            "total": self.random.choice(("add", "sub")),
            "extreme": self.random.choice(("max", "min")),
            "bits": self.random.choice(("or_", "and_", "xor")),
        }
        self.own_counter = self.random.choice((*ATOMICS, *FLOATS))
        self.shared: list[Shared] = []
        self.locals: dict[str, Any] = {}
        self.tested: set[Name] = set()  # what changes in a loop around here, and is asked for by its test

    @property
    def parameters(self) -> list[str]:
        return [*self.inputs, *self.scalars, "r", *self.counters, "mine", "signed", "unsigned", "real", "near"]

    # The kernel and its arguments

    def text(self) -> str:
        record = ", ".join(f"({name!r}, np.{self._numpy(kind)})" for name, kind in self.fields.items())
        flow = Flow({})
        self.prologue(flow)
        self.block(flow, 1, self.random.randint(3, 6))
        if not flow.ended:
            for name in list(flow.known):
                self.store(flow, 1, self.variable(flow, name))
        head = f"{HEADER}RECORD = np.dtype([{record}], align=True)\nRECORDS = numba.from_dtype(RECORD)\n"
        kernel = [f"@cuda.jit\ndef kernel({', '.join(self.parameters)}):", *self.body]
        return head + "\n\n" + "\n".join([*self.functions, *kernel]) + "\n"

    @staticmethod
    def _numpy(kind: str) -> str:
        return "bool_" if kind == "bool" else kind

    def launch(self) -> tuple[Any, Any]:
        if self.alone:
            return 5, 1
        return 2, (3, 2) if self.two_axes else THREADS

    def arguments(self, record: np.dtype) -> list[Any]:
        """Return the arguments of the launch; half of the numbers are small, the others of any size."""
        rng = np.random.default_rng(self.seed)
        made: dict[str, Any] = {name: self._numbers(rng, kind, 12) for name, kind in self.inputs.items()}
        made["special"][::2] = rng.choice([np.nan, np.inf, -np.inf, 0.0, 1e-40, 1e30], 6)
        made |= {name: self._numbers(rng, kind, 1)[0] for name, kind in self.scalars.items()}
        made["r"] = np.zeros(12, record)
        for name, kind in self.fields.items():
            made["r"][name] = self._numbers(rng, kind, 12)
        made |= {name: self._numbers(rng, kind, 4, small=True) for name, kind in self.counters.items()}
        made["mine"] = self._numbers(rng, self.own_counter, 12, small=True)
        made |= {"signed": np.zeros((12, COLUMNS), np.int64), "unsigned": np.zeros((12, COLUMNS), np.uint64)}
        made |= {"real": np.zeros((12, COLUMNS)), "near": np.zeros((12, COLUMNS))}
        return [made[name] for name in self.parameters]

    @staticmethod
    def _numbers(rng: np.random.Generator, kind: str, count: int, small: bool = False) -> np.ndarray:
        if kind == "bool":
            return rng.integers(0, 2, count).astype(bool)
        if kind in FLOATS:
            return np.round(rng.normal(0, 20, count)).astype(kind) / (1 if small else 4)
        limits = np.iinfo(kind)
        some = rng.integers(0 if kind.startswith("u") or small else -9, 20, count).astype(kind)
        any_size = rng.integers(limits.min, limits.max, count, dtype=kind, endpoint=True)
        return some if small else np.where(rng.random(count) < 0.5, some, any_size)

    # Statements

    def line(self, indent: int, text: str) -> None:
        self.body.append("    " * indent + text)

    def prologue(self, flow: Flow) -> None:
        self.line(1, "t = cuda.threadIdx.x + cuda.threadIdx.y * cuda.blockDim.x")
        self.line(1, "g = cuda.blockIdx.x * cuda.blockDim.x * cuda.blockDim.y + t")
        for number in range(self.random.choice((1, 1, 2))):
            kind = self.random.choice((*INTEGERS, *FLOATS, "bool", "record"))
            rows = self.random.choice((0, 0, 2))
            shape = f"({rows}, {THREADS})" if rows else str(THREADS)
            name = f"s{number}"
            if kind == "record":
                chosen = self.random.choice(list(self.fields))
                shared = Shared(name, _type(self.fields[chosen]), rows, record=f".{chosen}")
                self.line(1, f"{name} = cuda.shared.array({shape}, RECORDS)")
            else:
                shared = Shared(name, _type(kind), rows)
                self.line(1, f"{name} = cuda.shared.array({shape}, np.{self._numpy(kind)})")
            for row in range(max(1, rows)):
                first = self.cast(self.input(), shared.type)
                self.line(1, f"{shared.at('t', str(row))} = {first}")
            self.shared.append(shared)
        if self.random.random() < 0.5:
            kind = self.random.choice((*INTEGERS, *FLOATS))
            self.locals["l"] = _type(kind)
            self.line(1, f"l = cuda.local.array(4, np.{kind})")
            self.line(1, "for k in range(4):")
            self.line(2, f"l[k] = {self.cast(self.input(), self.locals['l'])}")
        for _ in range(3):
            self.assign(flow, 1, self.name(), self.value(flow, 1))
        self.barrier(1)

    def input(self) -> Value:
        name, kind = self.random.choice(list(self.inputs.items()))
        return Value(f"{name}[g]", _type(kind), False)

    def barrier(self, indent: int) -> None:
        self.line(indent, "cuda.syncthreads()")
        self.met()

    def met(self) -> None:
        for shared in self.shared:
            shared.own = shared.others = False

    def block(self, flow: Flow, indent: int, length: int) -> None:
        start = len(self.body)
        for _ in range(length):
            if not flow.ended:
                self.statement(flow, indent)
        if len(self.body) == start:
            self.line(indent, "pass")

    def statement(self, flow: Flow, indent: int) -> None:
        kinds = ["assign"] * 5 + ["augment"] * 2 + ["store", "own shared", "record", "local", "atomic", "mine", "near"]
        kinds += ["tuple", "swap", "call", "element"]
        if flow.depth < 3:
            kinds += ["if", "if", "for", "while"]
        if flow.in_loop and flow.depth:
            kinds += ["jump"]
        if flow.depth and self.random.random() < 0.5:
            kinds += ["return"]
        if flow.barriers and flow.uniform:
            kinds += ["barrier"] * 3 + ["vote", "exchange", "exchange", "read others", "tally", "call with barrier"]
        getattr(self, f"write_{self.random.choice(kinds).replace(' ', '_')}")(flow, indent)

    def assign(self, flow: Flow, indent: int, name: Name, value: Value) -> None:
        if name in flow.frozen:
            self.store(flow, indent, value)
        elif name in flow.pinned:
            kind = flow.known[name][0]
            self.line(indent, f"{name} = {self.cast(value, kind)}")
            flow.known[name] = kind, False
        else:
            self.line(indent, f"{name} = {value.text}")
            flow.known[name] = types.unliteral(value.type), value.uniform and flow.uniform

    def name(self) -> Name:
        """Return a name for a value: mostly one of a few, so that names are used again for values of other types."""
        if self.random.random() < 0.8:
            return self.random.choice(NAMES)
        self.fresh += 1
        return f"a{self.fresh}"

    def cast(self, value: Value, kind: Any) -> str:
        """Return a text of a type; a float becomes an integer only by a comparison."""
        if kind == types.boolean:
            return f"({value.text} > 2)" if value.type != kind else value.text
        if value.is_float and isinstance(kind, types.Integer):
            return f"np.{kind}({value.text} > 1)"
        return f"np.{kind}({value.text})"

    def variable(self, flow: Flow, name: Name) -> Value:
        return Value(name, *flow.known[name])

    def store(self, flow: Flow, indent: int, value: Value) -> None:
        if self.column == COLUMNS:
            return
        is_unsigned = value.is_integer and not value.type.signed
        array = "real" if value.is_float else "unsigned" if is_unsigned else "signed"
        self.line(indent, f"{array}[g, {self.column}] = {value.text}")
        self.column += 1

    def write_assign(self, flow: Flow, indent: int) -> None:
        self.assign(flow, indent, self.name(), self.value(flow, 2))

    def free(self, flow: Flow) -> list[Name]:
        return [name for name in flow.known if name not in flow.frozen | flow.pinned]

    def write_augment(self, flow: Flow, indent: int) -> None:
        names = self.free(flow)
        if not names:
            return
        name = self.random.choice(names)
        mark = self.random.choice(AUGMENTED)
        right = self.operand(flow, mark)
        kind = _result(OPERATORS[mark], flow.known[name][0], right.type)
        if isinstance(kind, (types.Number, types.Boolean)):
            self.line(indent, f"{name} {mark}= {right.text}")
            flow.known[name] = kind, flow.known[name][1] and right.uniform and flow.uniform

    def write_store(self, flow: Flow, indent: int) -> None:
        self.store(flow, indent, self.value(flow, 2))

    def write_own_shared(self, flow: Flow, indent: int) -> None:
        shared = self.random.choice(self.shared)
        if shared.others:
            return
        shared.own = True
        row = self.random.choice(("0", "1"))
        self.line(indent, f"{shared.at('t', row)} = {self.cast(self.value(flow, 2), shared.type)}")

    def write_record(self, flow: Flow, indent: int) -> None:
        name, kind = self.random.choice(list(self.fields.items()))
        place = self.random.choice((f"r[g].{name}", f"r[g]['{name}']", f"r['{name}'][g]"))
        self.line(indent, f"{place} = {self.cast(self.value(flow, 2), _type(kind))}")

    def write_local(self, flow: Flow, indent: int) -> None:
        if "l" in self.locals:
            value = self.cast(self.value(flow, 2), self.locals["l"])
            self.line(indent, f"l[{self.integer(flow).text} & 3] = {value}")

    def write_element(self, flow: Flow, indent: int) -> None:
        """Write an augmented assignment, such as ``+=``, to the thread's own element."""
        name, kind = self.random.choice(list(self.fields.items()))
        places = [(f"r[g].{name}", _type(kind))]
        places += [("l[1]", dtype) for dtype in self.locals.values()]
        places += [(shared.at("t", "0"), shared.type) for shared in self.shared if not shared.others]
        place, kind = self.random.choice(places)
        mark = self.random.choice(AUGMENTED)
        right = self.operand(flow, mark)
        found = _result(OPERATORS[mark], kind, right.type)
        if isinstance(found, types.Integer) or (found is not None and isinstance(kind, types.Float)):
            self.line(indent, f"{place} {mark}= {right.text}")
            for shared in self.shared:
                shared.own = shared.own or place.startswith(shared.name)

    def write_atomic(self, flow: Flow, indent: int) -> None:
        name, kind = self.random.choice(list(self.counters.items()))
        value = f"{self.integer(flow).text} & 15"
        place = f"{self.integer(flow).text} & 3"
        if kind in ATOMICS and self.random.random() < 0.5:
            value = self.cast(self.value(flow, 1), _type(kind))
        elif name == "extreme":
            value = self.random.choice(("f0", "f1")) + "[g]"
            value = value if kind in FLOATS else "np.int16(t)"
        self.line(indent, f"cuda.atomic.{self.operation[name]}({name}, {place}, {value})")

    def write_mine(self, flow: Flow, indent: int) -> None:
        """Write an atomic operation on the thread's own element, and keep the old value it returns."""
        kind = self.own_counter
        operations = ["add", "max", "min", "sub"]
        if kind in ATOMICS:
            operations += ["exch", "and_", "xor"] + ["inc", "dec"] * kind.startswith("u")
        text = f"cuda.atomic.{self.random.choice(operations)}(mine, g, {self.integer(flow).text} & 7)"
        if kind in ATOMICS and self.random.random() < 0.3:
            text = f"cuda.atomic.cas(mine, g, {self.integer(flow).text} & 3, {self.integer(flow).text} & 7)"
        self.assign(flow, indent, self.name(), Value(text, _type(kind), False))

    def write_near(self, flow: Flow, indent: int) -> None:
        if self.column < COLUMNS:
            function = self.random.choice(("math.sin", "math.exp", "math.tanh", "math.log1p"))
            argument = f"({self.integer(flow).text} & 7) * {self.random.choice(('0.25', 'WEIGHTS[0]'))}"
            self.line(indent, f"near[g, {self.column}] = {function}({argument})")
            self.column += 1

    def write_tuple(self, flow: Flow, indent: int) -> None:
        first, second = self.value(flow, 1), self.value(flow, 1)
        names = [self.name(), self.name()]
        if names[0] == names[1] or any(name in flow.frozen or name in flow.pinned for name in names):
            return
        self.line(indent, f"p = ({first.text}, {second.text})")
        if flow.barriers and flow.uniform and self.random.random() < 0.5:
            self.barrier(indent)
        self.line(indent, f"{names[0]}, {names[1]} = p" if self.random.random() < 0.5 else f"{names[0]} = p[0]")
        if self.body[-1].endswith("p[0]"):
            self.line(indent, f"{names[1]} = p[1]")
        for name, value in zip(names, (first, second), strict=True):
            flow.known[name] = types.unliteral(value.type), value.uniform and flow.uniform

    def write_swap(self, flow: Flow, indent: int) -> None:
        names = self.free(flow)
        if len(names) >= 2:
            a, b = self.random.sample(names, 2)
            self.line(indent, f"{a}, {b} = {b}, {a}")
            known = {a: flow.known[b], b: flow.known[a]}
            flow.known |= {name: (kind, uniform and flow.uniform) for name, (kind, uniform) in known.items()}

    def write_barrier(self, flow: Flow, indent: int) -> None:
        self.barrier(indent)

    def write_vote(self, flow: Flow, indent: int) -> None:
        kind = self.random.choice(("count", "and", "or"))
        value = self.random.choice((f"{self.integer(flow).text} & 1", f"int({self.condition(flow).text})"))
        vote = Value(f"cuda.syncthreads_{kind}({value})", types.int32, True)
        self.assign(flow, indent, self.name(), vote)
        self.met()

    def write_exchange(self, flow: Flow, indent: int) -> None:
        shared, row = self.random.choice(self.shared), self.random.choice(("0", "1"))
        value = self.cast(self.value(flow, 2), shared.type)
        if shared.others:
            self.barrier(indent)
        self.line(indent, f"{shared.at('t', row)} = {value}")
        self.barrier(indent)
        self._read_others(flow, indent, shared, row)

    def write_read_others(self, flow: Flow, indent: int) -> None:
        self._read_others(flow, indent, self.random.choice(self.shared), self.random.choice(("0", "1")))

    def _read_others(self, flow: Flow, indent: int, shared: Shared, row: str) -> None:
        if shared.own:
            self.barrier(indent)
        shared.others = True
        if self.random.random() < 0.3:
            value = Value(shared.at("0", row), shared.type, True)
        else:
            value = Value(shared.at(f"(t + {self.random.randint(1, 5)}) % cuda.blockDim.x", row), shared.type, False)
        self.assign(flow, indent, self.name(), value)

    def write_tally(self, flow: Flow, indent: int) -> None:
        """Write a sum over the block, by atomic operations on shared memory."""
        chosen = [shared for shared in self.shared if str(shared.type) in ATOMICS and not shared.record]
        if not chosen:
            return
        shared = self.random.choice(chosen)
        place = "0, 0" if shared.rows else "0"
        self.line(indent, f"w = {self.integer(flow).text} & 63")
        self.barrier(indent)
        self.line(indent, "if t == 0:")
        self.line(indent + 1, f"{shared.name}[{place}] = 0")
        self.barrier(indent)
        index = f"({place})" if shared.rows else place
        self.line(indent, f"cuda.atomic.add({shared.name}, {index}, w)")
        self.barrier(indent)
        shared.others = True
        self.assign(flow, indent, self.name(), Value(f"{shared.name}[{place}]", shared.type, True))

    # Branches and loops

    def write_if(self, flow: Flow, indent: int) -> None:
        uniform = flow.uniform and self.random.random() < 0.6
        condition = self.uniform_condition(flow) if uniform else self.condition(flow)
        before = self.state()
        self.line(indent, f"if {condition.text}:")
        branches = [self._branch(flow, indent, condition.uniform)]
        if self.random.random() < 0.6:
            self.line(indent, "else:")
            done = self.state()
            self.restore(before)
            branches.append(self._branch(flow, indent, condition.uniform))
            self.join(done)
        else:
            branches.append(Flow(dict(flow.known)))
            self.join(before)
        live = [branch.known for branch in branches if not branch.ended]
        flow.ended = not live
        if live:
            flow.known = {}
            for name in live[0]:
                if all(name in known for known in live):
                    kinds, uniforms = zip(*(known[name] for known in live), strict=True)
                    if (kind := unified(*kinds)) is not None:
                        flow.known[name] = kind, all(uniforms)

    def _branch(self, flow: Flow, indent: int, uniform: bool) -> Flow:
        inner = replace(flow, known=dict(flow.known), uniform=flow.uniform and uniform, depth=flow.depth + 1)
        self.block(inner, indent + 1, self.random.randint(1, 3))
        return inner

    def state(self) -> list[tuple[bool, bool]]:
        return [(shared.own, shared.others) for shared in self.shared]

    def restore(self, state: list[tuple[bool, bool]]) -> None:
        for shared, before in zip(self.shared, state, strict=True):
            shared.own, shared.others = before

    def join(self, state: list[tuple[bool, bool]]) -> None:
        for shared, (own, others) in zip(self.shared, state, strict=True):
            shared.own, shared.others = shared.own or own, shared.others or others

    def write_for(self, flow: Flow, indent: int) -> None:
        self._loop(flow, indent, counting=True)

    def write_while(self, flow: Flow, indent: int) -> None:
        self._loop(flow, indent, counting=False)

    def _loop(self, flow: Flow, indent: int, counting: bool) -> None:
        uniform = flow.uniform and self.random.random() < 0.6
        counter = f"k{flow.depth}"
        roles = {name: self.random.choice(("frozen", "pinned", "free")) for name in flow.known}
        roles |= {name: "frozen" for name in flow.known if name in flow.frozen}
        roles |= {name: "pinned" for name in flow.known if name in flow.pinned and roles[name] == "free"}
        # lists, as the order of a set differs between processes
        frozen = [name for name in flow.known if roles[name] == "frozen"]
        pinned = [name for name in flow.known if roles[name] == "pinned"]
        known = {name: flow.known[name] for name in frozen}
        known |= {name: (flow.known[name][0], False) for name in pinned}
        least = self.random.randint(1, 4)
        if uniform:
            masked = _result(operator.and_, _type(self.scalars["n"]), types.literal(3))
            kind = _result(operator.add, masked, types.literal(least))
            bound = self.random.choice((Value(str(least), types.int64, True), Value(f"(n & 3) + {least}", kind, True)))
        else:
            count = self.integer(flow)
            bound = Value(f"({count.text}) & 3", _result(operator.and_, count.type, types.literal(3)), False)
        kind = types.int64
        changing, before_it, after_it = f"w{flow.depth}", self._block_value(), self._block_value()
        if counting:
            iterated = f"range({bound.text})"
            if uniform and self.random.random() < 0.4:
                iterated = self.random.choice(("TABLE", f"range({least}, 0, -1)", f"range(1, {least + 6}, 3)"))
            elif self.random.random() < 0.6:
                iterated, kind = self._range_of_any_types(bound)
            else:
                kind = _counter(bound.type)
            self.line(indent, f"for {counter} in {iterated}:")
        else:
            self.line(indent, f"{counter} = np.int64({bound.text})")
            self._while(indent, counter, changing, before_it)
        known[counter] = kind, uniform
        inner = Flow(
            known,
            uniform=flow.uniform and uniform,
            barriers=flow.barriers and uniform,
            in_loop=True,
            pinned=frozenset(pinned),
            frozen=frozenset([*frozen, counter]),
            depth=flow.depth + 1,
        )
        before = self.state()
        if inner.uniform and inner.barriers:
            self.barrier(indent + 1)
        else:
            self.tie()
        self.block(inner, indent + 1, self.random.randint(1, 4))
        if changing in self.tested and not inner.ended:
            self.line(indent + 1, f"{changing} = {after_it.text}")
        self.tested.discard(changing)
        if inner.uniform and inner.barriers:  # a continue or break may come here from any place of the body
            self.join([(True, True)] * len(self.shared))
        self.join(before)
        flow.known = {name: flow.known[name] for name in frozen}
        flow.known |= {name: known[name] for name in pinned}
        if self.random.random() < 0.1:
            self.line(indent, "else:")
            self.line(indent + 1, "pass")
            self.store(flow, indent + 1, self.value(flow, 1))
        if uniform and counting and counter not in flow.pinned:  # its body has run at least once
            flow.known[counter] = kind, flow.uniform

    def _range_of_any_types(self, bound: Value) -> tuple[str, Any]:
        """Return a range with bounds of different types, which begins at 0 or 2, and the type of its items."""
        kinds = [self.random.choice(INTEGERS) for _ in range(self.random.randint(1, 3))]
        texts = [f"np.{kinds[-1]}({bound.text})"]
        if len(kinds) > 1:
            texts = [f"np.{kinds[0]}({self.random.choice('02')})", f"np.{kinds[1]}(({bound.text}) + 2)"]
        if len(kinds) > 2:
            texts.append(f"np.{kinds[2]}({self.random.choice('12')})")
        return f"range({', '.join(texts)})", _counter(*(_type(kind) for kind in kinds))

    def _block_value(self) -> Value:
        """Return a value that all blocks share; float64 cannot hold the low bits of the large ones."""
        kind = self.random.choice((*INTEGERS, *FLOATS))
        text = self.random.choice(("n", "np.int64(n) * 1000003", "np.uint64(n) * np.uint64(9007199254740993)", "5"))
        text = self.random.choice(("v", "0.1", "n")) if kind in FLOATS else text
        return Value(f"np.{kind}({text})", _type(kind), True)

    def _while(self, indent: int, counter: Name, changing: Name, first: Value) -> None:
        """Write the head of a loop that counts down; some test also a variable whose type changes in the loop."""
        test = f"{counter} > 0"
        if self.random.random() < 0.5:
            self.tested.add(changing)
            self.line(indent, f"{changing} = {first.text}")
            test += f" and {changing} % 7 != {self.random.choice('1234')}"
        self.line(indent, f"while {test}:")
        self.line(indent + 1, f"{counter} -= 1")

    def tie(self) -> None:
        """Prevent threads from mixing two ways of using an array in a loop without barriers."""
        for shared in self.shared:
            if not shared.own and not shared.others:
                shared.own = shared.others = True

    def write_jump(self, flow: Flow, indent: int) -> None:
        condition = self.uniform_condition(flow) if flow.barriers else self.condition(flow)
        if flow.barriers and not flow.uniform:
            return
        self.line(indent, f"if {condition.text}:")
        self.line(indent + 1, self.random.choice(("break", "continue")))

    def write_return(self, flow: Flow, indent: int) -> None:
        self.store(flow, indent, self.value(flow, 1))
        self.line(indent, "return")
        flow.ended = True

    # Functions

    def function(self, parameters: str, body: list[str]) -> Name:
        name = f"function{len(self.functions)}"
        head = f"@cuda.jit(device=True)\ndef {name}({parameters}):"
        self.functions.append("\n".join([head, *body]) + "\n\n")
        return name

    def write_call(self, flow: Flow, indent: int) -> None:
        given = [self.value(flow, 1) for _ in range(2)]
        kinds = [types.unliteral(value.type) for value in given]
        inner = Flow({"x": (kinds[0], False), "y": (kinds[1], False)}, uniform=False, barriers=False)
        lines, self.body = self.body, []
        first = self.pure(inner, 1)
        self.line(1, f"if {self.pure_condition(inner)}:")
        second = self.pure(inner, 2)
        self.line(2, f"return {second.text}")
        self.line(1, f"x = {first.text}")
        inner.known["x"] = types.unliteral(first.type), False
        third = self.pure(inner, 2)
        self.line(1, f"return {third.text}")
        name = self.function("x, y=3", self.body)
        self.body = lines
        kind = unified(types.unliteral(second.type), types.unliteral(third.type))
        word = self.random.choice(("", "y="))
        text = f"{name}({given[0].text}, {word}{given[1].text})"
        self.assign(flow, indent, self.name(), Value(text, kind, False))

    def write_call_with_barrier(self, flow: Flow, indent: int) -> None:
        shared = self.random.choice(self.shared)
        if shared.record or shared.rows:
            return
        given = self.value(flow, 1)
        inner = Flow({"x": (types.unliteral(given.type), False)}, uniform=False, barriers=False)
        value = self.cast(self.pure(inner, 2), shared.type)
        lines = ["    cuda.syncthreads()", f"    s[t] = {value}", "    cuda.syncthreads()"]
        inner.known["x"] = shared.type, False
        lines += ["    x = s[(t + 1) % cuda.blockDim.x]", "    cuda.syncthreads()"]
        early, late = self.pure(inner, 1), self.pure(inner, 2)
        lines += [f"    if {self.pure_condition(inner)}:", f"        return {early.text}", f"    return {late.text}"]
        name = self.function("s, t, x", lines)
        kind = unified(types.unliteral(early.type), types.unliteral(late.type))
        self.assign(flow, indent, self.name(), Value(f"{name}({shared.name}, t, {given.text})", kind, False))
        self.met()

    def pure(self, flow: Flow, depth: int) -> Value:
        """Return a value of variables and constants only."""
        return self.value(flow, depth, pure=True)

    def pure_condition(self, flow: Flow) -> str:
        return self.condition(flow, pure=True).text

    # Expressions

    def condition(self, flow: Flow, pure: bool = False) -> Value:
        left, right = self.value(flow, 1, pure), self.value(flow, 0, pure)
        mark = self.random.choice(COMPARISONS)
        text = f"{left.text} {mark} {right.text}"
        if self.random.random() < 0.15:
            text = f"not ({text})"
        elif self.random.random() < 0.15:
            text = f"{text} {self.random.choice(('and', 'or'))} {left.text} > 0"
        return Value(text, types.boolean, left.uniform and right.uniform)

    def uniform_condition(self, flow: Flow) -> Value:
        names = [name for name, (_, uniform) in flow.known.items() if uniform]
        left = self.random.choice(("n", "v", "cuda.blockIdx.x", *names, *names))
        mark = self.random.choice(COMPARISONS)
        return Value(f"{left} {mark} {self.random.choice(('0', '1', '3', 'n'))}", types.boolean, True)

    def integer(self, flow: Flow) -> Value:
        """Return an integer of any width."""
        for _ in range(4):
            value = self.value(flow, 1)
            if value.is_integer:
                return value
        return Value("t", types.int64, False)

    def operand(self, flow: Flow, mark: str, pure: bool = False) -> Value:
        """Return a right operand of an operator."""
        if mark in ("//", "%", "/"):
            if not pure and self.random.random() < 0.2:  # by zero, too
                divisor = self.integer(flow)
                return Value(f"({divisor.text} & 3)", _result(operator.and_, divisor.type, types.literal(3)), False)
            text = self.random.choice(("3", "7", "2.5", "np.float32(1.5)", "np.int32(5)", "np.uint8(9)", "-4"))
            kinds = {"2.5": types.float64, "np.float32(1.5)": types.float32, "np.int32(5)": types.int32}
            return Value(text, kinds.get(text, types.uint8 if "uint8" in text else types.int64), True)
        if mark in ("<<", ">>"):
            return Value(self.random.choice("1357"), types.int64, True)
        if mark == "**":
            power = self.random.choice((2, 3))
            return Value(str(power), types.literal(power), True)
        return self.value(flow, 0, pure)

    def leaf(self, flow: Flow, pure: bool) -> Value:
        names = list(flow.known)
        kinds = ["name"] * (5 if names else 0) + ["number", "table"]
        if not pure:
            kinds += ["input", "input", "scalar", "index", "record", "local", "shared"]
        kind = self.random.choice(kinds)
        if kind == "name":
            return self.variable(flow, self.random.choice(names))
        if kind == "table":
            place = self.random.choice("0123")
            return self.random.choice(
                (Value(f"TABLE[{place}]", types.int64, True), Value(f"WEIGHTS[{place}]", types.float32, True))
            )
        if kind == "input":
            return self.input()
        if kind == "scalar":
            name, dtype = self.random.choice(list(self.scalars.items()))
            return Value(name, _type(dtype), True)
        if kind == "index":
            return self.random.choice(INDICES)
        if kind == "record":
            name, dtype = self.random.choice(list(self.fields.items()))
            return Value(f"r[g].{name}", _type(dtype), False)
        if kind == "local" and "l" in self.locals:
            return Value(f"l[{self.random.choice('0123')}]", self.locals["l"], False)
        if kind == "shared" and self.shared:
            shared = self.random.choice(self.shared)
            return Value(shared.at("t", "0"), shared.type, False)
        text = self.random.choice(("0", "1", "5", "-3", "1000003", "0.5", "-2.0", "1e3", "True"))
        dtype = types.boolean if text == "True" else types.float64 if "." in text or "e" in text else types.int64
        return Value(text, dtype, True)

    def value(self, flow: Flow, depth: int, pure: bool = False) -> Value:
        if depth <= 0 or self.random.random() < 0.15:
            return self.leaf(flow, pure)
        for _ in range(6):
            found = self._operation(flow, depth, pure)
            if found is not None and isinstance(found.type, (types.Number, types.Boolean)):
                return found
        return self.leaf(flow, pure)

    def _operation(self, flow: Flow, depth: int, pure: bool) -> Value | None:
        left = self.value(flow, depth - 1, pure)
        kind = self.random.choice(
            ["binary"] * 8
            + ["compare", "choose", "choose", "least", "least", "cast", "cast", "cast", "unary", "function", "guarded"]
        )
        if kind == "binary":
            mark = self.random.choice(ARITHMETIC)
            right = self.operand(flow, mark, pure)
            if mark == "**" and not left.is_float:  # numba-cuda rounds a power of integers as float64 would
                left = Value(f"({left.text} & 63)", _result(operator.and_, left.type, types.literal(63)), left.uniform)
            return self._call(f"({left.text} {mark} {right.text})", OPERATORS[mark], left, right)
        right = self.value(flow, depth - 1, pure)
        if kind == "compare":
            mark = self.random.choice(COMPARISONS)
            return self._call(f"({left.text} {mark} {right.text})", OPERATORS[mark], left, right)
        if kind == "choose":
            test = self.condition(flow, pure)
            kinds = [types.unliteral(value.type) for value in (left, right)]
            uniform = left.uniform and right.uniform and test.uniform
            return Value(f"({left.text} if {test.text} else {right.text})", unified(*kinds), uniform)
        if kind == "least":
            function = self.random.choice((min, max))
            return self._call(f"{function.__name__}({left.text}, {right.text})", function, left, right)
        if kind == "cast":
            dtype = self.random.choice((*INTEGERS, *FLOATS))
            if left.is_float and dtype in INTEGERS:
                return None
            return Value(f"np.{dtype}({left.text})", _type(dtype), left.uniform)
        if kind == "unary":
            text, function = self.random.choice(
                (("-", operator.neg), ("~", operator.invert), ("abs", abs), ("bool", bool), ("float", float))
            )
            return self._call(f"({text}({left.text}))", function, left)
        if kind == "guarded":
            if not left.is_float:
                return None
            function = self.random.choice(("int", "np.int32", "np.int64", "np.int16", "round", "np.uint32(1) + int"))
            text = f"({function}({left.text}) if -3e4 < {left.text} < 3e4 else 5)"
            return Value(text, types.int64, left.uniform)
        names = ("math.floor", "math.ceil", "math.fabs", "math.sqrt", "cuda.popc", "cuda.clz", "cuda.ffs")
        name = self.random.choice(names)
        if name == "math.sqrt":
            left = Value(f"abs({left.text})", left.type, left.uniform) if left.is_float else left
            if not left.is_float:
                return None
        if name.startswith("cuda") and not left.is_integer:
            return None
        function = getattr(cuda if name.startswith("cuda") else math, name.rpartition(".")[2])
        return self._call(f"{name}({left.text})", function, left)

    def _call(self, text: str, function: Any, *values: Value) -> Value | None:
        kind = _result(function, *(value.type for value in values))
        return None if kind is None else Value(text, kind, all(value.uniform for value in values))
