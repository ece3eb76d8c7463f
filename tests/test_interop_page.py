"""The examples of the pages on other libraries print the output shown below them."""

from __future__ import annotations

import re

import pytest
from paths import ROOT

PAGES = [(ROOT / "docs" / "guides" / name).read_text() for name in ("interop.md", "host_environments.md")]
EXAMPLES = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", "\n".join(PAGES), re.DOTALL)


@pytest.mark.parametrize(("code", "printed"), EXAMPLES)
def test_an_example_prints_what_the_page_says(code, printed, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for library in re.findall(r"^(?:import|from) (\w+)", code, re.MULTILINE):
        pytest.importorskip(library, exc_type=ImportError)
    exec(compile(code, "docs/guides/interop.md", "exec"), {})
    assert capsys.readouterr().out.endswith(printed)  # after messages of the libraries
