"""CITATION.cff and docs/project/citing.md agree with the package."""

from __future__ import annotations

import re
import sys

import pytest
import yaml
from paths import ROOT

import warpdrive

CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
PAGE = (ROOT / "docs" / "project" / "citing.md").read_text(encoding="utf-8")


def test_the_required_keys_of_the_format_are_there():
    """Those of the Citation File Format 1.2.0, of the file and of its references."""
    assert CITATION["cff-version"] == "1.2.0"
    assert {"authors", "message", "title"} <= CITATION.keys()
    assert all({"authors", "title", "type"} <= reference.keys() for reference in CITATION["references"])


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib is new in Python 3.11")
def test_it_describes_the_package():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert CITATION["version"] == project["version"] == warpdrive.__version__
    assert CITATION["license"] == project["license"]
    assert CITATION["authors"] == project["authors"]


def test_the_page_cites_the_same():
    software, paper = re.findall(r"```bibtex\n(.*?)```", PAGE, re.DOTALL)
    (reference,) = CITATION["references"]
    assert re.search(r"version\s*= \{(.*)\}", software)[1] == CITATION["version"]
    assert f"{{{{{CITATION['authors'][0]['name']}}}}}" in software
    names = [f"{author['family-names']}, {author['given-names']}" for author in reference["authors"]]
    assert " and ".join(names) in paper
    assert re.sub(r"[{}]", "", re.search(r"title\s*= \{(.*)\},", paper)[1]) == reference["title"]
    assert reference["identifiers"][0]["value"] == f"arXiv:{re.search(r'eprint *= .(.*).,', paper)[1]}"
