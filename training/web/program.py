"""Game as a program for a page: one WebAssembly module, and the arrays and argument tables that a host makes for it.

Arrays with a row for each replica are recognised by their length in a game with a prime number of replicas, which no
other length equals; a host allocates them for any number of replicas.
"""

from __future__ import annotations

import base64
import logging
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from warpdrive import random
from warpdrive.backends.interface import PortableCode
from warpdrive.backends.loading import portable_compiler
from warpdrive.backends.wasm.compile import compile_module
from warpdrive.backends.wasm.functions import replaced
from warpdrive.errors import ExportError
from warpdrive.per_replica import per_replica_attributes
from warpdrive.training.web.game import Game

Array = npt.NDArray[Any]
_log = logging.getLogger("warpdrive")

PRIMES = (67, 71, 73, 79, 83, 89, 97, 101, 103, 107, 109, 113)
"""Numbers of replicas of which one is no length of another axis."""
_REPLICAS = -1
"""Length of the axis of replicas in the shapes of a program."""


class Owner(NamedTuple):
    """Array of the device context that others may be views of."""

    name: str
    begin: int
    end: int
    array: Array


@dataclass(frozen=True)
class Program:
    """Program of a game.

    Attributes:
        module: WebAssembly module, which exports a function ``(table: i32) -> i32`` for each kernel, and its memory.
        description: What a host needs to run it, as JSON: ``firstFree`` (address), ``arrays`` and ``kernels``.
            An array has a ``name``, a ``dtype``, a ``shape`` (-1 for the number of replicas), and ``init``, its first
            content: ``null`` for zeros, ``{at, bytes}`` in ``data``, ``{rows: {at, bytes}}`` for repeated rows,
            ``{stream: first draw}`` for random streams, ``"replicas"``, or ``{value: number}``. A kernel has a row
            ``[array, offset, shape, strides]`` for each array of its table, in order.
        data: First contents of arrays.
        inexact: Functions of ``math`` whose bits may differ from those of the CPU backend, with file and line.
    """

    module: bytes
    description: dict[str, Any]
    data: bytes
    inexact: list[str]

    def packed(self) -> dict[str, Any]:
        """Return module and data, deflated, as text for a page.

        Equal bytes of the 32-bit words of the data stand together, as the exponents of weights are alike. The text has
        five characters for four bytes: those of ``base64.b85encode`` with ``.`` for ``<``, which HTML reads.
        """
        words = np.frombuffer(self.data + bytes(-len(self.data) % 4), np.uint8).reshape(-1, 4)
        deflated = zlib.compress(self.module + words.T.tobytes(), 9)
        text = base64.b85encode(deflated).replace(b"<", b".").decode()
        return {"packed": text, "packedBytes": len(deflated), "moduleBytes": len(self.module)}


def program_of(game: Game) -> Program:
    """Return the program of a game.

    Args:
        game: A new game, on the CPU, of a number of :data:`PRIMES` replicas.

    Returns:
        The program.

    Raises:
        KernelError: If a kernel cannot be compiled to WebAssembly; the message has its file and line.
    """
    env = game.env
    compiler = portable_compiler()
    codes = {
        name: compiler.portable(kernel.fusion, kernel.arguments, env.num_envs, env.num_agents)
        for name, kernel in game.kernels.items()
    }
    linked = compile_module(codes, compiler)
    layout = _Layout(game)
    kernels = {name: layout.table(name, code) for name, code in codes.items()}
    description = {
        "firstFree": linked.first_free,
        "arrays": layout.arrays,
        "kernels": kernels,
        "hashed": game.hashed,
        "faults": {name: code.faults for name, code in codes.items() if code.faults},
    }
    inexact = list(
        dict.fromkeys(f"{at}: math.{name}" for code in codes.values() for name, at in replaced(code).items())
    )
    for place in inexact:
        _log.warning("%s is computed by wd.math, whose bits may differ from the CPU's: use wd.math for the same", place)
    return Program(linked.module, description, bytes(layout.data), inexact)


def fitting_replicas(lengths: set[int]) -> int:
    """Return a number of replicas that is no length of an axis."""
    return next(number for number in PRIMES if number not in lengths)


