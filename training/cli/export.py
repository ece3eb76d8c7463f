"""``warpdrive export``: write a trained policy to a file for other programs."""

from __future__ import annotations

import argparse
from pathlib import Path

from warpdrive.training.checkpoint.checkpoint import Which
from warpdrive.training.cli.printing import make_console, note, say
from warpdrive.training.inference.export import input_names, output_names
from warpdrive.training.inference.trained_policy import load_policy


def run(options: argparse.Namespace) -> int:
    """Write the file, and print its path, inputs and outputs."""
    which: Which = "best" if options.best else "latest"
    policy = load_policy(options.run, options.tag, which=which, trust=options.trust)
    with make_console().status("exporting and verifying the file"):
        # the tag of a policy from others may be a path: only its name is used
        output = Path(Path(f"{policy.tag}.onnx").name if options.output is None else options.output)
        path = policy.export(output, action_mask=options.action_mask)
    say(f"{path}: policy '{policy.tag}', {policy.observation_space} -> {policy.action_space}")
    note(f"  inputs   {', '.join(input_names(policy, options.action_mask))}")
    note(f"  outputs  {', '.join(output_names(policy))}")
    return 0
