"""Durations that programs in new processes print."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.new_process import seconds


def test_errors_of_a_program_are_shown(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert seconds("print('compiling'); print(2.5)", str(tmp_path)) == 2.5
    with pytest.raises(subprocess.CalledProcessError):
        seconds("raise SystemExit('no compiler')", str(tmp_path))
    assert capfd.readouterr().err == "no compiler\n"
