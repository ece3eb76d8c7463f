"""Levels of output, and colours."""

from __future__ import annotations

import io
import logging
from pathlib import Path

import pytest

from warpdrive.backends.shared import cache
from warpdrive.training.cli.main import main
from warpdrive.training.progress.console import PlainConsole, is_live

SMALL = [
    f"trainer.{key}" for key in ("total_steps=512", "num_envs=8", "train_batch_size=256", "evaluation.num_episodes=2")
]


def run(*arguments: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(list(arguments)) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    return printed.out


def test_quiet_commands_print_their_result_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = run("train", "cartpole", "-q", "--no-replay", *SMALL, capsys=capsys).strip()
    assert Path(folder, "metrics.csv").is_file() and Path(folder, "evaluation.json").is_file()
    assert run("plot", folder, "--quiet", "-o", "a.png", capsys=capsys) == "a.png\n"
    assert run("replay", folder, "-q", "-o", "a.npz", capsys=capsys).startswith("a.npz  (")
    assert run("init", "my_chase", "-q", capsys=capsys) == "my_chase\n"
    table = run("evaluate", folder, "-q", "--episodes", "2", capsys=capsys)
    assert table.startswith("Mean over 2 episodes") and "trained" in table
    assert main(["evaluate", "nowhere", "-q"]) == 2
    assert "nowhere" in capsys.readouterr().err
    assert "8 replicas" in run("train", "cartpole", "--no-replay", *SMALL, capsys=capsys), "quiet no longer"


def test_verbose_logs_compilations_and_cache_hits(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "warpdrive")
    with cache.one_process_at_a_time("no such key", "kernel step"):
        pass
    (record,) = caplog.messages
    assert record.startswith("kernel step: compiled in 0.0") and record.endswith("(no such key)")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("variables", "terminal", "coloured", "live"),
    [
        ({"TERM": "xterm"}, True, True, True),
        ({"TERM": "xterm"}, False, False, False),
        ({"TERM": "xterm", "NO_COLOR": "1"}, True, False, True),
        ({"TERM": "xterm", "NO_COLOR": ""}, True, True, True),
        ({"TERM": "xterm", "FORCE_COLOR": "1"}, False, True, False),
        ({"TERM": "xterm", "FORCE_COLOR": "1"}, True, True, True),
        ({"TERM": "xterm", "FORCE_COLOR": "1", "NO_COLOR": "1"}, False, False, False),
        ({"TERM": "dumb"}, True, False, False),
    ],
)
def test_colours_follow_the_environment(
    variables: dict[str, str], terminal: bool, coloured: bool, live: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    file = Terminal() if terminal else io.StringIO()
    console = PlainConsole(file=file)
    console.print("[red]text[/red]", markup=True)
    assert ("\x1b[31m" in file.getvalue()) == ("\x1b" in file.getvalue()) == coloured
    assert is_live(console) == live
