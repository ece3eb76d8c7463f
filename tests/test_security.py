"""Attacks by others who share a machine, a folder or a run with a user."""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from paths import ROOT

import warpdrive as wd
from warpdrive import errors, used_code
from warpdrive.backends.shared import cache
from warpdrive.errors import TeamError, TrustError
from warpdrive.private import is_private, user_folder
from warpdrive.recording.recording import Recording
from warpdrive.training.checkpoint.checkpoint import _with_checksum, read_checkpoint, write_checkpoint
from warpdrive.training.cli.main import main
from warpdrive.training.cli.replay import _usual_output
from warpdrive.training.config.load import load_config
from warpdrive.training.config.named_code import check_named_code
from warpdrive.training.config.schema import RunConfig
from warpdrive.training.distributed.folder_store import LAUNCHER, FolderStore
from warpdrive.training.distributed.objects import decoded, encoded
from warpdrive.training.distributed.rendezvous import _listen
from warpdrive.training.sweep.trial import main as run_trial
from warpdrive.training.trainer import Trainer, make_env
from warpdrive.training.watch.recorder import Recorder
from warpdrive.training.web.source import _replicas

ANOTHER_USER = 65532
"""User id without an account."""
reads_proc = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
as_root = pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="needs root, to be another user")

GAME = """
import numpy as np
from gymnasium import spaces
from numba import cuda

import warpdrive as wd


@wd.kernel
def step(x, actions, rewards, observations):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    x[env, agent] = actions[env, agent]
    rewards[env, agent] = x[env, agent]
    observations[env, agent, 0] = x[env, agent]


class Game(wd.Environment):
    name = "game"
    step = step
    num_agents, episode_length = 2, 5
    policy_tags = {"all": [0, 1]}
    observation_space = spaces.Box(-1.0, 2.0, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def initial_state(self, rng):
        return {"x": np.zeros(2, np.int32), "observations": np.zeros((2, 1), np.float32)}
"""


def configuration(folder: Path, **changes: Any) -> dict[str, Any]:
    """Return the configuration of a short run."""
    values: dict[str, Any] = {
        "name": "game",
        "env": {"name": f"{folder}/my_game.py:Game"},
        "trainer": {"num_envs": 2, "train_batch_size": 10, "total_steps": 20, "env_backend": "cpu", "seed": 0},
        "policy": {"all": {"algorithm": "ppo", "minibatches": 1, "epochs": 1, "model": {"hidden": [4]}}},
        "saving": {"folder": f"{folder}/runs", "tensorboard": False},
    }
    values["trainer"]["evaluation"] = {"num_episodes": 2}
    return {**values, **changes}


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give an empty cache, which knows no code that this user has used."""
    monkeypatch.setattr("warpdrive.used_code._in_this_process", {})
    kernels = cache.cache_folder()
    monkeypatch.setattr("warpdrive.used_code.user_folder", lambda name: tmp_path / "cache" / name)
    monkeypatch.setenv(cache.CACHE_VARIABLE, str(kernels.parent))  # of processes that are started
    (tmp_path / "cache").mkdir(mode=0o700)
    return tmp_path / "cache"


@pytest.fixture
def run_folder(tmp_path: Path, own_cache: Path) -> Path:
    """Give a run received from others, with the file of its environment."""
    home = tmp_path / "stranger"
    home.mkdir()
    (home / "my_game.py").write_text(GAME)
    config = load_config(configuration(home))
    run = Trainer(make_env(config), config).train().run_folder
    shutil.rmtree(own_cache)
    own_cache.mkdir(mode=0o700)
    used_code._in_this_process.clear()
    for name in [name for name in sys.modules if name.startswith("warpdrive_file_my_game")]:
        del sys.modules[name]
    return run


# --- processes of one run


def listening(pids: set[int]) -> set[tuple[str, int]]:
    """Return the addresses and ports at which processes listen, by TCP or UDP, from ``/proc``."""
    inodes = set()
    for pid in pids:
        for handle in Path(f"/proc/{pid}/fd").iterdir():
            try:
                target = os.readlink(handle)
            except OSError:
                continue
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    found = set()
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6), ("udp", socket.AF_INET)):
        path = Path("/proc/net") / table
        for line in path.read_text().splitlines()[1:] if path.exists() else []:
            words = line.split()
            place, state, inode = words[1], words[3], words[9]
            if inode in inodes and (state == "0A" or table == "udp"):
                address, port = place.split(":")
                raw = bytes.fromhex(address)
                host = b"".join(struct.pack("<I", *struct.unpack(">I", raw[i : i + 4])) for i in range(0, len(raw), 4))
                found.add((socket.inet_ntop(family, host), int(port, 16)))
    return found


def family_of(pid: int) -> set[int]:
    """Return the ids of a process and its descendants."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(stat.parent.name)] = int(words[1])
    found, more = {pid}, True
    while more:
        children = {child for child, parent in parents.items() if parent in found} - found
        found, more = found | children, bool(children)
    return found


