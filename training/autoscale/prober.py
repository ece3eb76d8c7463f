"""Trials of sizes in subprocesses, whose failures do not end the search."""

from __future__ import annotations

import csv
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from warpdrive.errors import TrainingError
from warpdrive.importing import module_command
from warpdrive.training.autoscale.memory import gib
from warpdrive.training.autoscale.size import Outcome, Size
from warpdrive.training.autoscale.starter import NewProcesses, Starter
from warpdrive.training.autoscale.watch import watch
from warpdrive.training.config.load import RunConfig
from warpdrive.training.distributed.placement import Place, places

_COMPILING = 900.0
"""Timeout of the survey in seconds, which compiles kernels that are not cached."""
_ENDLESS = 2**62
_SERVICES = ("wandb", "trackio", "mlflow")
"""Sections of ``saving`` that log the metrics elsewhere."""
_SAFE = 0.95
"""Maximum fraction of the free memory to use, to leave room for this process and others to grow."""
_CUT_SHORT_BELOW = 0.7
"""Fraction of the highest throughput below which the measurement of a size is cut short."""
_UPDATES_OF_A_TRIAL = 3


@dataclass(frozen=True)
class Survey:
    """Measurements from before the search. Memory is in bytes.

    Attributes:
        backend: Name of the backend.
        device: Device of the replicas.
        num_agents: Number of agents per replica.
        at_once: Number of replicas that the device steps in parallel.
        state_bytes: Memory of a replica's state.
        rollout_bytes: Memory of a replica in a rollout, independent of its length.
        step_bytes: Memory of a replica per rollout step.
        fixed_bytes: Memory independent of the size.
        available: Available memory of a process.
        limited_by: Origin of that limit.
        baseline: Host memory of a process before it has any replicas.
    """

    backend: str
    device: str
    num_agents: int
    at_once: int
    state_bytes: float
    rollout_bytes: float
    step_bytes: float
    fixed_bytes: float
    available: float
    limited_by: str
    baseline: float

    @property
    def of_address_space(self) -> bool:
        """True if the memory limit is on the address space of each process."""
        return "ulimit" in self.limited_by

    def arrays(self, size: Size) -> float:
        """Return the bytes of all arrays of a size: a lower bound of training, which adds models and batches."""
        of_replica = self.state_bytes + self.rollout_bytes + self.step_bytes * size.rollout_length
        return self.fixed_bytes + of_replica * size.num_envs


