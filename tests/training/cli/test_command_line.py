"""The ``warpdrive`` command: output, files and messages about mistakes."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from paths import SUPPORT
from PIL import Image
from rich.table import Table
from waiting import wait_until

import warpdrive
from warpdrive.envs.tag_gridworld import TagGridworld
from warpdrive.scene.scene import Scene
from warpdrive.training.cli.check import _short
from warpdrive.training.cli.main import main
from warpdrive.training.cli.printing import as_typed, make_console

GAMES = SUPPORT / "games.py"
TINY = (
    "trainer.num_envs=20",
    "trainer.train_batch_size=500",
    "trainer.total_steps=1000",
    "trainer.evaluation.num_episodes=20",
    "trainer.torch_threads=1",
    "env.grid_length=6",
    "env.episode_length=20",
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> tuple[Path, str]:
    """A tiny run made by the command in a process of its own: its folder, and what was printed."""
    folder = tmp_path_factory.mktemp("trained")
    command = [sys.executable, "-m", "warpdrive", "train", "tag_gridworld", *TINY]
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    (run,) = (folder / "runs" / "tag_gridworld").iterdir()
    return run, process.stdout


@pytest.fixture
def run(trained, tmp_path) -> Path:
    """A copy of the tiny run that a test may damage."""
    return Path(shutil.copytree(trained[0], tmp_path / "run"))


def mistake(capsys, *arguments) -> str:
    """Run the command in this process, expect exit code 2, and return the one line it printed."""
    try:
        code = main([str(argument) for argument in arguments])
    except SystemExit as stop:  # of argparse
        code = stop.code
    captured = capsys.readouterr()
    assert code == 2, captured
    assert captured.err.count("\n") == 1, f"not one line: {captured.err}"
    assert "Traceback" not in captured.err
    return captured.err


# --- train ---


def test_train_leaves_a_complete_run_folder(trained):
    run, _ = trained
    expected = {"config.yaml", "metrics.csv", "checkpoints", "summary.json", "evaluation.json", "replay.gif"}
    expected |= {"evaluation_episodes.csv", "machine.json", "report.html"}
    assert expected <= {path.name for path in run.iterdir()}
    assert json.loads((run / "summary.json").read_text())["status"] == "finished"
    with Image.open(run / "replay.gif") as gif:
        assert gif.n_frames > 1
    report = (run / "report.html").read_text()
    for shown in ("episodic_return", "length of episodes", "data:image/gif", "random tagger and runner", "CPU cores"):
        assert shown in report


def test_train_needs_no_run_configuration(tmp_path, monkeypatch, capsys):
    shutil.copy(GAMES, tmp_path / "games.py")
    monkeypatch.chdir(tmp_path)
    small = ("trainer.total_steps=640", "trainer.num_envs=10", "trainer.evaluation.num_episodes=5")
    assert main(["train", "games.py:Spell", *small, "--no-replay", "--no-report"]) == 0
    assert "games.py:Spell has no run configuration: PPO with its default settings" in capsys.readouterr().out
    (config,) = tmp_path.glob("runs/Spell/*/config.yaml")
    assert yaml.safe_load(config.read_text())["policy"]["inner"]["algorithm"] == "ppo"


BOUNDLESS = """
from warpdrive.envs.tag_gridworld import TagGridworld


class Boundless(TagGridworld):
    def __init__(self, limit: float = 0.0):  # sizes of the tiny run, whose kernels are compiled
        super().__init__(4, 6, 20, use_full_observation=False, random_starts=True)
        self.wall_hit_penalty = self.tag_reward_for_tagger = self.step_cost_for_tagger = 0.0
        self.tag_penalty_for_runner = -limit
