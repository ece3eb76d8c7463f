"""Page of the commands, from the argument parsers and the Makefile."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from reference_docs.markdown import code, link, page_of, table, with_code_spans
from warpdrive.checks import pytest_plugin
from warpdrive.numba_cuda import __main__ as numba_cuda
from warpdrive.training.cli import parser as command_line

INTRODUCTION = """\
# Commands

This page lists the commands of `warpdrive` with their arguments, options and examples, the modules that are commands of
their own, and the targets of the Makefile. `warpdrive <command> --help` prints the same text. `python -m warpdrive` is
the same as `warpdrive`.

A `<run>` is a run folder, `runs/<name>` for the latest run of that name, or, where it says so, a checkpoint. An
`<env or yaml>` is a [name of an environment](../guides/authoring.md#registering-environments) or of a shipped run
configuration, or the path of a YAML file. `key=value` overrides a [configuration
key](configuration.md#overriding-keys)."""

OUTPUT = """\
## Output and exit codes

[Training runs](../guides/training.md#output-of-commands) describes the output, colours and `--quiet`. Exit codes:

| exit code | meaning |
| --- | --- |
| 0 | success |
| 1 | findings of `check`, or a bug in WarpDrive, which the message says |
| 2 | an error of the user, explained in one line on stderr; a traceback with `--debug` |
| 129, 130, 143 | ended by SIGHUP, Ctrl-C or SIGTERM |
| 141 | the reader of a pipe is gone, as after `warpdrive envs \\| head` |"""

EXPLAINED = {
    "train": "../guides/training.md",
    "autoscale": "../guides/scaling.md#autoscaling",
    "sweep": "../guides/sweeps.md",
    "evaluate": "../guides/self_play.md#matches-and-leagues-between-runs",
    "plot": "../guides/training.md#learning-curves",
    "report": "../guides/training.md#reports",
    "watch": "../guides/training.md#watching-a-training",
    "replay": "../environments/index.md#rendering-and-replays",
    "web": "../guides/web.md",
    "export": "../guides/export.md",
    "check": "../guides/checks.md",
    "envs": "../environments/index.md",
    "init": "../guides/authoring.md",
    "schema": "../guides/training.md#run-configurations-in-an-editor",
    "convert": "../guides/warpdrive2.md#run-configurations",
}
"""Page or section about each command."""
COMMON = ("--debug", "--quiet", "--verbose", "--trust")


def page(project: Path) -> str:
    """Return the page in Markdown.

    Args:
        project: folder of the Makefile.
    """
    return page_of(_parts(project))


def commands() -> dict[str, argparse.ArgumentParser]:
    """Return the parsers of the commands, by name."""
    (action,) = (each for each in command_line.build_parser()._actions if isinstance(each, argparse._SubParsersAction))
    return dict(action.choices)


def options(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return the options of a parser that its help shows, without ``--help`` itself."""
    return [each for each in parser._actions if each.option_strings and each.dest != "help" and each.help is not None]


def _parts(project: Path) -> Iterator[str]:
    yield INTRODUCTION
    yield _command_list()
    yield "## Common options"
    yield _common_options()
    yield OUTPUT
    for name, parser in commands().items():
        yield f"## `warpdrive {name}`"
        yield from _command(name, parser)
    yield "## `python -m warpdrive.numba_cuda`"
    yield from _numba_cuda()
    yield "## `pytest -p warpdrive.numba_cuda`"
    yield (
        "Runs a test suite of `numba.cuda` on the CPU. See [numba.cuda programs without a "
        "GPU](../guides/numba_cuda.md) and [checks](../guides/checks.md#programs-of-numbacuda)."
    )
    yield _plugin_options()
    yield _code(
        ("pytest -p warpdrive.numba_cuda", "run the tests"),
        ("pytest -p warpdrive.numba_cuda --check-launches", "and fail those whose kernels have errors"),
        ("pytest -p warpdrive.numba_cuda --check-launches=nan", "also report NaN and infinity"),
    )
    yield "## `make`"
    yield (
        "Targets of the Makefile of a checkout; each installs what it needs into `.venv`. See "
        "[CONTRIBUTING.md](../../CONTRIBUTING.md#setting-up)."
    )
    yield table(["target", "purpose"], _targets(project / "Makefile"))
    yield "Variables, given as `make train ARGS=cartpole`:"
    yield table(["variable", "meaning", "default"], _VARIABLES)


_VARIABLES = (
    ("`ARGS`", "arguments of `warpdrive train` and `tools/gallery.py`", "`tag_gridworld`"),
    ("`PYTHON`", "interpreter of the virtual environment, or of a machine with a GPU", "`python3`"),
    ("`CONSTRAINTS`", "file of the versions to install; `/dev/null` for the newest ones", "`constraints.txt`"),
    ("`WHEELS`", "folder of the wheels for a GPU machine without a network", "`wheels`"),
    ("`GAME`, `FRAMES`, `SEED`", "what `make atari-check` compares", "`all`, `2000`, `0`"),
    ("`GPU_WORKERS`", "number of processes of `gpu-test`", "`8`"),
    ("`OPTIONS`", "options of the command behind `atari-check` or a `gpu-` target", "none"),
)


def _command_list() -> str:
    actions = [each for each in command_line.build_parser()._actions if isinstance(each, argparse._SubParsersAction)]
    purposes = {each.dest: each.help or "" for each in actions[0]._choices_actions}
    rows = [(f"[`{name}`](#warpdrive-{name})", purposes[name]) for name in commands()]
    return table(["command", "purpose"], rows)


def _common_options() -> str:
    found = {each.option_strings[-1]: each for parser in commands().values() for each in options(parser)}
    rows = []
    for name in COMMON:
        having = [command for command, parser in commands().items() if found[name].help in _helps(parser)]
        of = "all" if len(having) == len(commands()) else ", ".join(map(code, having))
        rows.append((_spelling(found[name]), _meaning(found[name])[0], of))
    rows.append(("`-h`, `--help`", "print the arguments, options and examples of a command", "all"))
    rows.append(("`--version`", "print the version", "`warpdrive` itself"))
    return table(["option", "meaning", "commands"], rows)


def _helps(parser: argparse.ArgumentParser) -> set[str | None]:
    return {each.help for each in options(parser)}


def _command(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    more = f" See {link(EXPLAINED[name])}." if name in EXPLAINED else ""
    yield f"{parser.description}{more}"
    positional = [each for each in parser._actions if not each.option_strings]
    yield f"```text\n{' '.join([parser.prog, '[options]', *map(_usage, positional)])}\n```"
    if positional:
        yield table(["argument", "meaning"], [(code(_name(each)), _linked(each.help or "")) for each in positional])
    for group in parser._action_groups:
        own = [
            each for each in group._group_actions if each in options(parser) and each.option_strings[-1] not in COMMON
        ]
        if own:
            if group.title not in ("options", "positional arguments"):
                title = str(group.title)
                yield f"{_linked(title[0].upper() + title[1:])}:"
            yield table(["option", "meaning", "default"], [(_spelling(each), *_meaning(each)) for each in own])
    yield from _epilog(parser.epilog or "")


def _numba_cuda() -> Iterator[str]:
    parser = numba_cuda._parser()
    yield f"{parser.description} See [numba.cuda programs without a GPU](../guides/numba_cuda.md)."
    yield f"```text\n{parser.prog} [options] (program.py | -m module) [arguments]\n```"
    shown = [each for each in options(parser) if each.help != argparse.SUPPRESS]
    yield table(["option", "meaning", "default"], [(_spelling(each), *_meaning(each)) for each in shown])
    yield from _epilog(parser.epilog or "")


def _plugin_options() -> str:
    """Return the table of the options that the plugin adds to pytest."""
    rows = []

    class Group:
        def addoption(self, name: str, metavar: str, help: str, **_: object) -> None:
            rows.append(
                (
                    f"`{name} {metavar}`" if "=" not in help else f"`{name}[={metavar}]`",
                    _split(help)[0],
                    _split(help)[1] or "off",
                )
            )

    class Parser:
        def getgroup(self, *_: str) -> Group:
            return Group()

    pytest_plugin.pytest_addoption(Parser())  # type: ignore[arg-type]
    return table(["option", "meaning", "default"], rows)


def _targets(makefile: Path) -> list[tuple[str, str]]:
    found = re.findall(r"^([a-z-]+):.*?## (.*)$", makefile.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [(code(f"make {name}"), text) for name, text in found]


def _name(action: argparse.Action) -> str:
    return str(action.metavar or (f"{{{','.join(action.choices)}}}" if action.choices else action.dest))


def _usage(action: argparse.Action) -> str:
    name = _name(action)
    forms = {"?": f"[{name}]", "*": f"[{name} ...]", "+": f"{name} [{name} ...]"}
    return forms.get(str(action.nargs), name)


def _spelling(action: argparse.Action) -> str:
    """Return an option with its value, as in ``-o FILE, --output FILE``."""
    if action.nargs == 0:
        return ", ".join(map(code, action.option_strings))
    value = _usage(action) if action.nargs else _name(action)
    return ", ".join(code(f"{name} {value}") for name in action.option_strings)


def _meaning(action: argparse.Action) -> tuple[str, str]:
    text, default = _split(action.help or "")
    return text, default or ("off" if action.nargs == 0 else "none")


def _split(text: str) -> tuple[str, str]:
    """Return a help text without its default, and the default."""
    found = re.search(r"\((?:([^()]*); )?default:? ((?:[^()]|\([^()]*\))*)\)", text)
    if found is None:
        return _linked(text), ""
    first, kept, default = text[: found.start()].rstrip(), found[1], found[2]
    default, _, kept_after = default.partition("; 0: ")
    kept = f"0: {kept_after}" if kept_after else kept
    rest = text[found.end() :].lstrip(". ")
    return _linked(f"{first}{f' ({kept})' if kept else ''}{f'. {rest}' if rest else ''}"), _linked(default)


def _linked(text: str) -> str:
    """Replace paths of pages by links, and mark code."""
    return with_code_spans(re.sub(r"docs/([\w/]+)/(\w+)\.md", _page, text))


def _page(found: re.Match[str]) -> str:
    folder = "" if found[1] == "reference" else f"../{found[1]}/"
    return f"[{found[2]}.md]({folder}{found[2]}.md)"


def _epilog(text: str) -> Iterator[str]:
    """Yield the blocks of an epilog: examples, definition lists, and paragraphs."""
    for block in re.findall(r"(?:^(?:examples|[^\n]*):\n(?:  .*\n?)+)|(?:^\S.*\n?)+", text, flags=re.MULTILINE):
        lines = block.strip("\n").split("\n")
        title = lines[0]
        indented = [line.strip() for line in lines[1:] if line.startswith("  ")]
        if not indented:
            yield _paragraph(" ".join(lines))
        elif title == "examples:":
            yield "Examples:"
            yield _code(*(_columns(line) for line in indented))
        else:
            items = [_columns(line) for line in indented]
            are_commands = any(not meaning or "$(" in meaning for _, meaning in items)
            yield _paragraph(title)
            yield (
                "\n".join(["```text", *indented, "```"])
                if are_commands
                else "\n".join(f"- {_words(word)}: {_linked(meaning)}" for word, meaning in items)
            )
            rest = [line for line in lines[1:] if not line.startswith("  ")]
            if rest:
                yield _paragraph(" ".join(rest))


def _words(text: str) -> str:
    """Return code spans of alternatives such as ``.png, .svg``."""
    parts = text.split(", ")
    return ", ".join(map(code, parts if all(part.startswith(".") for part in parts) else [text]))


def _columns(line: str) -> tuple[str, str]:
    left, _, right = line.partition("  ")
    return left, right.strip()


def _paragraph(text: str) -> str:
    first = text[0].upper() + text[1:]
    return _linked(first)


def _code(*examples: Sequence[str]) -> str:
    """Return a block of commands, each below its explanation."""
    parts = [f"# {comment}\n{command}" if comment else command for command, comment in examples]
    return "```bash\n" + "\n\n".join(parts) + "\n```"
