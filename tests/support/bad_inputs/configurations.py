"""Run configurations that cannot work: wrong values for every key, documents that are none, wrong overrides."""

from __future__ import annotations

import copy
import datetime
import math
import os
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bad_inputs.verdict import Case, command
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic.functional_validators import PlainValidator

from warpdrive.training.config.load import load_config
from warpdrive.training.config.schema import (
    POLICY_CONFIGS,
    EvaluationConfig,
    RunConfig,
    SavingConfig,
    TrainerConfig,
    WandbConfig,
)
from warpdrive.training.models.options import MODEL_CONFIGS
from warpdrive.training.rollout.exploration import GaussianNoiseConfig, OrnsteinUhlenbeckConfig

_NOBODY = "a\x1b[31m\x00"
_NEVER: list[Any] = [[[]], {"a": 1}, [None], _NOBODY, datetime.date(2020, 1, 1), b"\xff"]
"""Values that only keys of any type accept."""
_WRONG: dict[str, list[Any]] = {
    "bool": ["yes", 0, 1, 1.0, "", [], {}, math.nan, 10**400, *_NEVER],
    "int": [0.5, True, "10", "", [], {}, -1, math.nan, math.inf, -math.inf, 1e30, 10**400, -(10**400), *_NEVER],
    "float": ["1", True, "", [], {}, math.nan, math.inf, -math.inf, 10**400, -(10**400), *_NEVER],
    "str": [5, 1.5, True, [], {}, math.nan, 10**400, [[]], {"a": 1}, datetime.date(2020, 1, 1)],
    "choice": ["no such", 5, 1.5, "", [], {}, math.nan, 10**400, "x" * 10_000, *_NEVER],
    "list": [5, "x", True, {}, [0], [-1], [1.5], ["8"], [True], [math.nan], [1e30], [10**400], [[8]], *_NEVER],
    "section": [5, "x", True, [], 1.5, math.nan, {"no_such_key": 1}, {"": 1}, *_NEVER],
    "function": [5, "x", True, [], {}, math.nan, "no_such_module:f", "no_such.py:f", "os:no_such", ":", *_NEVER],
}
_WRONG_SCHEDULES: list[Any] = [
    [[0]],
    [[1, 0.1], [0, 0.1]],
    [[0, "x"]],
    [[0, math.nan]],
    [[0, 10**400]],
    [[10**400, 0.1]],
    {"schedule": "linear"},
    {"schedule": "no such", "start": 0.1, "end": 0.1, "steps": 5},
    {"schedule": "cosine", "start": 0.1, "end": 0.1, "steps": 0},
    {"schedule": "cosine", "start": 10**400, "end": 0.1, "steps": 5},
    {"schedule": [], "start": 0.1, "end": 0.1, "steps": 5},
]

_FUNCTION = "math:sqrt"


def _base(algorithm: str = "ppo") -> dict[str, Any]:
    continuous = algorithm in ("ddpg", "td3", "sac")
    settings: dict[str, Any] = {"algorithm": algorithm}
    if algorithm in ("function", "custom"):
        settings["function"] = _FUNCTION
    if algorithm == "self_play":
        settings["of"] = "tagger"
    trainer = {"num_envs": 10, "train_batch_size": 100, "total_steps": 200, "env_backend": "cpu"}
    if continuous:
        return {"env": {"name": "pendulum"}, "trainer": trainer, "policy": {"agent": settings}}
    policy = {"tagger": {"algorithm": "ppo"}, "runner": settings}
    return {"name": "bad", "env": {"name": "tag_gridworld"}, "trainer": trainer, "policy": policy}


