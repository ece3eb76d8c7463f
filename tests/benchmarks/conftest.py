"""Benchmarks are scripts that import each other; their tests import them the same way."""

from __future__ import annotations

import sys

from paths import ROOT

sys.path.append(str(ROOT / "benchmarks"))
