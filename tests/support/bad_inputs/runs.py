"""Run folders and checkpoints that are damaged, forged, or of something else."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from bad_inputs.verdict import Case, command, verdict

import warpdrive as wd
from warpdrive.training.config.load import load_config
from warpdrive.training.trainer import Trainer, make_env


def train(folder: Path, environment: str = "cartpole", *overrides: str) -> Path:
    """Train for two updates, with a checkpoint after each; return the run folder."""
    small = [
        "num_envs=2",
        "train_batch_size=8",
        "total_steps=16",
        "env_backend=cpu",
        "torch_threads=1",
        "evaluation.num_episodes=2",
    ]
    saving = [f"saving.folder={folder}", "saving.tensorboard=false", "saving.checkpoint_every=1"]
    config = load_config(environment, [*(f"trainer.{text}" for text in small), *saving, *overrides])
    trainer = Trainer(make_env(config), config)
    return trainer.train().run_folder


_PPO = "policy.agent.minibatches=1"


def damages(folder: Path) -> Iterator[Case]:
    """Every file of a checkpoint flipped everywhere, cut, emptied, swapped, replaced and removed."""
    run = train(folder / "runs", "cartpole", _PPO)
    sound = run / "checkpoints" / "step_16"
    copy = folder / "checkpoints" / "step_16"
    files = sorted(path.name for path in sound.iterdir())
    other = sorted((run / "checkpoints" / "step_8").iterdir())[0].parent

    def damaged(name: str, how: str, damage: Callable[[Path], Any]) -> Iterator[Case]:
        def load() -> None:
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(sound, copy)
            damage(copy / name)
            Trainer.load(copy)

        yield Case(f"{name}: {how}", load, "step_16/")

    for name in files:
        content = (sound / name).read_bytes()
        for place in (n * len(content) // 40 for n in range(40)):
            for bit in (0, 5):
                changed = bytearray(content)
                changed[place] ^= 1 << bit
                yield from damaged(
                    name, f"bit {bit} of byte {place} flipped", lambda path, data=bytes(changed): _write(path, data)
                )
        for part in (0, 1, 2, 3, 5, 8, 9):
            cut = content[: part * len(content) // 10]
            yield from damaged(name, f"cut after {len(cut)} bytes", lambda path, data=cut: _write(path, data))
        yield from damaged(name, "one byte too many", lambda path, data=content + b"x": _write(path, data))
        yield from damaged(name, "one new line too many", lambda path, data=content + b"\n": _write(path, data))
        yield from damaged(name, "one byte too few", lambda path, data=content[:-1]: _write(path, data))
        yield from damaged(name, "zeros", lambda path, data=content: _write(path, bytes(len(data))))
        yield from damaged(name, "missing", lambda path: path.unlink())
        yield from damaged(name, "a folder", lambda path: (path.unlink(), path.mkdir()))
        yield from damaged(name, "a dangling link", lambda path: (path.unlink(), path.symlink_to("nowhere")))
        yield from damaged(name, "a FIFO", lambda path: (path.unlink(), os.mkfifo(path)))
        yield from damaged(name, "a link to /dev/zero", lambda path: (path.unlink(), path.symlink_to("/dev/zero")))
        yield from damaged(name, "of another checkpoint", lambda path: shutil.copy(other / path.name, path))
        for swapped in files:
            if swapped != name:
                yield from damaged(
                    name, f"swapped with {swapped}", lambda path, swapped=swapped: _swap(path, path.with_name(swapped))
                )


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _swap(one: Path, other: Path) -> None:
    one.rename(one.with_name("aside"))
    other.rename(one)
    one.with_name("aside").rename(other)


_FORGED: list[tuple[str, Any]] = [
    *[
        (key, value)
        for key in ("config", "policies", "spaces", "files", "format")
        for value in (None, 5, "x", [], {}, True, [None], {"a": 1}, 1e300)
    ],
    *[
        ("policies", value)
        for value in (["nobody"], ["../../x"], [5], [["agent"]], ["a" * 5000], ["\0"], ["agent", "b"])
    ],
    *[
        ("config.policy", value)
        for value in (None, 5, [], {}, {"nobody": {"algorithm": "ppo"}}, {"agent": {}}, {"agent": None})
    ],
    *[
        ("config.policy.agent.algorithm", value)
        for value in (None, 5, [], {}, "no such", "dqn", "random", "a2c", "function", "self_play")
    ],
    *[
        ("config.policy.agent.model", value)
        for value in (None, 5, [], {"type": "no such"}, {"type": []}, {"hidden": [5]}, {"type": "gru"})
    ],
    *[
        ("config.env", value)
        for value in (None, 5, [], {}, {"name": 5}, {"name": "no_such"}, {"name": "pendulum"}, {"name": "no_such.py:X"})
    ],
    *[("config.trainer", value) for value in (None, 5, [], {}, {"num_envs": 5})],
    *[("config.trainer.num_envs", value) for value in (None, 0, 1e30, "x", 4, 10**400)],
    *[("config.saving", value) for value in (None, 5, [], {"no": 1})],
    *[("spaces.agent", value) for value in (None, 5, [], {}, {"observation": {}}, "x")],
    *[
        ("spaces.agent.observation", value)
        for value in (
            None,
            5,
            [],
            {},
            "x",
            {"type": "no such"},
            {"type": []},
            {"type": "Box"},
            {"type": "Discrete", "n": 5, "start": 0},
            {"type": "Box", "shape": [4], "dtype": "no such", "low": 0, "high": 1},
            {"type": "Box", "shape": "x", "dtype": "float32", "low": 0, "high": 1},
            {"type": "Box", "shape": [4], "dtype": "float32", "low": "x", "high": 1},
            {"type": "Box", "shape": [10**10], "dtype": "float32", "low": 0, "high": 1},
            {"type": "Box", "shape": [5], "dtype": "float32", "low": 0, "high": 1},
            {"type": "Box", "shape": [4], "dtype": "float32", "low": [1, 2], "high": 1},
            {"type": "Dict", "spaces": 5},
            {"type": "Dict", "spaces": {"a": 5}},
            {"type": "Box", "shape": [-1], "dtype": "float32", "low": 0, "high": 1},
        )
    ],
    *[
        ("spaces.agent.action", value)
        for value in (
            None,
            5,
            {},
            {"type": "Discrete"},
            {"type": "Discrete", "n": 0, "start": 0},
            {"type": "Discrete", "n": "x", "start": 0},
            {"type": "Discrete", "n": 3, "start": 0},
            {"type": "Discrete", "n": 2, "start": None},
            {"type": "MultiDiscrete", "nvec": 5},
            {"type": "MultiDiscrete", "nvec": []},
            {"type": "Discrete", "n": 10**30, "start": 0},
            {"type": "Discrete", "n": 10**9, "start": 0},
        )
    ],
    *[
        ("files", value)
        for value in ({"agent.safetensors": 5}, {"agent.safetensors": None}, {"trainer.pt": {}}, {"manifest.json": {}})
    ],
    *[("files.agent.safetensors", value) for value in (None, 5, {}, {"sha256": 5}, {"bytes": 5})],
]


def forged(folder: Path) -> Iterator[Case]:
    """Forged manifests with a valid checksum."""
    run = train(folder / "runs", "cartpole", _PPO)
    sound = run / "checkpoints" / "step_16"
    copy = folder / "checkpoints" / "step_16"
    manifest = json.loads((sound / "manifest.json").read_text())
    manifest.pop("sha256", None)

    def forge(changed: Any, with_state: bool) -> None:
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(sound, copy)
        text = changed if isinstance(changed, str) else json.dumps(changed)
        (copy / "manifest.json").write_text(text)
        if with_state:
            Trainer.load(copy)
        else:
            wd.load_policy(copy)

    for key, value in _FORGED:
        changed = json.loads(json.dumps(manifest))
        section, path = changed, key.split(".", 1) if key.startswith("files.") else key.split(".")
        for part in path[:-1]:
            section = section[part]
        section[path[-1]] = value
        told = json.dumps(value)[:50]
        if not _is_harmless(key, value):
            yield Case(f"{key} = {told}: Trainer.load", lambda changed=changed: forge(changed, True))
        if (
            not key.startswith(("config.env", "config.trainer", "config.saving", "files"))
            and not _is_harmless(key, value)
            and value != {"hidden": [5]}
        ):
            yield Case(f"{key} = {told}: load_policy", lambda changed=changed: forge(changed, False))
    for text in (
        "",
        "5",
        "null",
        "[]",
        "{}",
        '"x"',
        "{",
        '{"format": 3}',
        "[" * 10_000,
        '{"format": 3, "config": ' + "[" * 100_000,
        '{"format": NaN}',
        '{"format": 1e999}',
        '{"format": ' + "9" * 5000 + "}",
        "\ufeff{}",
        "\x00",
        '{"format": 3, "format": 4}',
        '{"format": {"x": 1}}',
        "true",
    ):
        yield Case(f"manifest.json: {text[:30]!r}", lambda text=text: forge(text, True), "manifest.json")
    for name, content in {
        "nothing": {},
        "a number": 5,
        "a list": [],
        "no models": {"updates": 1},
        "text": "x",
        "None": None,
        "wrong kinds": {
            "updates": "x",
            "env_steps": [],
            "returns": 5,
            "best": 5,
            "evaluation_under_way": 5,
            "policies": 5,
            "opponents": 5,
            "simulation": 5,
            "kept_between_steps": 5,
        },
    }.items():
        yield Case(f"trainer.pt: {name}", lambda content=content: _with_state(sound, copy, content))
    state = torch.load(sound / "trainer.pt", weights_only=True)
    values = [None, 5, "x", [], {}, torch.zeros(3)]
    for key in ("updates", "env_steps", "policies", "simulation"):
        for value in values[2 if key in ("updates", "env_steps") else 0 :]:
            changed = {**state, key: value}
            yield Case(f"trainer.pt: {key} = {value!r}", lambda changed=changed: _with_state(sound, copy, changed))
        missing = {name: value for name, value in state.items() if name != key}
        yield Case(f"trainer.pt: without {key}", lambda missing=missing: _with_state(sound, copy, missing))


def _is_harmless(key: str, value: Any) -> bool:
    """Return True if a run with this configuration can be resumed."""
    return (key, value) in (("format", 3), ("config.policy.agent.algorithm", "a2c"))


def _with_state(sound: Path, copy: Path, content: Any) -> None:
    """Load a checkpoint whose state was replaced, and its checksums with it."""
    from warpdrive.training.checkpoint.checkpoint import read_checkpoint, write_checkpoint

    shutil.rmtree(copy, ignore_errors=True)
    checkpoint = read_checkpoint(sound)
    object.__setattr__(checkpoint, "state", content)
    write_checkpoint(copy, checkpoint)
    Trainer.load(copy)


def of_others(folder: Path) -> Iterator[Case]:
    """Checkpoints of another environment, of another number of replicas, of other spaces, copied into a run."""
    ppo = "policy.agent={algorithm: ppo, minibatches: 1}"
    runs = {name: train(folder / "runs", name, ppo) for name in ("cartpole", "pendulum")}
    for into in runs:
        for source in runs:
            if source != into:
                case = folder / f"{into}_{source}"
                shutil.copytree(runs[into], case)
                shutil.rmtree(case / "checkpoints" / "step_16")
                shutil.copytree(runs[source] / "checkpoints" / "step_16", case / "checkpoints" / "step_16")
                yield Case(
                    f"of {source} in a run of {into}: resume", lambda case=case: Trainer.resume(case), keeps=case
                )
                yield Case(
                    f"of {source} in a run of {into}: load into it",
                    lambda into=into, source=source: Trainer.load(
                        runs[source], wd.EnvWrapper(env_name=into, num_envs=2, env_backend="cpu")
                    ),
                )


def run_folders(folder: Path) -> Iterator[Case]:
    """Run folders with something wrong in them, given to every command that takes a run."""
    sound = train(folder / "runs", "cartpole", _PPO)

    def with_(damage: Callable[[Path], Any], name: str) -> Path:
        case = folder / f"{len(list(folder.iterdir()))}_{name.replace('/', '_')}"
        shutil.copytree(sound, case)
        damage(case)
        return case

    def words(name: str, case: Path, *which: str) -> Iterator[Case]:
        given: dict[str, list[str]] = {
            "evaluate": ["evaluate", str(case), "--episodes", "1"],
            "best": ["evaluate", str(case), "--episodes", "1", "--best"],
            "replay": ["replay", str(case), "-o", str(folder / "x.gif")],
            "export": ["export", str(case), "-o", str(folder / "x.pt2")],
            "plot": ["plot", str(case), "-o", str(folder / "x.png")],
            "report": ["report", str(case), "-o", str(folder / "x.html")],
            "resume": ["train", "--resume", str(case), "--no-replay"],
            "resume a sweep": ["sweep", "--resume", str(case)],
        }
        for word in which or ("evaluate", "replay", "export", "resume"):
            yield command(
                f"{name}: {word}", *given[word], keeps=case if folder in case.parents and os.path.isdir(case) else None
            )

    every = ("evaluate", "best", "replay", "export", "plot", "report", "resume", "resume a sweep")
    (folder / "nothing").mkdir()
    (folder / "a_file").write_text("x")
    (folder / "dangling").symlink_to("nowhere")
    (folder / "loop").symlink_to("loop")
    os.mkfifo(folder / "fifo")
    for name, case in {
        "an empty folder": folder / "nothing",
        "a file": folder / "a_file",
        "a dangling link": folder / "dangling",
        "a link to itself": folder / "loop",
        "nothing there": folder / "no_such",
        "NUL": Path("a\0b"),
        "a long name": Path("x" * 5000),
        "a FIFO": folder / "fifo",
        "no name": Path(""),
        "escapes": Path("\x1b[31m"),
        "below a file": folder / "a_file" / "x",
        "/": Path("/"),
        "/dev/null": Path("/dev/null"),
        "not UTF-8": Path(os.fsdecode(b"\xff")),
    }.items():
        yield from words(name, case, *every)
    for text in (
        b"",
        b"\0",
        b"5",
        b"[]",
        b"{",
        b"env: 1\n",
        b"name: x\n",
        bytes(range(256)),
        b"a" * 10_000,
        b"trainer: 5",
        b"!!python/object:os.x {}",
    ):
        case = with_(lambda path, text=text: (path / "config.yaml").write_bytes(text), f"config {text[:8]!r}")
        yield from words(f"config.yaml: {text[:20]!r}", case, "plot", "report")
        shutil.rmtree(case / "checkpoints")
        yield from words(f"config.yaml: {text[:20]!r}, no checkpoint", case, "resume", "evaluate")
    for text in (
        b"",
        b"\0",
        b"5",
        b"a,b\n1,2\n",
        b"env_steps\n",
        b"env_steps,x\nq,w\n",
        bytes(range(256)),
        b"env_steps,x\n1,nobody\n",
        b"env_steps,x\n,5\n",
        b"\xff\xfe",
        b"env_steps,x\n1,2,3,4,5\n",
        b'env_steps,x\n"1,2\n',
        b"x" * 1_000_000,
        b"env_steps,env_steps\n1,x\n",
        b"env_steps,x\nnan,nan\n",
        b"env_steps,x\n1e999,5\n",
    ):
        case = with_(
            lambda path, text=text: (path / "metrics.csv").write_bytes(text), f"metrics {text[:12]!r} {len(text)}"
        )
        yield from words(f"metrics.csv: {text[:20]!r}", case, "plot", "report")
    yield from words(
        "metrics.csv is a folder",
        with_(lambda path: ((path / "metrics.csv").unlink(), (path / "metrics.csv").mkdir()), "metrics folder"),
        "plot",
        "report",
        "resume",
    )
    yield from words(
        "metrics.csv is a FIFO",
        with_(lambda path: ((path / "metrics.csv").unlink(), os.mkfifo(path / "metrics.csv")), "metrics fifo"),
        "plot",
        "report",
        "resume",
    )
    yield from words(
        "metrics.csv is missing",
        with_(lambda path: (path / "metrics.csv").unlink(), "metrics missing"),
        "plot",
        "report",
    )
    for text in (
        b"",
        b"\0",
        b"step_99",
        b"..",
        b"../../..",
        b"/",
        bytes(range(256)),
        b"x" * 5000,
        b"step_8/manifest.json",
        b"step_x",
        b"\xff",
    ):
        case = with_(lambda path, text=text: (path / "checkpoints" / "best").write_bytes(text), f"best {text[:8]!r}")
        yield from words(f"best: {text[:20]!r}", case, "best")
    yield from words(
        "best is a folder", with_(lambda path: (path / "checkpoints" / "best").mkdir(), "best folder"), "best"
    )
    yield from words(
        "best is a dangling link",
        with_(lambda path: (path / "checkpoints" / "best").symlink_to("x"), "best link"),
        "best",
    )
    yield from words(
        "no checkpoints",
        with_(lambda path: shutil.rmtree(path / "checkpoints"), "no checkpoints"),
        "evaluate",
        "replay",
        "export",
    )
    yield from words(
        "checkpoints is a file",
        with_(
            lambda path: (shutil.rmtree(path / "checkpoints"), (path / "checkpoints").write_text("x")),
            "file for checkpoints",
        ),
    )
    yield from words(
        "checkpoints is empty",
        with_(lambda path: (shutil.rmtree(path / "checkpoints"), (path / "checkpoints").mkdir()), "empty checkpoints"),
        "evaluate",
        "replay",
        "export",
    )
    yield from words(
        "all manifests are missing",
        with_(lambda path: [m.unlink() for m in path.glob("checkpoints/*/manifest.json")], "no manifests"),
    )
    yield from words(
        "all manifests are empty",
        with_(lambda path: [m.write_text("") for m in path.glob("checkpoints/*/manifest.json")], "empty manifests"),
    )
    yield from words(
        "the last checkpoint is an empty folder",
        with_(lambda path: (path / "checkpoints" / "step_99").mkdir(), "folder for a checkpoint"),
        "evaluate",
        "export",
    )
    yield command("an unknown tag: evaluate", "evaluate", str(sound), "--random", "nobody")
    yield command("an unknown tag: export", "export", str(sound), "--tag", "nobody")
    yield command("an unknown tag: replay", "replay", str(sound), "--random", "nobody")
    for output in (
        "x",
        "x.txt",
        ".gif",
        "/proc/x.gif",
        "a\0b.gif",
        "x" * 5000 + ".gif",
        "",
        str(folder),
        "\x1b[31m.txt",
    ):
        yield command(f"replay -o {output[:20]!r}", "replay", str(sound), "-o", output, "--quiet")
    for output in (
        "x",
        "x.txt",
        ".onnx",
        "no/such/x.pt2",
        "/proc/x.pt2",
        "a\0b.pt2",
        "x" * 5000 + ".pt2",
        "",
        str(folder),
        "\x1b[31m.txt",
    ):
        yield command(f"export -o {output[:20]!r}", "export", str(sound), "-o", output)
    for output in (
        "x",
        "x.txt",
        "no/such/x.png",
        "/proc/x.png",
        "a\0b.png",
        "x" * 5000 + ".png",
        "",
        str(folder),
        "\x1b[31m.txt",
    ):
        yield command(f"plot -o {output[:20]!r}", "plot", str(sound), "-o", output)
        yield command(f"report -o {output[:20]!r}", "report", str(sound), "-o", output.replace(".png", ".html"))
    for metric in ("no such", "", "[", "\x1b[31m", "x" * 5000, "nothing/*"):
        yield command(f"plot -m {metric[:20]!r}", "plot", str(sound), "-m", metric, "-o", "x.png")
    for option, value in (
        ("--episodes", "0"),
        ("--episodes", "x"),
        ("--episodes", "1e3"),
        ("--episodes", "-1"),
        ("--episodes", "1.5"),
        ("--episodes", ""),
        ("--episodes", "9" * 5000),
        ("--no", "1"),
    ):
        yield command(f"evaluate {option} {value[:10]!r}", "evaluate", str(sound), option, value)
    for option, value in (
        ("--seed", "-1"),
        ("--seed", "x"),
        ("--seed", str(2**64)),
        ("--seed", "9" * 400),
        ("--fps", "0"),
        ("--fps", "x"),
        ("--width", "0"),
        ("--width", "9" * 30),
        ("--replicas", "0"),
        ("--replicas", "9" * 30),
        ("--episodes", "9" * 30),
        ("--fps", "9" * 30),
    ):
        yield command(f"replay {option} {value[:10]!r}", "replay", str(sound), option, value, "-o", "x.gif")
    for text in (b"", b"PK\x03\x04", b"x" * 1000, bytes(range(256)), b"\x93NUMPY"):
        for suffix in ("npz", "safetensors"):
            path = folder / f"recorded_{len(text)}.{suffix}"
            path.write_bytes(text)
            yield command(f"replay {path.name}", "replay", str(path), "-o", "x.gif", keeps=folder / "nothing")
            yield Case(f"Recording.load({path.name})", lambda path=path: wd.Recording.load(path))
    for target in ("runs", "saving"):
        link = folder / f"link_{target}"
        link.symlink_to(folder / "nowhere" / "at all")
        yield command(
            f"saving.folder is a dangling link ({target})",
            "train",
            "cartpole",
            "trainer.total_steps=1",
            f"saving.folder={link}",
        )
    for output in (str(folder / "a_file"), "/proc/x", "/dev/null", "a\0b", "x" * 5000, "", "\x1b[31m"):
        if output not in ("", "\x1b[31m"):
            yield command(
                f"saving.folder={output[:20]!r}",
                "train",
                "cartpole",
                "trainer.total_steps=1",
                f"saving.folder={json.dumps(output)}",
            )
    for load in (
        "no_such",
        str(folder / "nothing"),
        str(folder / "a_file"),
        "a\0b",
        "/",
        str(folder / "fifo"),
        str(with_(lambda path: shutil.rmtree(path / "checkpoints"), "none to load")),
    ):
        yield command(
            f"policy.agent.load={load[-20:]!r}",
            "train",
            "cartpole",
            "trainer.total_steps=1",
            f"policy.agent.load={json.dumps(load)}",
        )
    yield command(
        "load_tag nobody",
        "train",
        "cartpole",
        "trainer.total_steps=1",
        f"policy.agent.load={sound}",
        "policy.agent.load_tag=nobody",
    )
    yield command(
        "load of other spaces", "train", "acrobot", "trainer.total_steps=1", f"policy.agent.load={sound}", _PPO
    )
    (folder / "in" / "x").mkdir(parents=True)


__all__ = ["damages", "forged", "of_others", "run_folders", "verdict"]