def _sections() -> Iterator[tuple[tuple[str, ...], type[BaseModel], dict[str, Any]]]:
    """Every section: where it is, its class, and a configuration that has it."""
    yield (), RunConfig, _base()
    yield ("trainer",), TrainerConfig, _base()
    yield ("trainer", "evaluation"), EvaluationConfig, _base()
    yield ("saving",), SavingConfig, _base()
    yield ("saving", "wandb"), WandbConfig, _base() | {"saving": {"wandb": {"project": "p"}}}
    for name, section in POLICY_CONFIGS.items():
        tag = "agent" if name in ("ddpg", "td3", "sac") else "runner"
        yield ("policy", tag), section, _base(name)
    for name, section in MODEL_CONFIGS.items():
        values = _base()
        values["policy"]["runner"]["model"] = {"type": name}
        yield ("policy", "runner", "model"), section, values
    for name, section in (("gaussian", GaussianNoiseConfig), ("ornstein_uhlenbeck", OrnsteinUhlenbeckConfig)):
        values = _base("ddpg")
        values["policy"]["agent"]["noise"] = {"type": name}
        yield ("policy", "agent", "noise"), section, values


def _kind(field: FieldInfo) -> tuple[str, bool]:
    """Return the type of a key, and True if it may be None."""
    annotation, optional = field.annotation, False
    while typing.get_origin(annotation) in (typing.Annotated, typing.Union, types.UnionType):
        parts = typing.get_args(annotation)
        if typing.get_origin(annotation) is typing.Annotated:
            annotation = parts[0]
            continue
        optional |= type(None) in parts
        found = [part for part in parts if part is not type(None)]
        annotation = found[0]
    if typing.get_origin(annotation) is typing.Literal:
        return "choice", optional
    if typing.get_origin(annotation) in (list, dict):
        return ("list" if typing.get_origin(annotation) is list else "section"), optional
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "section", optional
    names = {bool: "bool", int: "int", float: "float", str: "str"}
    return names.get(annotation, "function"), optional  # type: ignore[arg-type]


