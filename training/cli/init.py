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
from warpdrive.training.cli.printing import make_console, say

TEMPLATE = "my_env"
SCHEMA = "run_config.schema.json"


def run(options: argparse.Namespace) -> int:
    """Write a small environment, its test and its run configuration to a folder of its name."""
    name = options.name
    folder = Path(name)
    if not name.isidentifier() or keyword.iskeyword(name) or name != name.lower():
        plain = re.sub(r"\W+", "_", name).strip("_").lower()
        hint = f" Did you mean '{plain}'?" if plain.isidentifier() and not keyword.iskeyword(plain) else ""
        made_of = "use lower-case letters, digits and _"
        raise ConfigError(f"{shown(name)} is not a valid name of an environment: {made_of}.{hint}")
    if folder.exists():
        raise ConfigError(f"{folder}: already exists")
    if name in sys.stdlib_module_names or name in sys.modules or find_spec(name) is not None:
        raise ConfigError(
            f"'{name}' is the name of an installed Python module, which {name}.py would shadow. "
            f"Did you mean 'my_{name}'?"
        )
    folder.mkdir()
    for template in (files("warpdrive.training") / "templates" / TEMPLATE).iterdir():
        if template.name.endswith((".py", ".yaml")):
            text = _named(template.read_text(encoding="utf-8"), name)
            folder.joinpath(_named(template.name, name)).write_text(text, encoding="utf-8")
    schema = files("warpdrive.training") / "run_configs" / SCHEMA
    folder.joinpath(SCHEMA).write_text(schema.read_text(encoding="utf-8"), encoding="utf-8")
    console = make_console()
    if console.quiet:
        say(str(folder))
    console.print(f"{folder}/ contains a small working environment to start from:", highlight=False)
    _print_rows(
        console,
        (f"{name}.py", "kernels and class of the environment"),
        (f"test_{name}.py", "tests"),
        (f"{name}.yaml", "run configuration"),
        (SCHEMA, "its keys, for editors"),
    )
    console.print("\nTry it (half a minute each, less the second time, as compiled code is cached):")
    missing = [] if find_spec("pytest") else [("pip install pytest", "required by the tests")]
    _print_rows(
        console,
        (f"cd {name}", ""),
        (f"warpdrive check {name}.py:{_class_name(name)}", "check the kernels and the environment for errors"),
        *missing,
        ("python -m pytest", "run the tests"),
        (f"warpdrive train {name}.yaml", "train, evaluate and animate"),
    )
    console.print(
        f"\nThen edit {name}.py in small steps, and check after each. Its comments describe what kernels can use.",
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
