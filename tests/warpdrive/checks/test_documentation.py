"""``docs/guides/checks.md`` has an example for each list of findings in kernels, which prints one of them."""

from __future__ import annotations

import re

from pages import blocks_of
from paths import ROOT

PAGE = (ROOT / "docs" / "guides" / "checks.md").read_text()
KINDS = [
    "races",
    "bounds",
    "uninitialised",
    "divergence",
    "arithmetic",
    "conversions",
    "broadcasts",
    "float64",
    "order",
    "endless",
    "nan",
]


def test_every_list_of_a_report_has_an_example() -> None:
    sections = re.findall(r"^### (\w+)\n(.*?)(?=^##)", PAGE, re.DOTALL | re.MULTILINE)
    assert [kind for kind, _ in sections] == KINDS
    assert all(f"  {kind}  " in blocks_of(section, "python")[0].shown for kind, section in sections)