def _put(values: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    values = copy.deepcopy(values)
    section = values
    for part in path[:-1]:
        section = section.setdefault(part, {})
    section[path[-1]] = value
    return values


def _is_schedule(field: FieldInfo) -> bool:
    return any(isinstance(part, PlainValidator) for part in field.metadata)


def values_of_keys() -> Iterator[Case]:
    """A dozen wrong values for every key of every section."""
    for where, section, values in _sections():
        for key, field in section.model_fields.items():
            path = (*where, key)
            kind, optional = _kind(field)
            wrong = list(_WRONG[kind])
            if kind == "list" and key == "tags":
                wrong = [5, "x", True, {}, [0], [None], [[]]]
            if kind == "section" and key == "policy":
                wrong = [5, "x", True, [], {"": {}}, {"tagger": 5}, {5: {}}, {"tagger": {"algorithm": []}}]
            if _is_schedule(field):
                wrong += _WRONG_SCHEDULES
                if key == "target_entropy":
                    wrong = [value for value in wrong if value != -1]
            if not optional and key not in (
                "env",
                "value_clip",
                "target_kl",
                "target_entropy",
                "critic_lr",
                "critic_max_grad_norm",
                "function",
            ):
                wrong.append(None)
            if key == "seed":
                wrong += [2**63]
            for value in wrong:
                given = _put(values, path, value)
                name = f"{'.'.join(path)} ({section.__name__}): {_shown(value)}"
                yield Case(name, lambda given=given: load_config(given), key if key != "type" else "")
        unknown = _put(values, (*where, "no_such_key"), 1)
        if section.model_config.get("extra") != "allow":
            yield Case(f"{'.'.join(where)}: an unknown key", lambda given=unknown: load_config(given), "no_such_key")


def _shown(value: Any) -> str:
    text = f"{'-' if value < 0 else ''}10**400" if type(value) is int and abs(value) > 2**64 else repr(value)
    return text if len(text) < 60 else text[:50] + "..."


def parameters_of_environments() -> Iterator[Case]:
    """Wrong values for the parameters of an environment."""
    for key, wrong in {
        "num_taggers": [0, -1, 1.5, "4", None, True, [], {}, math.nan, math.inf, 1e30, 10**400, 2**31, _NOBODY],
        "grid_length": [0, -1, 1.5, "4", None, True, [], {}, math.nan, 1e30, 10**400, 2**31],
        "episode_length": [0, -1, 1.5, "4", None, True, [], {}, math.nan, 1e30, 10**400, 2**31],
        "starting_location_x": [5, "x", [1], [[1]], [-1] * 5, [10**400] * 5, [1.5] * 5, ["a"] * 5, {}],
        "tag_reward_for_tagger": ["x", True, math.nan, math.inf, 10**400, [], {}, None],
        "no_such_parameter": [5],
        "num_tagers": [5],
    }.items():
        for value in wrong:
            given = _put(_base(), ("env", key), value)
            yield Case(f"env.{key}: {_shown(value)}", lambda given=given: _made(given), key)
    for name in (
        "no_such",
        "",
        "a:b:c",
        ":",
        "no_such.py:X",
        "os:path",
        "os:no_such",
        "x" * 5000,
        _NOBODY,
        "math:pi",
        ".py:X",
        "no.such.module:X",
        "..:X",
        "a b:c",
        "/:x",
        "\u2028:y",
    ):
        given = _put(_base(), ("env", "name"), name)
        yield Case(f"env.name: {_shown(name)}", lambda given=given: load_config(given), "env.name")


def _made(given: dict[str, Any]) -> None:
    from warpdrive.training.trainer import make_env

    make_env(load_config(given))


_MINIMAL = """\
env: {name: cartpole}
trainer: {num_envs: 2, train_batch_size: 20, total_steps: 20, env_backend: cpu}
policy: {agent: {algorithm: ppo, lr: %s}}
"""


def documents(folder: Path) -> Iterator[Case]:
    """Files that are no run configuration."""
    laughs = "\n".join(
        ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
        + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    )
    flow_laughs = (
        "trainer:\n  num_envs: ["
        + ", ".join(
            ["&b0 [x, x, x, x, x, x, x, x, x]"] + [f"&b{n} [{', '.join([f'*b{n - 1}'] * 9)}]" for n in range(1, 12)]
        )
        + "]\n"
    )
    texts: dict[str, str | bytes] = {
        "empty": "",
        "blank": "  \n\n",
        "only a comment": "# nothing\n",
        "null": "null\n",
        "a list": "- 1\n- 2\n",
        "a number": "5\n",
        "text": "hello world\n",
        "a date": "2020-01-01\n",
        "an impossible date": "2020-99-99\n",
        "an impossible date as a value": _MINIMAL % "2020-99-99",
        "an impossible time as a value": _MINIMAL % "2020-01-01 99:99:99",
        "an int tag on a word": _MINIMAL % "!!int four",
        "a float tag on a word": _MINIMAL % "!!float four",
        "a bool tag on a word": _MINIMAL % "!!bool four",
        "a timestamp tag on a word": _MINIMAL % "!!timestamp four",
        "a binary tag on a word": _MINIMAL % "!!binary four!",
        "a set tag": _MINIMAL % "!!set four",
        "a map tag": _MINIMAL % "!!map four",
        "a seq tag": _MINIMAL % "!!seq four",
        "an omap tag": _MINIMAL % "!!omap [four]",
        "a pairs tag": _MINIMAL % "!!pairs [four]",
        "an unknown tag": _MINIMAL % "!four 4",
        "a python tag": _MINIMAL % "!!python/object/apply:os.getcwd []",
        "a python name": _MINIMAL % "!!python/name:os.system",
        "5000 digits": _MINIMAL % ("9" * 5000),
        "minus 5000 digits": _MINIMAL % ("-" + "9" * 5000),
        "a float of 5000 digits": _MINIMAL % ("9" * 5000 + ".0"),
        "an exponent of 5000 digits": _MINIMAL % ("1e" + "9" * 5000),
        "hexadecimal": _MINIMAL % ("0x" + "f" * 6000),
        "octal": _MINIMAL % "0o99",
        "sexagesimal": _MINIMAL % ("1:" + ":".join(["59"] * 400)),
        "nan": _MINIMAL % ".nan",
        "infinity": _MINIMAL % ".inf",
        "deep lists": _MINIMAL % ("[" * 600 + "]" * 600),
        "deep open lists": _MINIMAL % ("[" * 5000),
        "deep mappings": _MINIMAL % ("{a: " * 700 + "1" + "}" * 700),
        "deep blocks": "\n".join(" " * n + "a:" for n in range(1500)),
        "deep dashes": "- " * 2000 + "x",
        "billion laughs": laughs,
        "billion laughs in a value": flow_laughs,
        "billion laughs of merges": "a0: &a0 {x: 1}\n"
        + "\n".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, 12)),
        "an alias to itself": "&a [*a]\n",
        "an alias to itself in a section": "trainer: &a {num_envs: *a}\n",
        "an alias to itself as a parameter": _MINIMAL % "1\nextra: &a {b: *a}",
        "an unknown alias": "a: *nobody\n",
        "a key twice": _MINIMAL % "1, lr: 2",
        "a list as a key": "? [1, 2]\n: 3\n",
        "a mapping as a key": "? {a: 1}\n: 3\n",
        "a number as a key": "5: 3\n",
        "null as a key": "~: 3\n",
        "a merge of a number": "<<: 5\n",
        "a merge of a list": "<<: [5]\n",
        "a tab": "env:\n\tname: cartpole\n",
        "an open bracket": "env: [1, 2\n",
        "an open quote": "env: 'name\n",
        "a lone colon": ": 5\n",
        "two documents": "env: 1\n---\nenv: 2\n",
        "a percent": "%YAML 9.9\n---\na: 1\n",
        "a bell": "env: \a\n",
        "an escape": "env: \x1b[31mred\n",
        "an escape in quotes": 'env: "\\x1b[31mred"\n',
        "an escape in a key": '"\\x1b[31mred": 1\n',
        "an escape in a value": _MINIMAL % '"\\x1b[31mred\\a"',
        "a new line in a key": '"a\\nb": 1\n',
        "surrogates": 'env: "\\ud800"\n',
        "NUL": b"env: \x00\n",
        "NUL in quotes": 'env: {name: "a\\0b"}\n',
        "NUL in a file's name": 'env: {name: "a\\0b.py:X"}\n',
        "binary": bytes(range(256)),
        "Latin-1": "env: {name: gr\u00fcn}\n".encode("latin-1"),
        "UTF-16 without a mark": "env: 1\n".encode("utf-16-le"),
        "UTF-32": "env: 1\n".encode("utf-32"),
        "half a character": b"env: \xe2\x82\n",
        "a picture": b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR",
        "an archive": b"PK\x03\x04" + bytes(100),
        "JSON with comments": '{"env": 1, // no\n}',
        "Python": "import os\nprint(1)\n",
        "a long line": "a" * 100_000,
        "a long key": "a" * 100_000 + ": 1\n",
        "many keys": "\n".join(f"k{n}: 1" for n in range(5000)),
        "unicode line ends": "env\u2028: 1\n",
        "right to left": "\u202eenv: 1\n",
    }
    for name, text in texts.items():
        path = folder / f"{name.replace(' ', '_')}.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
        yield command(f"YAML: {name}", "train", str(path), keeps=folder)
    (folder / "folder.yaml").mkdir()
    yield command("YAML: a folder", "train", str(folder / "folder.yaml"), expected="folder.yaml")
    os.mkfifo(folder / "fifo.yaml")
    yield command("YAML: a FIFO", "train", str(folder / "fifo.yaml"), expected="fifo.yaml")
    (folder / "dangling.yaml").symlink_to(folder / "nowhere")
    yield command("YAML: a dangling link", "train", str(folder / "dangling.yaml"), expected="dangling.yaml")
    (folder / "loop.yaml").symlink_to(folder / "loop.yaml")
    yield command("YAML: a link to itself", "train", str(folder / "loop.yaml"), expected="loop.yaml")
    yield command("YAML: /dev/zero", "train", "/dev/zero", expected="/dev/zero")
    yield command("YAML: /dev/null", "train", "/dev/null", expected="/dev/null")
    yield command("YAML: a file as a folder", "train", str(folder / "empty.yaml" / "x.yaml"), expected="x.yaml")
    yield command("YAML: NUL in its name", "train", "a\0b.yaml")
    yield command("YAML: a long name", "train", "a" * 5000 + ".yaml")
    yield command("YAML: no name", "train", "")
    yield command("YAML: a blank", "train", " ")
    yield command("YAML: a dot", "train", ".")
    yield command("YAML: not UTF-8", "train", os.fsdecode(b"\xff\xfe.yaml"))
    yield command("YAML: escapes in its name", "train", "\x1b[31mred.yaml")
    for name in ("folder", "fifo", "dangling", "loop"):
        yield command(f"convert: {name}", "convert", str(folder / f"{name}.yaml"), expected=f"{name}.yaml")
    for word in ("autoscale", "sweep", "check", "convert"):
        for name in ("empty", "a_list", "5000_digits", "deep_lists", "billion_laughs", "binary"):
            yield command(f"{word}: {name}", word, str(folder / f"{name}.yaml"))


