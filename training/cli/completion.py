"""``warpdrive completion``: shell completion, computed by ``warpdrive __complete`` at each press of the key.

The candidates come from the argument parser, from ``run_config.schema.json`` in the folder of shipped run
configurations, and from the files that the command line names. No large packages are imported: completion takes less
than a tenth of a second.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from warpdrive.terminal import plain
from warpdrive.training.config.schema_file import is_section, properties_of, resolved, section_of, shipped_schema

SHELLS = ("bash", "zsh", "fish")
COMPLETE = "__complete"
"""Hidden command by which the scripts request candidates."""

Candidates = Iterable[tuple[str, str]]
"""Values with their descriptions. A value that can be continued ends with one of ``OPEN``."""
OPEN = ("=", ".", "/", ":")

_CONFIGS = Path(__file__).parent.parent / "run_configs"
_SCRIPTS = {
    "bash": """\
_warpdrive() {
    local candidate
    COMPREPLY=()
    while IFS= read -r candidate; do
        COMPREPLY+=("$candidate")
    done < <("${COMP_WORDS[0]}" __complete bash "${COMP_LINE:0:COMP_POINT}" "$COMP_WORDBREAKS" 2>/dev/null)
}
complete -o nospace -F _warpdrive warpdrive""",
    "zsh": """\
#compdef warpdrive
_warpdrive() {
    local candidate
    local -a whole open
    while IFS= read -r candidate; do
        if [[ $candidate == open:* ]]; then open+=("${candidate#open:}"); else whole+=("${candidate#whole:}"); fi
    done < <("${(Q)words[1]}" __complete zsh "${(@Q)words[2,CURRENT]}" 2>/dev/null)
    _describe -t values value whole -- open -S ''
}
if [[ $funcstack[1] == _warpdrive ]]; then _warpdrive "$@"; else compdef _warpdrive warpdrive; fi""",
    "fish": """\
function __warpdrive_complete
    set -l words (commandline -opc)
    $words[1] __complete fish $words[2..-1] (commandline -ct | string collect --allow-empty) 2>/dev/null
