"""The examples of docs/guides/warpdrive2.md run, and print the output shown below them."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
from paths import ROOT

import warpdrive as wd

PAGE = (ROOT / "docs" / "guides" / "warpdrive2.md").read_text()


def test_the_examples_run_and_print_what_the_page_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "program.py"
    try:
        for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
            program.write_text(code)
            runpy.run_path(str(program))
    finally:
        wd.interop.warpdrive2.uninstall()
    assert capsys.readouterr().out == "".join(re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL))