def meeting_variables() -> dict[str, str]:
    """Return the variables by which two processes of this machine meet at a free port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    return {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}


def addresses_of_this_machine() -> list[str]:
    """Return the addresses by which others reach this machine."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            return []
        return [probe.getsockname()[0]]


@pytest.fixture
def endless(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start an endless run; return it once it has a checkpoint."""
    (tmp_path / "my_game.py").write_text(GAME)
    values = configuration(tmp_path)
    values["trainer"]["total_steps"] = 10**9
    values["saving"]["checkpoint_every"] = 10
    (tmp_path / "run.yaml").write_text(json.dumps(values))
    jobs = []

    def start(*options: str, processes: int = 1, **variables: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "warpdrive", "train", str(tmp_path / "run.yaml"), "--no-replay", *options]
        for rank in range(processes):
            ranks = {"RANK": str(rank), "LOCAL_RANK": str(rank)} if processes > 1 else {}
            with (tmp_path / "log").open("ab") as log:
                environment = {**os.environ, "OMP_NUM_THREADS": "1", **variables, **ranks}
                jobs.append(subprocess.Popen(command, stdout=log, stderr=log, env=environment))
        until = time.monotonic() + 240
        while not any(tmp_path.glob("runs/*/*/checkpoints/step_*")):
            assert time.monotonic() < until and all(job.poll() is None for job in jobs), (tmp_path / "log").read_text()
            time.sleep(0.1)
        return jobs[0]

    yield start
    for job in jobs:
        job.kill()
        job.wait()


def assert_reached_from_this_machine_only() -> None:
    """Assert that the processes that were started here listen at the loopback interface only."""
    found = listening(family_of(os.getpid()))
    assert found, "the processes exchange messages somehow"
    assert {address for address, _ in found} <= {"127.0.0.1", "::1"}
    for address in addresses_of_this_machine():
        for _, port in found:
            with pytest.raises(OSError), socket.create_connection((address, port), timeout=5):
                pass


@pytest.mark.exhaustive
@reads_proc
def test_processes_that_meet_by_variables_listen_at_the_loopback_interface(
    endless: Callable[..., subprocess.Popen[bytes]],
) -> None:
    endless(processes=2, **meeting_variables())
    assert_reached_from_this_machine_only()


@reads_proc
def test_launched_processes_meet_in_a_private_folder(
    endless: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    """They listen at the loopback interface; the folder is removed and a summary written when rank 0 is killed."""
    job = endless("--num_processes", "2", GLOO_SOCKET_IFNAME="eth0")
    assert_reached_from_this_machine_only()
    (folder,) = {read_variable(pid, "WARPDRIVE_MEETING") for pid in family_of(job.pid) - {job.pid}} - {None}
    assert is_private(Path(folder))
    if os.getuid() == 0:
        assert as_another_user(f"import os; os.listdir({folder!r})") == "PermissionError"
    rank_0 = re.search(r"rank 0 is process (\d+)", (tmp_path / "log").read_text())
    assert rank_0
    os.kill(int(rank_0[1]), signal.SIGKILL)
    assert job.wait(90) == 2
    (summary,) = tmp_path.glob("runs/*/*/summary.json")
    told = json.loads(summary.read_text())
    assert told["status"] == "failed" and "rank 0" in told["message"] and "was killed by SIGKILL" in told["message"]
    assert Path(told["checkpoint"]).name == f"step_{told['env_steps']}"
    assert not Path(folder).exists()


def read_variable(pid: int, name: str) -> str | None:
    """Return a variable of the environment that a process was started with."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    return next((text[len(name) + 1 :].decode() for text in variables if text.startswith(f"{name}=".encode())), None)


def as_another_user(program: str, user: int = ANOTHER_USER) -> str:
    """Run a program as another user; return what it prints, or the class of the error that ends it."""
    done = subprocess.run(
        [sys.executable, "-c", f"import os\nos.setgroups([]); os.setgid({user}); os.setuid({user})\n{program}"],
        capture_output=True,
        text=True,
        timeout=240,
    )
    return done.stdout.strip() if done.returncode == 0 else done.stderr.strip().splitlines()[-1].split(":")[0]


class Evil:
    """Malicious object that runs a function when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Run a command."""
        return os.system, ("touch run_by_a_stranger",)


def test_a_message_is_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for raw in (pickle.dumps(Evil()), b"", b"nonsense"):
        with pytest.raises(TeamError, match="cannot decode a message from another process"):
            decoded(torch.frombuffer(bytearray(raw or b"\0"), dtype=torch.uint8))
    torch.save(Evil(), tmp_path / "file")
    with pytest.raises(TeamError, match="cannot decode a message"):
        decoded(torch.frombuffer(bytearray((tmp_path / "file").read_bytes()), dtype=torch.uint8))
    with pytest.raises(TeamError, match="found Evil, which cannot be sent"):
        encoded({"x": Evil()})
    sent = {"path": tmp_path, "parts": [(1, 2.5, None), torch.arange(3)], "error": errors.ConfigError("no such key")}
    found = decoded(encoded(sent))
    assert found["path"] == tmp_path and found["parts"][0] == (1, 2.5, None)
    assert found["parts"][1].tolist() == [0, 1, 2]
    assert type(found["error"]) is errors.ConfigError and str(found["error"]) == "no such key"
    assert not (tmp_path / "run_by_a_stranger").exists()


def test_no_code_reads_pickles() -> None:
    """But for the types of variables in generated code, which is compared with what this user may run anyway."""
    dangerous = re.compile(
        r"pickle\.loads?\(|Unpickler|allow_pickle=True|weights_only=False|\byaml\.(unsafe_load|full_load|Loader)\b"
        r"|all_gather_object|broadcast_object_list|gather_object\(|torch\.load\((?!.*weights_only=True)"
    )
    found = {
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for folder in ("warpdrive", "training", "envs")
        for path in (ROOT / folder).rglob("*.py")
        for line in path.read_text().splitlines()
        if dangerous.search(line)
    }
    assert found == {
        "warpdrive/backends/host/kept_values.py: kind = pickle.loads(pickled)",
        # an environment that this process sends to those it starts
        "warpdrive/interop/host/workers.py: source: HostSource = cloudpickle.loads(code)",
        # an exception that this process has pickled, to see whether it can be
        "warpdrive/interop/warpdrive2/processes.py: pickle.loads(pickled)",
        # functions in kernels that a program has pickled itself
        "warpdrive/numba_cuda/dispatcher.py: return CUDADispatcher(pickle.loads(function), *arguments)",
        "warpdrive/numba_cuda/elementwise.py: return DeviceUFunc(pickle.loads(function), declared)",
    }


def test_processes_with_different_secrets_do_not_train_together() -> None:
    meeting = meeting_variables()
    program = "from warpdrive.training.distributed.bootstrap import join; join(60)"
    both = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            env={**os.environ, **meeting, "RANK": rank, "LOCAL_RANK": rank, "WARPDRIVE_TEAM_SECRET": f"secret {rank}"},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in "01"
    ]
    told = [process.communicate(timeout=240)[1] for process in both]
    assert [process.returncode for process in both] == [1, 1]
    assert "the peer connected as rank 1 belongs to another run, or has another WARPDRIVE_TEAM_SECRET" in told[0]
    assert "the peer connected as rank 0 belongs to another run" in told[1]


