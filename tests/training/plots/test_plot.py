"""``warpdrive plot``: grouping of runs, curves, and the file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from PIL import Image

from warpdrive.errors import CheckpointError, ConfigError
from warpdrive.training.cli.main import main
from warpdrive.training.plots.figure import draw
from warpdrive.training.plots.learning_curves import chosen_metrics, grouped, read_runs, usual_metrics

Run = Callable[..., Path]
RETURN = "charts/episodic_return"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Makes the folder of a run that logged what is given: by name ``{environment steps: value}``."""

    def make(
        folder: str,
        metrics: Mapping[str, Mapping[int, float]],
        tags: Sequence[str] = ("tagger", "runner"),
        name: str = "tag",
        seed: int = 0,
        lr: float = 0.001,
    ) -> Path:
        path = tmp_path / folder
        path.mkdir(parents=True)
        policies = {tag: {"algorithm": "ppo", "lr": lr} for tag in tags}
        config = {"name": name, "env": {"name": name}, "trainer": {"seed": seed}, "policy": policies}
        (path / "config.yaml").write_text(yaml.safe_dump(config))
        steps = sorted({step for values in metrics.values() for step in values})
        rows = [",".join([str(step), *(str(values.get(step, "")) for values in metrics.values())]) for step in steps]
        (path / "metrics.csv").write_text("\n".join([",".join(["env_steps", *metrics]), *rows]) + "\n")
        return path

    return make


def test_runs_that_differ_in_the_seed_only_are_one_line(run: Run) -> None:
    """Their mean and range as far as both go, by hand: at 200 one of them lies between its neighbours."""
    first = run("a", {f"{RETURN}/tagger": {100: 1.0, 200: 2.0, 300: 3.0, 400: 9.0}}, seed=0)
    second = run("b", {f"{RETURN}/tagger": {100: 3.0, 300: 7.0}}, seed=1)
    (group,) = grouped(read_runs([first, second, first]))
    assert group.label == "tag (2 seeds)"
    curve = group.curve(f"{RETURN}/tagger")
    assert curve is not None
    assert curve.env_steps.tolist() == [100, 200, 300]
    assert curve.mean.tolist() == [2.0, 3.5, 5.0]
    assert curve.low.tolist() == [1.0, 2.0, 3.0] and curve.high.tolist() == [3.0, 5.0, 7.0]
    assert group.curve(f"{RETURN}/runner") is None


def test_others_are_named_after_what_differs(run: Run) -> None:
    metrics = {f"{RETURN}/tagger": {100: 1.0}}
    runs = read_runs([run("a", metrics), run("b", metrics, lr=0.01), run("c", metrics, lr=0.01, seed=1)])
    assert [group.label for group in grouped(runs)] == ["lr 0.001", "lr 0.01 (2 seeds)"]
    runs += read_runs([run("d", metrics, name="pole", tags=["tagger"])])
    assert [group.label for group in grouped(runs)] == ["tag: lr 0.001", "tag: lr 0.01 (2 seeds)", "pole"]


def test_smoothing_takes_the_mean_of_what_is_around(run: Run) -> None:
    (group,) = grouped(read_runs([run("a", {"losses/entropy/tagger": {1: 3.0, 2: 6.0, 3: 0.0, 4: 3.0}})]))
    curve = group.curve("losses/entropy/tagger", smooth=3)
    assert curve is not None
    np.testing.assert_allclose(curve.mean, [4.5, 3.0, 3.0, 1.5])


def test_metrics_are_named_whole_without_their_tag_or_by_patterns(run: Run) -> None:
    names = ["losses/entropy/tagger", "losses/entropy/runner", "perf/update_seconds", "perf/rollout_seconds"]
    runs = read_runs([run("a", {name: {1: 0.0} for name in names})])
    assert chosen_metrics(runs, ["losses/entropy"]) == names[:2]
    assert chosen_metrics(runs, ["losses/entropy/runner", "losses/entropy"]) == [names[1], names[0]]
    assert chosen_metrics(runs, ["perf/*_seconds"]) == names[2:]
    told = r"--metric losses/entropi: not logged.*Did you mean 'losses/entropy'\? Metrics: losses/entropy, perf/"
    with pytest.raises(ConfigError, match=told):
        chosen_metrics(runs, ["losses/entropi"])