"""


def test_what_a_run_writes_is_json_without_nan_and_infinity(tmp_path, monkeypatch, capsys):
    def unknown(constant):
        raise ValueError(f"{constant} is not JSON")

    (tmp_path / "boundless.py").write_text(BOUNDLESS)
    monkeypatch.chdir(tmp_path)
    options = (*TINY[:5], "env.limit=.inf", "policy.runner={algorithm: random}", "--no-replay")
    assert main(["train", "boundless.py:Boundless", *options]) == 0
    (run,) = tmp_path.glob("runs/*/*")
    read = {path.name: json.loads(path.read_text(), parse_constant=unknown) for path in run.rglob("*.json")}
    assert read.keys() >= {"summary.json", "evaluation.json", "manifest.json", "machine.json"}
    trained = read["evaluation.json"][0]
    assert (trained["mean_return"], trained["std_return"]["runner"]) == ({"tagger": 0.0, "runner": None}, None)
    assert read["summary.json"]["returns"] == {"tagger": 0.0, "runner": None}
    assert yaml.safe_load((run / "config.yaml").read_text())["env"]["limit"] == math.inf
    assert read["manifest.json"]["config"]["env"]["limit"] == math.inf
    assert "0 ± 0" in (run / "report.html").read_text()
    assert main(["evaluate", str(run), "--episodes", "5"]) == 0
    assert "env.limit: found nan (a number)" in mistake(capsys, "train", "boundless.py:Boundless", "env.limit=.nan")


def test_train_prints_the_trained_beside_the_random(trained):
    run, printed = trained
    assert "the taggers caught the runner" in printed
    assert "20 episodes" in printed
    lines = re.findall(r"^((?:trained|random) .*?)  +([\d.]+) %", printed, re.MULTILINE)
    assert [who for who, _ in lines] == [
        "trained tagger and runner",
        "trained tagger, random runner",
        "trained runner, random tagger",
        "random tagger and runner",
    ]
    measured = json.loads((run / "evaluation.json").read_text())
    assert [float(share) for _, share in lines] == pytest.approx(
        [100 * line["terminated_fraction"] for line in measured]
    )
    assert measured[1]["random"] == ["runner"]


def test_train_says_where_the_run_is_and_what_to_do_next(trained):
    run, printed = trained
    folder = str(run.relative_to(run.parents[2]))
    assert folder in printed
    (replay, tensorboard) = printed.splitlines()[-2:]
    assert f"warpdrive replay {folder}" in replay
    assert f"tensorboard --logdir {folder}" in tensorboard
    for command in (replay, tensorboard):
        assert shutil.which(command.split()[0], path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")


def test_suggested_commands_can_be_pasted_into_a_shell():
    folder = Path("my runs") / "für alle"
    assert shlex.split(as_typed("warpdrive", "evaluate", folder))[1:] == ["evaluate", str(folder)]


def test_places_on_another_drive_are_whole(monkeypatch):
    def relpath(path):
        raise ValueError("path is on mount 'C:', start on mount 'D:'")

    monkeypatch.setattr(os.path, "relpath", relpath)
    assert [_short(place) for place in ("/a/b.py:3", "<string>:3", "nowhere")] == ["/a/b.py:3", "<string>:3", "nowhere"]


def test_a_run_folder_in_place_of_a_configuration(trained, capsys):
    told = f"{trained[0]}: found a run folder, expected a YAML file: --resume {trained[0]} continues the run"
    assert told in mistake(capsys, "train", trained[0])


def test_the_written_configuration_holds_the_overrides_and_trains_again(trained, tmp_path, monkeypatch, capsys):
    run, _ = trained
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert config["trainer"]["num_envs"] == 20
    assert config["env"]["grid_length"] == 6
    monkeypatch.chdir(tmp_path)
    # an override after an option is an override, too
    assert main(["train", str(run / "config.yaml"), "--no-replay", "name=again"]) == 0
    (again,) = (tmp_path / "runs" / "again").iterdir()
    assert not (again / "replay.gif").exists()


# --- evaluate, replay, envs ---


def test_evaluate_measures_a_run_found_by_folder_or_name(trained, monkeypatch, capsys):
    run, _ = trained
    monkeypatch.chdir(run.parents[2])
    for name in (run, "tag_gridworld", "runs/tag_gridworld"):
        assert main(["evaluate", str(name), "--episodes", "10", "--deterministic"]) == 0
        printed = capsys.readouterr().out
        assert "10 episodes" in printed
        assert "trained tagger and runner" in printed


def test_a_run_that_fails_does_not_lose_the_results_of_the_runs_before(trained, monkeypatch, capsys):
    monkeypatch.chdir(trained[0].parents[2])
    assert main(["evaluate", "tag_gridworld", "nowhere", "--episodes", "10"]) == 2
    printed = capsys.readouterr()
    assert "tag_gridworld: trained tagger and runner" in printed.out
    assert printed.err.startswith("tag_gridworld: return of tagger ") and "nowhere" in printed.err


def test_evaluate_with_random_policies(trained, capsys):
    assert main(["evaluate", str(trained[0]), "--episodes", "10", "--random", "tagger", "--random", "runner"]) == 0
    assert "random tagger and runner" in capsys.readouterr().out


def test_replay_writes_where_it_is_told(trained, tmp_path, capsys):
    output = tmp_path / "pictures" / "tag.gif"
    assert main(["replay", str(trained[0]), "-o", str(output), "--seed", "3"]) == 0
    assert str(output) in capsys.readouterr().out
    with Image.open(output) as gif:
        assert gif.n_frames > 1


def test_without_the_step_of_a_picture_the_other_files_are_written(trained, tmp_path, capsys):
    picture, film = tmp_path / "one.png", tmp_path / "all.gif"
    assert main(["replay", str(trained[0]), "-o", str(picture), "-o", str(film), "--step", "1000"]) == 2
    assert "step: found 1000, expected 0 to" in capsys.readouterr().err
    assert film.is_file() and not picture.exists()


def test_replays_of_one_seed_are_the_same_and_of_another_differ(trained, tmp_path):
    files = [tmp_path / name for name in ("a.gif", "b.gif", "c.gif")]
    for file, seed in zip(files, ("3", "3", "4"), strict=True):
        main(["replay", str(trained[0]), "-o", str(file), "--seed", seed])
    a, b, c = (file.read_bytes() for file in files)
    assert a == b
    assert a != c


def test_replay_without_output_goes_into_the_run_folder(run, capsys):
    (run / "replay.gif").unlink()
    assert main(["replay", str(run)]) == 0
    assert (run / "replay.gif").is_file()


def test_an_episode_is_written_as_arrays_and_pages_and_drawn_again(trained, tmp_path, capsys):
    arrays, page, again = (tmp_path / name for name in ("tag.npz", "tag.html", "again.html"))
    assert main(["replay", str(trained[0]), "-o", str(arrays), "-o", str(page), "--replicas", "2", "--fps", "5"]) == 0
    printed = capsys.readouterr().out
    recording = warpdrive.Recording.load(arrays)
    assert recording.num_replicas == 2
    assert f"{arrays}  ({recording.num_steps} steps)" in printed
    assert f"{page}  ({recording.num_steps + 1} states)" in printed
    assert main(["replay", str(arrays), "-o", str(again), "--fps", "5"]) == 0
    assert again.read_bytes() == page.read_bytes()
    assert main(["replay", str(arrays), "--replicas", "1", "--width", "200"]) == 0
    with Image.open(tmp_path / "tag.gif") as gif:
        assert gif.n_frames == recording.lengths[0] + 1
        assert gif.width == 200


def test_what_a_recording_cannot_do_is_told_before_anything_is_written(trained, tmp_path, capsys):
    arrays = tmp_path / "tag.npz"
    assert "--episodes 2" in mistake(capsys, "replay", trained[0], "-o", arrays, "--episodes", "2")
    assert not arrays.exists()
    assert main(["replay", str(trained[0]), "-o", str(arrays)]) == 0
    assert "require a Trainer or a run" in mistake(capsys, "replay", arrays, "--seed", "3")
    assert "has 1: [0]" in mistake(capsys, "replay", arrays, "--replicas", "3")
    assert "no such recording" in mistake(capsys, "replay", tmp_path / "nowhere.npz")


def test_envs_lists_every_registered_environment(capsys):
    assert main(["envs"]) == 0
    printed = capsys.readouterr().out
    for name in warpdrive.registered_names():
        (line,) = [line for line in printed.splitlines() if line.startswith(f"{name} ")]
        assert len(line.split()) > 3, "a description follows"


def test_envs_shows_the_parameters_of_one(capsys):
    assert main(["envs", "tag_gridworld"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"^grid_length +10 *$", printed, re.MULTILINE)
    assert "warpdrive.envs.tag_gridworld.tag_gridworld:TagGridworld" in printed
    assert "tag_gridworld, tag_gridworld_a2c" in printed, "its run configurations"


def test_envs_shows_the_parameters_of_one_in_a_file(capsys, tmp_path):
    (tmp_path / "mine.py").write_text(
        "from warpdrive.envs.cartpole import CartPole\nclass Mine(CartPole):\n    'Mine.'\n"
    )
    assert main(["envs", f"{tmp_path}/mine.py:Mine"]) == 0
    printed = capsys.readouterr().out
    assert "warpdrive_file" not in printed, "no name of the library's own"
    assert re.search(r"^gravity +9.8 *$", printed, re.MULTILINE)


def test_version(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"warpdrive {warpdrive.__version__}\n"


# --- mistakes: one line, exit code 2 ---


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["trian", "tag_gridworld"], ["trian", "'train'"]),
        (["list"], ["list", "'envs'"]),
        (["train", "--reusme", "runs/tag_gridworld"], ["--reusme", "'--resume'", "(see warpdrive train --help)"]),
        (["train", "tag_gridworld", "saving.folder=/dev/null/x"], ["saving.folder: found '/dev/null/x'"]),
        (
            ["train", "cartpole", "--env", "acrobot"],
            ["found both 'cartpole' and --env acrobot: expected only one of them"],
        ),
        (["train"], ["expected either an environment or YAML file, or --resume <run> (see"]),
        (["train", "tag_gridwrld"], ["tag_gridwrld", "'tag_gridworld'"]),
        (["train", "nowhere.yaml"], ["nowhere.yaml"]),
        (["train", "tag_gridworld", "--fast"], ["--fast"]),
        (["train", "tag_gridworld", "trainer.num_env=7"], ["trainer.num_env", "'num_envs'"]),
        (["train", "tag_gridworld", "trainer.num_envs=-7"], ["trainer.num_envs", "-7"]),
        (["train", "tag_gridworld", "trainer.num_envs=many"], ["trainer.num_envs", "many"]),
        (["train", "tag_gridworld", "env.grid_lenght=7"], ["grid_lenght", "'grid_length'"]),
        (["train", "tag_gridworld", "env.grid_length=-7"], ["grid_length", "-7"]),
        (["train", "tag_gridworld", "policy.taggr.lr=1e-3"], ["taggr", "'tagger'"]),
        (["train", "tag_gridworld", "num_envs"], ["num_envs", "="]),
        (["evaluate", "nowhere"], ["nowhere"]),
        (["evaluate", "nowhere", "--episodes", "0"], ["--episodes", "'0'"]),
        (["replay", "nowhere"], ["nowhere"]),
        (["replay", "nowhere", "-o", "tag.bmp"], ["tag.bmp", ".gif", ".html", ".npz"]),
        (["envs", "tag_gridwrld"], ["tag_gridwrld", "'tag_gridworld'"]),
        (["envs", "nowhere.py:Game"], ["nowhere.py"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_a_mistake_is_named_in_one_line(arguments, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    line = mistake(capsys, *arguments)
    for words in said:
        assert words in line
    assert not (tmp_path / "runs").exists(), "nothing was begun"


def test_a_mistyped_key_in_a_file_is_named_with_the_file(trained, tmp_path, capsys):
    text = (trained[0] / "config.yaml").read_text()
    path = tmp_path / "mine.yaml"
    path.write_text(text.replace("num_envs:", "num_env:"))
    line = mistake(capsys, "train", path)
    for words in (str(path), "trainer.num_env", "'num_envs'"):
        assert words in line


def test_an_unknown_tag_to_act_at_random(trained, capsys):
    for command in ("evaluate", "replay"):
        line = mistake(capsys, command, trained[0], "--random", "runer")
        assert "'runner'" in line


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("evaluate cartpole --againts other", " Did you mean '--against'?"),
        ("train cartpole --policy.agent.lr=1e-3", " Keys of the configuration have no dashes: 'policy.agent.lr=1e-3'."),
        ("evaluate cartpole --seed 3", ""),
    ],
)
def test_an_unknown_option_has_a_hint_if_one_is_near(command, expected, capsys):
    option = command.split()[2]
    assert f"unknown argument '{option}'.{expected} (see" in mistake(capsys, *command.split())


def test_a_damaged_checkpoint_is_named(run, capsys):
    (model,) = sorted((run / "checkpoints").glob("*/*.safetensors"))[-1:]
    content = bytearray(model.read_bytes())
    content[-8:] = b"\0" * 8 if content[-8:] != b"\0" * 8 else b"\1" * 8
    model.write_bytes(content)
    for command in ("evaluate", "replay"):
        assert str(model) in mistake(capsys, command, run)


def test_a_folder_that_cannot_be_written_is_named(trained, tmp_path, capsys):
    file = tmp_path / "file"
    file.write_text("in the way")
    assert str(file) in mistake(capsys, "train", "tag_gridworld", *TINY, f"saving.folder={file}")
    assert str(file) in mistake(capsys, "replay", trained[0], "-o", file / "tag.gif")


def test_a_run_without_a_checkpoint_is_named(run, capsys):
    shutil.rmtree(run / "checkpoints")
    assert str(run) in mistake(capsys, "evaluate", run)
    metrics = (run / "metrics.csv").read_bytes()
    assert "the checkpoints of the run have been deleted" in mistake(capsys, "train", "--resume", run)
    assert (run / "metrics.csv").read_bytes() == metrics


def test_a_kernel_parameter_that_is_bound_to_nothing_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("game.py").write_text(GAME_WITH_A_MISTAKE)
    Path("game.yaml").write_text(GAME_CONFIG)
    line = mistake(capsys, "train", "game.yaml")
    for words in ("positon", "'position'", "step", "game.py:8"):
        assert words in line


def test_names_cannot_command_a_terminal(tmp_path, monkeypatch, capsys):
    """Names of files, keys and arguments are escaped; brackets in them are no markup."""
    evil = "\x1b]0;owned\x07\u202e[/bold]"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.yaml").write_text('env: {name: cartpole}\n"\\x1b[2Jkey": 1\n')
    for arguments in (["train", f"{evil}.yaml"], ["train", "run.yaml"], [evil], ["envs", evil], ["train", "--" + evil]):
        with suppress(SystemExit):
            assert main(arguments) == 2
        told = capsys.readouterr().err
        assert r"\x1b" in told and "\x1b" not in told and "\u202e" not in told, arguments
    make_console().print(f"a run in {evil}", evil)
    make_console().print(Table(evil))
    told = capsys.readouterr().out
    assert (
        told.count(r"\x1b]0;owned\u202e[/bold]") == 2 and told.count(r"\x1b]0;owned") == 3 and "\x1b" not in told
    )  # rich itself takes the bell away


def test_debug_shows_where_an_error_came_from(capsys):
    with pytest.raises(warpdrive.errors.WarpDriveError):
        main(["train", "tag_gridwrld", "--debug"])


GAME_WITH_A_MISTAKE = '''\
import numpy as np
import warpdrive as wd
from gymnasium import spaces
from numba import cuda


@wd.kernel
def step(positon, actions, observations):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    positon[env, agent] += actions[env, agent]
    observations[env, agent, 0] = positon[env, agent]


class Game(wd.Environment):
    """Nothing happens."""

    name = "game"
    step = step

    def __init__(self):
        self.num_agents, self.episode_length = 2, 5
        self.policy_tags = {"all": [0, 1]}
        self.observation_space = spaces.Box(-1, 1, (1,), np.float32)
        self.action_space = spaces.Discrete(2)

    def initial_state(self, rng):
        return {"position": np.zeros(2, np.int32), "observations": np.zeros((2, 1), np.float32)}
'''

ECHO_CONFIG = f"""\
env: {{name: "{GAMES}:Echo"}}
trainer: {{num_envs: 20, train_batch_size: 200, total_steps: 200, reset_pool_size: 50}}
policy:
  even: {{algorithm: random}}
  odd: {{algorithm: ppo, minibatches: 2, model: {{hidden: [16]}}}}