def test_the_store_listens_at_the_address_that_is_given() -> None:
    with _listen("127.0.0.1", 0, alone=False) as found:
        assert found.getsockname()[0] == "127.0.0.1"
    with _listen("localhost", 0, alone=False) as found:
        assert found.getsockname()[0] == "127.0.0.1"
    with pytest.raises(TeamError, match=r"cannot listen at 192\.0\.2\.1:.*MASTER_ADDR must be an address of this"):
        _listen("192.0.2.1", 0, alone=False)


def test_processes_do_not_meet_in_a_folder_that_others_can_write_to(tmp_path: Path) -> None:
    folder = tmp_path / "meeting"
    folder.mkdir(mode=0o700)
    (folder / LAUNCHER).touch()
    store = FolderStore(folder, 1.0)
    store.set("a/b", "x")
    assert store.get("a/b") == b"x"
    with pytest.raises(RuntimeError, match="the launcher has exited"):
        store.check(["a/b"])
    folder.chmod(0o777)
    with pytest.raises(TeamError, match="other users can write to it"):
        FolderStore(folder, 1.0)


# --- folders that users share


KERNEL = """
import numpy as np
from numba import cuda

import warpdrive as wd


@wd.kernel
def fill(x):
    x[cuda.grid(1)] = 5


x = np.zeros(1)
fill[1, 1](x)
print(x)
"""


