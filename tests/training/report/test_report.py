"""``warpdrive report``: contents of the page, and that it shows runs of strangers as text."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
import re
import shutil
from contextlib import nullcontext
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml
from browser import Opened, browser, opened  # noqa: F401 (fixtures)
from PIL import Image

from warpdrive.file_lock import locked
from warpdrive.training.cli.main import main
from warpdrive.training.cli.printing import make_console
from warpdrive.training.cli.train import _write_report
from warpdrive.training.config.load import load_config
from warpdrive.training.config.schema_file import defaults
from warpdrive.training.config.yaml import flat

VOID = {"meta", "img", "br", "link", "input", "hr"}


class Page(HTMLParser):
    """Tags, attributes and text of a page.

    Asserts that tags are closed in order, ids are unique, and only the page's own script may run.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.feed(path.read_text(encoding="utf-8"))
        self.close()
        assert self.open == []
        ids = [value for name, value in self.attributes if name == "id"]
        assert len(ids) == len(set(ids))
        (script,) = re.findall("<script>(.*?)</script>", path.read_text(encoding="utf-8"), re.DOTALL)
        (policy,) = (value for name, value in self.attributes if value.startswith("default-src 'none'"))
        assert f"script-src 'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" in policy
        assert self.tags.count("script") == 1

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def plots(self) -> dict[str, dict[str, Any]]:
        """Return the values that the script shows, by the title of the chart."""
        titles = [value for name, value in self.attributes if name == "aria-label"]
        values = [json.loads(value) for name, value in self.attributes if name == "data-plot"]
        return dict(zip(titles, values, strict=True))

    def handle_data(self, data: str) -> None:
        self.text += f"{data}\n"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Returns the folder of a run with all files, as ``warpdrive train`` writes them."""
    path = tmp_path / "runs" / "tag" / "first"
    path.mkdir(parents=True)
    load_config("tag_gridworld", ["trainer.seed=3", "policy.tagger.lr=0.0125"]).save(path / "config.yaml")
    rows = [f"{step},{step / 100},{-step / 50},0.5,1000,0.25" for step in range(100, 1100, 100)]
    columns = "charts/episodic_return/tagger,charts/episodic_return/runner,losses/entropy/tagger"
    header = f"env_steps,{columns},perf/env_steps_per_second,perf/memory_gib"
    (path / "metrics.csv").write_text("\n".join([header, *rows]) + "\n")
    summary = {"status": "finished", "env_steps": 1000, "updates": 10, "seconds": 61.0, "returns": {"tagger": 7.125}}
    (path / "summary.json").write_text(json.dumps(summary))
    line = {"trained": ["tagger"], "random": ["runner"], "episodes": 2, "mean_return": {"tagger": 6.375}}
    (path / "evaluation.json").write_text(json.dumps([line | {"std_return": {"tagger": 0.75}, "mean_length": 17.5}]))
    (path / "evaluation_episodes.csv").write_text("evaluation,length,return/tagger\n0,15,5.5\n0,20,7.25\n")
    (path / "machine.json").write_text(json.dumps({"python": "3.99.1", "GPUs": "Imaginary 9000"}))
    Image.new("RGB", (8, 8)).save(path / "replay.gif")
    return path


def test_the_page_shows_the_run_and_loads_nothing(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(run)]) == 0
    assert capsys.readouterr().out.strip() == str(run / "report.html")
    page = Page(run / "report.html")
    for shown in ("finished", "1:01", "7.125", "6.375 ± 0.75", "17.5", "Imaginary 9000", "3.99.1", "losses/entropy"):
        assert shown in page.text
    assert "perf/memory_gib" in page.text and "return of tagger" in page.text and "length of episodes" in page.text
    changed = page.text[page.text.index("Differences from the defaults") : page.text.index("all keys")]
    assert "policy.tagger.lr\n\n0.0125\n\n0.0003" in re.sub(r"\n+", "\n\n", changed)
    assert "policy.tagger.gae_lambda" not in changed and "policy.tagger.gae_lambda" in page.text
    assert {*page.tags} & {"link", "iframe", "object"} == set()
    sources = [value for name, value in page.attributes if name in ("src", "href", "xlink:href", "action")]
    assert sources and all(source.startswith(("data:image/gif;base64,R0lGOD", "#")) for source in sources)


def test_values_under_the_pointer_are_those_of_the_logs(run: Path, tmp_path: Path) -> None:
    """Lines have the values of their metric at the logged steps, seeds a range; histograms have shares of episodes."""
    other = run.parent / "other"
    shutil.copytree(run, other)
    (other / "config.yaml").write_text((run / "config.yaml").read_text().replace("seed: 3", "seed: 4"))
    (other / "metrics.csv").write_text((run / "metrics.csv").read_text().replace(",0.5,1000", ",1.5,nan"))
    assert main(["report", str(run), str(other), "-o", str(tmp_path / "both.html")]) == 0
    plots = Page(tmp_path / "both.html").plots()
    steps = list(range(100, 1100, 100))
    returns = plots["charts/episodic_return"]
    assert returns["at"] == steps and returns["names"][-1] == "step 1,000"
    assert [line["label"] for line in returns["lines"]] == ["tagger", "runner"]
    assert returns["lines"][0]["mean"] == [step / 100 for step in steps]
    (entropy,) = plots["losses/entropy"]["lines"]
    assert [entropy[name] for name in ("low", "mean", "high")] == [[0.5] * 10, [1.0] * 10, [1.5] * 10]
    assert set(plots["perf/env_steps_per_second"]["lines"][0]["mean"]) == {"nan"}
    lengths = plots["length of episodes"]
    assert lengths["names"] == ["15", "16", "17", "18", "19", "20"]
    assert lengths["lines"][0]["mean"] == [0.5, 0, 0, 0, 0, 0.5]


def test_charts_show_values_to_pointer_keyboard_and_finger(run: Path, opened: Opened) -> None:  # noqa: F811
    assert main(["report", str(run)]) == 0
    page = opened(run / "report.html", 390, 844, has_touch=True)
    chart = page.locator(".plot", has=page.get_by_label("charts/episodic_return"))
    label, plot = chart.locator("output"), chart.locator("svg")
    assert not label.is_visible() and page.locator("#hint").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 390, "nothing is wider than the screen"
    plot.hover()
    assert label.inner_text() == "step 500\ntagger: 5\nrunner: -10"
    page.mouse.move(0, 0)
    assert not label.is_visible()
    plot.focus()
    for key, shown in (("Home", "step 100\n"), ("ArrowRight", "step 200\n"), ("End", "step 1,000\n")):
        plot.press(key)
        assert label.inner_text().startswith(shown)
    outside = page.evaluate("e => e.getBoundingClientRect().right > innerWidth", label.element_handle())
    plot.press("Escape")
    assert not outside and not label.is_visible()
    plot.tap()
    assert label.inner_text().startswith("step 500\n")
    page.locator("h1").tap()
    assert not label.is_visible()


@pytest.mark.parametrize(
    ("summary", "shown"),
    [
        ({"status": "interrupted", "stopped_by": "SIGINT", "env_steps": 900}, "interrupted: SIGINT"),
        ({"status": "failed", "message": "the loss is not finite"}, "failed: the loss is not finite"),
        (None, "stopped without a summary"),
        ("locked", "running"),
    ],
)
def test_unfinished_runs_have_a_report(run: Path, summary: Any, shown: str) -> None:
    """It has the state of the run, and what is known from a single row of the metrics."""
    (run / "summary.json").unlink()
    (run / "metrics.csv").write_text("\n".join((run / "metrics.csv").read_text().splitlines()[:2]))
    if isinstance(summary, dict):
        (run / "summary.json").write_text(json.dumps(summary))
    with locked(run) if summary == "locked" else nullcontext():
        assert main(["report", str(run)]) == 0
    page = Page(run / "report.html")
    row = page.text[page.text.index("last return of runner") : page.text.index("Replay")]
    assert shown in row and re.findall(r"^-?[\d.]+$", row, re.MULTILINE)[:3] == [
        "3",
        "900" if "SIG" in shown else "100",
        "1",
    ]
    assert "6.375" not in page.text, "an evaluation is of a time before the run was resumed"


def test_runs_are_compared(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seeds share a line, others are told apart by what differs; what is missing or broken is left out."""
    for folder, change in (("second", {"trainer.seed": 4}), ("third", {"policy.tagger.lr": 0.5})):
        shutil.copytree(run, run.parent / folder)
        config = yaml.safe_load((run / "config.yaml").read_text())
        for key, value in change.items():
            *sections, last = key.split(".")
            section = config
            for name in sections:
                section = section[name]
            section[last] = value
        (run.parent / folder / "config.yaml").write_text(yaml.safe_dump(config))
    for broken in ("summary.json", "evaluation.json", "machine.json", "evaluation_episodes.csv"):
        (run.parent / "third" / broken).write_text('{"returns": [1' if broken == "summary.json" else "[7, null]")
    (run.parent / "third" / "replay.gif").write_bytes(b"<script>")
    monkeypatch.chdir(tmp_path)
    assert main(["report", *(str(run.parent / name) for name in ("first", "second", "third"))]) == 0
    page = Page(tmp_path / "report.html")
    assert "lr 0.0125 (2 seeds)" in page.text and "lr 0.5" in page.text
    differences = page.text[page.text.index("Differences between") : page.text.index("Differences from")]
    assert re.findall(r"^([a-z]\w*(?:\.\w+)+)$", differences, re.MULTILINE) == ["trainer.seed", "policy.tagger.lr"]


