"""Completion on the command line, asked for by the shells themselves."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from warpdrive.training.cli import completion, parser
from warpdrive.training.cli.main import main

COMPLETED = [
    ("autos", ["autoscale"]),
    ("train cartpole_rec", ["cartpole_recurrent"]),
    ("train cartpole --no-", ["--no-replay", "--no-report"]),
    ("train --env pendulum_s", ["pendulum_sac"]),
    ("sweep cartpole --engine op", ["optuna"]),
    ("train cartpole trainer.num", ["trainer.num_envs="]),
    ("train cartpole trainer.evaluation.ev", ["trainer.evaluation.every="]),
    ("train cartpole env.gra", ["env.gravity="]),
    ("train my_runs/one.yaml env.gym", ["env.gymnasium="]),
    ("train my_runs/one.yaml env.gymnasium=CartPole-v1 env.worker_t", ["env.worker_type="]),
    ("train tag_gridworld policy.", ["policy.tagger.", "policy.runner."]),
    ("train tag_gridworld policy.runner.algorithm=se", ["policy.runner.algorithm=self_play"]),
    ("train cartpole policy.agent.model.type=m", ["policy.agent.model.type=mingru"]),
    ("train cartpole policy.agent.model.type=gru policy.agent.model.un", ["policy.agent.model.units="]),
    ("train cartpole policy.agent.algorithm=dqn policy.agent.eps", ["policy.agent.epsilon="]),
    ("train cartpole policy.agent.eps", []),
    ("train cartpole trainer.evaluation=null trainer.evaluation.every=2 trainer.num_e", ["trainer.num_envs="]),
    ("train cartpole saving.folder=runs saving.folder.name=x saving.fo", ["saving.folder="]),
    ("train my_runs/o", ["my_runs/one.yaml"]),
    ("train my_runs/one.yaml policy.t", ["policy.tagger."]),
    ("evaluate my_runs/saved --random r", ["runner"]),
    ("plot my_runs/saved -m losses/e", ["losses/entropy/tagger"]),
    ("check tag_gridworld grid", ["grid_length="]),
    ("web overc", ["overcooked"]),
    ("web my_runs/", ["my_runs/saved/", "my_runs/one.yaml"]),
    ("completion z", ["zsh"]),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    run = tmp_path / "my_runs" / "saved" / "2026-01-01"
    run.mkdir(parents=True)
    text = "env: {name: tag_gridworld}\npolicy: {tagger: {algorithm: ppo}, runner: {algorithm: random}}\n"
    (run / "config.yaml").write_text(text)
    (run / "metrics.csv").write_text("env_steps,losses/entropy/tagger\n")
    (tmp_path / "my_runs" / "one.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("line", "expected"), COMPLETED)
def test_values_are_completed(line: str, expected: list[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([completion.COMPLETE, "fish", *line.split(" ")]) == 0
    assert [printed.partition("\t")[0] for printed in capsys.readouterr().out.splitlines()] == expected


def in_shell(shell: str, line: str, folder: Path) -> list[str]:
    """Return what a shell offers for a line, with the script loaded into it."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    command = folder / "bin" / "warpdrive"
    command.parent.mkdir(exist_ok=True)
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m warpdrive "$@"\n')
    command.chmod(0o755)
    ask = {
        "bash": f"COMP_LINE='{line}' COMP_POINT={len(line)} COMP_WORDS=(warpdrive)\n"
        "COMP_WORDBREAKS='=:'\n_warpdrive\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n",
        "zsh": "_describe() { print -l -- $whole $open }\n"
        f"words=({line} '') CURRENT=$(({len(line.split(' '))}))\n_warpdrive\n",
        "fish": f"complete -C '{line}'\n",
    }[shell]
    load = {"bash": 'eval "$(warpdrive completion bash)"', "fish": "warpdrive completion fish | source"}
    load["zsh"] = 'compdef() { true }\neval "$(warpdrive completion zsh)"'
    environment = {**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}"}
    quiet = {"bash": ["--norc"], "zsh": ["-f"], "fish": ["--no-config"]}[shell]
    done = subprocess.run(
        [shell, *quiet, "-c", f"{load[shell]}\n{ask}"], capture_output=True, text=True, env=environment, cwd=folder
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout.splitlines()


@pytest.mark.skipif(sys.version_info < (3, 11), reason="python -P is new in 3.11")
@pytest.mark.parametrize("shell", completion.SHELLS)
def test_shells_offer_the_candidates(shell: str, folder: Path) -> None:
    command = in_shell(shell, "warpdrive autos", folder)
    assert len(command) == 1 and command[0].split("\t")[0].split(":")[0].strip() == "autoscale"
    values = in_shell(shell, "warpdrive train tag_gridworld policy.runner.algorithm=td", folder)
    rest = {"bash": "td3 "}.get(shell, "policy.runner.algorithm=td3")  # bash replaces what follows the `=`
    assert [value.split("\t")[0] for value in values] == [rest]


def test_every_argument_is_either_completed_or_free() -> None:
    (commands,) = (a for a in parser.build_parser()._actions if a.choices)
    known = {*completion.VALUES, *completion.FREE}
    for name, command in commands.choices.items():
        for action in command._actions:
            if action.nargs != 0 and not action.choices:
                assert action.metavar in known, f"{name}: {action.dest}"
    assert set(commands.choices) == set(parser.COMMANDS)


def test_nothing_heavy_is_imported(folder: Path) -> None:
    words = [completion.COMPLETE, "fish", "envs", ""]
    program = f"import sys\nfrom warpdrive.training.cli.main import main\nmain({words})\n"
    program += "print({'torch', 'numba', 'numpy', 'pydantic', 'rich'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()" and "cartpole\tenvironment" in done.stdout
