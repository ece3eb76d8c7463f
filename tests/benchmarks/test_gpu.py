"""Benchmark of GPUs: plan, table, JSON and measuring process, and a small run on a CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from paths import ROOT

from harness.gpu.plan import CALLER, CONFIGURATIONS, KINDS, RECORDED, TRAINING, Row, Setup, Unit, rollout_length, units
from harness.gpu.report import Report, rate
from harness.gpu.unit import configuration
from harness.gpu.worker import Worker

BENCHMARKS = ROOT / "benchmarks"
UNIT = Unit("cartpole", 10, "numba")


def test_the_most_important_come_first_and_only_what_can_run() -> None:
    found = units(["numba", "pycuda", "jax"], quick=False, on_gpu=True)
    assert [(unit.title, unit.replicas, unit.backend) for unit in found[:3]] == [
        ("cartpole", 1_000_000, "numba"),
        ("cartpole", 1_000_000, "pycuda"),
        ("cartpole", 1_000_000, "jax"),
    ]
    assert {unit.title for unit in found if unit.backend == "jax"} == {"cartpole"}
    assert not any(unit.title == "pendulum" for unit in found if unit.backend == "pycuda")
    assert len(set(found)) == len(found)
    of = {title: {unit.replicas for unit in found if unit.title == title} for title in CONFIGURATIONS}
    assert of["cartpole"] == of["pendulum"] == {1_000, 10_000, 100_000, 1_000_000}
    assert of["tag_gridworld, 5 agents"] == {1_000, 10_000, 100_000}
    assert of["tag_continuous, 110 agents"] == {100, 1_000, 10_000}
    assert of["atari, Pong from memory"] == of["atari, Pong from the screen"] == {1, 1_024, 4_096, 32_768}
    assert of["tag_continuous, 1000 agents"] == of["tag_gridworld, 1000 agents"] == {2_000}


def test_graphs_are_measured_first_where_there_are_any() -> None:
    (unit,) = [u for u in units(["numba"], quick=True, on_gpu=True) if u.title == "cartpole"]
    assert unit.expected == [(kind, graph) for graph in (True, False) for kind in KINDS]
    assert all(not graph for u in units(["cpu"], quick=True, on_gpu=False) for _, graph in u.expected)


@pytest.mark.parametrize("title", CONFIGURATIONS)
def test_the_configurations_are_runs_of_that_many_agents(title: str) -> None:
    config = configuration(Unit(title, 20, "cpu"))
    parameters = config.env.parameters
    agents = parameters.get("num_taggers", 1) + parameters.get("num_runners", int("grid" in title))
    assert f"{agents} agents" in title if "tag" in title else agents == 1
    assert config.trainer.num_envs == 20 and config.trainer.rollout_length == 32


def test_many_replicas_get_short_rollouts() -> None:
    assert (rollout_length(1_000, 5), rollout_length(1_000_000, 1), rollout_length(10**9, 1)) == (32, 16, 4)


@pytest.mark.parametrize(
    ("value", "text"), [(0.5, "0.50"), (12.34, "12.3"), (999.7, "1.00 k"), (123_456, "123 k"), (2.9e6, "2.90 M")]
)
def test_rates_have_three_digits(value: float, text: str) -> None:
    assert rate(value) == text


def test_a_report_says_what_was_reached_what_failed_and_how_near_the_limit(tmp_path: Path) -> None:
    report = Report(tmp_path / "new" / "it.json", {"device": "a GPU"})
    report.add(Row("cartpole", 1, 1000, "numba", True, CALLER, 2e6, 82.0, limit=8e6))
    report.add(Row("cartpole", 1, 1000, "numba", True, TRAINING, 1e5, 152.0, limit=8e6))
    report.add(Row("cartpole", 1, 1000, "numba", False, CALLER, error="the driver said no"))
    report.add(Row("cartpole", 1, 1000, "numba", False, RECORDED, error="the driver said no"))
    report.add(Setup("cartpole", 1000, "numba", 1.25, 3 << 20, 5 << 20, replicas_at_once=3584))
    report.write()
    lines = report.table().splitlines()
    assert len({len(line) for line in lines[:4]}) == 1, "the columns are aligned"
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[:4]]
    rates = ["2.00 M (25%)", "", "", "", "100 k"]
    assert cells[2] == ["cartpole", "1,000", "numba", "yes", *rates, "5 of 3 MiB", "3,584", "1.2 s"]
    assert cells[3][3:9] == ["no", "[1]", "[1]", "", "", ""]
    assert lines[-1] == "[1] the driver said no"
    written = json.loads(report.path.read_text())
    assert written["device"] == "a GPU" and len(written["rows"]) == 4
    assert written["rows"][0]["share_of_limit"] == 0.25 and written["rows"][2]["error"] == "the driver said no"
    assert written["setups"][0]["memory_used"] == 5 << 20
    assert [path.name for path in report.path.parent.iterdir()] == ["it.json"]


MEASURES = """
import os, time
from harness.gpu.plan import Row

