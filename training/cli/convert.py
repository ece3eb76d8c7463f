"""``warpdrive convert``: a run configuration of WarpDrive 2 or 1 as one of this package, with notes on what changed."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from warpdrive.errors import ConfigError, one_line
from warpdrive.training.config.validate import problems_of
from warpdrive.training.config.warpdrive2 import convert, is_of_warpdrive2
from warpdrive.training.config.yaml import dump, read_yaml
from warpdrive.training.runtime.atomic_write import write_atomically


def run(options: argparse.Namespace) -> int:
    """Write the configuration to a file or to stdout, with notes and remaining problems as comments."""
    raw = read_yaml(Path(options.source))
    if not is_of_warpdrive2(raw):
        raise ConfigError(f"{one_line(options.source)}: expected a run configuration of WarpDrive 2 or 1")
    config, notes = convert(raw)
    problems = [f"{key}: {text}" for key, text in problems_of(config)]
    titles = {f"Converted from {Path(options.source).name}, a run configuration of WarpDrive 2. Note:": notes}
    titles["To correct:"] = problems
    comments = "".join(_comment(title, lines) for title, lines in titles.items() if lines)
    text = comments + dump(config)
    if options.output is None:
        sys.stdout.write(text)
        return 0
    write_atomically(Path(options.output), text)
    counts = (
        f"{len(notes)} note{'s' * (len(notes) != 1)}, {len(problems)} problem{'s' * (len(problems) != 1)} to correct"
    )
    print(f"{options.output}: {counts}; see its first lines")
    return 0


def _comment(title: str, lines: list[str]) -> str:
    return "".join(f"# {one_line(line, 500)}\n" for line in (title, *(f"- {line}" for line in lines)))
