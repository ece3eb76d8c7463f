"""What each process of ``test_distributed.py`` runs: trains, with checks of the team's messages before.

    python tests/training/in_processes.py runs.json folder [name ...]

``runs.json`` has a run configuration by name; each leaves its run folder in ``folder/<name>``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

from warpdrive.errors import TeamError
from warpdrive.training.config import load_config
from warpdrive.training.distributed.agreement import check_weights
from warpdrive.training.distributed.meeting import join
from warpdrive.training.distributed.team import Team
from warpdrive.training.trainer import Trainer, make_env


def check_messages(team: Team) -> None:
    """Every process brings other numbers of rows, and of one column none but the last brings any."""
    rank, size = team.rank, team.size

    def brought(rank: int) -> dict[str, torch.Tensor]:
        return {
            "few": torch.full((3 if rank == size - 1 else 0, 2), rank, dtype=torch.int16),
            "flags": torch.tensor([True, False] * (rank + 1)),
            "half": torch.arange(rank + 2, dtype=torch.float16).view(-1, 1, 1) + 10 * rank,
        }

    expected = {name: torch.cat([brought(other)[name] for other in range(size)]) for name in brought(0)}
    for found in (team.gather(brought(rank)), team.gather_everywhere(brought(rank)), team.gather(brought(rank))):
        if found is None:
            assert rank
            continue
        assert found.keys() == expected.keys()
        assert all(found[name].dtype == expected[name].dtype for name in expected)
        assert all(torch.equal(found[name], expected[name]) for name in expected)
    with pytest.raises(
        TeamError, match=r"rank 0 and rank 1 bring .* 'x' is float32 \[rows, 1\] and float32 \[rows, 2\]"
    ):
        team.gather({"x": torch.zeros(1, min(rank, 1) + 1)})

    whole = size * (size + 1) / 2
    assert team.sum(torch.tensor([1.0, rank + 1.0])).tolist() == [size, whole]
    gradient, terms = team.sum_gradient(torch.tensor([rank + 1.0, -1.0]), {"a": torch.tensor(rank + 1.0)})
    assert gradient.tolist() == [whole, -size] and terms["a"].shape == () and terms["a"].item() == whole
    assert team.sum_gradient(torch.ones(2), {})[0].tolist() == [size, size]

    model = torch.nn.BatchNorm1d(3).double()
    with torch.no_grad():
        for tensor in model.state_dict().values():
            tensor += rank
    if rank:
        model.running_mean += 1
    with pytest.raises(TeamError, match=r"policy 'a': weight: rank 0 has .*, but rank 1"):
        check_weights(team, {"a": model})
    team.broadcast(list(model.state_dict().values()))
    check_weights(team, {"a": model})
    assert model.num_batches_tracked == 0 and model.running_mean.tolist() == [0.0, 0.0, 0.0]


def main() -> None:
    """Check the messages, if there are several processes, and train."""
    torch.set_num_threads(1)
    runs, folder, *names = sys.argv[1:]
    team = join(60)
    if team.size > 1:
        check_messages(team)
    for name, values in json.loads(Path(runs).read_text()).items():
        if not names or name in names:
            config = load_config(values, [f"saving.folder={folder}/{name}"])
            Trainer(make_env(config), config).train()


if __name__ == "__main__":
    main()
