"""Per-replica constants of an environment."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from warpdrive.errors import DefinitionError, shown
from warpdrive.user_code import user_code

_INT32, _FLOAT32 = np.iinfo(np.int32), np.finfo(np.float32)


class PerReplica:
    """An attribute of an environment with a separate value for each replica, for domain randomisation.

    Kernel functions access it as an array with a row for each replica: ``mass[env]`` after ``self.mass =
    wd.PerReplica(lambda rng: rng.uniform(0.5, 2.0))``. The values are constant over the lifetime of a replica.

    Args:
        values: A function of a ``numpy.random.Generator`` that draws the value of one replica, a number or an array; or
            an array whose rows are assigned to the replicas cyclically. The value of a replica depends only on the seed
            of the run and the replica's global index, not on the number of replicas.
    """

    def __init__(self, values: Callable[[np.random.Generator], Any] | npt.ArrayLike) -> None:
        self._draw = values if callable(values) else None
        try:
            self._rows = np.empty(0) if callable(values) else np.asarray(values)
        except ValueError:
            raise DefinitionError(f"PerReplica: found {shown(values)}, whose rows have several shapes") from None
        if self._draw is None and not (self._rows.ndim and len(self._rows)):
            raise DefinitionError(f"PerReplica: found {values!r}, expected an array of one or more rows, or a function")

    def rows(self, name: str, seed: int, first_env: int, count: int) -> npt.NDArray[Any]:
        """Return the values of ``count`` replicas, starting at the global index ``first_env``.

        Args:
            name: The name of the attribute, for error messages.
            seed: The seed of the run.
            first_env: The global index of the first replica.
            count: The number of replicas.

        Returns:
            An array ``[count, *shape]``. Numbers become int32, float32 or bool, like other attributes; arrays keep
            their dtype.

        Raises:
            DefinitionError: If the function raises, a number does not fit into int32, or the values of two replicas
                differ in shape or dtype.
        """
        values = [
            plain_constant(name, self._value(name, seed, replica)) for replica in range(first_env, first_env + count)
        ]
        for value in values:
            if (value.shape, value.dtype) != (values[0].shape, values[0].dtype):
                raise DefinitionError(
                    f"attribute '{name}' of the environment is {value.dtype} {value.shape} for one replica and "
                    f"{values[0].dtype} {values[0].shape} for another"
                )
        return np.stack(values)

    def _value(self, name: str, seed: int, replica: int) -> Any:
        if self._draw is None:
            return self._rows[replica % len(self._rows)]
        with user_code(f"wd.PerReplica '{name}'"):
            return self._draw(np.random.default_rng([seed, replica, *name.encode()]))


def per_replica_attributes(environment: object) -> dict[str, PerReplica]:
    """Return the :class:`PerReplica` attributes of an environment or its class, by name."""
    of_classes = [vars(cls) for cls in reversed(environment.__class__.__mro__)]  # the original's of an adapted one
    found = {name: value for attributes in (*of_classes, vars(environment)) for name, value in attributes.items()}
    return {name: value for name, value in found.items() if isinstance(value, PerReplica)}


def plain_constant(name: str, value: Any) -> npt.NDArray[Any]:
    """Return the value of an attribute as kernels read it: integers as int32, floats as float32, others unchanged.

    Raises :class:`DefinitionError` for a number that does not fit.
    """
    array = np.asarray(value)
    if array.ndim or (array.dtype.kind not in "iuf" and type(value) is not int):
        return array
    dtype, limits = (np.float32, _FLOAT32) if array.dtype.kind == "f" else (np.int32, _INT32)
    number = array.item()
    if abs(number) != math.inf and (number < int(limits.min) or number > int(limits.max)):
        raise DefinitionError(
            f"attribute '{name}' of the environment is {value}, which does not fit into {np.dtype(dtype)}"
        )
    return array.astype(dtype)
