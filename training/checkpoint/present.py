"""Current policies of a run in progress, written on request between its checkpoints.

A request is the file ``present_policy/wanted`` in the run folder. The trainer writes a checkpoint without the state of
the trainer, ``present_policy/step_<n>``, and removes the request. Without requests nothing is written.
"""

from __future__ import annotations

import shutil
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from warpdrive.errors import CheckpointError
from warpdrive.training.checkpoint.checkpoint import Keep, latest_of, save_in_run
from warpdrive.training.checkpoint.resume import models_of
from warpdrive.training.checkpoint.run_folder import RunFolder, written

if TYPE_CHECKING:
    from warpdrive.training.learner import Learner

_BETWEEN_LOOKS, _BETWEEN_WRITES = 1.0, 5.0
"""Interval of checks for a request, and minimum interval of written policies, in seconds."""
_SHARE = 0.01
"""Maximum share of the training time spent on writing."""
_KEEP = Keep(last=2)  # one may be being read


class PresentPolicy:
    """Writer of the current policy of a run on request, in the process that trains.

    Args:
        run: Folder of the run.
        learner: Policies.
    """

    def __init__(self, run: RunFolder, learner: Learner) -> None:
        self._folder, self._learner = run.present_policy, learner
        self._next_look = 0.0
        self.remove()

    @property
    def is_wanted(self) -> bool:
        """True if there is a request that is due to be answered."""
        now = time.monotonic()
        if now < self._next_look:
            return False
        self._next_look = now + _BETWEEN_LOOKS
        return _request(self._folder).exists()

    def write(self) -> None:
        """Write the requested policy. A failure is a warning."""
        began = time.monotonic()
        try:
            save_in_run(self._folder, self._learner.env_steps, models_of(self._learner), _KEEP)
            _request(self._folder).unlink(missing_ok=True)
        except (CheckpointError, OSError) as error:
            warnings.warn(f"the present policy cannot be shown: {error}", stacklevel=2)
        now = time.monotonic()
        self._next_look = now + max(_BETWEEN_WRITES, (now - began) / _SHARE)

    def remove(self) -> None:
        """Remove written policies at the end of a run, or those of a run that was killed."""
        shutil.rmtree(self._folder, ignore_errors=True)


def request_present_policy(run: RunFolder) -> None:
    """Ask the process that trains in ``run`` for its present policy; without effect if the folder is read-only."""
    try:
        run.present_policy.mkdir(exist_ok=True)
        _request(run.present_policy).touch()
    except OSError:
        pass


def newest_policy(run: RunFolder) -> Path | None:
    """Return the newest weights of a run: a checkpoint, or a policy written on request; None if there are none yet."""
    found = [folder for parent in (run.checkpoints, run.present_policy) if (folder := latest_of(parent)) is not None]
    return max(found, key=written, default=None)


def _request(folder: Path) -> Path:
    return folder / "wanted"
