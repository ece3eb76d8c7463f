"""``warpdrive init``: a template for a new environment."""

from __future__ import annotations

import argparse
import keyword
import re
import sys
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console

from warpdrive.errors import ConfigError, shown
from warpdrive.training.cli.printing import make_console

TEMPLATE = "my_env"


def run(options: argparse.Namespace) -> int:
    """Write a small environment, its test and its run configuration to a folder of its name."""
    name = options.name
    folder = Path(name)
    if not name.isidentifier() or keyword.iskeyword(name) or name != name.lower():
        plain = re.sub(r"\W+", "_", name).strip("_").lower()
        hint = f" Did you mean '{plain}'?" if plain.isidentifier() and not keyword.iskeyword(plain) else ""
        made_of = "lower-case letters, digits and _ make one"
        raise ConfigError(f"{shown(name)} is no name for an environment: {made_of}.{hint}")
    if folder.exists():
        raise ConfigError(f"{folder}: there is something of that name already")
    if find_spec(name) is not None or name in sys.stdlib_module_names:
        raise ConfigError(
            f"'{name}' is the name of an installed Python module, which {name}.py would be imported in place of. "
            f"Did you mean 'my_{name}'?"
        )
    folder.mkdir()
    for template in (files("warpdrive.training") / "templates" / TEMPLATE).iterdir():
        if template.name.endswith((".py", ".yaml")):
            text = _named(template.read_text(encoding="utf-8"), name)
            folder.joinpath(_named(template.name, name)).write_text(text, encoding="utf-8")
    console = make_console()
    console.print(f"{folder}/ has a small environment that works, to be changed into your own:", highlight=False)
    _print_rows(
        console,
        (f"{name}.py", "the kernels and the class"),
        (f"test_{name}.py", "its tests"),
        (f"{name}.yaml", "how it is trained"),
    )
    console.print("\nTry it as it is (half a minute each, less the second time, as compiled code is kept):")
    missing = [] if find_spec("pytest") else [("pip install pytest", "which the tests need")]
    _print_rows(
        console,
        (f"cd {name}", ""),
        (f"warpdrive check {name}.py:{_class_name(name)}", "looks for mistakes in the kernels, and in what they do"),
        *missing,
        ("python -m pytest", "runs the tests"),
        (f"warpdrive train {name}.yaml", "trains, measures, and writes an animation"),
    )
    console.print(
        f"\nThen change {name}.py a piece at a time, and check after each. Its comments say what a kernel can use.",
        highlight=False,
    )
    return 0


def _print_rows(console: Console, *rows: tuple[str, str]) -> None:
    width = max(len(first) for first, _ in rows)
    for first, second in rows:
        console.print(f"  {first:<{width}}  {second}".rstrip(), highlight=False)


def _named(text: str, name: str) -> str:
    return text.replace("my_env", name).replace("MyEnv", _class_name(name))


def _class_name(name: str) -> str:
    words = [word for word in name.split("_") if word]
    return "".join(word[0].upper() + word[1:] for word in words) or "MyEnv"