def measure(unit, what):
    for kind, graph in unit.expected[:2]:
        yield Row(unit.title, 1, unit.replicas, unit.backend, graph, kind, steps_per_second=os.getpid())
    if unit.replicas == 666:
        if what == "dies":
            os._exit(7)
        if what == "hangs":
            time.sleep(100)
        if what == "raises":
            raise ValueError("it broke\\nhere")
    for kind, graph in unit.expected[2:]:
        yield Row(unit.title, 1, unit.replicas, unit.backend, graph, kind, steps_per_second=os.getpid())

def yes():
    return True

def no():
    return False
"""


@pytest.fixture
def measures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Give a module that another process can import."""
    (tmp_path / "measures_of_a_test.py").write_text(MEASURES)
    monkeypatch.syspath_prepend(tmp_path)
    import measures_of_a_test

    yield measures_of_a_test
    del sys.modules["measures_of_a_test"]


@pytest.mark.parametrize(
    ("what", "said", "seconds"),
    [("dies", "exit code 7", 60.0), ("hangs", "more than 6 s", 6.0), ("raises", "ValueError: it broke", 60.0)],
)
def test_a_unit_that_fails_leaves_its_other_rows_and_the_next_unit(measures, what, said, seconds) -> None:
    worker = Worker(partial(measures.measure, what=what), measures.yes)
    try:
        failing = list(worker.results(Unit("cartpole", 666, "numba"), seconds))
        assert [row.error is None for row in failing] == [True, True] + [False] * (len(KINDS) - 2)
        assert all(said in row.error for row in failing[2:])
        assert [row.kind for row in failing] == list(KINDS)
        after = list(worker.results(UNIT, 60.0))
        assert [row.error for row in after] == [None] * len(KINDS)
        assert after[0].steps_per_second != failing[0].steps_per_second, "it is another process"
    finally:
        worker.close()


def test_a_process_goes_on_while_its_device_works(measures) -> None:
    for asked, same in ((measures.yes, True), (measures.no, False)):
        worker = Worker(partial(measures.measure, what=""), asked)
        try:
            first, second = ({row.steps_per_second for row in worker.results(UNIT, 60.0)} for _ in range(2))
            assert (first == second) is same
        finally:
            worker.close()


def test_the_whole_benchmark_in_small(tmp_path: Path) -> None:
    output = tmp_path / "results.json"
    command = [sys.executable, BENCHMARKS / "gpu.py", "--backend", "cpu", "--quick", "--only", "pendulum"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    result = subprocess.run(
        [*command, "--seconds", "0.02", "--output", output], env=environment, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    assert "| pendulum " in result.stdout and f"written to {output}" in result.stdout
    written = json.loads(output.read_text())
    assert [row["kind"] for row in written["rows"]] == list(KINDS)
    assert [row["error"] for row in written["rows"]] == [None] * len(KINDS)
    assert all(row["steps_per_second"] > 0 and row["limit"] > 0 for row in written["rows"])
    assert written["rows"][0]["bytes_per_step"] == 62
    assert written["rows"][0]["limit"] == pytest.approx(written["copy_bytes_per_second"] / 62)
    assert written["setups"][0]["seconds_to_first_step"] > 0 and written["versions"]["numba"]


def test_without_a_gpu_it_says_so() -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    result = subprocess.run([sys.executable, BENCHMARKS / "gpu.py"], capture_output=True, text=True)
    assert result.returncode == 1 and "sees no GPU" in result.stderr and "Traceback" not in result.stderr
