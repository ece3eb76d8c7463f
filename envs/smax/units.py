"""Unit types of ``smax``, and the armies of scenarios by name."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from warpdrive.errors import DefinitionError, shown

LETTERS = {"m": "marine", "M": "marauder", "s": "stalker", "z": "zealot", "g": "zergling", "h": "hydralisk"}
"""Letters of the unit types in names of scenarios, in the order of their numbers."""
VELOCITY = (3.15, 2.25, 4.13, 3.15, 4.13, 3.15)
ATTACK = (9.0, 10.0, 13.0, 8.0, 5.0, 12.0)
ATTACK_RANGE = (5.0, 6.0, 6.0, 2.0, 2.0, 5.0)
SIGHT_RANGE = (9.0, 10.0, 10.0, 9.0, 8.0, 9.0)
RADIUS = (0.375, 0.5625, 0.625, 0.5, 0.375, 0.625)
HEALTH = (45.0, 125.0, 160.0, 150.0, 35.0, 80.0)
WEAPON_COOLDOWN = (0.61, 1.07, 1.87, 0.86, 0.5, 0.59)
NUM_TYPES = len(LETTERS)
MOST_UNITS = 500

_NUMBER = "[1-9][0-9]{0,5}"
_ARMY = re.compile(rf"(?:{_NUMBER}[{''.join(LETTERS)}])+")
_OF_SMACV2 = re.compile(rf"smacv2_({_NUMBER})_units")


class Scenario(NamedTuple):
    """Units of a scenario.

    Attributes:
        allies: Unit types of the allies.
        enemies: Unit types of the enemies.
        is_random: True if types and positions of units are drawn for each episode, as in SMACv2.
    """

    allies: list[int]
    enemies: list[int]
    is_random: bool = False


def scenario(name: str) -> Scenario:
    """Return the scenario of a name.

    Args:
        name: Two armies such as ``3s5z_vs_3s6z``, one army for both teams such as ``2s3z``, or ``smacv2_<n>_units``.

    Returns:
        The scenario.

    Raises:
        DefinitionError: If the name is none of these, or an army is too large.
    """
    random = _OF_SMACV2.fullmatch(name) if isinstance(name, str) else None
    armies = [[0] * int(random[1])] if random else [_army(part) for part in str(name).split("_vs_")]
    if not isinstance(name, str) or len(armies) > 2 or not all(armies):
        letters = ", ".join(f"{letter} {kind}" for letter, kind in LETTERS.items())
        raise DefinitionError(
            f"scenario is {shown(name)}, but it must be an army such as 2s3z, two such as 3s5z_vs_3s6z, or "
            f"smacv2_5_units. Letters stand for unit types: {letters}."
        )
    largest = max(map(len, armies))
    if largest > MOST_UNITS:
        raise DefinitionError(
            f"scenario is {shown(name)}, an army of {largest:,} units: at most {MOST_UNITS} are possible."
        )
    return Scenario(armies[0], armies[-1], bool(random))


def _army(text: str) -> list[int]:
    """Return the unit types of an army such as ``2s3z``; none for other texts."""
    if not _ARMY.fullmatch(text):
        return []
    types = list(LETTERS)
    groups = [(int(number), letter) for number, letter in re.findall(r"(\d+)(\D)", text)]
    return [types.index(letter) for number, letter in groups for _ in range(number)]


def of_types(values: tuple[float, ...]) -> npt.NDArray[np.float32]:
    """Return a property of the unit types as an array ``[NUM_TYPES]``."""
    return np.array(values, np.float32)
