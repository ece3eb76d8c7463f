"""Startup time of a new process from ``import warpdrive`` to its first step: compiling, and from the cache.

python benchmarks/startup.py
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile

from env_step import CONFIGURATIONS

from harness.measure import machine, medians

PROGRAM = """
import time
start = time.perf_counter()
import warpdrive as wd
env = wd.EnvWrapper(env_name={name!r}, env_config={config!r}, num_envs={num_envs}, env_backend="cpu")
env.step(env.ctx["actions"])
print(time.perf_counter() - start)
"""


def seconds(program: str, cache: str) -> float:
    """Run the program in a new process and return its measurement."""
    environment = {**os.environ, "WARPDRIVE_CACHE_DIR": cache}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout)


def compiling(program: str) -> float:
    """Measure with an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        return seconds(program, cache)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5, help="how often each is measured (default 5)")
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
