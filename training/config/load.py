"""Run configurations: reading from YAML or dictionaries, and validation.

A source is a YAML file, the name of a shipped configuration (``training/run_configs/``), an environment without a run
configuration (:func:`is_environment`), or a dictionary. All problems are reported at once.
"""

from __future__ import annotations

import ast
import inspect
import os
import re
import shlex
import warnings
from collections.abc import Mapping, Sequence, Set
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from warpdrive import registry
from warpdrive.arguments import check_path
from warpdrive.environment import Environment
from warpdrive.errors import CheckpointError, ConfigError, nearest, one_line, shown
from warpdrive.training.config.messages import Problem
from warpdrive.training.config.named_code import check_named_code, expanded_env, named_code
from warpdrive.training.config.schema import POLICY_CONFIGS, RunConfig
from warpdrive.training.config.section import Section
from warpdrive.training.config.validate import environment_problems, problems_of, separate_policies
from warpdrive.training.config.warpdrive2 import convert, is_of_warpdrive2
from warpdrive.training.config.yaml import nearest_file, parse_override, read_yaml

__all__ = ["RunConfig", "check_resumable", "is_environment", "load_config", "plain", "shipped_configs"]

_NUM_ENVS, _ROLLOUT_LENGTH, _TOTAL_STEPS = 64, 32, 1_000_000
"""Sizes of the training in an environment without a run configuration."""


def shipped_configs() -> dict[str, Path]:
    """Return the run configurations shipped with the package, by name: ``"cartpole"``, ``"atari/pong"``."""
    folder = Path(str(resources.files("warpdrive.training") / "run_configs"))
    return {path.relative_to(folder).with_suffix("").as_posix(): path for path in sorted(folder.rglob("*.yaml"))}


def load_config(
    source: str | Path | Mapping[str, Any],
    overrides: Sequence[str] = (),
    *,
    environment: Environment | None = None,
    trust: bool | None = None,
    trust_overrides: bool = True,
) -> RunConfig:
    """Read and validate a run configuration.

    Args:
        source: Path of a YAML file, also one of WarpDrive 2, which is converted with a warning; name of a shipped
            configuration, registered name of an environment that has ``<name>.yaml`` in the folder of its module, or
            the sections as a dictionary, in which ``env`` may be the name alone. For any other environment, also
            ``path/to/file.py:Class`` and ``package.module:Class``, all policies are PPO with its default settings.
        overrides: ``"trainer.num_envs=2000"``: a dotted key and a YAML value. One that changes
            ``policy.<tag>.algorithm`` drops those of the file's settings which only the former algorithm has. An
            environment or a model given as ``path/to/file.py:Class`` is looked up relative to the YAML file that names
            it, then to the working directory; the result has its absolute path, so that the run can be loaded from
            anywhere.
        environment: Environment to check the policy tags against; None: created from the section ``env``.
        trust: If True, code named by ``source`` may be executed, whatever it is; None: unless it is ``config.yaml`` in
            the folder of a run. See :mod:`warpdrive.training.config.named_code`.
        trust_overrides: If False, the same holds for code named by ``overrides``: they are not those of this user.

    Returns:
        The configuration.

    Raises:
        TrustError: If ``source`` or ``overrides`` are not trusted, and name code that is not known here.
        ConfigError: If the configuration is invalid: reports all problems, one line each.
    """
    if isinstance(overrides, str):
        raise ConfigError(f"overrides is {shown(overrides)}, expected a list of overrides: [{shown(overrides)}]")
    by_default = is_environment(source)
    if isinstance(source, Mapping):
        where, raw, folder = "run configuration", plain(source), Path()
        if isinstance(raw.get("env"), str):
            raw["env"] = expanded_env(raw["env"])
    elif by_default:
        where, raw, folder = str(source), {"env": {"name": str(source)}, "trainer": {}, "policy": {}}, Path()
    else:
        path = _file_of(source)
        where, raw, folder = str(path), read_yaml(path), path.parent
        if is_of_warpdrive2(raw):
            raw, _ = convert(raw)
            what = f"converted from WarpDrive 2: warpdrive convert {path} says what changed in meaning"
            warnings.warn(f"{path}: {what}", stacklevel=2)
        trust = trust or (trust is None and not _is_of_a_run(path))
    raw.setdefault("env", {})
    _expand_library(raw)
    if isinstance(raw["env"], dict) and isinstance(raw["env"].get("name"), str):
        raw.setdefault("name", _run_name(raw["env"]))
    _find_files(raw, folder)
    if trust is False:
        check_named_code(raw, where)
    overridden: list[str] = []
    created: set[str] = set()
    for text in overrides:
        key, value = parse_override(text)
        overridden.append(".".join(key))
        created |= {".".join(key[:depth]) for depth in range(1, len(key)) if not _holds(raw, key[:depth])}
        _put(raw, key, value)
    _expand_library(raw)
    _find_files(raw, Path())
    if trust is False and not trust_overrides:
        check_named_code(raw, where)
    if by_default:
        _add_defaults(raw, environment)
    separate_policies(raw, environment)
    problems = problems_of(raw, environment)
    if problems:
        raise ConfigError(_message(problems, where, overridden, created))
    return RunConfig.model_validate(raw)