saving: {{tensorboard: false}}
"""

GAME_CONFIG = """\
env: {name: "game.py:Game"}
trainer: {num_envs: 2, train_batch_size: 6, total_steps: 12}
policy:
  all: {algorithm: ppo}
"""


# --- Ctrl-C ---


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_ctrl_c_leaves_a_checkpoint_and_a_readable_run(tmp_path, monkeypatch, capsys):
    arguments = [*TINY, "trainer.total_steps=1_000_000_000"]
    command = [sys.executable, "-m", "warpdrive", "train", "tag_gridworld", *arguments]
    output = tmp_path / "output.txt"
    with output.open("w") as stream:
        process = subprocess.Popen(command, cwd=tmp_path, stdout=stream, stderr=subprocess.STDOUT)
        try:
            wait_until(lambda: "return" in output.read_text(), process)
            process.send_signal(signal.SIGINT)
            code = process.wait(timeout=300)
        finally:
            process.kill()
    printed = output.read_text()
    assert code == 130, printed
    assert "Traceback" not in printed
    assert "Ctrl-C" in printed

    (run,) = (tmp_path / "runs" / "tag_gridworld").iterdir()
    assert json.loads((run / "summary.json").read_text())["status"] == "interrupted"
    report = (run / "report.html").read_text()
    assert "interrupted: SIGINT" in report and "CPU cores" in report
    monkeypatch.chdir(tmp_path)
    assert main(["evaluate", str(run), "--episodes", "10"]) == 0


@pytest.mark.skipif(os.name == "nt", reason="signals")
@pytest.mark.parametrize(
    ("number", "code"), [pytest.param(signal.SIGTERM, 143, marks=pytest.mark.exhaustive), (signal.SIGHUP, 129)]
)
def test_other_signals_save_and_are_told_by_their_names(number, code, tmp_path):
    """SIGHUP comes when a terminal is closed: what is printed then is an error."""
    import fcntl  # not on Windows
    import termios

    def take_terminal() -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which nohup leaves ignored

    arguments = [*TINY, "trainer.total_steps=1_000_000_000"]
    command = [sys.executable, "-m", "warpdrive", "train", "tag_gridworld", *arguments, "--no-report"]
    terminal, end = os.openpty()
    with (tmp_path / "output.txt").open("w") as stream:
        streams = {"stdin": end, "stdout": end, "stderr": end} if number == signal.SIGHUP else {"stdout": stream}
        process = subprocess.Popen(
            command,
            cwd=tmp_path,
            start_new_session=True,
            preexec_fn=take_terminal if number == signal.SIGHUP else None,
            **{"stderr": subprocess.STDOUT, **streams},
        )
        os.close(end)
        try:
            wait_until(lambda: any(tmp_path.glob("runs/*/*/metrics.csv")), process, 300)
            os.close(terminal)  # which sends SIGHUP
            if number != signal.SIGHUP:
                process.send_signal(number)
            assert process.wait(timeout=300) == code
        finally:
            process.kill()
    printed = (tmp_path / "output.txt").read_text()
    assert "Traceback" not in printed and "Ctrl-C" not in printed
    if number == signal.SIGTERM:
        assert "SIGTERM: stopping after this update" in printed and "stopped by SIGTERM after" in printed
    (run,) = (tmp_path / "runs" / "tag_gridworld").iterdir()
    told = json.loads((run / "summary.json").read_text())
    assert told["status"] == "interrupted" and told["stopped_by"] == number.name
    assert Path(told["checkpoint"]).name == f"step_{told['env_steps']}"


def test_ctrl_c_after_the_training_says_where_the_run_is(tmp_path, monkeypatch, capsys):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(warpdrive.training.trainer.Trainer, "evaluate", interrupt)
    assert main(["train", "tag_gridworld", *TINY]) == 130
    (run,) = (tmp_path / "runs" / "tag_gridworld").iterdir()
    assert f"the run is saved:\n\nruns/tag_gridworld/{run.name}\n" in capsys.readouterr().out
    assert json.loads((run / "summary.json").read_text())["status"] == "finished"


def test_ctrl_c_before_the_first_checkpoint_names_none(tmp_path, monkeypatch, capsys):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(warpdrive.training.learner.Learner, "update", interrupt)
    assert main(["train", "tag_gridworld", *TINY]) == 130
    printed = capsys.readouterr().out
    assert "stopped by Ctrl-C before the first checkpoint" in printed
    assert "None" not in printed and "evaluate" not in printed


def test_a_mistake_in_a_scenery_ends_no_training(tmp_path, monkeypatch, capsys):
    scenes = [Scene((0.0, 1.0, 0.0, 1.0))]  # for the state before the training
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(TagGridworld, "scenery", lambda env, state: None)
    assert main(["train", "tag_gridworld", *TINY]) == 2
    assert "scenery of TagGridworld returned None, expected a Scene" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()
    monkeypatch.setattr(TagGridworld, "scenery", lambda env, state: scenes.pop())
    assert main(["train", "tag_gridworld", *TINY]) == 0
    printed = capsys.readouterr().out
    assert "no replay.gif: scenery of TagGridworld: IndexError: pop from empty list" in printed
    assert "report.html" in printed.partition("next:")[0]


def test_what_cannot_be_drawn_is_not_offered_to_be_drawn(tmp_path, monkeypatch, capsys):
    (tmp_path / "echo.yaml").write_text(ECHO_CONFIG)
    monkeypatch.chdir(tmp_path)
    assert main(["train", "echo.yaml", "trainer.evaluation.num_episodes=2"]) == 0
    printed = capsys.readouterr().out
    assert "no replay.gif: the environment 'echo' has no draw kernel" in printed
    _, _, offered = printed.partition("next:\n")
    assert "warpdrive evaluate runs/Echo/" in offered
    assert "replay" not in offered and "tensorboard" not in offered
