"""Train on two machines, simulated by network namespaces, with failures. Needs root, ip and unshare.

    python tests/support/two_machines.py
    python tests/support/two_machines.py equal restart --per-machine 2

equal     metrics are those of one process, however processes are started, with both ways to learn together
cut       the cable is pulled: both sides end, and say who is missing
lost      the machine that all met at is gone
killed    a process of the second machine is killed
restart   likewise, under torchrun --max-restarts: all go on from the last checkpoint, with the same metrics
absent    the second machine is never started

Prints what each machine said at last and after how many seconds it ended; fails where that is not as it should be.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from logged_metrics import metrics_of
from machines import Machine, two_machines, why_not

GAMES = Path(__file__).with_name("games.py")
PORT = 29500
ENDLESS = "trainer.total_steps=1000000000"


class Job:
    """One run on two machines.

    Args:
        machines: the first has rank 0.
        folder: is made; logs and runs are in it.
        launcher: how processes are started: "variables", "torchrun" (the address of the first machine is given) or
            "c10d" (torchrun's machines find each other).
        each: processes on each machine.
        overrides: of the run configuration.
        options: of torchrun.
        absent: whether the second machine is never started.
    """

    def __init__(
        self,
        machines: tuple[Machine, Machine],
        folder: Path,
        launcher: str = "variables",
        each: int = 1,
        overrides: Sequence[str] = (),
        options: Sequence[str] = (),
        absent: bool = False,
    ) -> None:
        self.machines, self.folder, self.each = machines, folder, each
        folder.mkdir()
        (folder / "run.yaml").write_text(json.dumps(configuration(folder / "runs")))
        train = ["-m", "warpdrive", "train", str(folder / "run.yaml"), "--no-replay", *overrides]
        self.sides: list[list[subprocess.Popen[bytes]]] = [[], []]
        self.logs: list[list[Path]] = [[], []]
        for place, machine in enumerate(machines[: 1 if absent else 2]):
            if launcher == "variables":
                for local in range(each):
                    ranks = {"RANK": place * each + local, "LOCAL_RANK": local, "WORLD_SIZE": 2 * each}
                    where = {"MASTER_ADDR": machines[0].address, "MASTER_PORT": PORT}
                    self._start(place, machine, train, **ranks, LOCAL_WORLD_SIZE=each, **where)
            else:
                torchrun = ["-m", "torch.distributed.run", "--nnodes=2", f"--nproc-per-node={each}", *options]
                self._start(place, machine, [*torchrun, *_meeting(launcher, machines, place), *train])

    def _start(self, place: int, machine: Machine, arguments: Sequence[str], **variables: object) -> None:
        log = self.folder / f"{place}-{len(self.logs[place])}.log"
        values = {"OMP_NUM_THREADS": "1", **{name: str(value) for name, value in variables.items()}}
        self.logs[place].append(log)
        self.sides[place].append(machine.start([sys.executable, *arguments], log, values))

    def told(self, place: int) -> str:
        """Return the output of a machine."""
        return "".join(log.read_text() for log in self.logs[place])

    def wait(self, seconds: float, places: Sequence[int] = (0, 1)) -> dict[int, tuple[int, float]]:
        """Wait for machines to end; return with which exit code they did, and after how many seconds."""
        began = time.monotonic()
        ended = {}
        for place in places:
            codes = []
            for job in self.sides[place]:
                try:
                    codes.append(job.wait(max(0.1, began + seconds - time.monotonic())))
                except subprocess.TimeoutExpired:
                    raise SystemExit(f"machine {place} hangs:\n{self.told(0)}\n{self.told(1)}") from None
            ended[place] = max(codes, key=abs), time.monotonic() - began
        return ended

    def until_saved(self, more_than: int = 0) -> None:
        """Wait for a checkpoint after so many environment steps."""
        until = time.monotonic() + 120
        while time.monotonic() < until and all(job.poll() is None for side in self.sides for job in side):
            steps = [int(path.name[5:]) for path in self.folder.glob("runs/*/*/checkpoints/step_*[0-9]")]
            if max(steps, default=0) > more_than:
                return
            time.sleep(0.05)
        raise SystemExit(f"there is no checkpoint:\n{self.told(0)}\n{self.told(1)}")


def configuration(runs: Path) -> dict[str, Any]:
    ppo = {"algorithm": "ppo", "lr": 0.01, "minibatches": 2, "model": {"hidden": [16]}}
    return {
        "name": "echo",
        "env": {"name": f"{GAMES}:Echo"},
        "trainer": {
            "num_envs": 20,
            "train_batch_size": 200,
            "total_steps": 600,
            "env_backend": "cpu",
            "evaluation": {"num_episodes": 2},
            "process_timeout": 5,
        },
        "policy": {"even": dict(ppo), "odd": dict(ppo)},
        "saving": {"folder": str(runs), "tensorboard": False, "checkpoint_every": 1},
    }


def _meeting(launcher: str, machines: tuple[Machine, Machine], place: int) -> list[str]:
    """Return the options that tell torchrun where to meet."""
    first = machines[0].address
    if launcher == "torchrun":
        return [f"--node-rank={place}", f"--master-addr={first}", f"--master-port={PORT}"]
    here = [f"--local-addr={machines[place].address}", f"--rdzv-conf=is_host={int(place == 0)}"]
    return ["--rdzv-backend=c10d", f"--rdzv-endpoint={first}:{PORT}", "--rdzv-id=echo", *here]


def one_process(folder: Path, rows: int) -> list[dict[str, float]]:
    """Return the metrics of a single process after this many updates."""
    folder.mkdir()
    (folder / "run.yaml").write_text(json.dumps(configuration(folder / "runs")))
    steps = f"trainer.total_steps={200 * rows}"
    command = [sys.executable, "-m", "warpdrive", "train", str(folder / "run.yaml"), "--no-replay", steps]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    return metrics_of(folder / "runs")


def differences(one: Sequence[dict[str, float]], other: Sequence[dict[str, float]]) -> list[str]:
    """Return the differences beyond those of another order of summation."""
    if len(one) != len(other):
        return [f"{len(one)} and {len(other)} rows"]
    return [
        f"row {number}: {name}: {value} and {theirs[name]}"
        for number, (ours, theirs) in enumerate(zip(one, other, strict=True))
        for name, value in ours.items()
        if not math.isclose(value, theirs[name], rel_tol=1e-3, abs_tol=1e-4)
        and not (math.isnan(value) and math.isnan(theirs[name]))
    ]


def report(job: Job, ends: Mapping[int, tuple[int, float]], wanted: Mapping[int, str]) -> None:
    """Print how machines ended, by their place, and what they said of it, which has to match ``wanted``."""
    for place, (code, seconds) in ends.items():
        said = [line for line in job.told(place).splitlines() if "warpdrive:" in line or "warpdrive train:" in line]
        print(f"    machine {place} ended with exit code {code} after {seconds:.0f} seconds")
        print("\n".join(f"        {line}" for line in said), flush=True)
        if code == 0 or not any(re.search(wanted[place], line) for line in said):
            raise SystemExit(f"expected '{wanted[place]}' and another exit code, found:\n{job.told(place)}")


def equal(machines: tuple[Machine, Machine], folder: Path, each: int) -> None:
    wanted = one_process(folder / "alone", 3)
    for launcher in ("variables", "torchrun", "c10d"):
        for sync in ("gradients", "rollouts"):
            job = Job(machines, folder / f"{launcher}-{sync}", launcher, each, [f"trainer.sync={sync}"])
            ends = job.wait(120)
            found = differences(wanted, metrics_of(job.folder / "runs"))
            if found or any(code for code, _ in ends.values()):
                raise SystemExit("\n".join([*found, job.told(0), job.told(1)]))
            print(f"    {launcher}, sync: {sync}: 3 updates with the metrics of one process", flush=True)


def cut(machines: tuple[Machine, Machine], folder: Path, each: int) -> None:
    for launcher in ("variables", "torchrun"):
        print(f"    {launcher}:")
        job = Job(machines, folder / launcher, launcher, each, [ENDLESS])
        job.until_saved()
        machines[1].set_link(False)
        report(job, job.wait(60), {0: f"rank {each} .*no heartbeat", 1: "rank 0 .*cannot be reached"})
        machines[1].set_link(True)


def lost(machines: tuple[Machine, Machine], folder: Path, each: int) -> None:
    job = Job(machines, folder / "lost", "variables", each, [ENDLESS])
    job.until_saved()
    machines[0].set_link(False)
    machines[0].kill()
    report(job, job.wait(60, [1]), {1: "rank 0 .*cannot be reached"})
    machines[0].set_link(True)


def killed(machines: tuple[Machine, Machine], folder: Path, each: int) -> None:
    for launcher in ("variables", "torchrun"):
        print(f"    {launcher}:")
        job = Job(machines, folder / launcher, launcher, each, [ENDLESS])
        job.until_saved()
        os.kill(machines[1].process(2 * each - 1), signal.SIGKILL)
        report(job, job.wait(60, [0]), {0: f"rank {2 * each - 1} .*is gone"})
        job.wait(60)


def restart(machines: tuple[Machine, Machine], folder: Path, each: int) -> None:
    for launcher in ("torchrun", "c10d"):
        steps = "trainer.total_steps=20000"
        job = Job(machines, folder / launcher, launcher, each, [steps], ["--max-restarts=1"])
        job.until_saved()
        os.kill(machines[1].process(2 * each - 1), signal.SIGKILL)
        ends = job.wait(180)
        (after,) = re.findall(r"resuming at (\d+) of 20000", job.told(0))
        found = differences(one_process(folder / f"{launcher}-alone", 100), metrics_of(job.folder / "runs"))
        if found or any(code for code, _ in ends.values()):
            raise SystemExit("\n".join([*found[:9], job.told(0), job.told(1)]))
        print(f"    {launcher}: went on after {after} environment steps, with the metrics of one process", flush=True)


def absent(machines: tuple[Machine, Machine], folder: Path, each: int) -> None:
    print("    this takes a minute")
    job = Job(machines, folder / "absent", "variables", each, absent=True)
    report(job, job.wait(120, [0]), {0: f"rank.* {each}.* of {2 * each} did not arrive within 60 seconds"})


SCENARIOS = {scenario.__name__: scenario for scenario in (equal, cut, lost, killed, restart, absent)}


def main() -> None:
    """Play the scenarios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="*", metavar="scenario", help=", ".join(SCENARIOS))
    parser.add_argument("--per-machine", type=int, default=1, metavar="N", help="processes on each (default: 1)")
    options = parser.parse_args()
    reason = why_not()
    if reason:
        raise SystemExit(f"two machines cannot be made here: {reason}")
    for name in options.scenarios or SCENARIOS:
        print(name, flush=True)
        with two_machines() as machines, tempfile.TemporaryDirectory() as folder:
            SCENARIOS[name](machines, Path(folder), options.per_machine)


if __name__ == "__main__":
    main()
