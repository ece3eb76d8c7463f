"""Descriptions of wrong configuration values and unknown keys, for messages."""

from __future__ import annotations

from collections.abc import Collection

from pydantic_core import ErrorDetails

from warpdrive.errors import nearest, shown
from warpdrive.training.config.aliases import OTHER_NAMES

Problem = tuple[str, str]
"""Dotted key of a configuration and description of its problem."""
MISSING = "missing, and it has no default"
_KIND = {bool: "a boolean", int: "an integer", float: "a number", str: "a string", list: "a list", dict: "a section"}


def described(value: object) -> str:
    """Return a value and its kind, as in ``true (a boolean)``, for a message."""
    kind = _KIND.get(type(value))
    text = shown(value)
    return f"{text} ({kind})" if kind else text


def expectation(details: ErrorDetails) -> str:
    """Return pydantic's expectation of a value, without its opening words."""
    return (
        details["msg"].removeprefix("Input should be ").replace("a valid integer", "an integer").replace("valid ", "")
    )


def explanation(details: ErrorDetails) -> str:
    """Return the description of a value that is missing or wrong."""
    kind, value = details["type"], details["input"]
    if kind == "missing":
        return MISSING
    if kind == "value_error":
        return f"found {described(value)}, expected {details['ctx']['error']}"
    key = details.get("ctx", {}).get("discriminator", "").strip("'")
    if kind == "union_tag_not_found":
        return f"found {described(value)}, expected the key '{key}' as well"
    if kind == "union_tag_invalid":
        found, known = details["ctx"]["tag"], details["ctx"]["expected_tags"]
        hint = nearest(str(found), [name.strip("' ") for name in known.split(",")])
        return f"found {key}: {shown(found)}, expected one of {known}" + (f".{hint}" if hint else "")
    if kind in ("model_type", "dict_type", "model_attributes_type"):
        return f"found {described(value)}, expected a section (key: value)"
    if kind == "string_pattern_mismatch":
        return f"found {described(value)}, expected up to 100 letters, digits, '_', '-' and '.'"
    choices = details["ctx"]["expected"].replace(" or ", ",").split(",") if kind == "literal_error" else []
    hint = nearest(str(value), [choice.strip("' ") for choice in choices])
    return f"found {described(value)}, expected {expectation(details)}" + (f".{hint}" if hint else "")


def unknown_key(key: str, known: Collection[str], hint: str = "") -> str:
    """Return the description of a key that a section lacks, with ``hint`` or the nearest of its keys."""
    ours = OTHER_NAMES.get(key.lower())
    if ours in known:
        hint = hint or f" Did you mean '{ours}'?"
    return f"unknown key, expected one of {', '.join(known)}.{hint or nearest(key, known)}"


def without_follow_ups(problems: list[Problem]) -> list[Problem]:
    """Drop the problem of a missing key if an unknown key of the same section resembles it: it is a single mistake."""

    def is_consequence(key: str, text: str) -> bool:
        section, _, name = key.rpartition(".")
        return text == MISSING and any(
            other.rpartition(".")[0] == section and said.endswith(f"Did you mean '{name}'?") for other, said in problems
        )

    return [problem for problem in problems if not is_consequence(*problem)]
