"""Parallel execution of a sweep's trials, each in a separate process.

All state of a trial is in its folder, so that a sweep can be resumed from its folder alone. Processes are placed on
GPUs, or on disjoint sets of cores (``distributed/placement.py``).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from warpdrive.errors import ConfigError, shown
from warpdrive.importing import module_command
from warpdrive.training.config.load import load_config
from warpdrive.training.config.values import is_number
from warpdrive.training.distributed.placement import Place
from warpdrive.training.runtime.atomic_write import write_atomically, write_json
from warpdrive.training.runtime.interrupts import own_group, send
from warpdrive.training.sweep.engines import Engine
from warpdrive.training.sweep.space import Values, as_overrides

_BETWEEN_LOOKS = 0.1
_GRACE = 60.0
"""Seconds that trials have, after Ctrl-C, to finish the current update and write a checkpoint."""


@dataclass
class Trial:
    """Run of a sweep.

    Attributes:
        number: Number of the trial, from 0.
        values: Values of the varied keys.
        folder: Folder of its ``trial.yaml``, its output, and its run folder.
        status: ``waiting``, ``running``, ``finished``, ``failed``, ``pruned`` or ``interrupted``.
        score: Score of a finished trial.
        progress: Last reported progress: ``env_steps``, ``total_steps``, ``returns``, ``speed``.
        result: Contents of its result file.
        reason: Reason of the failure.
    """

    number: int
    values: Values
    folder: Path
    status: str = "waiting"
    score: float | None = None
    progress: dict[str, Any] = field(default_factory=dict)
    result: dict[str, Any] = field(default_factory=dict)
    reason: str = ""


@dataclass(frozen=True)
class Plan:
    """Settings common to all trials.

    Attributes:
        folder: Folder of the sweep.
        source: Run configuration.
        fixed: Overrides of all trials.
        tag: Policy tag whose return is the score.
        trust: See ``load_config``; False also for ``fixed`` and the values of trials, which are then those of a file.
    """

    folder: Path
    source: str
    fixed: Sequence[str]
    tag: str
    trust: bool | None


class Runner:
    """Runs trials, ``len(places)`` at a time.

    Args:
        plan: Settings common to all trials.
        engine: Chooses their values.
        places: Placements of the parallel processes, see ``places``.
        on_change: Called occasionally with all trials.
    """

    def __init__(
        self, plan: Plan, engine: Engine, places: Sequence[Place], on_change: Callable[[Sequence[Trial]], None]
    ) -> None:
        self.plan, self.engine, self.on_change = plan, engine, on_change
        self.trials: list[Trial] = []
        self._free = list(places)
        self._running: dict[int, tuple[Trial, subprocess.Popen[bytes], Place]] = {}

    def run(self) -> bool:
        """Run all trials that have not ended yet. Returns True if none is left, False after Ctrl-C."""
        waiting = self._known()
        try:
            while self._running or waiting or len(self.trials) < self.engine.trials:
                while self._free and (waiting or len(self.trials) < self.engine.trials):
                    trial = waiting.pop(0) if waiting else self._new()
                    if trial.status == "waiting":
                        self._start(trial)
                self._look()
                self.on_change(self.trials)
                time.sleep(_BETWEEN_LOOKS)
        except KeyboardInterrupt:
            self._stop()
            self.on_change(self.trials)
            return False
        finally:
            for _, process, _ in self._running.values():
                process.kill()
        return True

    def _known(self) -> list[Trial]:
        """Read the trials of a resumed sweep, and return those that have not ended.

        Raises:
            ConfigError: A file of a trial is damaged.
        """
        numbered = [(_number(path.parent), path) for path in self.plan.folder.glob("trial_*/trial.json")]
        for number, path in sorted((number, path) for number, path in numbered if number is not None):
            trial = Trial(number, _values(path), path.parent)
            self.trials.append(trial)
            self._read_result(trial)
            if trial.status in ("finished", "pruned"):
                self.engine.record_result(trial.number, trial.values, trial.score)
            else:
                trial.status, trial.reason, trial.score, trial.result = "waiting", "", None, {}
                (trial.folder / "result.json").unlink(missing_ok=True)
        return [trial for trial in self.trials if trial.status == "waiting"]

    def _new(self) -> Trial:
        known = {trial.number for trial in self.trials}  # with gaps, in a resumed sweep: trials that were never started
        number = next(number for number in range(self.engine.trials) if number not in known)
        trial = Trial(number, self.engine.values(number), self.plan.folder / f"trial_{number:03d}")
        self.trials.append(trial)
        try:
            own = [f"name={trial.folder.name}", f"saving.folder={json.dumps(str(self.plan.folder))}"]
            config = load_config(
                self.plan.source,
                [*self.plan.fixed, *as_overrides(trial.values), *own],
                trust=self.plan.trust,
                trust_overrides=self.plan.trust is not False,
            )
        except ConfigError as error:
            self._end(trial, "failed", reason=" ".join(str(error).split()))
            return trial
        trial.folder.mkdir(parents=True, exist_ok=True)
        config.save(trial.folder / "trial.yaml")
        write_atomically(trial.folder / "trial.json", json.dumps({"values": trial.values}) + "\n")  # with infinities
        return trial

    def _start(self, trial: Trial) -> None:
        place, trust = self._free.pop(0), [] if self.plan.trust is False else ["--trust"]
        with (trial.folder / "printed.txt").open("ab") as printed:
            process = subprocess.Popen(
                [*module_command("warpdrive.training.sweep.trial"), str(trial.folder), *trust],
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                env=os.environ | place.variables,
                **own_group(),  # Ctrl-C reaches this process only, which forwards it
            )
        if place.cores:
            with suppress(OSError, AttributeError):
                os.sched_setaffinity(process.pid, place.cores)
        trial.status = "running"
        self._running[trial.number] = (trial, process, place)

    def _look(self) -> None:
        for trial, process, place in list(self._running.values()):
            with suppress(OSError, ValueError):
                progress = json.loads((trial.folder / "progress.json").read_text())
                if progress != trial.progress:
                    trial.progress = progress
                    self._prune(trial, process)
            if process.poll() is not None:
                del self._running[trial.number]
                self._free.append(place)
                self._finish(trial, process.returncode)

    def _prune(self, trial: Trial, process: subprocess.Popen[bytes]) -> None:
        if trial.reason:  # it was asked to stop: a second signal would end it before it has saved
            return
        score, steps = trial.progress["returns"].get(self.plan.tag), trial.progress["env_steps"]
        if steps >= trial.progress["total_steps"]:  # only the evaluation remains
            return
        if score is not None and self.engine.should_stop(trial.number, steps, score):
            trial.reason = "pruned: worse than the median of the previous trials"
            send(process, signal.SIGINT)

    def _finish(self, trial: Trial, returncode: int) -> None:
        pruned = bool(trial.reason)
        self._read_result(trial)
        if not trial.result:
            printed = (trial.folder / "printed.txt").read_text(errors="replace").splitlines()
            last = next((line.strip() for line in reversed(printed) if line.strip()), "no output")
            description = f"killed by {signal.Signals(-returncode).name}" if returncode < 0 else last
            self._end(trial, "failed", reason=f"{description} (see {trial.folder / 'printed.txt'})")
        elif trial.status == "interrupted" and pruned:
            trial.result["status"] = "pruned"
            write_json(trial.folder / "result.json", trial.result)
            self._end(trial, "pruned", reason=trial.reason)
        else:
            self._end(trial, trial.status, reason=str(trial.result.get("reason", "")))

    def _read_result(self, trial: Trial) -> None:
        with suppress(OSError, ValueError):
            result = json.loads((trial.folder / "result.json").read_text())
            if not (isinstance(result, dict) and isinstance(result.get("status"), str)):
                return
            trial.result = result
            trial.status, trial.reason = result["status"], str(result.get("reason", trial.reason))
            score = (result.get("returns") or {}).get(self.plan.tag)
            trial.score = score if is_number(score) else None

    def _end(self, trial: Trial, status: str, reason: str) -> None:
        trial.status, trial.reason = status, reason
        self.engine.record_result(trial.number, trial.values, trial.score if status == "finished" else None)

    def _stop(self) -> None:
        """Forward Ctrl-C to all trials and wait for their checkpoints, or until a second Ctrl-C."""
        ends = time.monotonic() + _GRACE
        with suppress(KeyboardInterrupt):
            for _, process, _ in self._running.values():
                send(process, signal.SIGINT)
            while time.monotonic() < ends and any(p.poll() is None for _, p, _ in self._running.values()):
                time.sleep(_BETWEEN_LOOKS)
        for trial, process, _ in self._running.values():
            process.kill()
            process.wait()
            trial.status = "interrupted"
            self._read_result(trial)
        self._running.clear()


def _number(folder: Path) -> int | None:
    """Return the number of a trial from the name of its folder; None if it is another folder."""
    number = folder.name.removeprefix("trial_")
    return int(number) if number.isascii() and number.isdigit() else None


def _values(path: Path) -> Values:
    try:
        values = json.loads(path.read_text())["values"]
    except (ValueError, KeyError, TypeError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise ConfigError(f"--resume: {path}: found {shown(path.read_text(errors='replace'))}, expected a trial")
    return values
