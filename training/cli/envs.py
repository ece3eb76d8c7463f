"""``warpdrive envs``: the registered environments, and the parameters of one."""

from __future__ import annotations

import argparse
import inspect

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from warpdrive import registry
from warpdrive.environment import Environment
from warpdrive.errors import WarpDriveError
from warpdrive.training.cli.printing import make_console


def run(options: argparse.Namespace) -> int:
    """Print all environments, or one in detail."""
    console = make_console()
    if options.name is None:
        console.print(_all_environments(), markup=True)
        console.print(
            "[dim]warpdrive envs <name> shows its parameters, warpdrive train <name> trains policies in it.[/dim]",
            markup=True,
        )
    else:
        _print_one(console, options.name, registry.environment_class(options.name))
    return 0


def _all_environments() -> Table:
    table = Table("environment", "description", box=None, header_style="bold", padding=(0, 2, 0, 0))
    for name in registry.registered_names():
        try:
            what = escape(_first_line(registry.environment_class(name)))
        except (WarpDriveError, ImportError) as error:  # one broken plug-in does not hide the others
            what = f"[red]cannot be loaded:[/red] {escape(str(error))}"
        table.add_row(escape(name), what)
    return table


def _print_one(console: Console, name: str, environment: type[Environment]) -> None:
    console.print(f"[bold]{escape(name)}[/bold]  {escape(_first_line(environment))}", markup=True)
    if ":" not in name:  # a registered name: say where the class is
        console.print(f"{environment.__module__}:{environment.__qualname__}", style="dim", highlight=False)
    table = Table("parameter", "default", box=None, header_style="bold", padding=(0, 2, 0, 0))
    for parameter in inspect.signature(environment).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        required = parameter.default is parameter.empty
        table.add_row(parameter.name, "[italic]required[/italic]" if required else escape(repr(parameter.default)))
    if table.row_count:
        console.print(table, markup=True)
        console.print(
            "[dim]Set one with env.<parameter>=<value>, or under env: in a run configuration.[/dim]", markup=True
        )
    else:
        console.print("No parameters.")
    if configs := _configurations_of(name):
        console.print(f"[dim]Run configurations (warpdrive train <name>):[/dim] {', '.join(configs)}", markup=True)


def _configurations_of(name: str) -> list[str]:
    """Return the names of the shipped run configurations of an environment."""
    from warpdrive.training.config.load import shipped_configs  # the list of environments does not need it
    from warpdrive.training.config.yaml import read_yaml

    return [config for config, path in shipped_configs().items() if read_yaml(path)["env"]["name"] == name]


def _first_line(environment: type[Environment]) -> str:
    documentation = inspect.getdoc(environment) or ""
    # Python gives a class without a docstring that of its base.
    inherited = documentation == (inspect.getdoc(Environment) or "")
    return "" if inherited else documentation.partition("\n")[0]
