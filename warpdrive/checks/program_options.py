"""Options of the checks of a program's launches, without the imports of the checks."""

from __future__ import annotations

TITLES = {
    "races": "data race",
    "bounds": "index out of bounds",
    "uninitialised": "read of uninitialised memory",
    "divergence": "divergent barrier",
    "arithmetic": "undefined arithmetic",
    "nan": "NaN or infinity",
    "float64": "computation in float64",
}
"""Kinds of findings, with their titles in reports."""

OPTIONAL = ("nan", "float64")
"""Kinds that are only reported on request."""

STEPS = 1_000_000
"""Default number of steps for which the launches of a kernel are interpreted: loop iterations and memory accesses."""