end
complete -c warpdrive -f -a '(__warpdrive_complete)'""",
}


def run(options: argparse.Namespace) -> int:
    """Print the script."""
    print(_SCRIPTS[options.shell])
    return 0


def complete(shell: str, words: Sequence[str], parser: argparse.ArgumentParser) -> int:
    """Print the candidates for the last word of a command line, one per line.

    Args:
        shell: One of ``SHELLS``.
        words: The words after the command, the last up to the cursor; for bash, the command line and the characters at
            which bash splits words.
        parser: Argument parser of the command.
    """
    breaks = ""
    if shell == "bash":
        words, breaks = _split(words[0])[1:], words[1]
    with suppress(OSError, ValueError, KeyError):  # of invalid files: no candidates
        for value, description in _Line(words, parser).candidates():
            print(_printed(shell, value, " ".join(plain(description).split()), words[-1], breaks))
    return 0


def _split(line: str) -> list[str]:
    try:
        words = shlex.split(line)
    except ValueError:  # an open quote
        words = line.split()
    return [*words, ""] if line[-1:].isspace() else words


def _printed(shell: str, value: str, description: str, word: str, breaks: str) -> str:
    if shell == "fish":
        return f"{value}\t{description}" if description else value
    if shell == "zsh":
        kind = "open" if value.endswith(OPEN) else "whole"
        return f"{kind}:{value.replace(':', chr(92) + ':')}" + (f":{description}" if description else "")
    typed = max((word.rfind(mark) for mark in "=:" if mark in breaks), default=-1) + 1  # bash replaces the rest only
    escaped = re.sub(r"([^\w@%+=:,./~-])", r"\\\1", value[typed:])
    return escaped if value.endswith(OPEN) else f"{escaped} "


class _Line:
    """Command line up to the cursor.

    Args:
        words: The words after the command; the last one is completed.
        parser: Argument parser of the command.
    """

    def __init__(self, words: Sequence[str], parser: argparse.ArgumentParser) -> None:
        self.word, self._parser = words[-1], parser
        self._command, self._before = words[0] if words[1:] else None, words[1:-1]
        self._given: dict[str, list[str]] = {}  # by ``dest``

    def candidates(self) -> Candidates:
        """Return the candidates for the last word."""
        commands = next(a for a in self._parser._actions if isinstance(a, argparse._SubParsersAction))
        if self._command is None:
            helped = ((action.dest, action.help or "") for action in commands._choices_actions)
            return self._matching([*helped, *_options(self._parser)])
        if self._command not in commands.choices:
            return []
        parser = commands.choices[self._command]
        action = self._read(parser)
        if self.word.startswith("-") and (action is None or not action.option_strings):
            option, equals, _ = self.word.partition("=")
            chosen = parser._option_string_actions.get(option)
            if equals and chosen is not None:
                self.word = self.word[len(option) + 1 :]
                return [(f"{option}={value}", text) for value, text in self._matching(self._values(chosen))]
            return self._matching(_options(parser))
        return [] if action is None else self._matching(self._values(action))

    def _read(self, parser: argparse.ArgumentParser) -> argparse.Action | None:
        """Return the argparse action of the last word, after recording those of the words before."""
        positionals = [action for action in parser._actions if not action.option_strings]
        option: argparse.Action | None = None
        for word in self._before:
            name, equals, value = word.partition("=")
            if word.startswith("-") and name in parser._option_string_actions:
                option = parser._option_string_actions[name]
                self._given.setdefault(option.dest, []).extend([value] if equals else [])
                if equals or option.nargs == 0:
                    option = None
                continue
            if option is not None:
                self._given[option.dest].append(word)
                option = option if option.nargs == "+" else None
            else:
                action = self._next(positionals)
                if action is not None:
                    self._given.setdefault(action.dest, []).append(word)
        return option or self._next(positionals)

    def _next(self, positionals: Sequence[argparse.Action]) -> argparse.Action | None:
        for action in positionals:
            instead = action.dest == "source" and (self._given.get("resume") or self._given.get("env"))
            if not instead and (action.nargs in ("*", "+") or action.dest not in self._given):
                return action
        return None

    def _matching(self, candidates: Candidates) -> list[tuple[str, str]]:
        return [(value, text) for value, text in candidates if value.startswith(self.word)]

    def _values(self, action: argparse.Action) -> Candidates:
        if action.choices:
            return [(str(choice), "") for choice in action.choices]
        return VALUES.get(str(action.metavar), _nothing)(self)

    def files(self, *suffixes: str) -> Iterator[tuple[str, str]]:
        """Yield folders, and files with one of the suffixes, or all files for ``""``."""
        folder, slash, start = self.word.rpartition("/")
        for entry in sorted(os.scandir(os.path.expanduser(folder + slash) or "."), key=lambda entry: entry.name):
            if entry.name.startswith(".") and not start.startswith("."):
                continue
            if entry.is_dir():
                yield f"{folder}{slash}{entry.name}/", ""
            elif entry.name.endswith(suffixes):
                yield f"{folder}{slash}{entry.name}", ""

    def runs(self) -> Iterator[tuple[str, str]]:
        """Yield the runs in the folder ``runs``, folders and recordings."""
        if not self.word and os.path.isdir("runs"):
            yield from ((f"runs/{name}", "latest run") for name in sorted(os.listdir("runs")))
        yield from self.files(".npz", ".safetensors")

    def environments(self) -> Iterator[tuple[str, str]]:
        """Yield registered environments, and files that may define others."""
        from warpdrive.offered import offered_environments

        yield from ((name, "environment") for name in sorted(offered_environments()))
        yield from self.files(".py")

    def sources(self) -> Iterator[tuple[str, str]]:
        """Yield trainable sources: shipped run configurations with their first comment, and YAML files."""
        for path in sorted(_CONFIGS.rglob("*.yaml")):
            comments = [line[2:] for line in path.read_text(encoding="utf-8").splitlines()[:2] if line.startswith("# ")]
            yield path.relative_to(_CONFIGS).with_suffix("").as_posix(), comments[-1]
        yield from self.files(".yaml", ".yml")

    def runs_and_sources(self) -> Iterator[tuple[str, str]]:
        """Yield runs and trainable sources, without duplicate folders."""
        yield from dict.fromkeys([*self.runs(), *self.sources()])

    def tags(self) -> Iterator[tuple[str, str]]:
        """Yield the policy tags of the run or run configuration that is named before."""
        yield from ((tag, "policy") for tag in section_of(self.config().get("policy")))

    def metrics(self) -> Iterator[tuple[str, str]]:
        """Yield the columns of the metrics of the run that is named before."""
        for run in self._given.get("runs", []):
            found = _newest(Path(run), "metrics.csv")
            if found is not None:
                with found.open(encoding="utf-8") as file:
                    yield from ((name, "") for name in file.readline().strip().split(","))

    def keys(self) -> Iterator[tuple[str, str]]:
        """Yield the keys of a run configuration below the sections typed so far, or the values of a key."""
        config = self.config()
        schema = shipped_schema()
        section, place, values = schema, "", config
        if self._command == "check":  # parameters of the environment
            section = schema["properties"]["env"]
            values = {"name": self._given["source"][0], **section_of(config.get("env"))}
        key, equals, _ = self.word.partition("=")
        *sections, last = key.split(".")
        for name in sections:
            section = properties_of(schema, section, values)[name]
            values, place = section_of(values.get(name)), f"{place}{name}."
        properties = properties_of(schema, section, values)
        if equals:
            yield from ((f"{key}={value}", "") for value in _choices(schema, properties[last]))
            return
        if self._command == "check":
            del properties["name"]
        for name, node in properties.items():
            text = node.get("description") or resolved(schema, node).get("description", "")
            yield f"{place}{name}{'.' if is_section(schema, node) else '='}", text

    def config(self) -> dict[str, Any]:
        """Return the sections of the run or run configuration that is named before, with the overrides."""
        from warpdrive.training.config.yaml import parse_override, read_yaml

        named = [*self._given.get("source", []), *self._given.get("env", []), *self._given.get("resume", [])]
        named += [*self._given.get("run", []), *self._given.get("runs", [])]
        path = Path(os.path.expanduser(named[0])) if named else Path("/")
        found: Path | None = path
        if path.is_dir():
            found = _newest(path, "config.yaml")
        elif not path.suffix:
            found = _CONFIGS / f"{path}.yaml"
        config = read_yaml(found) if found is not None and found.is_file() else {}
        for text in self._given.get("overrides", []):
            with suppress(ValueError):
                (*sections, last), value = parse_override(text)
                section = config
                for name in sections:
                    section[name] = section_of(section.get(name))
                    section = section[name]
                section[last] = value
        return config


VALUES: dict[str, Callable[[_Line], Candidates]] = {
    "<env or yaml>": _Line.sources,
    "<env>": _Line.environments,
    "<run>": _Line.runs,
    "<run, env or yaml>": _Line.runs_and_sources,
    "RUN": _Line.runs,
    "<sweep>": _Line.runs,
    "FILE": lambda line: line.files(""),
    "TAG": _Line.tags,
    "NAME": _Line.metrics,
    "key=value": _Line.keys,
    "key=values": _Line.keys,
}
"""Candidates by the ``metavar`` of an argument."""
FREE = ("N", "S", "SIZE", "CLASS", "<name>")
"""Every other ``metavar``: there are no candidates."""


def _nothing(line: _Line) -> Candidates:
    return ()


def _options(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    for action in parser._actions:
        for option in action.option_strings:
            if option.startswith("--") or len(action.option_strings) == 1:
                yield option, action.help or ""


def _newest(run: Path, name: str) -> Path | None:
    """Return a file of a run folder, of the newest run of a name, or of a checkpoint's run."""
    found = [run / name, *sorted(run.glob(f"*/{name}"), reverse=True), *(parent / name for parent in run.parents)]
    return next((path for path in found if path.is_file()), None)


def _choices(schema: Mapping[str, Any], node: Mapping[str, Any]) -> Iterator[str]:
    """Yield the values of a key with a finite set of values."""
    node = resolved(schema, node)
    if node.get("type") == "boolean":
        yield from ("true", "false")
    yield from (value if isinstance(value, str) else json.dumps(value) for value in node.get("enum", []))
    for part in node.get("anyOf", []):
        yield from _choices(schema, part)
