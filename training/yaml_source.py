"""From YAML text to plain Python values: a file, or one ``key=value`` override of a command line."""

from __future__ import annotations

import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from warpdrive.errors import ConfigError


class _Loader(yaml.SafeLoader):
    """YAML's safe loader that reads ``1e-3`` as a number and refuses a key given twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: dict[Any, int] = {}
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            line = key_node.start_mark.line + 1
            if not isinstance(key, str):
                raise ConfigError(f"line {line}: found the key {key!r}, expected a name")
            if key in seen:
                raise ConfigError(f"line {line}: the key '{key}' is given twice (first in line {seen[key]})")
            seen[key] = line
        return super().construct_mapping(node, deep)


# YAML 1.1 wants a dot in a number with an exponent; YAML 1.2 and everybody who writes 1e-3 do not.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9][0-9_]*(\.[0-9_]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def _load(text: str) -> Any:
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise ConfigError(f"{line}not valid YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"not valid YAML: {' '.join(str(error).split())}") from None


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML file that holds one mapping.

    Raises:
        ConfigError: the file cannot be read, is not YAML, is empty, holds something else than a mapping, or gives
            a key twice. The message is one line that names the file.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise ConfigError(f"{path}: cannot be read: {reason}") from None
    try:
        value = _load(text)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    if value is None:
        raise ConfigError(f"{path}: the file is empty, expected the sections name, env, trainer, policy, saving")
    if not isinstance(value, dict):
        raise ConfigError(f"{path}: found a {type(value).__name__} at the top level, expected sections (key: value)")
    return value


def parse_override(text: str) -> tuple[tuple[str, ...], Any]:
    """Split ``"policy.tagger.lr=1e-3"`` into ``("policy", "tagger", "lr")`` and the value, read as YAML.

    Raises:
        ConfigError: there is no ``=``, a part of the key is empty, or the value is not YAML.
    """
    key, equals, value = text.partition("=")
    path = tuple(part.strip() for part in key.split("."))
    if not equals or not all(path):
        raise ConfigError(f"found the override '{text}', expected key=value, such as trainer.num_envs=2000")
    try:
        return path, _load(value)
    except ConfigError as error:
        raise ConfigError(f"command line: {key}: {error}") from None