@as_root
def test_a_cache_of_somebody_else_is_not_used(tmp_path: Path) -> None:
    """Another user has filled a shared folder, and planted a program; this one uses, and leaves, none of it."""
    shared = Path(tempfile.mkdtemp(prefix="warpdrive-shared-"))  # not below pytest's, which others cannot enter
    shared.chmod(0o1777)
    mine = tmp_path / "program.py"
    mine.write_text(KERNEL)
    variables = {**os.environ, "WARPDRIVE_CACHE_DIR": str(shared)}
    try:
        for _ in range(2):  # the key of what is compiled is known to all who have the same program
            done = subprocess.run([sys.executable, mine], env=variables, capture_output=True, text=True, timeout=240)
            assert done.stdout == "[5.]\n", done.stderr
            (own,) = shared.iterdir()
            assert own.name == f"user-{os.getuid()}" and own.stat().st_mode & 0o777 == 0o700
            for folder in (own / "kernels").iterdir():  # as if they had been others' all the time
                for path in folder.glob("*.py") if folder.is_dir() else ():
                    path.write_text(f"raise SystemExit('run by a stranger: {path.name}')\n")
                    os.chown(path, ANOTHER_USER, ANOTHER_USER)
        assert as_another_user(f"import os; os.listdir({str(own)!r})") == "PermissionError"
    finally:
        shutil.rmtree(shared)


@as_root
def test_users_of_a_shared_cache_do_not_disturb_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner of a folder can replace what is in it, whatever its mode: another user's is not used."""
    for mode in (0o1777, 0o777, 0o700):
        shared = tmp_path / oct(mode)
        shared.mkdir()
        shared.chmod(mode)
        os.chown(shared, ANOTHER_USER, ANOTHER_USER)
        monkeypatch.setenv("WARPDRIVE_CACHE_DIR", str(shared))
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
        found = user_folder("kernels")
        assert shared not in found.parents and tmp_path / "home" in found.parents
        assert is_private(found.parent)
    monkeypatch.setenv("WARPDRIVE_CACHE_DIR", str(tmp_path / "mine"))
    assert user_folder("kernels") == tmp_path / "mine" / "kernels"


# --- runs of strangers


