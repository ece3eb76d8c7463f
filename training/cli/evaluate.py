"""``warpdrive evaluate``: measure the policies of runs, alone or against each other."""

from __future__ import annotations

import argparse
import sys
from itertools import combinations

from warpdrive.errors import WarpDriveError
from warpdrive.terminal import is_quiet, plain
from warpdrive.training.checkpoint.checkpoint import Which
from warpdrive.training.cli.comparison import Measurement, comparison_table, measurement
from warpdrive.training.cli.printing import in_words, make_console
from warpdrive.training.league import Match, load_player, match_table, play_matches, rating_table, ratings
from warpdrive.training.trainer import Trainer


def run(options: argparse.Namespace) -> int:
    """Print a table of the policies and their results."""
    console = make_console(of_results=True)
    which: Which = "best" if options.best else "latest"
    if options.against or options.league:
        return _compete(options, which)
    several = len(options.runs) > 1
    random, meaning = tuple(options.random), ""
    measurements: list[Measurement] = []
    try:
        for each in options.runs:
            trainer = Trainer.load(each, which=which, trust=options.trust, to_train=False)
            result = trainer.evaluate(options.episodes, random, deterministic=options.deterministic or None)
            if measurements and list(result.mean_return) != list(measurements[0].result.mean_return):
                tags = (" and ".join(found.mean_return) for found in (result, measurements[0].result))
                raise WarpDriveError(
                    f"{each}: has the policy tags {next(tags)}, but {options.runs[0]} has {next(tags)}"
                )
            measurements.append(measurement(trainer.config, random, result, each if several else ""))
            meaning = in_words(trainer.env.env)
            if several:
                returns = ", ".join(f"return of {tag} {value:.2f}" for tag, value in result.mean_return.items())
                _print_progress(f"{each}: {returns}")
    finally:  # results of the runs before one that fails or is interrupted
        if measurements:
            console.print(comparison_table(measurements, meaning))
    return 0


def _compete(options: argparse.Namespace, which: Which) -> int:
    if options.random:
        raise WarpDriveError("--random cannot be combined with --against or --league")
    names = list(dict.fromkeys([*options.runs, *options.against]))
    if len(names) < 2:
        raise WarpDriveError("found one run, expected at least two to play each other")
    console = make_console(of_results=True)
    trainer = Trainer.load(names[0], which=which, trust=options.trust, to_train=False)
    players = {name: load_player(name, which, options.trust) for name in names}
    if options.league:
        pairs = list(combinations(players.values(), 2))
    else:
        pairs = [(players[one], players[other]) for one in options.runs for other in options.against if one != other]
    episodes = options.episodes or trainer.evaluations.num_episodes
    matches: list[Match] = []

    def report(match: Match) -> None:
        matches.append(match)
        if len(pairs) > 1:
            _print_progress(f"{match.one} against {match.other} as {match.tag}: score {match.score:.2f}")

    try:
        play_matches(trainer, pairs, episodes, deterministic=options.deterministic, on_match=report)
    finally:  # matches before one that fails or is interrupted
        if matches:
            console.print(match_table(matches))
    if options.league:
        console.print()
        console.print(rating_table(names, ratings(names, matches)))
    return 0


def _print_progress(line: str) -> None:
    if not is_quiet():
        print(plain(line), file=sys.stderr, flush=True)
