"""Constants of an environment that differ from replica to replica."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from warpdrive.errors import DefinitionError


class PerReplica:
    """An attribute of an environment of which each replica has a value of its own: domain randomisation.

    Kernel functions read it as an array with a row for each replica, ``mass[env]`` after ``self.mass =
    wd.PerReplica(lambda rng: rng.uniform(0.5, 2.0))``. It stays the same for the life of a replica.

    Args:
        values: a function of a ``numpy.random.Generator`` that draws the value of one replica, a number or an array; or
            an array whose rows are dealt to the replicas in turns, beginning again after the last. What a replica gets
            depends on the run's seed and the replica's global index alone, not on how many there are.
    """

    def __init__(self, values: Callable[[np.random.Generator], Any] | npt.ArrayLike) -> None:
        self._draw = values if callable(values) else None
        self._rows = np.empty(0) if callable(values) else np.asarray(values)
        if self._draw is None and not (self._rows.ndim and len(self._rows)):
            raise DefinitionError(f"PerReplica: found {values!r}, expected an array of one or more rows, or a function")

    def rows(self, name: str, seed: int, first_env: int, count: int) -> npt.NDArray[Any]:
        """Return the values of ``count`` replicas from the global index ``first_env`` on, ``[count, *shape]``.

        Numbers are int32, float32 or bool, as those of other attributes are; arrays keep their dtype.
        Raises :class:`DefinitionError`, with the attribute's ``name``, where the values of two replicas do not match.
        """
        values = [_plain(self._value(name, seed, replica)) for replica in range(first_env, first_env + count)]
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
        return self._draw(np.random.default_rng([seed, replica, *name.encode()]))


def per_replica_attributes(environment: object) -> dict[str, PerReplica]:
    """Return the attributes of an environment, or of its class, that are :class:`PerReplica`, by name."""
    of_classes = [vars(cls) for cls in reversed(type(environment).__mro__)]
    found = {name: value for attributes in (*of_classes, vars(environment)) for name, value in attributes.items()}
    return {name: value for name, value in found.items() if isinstance(value, PerReplica)}


def _plain(value: Any) -> npt.NDArray[Any]:
    array = np.asarray(value)
    if array.ndim == 0 and array.dtype.kind in "iuf":
        return array.astype(np.float32 if array.dtype.kind == "f" else np.int32)
    return array
