"""Every kernel of the corpus is correct on the CPU backend, and clean in the checks."""

from __future__ import annotations

import numpy as np
import pytest
from corpus import CASES

import warpdrive as wd

every_case = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])


@every_case
def test_results(case, check):
    def launch(kernel, blocks, threads, *arguments, shared=0):
        results = check(kernel, blocks, threads, *arguments, shared_bytes=shared)
        for argument, result in zip(arguments, results, strict=True):
            if isinstance(argument, np.ndarray):
                argument[...] = result

    case.run(launch)


@every_case
def test_nothing_is_reported(case):
    def launch(kernel, blocks, threads, *arguments, shared=0):
        report = wd.check_launch(kernel, blocks, threads, *arguments, shared_bytes=shared)
        if case.float64:
            report.float64.clear()
        assert report.clean and not report.notes, str(report)
        wd.kernel(kernel)[blocks, threads, 0, shared](*arguments)

    case.run(launch)


def test_number_of_cases():
    assert len(CASES) >= 150
