"""Checks of all launches of a program, ``python -m warpdrive.numba_cuda --check``, and of a test suite."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from warpdrive.checks.programs import Checks, spread
from warpdrive.numba_cuda import cuda

PROGRAM = """import sys
import numpy as np
from numba import cuda

@cuda.jit
def tag(rewards, tagger):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    rewards[env, tagger[agent]] += np.float32(1)

@cuda.jit
def double(x, factor):
    i = cuda.grid(1)
    x[i] = x[i] * factor / x[0]

@cuda.jit
def divergent(x):
    if cuda.threadIdx.x < 2:
        cuda.syncthreads()
    x[cuda.threadIdx.x] = 1

@cuda.jit
def clean(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = i

def main():
    for _ in range(3):
        tag[2, 4](np.zeros((2, 4), np.float32), np.array([0, 1, 1, 0]))
    x = cuda.to_device(np.zeros(30, np.float32))
    clean.forall(30)(x)
    double.forall(30)(x, 2.0)
    divergent[1, 4](x)
    print("result", x[29], "torch" in sys.modules)
    sys.exit(int(sys.argv[1]))

main()
"""


def run(*arguments: object, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *map(str, arguments)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def test_a_program_is_checked(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    options = ("--check", "--nan", "--float64", "--json", "found.json")
    done = run("warpdrive.numba_cuda", *options, "program.py", 0, folder=tmp_path)
    assert (done.returncode, done.stdout) == (1, "result nan False\n"), done.stderr
    report = [line.removeprefix("== ") for line in done.stderr.splitlines()]
    assert report[:4] == [
        "data race in kernel 'tag', launch 1 at program.py:29, 2 blocks of 4 threads",
        "  program.py:8: thread 1 writes and thread 2 reads 'rewards[0, 1]' in block 0, with no barrier "
        "between (12 times)",
        "       8 | rewards[env, tagger[agent]] += np.float32(1)",
        "         > use cuda.atomic.add(array, index, value)",
    ]
    found = json.loads((tmp_path / "found.json").read_text())
    counts = {(f["kernel"], f["kind"]): (f["array"], f["count"], f["launches"], f["launch"]) for f in found["findings"]}
    assert counts == {
        ("tag", "races"): ("rewards", 36, 3, 1),
        ("double", "bounds"): ("x", 196, 1, 5),
        ("double", "nan"): ("x", 30, 1, 5),
        ("double", "races"): ("x", 127, 1, 5),
        ("double", "float64"): ("argument 'factor'", 1, 1, 5),
        ("divergent", "divergence"): ("", 2, 1, 6),
    }
    assert "data race: 'tag', program.py:8: 36 times in 3 launches" in done.stderr
    assert "6 findings; 6 of 6 launches of 4 kernels checked" in done.stderr
    docs = (Path(__file__).parents[3] / "docs" / "guides" / "checks.md").read_text()
    for entry in (found, *found["findings"], *found["kernels"]):
        assert all(f"`{key}`" in docs for key in entry), "docs/guides/checks.md does not describe the file"


@pytest.mark.parametrize(("steps", "exit_code"), [(0, 0), (10, 4)])
def test_a_clean_program_keeps_its_exit_code(tmp_path, steps, exit_code):
    (tmp_path / "program.py").write_text(PROGRAM[: PROGRAM.index("    for _")] + "    clean[400, 4](np.zeros(9))\n")
    with open(tmp_path / "program.py", "a") as file:
        file.write(f"    clean[400, 4](np.zeros(9))\n    sys.exit({exit_code})\nmain()\n")
    done = run("warpdrive.numba_cuda", "--check", "--steps", steps, "program.py", folder=tmp_path)
    assert done.returncode == exit_code, done.stderr
    if steps:
        assert "limited: 'clean': 0 of 2 launches checked and 2 in part (3 of 800 blocks)" in done.stderr
    else:
        assert done.stderr == "== nothing found; 2 of 2 launches of 1 kernel checked\n"


def test_usage(tmp_path):
    assert "--json FILE" in run("warpdrive.numba_cuda", "--help", folder=tmp_path).stdout
    wrong = run("warpdrive.numba_cuda", "--nan", "program.py", folder=tmp_path)
    assert wrong.returncode == 2 and "are options of --check" in wrong.stderr


def test_tests_are_checked(tmp_path):
    (tmp_path / "test_kernels.py").write_text(
        PROGRAM[: PROGRAM.index("def main")]
        + "\nimport pytest\n\n"
        + "@pytest.fixture\ndef tagged():\n    tag[1, 4](np.zeros((1, 4), np.float32), np.array([0, 1, 1, 0]))\n\n"
        + "def test_clean():\n    clean[1, 4](np.zeros(4))\n\n"
        + "def test_fixture(tagged):\n    pass\n\n"
        + "def test_bounds():\n    double[1, 4](np.ones(3), 1)\n"
    )
    options = ("-q", "-p", "warpdrive.numba_cuda", "-p", "no:cacheprovider")
    done = run("pytest", *options, "--check-launches", folder=tmp_path)
    assert "2 failed, 1 passed" in done.stdout
    assert "data race in kernel 'tag', launch 1 at" in done.stdout and "use cuda.atomic.add" in done.stdout
    assert "index 3 lies outside of 'x'" in done.stdout
    assert "expected nan or float64" in run("pytest", *options, "--check-launches=all", folder=tmp_path).stderr
    assert run("pytest", *options, "-k", "clean or fixture", folder=tmp_path).returncode == 0


def test_results_are_those_of_the_program():
    @cuda.jit
    def scale(x, y, n):
        i = cuda.grid(1)
        if i < n:
            y[i] = 2 * x[i]

    @cuda.jit
    def spin(flag):
        if cuda.threadIdx.x == 0:
            while cuda.atomic.add(flag, 0, 0) == 0:
                pass
        else:
            cuda.atomic.exch(flag, 0, 1)

    @cuda.jit
    def raises(x):
        if x[0] == 0:
            raise ValueError("wrong")

    checks = Checks(steps=300)
    with checks.active():
        x, y = np.arange(100.0), np.zeros(100)
        scale[25, 4](x, y, 90)
        np.testing.assert_array_equal(y[:90], 2 * x[:90])
        spin[1, 2](np.zeros(1, np.int32))
        with pytest.raises(ValueError, match="wrong"):
            raises[1, 1](x)
        assert checks.is_clean
        y = np.zeros(4)
        scale[1, 4](x, y[:2].copy(), 4)
        assert [found.finding.array for found in checks.found.values()] == ["y"]
    scale[1, 4](x, y, 4)
    assert checks.num_launches == 4
    assert {name: kernel.steps > 0 for (name, _), kernel in checks.coverage.items()} == {
        "scale": True, "spin": False, "raises": True,
    }  # fmt: skip
    summary = checks.summary()
    assert "not checked: 'spin': its threads wait for each other" in summary and "'raises'" not in summary


def test_launches_of_several_threads_are_checked_one_at_a_time(monkeypatch):
    @cuda.jit
    def fill(x):
        x[cuda.grid(1)] = 1

    check, inside, met = Checks._check, threading.Barrier(2), []

    def wait_for_another(*arguments):
        with contextlib.suppress(threading.BrokenBarrierError):
            met.append(inside.wait(0.2))
        return check(*arguments)

    monkeypatch.setattr(Checks, "_check", wait_for_another)
    checks, arrays = Checks(), [np.zeros(4), np.zeros(4)]
    with checks.active(), ThreadPoolExecutor(2) as threads:
        list(threads.map(fill[1, 4], arrays))
    assert not met and checks.num_launches == 2 and np.all(arrays)


def test_blocks_are_spread_over_the_grid():
    for count in (1, 2, 3, 7, 100, 128):
        assert sorted(spread(count)) == list(range(count))
    assert list(spread(100))[:6] == [0, 1, 99, 64, 32, 96]