def conversions(folder: Path) -> Iterator[Case]:
    """Run configurations of WarpDrive 2 with something wrong in them, and files that cannot be written."""
    sound = "name: tag_gridworld\nenv: {}\ntrainer: {num_episodes: 10}\npolicy: {tagger: {algorithm: A2C}}\n"
    for text in (
        sound.replace("env: {}", "env: 5"),
        sound.replace("{num_episodes: 10}", "[num_episodes]"),
        sound.replace("{num_episodes: 10}", "{num_episodes: many}"),
        sound.replace("{num_episodes: 10}", "{num_episodes: 10, num_envs: .nan}"),
        sound.replace("{num_episodes: 10}", "{num_episodes: 10, train_batch_size: [1]}"),
        sound.replace("{tagger: {algorithm: A2C}}", "{tagger: 5}"),
        sound.replace("{tagger: {algorithm: A2C}}", "[A2C]"),
        f"{sound}saving: 5\n",
        f"{sound}sampler: {{params: 5}}\n",
    ):
        path = folder / "of_warpdrive2.yaml"
        path.write_text(text)
        yield command(f"convert {text!r}", "convert", str(path), keeps=folder)
    (folder / "sound.yaml").write_text(sound)
    for output in ("no/such/x", "/proc/x", "a\0b", "x" * 5000, str(folder)):
        yield command(f"convert -o {output[:20]!r}", "convert", str(folder / "sound.yaml"), "-o", output)
        yield command(f"schema -o {output[:20]!r}", "schema", "-o", output)
    (folder / "broken.py").write_text("x = (\n")
    for name in ("no_such", "no_such.py:X", "broken.py:X", "sound.yaml", "a\0b.py:X", "os:path", ":", "\x1b[31m.py:X"):
        yield command(f"schema {name!r}", "schema", name)
    for shell in ("tcsh", "", "\x1b[31m", "bash zsh"):
        yield command(f"completion {shell!r}", "completion", shell)


