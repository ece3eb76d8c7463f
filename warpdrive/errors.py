"""Errors for the person who made the mistake: what was found, what was expected, where, what would work."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class WarpDriveError(Exception):
    """A mistake in what the user gave us. The command line prints its message as one line and exits with 2."""


class DefinitionError(WarpDriveError, ValueError):
    """An environment, or a parameter given to it, that cannot work."""


class ActionError(WarpDriveError, ValueError):
    """Actions of the wrong shape, dtype or range."""


class ConfigError(WarpDriveError, ValueError):
    """A run configuration with an unknown key, a wrong type or an impossible value."""


class CheckpointError(WarpDriveError):
    """A run folder or checkpoint that is missing, incomplete or damaged."""


class BackendError(WarpDriveError):
    """A backend that does not exist or cannot be used on this machine."""


class ExportError(WarpDriveError):
    """A policy that cannot be written to a file for other programs, or that would do something else there."""


class ModelError(WarpDriveError, ValueError):
    """A model whose input or output is on the wrong device, or has the wrong shape or dtype."""


class TrainingError(WarpDriveError):
    """A training run that cannot go on, such as one whose loss is no longer finite."""


class TeamError(WarpDriveError):
    """Processes that train together differ, or one of them cannot be reached."""


def nearest(name: str, candidates: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for the closest of ``candidates`` to ``name``, or ``""`` if none is close."""
    close = difflib.get_close_matches(name, list(candidates), n=1, cutoff=0.5)
    return f" Did you mean '{close[0]}'?" if close else ""
