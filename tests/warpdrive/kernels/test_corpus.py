"""Every kernel of the corpus is correct on the CPU backend, and clean in the checks."""

from __future__ import annotations

import numpy as np
import pytest
from corpus import CASES
from exhaustive import exhaustive

import warpdrive as wd


@pytest.mark.parametrize("case", exhaustive(CASES, CASES[::20]), ids=[case.name for case in CASES])
def test_results_are_correct_and_nothing_is_reported(case, check):
    def launch(kernel, blocks, threads, *arguments, shared=0):
        results = check(kernel, blocks, threads, *arguments, shared_bytes=shared)
        report = wd.check_launch(kernel, blocks, threads, *arguments, shared_bytes=shared)
        if case.float64:
            report.float64.clear()
        assert report.clean and not report.notes, str(report)
        for argument, result in zip(arguments, results, strict=True):
            if isinstance(argument, np.ndarray):
                argument[...] = result

    case.run(launch)


def test_number_of_cases():
    assert len(CASES) >= 150
