"""Failure detection: notices when a process of the group dies, stops or is unreachable."""

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

from warpdrive.errors import TeamError
from warpdrive.terminal import plain
from warpdrive.training.distributed.folder_store import Store

_SILENCE = 60.0  # seconds; heartbeats are sent every one or two
_MISSING_AFTER = 3.0  # seconds without a heartbeat, once a process is known to be missing
_LAST_MESSAGE_TIMEOUT = 2.0  # timeout of the last message in seconds
_EXIT_DELAY = 2.0  # seconds for the launcher to notice the first failure, before this process ends, too
_ALIVE, _ASKS, _LEFT, _FAILED = "alive", "asks", "left", "failed"
_HERE = (_ALIVE, _ASKS)
INTERRUPTED = "interrupted"
"""Exit status of a process that was interrupted."""


@dataclass(frozen=True)
class Identity:
    """Identity of the process of a rank.

    Attributes:
        host: Host name.
        pid: Process id.
        kernel: Boot id and process id namespace, within which process ids are meaningful; "" if unknown.
    """

    host: str
    pid: int
    kernel: str

    @classmethod
    def own(cls) -> Identity:
        """Return the identity of this process."""
        boot, numbers = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")
        with suppress(OSError):
            return cls(socket.gethostname(), os.getpid(), f"{boot.read_text().strip()} {numbers.readlink()}")
        return cls(socket.gethostname(), os.getpid(), "")

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


Arrival = Callable[[], bool]
"""Function that returns True once a message has arrived."""