def test_names_of_strangers_are_text(run: Path) -> None:
    evil = "</svg><script>alert(1)</script>\" onload='x' $\\frac{"
    config = yaml.safe_load((run / "config.yaml").read_text())
    config["name"] = config["env"]["name"] = evil
    config["policy"] = {evil: {"algorithm": evil, "lr": evil, "model": [evil]}}
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    text = (run / "metrics.csv").read_text().replace("runner", '"evil"')
    (run / "metrics.csv").write_text(text.replace("losses/entropy/tagger", '"' + evil.replace('"', '""') + '"'))
    (run / "summary.json").write_text(
        json.dumps(
            {"status": evil, "env_steps": evil, "seconds": math.inf, "updates": 10**400, "returns": {evil: evil}}
        )
    )
    line = {"trained": [evil], "random": evil, "mean_return": {evil: evil}, "std_return": evil, "others": {evil: evil}}
    (run / "evaluation.json").write_text(json.dumps([line]))
    columns = [f'"return/{evil}"'.replace('" ', '"" '), "length", "evaluation"]
    (run / "evaluation_episodes.csv").write_text(",".join(columns) + "\n1,nan,0\n2,inf,0\n")
    (run / "machine.json").write_text(json.dumps({evil: f"{evil}\ud800"}))
    with (run / "metrics.csv").open("a") as file:
        file.write("1200,inf,nan,1e308,-inf,-1e308\n1300,0,0,-1.7976931348623157e308,0,1.7976931348623157e308\n")
    assert main(["report", str(run), "-o", str(run / "out.html")]) == 0
    page = Page(run / "out.html")
    assert evil in page.text
    assert not any(name.startswith("on") for name, _ in page.attributes)


def test_a_page_on_another_drive_links_to_whole_addresses(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def relpath(path: Path, start: Path) -> str:
        raise ValueError("path is on mount 'C:', start on mount 'D:'")

    (run / "replay.html").touch()
    monkeypatch.setattr(os.path, "relpath", relpath)
    assert main(["report", str(run)]) == 0
    assert ("href", (run / "replay.html").as_uri()) in Page(run / "report.html").attributes


def test_defaults_are_those_of_the_sections() -> None:
    """The defaults read from the JSON Schema are those of the sections of the configuration."""
    for name in ("cartpole", "pendulum_sac"):
        config = load_config(name)
        found = defaults(config.model_dump(mode="json"))
        for tag, section in config.policy.items():
            usual = flat(type(section)(algorithm=section.algorithm).model_dump(mode="json"))  # type: ignore[call-arg]
            shared = [key for key in usual if f"policy.{tag}.{key}" in found]
            assert len(shared) > 10
            assert {key: found[f"policy.{tag}.{key}"] for key in shared} == {key: usual[key] for key in shared}


def test_a_report_that_fails_is_a_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _write_report(make_console(), tmp_path)
    assert capsys.readouterr().out.startswith("no report.html: ")
