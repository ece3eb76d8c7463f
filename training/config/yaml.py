"""Parsing of YAML files, and of ``key=value`` overrides of a command line."""

from __future__ import annotations

import math
import re
import stat
from collections.abc import Hashable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from warpdrive.errors import ConfigError, nearest, one_line, shown

_LARGEST_FILE = 1_000_000  # bytes; PyYAML takes seconds for each megabyte
_MAX_VALUES = 100_000
_DEEPEST = 50


class _Loader(yaml.SafeLoader):
    """Safe YAML loader that reads ``1e-3`` as a number, and rejects duplicate keys and unbounded contents."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._depth = 0

    def get_single_node(self) -> yaml.Node | None:
        node: yaml.Node | None = super().get_single_node()
        if node is not None:
            self._count(node, {})
        return node

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self._depth += 1
        if self._depth > _DEEPEST:
            line = self.peek_event().start_mark.line + 1  # type: ignore[no-untyped-call]
            raise ConfigError(f"line {line}: sections and lists are nested more than {_DEEPEST} deep")
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        if isinstance(node, yaml.ScalarNode) and "\0" in node.value:
            raise ConfigError(f"{_line(node)}found {shown(node.value)}, expected no NUL characters")
        try:
            found = super().construct_object(node, deep)
            str(found if isinstance(found, int) else "")  # hexadecimal numbers may be longer than can be printed
            return found
        except (ValueError, KeyError, AttributeError, OverflowError):
            if not isinstance(node, yaml.ScalarNode):
                raise
            kind = node.tag.rpartition(":")[2]  # int, float, bool, timestamp
            raise ConfigError(f"{_line(node)}{shown(node.value)} cannot be read as YAML's '{kind}'") from None

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: dict[Any, int] = {}
        for key_node, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str) or not key.isprintable():
                raise ConfigError(f"{_line(key_node)}found the key {shown(key)}, expected a name")
            if key in seen:
                raise ConfigError(f"{_line(key_node)}the key '{key}' is duplicated (first in line {seen[key]})")
            seen[key] = key_node.start_mark.line + 1
        return super().construct_mapping(node, deep)

    def _count(self, node: yaml.Node, counted: dict[int, int]) -> int:
        """Return the number of values of a node, with aliases expanded; raise if there are too many."""
        if id(node) not in counted:
            counted[id(node)] = _MAX_VALUES + 1  # while being counted: only an alias to an enclosing node reads this
            parts = [] if isinstance(node, yaml.ScalarNode) else node.value
            if isinstance(node, yaml.MappingNode):
                parts = [part for pair in parts for part in pair]
            counted[id(node)] = 1 + sum(self._count(part, counted) for part in parts)
            if counted[id(node)] > _MAX_VALUES:
                raise ConfigError(f"{_line(node)}more than {_MAX_VALUES} values after expanding aliases")
        return counted[id(node)]


def _line(node: yaml.Node) -> str:
    return f"line {node.start_mark.line + 1}: "


class _Dumper(yaml.SafeDumper):
    """Safe YAML dumper that quotes strings which ``_Loader`` would read as numbers."""


# YAML 1.1 requires a dot in a number with an exponent; YAML 1.2 does not, nor do users who write 1e-3.
for _each in (_Loader, _Dumper):
    _each.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9][0-9_]*(\.[0-9_]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
    )


def dump(value: Any, in_flow_style: bool = False) -> str:
    """Return plain data as YAML, in blocks or ``in_flow_style``, ``{key: [1, 2]}``; ``parse_override`` reads both."""
    text: str = yaml.dump(
        value,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=in_flow_style,
        width=math.inf if in_flow_style else 80,
    )
    return text


def _load(text: str) -> Any:
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise ConfigError(f"{line}not valid YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"not valid YAML: {' '.join(str(error).split())}") from None


def nearest_file(path: Path) -> str:
    """Return ``" Did you mean 'x'?"`` for the YAML file whose name is closest to that of a missing one, or ``""``."""
    with suppress(OSError, ValueError):
        beside = [other.name for other in path.parent.iterdir() if other.suffix in (".yaml", ".yml")]
        hint = nearest(path.name, beside)
        return hint if path.parent == Path() else hint.replace(" '", f" '{path.parent}/")
    return ""


def _read(path: Path) -> str:
    """Return the text of a regular file of at most ``_LARGEST_FILE`` bytes.

    Raises:
        ConfigError: If it is not a regular file, from which one might read for ever, or it is larger.
        OSError: If it cannot be read.
    """
    found = path.stat()
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
        raise ConfigError(f"{path}: found a pipe, socket or device, expected a file")
    if found.st_size > _LARGEST_FILE:
        raise ConfigError(f"{path}: found {found.st_size} bytes, expected at most {_LARGEST_FILE}")
    return path.read_text(encoding="utf-8")


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML file that holds one mapping.

    Raises:
        ConfigError: If the file cannot be read, is not YAML, is empty, does not hold a mapping, or has duplicate keys.
            The message is one line that names the file.
    """
    try:
        text = _read(path)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file.{nearest_file(path)}".removesuffix(".")) from None
    except ConfigError:
        raise
    except (OSError, ValueError) as error:  # a name with a NUL is a ValueError, too
        reason = error.strerror if isinstance(error, OSError) else "it is not valid UTF-8"
        raise ConfigError(f"{one_line(str(path))}: cannot be read: {reason}") from None
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
    """Split ``"policy.tagger.lr=1e-3"`` into ``("policy", "tagger", "lr")`` and the value, parsed as YAML.

    Raises:
        ConfigError: If there is no ``=``, a part of the key is empty, or the value is not YAML.
    """
    key, equals, value = text.partition("=")
    path = tuple(part.strip() for part in key.split("."))
    if not equals or not all(part and part.isprintable() for part in path):
        raise ConfigError(f"found the override {shown(text)}, expected key=value, such as trainer.num_envs=2000")
    try:
        return path, _load(value)
    except ConfigError as error:
        raise ConfigError(f"command line: {key}: {error}") from None


def flat(section: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten nested sections to a dictionary with dotted keys."""
    values: dict[str, Any] = {}
    for key, value in section.items():
        values |= flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return values