def is_environment(source: str | Path | Mapping[str, Any]) -> bool:
    """Return True if a source is the name of an environment without a run configuration, also ``file.py:Class``."""
    if not isinstance(source, str) or source in shipped_configs():
        return False
    if os.path.isfile(source) or source.endswith((".yaml", ".yml")):
        return False
    names = registry.registered_names()
    if source in names:
        return not _beside(source).is_file()
    return ":" in source or source.partition("/")[0] in names


def _add_defaults(raw: dict[str, Any], environment: Environment | None) -> None:
    """Complete the run configuration of an environment that has none: PPO for each policy tag."""
    trainer, policies = raw["trainer"], raw["policy"]
    if not (isinstance(trainer, dict) and isinstance(policies, dict)):
        return  # of an override, which is reported
    num_envs = trainer.setdefault("num_envs", _NUM_ENVS)
    if isinstance(num_envs, (int, float)):
        trainer.setdefault("train_batch_size", num_envs * _ROLLOUT_LENGTH)
    trainer.setdefault("total_steps", _TOTAL_STEPS)
    env = environment or environment_problems(raw["env"])[1]
    for section in [policies.setdefault(tag, {}) for tag in (env.policy_tags if env else ())]:
        if isinstance(section, dict):
            section.setdefault("algorithm", "ppo")


def config_of_checkpoint(raw: Mapping[str, Any], folder: Path) -> RunConfig:
    """Return the configuration in a checkpoint, to use its policies without its environment.

    Raises:
        CheckpointError: If the configuration is invalid.
    """
    try:
        return RunConfig.model_validate(raw)
    except ValidationError as error:
        place = one_line(".".join(map(str, error.errors()[0]["loc"])))
        raise CheckpointError(f"{folder}: damaged: its configuration is invalid in {place or 'all of it'}") from None


_DECIDED = ("env", "trainer.num_envs", "trainer.train_batch_size", "trainer.seed", "trainer.reset_pool_size")
_DECIDED_OF_POLICIES = (
    *("algorithm", "model", "of", "pool_size", "at_once", "agent_ids", "parameter_sharing"),
    *("population", "steps_per_update", "buffer_size", "n_step"),
    *("centralized_critic", "critic_input", "recurrent_critic"),
    *("mixing_units", "hypernetwork_units", "mixer_input"),
)
_DECIDED_OF_BUFFERS = ("returns_after_leaving",)
"""Keys that stored experience depends on: policies without a replay buffer may change them."""


def check_resumable(before: RunConfig, config: RunConfig) -> None:
    """Check that a run with the configuration ``before`` can be resumed with ``config``.

    Raises:
        ConfigError: If a fixed value differs: reports the first one.
    """
    saved, now = (each.model_dump(mode="json") for each in (before, config))
    of_policies = [
        f"policy.{tag}.{key}"
        for tag, settings in now["policy"].items()
        for key in (*_DECIDED_OF_POLICIES, *(_DECIDED_OF_BUFFERS if "buffer_size" in settings else ()))
    ]
    for key in (*_DECIDED, *of_policies):
        former, wanted = (_value_of(values, key.split(".")) for values in (saved, now))
        if former != wanted:
            key, former, wanted = _first_difference(key, former, wanted)
            raise ConfigError(
                f"{key}: found {shown(wanted)}, but the run to resume has {shown(former)}, which cannot be changed"
            )
    for tag in config.policy:
        had, has = (getattr(each.policy[tag], "has_critic_optimizer", False) for each in (before, config))
        if has != had:
            both = now["policy"][tag], saved["policy"][tag]
            key = next(key for key in ("critic_lr", "critic_max_grad_norm") if both[0][key] != both[1][key])
            wanted, former = (each[key] for each in both)
            raise ConfigError(
                f"policy.{tag}.{key}: found {shown(wanted)}, but the run to resume has {shown(former)}: a separate "
                "optimizer of the critic cannot be added or removed"
            )


def _first_difference(key: str, one: Any, other: Any) -> tuple[str, Any, Any]:
    """Return the first key at or below ``key`` with different values, and both, of sections with the same keys."""
    while isinstance(one, Mapping) and isinstance(other, Mapping) and set(one) == set(other):
        name = next(name for name in one if one[name] != other[name])
        key, one, other = f"{key}.{name}", one[name], other[name]
    return key, one, other


