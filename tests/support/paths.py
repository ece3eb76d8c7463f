"""Folders of the repository, for tests that read from them."""

from __future__ import annotations

from pathlib import Path

SUPPORT = Path(__file__).resolve().parent
"""Modules and files that several tests share."""
ROOT = SUPPORT.parents[1]
"""The repository."""
