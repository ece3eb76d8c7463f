"""Two machines equal one process, and each names the missing rank when the connection is lost."""

from __future__ import annotations

from pathlib import Path

import machines
import pytest
from logged_metrics import metrics_of
from two_machines import ENDLESS, Job, differences, report

from warpdrive.training.config.load import load_config
from warpdrive.training.trainer import Trainer, make_env


def test_two_machines_equal_one_process_until_the_cable_is_pulled(tmp_path: Path) -> None:
    """The others of what ``two_machines.py`` can play take longer."""
    reason = machines.why_not()
    if reason:
        pytest.skip(f"two machines cannot be made here: {reason}")
    with machines.two_machines() as both:
        job = Job(both, tmp_path / "two", overrides=[ENDLESS])
        job.until_saved()
        both[1].set_link(False)
        report(job, job.wait(60), {0: "rank 1 .*no heartbeat", 1: "rank 0 .*(cannot be reached|no heartbeat)"})
    two = metrics_of(job.folder / "runs")[:5]
    overrides = [f"trainer.total_steps={200 * len(two)}", f"saving.folder={tmp_path}/runs"]
    config = load_config(job.folder / "run.yaml", overrides)
    Trainer(make_env(config), config).train()
    assert differences(metrics_of(tmp_path / "runs"), two) == []
