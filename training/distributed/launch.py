"""Start the processes of a run on this machine, through torch's elastic launcher."""

from __future__ import annotations

import logging
import os
import signal
import sys
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from types import FrameType

from torch.distributed.elastic.agent.server.api import WorkerGroup, WorkerSpec
from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
from torch.distributed.elastic.multiprocessing.errors import ProcessFailure
from torch.distributed.elastic.rendezvous import RendezvousParameters
from torch.distributed.elastic.rendezvous.registry import get_rendezvous_handler

from warpdrive.backends.machine import this_machine
from warpdrive.errors import TeamError

_INTERRUPTED = 130  # the exit code of a process that Ctrl-C ended
_STOPS = (signal.SIGINT, signal.SIGTERM)


def check_devices(gpus: int | None, processes: int | None, fraction: float | None, on_cpu: bool = False) -> int:
    """How many processes to start: one for each of ``gpus``, or ``processes`` wherever they run.

    Raises:
        TeamError: there are not so many GPUs, or several processes would share one.
    """
    there = len(this_machine().driver.gpus)
    if gpus is not None and on_cpu:
        raise TeamError("--num_gpus: found trainer.env_backend=cpu; --num_processes N starts N processes on the CPU")
    if gpus is not None and gpus > there and fraction is None:
        instead = " on the CPU, --num_processes N starts N processes" if not there else f" use --num_gpus {there}"
        raise TeamError(f"--num_gpus: found {gpus}, but this machine has {there} GPUs:{instead}")
    count = gpus or processes or 1
    if not on_cpu and processes is not None and 0 < there < processes and fraction is None:
        raise TeamError(
            f"--num_processes: found {processes}, but this machine has {there} GPUs, and more than one on a GPU is "
            "slower than one: each needs 300 to 700 MB for its context, and the GPU runs them in turn. Use --num_gpus "
            f"{there}, or trainer.env_backend=cpu, or force it with trainer.gpu_memory_fraction={there / processes:.2g}"
        )
    return count


def launch(arguments: Sequence[str], processes: int, max_restarts: int = 0) -> None:
    """Run ``python <arguments>`` in several processes and wait for them; ports are free ones.

    Each finds the others by the variables of ``torchrun``. Where one fails, all end; they are started anew at most
    ``max_restarts`` times. Ctrl-C and SIGTERM are passed on to them; a third one ends them.

    Raises:
        TeamError: a process has failed: which, and how.
        KeyboardInterrupt: they ended because they were asked to.
    """
    meeting = RendezvousParameters("c10d", "localhost:0", run_id=uuid.uuid4().hex, min_nodes=1, max_nodes=1)
    agent = _Agent(
        WorkerSpec(
            role="default",
            local_world_size=processes,
            rdzv_handler=get_rendezvous_handler(meeting),
            entrypoint=sys.executable,
            args=tuple(arguments),
            max_restarts=max_restarts,
            monitor_interval=0.2,
        ),
        DefaultLogsSpecs(),
    )
    former = {number: signal.getsignal(number) for number in _STOPS}
    try:
        result = agent.run()
    except SignalException as error:
        raise KeyboardInterrupt from error
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
    if result.is_failed():
        if agent.asked_to_stop or any(failure.exitcode == _INTERRUPTED for failure in result.failures.values()):
            raise KeyboardInterrupt
        raise TeamError(_in_words(result.failures, max_restarts))


class _Agent(LocalElasticAgent):
    """Torch's, but who is asked to stop are its processes, which save first: they are not in the terminal's group."""

    asked_to_stop = 0
    _started: Mapping[int, int] = {}

    def _start_workers(self, worker_group: WorkerGroup) -> dict[int, int]:
        started: dict[int, int] = super()._start_workers(worker_group)
        self._started = started
        for number in _STOPS:
            signal.signal(number, self._pass_on)
        return started

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        self.asked_to_stop += 1
        if self.asked_to_stop > 2:
            raise KeyboardInterrupt
        self._remaining_restarts = 0
        logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)  # that they end is no failure
        for process in self._started.values():
            with suppress(ProcessLookupError):
                if os.getpgid(process) != os.getpgid(0):
                    os.kill(process, number)


def _in_words(failed: Mapping[int, ProcessFailure], max_restarts: int) -> str:
    # a process that the launcher ended itself, because another had failed, is not to blame
    failures = sorted(failed.items(), key=lambda item: (item[1].exitcode == -signal.SIGTERM, item[1].timestamp))
    rank, failure = failures[0]
    if failure.exitcode < 0:
        how = f"was ended by {signal.Signals(-failure.exitcode).name}"
    else:
        how = f"ended with exit code {failure.exitcode}, see what it printed"
    when = datetime.fromtimestamp(failure.timestamp).strftime("%H:%M:%S")
    again = f", after {max_restarts} restart{'s' * (max_restarts > 1)}" if max_restarts else ""
    return f"rank {rank} (process {failure.pid}) {how} at {when}{again}; all have ended"
