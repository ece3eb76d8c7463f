"""Bad input of every kind yields one clear line and exit code 2, without lost files or hangs.

``python tests/support/report_bad_inputs.py`` prints a report of all cases.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from bad_inputs.kinds import KINDS, in_a_folder
from bad_inputs.verdict import verdict

from warpdrive.training.cli.main import main

_ONE_OF = {
    "keys": 5,
    "conversions": 7,
    "overrides": 3,
    "environments": 12,
    "files": 2,
    "observations": 4,
    "damages": 8,
    "forged": 8,
    "of others": 2,
    "run folders": 16,
    "sizes": 7,
    "machines": 14,
}
"""Step through the cases of slow kinds: the others are run by ``make test-all``."""


@pytest.mark.parametrize(
    ("kind", "others"),
    [*((kind, False) for kind in KINDS), *(pytest.param(kind, True, marks=pytest.mark.exhaustive) for kind in _ONE_OF)],
)
def test_bad_input_gets_one_clear_line(kind: str, others: bool) -> None:
    threads, step = torch.get_num_threads(), _ONE_OF.get(kind, 1)
    cases = (case for i, case in enumerate(in_a_folder(KINDS[kind])) if (i % step > 0) == others)
    bad = {case.name: why for case in cases if (why := verdict(case))}
    torch.set_num_threads(threads)
    assert not bad


@pytest.mark.parametrize(
    ("override", "hint"),
    [
        ("policy.agent.learning_rate=1e-3", "Did you mean 'lr'?"),
        ("trainer.learning_rate=1e-3", "Did you mean 'policy.<tag>.lr'?"),
        ("policy.agent.ent_coef=0.1", "Did you mean 'entropy_coef'?"),
        ("trainer.n_envs=5", "Did you mean 'num_envs'?"),
        ("trainer.total_timesteps=5", "Did you mean 'total_steps'?"),
        ("policy.agent.model.net_arch=[64]", "Did you mean 'hidden'?"),
    ],
)
def test_names_of_other_libraries_are_known(override: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "cartpole", override]) == 2
    assert hint in capsys.readouterr().err


@pytest.mark.parametrize("given", ["forgaing.yaml", "forgaing"])
def test_the_file_beside_a_mistyped_name_is_told(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "foraging.yaml").write_text("env: {name: cartpole}\n")
    assert main(["train", given]) == 2
    assert "Did you mean 'foraging.yaml'?" in capsys.readouterr().err


def test_autoscale_takes_fractions_of_seconds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The option is read, and what is wrong is the next one."""
    assert (
        main(["autoscale", "cartpole", "--seconds", "0.5", "--time_limit", "2.5", "-o", str(tmp_path / "x.txt")]) == 2
    )
    assert "--output" in capsys.readouterr().err


def test_a_mistake_in_this_package_is_told_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    run = eval("lambda options: [][0]", {"__name__": "warpdrive.training.cli.envs"})  # as if defined in that module
    monkeypatch.setattr("warpdrive.training.cli.envs.run", run)
    error = io.StringIO()
    with contextlib.redirect_stderr(error):
        assert main(["envs"]) == 1
    assert "unexpected IndexError" in error.getvalue() and "--debug" in error.getvalue()
    with pytest.raises(IndexError):
        main(["envs", "--debug"])


@pytest.mark.parametrize("arguments", [("init", "my_game"), ("completion", "bash")])  # printed by Rich, and by print
def test_a_closed_pipe_ends_a_command_with_its_own_code(arguments: tuple[str, ...], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "warpdrive", *arguments]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert (process.wait(120), process.stderr.read()) == (141, b"")
    process.stderr.close()


def test_closed_outputs_are_the_null_device(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    assert (main(["envs"]), main(["train", "no such environment"])) == (0, 2)


@pytest.mark.parametrize(("system", "code"), [("nt", 141), ("posix", 2)])
def test_a_closed_pipe_of_windows_is_told_from_other_errors(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], system: str, code: int
) -> None:
    def write(options: object) -> int:
        raise OSError(errno.EINVAL, "Invalid argument")

    redirected: list[tuple[int, int]] = []
    monkeypatch.setattr("warpdrive.training.cli.envs.run", write)
    parts = {"name": system, "dup2": lambda *files: redirected.append(files), "open": lambda *_: 7}
    parts |= {name: getattr(os, name) for name in ("getcwd", "environ", "devnull", "O_WRONLY")}
    monkeypatch.setattr("warpdrive.training.cli.main.os", SimpleNamespace(**parts))
    monkeypatch.setattr(sys.stdout, "fileno", lambda: 1)
    assert main(["envs"]) == code
    assert redirected == ([(7, 1)] if system == "nt" else [])
    assert capsys.readouterr().err == ("" if system == "nt" else "warpdrive envs: Invalid argument\n")


def test_an_exception_of_the_users_code_is_told_with_its_place(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def users(options: object) -> int:
        raise KeyError("mine")

    monkeypatch.setattr("warpdrive.training.cli.envs.run", users)
    assert main(["envs"]) == 2
    line = users.__code__.co_firstlineno + 1
    told = f"warpdrive envs: KeyError: 'mine' ({__file__}:{line}); --debug shows the traceback\n"
    assert capsys.readouterr().err == told
