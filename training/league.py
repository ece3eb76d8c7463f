"""Matches between trained policies of several runs, and Elo ratings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from warpdrive.env_wrapper import EnvWrapper
from warpdrive.errors import CheckpointError, WarpDriveError, shown
from warpdrive.training.algorithms.base import LearningConfig
from warpdrive.training.checkpoint.checkpoint import Which, find_checkpoint, read_models
from warpdrive.training.config.load import config_of_checkpoint
from warpdrive.training.config.schema import SelfPlayConfig
from warpdrive.training.inference.trained_policy import TrainedPolicy, load_policy
from warpdrive.training.models.base import Actor
from warpdrive.training.opponents.elo import league_ratings
from warpdrive.training.progress.work import WorkProgress
from warpdrive.training.runtime.torch_threads import torch_threads
from warpdrive.training.trainer import Trainer


@dataclass(frozen=True)
class Player:
    """Policies of a checkpoint.

    Attributes:
        name: Name in tables.
        policies: Policies by policy tag; for self-play the current one. Agents of other tags act at random.
        learned: Tags that were trained.
    """

    name: str
    policies: Mapping[str, TrainedPolicy]
    learned: tuple[str, ...]

    @property
    def models(self) -> dict[str, Actor]:
        """Models of the policies, by policy tag."""
        return {tag: policy.model for tag, policy in self.policies.items()}


@dataclass(frozen=True)
class Match:
    """Episodes of one player against another, with sides swapped.

    In an episode ``one`` controls a tag that it learned and ``other`` all other tags; then they swap sides, from the
    same start state. The higher of the two returns of the tag wins.

    Attributes:
        one, other: The players.
        tag: Policy tag that they controlled in turn.
        episodes: Number of pairs of episodes.
        return_of_one, return_of_other: Mean returns of the tag.
        won, drawn: Fractions of the pairs that ``one`` won, and that were drawn.
    """

    one: str
    other: str
    tag: str
    episodes: int
    return_of_one: float
    return_of_other: float
    won: float
    drawn: float

    @property
    def score(self) -> float:
        """Mean score of ``one``: 1 for a win, 1/2 for a draw."""
        return self.won + 0.5 * self.drawn


def load_player(source: str | Path, which: Which = "latest", trust: bool = False) -> Player:
    """Load the policies of a run or checkpoint; ``trust`` as in ``wd.load_policy``.

    Args:
        source: A checkpoint folder, or a run: its folder or name.
        which: Checkpoint of a run: ``"latest"`` or ``"best"``.
        trust: See ``wd.load_policy``.

    Returns:
        The player.

    Raises:
        CheckpointError: If there is no checkpoint, it is damaged, or it has no trained policy.
    """
    folder = find_checkpoint(source, which)
    config = config_of_checkpoint(read_models(folder).config, folder)
    learned = tuple(tag for tag, settings in config.policy.items() if isinstance(settings, LearningConfig))
    if not learned:
        raise CheckpointError(f"{folder}: has no trained policy")
    policies = {tag: load_policy(folder, tag, trust=trust) for tag in learned}
    past = {tag: settings.of for tag, settings in config.policy.items() if isinstance(settings, SelfPlayConfig)}
    for tag, of in past.items():
        if of not in policies:
            raise CheckpointError(f"{folder}: damaged: the policy of '{tag}', {shown(of)}, was not trained")
    return Player(str(source), {**policies, **{tag: policies[of] for tag, of in past.items()}}, learned)


def play_matches(
    trainer: Trainer,
    pairs: Sequence[tuple[Player, Player]],
    episodes: int,
    seed: int | None = None,
    deterministic: bool = False,
    on_match: Callable[[Match], object] = lambda match: None,
) -> list[Match]:
    """Play the matches of pairs of players in the environment of ``trainer``.

    Args:
        trainer: Provides the environment and settings; its policies play only if they are among the players.
        pairs: Pairs of players.
        episodes: Number of episodes for each pair, tag and side.
        seed: Seed of start states and sampling; None: derived from the run's seed.
        deterministic: If True, take the most probable action instead of sampling.
        on_match: Called with each match once it has been played.

    Returns:
        The matches.

    Raises:
        WarpDriveError: If the environment has one policy tag, a pair has no learned tag in common, or the spaces of a
            player are not the environment's.
    """
    tags = trainer.env.policy_tags
    if len(tags) < 2:
        raise WarpDriveError(
            f"{trainer.env.env.name}: has only the policy tag '{next(iter(tags))}', so there are no opponents; "
            "'warpdrive evaluate' without --against and --league compares the returns of several runs"
        )
    players = {id(player): player for pair in pairs for player in pair}
    for player in players.values():
        _check_fits(player, trainer.env)
    matches = []
    rounds = [(one, other, tag) for one, other in pairs for tag in _in_common(one, other)]
    with (
        torch_threads(trainer.config.trainer.torch_threads),
        WorkProgress("playing", 2 * episodes * len(rounds), "episodes") as shown,
    ):
        for one, other, tag in rounds:
            returns = []
            for with_tag, against in ((one, other), (other, one)):
                models = {**against.models, tag: with_tag.models[tag]}
                _, evaluator = trainer.evaluations.evaluator(episodes, (), deterministic, seed, models=models)
                before = shown.completed
                with closing(evaluator):
                    evaluator.play(lambda done, _, before=before: shown.reach(before + done))  # type: ignore[misc]
                shown.reach(before + episodes)
                returns.append(evaluator.episode_returns()[tag])
            ours, theirs = returns
            won, drawn = (float(outcome.double().mean()) for outcome in (ours > theirs, ours == theirs))
            means = float(ours.mean()), float(theirs.mean())
            matches.append(Match(one.name, other.name, tag, len(ours), *means, won, drawn))
            on_match(matches[-1])
    return matches


def ratings(names: Sequence[str], matches: Sequence[Match]) -> list[float]:
    """Return Elo ratings with mean 0 from all matches; each pair of episodes is a game."""
    index = {name: number for number, name in enumerate(names)}
    games = [[0] * len(names) for _ in names]
    points = [[0.0] * len(names) for _ in names]
    for match in matches:
        one, other = index[match.one], index[match.other]
        for row, column, score in ((one, other, match.score), (other, one, 1.0 - match.score)):
            games[row][column] += match.episodes
            points[row][column] += score * match.episodes
    scores = [
        [won / count if count else 0.0 for won, count in zip(*rows, strict=True)]
        for rows in zip(points, games, strict=True)
    ]
    return league_ratings(scores, games)


def match_table(matches: Sequence[Match]) -> Table:
    """Return a table with a row for each match and policy tag."""
    table = Table(
        title=f"{matches[0].episodes} pairs of episodes each, with the players swapping sides",
        title_justify="left", title_style="bold", box=None, padding=(0, 3, 0, 0), pad_edge=False,
    )  # fmt: skip
    for name in ("player", "against", "as"):
        table.add_column(name, overflow="fold")
    for name in ("return", "return of other", "won", "drawn", "lost"):
        table.add_column(name, justify="right")
    for match in matches:
        lost = 1.0 - match.won - match.drawn
        shares = [f"{100 * share:.0f} %" for share in (match.won, match.drawn, lost)]
        returns = f"{match.return_of_one:.2f}", f"{match.return_of_other:.2f}"
        table.add_row(match.one, match.other, match.tag, *returns, *shares)
    return table


def rating_table(names: Sequence[str], elo: Sequence[float]) -> Table:
    """Return a table of players by rating, the strongest first."""
    table = Table(
        title="Elo ratings, mean 0", title_justify="left", title_style="bold", box=None, padding=(0, 3, 0, 0),
        pad_edge=False,
    )  # fmt: skip
    table.add_column("player", overflow="fold")
    table.add_column("Elo", justify="right")
    for name, rating in sorted(zip(names, elo, strict=True), key=lambda pair: -pair[1]):
        table.add_row(name, f"{rating:.0f}")
    return table


def _in_common(one: Player, other: Player) -> list[str]:
    tags = [tag for tag in one.learned if tag in other.policies]
    if not tags:
        raise WarpDriveError(
            f"{one.name} has trained {', '.join(one.learned)}, but {other.name} has none of these policies"
        )
    return tags


def _check_fits(player: Player, env: EnvWrapper) -> None:
    for tag, policy in player.policies.items():
        if tag not in env.policy_tags:
            known = ", ".join(env.policy_tags)
            raise WarpDriveError(f"{player.name}: has trained the policy tag '{tag}', expected one of {known}")
        found = policy.observation_space, policy.action_space
        expected = env.observation_spaces[tag], env.action_spaces[tag]
        if found != expected:
            description = [" -> ".join(map(str, spaces)) for spaces in (found, expected)]
            raise WarpDriveError(
                f"{player.name}: policy '{tag}' is for {description[0]}, but {env.env.name} has {description[1]}"
            )
