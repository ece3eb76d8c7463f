"""Each environment in ``broken_environments`` has one fault, which the checks report."""

from __future__ import annotations

import re
import sys
import warnings

import pytest
from exhaustive import exhaustive
from paths import SUPPORT

import warpdrive as wd
from warpdrive import registry

FOLDER = SUPPORT / "broken_environments"
BROKEN = sorted(path for path in FOLDER.glob("*.py") if path.stem != "base")


def test_there_are_ten_and_more():
    assert len(BROKEN) >= 10


def test_the_one_that_all_are_made_of_is_fine():
    wd.testing.check_environment(wd.make(f"{FOLDER / 'base.py'}:Walk"))


@pytest.mark.parametrize("path", exhaustive(BROKEN, BROKEN[::6]), ids=[path.stem for path in BROKEN])
def test_its_author_is_told_the_fault(path):
    cls = registry.environment_class(f"{path}:Broken")
    expected = sys.modules[cls.__module__].EXPECTED
    with pytest.raises((AssertionError, wd.WarpDriveError)) as found, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wd.testing.check_environment(cls())
    assert re.search(expected, str(found.value), re.DOTALL), str(found.value)
