"""Base class of the sections of a run configuration."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

Problem = tuple[str, str]
"""Dotted key of a configuration and description of its problem."""


class Section(BaseModel):
    """Base class of configuration sections: immutable; unknown keys, wrong types and NaN are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)
