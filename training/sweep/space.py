"""Search space of a sweep: lists of values, and ranges to sample from."""

from __future__ import annotations

import itertools
import math
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from warpdrive.errors import ConfigError, shown
from warpdrive.training.config.yaml import dump, parse_override

Values = dict[str, Any]
"""Values of one trial, by dotted key."""

_RANGE = re.compile(r"(uniform|loguniform|integer)\(([^,()]+),([^,()]+)\)")


@dataclass(frozen=True)
class Choices:
    """Finite set of values."""

    values: tuple[Any, ...]

    def draw(self, generator: random.Random) -> Any:
        """Sample a value uniformly."""
        return generator.choice(self.values)


@dataclass(frozen=True)
class Range:
    """Range of numbers from ``low`` to ``high``.

    Attributes:
        kind: ``uniform``; ``loguniform``, uniform in the logarithm; or ``integer``, whole numbers including both ends.
    """

    kind: str
    low: float
    high: float

    def draw(self, generator: random.Random) -> float:
        """Sample a number, rounded to six significant digits."""
        if self.kind == "integer":
            return generator.randint(int(self.low), int(self.high))
        if self.kind == "uniform":
            drawn = generator.uniform(self.low, self.high)
        else:
            drawn = math.exp(generator.uniform(math.log(self.low), math.log(self.high)))
        return float(f"{drawn:.6g}")


Space = Mapping[str, "Choices | Range"]


def parse_space(arguments: Sequence[str]) -> tuple[dict[str, Choices | Range], list[str]]:
    """Separate varied keys from fixed overrides.

    Returns:
        The search space by dotted key, of ``key=[a, b]``, ``key=uniform(low, high)``, ``loguniform`` and ``integer``;
        and all other arguments, unchanged.

    Raises:
        ConfigError: If nothing is varied, a key is given twice, or a range is invalid.
    """
    space: dict[str, Choices | Range] = {}
    fixed = []
    for text in arguments:
        path, value = parse_override(text)
        key = ".".join(path)
        part = _part(key, value)
        if part is None:
            fixed.append(text)
        elif key in space:
            raise ConfigError(f"command line: {key}: given twice")
        else:
            space[key] = part
    if not space:
        raise ConfigError(
            "nothing to vary: give a list, such as policy.<tag>.lr=[1e-3,1e-4], or a range, such as "
            "policy.<tag>.lr=loguniform(1e-4,1e-2)"
        )
    return space, fixed


def grid(space: Space) -> list[Values]:
    """Return all combinations of values of lists; the last key varies fastest."""
    lists = [part.values for part in space.values() if isinstance(part, Choices)]
    return [dict(zip(space, values, strict=True)) for values in itertools.product(*lists)]


def drawn(space: Space, seed: int, number: int) -> Values:
    """Sample the values of one trial of a random search, independently of other trials.

    Args:
        space: Search space.
        seed: Seed of the sweep.
        number: Number of the trial.

    Returns:
        Values by dotted key.
    """
    generator = random.Random(f"{seed}/{number}")
    return {key: part.draw(generator) for key, part in space.items()}


def as_overrides(values: Values) -> list[str]:
    """Return values as overrides of ``load_config``."""
    return [f"{key}={dump([value], in_flow_style=True).strip()[1:-1]}" for key, value in values.items()]


def _are_plain(values: Any) -> bool:
    """Return True for data that JSON has, infinity and nan included."""
    if isinstance(values, Mapping):
        return all(map(_are_plain, values.values()))
    if isinstance(values, list):
        return all(map(_are_plain, values))
    return values is None or isinstance(values, (bool, int, float, str))


def _part(key: str, value: Any) -> Choices | Range | None:
    if isinstance(value, list):
        if not value:
            raise ConfigError(f"command line: {key}: found an empty list, expected the values to try")
        for other in (item for item in value if not _are_plain(item)):
            raise ConfigError(f"command line: {key}: found {shown(other)}, expected numbers, words, lists or sections")
        return Choices(tuple(value))
    found = _RANGE.fullmatch(value.replace(" ", "")) if isinstance(value, str) else None
    if found is None:
        if isinstance(value, str) and re.match(r"((log)?uniform|integer)\s*\(", value):  # uniform alone is a word
            raise ConfigError(
                f"command line: {key}: found '{value}', "
                "expected uniform(low,high), loguniform(low,high) or integer(low,high)"
            )
        return None
    kind = found[1]
    try:
        low, high = (int(end) if kind == "integer" else float(end) for end in found.groups()[1:])
    except ValueError:
        raise ConfigError(f"command line: {key}: found '{value}', expected {kind} of two numbers") from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high and (kind != "loguniform" or low > 0)):
        positive = ", both greater than 0" if kind == "loguniform" else ""
        raise ConfigError(f"command line: {key}: found '{value}', expected a range from low to high{positive}")
    return Range(kind, low, high)
