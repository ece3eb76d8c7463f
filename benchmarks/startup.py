"""Measure seconds to the first step and to the first update of a new process, with and without the compile cache.

    python benchmarks/startup.py

Steps are measured from ``import warpdrive``, the update of ``warpdrive train cartpole`` from the start of the process.
"""

from __future__ import annotations

import argparse
import tempfile

from harness.environments.tag import CONFIGURATIONS
from harness.measure import machine, medians
from harness.new_process import compiling, seconds

PROGRAM = """
import time
start = time.perf_counter()
import warpdrive as wd
env = wd.EnvWrapper(env_name={name!r}, env_config={config!r}, num_envs={num_envs}, env_backend="cpu")
env.step(env.ctx["actions"])
print(time.perf_counter() - start)
"""

TRAINING = """
import os, sys, time
from warpdrive.training.cli import main as command_line

def load(name, import_module=command_line.import_module):
    command = import_module(name)
    from warpdrive.training.learner import Learner
    update = Learner.update

    def first_update(*arguments):
        update(*arguments)
        print("", ELAPSED, sep="\\n", flush=True)
        os._exit(0)

    Learner.update = first_update
    return command

command_line.import_module = load
sys.argv[1:] = ["train", "cartpole", "saving.folder=" + os.environ["WARPDRIVE_CACHE_DIR"]]
command_line.main()
"""
"""Calls the command as from a shell, up to the first update; ``ELAPSED`` stands for the figure to print."""

ELAPSED = {"seconds": "time.time() - float(os.environ['STARTED'])", "processor time": "time.process_time()"}


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="processes per candidate (default: 5)")
    options = parser.parse_args()
    print(machine())
    print("seconds from import warpdrive to the end of the first env.step, medians of", options.rounds, "processes\n")
    programs = {
        title: PROGRAM.format(name=name, config=config, num_envs=num_envs)
        for title, (name, num_envs, config) in CONFIGURATIONS.items()
    }
    for unit, elapsed in ELAPSED.items():
        programs[f"first update of warpdrive train cartpole, {unit}"] = TRAINING.replace("ELAPSED", elapsed)
    with tempfile.TemporaryDirectory() as cache:
        for title, program in programs.items():
            figures = medians(
                {
                    "compiling": lambda program=program: compiling(program),  # type: ignore[misc]
                    "from the cache": lambda program=program: seconds(program, cache),  # type: ignore[misc]
                },
                options.rounds,
            )
            print(title)
            for candidate, figure in figures.items():
                print(f"  {candidate:16} {figure:6.2f}")
            print()


if __name__ == "__main__":
    main()