def plain(value: Any) -> Any:
    """Return a copy of ``value`` with sections, mappings, sequences and NumPy values as YAML-serialisable ones."""
    if isinstance(value, Section):
        return plain(value.model_dump())
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | range):
        return [plain(item) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value


def _expand_library(raw: dict[str, Any]) -> None:
    """Replace ``env: {gymnasium: "CartPole-v1"}`` by ``env: {name: gymnasium, id: "CartPole-v1"}``."""
    if isinstance(raw["env"], dict):
        raw["env"] = expanded_env(raw["env"])


def _run_name(section: Mapping[str, Any]) -> str:
    """Return the default name of a run: that of its environment."""
    named = section.get("id") if section["name"] in registry.HOST_LIBRARIES else None
    name = named if isinstance(named, str) else str(section["name"])
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name.rpartition(":")[2])[:100]


def _find_files(raw: dict[str, Any], folder: Path) -> None:
    """Replace files of environments, models and functions by their absolute paths, if they are in ``folder``."""
    for _, section, name in named_code(raw):
        file, colon, attribute = section[name].rpartition(":")
        if colon and file.endswith(".py") and (folder / file).is_file():
            section[name] = f"{(folder / file).resolve()}:{attribute}"


def _is_of_a_run(path: Path) -> bool:
    return path.name == "config.yaml" and any((path.parent / name).exists() for name in ("checkpoints", "metrics.csv"))


def _message(problems: Sequence[Problem], where: str, overridden: Sequence[str], created: Set[str]) -> str:
    lines = []
    for key, text in problems:
        on_command_line = key in created or any(f"{key}.".startswith(f"{given}.") for given in overridden)
        lines.append(f"{'command line' if on_command_line else where}: {key}: {text}")
    return lines[0] if len(lines) == 1 else "\n  ".join([f"{len(lines)} problems:", *lines])


def _file_of(source: str | Path) -> Path:
    check_path(source=source)
    path, shipped = Path(source), shipped_configs()
    if path.suffix == ".py":
        known = f"{path.name}:{_environment_in(path)}"
        raise ConfigError(f"{one_line(str(path), 100)}: expected a YAML file, or the class as well: {known}")
    if path.suffix in (".yaml", ".yml") or os.path.isfile(path):
        return path
    if str(source) in shipped:
        return shipped[str(source)]
    if str(source) in registry.registered_names():
        return _beside(str(source))
    if os.path.isfile(path / "config.yaml"):
        continued = f"--resume {shlex.quote(str(source))} continues the run"
        raise ConfigError(f"{one_line(str(source), 100)}: found a run folder, expected a YAML file: {continued}")
    hint = nearest(str(source), shipped) or nearest_file(Path(f"{source}.yaml"))
    raise ConfigError(
        f"{one_line(str(source), 100)}: neither a YAML file nor a registered environment."
        f"{hint or ' `warpdrive envs` lists the environments.'}"
    )


def _environment_in(path: Path) -> str:
    """Return the name of the first environment that a file defines, without executing it; MyEnv if there is none."""
    try:
        body = ast.parse(path.read_bytes()).body
    except (OSError, SyntaxError, ValueError, RecursionError):
        return "MyEnv"
    classes = [statement for statement in body if isinstance(statement, ast.ClassDef) and statement.bases]
    direct = [found for found in classes if "Environment" in ast.unparse(found.bases[0])]
    return next((found.name for found in [*direct, *classes]), "MyEnv")


def _beside(name: str) -> Path:
    """Return the path that the run configuration of a registered environment has if there is one."""
    return Path(inspect.getfile(registry.environment_class(name))).with_name(f"{name}.yaml")


_NOTHING = object()


def _holds(raw: Mapping[str, Any], key: Sequence[str]) -> bool:
    """Return True if a key is present."""
    return _value_of(raw, key) is not _NOTHING


def _value_of(raw: Mapping[str, Any], key: Sequence[str]) -> Any:
    """Return the value of a key, or ``_NOTHING``."""
    value: Any = raw
    for part in key:
        if not isinstance(value, Mapping) or part not in value:
            return _NOTHING
        value = value[part]
    return value


def _put(raw: dict[str, Any], key: tuple[str, ...], value: Any) -> None:
    section = raw
    for depth, part in enumerate(key[:-1]):
        if section.get(part) is None:
            section[part] = {}
        section = section[part]
        if not isinstance(section, dict):
            parent = ".".join(key[: depth + 1])
            raise ConfigError(f"command line: {'.'.join(key)}: '{parent}' is a value without keys")
    if len(key) == 3 and key[0] == "policy" and key[2] == "algorithm":
        former, new = (POLICY_CONFIGS.get(str(name)) for name in (section.get("algorithm"), value))
        if former and new:
            for name in former.model_fields.keys() - new.model_fields.keys():
                section.pop(name, None)
    section[key[-1]] = value
