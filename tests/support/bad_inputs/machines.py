"""Machines on which a command cannot do its work, and sizes that no machine has room for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from bad_inputs.verdict import SECONDS, Case, command

_SMALL = (
    "trainer.num_envs=2",
    "trainer.train_batch_size=8",
    "trainer.total_steps=8",
    "trainer.env_backend=cpu",
    "trainer.torch_threads=1",
    "trainer.evaluation.num_episodes=2",
    "policy.agent.minibatches=1",
    "saving.tensorboard=false",
)
_TRAIN = ("train", "cartpole", "--no-replay", *_SMALL)


def sizes(folder: Path) -> Iterator[Case]:
    """Numbers that are valid, and larger than any machine."""
    for text in (
        "trainer.num_envs=2e9",
        "trainer.reset_pool_size=1e7",
        "trainer.reset_pool_size=2e9",
        "policy.agent.model.hidden=[1048576, 1048576]",
        "policy.agent.model.hidden=[1048576, 64, 1048576, 1048576]",
    ):
        size = ("trainer.train_batch_size=2e9",) if "num_envs" in text else ()
        yield command(text, "train", "cartpole", *_SMALL, text, *size)
    yield command("a long rollout", "train", "cartpole", *_SMALL, "trainer.train_batch_size=2e12")
    small = [text for text in _SMALL if "minibatches" not in text]
    for text in (
        "buffer_size: 9e17",
        "buffer_size: 1e12",
        "n_step: 9e17",
        "batch_size: 9e17, buffer_size: 1000",
        "model: {hidden: [1048576, 1048576]}",
    ):
        text = (
            f"algorithm: dqn, learning_starts: 0, {text}"
            + ("" if "batch_size" in text else ", batch_size: 2")
            + ("" if "buffer" in text else ", buffer_size: 100")
        )
        yield command(text, "train", "cartpole", *small, f"policy.agent={{{text}}}")
    for text in ("units: 1048576, type: gru", "units: 1048576, type: lstm"):
        yield command(text, "train", "cartpole", *_SMALL, f"policy.agent.model={{{text}}}")
    for option, value in (
        ("--steps", "9" * 30),
        ("--replicas", "9" * 30),
        ("--replicas", "2000000000"),
        ("--seed", "9" * 30),
        ("--steps", "0"),
        ("--seed", "-1"),
    ):
        yield command(f"check {option} {value[:5]}", "check", "cartpole", option, value)
    for option, value in (
        ("--memory", "x"),
        ("--memory", "0"),
        ("--memory", "-1GiB"),
        ("--memory", "nan"),
        ("--memory", "9" * 400),
        ("--seconds", "x"),
        ("--seconds", "0"),
        ("--seconds", "-1"),
        ("--seconds", "nan"),
        ("--seconds", "inf"),
        ("--time_limit", "0"),
        ("--min_updates", "0"),
        ("-o", "x"),
        ("-o", "no/such/x.yaml"),
        ("-o", str(folder)),
        ("-o", ""),
    ):
        if value or option == "--memory":
            yield command(f"autoscale {option} {value[:10]}", "autoscale", "cartpole", option, value)
    for text in (
        "policy.agent.lr=uniform(1,)",
        "policy.agent.lr=uniform(2,1)",
        "policy.agent.lr=loguniform(0,1)",
        "policy.agent.lr=integer(a,b)",
        "policy.agent.lr=uniform(nan,1)",
        "policy.agent.lr=uniform()",
        "policy.agent.no=uniform(0,1)",
        "policy.agent.lr=[]",
        "policy.agent.lr=uniform(0,1)(",
        "a=uniform(0,1)",
        "policy.agent.lr=[x, y]",
        "policy.agent.lr=uniform(1e400,1)",
        "policy.agent.lr=integer(0,1e400)",
        "policy.agent.lr=integer(1.5,2)",
        "policy.agent.lr=loguniform(1,inf)",
    ):
        yield command(f"sweep {text}", "sweep", "cartpole", text, f"saving.folder={folder}", "--trials", "1")
    for words in (
        (),
        ("nothing",),
        ("train",),
        ("train", "--no-such"),
        ("evaluate",),
        ("train", "--resume"),
        ("-x",),
        ("train", "cartpole", "--num_processes", "0"),
        ("plot",),
        ("report",),
        ("report", "--best"),
        ("convert",),
        ("convert", "x.yaml", "y.yaml"),
        ("completion",),
        ("schema", "-o"),
        ("train", "cartpole", "--num_gpus", "x"),
        ("train", "cartpole", "--resume", "x"),
        ("sweep",),
        ("sweep", "cartpole", "--engine", "x"),
        ("replay",),
        ("export",),
        ("train", "cartpole", "-n", "99"),
        ("check",),
        ("init",),
        ("train", "cartpole", "--num_processes", "9" * 30),
        ("\x1b[31m",),
        ("train", "--\x1b[31m"),
        ("envs", "no_such"),
        ("train", "carpole"),
        ("train", "cartpole", "--num_processes", "5000"),
    ):
        yield command(f"words {words!r:.60}", *words)
    (folder / "sweep").mkdir()
    for text in ("", "5", "[]", "{}", "null", '{"space": 5}', "[" * 10_000, "\x00"):
        stored = folder / "sweep" / "sweep.json"

        def resumed(text: str = text) -> int:
            from bad_inputs.verdict import exit_code

            stored.write_text(text)
            return exit_code(("sweep", "--resume", str(folder / "sweep")))

        yield Case(f"sweep.json: {text[:20]!r}", resumed)


def machines(folder: Path) -> Iterator[Case]:
    """Environment variables, working directories, folders and pipes that are in the way; each in a process of its own."""
    for name, changes in {
        "MASTER_PORT=x": {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "x"},
        "MASTER_PORT=99999": {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "99999"},
        "RANK=abc": {"RANK": "abc", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "29999"},
        "RANK=-1": {"RANK": "-1", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "29999"},
        "RANK=5 of 2": {"RANK": "5", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "29999"},
        "WORLD_SIZE=0": {"RANK": "0", "WORLD_SIZE": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": "29999"},
        "WORLD_SIZE=x": {"RANK": "0", "WORLD_SIZE": "x", "MASTER_ADDR": "localhost", "MASTER_PORT": "29999"},
        "WORLD_SIZE without RANK": {"WORLD_SIZE": "2"},
        "LOCAL_RANK=x": {
            "RANK": "0",
            "WORLD_SIZE": "1",
            "LOCAL_RANK": "x",
            "MASTER_ADDR": "localhost",
            "MASTER_PORT": "29999",
        },
        "LOCAL_WORLD_SIZE=x": {"LOCAL_WORLD_SIZE": "x"},
        "NUMBA_DISABLE_JIT": {"NUMBA_DISABLE_JIT": "1"},
    }.items():
        yield _process(
            name, _TRAIN, variables=changes, code=2 if name not in ("LOCAL_RANK=x", "LOCAL_WORLD_SIZE=x") else None
        )
    for name, changes in {
        "an odd terminal": {"TERM": "no-such-terminal"},
        "no terminal": {"TERM": ""},
        "COLUMNS=0": {"COLUMNS": "0", "LINES": "0"},
        "COLUMNS=x": {"COLUMNS": "x"},
        "PYTHONOPTIMIZE": {"PYTHONOPTIMIZE": "2"},
        "an odd locale": {"LC_ALL": "xx_XX.no-such"},
        "ASCII": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"},
        "no HOME": {"HOME": "/no/such/home", "XDG_CACHE_HOME": ""},
        "a cache that cannot be written": {
            "WARPDRIVE_CACHE_DIR": "/proc/x",
            "XDG_CACHE_HOME": "/proc/x",
            "NUMBA_CACHE_DIR": "/proc/x",
        },
    }.items():
        yield _process(name, ("envs", "cartpole"), variables=changes, code=0)
    gone = folder / "gone"
    gone.mkdir()
    yield _process("a deleted working directory", _TRAIN, directory=gone, prepare=gone.rmdir)
    yield _process("| head", ("envs",), reads=1, code=None)  # 141, or 0 where all fits into the pipe
    yield _process("| head of help", ("--help",), reads=1, code=None)
    for delay in (0.3, 0.8, 1.5, 2.5):
        yield _process(f"Ctrl-C after {delay} s", _TRAIN, interrupt=delay, code=130)


def _process(
    name: str,
    words: Sequence[str],
    *,
    variables: Mapping[str, str] | None = None,
    directory: Path | None = None,
    prepare: Callable[[], object] = lambda: None,
    reads: int | None = None,
    interrupt: float | None = None,
    code: int | None = 2,
) -> Case:
    """Return a case of a process; with ``code`` 0, 130 or 141 it must do its work, or end, without a traceback."""

    def run() -> int:
        from warpdrive.errors import WarpDriveError

        before = f"import os; os.chdir({str(directory)!r}); os.rmdir({str(directory)!r}); " if directory else ""
        program = f"{before}import sys; from warpdrive.training.cli.main import main; sys.exit(main())"
        process = subprocess.Popen(
            [sys.executable, "-c", program, *words],
            env={**os.environ, **(variables or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            assert process.stdout is not None and process.stderr is not None
            if reads is not None:
                process.stdout.read(reads)
                process.stdout.close()
                error = process.stderr.read()
            else:
                if interrupt is not None:
                    time.sleep(interrupt)
                    process.send_signal(signal.SIGINT)
                _, error = process.communicate(timeout=SECONDS - 2)
            found = process.wait()
        finally:
            process.kill()
        told = error.decode(errors="replace")
        if "Traceback" in told or (code is not None and found != code and not (interrupt and found in (0, -2))):
            raise AssertionError(f"exit code {found}: {told[-250:]}")
        if code == 2:
            raise WarpDriveError(told.strip())
        raise WarpDriveError("as it should be")

    return Case(name, run)
