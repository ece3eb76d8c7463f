"""The program of docs/numba_cuda.md prints what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from paths import ROOT


def test_the_program_prints_what_the_page_says(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "numba_cuda.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (printed,) = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    (tmp_path / "program.py").write_text(program)
    command = [sys.executable, "-m", "warpdrive.numba_cuda", "program.py"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout == printed
