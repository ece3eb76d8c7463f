"""The number of PyTorch's threads during a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from warpdrive.training.runtime.torch_threads import torch_threads
from warpdrive.training.trainer import Trainer

Sections = Callable[..., dict[str, Any]]
TrainerOf = Callable[..., Trainer]


def test_torch_threads_are_set_for_the_run_only(sections: Sections, trainer_of: TrainerOf) -> None:
    found: list[int] = []
    trainer = trainer_of(sections(), "trainer.torch_threads=2")
    trainer.train(on_update=lambda report: found.append(torch.get_num_threads()))
    assert found == [2, 2, 2] and torch.get_num_threads() == 1


@pytest.mark.parametrize(
    ("cores", "variable", "threads"), [(1, None, 1), (2, None, 1), (4, None, 1), (5, None, 3), (2, "3", 3)]
)
def test_one_torch_thread_on_few_cores(
    cores: int, variable: str | None, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warpdrive.training.runtime.torch_threads.usable_cores", lambda: cores)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if variable:
        monkeypatch.setenv("OMP_NUM_THREADS", variable)
    torch.set_num_threads(3)
    try:
        with torch_threads(None):
            assert torch.get_num_threads() == threads
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(1)
