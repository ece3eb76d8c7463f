"""``warpdrive schema``: the JSON Schema of run configurations."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from warpdrive.training.cli.printing import say
from warpdrive.training.config.json_schema import json_schema
from warpdrive.training.runtime.atomic_write import write_atomically


def run(options: argparse.Namespace) -> int:
    """Print the schema, or write it to a file."""
    text = json.dumps(json_schema(options.environments), indent=1)
    if options.output is None:
        print(text)
    else:
        write_atomically(Path(options.output), f"{text}\n")
        say(options.output)
    return 0
