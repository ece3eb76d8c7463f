"""The examples in ``docs/guides/checks.md`` print the output shown below them."""

from __future__ import annotations

import re
import runpy

import pytest
from paths import ROOT

PAGE = ROOT / "docs" / "guides" / "checks.md"
EXAMPLES = re.findall(r"### (\w+)\n.*?```python\n(.*?)```\n\n```text\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize(("kind", "code", "printed"), EXAMPLES, ids=[kind for kind, *_ in EXAMPLES])
def test_an_example_prints_what_the_page_says(kind, code, printed, tmp_path, capsys):
    path = tmp_path / "game.py"
    path.write_text(code)
    runpy.run_path(str(path))
    assert capsys.readouterr().out.replace(f"{tmp_path}/", "") == printed
    assert f"  {kind}  " in printed


def test_every_list_of_a_report_has_an_example():
    assert [kind for kind, *_ in EXAMPLES] == [
        *(
            "races",
            "bounds",
            "uninitialised",
            "divergence",
            "arithmetic",
            "broadcasts",
            "float64",
            "order",
            "endless",
            "nan",
        )
    ]
