"""Help for tests of resuming: interruption, changed manifests, and the comparison with uninterrupted training."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

import warpdrive as wd
from warpdrive.training.reports import UpdateReport
from warpdrive.training.trainer import Trainer


def interrupt_after(update: int) -> Callable[[UpdateReport], None]:
    """Return a callback that presses Ctrl-C after an update, and each that follows."""

    def on_update(report: UpdateReport) -> None:
        if report.update >= update:
            signal.raise_signal(signal.SIGINT)

    return on_update


@contextmanager
def changed_manifest(checkpoint: Path) -> Iterator[dict[str, Any]]:
    """Give the manifest of a checkpoint to change. It is written without a checksum, as by version 0.1.0."""
    path = checkpoint / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    yield manifest
    del manifest["sha256"]
    path.write_text(json.dumps(manifest), encoding="utf-8")


def check_goes_on(trainer: Trainer, folder: Path, updates: int) -> dict[str, torch.Tensor]:
    """Save after ``updates``, do as many again, and compare with a trainer resumed from there, bit for bit.

    Returns the losses of the last update, which are those of both.
    """
    for update in range(2 * updates):
        if update == updates:
            trainer.save(folder)
        losses = _updated(trainer)
    resumed = Trainer.load(folder)
    for _ in range(updates):
        again = _updated(resumed)
    torch.testing.assert_close(again, losses, rtol=0, atol=0)
    for tag, policy in trainer.policies.items():
        for state, expected in (
            (resumed.models[tag].state_dict(), trainer.models[tag].state_dict()),
            (resumed.policies[tag].state_dict(), policy.state_dict()),
        ):
            torch.testing.assert_close(_numbers_of(state), _numbers_of(expected), rtol=0, atol=0)
    return losses


def _updated(trainer: Trainer) -> dict[str, torch.Tensor]:
    with wd.no_host_transfers(trainer.env.device):
        trainer.collect()
        return trainer.update()


def _numbers_of(state: dict[Any, Any]) -> dict[str, Any]:
    """The tensors and numbers of a state by their path."""
    flat: dict[str, Any] = {}
    for name, value in state.items():
        if isinstance(value, dict):
            flat |= {f"{name}.{inner}": part for inner, part in _numbers_of(value).items()}
        elif isinstance(value, torch.Tensor | int | float):
            flat[str(name)] = value
    return flat
