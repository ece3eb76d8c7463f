"""Processes of the distributed training of WarpDrive 2 scripts."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import time
from collections.abc import Callable
from typing import Any

from warpdrive.errors import TrainingError
from warpdrive.user_code import describe_error

_spawn = multiprocessing.get_context("spawn")
event_messenger = _spawn.Event()
_LARGEST = 16_000
"""Maximum bytes of a reported exception: a pipe that nobody reads yet holds 16 KiB on every system."""


class ProcessWrapper(_spawn.Process):  # type: ignore[name-defined]
    """Process that reports the exception that ended it.

    Args:
        *args: See ``multiprocessing.Process``.
        **kwargs: See ``multiprocessing.Process``.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._receiver, self._sender = _spawn.Pipe(duplex=False)
        self._exception: BaseException | None = None

    def run(self) -> None:
        """Run the target."""
        try:
            super().run()
            self._sender.send(None)
        except Exception as error:
            self._sender.send(_sendable(error))
            raise  # prints the traceback, and ends the process with an error

    @property
    def exception(self) -> BaseException | None:
        """Exception that ended the process, or None."""
        if self._receiver.poll():
            self._exception = self._receiver.recv()
        return self._exception


class DeviceContextProcessWrapper(ProcessWrapper):
    """Process of a process group, with the rank ``device_id`` of ``num_devices`` in its arguments."""

    def run(self) -> None:
        """Join the process group and run the target."""
        import torch.distributed

        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        os.environ.setdefault("MASTER_PORT", "8888")
        rank, size = self._kwargs.get("device_id", 0), self._kwargs.get("num_devices", 1)
        if torch.cuda.is_available():
            torch.cuda.set_device(rank)
        torch.distributed.init_process_group("gloo", rank=rank, world_size=size)
        try:
            super().run()
        finally:
            torch.distributed.destroy_process_group()


NumbaDeviceContextProcessWrapper = PyCUDADeviceContextProcessWrapper = DeviceContextProcessWrapper


def perform_distributed_training(
    setup_trainer_and_train: Callable[..., Any], config: dict[str, Any], results_dir: str | None = None
) -> None:
    """Train in a process per device.

    Args:
        setup_trainer_and_train: Function that trains, in each process, with the arguments ``run_configuration``,
            ``device_id``, ``num_devices``, ``event_messenger``, ``results_directory`` and ``verbose``.
        config: Run configuration, with the number of processes in ``trainer.num_gpus``.
        results_dir: Folder of the results; None: the time.

    Raises:
        TrainingError: If a process failed, after all have ended.
    """
    count = config["trainer"]["num_gpus"]
    results = results_dir or f"{time.time():.0f}"
    processes = [
        DeviceContextProcessWrapper(
            target=setup_trainer_and_train,
            kwargs={
                "run_configuration": config,
                "device_id": rank,
                "num_devices": count,
                "event_messenger": event_messenger,
                "results_directory": results,
                "verbose": rank == 0,
            },
        )
        for rank in range(count)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    for rank, process in enumerate(processes):
        if process.exception is not None or process.exitcode:
            cause = repr(process.exception) if process.exception else f"it ended with the exit code {process.exitcode}"
            raise TrainingError(f"process {rank} of {count} failed: {cause}") from process.exception


def _sendable(error: Exception) -> Exception:
    """Return an exception that can be sent: the same one, or a RuntimeError with its description."""
    try:
        pickled = pickle.dumps(error)
        pickle.loads(pickled)
    except Exception:  # of any kind: exceptions define how they are pickled
        pickled = b""
    if 0 < len(pickled) <= _LARGEST:
        return error
    return RuntimeError(describe_error(error))
