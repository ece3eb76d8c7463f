"""The program of docs/guides/numba_cuda.md prints what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import yaml
from paths import ROOT


def test_the_program_prints_what_the_page_says(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "guides" / "numba_cuda.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    printed = re.findall(r"```text\n(.*?)```", page, re.DOTALL)[0]
    (tmp_path / "program.py").write_text(program)
    command = [sys.executable, "-m", "warpdrive.numba_cuda", "program.py"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout == printed


def test_the_workflow_is_valid() -> None:
    page = (ROOT / "docs" / "guides" / "numba_cuda.md").read_text()
    (text,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    workflow = yaml.safe_load(text)
    job = workflow["jobs"]["test"]
    assert set(workflow) == {"name", True, "jobs"}  # YAML 1.1 reads "on" as True
    assert all(os in str(job["strategy"]["matrix"]["os"]) for os in ("ubuntu", "macos", "windows"))
    for step in job["steps"]:
        assert ("run" in step) != ("uses" in step) and set(step) <= {"run", "uses", "with"}
    used = set(re.findall(r"matrix\.(\w+)", text))
    assert used == set(job["strategy"]["matrix"])
    commands = [step["run"].split() for step in job["steps"] if "run" in step]
    assert commands[0][:2] == ["pip", "install"]
    for _, *options in commands[1:]:  # which pytest knows
        command = [sys.executable, "-m", "pytest", *options, "--co", "-q", "-o", "addopts=", str(Path(__file__))]
        assert subprocess.run(command, capture_output=True).returncode == 0
