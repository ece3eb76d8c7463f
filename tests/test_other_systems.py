"""Programs of numba.cuda, and commands, without what only Unix or only Linux has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from paths import ROOT

PROGRAM = """
import sys
import numpy as np
import warpdrive.numba_cuda
warpdrive.numba_cuda.install()
from numba import cuda

@cuda.jit
def add(a, x, y, total):
    i = cuda.grid(1)
    if i < y.size:
        y[i] += a * x[i]
    cuda.cg.this_grid().sync()
    if i < y.size:
        cuda.atomic.add(total, 0, y[y.size - 1 - i])

@cuda.jit
def in_order(flags, out):
    b = cuda.blockIdx.x
    while b > 0 and cuda.atomic.add(flags, b - 1, 0) == 0:
        pass
    out[0] = 2 * out[0] + b
    cuda.atomic.exch(flags, b, 1)

y, total = cuda.to_device(np.ones(1000)), cuda.to_device(np.zeros(1))
add.forall(1000)(2, np.arange(1000.0), y, total)
print(y[-1], total[0], cuda.current_context().get_memory_info().total > 0)
out = np.zeros(1, np.int32)
try:
    in_order[8, 1](np.zeros(8, np.int32), out)
    print(out[0])
except Exception as error:
    print(str(error).rpartition("supports ")[2].partition(", not")[0])
"""

COMMANDS = """
import sys
from warpdrive.training.cli.main import main
for line in sys.argv[1:]:
    code = main(line.split())
    if code:
        sys.exit(f"{line}: {code}")
"""
SMALL = "trainer.total_steps=512 trainer.num_envs=8 trainer.evaluation.num_episodes=2"
ALL_COMMANDS = (
    f"train cartpole --no-replay {SMALL}",
    f"train --resume runs/cartpole --no-replay -q {SMALL.replace('512', '1024')}",
    "evaluate runs/cartpole --episodes 2",
    "replay runs/cartpole -o episode.npz",
    "plot runs/cartpole -o curves.png",
    "init my_game",
    "schema -o schema.json",
    "doctor",
)


def run(system: str, program: str, *arguments: str, folder: Path) -> str:
    (folder / "program.py").write_text(program)
    simulator = str(ROOT / "tests" / "support" / "foreign_system.py")
    command = [sys.executable, simulator, system, "program.py", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("system", "last"), [("apple", "247"), ("windows", "only on x86-64 and ARM64 of Linux and macOS")]
)
def test_programs_run(tmp_path, system, last):
    assert run(system, PROGRAM, folder=tmp_path) == f"1999.0 1000000.0 True\n{last}\n"


def test_commands_run_without_unix(tmp_path):
    printed = run("windows", COMMANDS, *ALL_COMMANDS, folder=tmp_path)
    assert "trained agent" in printed and next(tmp_path.glob("runs/cartpole/*/metrics.csv")).read_text().count("\n") > 1
    for name in ("episode.npz", "curves.png", "my_game/my_game.yaml", "schema.json"):
        assert (tmp_path / name).stat().st_size > 100
