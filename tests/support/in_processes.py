"""Program of each process of ``test_distributed.py``: training, with checks of the collectives.

    python tests/support/in_processes.py runs.json folder [name ...]

``runs.json`` has a run configuration by name; each leaves its run folder in ``folder/<name>``, or goes on there.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from warpdrive.errors import ConfigError, TeamError
from warpdrive.training.config.load import load_config
from warpdrive.training.distributed.bootstrap import join
from warpdrive.training.distributed.consistency import check_weights
from warpdrive.training.distributed.process_group import ProcessGroup
from warpdrive.training.distributed.shared_sums import MAX_BYTES
from warpdrive.training.reports import UpdateReport
from warpdrive.training.run.callbacks import Callback
from warpdrive.training.trainer import Trainer, make_env


def check_messages(process_group: ProcessGroup) -> None:
    """Every process brings other numbers of rows, and of one column none but the last brings any."""
    rank, size = process_group.rank, process_group.world_size

    def brought(rank: int) -> dict[str, torch.Tensor]:
        return {
            "few": torch.full((3 if rank == size - 1 else 0, 2), rank, dtype=torch.int16),
            "flags": torch.tensor([True, False] * (rank + 1)),
            "half": torch.arange(rank + 2, dtype=torch.float16).view(-1, 1, 1) + 10 * rank,
        }

    expected = {name: torch.cat([brought(other)[name] for other in range(size)]) for name in brought(0)}
    for found in (
        process_group.gather(brought(rank)),
        process_group.all_gather(brought(rank)),
        process_group.gather(brought(rank)),
    ):
        if found is None:
            assert rank
            continue
        assert found.keys() == expected.keys()
        assert all(found[name].dtype == expected[name].dtype for name in expected)
        assert all(torch.equal(found[name], expected[name]) for name in expected)
    with pytest.raises(
        TeamError, match=r"rank 0 and rank 1 are incompatible: 'x' is float32 \[rows, 1\] and float32 \[rows, 2\]"
    ):
        process_group.gather({"x": torch.zeros(1, min(rank, 1) + 1)})

    whole = size * (size + 1) / 2
    assert process_group.all_reduce(torch.tensor([1.0, rank + 1.0])).tolist() == [size, whole]
    large = torch.arange(MAX_BYTES // 4 + 1, dtype=torch.float32)  # too large for shared memory
    assert torch.equal(process_group.all_reduce(large + rank), size * large + whole - size)
    gradient, terms = process_group.all_reduce_gradient(
        torch.tensor([rank + 1.0, -1.0]), {"a": torch.tensor(rank + 1.0)}
    )
    assert gradient.tolist() == [whole, -size] and terms["a"].shape == () and terms["a"].item() == whole
    assert process_group.all_reduce_gradient(torch.ones(2), {})[0].tolist() == [size, size]

    model = torch.nn.BatchNorm1d(3).double()
    with torch.no_grad():
        for tensor in model.state_dict().values():
            tensor += rank
    if rank:
        model.running_mean += 1
    with pytest.raises(TeamError, match=r"policy 'a': weight: rank 0 has .*, but ranks? 1"):
        check_weights(process_group, {"a": model})
    process_group.broadcast(list(model.state_dict().values()))
    check_weights(process_group, {"a": model})
    assert model.num_batches_tracked == 0 and model.running_mean.tolist() == [0.0, 0.0, 0.0]


class Looks(Callback):
    """Does on process 0, while a run trains, what a process alone may do."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def on_rollout(self, trainer: Trainer) -> None:
        saved = self.folder / f"saved_{trainer.env_steps}"
        trainer.save(saved)
        trainer.evaluate(2)
        trainer.fetch_episode()
        with pytest.raises(TeamError, match="only process 0 reached this point, perhaps in a callback"):
            Trainer.load(saved)


class Fails(Callback):
    """Fails."""

    def on_update(self, trainer: Trainer, report: UpdateReport) -> None:
        raise ZeroDivisionError


def check_script(process_group: ProcessGroup, trainer: Trainer, folder: Path) -> None:
    """Do as a script does in all processes after a run: evaluate, save, load, resume."""
    found = trainer.evaluate(8)
    trainer.save(folder / "saved")
    loaded = Trainer.load(folder / "saved")
    assert (
        process_group.all_gather_values([loaded.evaluate(8), loaded.updates])
        == [[found, trainer.updates]] * process_group.world_size
    )
    loaded.collect()
    loaded.update()
    config = load_config(loaded.config.model_dump(), [f"saving.folder={folder}/script"])
    failure = r"rank 0 \(.*\) failed: ZeroDivisionError" if process_group.rank else "^$"
    with pytest.raises(TeamError if process_group.rank else ZeroDivisionError, match=failure):
        Trainer(loaded.env, config).train(callbacks=[Fails()])


def check_differences(rank: int, values: dict[str, Any], folder: Path) -> None:
    """Check that a difference in the last process is reported by all, before training begins."""

    def trainer(**settings: Any) -> Trainer:
        config = load_config({**values, **settings})
        return Trainer(make_env(config), config)

    other = rank == join().size - 1
    with pytest.raises(TeamError, match=r"trainer\.seed: rank 0 has 0, but rank \d has 7; all processes of a run must"):
        trainer(trainer=values["trainer"] | {"seed": 7 * other})
    with pytest.raises(ConfigError, match=r"replicas of rank \d begin with .*trainer\.num_envs differs between"):
        trainer(trainer=values["trainer"] | {"num_envs": 20 + 20 * other, "train_batch_size": 400})
    source, name = values["env"]["name"].rsplit(":", 1)
    copy = folder / f"of_rank_{rank}" / Path(source).name
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_text(Path(source).read_text() + "# changed\n" * other)
    with pytest.raises(TeamError, match=rf"the code of {name}: rank 0 has \w+\.\.\., but rank \d has \w+\.\.\.;"):
        trainer(env={"name": f"{copy}:{name}"})
    with pytest.MonkeyPatch.context() as patch:
        if other:
            patch.setattr(torch, "__version__", "0.1")
        with pytest.raises(TeamError, match=r"the version of torch: rank 0 has \d.*, but rank \d has 0\.1;"):
            trainer()


def main() -> None:
    """Check the messages, if there are several processes, and what differs, if there are more than two; train."""
    torch.set_num_threads(1)
    runs, folder, *names = sys.argv[1:]
    runs_by_name = json.loads(Path(runs).read_text())
    process_group = join(60)
    if process_group.world_size > 1:
        check_messages(process_group)
    if process_group.world_size > 2:  # some of which agree
        ungrouped = next(values for name, values in runs_by_name.items() if not name.endswith("-groups"))
        check_differences(process_group.rank, ungrouped, Path(folder))
    for name, values in runs_by_name.items():
        if names and name not in names:
            continue
        there = next((path.parent for path in Path(folder, name).glob("*/*/config.yaml")), None)
        if there:
            Trainer.resume(there, [f"trainer.total_steps={values['trainer']['total_steps']}"]).train()
            continue
        config = load_config(values, [f"saving.folder={folder}/{name}"])
        trainer = Trainer(make_env(config), config)
        trainer.train(callbacks=[Looks(Path(folder))] if name == "gradients-opponents" else [])
    if not there:
        check_script(process_group, trainer, Path(folder))


if __name__ == "__main__":
    main()