def drawn(paths: Sequence[Path], **options: Any) -> dict[str, dict[str, list[float]]]:
    """By panel and label: the values of each line."""
    runs = read_runs(paths)
    figure = draw(runs, options.pop("metrics", usual_metrics(runs)), **options)
    labels = {}
    for legend in figure.legends:
        for text, handle in zip(legend.get_texts(), legend.get_lines(), strict=True):
            labels[handle.get_color(), handle.get_linestyle()] = text.get_text()
    return {
        axes.get_title(loc="left"): {
            labels.get((line.get_color(), line.get_linestyle()), ""): list(map(float, line.get_ydata()))  # type: ignore[arg-type]
            for line in axes.get_lines()
        }
        for axes in figure.axes
        if axes.get_visible()
    }


def test_of_one_configuration_the_tags_share_a_panel(run: Run) -> None:
    path = run(
        "a",
        {
            f"{RETURN}/tagger": {100: 1.0, 200: 2.0},
            f"{RETURN}/runner": {100: -1.0, 200: -2.0},
            "eval/episodic_return/tagger": {200: 5.0},
            "perf/memory_gib": {100: 0.5, 200: 0.5},
        },
    )
    assert drawn([path]) == {
        RETURN: {"tagger": [1.0, 2.0], "runner": [-1.0, -2.0]},
        "eval/episodic_return": {"tagger": [5.0]},
    }
    with_memory = [f"{RETURN}/tagger", f"{RETURN}/runner", "perf/memory_gib"]
    assert drawn([path], metrics=with_memory)["perf/memory_gib"] == {"": [0.5, 0.5]}


def test_of_several_configurations_each_tag_has_a_panel(run: Run) -> None:
    paths = [run(str(lr), {f"{RETURN}/tagger": {100: lr}, f"{RETURN}/runner": {100: -lr}}, lr=lr) for lr in (0.1, 0.2)]
    assert drawn(paths) == {
        f"{RETURN}/tagger": {"lr 0.1": [0.1], "lr 0.2": [0.2]},
        f"{RETURN}/runner": {"lr 0.1": [-0.1], "lr 0.2": [-0.2]},
    }


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_the_command(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], suffix: str) -> None:
    paths = [run(str(seed), {f"{RETURN}/tagger": {100: 1.0, 200: 2.0 + seed}}, seed=seed) for seed in range(3)]
    output = tmp_path / f"curves{suffix}"
    assert main(["plot", *map(str, paths), "-o", str(output), "--smooth", "2"]) == 0
    told = capsys.readouterr().out
    assert "tag (3 seeds):" in told and str(output) in told and all(str(path) in told for path in paths)
    beginnings = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}
    assert output.read_bytes().startswith(beginnings[suffix])


def test_of_one_run_the_picture_goes_into_its_folder(run: Run) -> None:
    path = run("a", {f"{RETURN}/tagger": {100: 1.0, 200: 2.0}})
    assert main(["plot", str(path)]) == 0
    with Image.open(path / "learning_curves.png") as picture:
        assert picture.width > 500


def test_names_are_no_formulas(run: Run, tmp_path: Path) -> None:
    tags = ["$\\frac{$", "x"]
    path = run("a", {f"{RETURN}/{tag}": {100: 1.0, 200: 2.0} for tag in tags}, tags, name="$y$\udc80")
    assert main(["plot", str(path), "-o", str(tmp_path / "a.svg")]) == 0
    text = (tmp_path / "a.svg").read_text()
    assert all(f"<!-- {name} -->" in text for name in (*tags, r"$y$\udc80"))


def test_mistakes_are_told(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = run("a", {f"{RETURN}/tagger": {100: 1.0}})
    for arguments, told in (
        (["-o", "curves.jpg"], "curves.jpg: expected a name that ends in .png, .svg, .pdf"),
        (["-o", "nowhere/curves.png"], "the folder nowhere does not exist"),
        (["-m", "losses/x"], "--metric losses/x: not logged by these runs"),
    ):
        assert main(["plot", str(path), *arguments]) == 2
        assert told in capsys.readouterr().err
    with pytest.raises(CheckpointError, match="neither a run folder"):
        read_runs([tmp_path / "b"])
    empty = run("c", {})
    with pytest.raises(CheckpointError, match="has not logged anything yet"):
        read_runs([empty])
