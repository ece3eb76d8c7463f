"""Server of a run's page during its training, for ``warpdrive train --watch``."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from warpdrive.errors import ConfigError
from warpdrive.importing import module_command
from warpdrive.training.run.callbacks import Callback

if TYPE_CHECKING:
    from warpdrive.training.trainer import Trainer

TOKEN = "WARPDRIVE_WATCH_TOKEN"
"""Environment variable with the token, so that restarted processes have the same address."""
_SECONDS = 5.0  # to end
_SECONDS_TO_START = 60.0


def keep_token() -> None:
    """Choose the token for this process and its child processes."""
    os.environ.setdefault(TOKEN, secrets.token_urlsafe(16))


class WatchedTraining(Callback):
    """Callback and context manager that serves the page of a run from another process while the run is trained.

    That process ends at the end of the block, and also if this one is killed: it ends with its stdin.

    Args:
        port: Port; None: the first free one from 8300.
        trust: See :func:`warpdrive.training.replay.replay.replay`.
    """

    def __init__(self, port: int | None = None, trust: bool = False) -> None:
        command = [*module_command("warpdrive.training.watch"), str(port or 0), *(["--trust"] if trust else [])]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def directions(self) -> tuple[str, str]:
        """Return the lines with the addresses of the page, see ``WatchServer``.

        Raises:
            ConfigError: If the port is in use or cannot be used, or the process does not start within a minute.
        """
        assert self._process.stdout is not None
        timer = threading.Timer(_SECONDS_TO_START, self._process.kill)
        timer.start()
        line = self._process.stdout.readline()
        timer.cancel()
        not_started = f"its process did not start within {_SECONDS_TO_START:g} seconds, or ended"
        answer: dict[str, Any] = json.loads(line) if line else {"error": not_started}
        if "error" in answer:
            raise ConfigError(f"--watch: {answer['error']}")
        address, tunnel = answer["directions"]
        return address, tunnel

    def on_start(self, trainer: Trainer, run_folder: Path) -> None:
        """See :class:`Callback`."""
        assert self._process.stdin is not None
        with suppress(OSError):  # it was killed: no reason to stop training
            self._process.stdin.write(json.dumps(str(run_folder.resolve())) + "\n")
            self._process.stdin.flush()

    def __enter__(self) -> WatchedTraining:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