class Heartbeat:
    """Heartbeat of this process, which ends it when another process of the group is no longer alive.

    A thread sends heartbeats through the rendezvous store, and reads those of the other processes. It may block forever
    if the store is unreachable, so a second thread monitors it. A process that is stopped, killed or unreachable is
    detected by missing heartbeats; a process that does not enter a collective for which others wait, by its number of
    collectives.

    Args:
        connect: Opens a connection to the store, used by one thread only.
        place: Description of the store for messages.
        prefix: Prefix of keys in the store.
        rank: Rank of this process.
        size: Number of processes.
        timeout: Seconds that other processes may wait for a process that is alive.

    Attributes:
        num_collectives: Number of collectives that this process has entered.
        on_abort: Called with the reason just before this process is ended.
    """

    def __init__(
        self, connect: Callable[[float], Store], place: str, prefix: str, rank: int, size: int, timeout: float
    ) -> None:
        self.place, self.rank, self.size, self.timeout = place, rank, size, timeout
        self._store, self._prefix = connect(timeout), prefix
        self._lock = threading.Lock()  # a connection is for one thread at a time
        self.num_collectives, self._beats = 0, 0
        self._awaited: tuple[float, Arrival] | None = None
        self._last: dict[int, list[str]] = {}
        self._last_heartbeat: dict[int, float] = {}
        self._answered = 0.0
        self._clock = 1.0  # seconds awake: while a machine is suspended it receives no heartbeats
        self._broken = False
        self._state = _ALIVE
        self.on_abort: Callable[[str], object] = lambda why: None
        self.identities: dict[int, Identity] = {}
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=loop, name=f"warpdrive-{loop.__name__.strip('_')}", daemon=True)
            for loop in (self._exchange_heartbeats, self._check_others)
        ]

    @property
    def silence_limit(self) -> float:
        """Seconds without a heartbeat after which a process is considered missing, less than the timeout."""
        return min(_SILENCE, 0.8 * self.timeout)

    @property
    def _pause(self) -> float:
        return min(1.0, self.silence_limit / 5)

    def start(self) -> None:
        """Start the threads; the rendezvous must be complete."""
        self._publish_state(self._state)
        self._set(f"identity/{self.rank}", json.dumps(asdict(Identity.own())))
        for rank in range(self.size):
            with self._lock:
                self.identities[rank] = Identity(**json.loads(self._store.get(f"{self._prefix}/identity/{rank}")))
                self._store.get(f"{self._prefix}/sign/{rank}")
        self._answered = self._clock
        self._last_heartbeat = dict.fromkeys(range(self.size), self._answered)
        for thread in self._threads:
            thread.start()

    def stop(self, why: str = _LEFT) -> None:
        """Report that this process leaves the group: it has finished, or failed for the reason ``why``."""
        if not self._over.is_set():
            self._over.set()
            with suppress(RuntimeError):
                self._publish_state(why)

    def end(self) -> None:
        """Stop, and wait for the threads: Python aborts at exit if one returns from PyTorch at that moment.

        On a busy machine the store may respond late; if it is gone it never does.
        """
        self.stop()
        is_gone = self._broken or self._clock - self._answered > 2 * self._pause + _LAST_MESSAGE_TIMEOUT
        for thread in self._threads:
            thread.join(_LAST_MESSAGE_TIMEOUT if is_gone else _SILENCE)

    def fail(self, why: str) -> None:
        """Report that this process fails, and why."""
        self.stop(f"{_FAILED} {why}")

    def request_stop(self) -> None:
        """Report to rank 0 that this process is to end."""
        self._state = _ASKS

    @property
    def stop_requested(self) -> bool:
        """True if another process was asked to end."""
        return any(words[2] == _ASKS for words in list(self._last.values()))

    @contextmanager
    def in_collective(self, arrival: Callable[[], Arrival] | None = None) -> Iterator[None]:
        """Wait for the other processes within the block.

        Args:
            arrival: Called at the end of the block, if that does not wait for the message: returns a function that is
                True once it has arrived.

        Raises:
            TeamError: In place of the error of a broken connection: reports which process is missing.
            KeyboardInterrupt: If another process was interrupted.
        """
        self.num_collectives += 1
        since = self._clock
        self._awaited = since, _not_yet
        try:
            yield
            self._awaited = (since, arrival()) if arrival else None
        except RuntimeError as error:  # broken connection
            self._awaited = None
            raise self._error_of_peer(error) from error
        finally:
            if self._awaited and self._awaited[1] is _not_yet:
                self._awaited = None

    def name_of(self, rank: int) -> str:
        """Return a process's name for messages."""
        return f"rank {rank} ({self.identities[rank]})" if rank in self.identities else f"rank {rank}"

    def _exchange_heartbeats(self) -> None:
        while not self._over.wait(self._pause):
            try:
                self._publish_state(self._state)
                with self._lock:
                    signs = self._store.multi_get([f"{self._prefix}/sign/{rank}" for rank in range(self.size)])
            except RuntimeError:
                self._broken = True
                return
            self._answered = now = self._clock
            for rank, sign in enumerate(signs):
                words = sign.decode().split(" ", 3)
                if words != self._last.get(rank):
                    self._last[rank], self._last_heartbeat[rank] = words, now

    def _check_others(self) -> None:
        looked = time.monotonic()
        while not self._over.wait(self._pause):
            before, looked = looked, time.monotonic()
            self._clock += min(looked - before, 2 * self._pause)
            verdict = self._find_failure()
            if verdict and not self._over.is_set():
                self._abort(*verdict)

    def _find_failure(self) -> tuple[str, list[int]] | None:
        """Return the problem and the ranks concerned, or None."""
        now = self._clock
        waiting = self._seconds_waiting(now)
        unanswered = now - self._answered
        if waiting and unanswered > (_MISSING_AFTER if self._broken else self.silence_limit):
            return f"{self._lost_message()} for {unanswered:.0f} seconds", []
        if self._broken or unanswered > 2 * self._pause + _LAST_MESSAGE_TIMEOUT:
            return None  # the state of the others is unknown
        others = [(rank, words) for rank, words in list(self._last.items()) if rank != self.rank]
        silent = [
            rank
            for rank, words in others
            if words[2] in _HERE and now - self._last_heartbeat[rank] > self.silence_limit
        ]
        if silent:
            have = "has" if len(silent) == 1 else "have"
            return f"{self._names(silent)} {have} sent no heartbeat for {self.silence_limit:.0f} seconds", silent
        if waiting > min(2 * _MISSING_AFTER, self.timeout):
            for rank, words in others:
                if words[2] not in _HERE:
                    return self._ended_message(rank, words), []
        if waiting > self.timeout:
            behind = [rank for rank, words in others if int(words[1]) < self.num_collectives]
            if not behind:
                return f"all processes are alive, but no message has arrived for {waiting:.0f} seconds", []
            are, have = ("is", "has") if len(behind) == 1 else ("are", "have")
            return (
                f"{self._names(behind)} {are} alive, but {have} kept the others waiting for {waiting:.0f} seconds (if "
                "this is work that takes longer, set a larger trainer.process_timeout)",
                behind,
            )
        return None

    def _seconds_waiting(self, now: float) -> float:
        """Return the seconds that this process has been waiting for a message."""
        awaited = self._awaited
        return 0.0 if awaited is None or awaited[1]() else now - awaited[0]

    def _abort(self, why: str, culprits: list[int]) -> None:
        print(plain(f"warpdrive: {why}: rank {self.rank} exits"), file=sys.stderr, flush=True)
        with suppress(OSError):
            self.on_abort(why)
        if not self._broken:
            self.fail(why)
        own = self.identities[self.rank]
        for other in map(self.identities.__getitem__, culprits):
            if other.kernel == own.kernel and own.kernel:  # it would keep its memory, and its GPU
                if type(other.pid) is not int or other.pid <= 0:  # of the store: kill takes these for process groups
                    continue
                with suppress(OSError, OverflowError):
                    os.kill(other.pid, signal.SIGKILL)
        time.sleep(_EXIT_DELAY)
        os._exit(1)

    def _error_of_peer(self, error: RuntimeError) -> TeamError | KeyboardInterrupt:
        """Return an error that names the missing process, which may take some seconds to determine."""
        until = time.monotonic() + 2 * _MISSING_AFTER
        while time.monotonic() < until:
            time.sleep(self._pause)
            if self._broken:
                break
            for rank, words in list(self._last.items()):
                if rank == self.rank:
                    continue
                if words[2] == INTERRUPTED:
                    return KeyboardInterrupt()
                if words[2] not in _HERE:
                    return TeamError(self._ended_message(rank, words))
                if self._clock - self._last_heartbeat[rank] > _MISSING_AFTER:
                    return TeamError(f"{self.name_of(rank)} is gone: it was killed, or cannot be reached")
        if self._broken or self._clock - self._answered > _MISSING_AFTER:
            return TeamError(self._lost_message())
        reason = str(error).strip().splitlines()[0]
        return TeamError(f"rank {self.rank} lost the connection to another process: {reason}")

    def _lost_message(self) -> str:
        who = self.name_of(0) if self.rank else "the launcher"
        return f"{who} is gone, or cannot be reached: no answer from {self.place}"

    def _ended_message(self, rank: int, words: list[str]) -> str:
        if words[2] == INTERRUPTED:
            return f"{self.name_of(rank)} was interrupted"
        if words[2] == _LEFT:
            return f"{self.name_of(rank)} has finished while the others are still running"
        return f"{self.name_of(rank)} failed: {words[3] if words[3:] else 'unknown reason'}"

    def _names(self, ranks: list[int]) -> str:
        return " and ".join(map(self.name_of, ranks))

    def _publish_state(self, state: str) -> None:
        self._beats += 1
        self._set(f"sign/{self.rank}", f"{self._beats} {self.num_collectives} {state}")

    def _set(self, key: str, value: str) -> None:
        if self._lock.acquire(timeout=_LAST_MESSAGE_TIMEOUT):  # its holder may be waiting for a machine that is gone
            try:
                self._store.set(f"{self._prefix}/{key}", value)
            finally:
                self._lock.release()


def _not_yet() -> bool:
    return False
