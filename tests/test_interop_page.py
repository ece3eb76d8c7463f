"""The examples of docs/interop.md print the output shown below them."""

from __future__ import annotations

import re

import pytest
from paths import ROOT

PAGE = (ROOT / "docs" / "interop.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(("code", "printed"), EXAMPLES)
def test_an_example_prints_what_the_page_says(code: str, printed: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(code, "docs/interop.md", "exec"), {})
    assert capsys.readouterr().out == printed
