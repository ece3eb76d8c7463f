"""``warpdrive evaluate``: measure the policies of a run."""

from __future__ import annotations

import argparse

from warpdrive.training.commands.printing import console_for_people, in_words
from warpdrive.training.comparison import comparison_table, measurement
from warpdrive.training.trainer import Trainer


def run(options: argparse.Namespace) -> int:
    """Print one line: who acted, and what came out."""
    console = console_for_people()
    trainer = Trainer.load(options.run, which="best" if options.best else "latest", trust=options.trust)
    random = tuple(options.random)
    result = trainer.evaluate(options.episodes, random, deterministic=options.deterministic or None)
    console.print(comparison_table([measurement(trainer.config, random, result)], in_words(trainer.env.env)))
    return 0
