"""Compare environments as WebAssembly with the CPU backend: bits, sizes, and speed on one core.

python benchmarks/web.py                          # sizes, and steps per second in Node.js and natively
python benchmarks/web.py --verify 10000           # states after each of that many steps, in Node.js and natively
python benchmarks/web.py --verify 10000 --policies  # those of run configurations, whose policies act untrained
python benchmarks/web.py tag_continuous flock     # these environments
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

import warpdrive as wd
from harness.measure import machine
from harness.web.node import Node
from warpdrive.backends.host import workers
from warpdrive.registry import registered_names
from warpdrive.training.algorithms.base import LearningConfig
from warpdrive.training.config.load import load_config, shipped_configs
from warpdrive.training.inference.trained_policy import TrainedPolicy
from warpdrive.training.trainer import make_env
from warpdrive.training.web.game import Game, digest_of_steps
from warpdrive.training.web.page import PageOptions, web_page
from warpdrive.training.web.program import Program, fitting_replicas, lengths_of, program_of

LEFT_OUT = "atari"
"""Prefix of the environments and run configurations that are left out: games of Atari are too large for a page."""
SECONDS = 0.1
"""Processor time of a measurement."""


def program_and_game(name: str, replicas: int, with_policies: bool = False) -> tuple[Program, Game]:
    """Return the program of a game and the game natively.

    Agents act at random; if ``with_policies``, ``name`` is a run configuration, and its untrained policies act.
    """
    policies: dict[str, TrainedPolicy] = {}
    if with_policies:
        config = load_config(name, ["trainer.env_backend=cpu", "trainer.reset_pool_size=4"])
        env = make_env(config)
        for tag, settings in config.policy.items():
            if isinstance(settings, LearningConfig):
                torch.manual_seed(1)
                spaces = env.observation_spaces[tag], env.action_spaces[tag]
                distribution = settings.acting_distribution(spaces[1])
                policies[tag] = TrainedPolicy(tag, settings.build_model(*spaces), *spaces, distribution)
    else:
        env = wd.EnvWrapper(name, env_backend="cpu", seed=1, reset_pool_size=4)
    program = program_of(Game(env.like(fitting_replicas(lengths_of(env)), env.seed), policies))
    return program, Game(env.like(replicas, env.seed), policies)


def speed(name: str, replicas: int, rounds: int) -> tuple[dict[str, float], int]:
    """Return environment steps per second natively and in Node.js, and the bytes of the module."""
    program, game = program_and_game(name, replicas)

    def native(steps: int) -> float:
        began = time.process_time()
        for _ in range(steps):
            game.step()
        return time.process_time() - began

    with Node(program, replicas, game.env.seed) as node:
        candidates = {"native": native, "node": node.seconds}
        measures = {who: measured(take, replicas) for who, take in candidates.items()}
        found = dict.fromkeys(measures, 0.0)
        for _ in range(rounds):  # in turns, and the best: whatever else runs here only makes them slower
            found = {who: max(found[who], measure()) for who, measure in measures.items()}
    return found, len(program.module)


def measured(take: Callable[[int], float], replicas: int) -> Callable[[], float]:
    """Return a function that measures steps per second of all replicas."""
    take(200)  # compiles, in Node.js a second time with optimisations
    steps = max(5, round(20 * SECONDS / take(20)))
    return lambda: replicas * steps / take(steps)


def verify(name: str, steps: int, with_policies: bool) -> str:
    """Compare the states after each step with those of the native backend; return a description of the result."""
    replicas = 3
    program, game = program_and_game(name, replicas, with_policies)
    with Node(program, replicas, game.env.seed) as node:
        found, expected = node.digest_of_steps(steps), f"{digest_of_steps(game, steps):016x}"
    if found != expected:
        return f"different: {found}, expected {expected}"
    return f"equal after each of {steps} steps; {int(game.env.episode_statistics()['episodes'])} episodes"


def page_bytes(name: str) -> int:
    """Return the bytes of the page of an environment without policies."""
    env = wd.EnvWrapper(name, env_backend="cpu", seed=1, reset_pool_size=4)
    return len(web_page(env, {}, PageOptions(verified_steps=1)).html)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environments", nargs="*", help="registered names (default: all but atari)", metavar="NAME")
    parser.add_argument("--replicas", type=int, default=200, help="replicas that are stepped (default: 200)")
    parser.add_argument("--rounds", type=int, default=30, help="measurements of each; the best counts (default: 30)")
    parser.add_argument("--verify", type=int, metavar="STEPS", help="compare states after each of these steps")
    parser.add_argument("--policies", action="store_true", help="compare run configurations (default: all but atari)")
    options: Any = parser.parse_args(arguments)
    if options.policies and not options.verify:
        parser.error("--policies needs --verify: speeds and sizes are those of environments")
    known = shipped_configs() if options.policies else registered_names()
    names = options.environments or [name for name in known if not name.startswith(LEFT_OUT)]
    workers.set_num_threads(1)
    print(machine())
    if options.verify:
        for name in names:
            print(f"{name:26} {verify(name, options.verify, options.policies)}", flush=True)
        return
    print(f"environment steps per second of one core, {options.replicas} replicas; agents act at random\n")
    print(f"{'':26} {'native':>14} {'Node.js':>14} {'ratio':>6} {'module kB':>10} {'page kB':>8}")
    for name in names:
        found, size = speed(name, options.replicas, options.rounds)
        ratio = found["node"] / found["native"]
        figures = f"{found['native']:14,.0f} {found['node']:14,.0f} {ratio:6.2f}"
        print(f"{name:26} {figures} {size / 1000:10.1f} {page_bytes(name) / 1000:8.0f}", flush=True)


if __name__ == "__main__":
    main()
