"""Episodes of the newest policy, recorded by another process while the page is open."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpdrive.importing import module_command
from warpdrive.training.watch.recorder import ENVIRONMENT

_LOOKING = 15.0
"""Seconds after the last request of a page for which somebody is looking."""
_BETWEEN_TRIES, _LEAST, _MOST = 1.0, 5.0, 60.0
_REST = 10.0
"""Pause after an episode, as a multiple of the processor time that it took, from ``_LEAST`` to ``_MOST`` seconds."""
NICENESS = 19  # the lowest priority: training has precedence
_RECORDER = "warpdrive.training.watch.recorder"


@dataclass(frozen=True)
class Episode:
    """Recorded episode.

    Attributes:
        number: Number of the episode, from 1.
        about: Environment steps of the policy, length, returns and duration, see ``Recorder.next``.
        page: HTML that plays it.
    """

    number: int
    about: dict[str, Any]
    page: str


class Episodes:
    """Latest episode of a run, recorded at a low priority, from the second one on at the lowest.

    Args:
        run: Folder of the run.
        trust: See :func:`warpdrive.training.replay.replay.replay`.

    Attributes:
        latest: Latest episode, or None.
        note: Reason why there is no newer one, or "".
    """

    def __init__(self, run: Path, trust: bool) -> None:
        self.latest: Episode | None = None
        self.note = "starting to record, at a low priority"
        self._command = [*module_command(_RECORDER), str(run), str(NICENESS), *(["--trust"] if trust else [])]
        self._looked = 0.0
        self._someone_looks, self._closed = threading.Event(), threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._record, daemon=True)
        self._lock = threading.Lock()

    def look(self) -> None:
        """Record that the page is open; at the first call, start the recorder."""
        self._looked = time.monotonic()
        self._someone_looks.set()
        with self._lock:
            if self._thread.ident is None and not self._closed.is_set():
                self._thread.start()

    def close(self) -> None:
        """End the recording process."""
        with self._lock:
            self._closed.set()
            self._someone_looks.set()
            if self._process is not None:
                self._process.kill()
                self._process.wait()

    def _record(self) -> None:
        with self._lock:
            if self._closed.is_set():
                return
            # in the same session as the training: elsewhere Linux may give it an equal share of the cores (autogroups)
            process = self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                encoding="utf-8",
                env={**os.environ, **ENVIRONMENT},
                creationflags=getattr(subprocess, "IDLE_PRIORITY_CLASS", 0),
            )
        while not self._closed.is_set():
            if time.monotonic() > self._looked + _LOOKING:
                self._someone_looks.clear()
                self._someone_looks.wait()
            self._closed.wait(self._ask(process))

    def _ask(self, process: subprocess.Popen[str]) -> float:
        """Request a newer episode. Return the seconds until the next request."""
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write("\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
        except (OSError, ValueError):  # it has ended
            code = process.wait()
            answer = {"error": f"the process that records episodes has ended with exit code {code}"}
        if "error" in answer:
            self.note = str(answer["error"])
            self._closed.set()
        elif "page" in answer:
            number = self.latest.number + 1 if self.latest else 1
            self.latest, self.note = Episode(number, answer["episode"], answer["page"]), ""
            return min(max(_LEAST, _REST * float(answer["cpu_seconds"])), _MOST)
        else:
            self.note = str(answer.get("note", ""))
        return _BETWEEN_TRIES
