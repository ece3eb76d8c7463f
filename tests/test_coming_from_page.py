"""WarpDrive's programs in docs/guides/coming_from.md print the output shown below them; the others are valid Python."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from paths import ROOT

import warpdrive as wd
from warpdrive.training.config import run_config

PAGE = (ROOT / "docs" / "guides" / "coming_from.md").read_text()
PROGRAMS = re.findall(r"```python\n((?:(?!```).)*)```(?:\n\n```text\n(.*?)```)?", PAGE, re.DOTALL)
OURS = [(code, printed) for code, printed in PROGRAMS if printed]


@pytest.mark.parametrize(("code", "printed"), OURS)
def test_our_program_prints_what_the_page_says(
    code: str, printed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program.py").write_text(code)  # kernels are read from files
    exec(compile(code, str(tmp_path / "program.py"), "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out == printed


def test_each_library_has_both_programs() -> None:
    assert len(OURS) == 6 and len(PROGRAMS) == 12 == 2 * PAGE.count("**Not there.**")
    for code, _ in PROGRAMS:
        ast.parse(code)


def test_the_names_of_the_page_exist() -> None:
    for name in set(re.findall(r"`wd\.(\w+)", PAGE)):
        assert hasattr(wd, name), name
    sections = {"trainer": run_config.TrainerConfig, "saving": run_config.SavingConfig}
    for section, key in set(re.findall(r"`(trainer|saving)\.(\w+)", PAGE)):
        assert key in sections[section].model_fields or hasattr(wd.Trainer, key), f"{section}.{key}"