COMMANDS = {
    "evaluate": ["evaluate", "{run}"],
    "replay": ["replay", "{run}", "-o", "{run}/new.gif"],
    "resume": ["train", "--resume", "{run}", "--no-replay"],
    "again": ["train", "{run}/config.yaml", "--no-replay"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_code_in_a_run_of_others_is_not_executed(
    command: str, run_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is named; with --trust it is executed, and known from then on."""
    game = run_folder.parents[2] / "my_game.py"
    game.write_text(f"open({str(game)!r} + '.ran', 'w').close()\n" + game.read_text())
    arguments = [text.format(run=run_folder) for text in COMMANDS[command]]
    monkeypatch.chdir(run_folder)
    assert main(arguments) == 2
    told = capsys.readouterr().err
    assert str(game) in told and "env.name" in told and "if you trust it, pass --trust" in told
    assert len(told.splitlines()) == 1
    assert not Path(f"{game}.ran").exists()
    if command == "evaluate":
        assert main([*arguments, "--trust"]) == 0
        assert Path(f"{game}.ran").exists()
        assert main(arguments) == 0
        game.write_text(game.read_text() + "# another one\n")
        monkeypatch.setattr("warpdrive.used_code._in_this_process", {})
        assert main(arguments) == 2
        assert "has changed since you used it" in capsys.readouterr().err


def test_own_runs_are_trusted(tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In another process, too: code that this user has trained with is known by its path and content."""
    (tmp_path / "my_game.py").write_text(GAME)
    config = load_config(configuration(tmp_path))
    run = Trainer(make_env(config), config).train().run_folder
    monkeypatch.setattr("warpdrive.used_code._in_this_process", {})
    assert Trainer.resume(run).env_steps == 20
    assert Trainer.load(run).env_steps == 20
    # a run of others that contains the same file at another path is not trusted
    copy = tmp_path / "copy"
    copy.mkdir()
    shutil.copy(tmp_path / "my_game.py", copy)
    manifest = next(run.glob("checkpoints/step_*/manifest.json"))
    rewrite(manifest, lambda told: told["config"]["env"].update(name=f"{copy}/my_game.py:Game"))
    with pytest.raises(TrustError, match=re.escape(f"{copy}/my_game.py")):
        Trainer.load(run)


def rewrite(manifest: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a manifest, with knowledge of the checkpoint format."""
    told = json.loads(manifest.read_text())
    change(told)
    manifest.write_text(_with_checksum(told))


@pytest.mark.parametrize(
    "change",
    [
        {"policy": {"all": {"algorithm": "function", "function": "os:system"}}},
        {"policy": {"all": {"algorithm": "custom", "function": "timeit:timeit", "setup": "import antigravity"}}},
        {"policy": {"all": {"algorithm": "ppo", "model": {"type": "evil.py:Model"}}}},
        {"env": {"name": "evil:Game"}},
        {"env": {"name": "runpy:Game"}},
        {"env": {"name": "numba.__main__:Game"}},
        {"env": {"name": "../evil.py:Game"}},
    ],
    ids=str,
)
def test_code_named_by_a_manifest(change: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither local files nor functions of installed modules, which take any arguments."""
    (tmp_path / "inner").mkdir()
    for folder in (tmp_path, tmp_path / "inner"):
        (folder / "evil.py").write_text("raise SystemExit('run by a stranger')")
    monkeypatch.chdir(tmp_path / "inner")
    with pytest.raises(TrustError, match="would be executed"):
        load_config(configuration(tmp_path, env={"name": "cartpole"}) | change, trust=False)


@pytest.fixture
def evil_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder with ``evil.py``, which nobody may execute."""
    (tmp_path / "evil.py").write_text("raise SystemExit('run by a stranger')")
    monkeypatch.chdir(tmp_path)


OF_OTHER_LIBRARIES = [
    {"name": "gymnasium", "id": "evil:X-v0"},
    {"name": "pettingzoo", "id": "evil.py:X"},
    {"name": "warpdrive2", "id": "evil.py:X"},
]


@pytest.mark.parametrize(
    "env", ["evil.py:Game", *({env["name"]: env["id"]} for env in OF_OTHER_LIBRARIES), *OF_OTHER_LIBRARIES], ids=str
)
def test_code_named_in_short_by_a_manifest(env: Any) -> None:
    """As run configurations may name it; what is in a manifest is always written in full by WarpDrive."""
    with pytest.raises(TrustError, match=r"env\.(name|id): found evil"):
        check_named_code({"env": env, "policy": {}}, "the manifest")


@pytest.mark.parametrize("env", OF_OTHER_LIBRARIES, ids=str)
def test_code_of_other_libraries_named_by_a_recording_or_for_a_page(env: dict[str, Any], evil_module: None) -> None:
    name, config = env["name"], {key: value for key, value in env.items() if key != "name"}
    none = np.zeros(1)
    arrays = {"replicas": none, "seed": 0, "rewards": none, "log_probabilities": none, "lengths": none}
    ends = {"actions": none, "terminated": none, "truncated": none}
    recording = Recording(name, config, {"agent": [0]}, [], states={}, **arrays, **ends)
    with pytest.raises(TrustError, match=r"the recording: env\.id: found evil"):
        wd.replay(recording)
    run = RunConfig.model_validate(configuration(Path("x"), env=env))
    with pytest.raises(TrustError, match=r"run: env\.id: found evil"):
        _replicas(run, 0, Path("run"), trust=False)


@pytest.mark.parametrize("argument", ["env.name=evil.py:Game", "env.name=[cartpole, evil.py:Game]"])
def test_code_named_by_a_sweep_of_others(argument: str, evil_module: None, capsys: pytest.CaptureFixture[str]) -> None:
    """Its arguments were not given by this user, nor are the configurations of its trials."""
    config = configuration(Path("x"), env={"name": "cartpole"})
    config["policy"] = {"agent": config["policy"]["all"]}
    Path("sweep/trial_000").mkdir(parents=True)
    Path("run.yaml").write_text(json.dumps(config))
    request = {"source": "run.yaml", "arguments": [argument, "trainer.seed=[1]"], "engine": "grid", "trials": None}
    Path("sweep/sweep.json").write_text(json.dumps({**request, "seed": 0, "minimise": False, "tag": None}))
    values = {"env.name": "cartpole", "trainer.seed": 1}
    result = {"status": "finished", "values": values, "returns": {"agent": 1.0}}
    Path("sweep/trial_000/trial.json").write_text(json.dumps({"values": values}))
    Path("sweep/trial_000/result.json").write_text(json.dumps(result))
    assert main(["sweep", "--resume", "sweep"]) == 2
    assert "env.name: found evil.py:Game" in capsys.readouterr().err.replace(f"{Path.cwd()}/", "")
    Path("sweep/trial_000/trial.yaml").write_text(json.dumps(config | {"env": {"name": "evil.py:Game"}}))
    run_trial(Path("sweep/trial_000"), trust=False)
    assert "evil.py:Game" in json.loads(Path("sweep/trial_000/result.json").read_text())["reason"]


def test_a_policy_is_loaded_without_the_code_of_its_environment(run_folder: Path) -> None:
    policy = wd.load_policy(run_folder)
    assert policy.act(torch.zeros(3, 1)).shape == (3,)
    manifest = next(run_folder.glob("checkpoints/step_*/manifest.json"))
    rewrite(manifest, lambda told: told["config"]["policy"]["all"].update(model={"type": "evil.py:Model"}))
    with pytest.raises(TrustError, match=r"policy\.all\.model\.type: found evil\.py:Model"):
        wd.load_policy(run_folder)


def test_an_episode_of_a_run_of_others_is_not_recorded(run_folder: Path) -> None:
    with pytest.raises(TrustError, match=r"env\.name: found .*my_game\.py"):
        Recorder(run_folder, trust=False).next()


def test_code_named_by_a_recording_is_not_executed(run_folder: Path, tmp_path: Path) -> None:
    trainer = Trainer.load(run_folder, trust=True)
    trainer.fetch_episode().save(tmp_path / "episode.npz")
    used_code._in_this_process.clear()
    shutil.rmtree(tmp_path / "cache")
    with pytest.raises(TrustError, match=r"the recording: env\.name: found .*my_game\.py"):
        wd.replay(tmp_path / "episode.npz")


def test_a_run_folder_shadows_no_module(run_folder: Path) -> None:
    """``python -m`` looks into the working directory first, where a run may have brought modules of any name."""
    for name in ("numpy", "torch", "rich", "wandb"):
        (run_folder / f"{name}.py").write_text("raise SystemExit('run by a stranger')")
    done = subprocess.run(
        [sys.executable, "-m", "warpdrive", "evaluate", "."], cwd=run_folder, capture_output=True, text=True
    )
    assert done.returncode == 2 and "if you trust it" in done.stderr, done.stderr


def test_a_checkpoint_names_no_folder_outside_of_its_run(run_folder: Path) -> None:
    (run_folder.parent / "others").mkdir()
    folder = run_folder / "checkpoints" / "step_20"
    checkpoint = read_checkpoint(folder)
    checkpoint.state["best"] = {"metric": "", "mode": "max", "value": 0.0, "env_steps": "20/../../../others"}
    write_checkpoint(folder, checkpoint)
    with pytest.raises(errors.CheckpointError, match=r"found best = '20/.*others', expected a number"):
        Trainer.resume(run_folder, trust=True)


def test_the_animation_of_a_recording_replaces_no_link(tmp_path: Path) -> None:
    (tmp_path / "episode.gif").symlink_to("precious")
    with pytest.raises(errors.CheckpointError, match="is a symbolic link"):
        _usual_output(str(tmp_path / "episode.npz"))


@pytest.mark.parametrize("name", ["metrics.csv", "config.yaml", "checkpoints/latest", "replay.gif"])
def test_writes_into_a_run_do_not_follow_links(name: str, run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    precious = run_folder.parent / "precious"
    precious.write_text("mine")
    (run_folder / name).unlink(missing_ok=True)
    (run_folder / name).symlink_to(precious)
    command = ["replay", str(run_folder)] if name == "replay.gif" else ["train", "--resume", str(run_folder)]
    assert main([*command, "--trust", *["trainer.total_steps=40"] * (name != "replay.gif")]) == 2
    assert f"{run_folder / name}: is a symbolic link" in capsys.readouterr().err
    assert precious.read_text() == "mine"
