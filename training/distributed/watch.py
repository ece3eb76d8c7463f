"""Notices when a process of the team dies, stops or cannot be reached, so that nobody waits for it in silence."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from torch._C._distributed_c10d import PrefixStore, TCPStore

from warpdrive.errors import TeamError

_SILENCE = 60.0  # seconds; processes are heard of every one or two, unless something is wrong
_GONE = 3.0  # seconds without a sign of life, where it is known already that somebody is missing
_TO_BE_SEEN = 2.0  # seconds in which a launcher notices who was at fault, before this process ends, too
_LEFT, _FAILED = "left", "failed"


@dataclass(frozen=True)
class Identity:
    """Which process of which machine a rank is.

    Attributes:
        host: the machine's name.
        pid: the process's number.
        kernel: what those processes share that know each other's numbers.
    """

    host: str
    pid: int
    kernel: str

    @classmethod
    def own(cls) -> Identity:
        """Of this process."""
        boot, numbers = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")
        with suppress(OSError):
            return cls(socket.gethostname(), os.getpid(), f"{boot.read_text().strip()} {numbers.readlink()}")
        return cls(socket.gethostname(), os.getpid(), "")

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


class Watch:
    """Tells the others that this process is alive, and ends it where one of them no longer is.

    A thread does so through the store at which the processes met. It notices a process that is stopped, that was
    killed, or whose machine cannot be reached, by its silence; and one that goes on with something else, while the
    others wait for it, by how often it has come to do something together.

    Args:
        connect: makes a connection to the store, which a thread has for itself.
        rank: of this process.
        size: how many processes there are.
        timeout: seconds that the others may wait for one that is alive.

    Attributes:
        met: how often this process has come to do something together with the others.
    """

    def __init__(self, connect: Callable[[float], TCPStore], prefix: str, rank: int, size: int, timeout: float) -> None:
        self.rank, self.size, self.timeout = rank, size, timeout
        self.silence = min(_SILENCE, timeout)
        self._pause = min(1.0, self.silence / 5)
        self._store = PrefixStore(prefix, connect(self.silence))
        self._lock = threading.Lock()  # a connection is for one thread at a time
        self.met, self._waiting_since, self._beats = 0, 0.0, 0
        self._last: dict[int, list[str]] = {}
        self._heard = dict.fromkeys(range(size), time.monotonic())
        self.identities: dict[int, Identity] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="warpdrive-watch", daemon=True)

    def start(self) -> None:
        """Begin to watch; all processes must have met."""
        self._say("alive")
        self._set(f"identity/{self.rank}", json.dumps(asdict(Identity.own())))
        for rank in range(self.size):
            with self._lock:
                self.identities[rank] = Identity(**json.loads(self._store.get(f"identity/{rank}")))
                self._store.get(f"sign/{rank}")
        self._thread.start()

    def stop(self, why: str = _LEFT) -> None:
        """Tell the others that this process takes part no more: it has come to its end, or ``why`` it failed."""
        if not self._over.is_set():
            self._over.set()
            with suppress(RuntimeError):
                self._say(why)

    def fail(self, why: str) -> None:
        """Tell the others that this process fails, and why."""
        self.stop(f"{_FAILED} {why}")

    @contextmanager
    def meeting(self) -> Iterator[None]:
        """Within the block this process waits for the others.

        Raises:
            TeamError: instead of what a broken connection raises: who is missing.
        """
        self.met += 1
        self._waiting_since = time.monotonic()
        try:
            yield
        except RuntimeError as error:  # what PyTorch raises where a connection breaks
            raise self._explained(error) from error
        finally:
            self._waiting_since = 0.0

    def told(self, rank: int) -> str:
        """Name a process for people."""
        return f"rank {rank} ({self.identities[rank]})" if rank in self.identities else f"rank {rank}"

    def _run(self) -> None:
        while not self._over.wait(self._pause):
            try:
                self._listen()
            except RuntimeError:  # the store cannot be reached
                if not self._over.is_set() and self._waiting_since:
                    self._give_up(
                        f"{self.told(0)}, or the machine that its store is on, cannot be reached", culprit=None
                    )
                continue
            verdict = self._verdict()
            if verdict and not self._over.is_set():
                self._give_up(*verdict)

    def _listen(self) -> None:
        self._say("alive")
        with self._lock:
            signs = self._store.multi_get([f"sign/{rank}" for rank in range(self.size)])
        now = time.monotonic()
        for rank, sign in enumerate(signs):
            words = sign.decode().split(" ", 3)
            if words != self._last.get(rank):
                self._last[rank], self._heard[rank] = words, now

    def _verdict(self) -> tuple[str, int] | None:
        """Return what is wrong, and with whom, if anything is."""
        now = time.monotonic()
        for rank, words in self._last.items():
            silent = now - self._heard[rank]
            if rank != self.rank and words[2] == "alive" and silent > self.silence:
                return f"{self.told(rank)} has shown no sign of life for {silent:.0f} seconds", rank
        waiting = now - self._waiting_since if self._waiting_since else 0.0
        if waiting > self.timeout:
            behind = [rank for rank, words in self._last.items() if int(words[1]) < self.met]
            for rank in behind:
                return (
                    f"{self.told(rank)} is alive, but has kept the others waiting for {waiting:.0f} seconds (if it is "
                    "at work that takes longer, set a larger trainer.process_timeout)",
                    rank,
                )
        return None

    def _give_up(self, why: str, culprit: int | None) -> None:
        message = f"warpdrive: {why}: rank {self.rank} ends"
        print(message, file=sys.stderr, flush=True)
        if culprit is not None:
            other, own = self.identities[culprit], self.identities[self.rank]
            if other.kernel == own.kernel and own.kernel:  # it would keep its memory, and its GPU
                with suppress(OSError):
                    os.kill(other.pid, signal.SIGKILL)
                    time.sleep(_TO_BE_SEEN)
        os._exit(1)

    def _explained(self, error: RuntimeError) -> TeamError:
        """Return who is missing: it may take some seconds to be sure."""
        until = time.monotonic() + 2 * _GONE
        while time.monotonic() < until:
            time.sleep(self._pause)
            for rank, words in self._last.items():
                if rank == self.rank:
                    continue
                if words[2] == _LEFT:
                    return TeamError(f"{self.told(rank)} has come to its end while the others go on")
                if words[2] == _FAILED:
                    return TeamError(f"{self.told(rank)} failed: {words[3] if words[3:] else 'nobody knows why'}")
                if time.monotonic() - self._heard[rank] > _GONE:
                    return TeamError(f"{self.told(rank)} is gone: it was killed, or cannot be reached")
        reason = str(error).strip().splitlines()[0]
        return TeamError(f"rank {self.rank} lost the connection to another process: {reason}")

    def _say(self, state: str) -> None:
        self._beats += 1
        self._set(f"sign/{self.rank}", f"{self._beats} {self.met} {state}")

    def _set(self, key: str, value: str) -> None:
        with self._lock:
            self._store.set(key, value)
