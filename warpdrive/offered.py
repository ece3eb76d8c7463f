"""Environments that installed packages provide as entry points."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.metadata import entry_points

ENTRY_POINT_GROUP = "warpdrive.environments"
"""Entry point group through which installed packages, this one included, provide environments."""

at_registration: list[Callable[[str, str], None]] = []
"""Callbacks of ``wd.register`` with the name of an environment and that of its class."""


@cache
def offered_environments() -> dict[str, str]:
    """Return the paths ``package.module:Class`` of the environments, by name."""
    return {point.name: point.value for point in entry_points(group=ENTRY_POINT_GROUP)}
