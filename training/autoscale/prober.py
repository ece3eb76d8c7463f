"""Tries sizes in processes of their own, so that nothing that happens there ends the search."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpdrive.errors import TrainingError
from warpdrive.training.autoscale.memory import gib
from warpdrive.training.autoscale.size import Failure, Outcome, Size
from warpdrive.training.config import RunConfig

_COMPILING = 900.0
"""Seconds that the survey may take: kernels that were never used before are compiled there."""
_BETWEEN_LOOKS = 0.05
_SAID_OF_MEMORY = ("MemoryError", "bad_alloc", "out of memory", "Cannot allocate memory", "can't allocate memory")
_ENDLESS = 2**62


@dataclass(frozen=True)
class Survey:
    """What is known before any size is tried. Memory is in bytes.

    Attributes:
        backend: its name.
        device: where the replicas live.
        num_agents: of a replica.
        state_bytes: of a replica's state.
        rollout_bytes: of a replica in a rollout, whatever its length.
        step_bytes: of a replica in each step of a rollout.
        fixed_bytes: whatever the size.
        available: to a process of this user, at most.
        limited_by: what limits that.
        baseline: what a process takes on the host before it has any replicas.
    """

    backend: str
    device: str
    num_agents: int
    state_bytes: float
    rollout_bytes: float
    step_bytes: float
    fixed_bytes: float
    available: float
    limited_by: str
    baseline: float

    def arrays(self, size: Size) -> float:
        """Bytes of all arrays of a size: less than training takes, which has models and batches, too."""
        of_replica = self.state_bytes + self.rollout_bytes + self.step_bytes * size.rollout_length
        return self.fixed_bytes + of_replica * size.num_envs


class Prober:
    """Tries sizes of a run configuration.

    Args:
        config: what is trained.
        seconds: how long speed is measured.
        time_limit: seconds that a probe may take, its start included.
        memory: bytes that a probe may take, or None: as much as there is.

    Raises:
        TrainingError: no replicas can be made, of whatever size: the reason.
    """

    def __init__(self, config: RunConfig, seconds: float, time_limit: float, memory: float | None = None) -> None:
        self.config, self.seconds, self.time_limit, self.memory = config, seconds, time_limit, memory
        self._too_large: list[tuple[Size, Outcome]] = []
        self.survey = self._survey()

    def __call__(self, size: Size) -> Outcome:
        """Try a size, unless it is known beforehand that it does not fit."""
        foreseen = self._foreseen(size)
        if foreseen is not None:
            return foreseen
        request = {"config": self.resized(size), "survey": False, "seconds": self.seconds}
        result = self._run_probe(request, self.time_limit, self._of_host())
        outcome = Outcome(size, **result)
        if outcome.fits and self.memory and outcome.memory > self.memory:
            reason = f"took {gib(outcome.memory)} of {gib(self.memory)}"
            outcome = Outcome(size, memory=outcome.memory, failure="memory", reason=reason)
        if outcome.failure == "memory":
            self._too_large.append((size, outcome))
        return outcome

    def limit(self) -> tuple[float, str]:
        """Bytes that a probe's arrays may take at most, and who says so."""
        found = self.survey.available, self.survey.limited_by
        if self.memory is None:
            return found
        baseline = self.survey.baseline if self.survey.device == "cpu" else 0.0
        return min(
            found, (self.memory - baseline, f"--memory {gib(self.memory)}, of which a process takes {gib(baseline)}")
        )

    def trains(self, config_file: Path, size: Size) -> Outcome | None:
        """Run ``warpdrive train`` with a configuration for two updates, to the end of it: evaluation, animation.

        Returns None if that works, or what came of it instead. An evaluation that takes longer than the time limit is
        ended: by then everything has its memory.
        """
        with tempfile.TemporaryDirectory(prefix="warpdrive-") as folder:
            overrides = [f"trainer.total_steps={2 * size.batch}", f"saving.folder={folder}/runs"]
            if self.config.saving.model_dump().get("wandb"):
                overrides.append("saving.wandb=null")
            command = [sys.executable, "-m", "warpdrive", "train", str(config_file), *overrides]
            failure, reason, _ = self._watch(command, Path(folder), 2 * self.time_limit, self._of_host())
            if failure is None or (failure == "time" and any(Path(folder).glob("runs/*/*/summary.json"))):
                return None
            return Outcome(size, failure=failure, reason=f"{reason} (training to the end, with evaluation)")

    def resized(self, size: Size) -> dict[str, Any]:
        """The configuration of a probe: that of the run but for the size, and for what it leaves behind."""
        config = self.config.model_dump(mode="json")
        config["trainer"] |= {
            "num_envs": size.num_envs,
            "train_batch_size": size.batch,
            "total_steps": _ENDLESS,
        }
        for policy in config["policy"].values():
            if "learning_starts" in policy:  # gradient steps from the first update on
                policy["learning_starts"] = 0
        config["saving"] |= {"log_every": 1, "checkpoint_every": _ENDLESS, "tensorboard": False}
        if "wandb" in config["saving"]:
            config["saving"]["wandb"] = None
        return config

    def _foreseen(self, size: Size) -> Outcome | None:
        for smaller, outcome in self._too_large:
            if size.num_envs >= smaller.num_envs and size.rollout_length >= smaller.rollout_length:
                return Outcome(size, failure="refused", reason=f"{smaller} did not fit: {outcome.reason}")
        needed, (limit, by) = self.survey.arrays(size), self.limit()
        if needed > limit:
            reason = f"its arrays alone take {gib(needed)} of {gib(limit)} ({by})"
            return Outcome(size, failure="refused", reason=reason)
        return None

    def _of_host(self) -> float | None:
        """The limit of ``--memory`` where it is the host's memory that it limits."""
        return self.memory if self.survey.device == "cpu" else None

    def _survey(self) -> Survey:
        request = {"config": self.config.model_dump(mode="json"), "survey": True}
        found = self._run_probe(request, _COMPILING, None)
        if "failure" in found:
            raise TrainingError(f"no size of '{self.config.name}' can be tried: {found['reason']}")
        found["available"] = math.inf if found["available"] is None else found["available"]
        return Survey(**found)

    def _run_probe(self, request: dict[str, Any], time_limit: float, memory: float | None) -> dict[str, Any]:
        with tempfile.TemporaryDirectory(prefix="warpdrive-") as name:
            folder = Path(name)
            request["config"]["saving"] |= {"folder": str(folder / "runs")}
            (folder / "request.json").write_text(json.dumps(request))
            (folder / "stage").write_text("starting")
            command = [sys.executable, "-m", "warpdrive.training.autoscale.probe", name]
            failure, reason, peak = self._watch(command, folder, time_limit, memory)
            with suppress(OSError, ValueError):
                result: dict[str, Any] = json.loads((folder / "result.json").read_text())
                return result
            stage = (folder / "stage").read_text()
            if failure is None:
                failure, reason = "crash", "ended without a result"
            return {"failure": failure, "reason": f"{reason}, in {stage}", "memory": peak}

    def _watch(
        self, command: Sequence[str], folder: Path, time_limit: float, memory: float | None
    ) -> tuple[Failure | None, str, float]:
        """Run a process until it ends, or breaks a limit. Returns why it failed, in words, and the most bytes seen."""
        with (folder / "printed").open("w") as printed:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=printed, stderr=subprocess.STDOUT, start_new_session=True
            )
            try:
                ends, peak = time.monotonic() + time_limit, 0.0
                while process.poll() is None:
                    peak = max(peak, _memory_of(process.pid))
                    if memory is not None and peak > memory:
                        return "memory", f"took more than {gib(memory)}", peak
                    if time.monotonic() > ends:
                        return "time", f"took longer than {time_limit:.0f} s", peak
                    time.sleep(_BETWEEN_LOOKS)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        failure, reason = _ended(process.returncode, (folder / "printed").read_text(errors="replace"))
        return failure, reason, peak


def _ended(returncode: int, printed: str) -> tuple[Failure | None, str]:
    """Why a process failed, in words, if it did."""
    if returncode == 0:
        return None, ""
    last = next((line.strip() for line in reversed(printed.splitlines()) if line.strip()), "")
    if returncode == -signal.SIGKILL:
        return "memory", "killed by the system, as it does where memory runs out"
    if any(said in printed for said in _SAID_OF_MEMORY):
        return "memory", last
    if returncode < 0:
        return "crash", f"crashed with {signal.Signals(-returncode).name}"
    return "crash", last or f"ended with exit code {returncode}"


def _memory_of(pid: int) -> float:
    """Bytes that a process has now; 0 where the system does not say."""
    with suppress(OSError):
        found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
        if found:
            return int(found[1]) * 1024.0
    return 0.0
