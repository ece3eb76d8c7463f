"""Measure seconds from ``import warpdrive`` to the first step of a new process, with and without the compile cache.

python benchmarks/startup.py
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


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="processes per candidate (default: 5)")
    options = parser.parse_args()
    print(machine())
    print("seconds from import warpdrive to the end of the first env.step, medians of", options.rounds, "processes\n")
    with tempfile.TemporaryDirectory() as cache:
        for title, (name, num_envs, config) in CONFIGURATIONS.items():
            program = PROGRAM.format(name=name, config=config, num_envs=num_envs)
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
