"""Cross-references in docstrings become links of the documentation site."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
from paths import ROOT

griffe = pytest.importorskip("griffe")
sys.path.append(str(ROOT / "tools"))
roles = importlib.import_module("docstring_roles")

SOURCE = '''
class Replicas:
    """Replicas, see :meth:`step` and :class:`warpdrive.Trainer`."""

    def step(self):
        """Raise :class:`Problem`, or :exc:`ValueError`."""

class Problem(Exception):
    pass
'''


def test_names_are_looked_up_in_the_class_then_in_the_module(tmp_path: Path) -> None:
    (tmp_path / "made.py").write_text(SOURCE)
    extensions = griffe.load_extensions(roles.Roles)
    module = griffe.load("made", search_paths=[tmp_path], extensions=extensions)
    link = '<autoref identifier="{}" optional><code>{}</code></autoref>'
    replicas = module["Replicas"]
    assert replicas.docstring.value == (
        f"Replicas, see {link.format('made.Replicas.step', 'step')} "
        f"and {link.format('warpdrive.Trainer', 'wd.Trainer')}."
    )
    assert replicas["step"].docstring.value == (
        f"Raise {link.format('made.Problem', 'Problem')}, or {link.format('ValueError', 'ValueError')}."
    )