class Prober:
    """Tries sizes of a run configuration; must be closed.

    Args:
        config: Run configuration.
        seconds: Duration of a measurement in seconds.
        time_limit: Timeout of a probe in seconds, including its start.
        memory: Memory limit in bytes; None: all available memory.
        devices: Number of processes to train together. Sizes are per process, which on the CPU has its share of memory
            and cores.

    Attributes:
        survey: Measurements from before the search.

    Raises:
        TrainingError: If replicas cannot be created at any size: reports why.
    """

    def __init__(
        self, config: RunConfig, seconds: float, time_limit: float, memory: float | None = None, devices: int = 1
    ) -> None:
        self.config, self.seconds, self.time_limit, self.devices = config, seconds, time_limit, devices
        self._asked = memory
        self._too_large: list[tuple[Size, Outcome]] = []
        self._fastest = 0.0
        place = places(devices, gpus=0)[0] if devices > 1 else Place({})
        self._starter = (Starter if hasattr(os, "fork") else NewProcesses)(place.variables, place.cores)
        try:
            self.survey = self._survey()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the process that forks probes."""
        self._starter.close()

    def __call__(self, size: Size) -> Outcome:
        """Try a size, unless it is known in advance not to fit."""
        foreseen = self._predicted_outcome(size)
        if foreseen is not None:
            return foreseen
        request = {
            "config": self.resized(size),
            "survey": False,
            "seconds": self.seconds,
            "hopeless": _CUT_SHORT_BELOW * self._fastest,
        }
        result = self._run_probe(request, self.time_limit, self._of_host())
        outcome = Outcome(size, **result)
        if outcome.fits and outcome.memory > self.memory_limit:
            outcome = Outcome(size, memory=outcome.memory, failure="memory", reason=self._memory_text(outcome.memory))
        if outcome.failure == "memory":
            self._too_large.append((size, outcome))
        self._fastest = max(self._fastest, outcome.speed)
        return outcome

    @property
    def memory_limit(self) -> float:
        """Memory limit of a process in bytes: of host memory on the CPU, else of device memory.

        It is unlimited if only the address space is limited.
        """
        survey, sharing = self.survey, self.devices if self._on_cpu else 1
        there = math.inf if survey.of_address_space else survey.baseline + _SAFE * survey.available
        return min(there, math.inf if self._asked is None else self._asked) / sharing

    def limit(self) -> tuple[float, str]:
        """Return the memory limit in bytes of the arrays of a process, and its origin."""
        by, baseline = self.survey.limited_by, self.survey.baseline if self._on_cpu else 0.0
        if self._asked is not None and self.memory_limit * (self.devices if self._on_cpu else 1) == self._asked:
            by = f"--memory {gib(self._asked)}"
        if self._on_cpu and self.devices > 1:
            by += f", shared by {self.devices} processes"
        by += f"; a process takes {gib(baseline)} without replicas" if baseline else ""
        return min(self.memory_limit - baseline, self.survey.available), by

    def train(self, config_file: Path, size: Size, grows: float = 0.0) -> Outcome:
        """Run ``warpdrive train`` with a configuration for three updates, including evaluation and animation.

        One process per device is run, each with ``grows`` bytes to spare, which a long run allocates in addition. An
        evaluation that exceeds the time limit is ended: all memory is allocated by then.

        Args:
            config_file: YAML file of the configuration.
            size: Size per process.
            grows: Bytes that a long run allocates in addition.

        Returns:
            The throughput of all processes; or the reason of the failure.
        """
        with tempfile.TemporaryDirectory(prefix="warpdrive-") as name:
            folder = Path(name)
            steps = _UPDATES_OF_A_TRIAL * size.batch * self.devices
            overrides = [f"trainer.total_steps={steps}", f"saving.folder={name}/runs", "saving.log_every=1"]
            overrides += [f"saving.{name}=null" for name in _SERVICES if getattr(self.config.saving, name) is not None]
            command = [*module_command("warpdrive"), "train", str(config_file), "--no-report", *overrides]
            if self.devices > 1:
                command += ["--num_processes" if self._on_cpu else "--num_gpus", str(self.devices)]
            limit = None if self._of_host() is None else (self.memory_limit - grows) * self.devices
            with (folder / "printed").open("w") as printed:
                process = _start_in_own_group(command, printed)
            failure, reason, peak = watch(process, folder / "printed", 2 * self.time_limit, limit)
            if failure is None or (failure == "time" and any(folder.glob("runs/*/*/summary.json"))):
                return Outcome(size, speed=_logged_speed(folder), memory=peak)
            return Outcome(size, failure=failure, reason=f"{reason} (training to the end, with evaluation)")

    def resized(self, size: Size) -> dict[str, Any]:
        """Return the configuration of a probe: that of the run with another size and no outputs."""
        config = self.config.model_dump(mode="json")
        config["trainer"] |= {"num_envs": size.num_envs, "train_batch_size": size.batch, "total_steps": _ENDLESS}
        for policy in config["policy"].values():
            if "learning_starts" in policy:  # gradient steps from the first update on
                policy["learning_starts"] = 0
        config["saving"] |= {"log_every": 1, "checkpoint_every": _ENDLESS, "tensorboard": False}
        config["saving"] |= dict.fromkeys(_SERVICES)
        return config

    def _predicted_outcome(self, size: Size) -> Outcome | None:
        for smaller, outcome in self._too_large:
            if size.num_envs >= smaller.num_envs and size.rollout_length >= smaller.rollout_length:
                return Outcome(size, failure="refused", reason=f"{smaller} did not fit: {outcome.reason}")
        needed, (limit, by) = self.survey.arrays(size), self.limit()
        if needed > limit:
            reason = f"its arrays alone take {gib(needed)} of {gib(limit)} ({by})"
            return Outcome(size, failure="refused", reason=reason)
        return None

    def _of_host(self) -> float | None:
        """Return the host memory limit of a process; None if host memory is not limiting."""
        return self.memory_limit if self._on_cpu and math.isfinite(self.memory_limit) else None

    @property
    def _on_cpu(self) -> bool:
        return self.survey.device == "cpu"

    def _memory_text(self, memory: float) -> str:
        return f"took {gib(memory)} of {gib(self.memory_limit)}"

    def _survey(self) -> Survey:
        request = {"config": self.config.model_dump(mode="json"), "survey": True}
        found = self._run_probe(request, _COMPILING, None)
        if "failure" in found:
            raise TrainingError(f"no size of '{self.config.name}' could be tried: {found['reason']}")
        found["available"] = math.inf if found["available"] is None else found["available"]
        return Survey(**found)

    def _run_probe(self, request: dict[str, Any], time_limit: float, memory: float | None) -> dict[str, Any]:
        with tempfile.TemporaryDirectory(prefix="warpdrive-") as name:
            folder = Path(name)
            request["config"]["saving"] |= {"folder": str(folder / "runs")}
            (folder / "request.json").write_text(json.dumps(request))
            (folder / "stage").write_text("starting")
            try:
                process = self._starter.start(folder)
            except ChildProcessError as error:
                return {"failure": "memory", "reason": str(error)}
            failure, reason, peak = watch(process, folder / "printed", time_limit, memory)
            with suppress(OSError, ValueError):
                result: dict[str, Any] = json.loads((folder / "result.json").read_text())
                return result
            stage = (folder / "stage").read_text()
            if failure is None:
                failure, reason = "crash", "exited without a result"
            return {"failure": failure, "reason": f"{reason}, in {stage}", "memory": peak}


def _start_in_own_group(command: Sequence[str], printed: IO[str]) -> subprocess.Popen[bytes]:
    """Start a process in its own process group, which Ctrl-C does not reach."""
    options: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": printed, "stderr": subprocess.STDOUT}
    if sys.version_info >= (3, 11):
        return subprocess.Popen(command, process_group=0, **options)
    return subprocess.Popen(command, start_new_session=True, **options)


def _logged_speed(folder: Path) -> float:
    """Return the environment steps per second of the last logged update of a run in a folder; 0 if there is none."""
    path = next(folder.glob("runs/*/*/metrics.csv"), None)
    if path is None:
        return 0.0
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return float(rows[-1].get("perf/env_steps_per_second") or 0.0) if rows else 0.0