class _Layout:
    """Arrays of a program, in the order in which tables name them."""

    def __init__(self, game: Game) -> None:
        self.game, self.env = game, game.env
        self.replicas = game.env.num_envs
        self.arrays: list[dict[str, Any]] = []
        self.data = bytearray()
        self._numbers: dict[str, int] = {}
        self._known: dict[Any, int] = {}
        self._rows = per_replica_attributes(game.env.env)
        self._owners = self._of_the_context()
        for name in game.hashed:  # first, one after the other: a page hashes them as one piece of memory
            self._owned(next(owner for owner in self._owners if owner.name == name))

    def table(self, kernel: str, code: PortableCode) -> list[list[Any]]:
        """Return the rows of a kernel's argument table."""
        rows = []
        for name, array in code.arrays:
            index, offset, is_per_replica = self._place(kernel, name, array)
            shape = list(array.shape)
            if is_per_replica and shape and shape[0] == self.replicas:
                shape[0] = _REPLICAS
            rows.append([index, offset, shape, list(array.strides)])
        return rows

    def _place(self, kernel: str, name: str, array: Array) -> tuple[int, int, bool]:
        """Return the index of the program's array that holds an array, the offset there, and if it has replicas."""
        if name == "gridDim.x":
            return self._number("gridDim.x", "int64", "replicas"), 0, False
        if name.startswith(("gridDim.", "blockDim.")):
            return self._number(name, "int64", {"value": int(array[0])}), 0, False
        if name.startswith("kept."):
            return self._new(f"{kernel}.{name}", array, list(array.shape), None), 0, False
        begin = int(array.__array_interface__["data"][0])
        for owner in self._owners:
            if owner.begin <= begin < owner.end and array.size:
                index = self._owned(owner)
                has_replicas = self.arrays[index]["shape"][:1] == [_REPLICAS]
                if has_replicas and begin != owner.begin:
                    raise ExportError(f"{kernel}: '{name}' is a part of '{owner.name}', which pages cannot lay out")
                return index, begin - owner.begin, has_replicas
        if name == "num_envs":
            return self._number(name, str(array.dtype), "replicas"), 0, False
        is_number = array.size == 1 and array.ndim == 1 and not isinstance(self._attribute(name), np.ndarray)
        if is_number and np.isfinite(array[0]):  # as JSON has it
            return self._number(name, str(array.dtype), {"value": array[0].item()}), 0, False
        if (key := (begin, array.nbytes)) not in self._known:
            self._known[key] = self._new(name, array, list(array.shape), self._stored(array))
        return self._known[key], 0, False

    def _attribute(self, name: str) -> Any:
        return getattr(self.env.env, name, None)

    def _owned(self, owner: Owner) -> int:
        if owner.name not in self._known:
            array, init = owner.array, None
            shape = list(array.shape)
            if shape and shape[0] == self.replicas:
                shape[0] = _REPLICAS
                init = self._first_rows(owner)
            elif array.any():
                init = self._stored(array)
            self._known[owner.name] = self._new(owner.name, array, shape, init)
        return self._known[owner.name]

    def _first_rows(self, owner: Owner) -> Any:
        """Return the first content of an array with a row for each replica, before the first reset."""
        name, array = owner.name, owner.array
        if name in ("rng", "reset.stream"):
            return {"stream": 0}
        if name == "sampler.rng":
            return {"stream": random.SAMPLER_FIRST_DRAW}
        if name in self._rows:
            return {"rows": self._stored(array)}
        if name.startswith("sampler.logits_") and array[:1].any():
            return {"rows": self._stored(array[:1])}
        return None

    def _number(self, name: str, dtype: str, init: Any) -> int:
        """Return the index of a number, the same for all kernels."""
        if name not in self._numbers:
            self._numbers[name] = len(self.arrays)
            self.arrays.append({"name": name, "dtype": dtype, "shape": [1], "init": init})
        return self._numbers[name]

    def _new(self, name: str, array: Array, shape: list[int], init: Any) -> int:
        self.arrays.append({"name": name, "dtype": str(array.dtype), "shape": shape, "init": init})
        return len(self.arrays) - 1

    def _stored(self, array: Array) -> dict[str, int]:
        content = np.ascontiguousarray(array).tobytes()
        self.data += bytes(-len(self.data) % 8)
        at = len(self.data)
        self.data += content
        return {"at": at, "bytes": len(content)}

    def _of_the_context(self) -> list[Owner]:
        owners = []
        for name in self.env.ctx:
            array = self.env.ctx[name].numpy()
            if array.size:
                begin = int(array.__array_interface__["data"][0])
                owners.append(Owner(name, begin, begin + array.nbytes, array))
        return owners


def lengths_of(env: Any) -> set[int]:
    """Return the lengths of all axes of the arrays of replicas, but for that of replicas."""
    found: set[int] = set()
    for name in env.ctx:
        shape = tuple(env.ctx[name].shape)
        found |= set(shape[1:] if shape[:1] == (env.num_envs,) else shape)
    return found


def numbers_of(description: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the float numbers among the arrays of a program, which a host may change, by name."""
    return {
        array["name"]: array
        for array in description["arrays"]
        if array["dtype"] == "float32" and isinstance(array["init"], dict) and "value" in array["init"]
    }
