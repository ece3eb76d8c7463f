"""The examples of the README and of docs/kernels.md run as they stand, and the links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()


def run_example(text, folder):
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    # Kernels are read from their source, so the example has to be a file.
    path = folder / "example.py"
    path.write_text(example)
    names = {"__name__": "example", "__file__": str(path)}
    exec(compile(example, path, "exec"), names)
    return names


def test_the_example_of_a_kernel_runs(tmp_path):
    names = run_example((ROOT / "docs" / "kernels.md").read_text(), tmp_path)
    assert names["sums"].tolist() == [128] * 7 + [1000 - 7 * 128]


def test_the_example_runs(tmp_path):
    names = run_example(README, tmp_path)
    assert tuple(names["observations"].shape) == (1000, 3, 3)
    assert names["rewards"].any(), "in one of 1000 replicas a hunter has met the runner"


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\(([^)#]+)\)", README))))
def test_the_links_lead_somewhere(target):
    assert (ROOT / target).exists()
