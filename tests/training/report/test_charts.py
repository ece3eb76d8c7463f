"""Histograms of a report, of values that leave little room for bins."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest

from warpdrive.training.report.charts import distribution_chart
from warpdrive.training.report.svg import Plots


def histogram(values: list[float]) -> tuple[list[float], list[float]]:
    """Return the centres of the bins, and the share of the values in each."""
    chart = distribution_chart(Plots(), "return of agent", "episodic_return", {"trained": values})
    (data,) = re.findall(r'data-plot="([^"]*)"', chart.svg)
    drawn = json.loads(unescape(data))
    (line,) = drawn["lines"]
    return drawn["at"], line["mean"]


@pytest.mark.parametrize(
    "values", [[0.3, 0.30000000000000004], [1e16, 1e16 + 2.0], [-1e17, -1e17], [0.5, 0.5], [1e9 + 0.5, 1e9 + 0.5]]
)
def test_values_that_differ_by_rounding_are_in_one_bin(values: list[float]) -> None:
    _, shares = histogram(values)
    assert sorted(shares)[-2:] == [0.0, 1.0]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("values", [[-1e308, 1e308], [-1.7e308, 1.7e308]])
def test_values_whose_difference_overflows_are_in_two_bins(values: list[float]) -> None:
    _, shares = histogram(values)
    assert shares == [0.5, *[0.0] * 22, 0.5]


def test_bins_of_other_values_have_equal_widths() -> None:
    """Of 0 to 12 in 24 bins: two of three values in the first, the other in the last one."""
    centres, shares = histogram([0.0, 0.25, 12.0])
    assert shares == [0.66667, *[0.0] * 22, 0.33333] and centres[:2] == [0.25, 0.75]
