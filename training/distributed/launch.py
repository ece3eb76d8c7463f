"""Start the processes of a run on this machine, through torch's elastic launcher."""

from __future__ import annotations

import signal
import sys
import uuid
from collections.abc import Sequence
from datetime import datetime

from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from warpdrive.backends.machine import this_machine
from warpdrive.errors import TeamError

_SECONDS_TO_END = 10


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
    ``max_restarts`` times.

    Raises:
        TeamError: a process has failed: which, and how.
    """
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=processes,
        run_id=uuid.uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=max_restarts,
        monitor_interval=0.2,
        signals_to_handle="SIGTERM,SIGHUP,SIGQUIT",  # Ctrl-C reaches the processes, which end as they should
        shutdown_timeout=_SECONDS_TO_END,
    )
    former = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        elastic_launch(config, sys.executable)(*arguments)
    except ChildFailedError as error:
        raise TeamError(_in_words(error, max_restarts)) from error
    finally:
        signal.signal(signal.SIGINT, former)


def _in_words(error: ChildFailedError, max_restarts: int) -> str:
    # a process that the launcher ended itself, because another had failed, is not to blame
    failures = sorted(error.failures.items(), key=lambda item: (item[1].exitcode == -signal.SIGTERM, item[1].timestamp))
    rank, failure = failures[0]
    if failure.exitcode < 0:
        how = f"was ended by {signal.Signals(-failure.exitcode).name}"
    else:
        how = f"ended with exit code {failure.exitcode}, see what it printed"
    when = datetime.fromtimestamp(failure.timestamp).strftime("%H:%M:%S")
    again = f", after {max_restarts} restart{'s' * (max_restarts > 1)}" if max_restarts else ""
    return f"rank {rank} (process {failure.pid}) {how} at {when}{again}; all have ended"
