"""The example of the README runs as it stands, and the links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()


def test_the_example_runs(tmp_path):
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    # Kernels are read from their source, so the example has to be a file.
    path = tmp_path / "example.py"
    path.write_text(example)
    names = {"__name__": "example", "__file__": str(path)}
    exec(compile(example, path, "exec"), names)
    assert tuple(names["observations"].shape) == (1000, 3, 3)
    assert names["rewards"].any(), "in one of 1000 replicas a hunter has met the runner"


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\(([^)#]+)\)", README))))
def test_the_links_lead_somewhere(target):
    assert (ROOT / target).exists()
