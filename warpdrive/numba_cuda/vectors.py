"""``numba.cuda.vector_types``."""

from __future__ import annotations

from typing import Any

from numba import types

from warpdrive.kernels.libraries import VECTOR_ALIASES, VECTORS
from warpdrive.numba_cuda.members import member


class VectorType:
    """Vector type, as programs look them up by name.

    Attributes:
        name: Name, such as ``float32x3``.
        base_type: Numba's type of a component.
        num_elements: Number of components.
        user_facing_object: Constructor in kernels.
        aliases: Names in CUDA C, such as ``float3``.
    """

    def __init__(self, name: str) -> None:
        base, self.num_elements = VECTORS[name]
        self.name, self.base_type = name, getattr(types, base)
        self.aliases = [alias for alias, path in VECTOR_ALIASES.items() if path == name]
        constructor: Any = member(name)
        constructor.aliases = self.aliases
        self.user_facing_object = constructor


vector_types = {name: VectorType(name) for name in VECTORS}