def overrides() -> Iterator[Case]:
    """Overrides that are none."""
    for text in (
        "a",
        "=",
        "=x",
        "a=",
        "a.b=",
        "a..b=1",
        ".a=1",
        "a.=1",
        "a.b.c.d=1",
        "trainer=",
        "trainer=5",
        "trainer=[]",
        "trainer.num_envs",
        "trainer.num_envs=",
        "trainer.num_envs=x",
        "trainer.num_envs=[1,",
        "trainer.num_envs={",
        "trainer.num_envs='",
        'trainer.num_envs="',
        "trainer.num_envs=1e400",
        "trainer.num_envs=-1",
        "trainer.num_envs=0",
        "trainer.num_envs=1.5",
        "trainer.num_envs=.nan",
        "trainer.num_envs=.inf",
        "trainer.num_envs=true",
        "trainer.num_envs=null",
        "trainer.num_envs=2020-99-99",
        "trainer.num_envs=!!int four",
        "trainer.num_envs=*a",
        "trainer.num_envs=&a",
        "trainer.num_envs=" + "9" * 5000,
        "trainer.num_envs=" + "[" * 600,
        "trainer.num_envs.x=1",
        "trainer.num_envs=" + "[" * 600 + "]" * 600,
        "trainer.num_envs=\t",
        "trainer.num_envs=\x00",
        "trainer.num_envs=\x1b[0m",
        "trainer.num_envs=a: b: c",
        "trainer.num_envs=%",
        "trainer.num_envs=@",
        "trainer.num_envs=`",
        "trainer.num_envs==2",
        "trainer.num_envs=&b0 [x]",
        "trainer.num_envs=1\ntrainer.seed=2",
        "env=",
        "env=5",
        "env=x",
        "env.name=",
        "env.name=5",
        "env.name=no_such",
        "env.no_such=1",
        "policy=",
        "policy=5",
        "policy.agent=",
        "policy.agent=5",
        "policy.nobody.lr=1",
        "policy.agent.algorithm=",
        "policy.agent.algorithm=x",
        "policy.agent.algorithm=[]",
        "policy.agent.algorithm={}",
        "policy.agent.lr=",
        "policy.agent.lr=x",
        "policy.agent.lr=0",
        "policy.agent.lr=-1",
        "policy.agent.lr=[[]]",
        "policy.agent.lr={}",
        "policy.agent.model=",
        "policy.agent.model=5",
        "policy.agent.model.type=x",
        "policy.agent.model.type=",
        "policy.agent.model.type=[]",
        "policy.agent.model.hidden=8",
        "policy.agent.model.hidden=[0]",
        "policy.agent.model.no=1",
        "policy.agent.model.hidden=[[8]]",
        "saving=",
        "saving.folder=",
        "saving.folder=5",
        "saving.keep_last=0",
        "saving.wandb=x",
        "saving.wandb={}",
        "saving.best_metric=x",
        "name=",
        "name=5",
        "name=a/b",
        "name=..",
        "name=.",
        "name=a b",
        "name=\u00e9",
        "name=" + "a" * 5000,
        "\xff=1",
        os.fsdecode(b"\xff=1"),
        os.fsdecode(b"trainer.num_envs=\xff"),
        os.fsdecode(b"name=\xff"),
        "trainer.\x1b[31m=1",
        "trainer.a b=1",
        "learning_rate=1",
        "policy.agent.learning_rate=1",
        "trainer.n_envs=4",
        "policy.agent.ent_coef=0.1",
        "trainer.total_timesteps=5",
        "policy.agent.batch_size=4",
        "--trainer.num_envs=4",
        "-x",
        "trainer.num_envs:4",
        "num_envs=4",
        "lr=1",
        "trainer.train_batch_size=3",
        "trainer.train_batch_size=1e30",
        "trainer.rollout_device=tpu",
        "trainer.learner_device=cuda:99",
        "trainer.eval_device=5",
        "trainer.env_backend=tpu",
        "trainer.env_backend=5",
        "trainer.evaluation=5",
        "trainer.evaluation.every=0",
        "trainer.dedicated_learner=true",
        "trainer.sync=x",
        "trainer.gpu_memory_fraction=2",
        "trainer.process_timeout=0",
        "trainer.torch_threads=1e30",
        "trainer.torch_threads=2e9",
        "trainer.seed=-1",
        "trainer.seed=1e30",
        "trainer.use_cuda_graph=x",
        "policy.agent.load=no_such_run",
        "policy.agent.load=5",
        "policy.agent.load_tag=x",
        "policy.agent.lr=1e400",
        "trainer.reset_pool_size=1e30",
        "trainer.total_steps=1e30",
        "trainer.evaluation.num_episodes=1e30",
        "policy.agent.minibatches=1e30",
        "policy.agent.epochs=1e30",
        "policy.agent.model.hidden=[1e30]",
        "saving.checkpoint_every=1e30",
    ):
        yield command(f"override {_shown(text)}", "train", "cartpole", "trainer.total_steps=1", text)
