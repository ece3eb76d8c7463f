"""Kill a training run repeatedly (SIGKILL), resume it each time, and compare the results.

    python tests/support/kill_often.py 50
    python tests/support/kill_often.py 50 --beside

Each time a new process goes on with the run and is killed: every second time after a random while, and else when it is
about to open, rename or remove a random one of its files, which finds the short moments in which it writes. In the end
the run goes on to its end. It is evaluated all along, between updates or, with ``--beside``, beside them, and keeps its
best checkpoint. Prints how far it came each time; fails where a run cannot be resumed, or its metrics or its last or
best checkpoint differ from those of a run that was never interrupted.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # what a process would load later is loaded before it is forked, which is quicker
from logged_metrics import rows_of

import warpdrive.backends.cpu.launch  # noqa: F401 - likewise
from warpdrive.training.checkpoint.checkpoint import last_undamaged
from warpdrive.training.checkpoint.run_folder import RunFolder
from warpdrive.training.config.load import load_config
from warpdrive.training.trainer import Trainer

GAMES = Path(__file__).with_name("games.py")
EVENTS = {"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.listdir", "os.scandir", "shutil.rmtree"}
EVENTS_OF_A_CHECKPOINT = 40  # about


def configuration(folder: Path, updates: int, beside: bool) -> dict[str, Any]:
    ppo = {"algorithm": "ppo", "lr": 0.01, "minibatches": 2, "model": {"hidden": [16]}}
    return {
        "name": "echo",
        "env": {"name": f"{GAMES}:Echo"},
        "trainer": {
            "num_envs": 20,
            "train_batch_size": 200,
            "total_steps": 200 * updates,
            "env_backend": "cpu",
            "evaluation": {"every": 4, "num_episodes": 20, "beside": beside},
        },
        "policy": {"even": dict(ppo), "odd": dict(ppo)},
        "saving": {"folder": str(folder), "tensorboard": False, "checkpoint_every": 3, "log_every": 2, "keep_last": 2},
    }


def train(run: Path, seconds: float | None = None, die_at_event: int = 0) -> bool:
    """Resume the run in a process of its own; kill it after a while, or at a certain access to its folder.

    Returns whether it was killed, and had not come to its end before.
    """
    came, comes = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            torch.set_num_threads(1)
            trainer = Trainer.resume(run)
            if die_at_event:
                _die_at(run, die_at_event)
            os.write(comes, b"x")
            trainer.train()
            code = 0
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(code)  # past what the parent cleans up
    os.close(comes)
    os.read(came, 1)
    os.close(came)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise SystemExit(f"{run}: could not be resumed")
    return os.WIFSIGNALED(status)


def _die_at(run: Path, number: int) -> None:
    seen = 0

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        if event in EVENTS and str(run) in str(arguments[0]):
            seen += 1
            if seen == number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)


def main(kills: int, seed: int, beside: bool) -> None:
    rng = random.Random(seed)
    updates = 20 * (kills + 1)
    with tempfile.TemporaryDirectory() as folder:
        whole, killed = (
            RunFolder.create(load_config(configuration(Path(folder) / name, updates, beside))).path
            for name in ("one", "two")
        )
        for kill in range(kills):
            if kill % 2:
                early = train(killed, die_at_event=rng.randint(1, 3 * EVENTS_OF_A_CHECKPOINT))
            else:
                early = train(killed, seconds=rng.uniform(0.0, 0.25))
            found = last_undamaged(killed / "checkpoints")
            print(f"killed {kill + 1} times: {found[0].name if found else 'no checkpoint yet'}", flush=True)
            if not early:
                raise SystemExit("it came to its end before it could be killed: give it more updates")
        train(killed)
        train(whole)
        if rows_of(whole) != rows_of(killed):
            raise SystemExit("the metrics differ")
        ends = [last_undamaged(run / "checkpoints") for run in (whole, killed)]
        (_, one), (_, two) = (end for end in ends if end)
        for tag in one.models:
            for name, value in one.models[tag].items():
                if not torch.equal(value, two.models[tag][name]):
                    raise SystemExit(f"{tag}.{name} differs")
        if not torch.equal(one.state["simulation"], two.state["simulation"]):
            raise SystemExit("the simulation differs")
        for pointer in ("latest", "best"):
            names = [(run / "checkpoints" / pointer).read_text() for run in (whole, killed)]
            if names[0] != names[1]:
                raise SystemExit(f"{pointer} differs: {names}")
        left = [path.name for path in (killed / "checkpoints").iterdir()]
        if sorted(left) != sorted(path.name for path in (whole / "checkpoints").iterdir()):
            raise SystemExit(f"left over: {left}")
        print(f"killed {kills} times in {updates} updates: the same metrics, policies and simulation, bit for bit")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("kills", type=int)
    parser.add_argument("seed", type=int, nargs="?", default=0)
    parser.add_argument("--beside", action="store_true")
    options = parser.parse_args()
    main(options.kills, options.seed, options.beside)
