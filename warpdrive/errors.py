"""Exceptions. Messages state the value found, the expected value, the location, and a remedy."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Iterable

from warpdrive.terminal import plain

_ADDRESS = re.compile(r" at 0x[0-9a-f]+>")
_LONGEST_NAME = 100
"""Maximum number of characters of a name compared with others; the cost grows quadratically."""
_SIMILAR = 0.52
"""Minimum similarity of a suggestion, by ``difflib``: at a half, ``damping`` is close to ``dynamic_rescaling``."""


class WarpDriveError(Exception):
    """Base class of errors caused by user input. The command line prints the message in one line and exits with 2."""


class DefinitionError(WarpDriveError, ValueError):
    """Invalid environment, or invalid parameter of one."""


class UnknownParameterError(DefinitionError, TypeError):
    """Parameter that an environment does not have; a TypeError, as for arguments that a function does not have."""


class ActionError(WarpDriveError, ValueError):
    """Actions of the wrong shape, dtype or range."""


class ConfigError(WarpDriveError, ValueError):
    """A run configuration with an unknown key, a wrong type or an impossible value."""


class CheckpointError(WarpDriveError):
    """A run folder or checkpoint that is missing, incomplete or damaged."""


class TrustError(WarpDriveError):
    """Code named by a run that has not been approved to be executed."""


class BackendError(WarpDriveError):
    """A backend that does not exist or cannot be used on this machine."""


class ExportError(WarpDriveError):
    """A policy that cannot be exported, or whose exported form would behave differently."""


class ModelError(WarpDriveError, ValueError):
    """A model whose input or output is on the wrong device, or has the wrong shape or dtype."""


class TrainingError(WarpDriveError):
    """A training run that cannot continue, for example because its loss is not finite."""


class TeamError(WarpDriveError):
    """Processes of a distributed run that differ in configuration, or that cannot be reached."""


def nearest(name: str, candidates: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for the closest of ``candidates`` to ``name``, or ``""`` if none is close.

    The comparison is case-insensitive.
    """
    known = {candidate.lower(): candidate for candidate in candidates}
    close = difflib.get_close_matches(name[:_LONGEST_NAME].lower(), known, n=1, cutoff=_SIMILAR)
    return f" Did you mean '{known[close[0]]}'?" if close else ""


def shown(value: object, most: int = 60) -> str:
    """Return a short representation of a value for messages: one line of at most about ``most`` characters.

    Objects without a custom ``repr`` are represented by their type instead of an address.
    """
    if isinstance(value, type):
        return f"the class {value.__qualname__}"
    if inspect.isroutine(value):
        return f"the function {value.__name__}"
    try:
        text = repr(value)
    except Exception:  # numbers of more digits than Python converts, and representations that raise
        text = f"a value of type {type(value).__name__}"
    if _ADDRESS.search(text) or inspect.ismodule(value):
        text = f"an object of type {type(value).__qualname__}"
    return one_line(text, most)


def with_article(noun: str) -> str:
    """Return a noun with its indefinite article: ``an int``, ``a str``."""
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"


def one_line(text: str, most: int = 300) -> str:
    """Return a text in one line, as :func:`warpdrive.terminal.plain` does, of at most about ``most`` characters."""
    line = plain(" ".join(text.split()))
    return line if len(line) <= most else f"{line[: most - 3]}..."
