"""Elo ratings: strengths of players from the results of games.

A player rated 400 points above another is expected to score ten times as much (Elo 1978, "The Rating of
Chessplayers"). A win scores 1, a draw 1/2, a loss 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

SCALE = 400.0
_PRIOR = 0.5  # a win and a loss, each of half a game, without which the rating after only wins is infinite
_STEPS = 60  # of bisection, from a range of a few thousand points: far below a point


def expected_score(rating: float, opponent: float) -> float:
    """Return the expected score per game of a rating against an opponent's."""
    return 1.0 / (1.0 + math.pow(10.0, (opponent - rating) / SCALE))


def performance_rating(opponents: Sequence[float], scores: Sequence[float], games: Sequence[int]) -> float:
    """Return the rating whose expected score equals the actual score of a player.

    It maximises the likelihood, with a win and a loss of half a game each added against the mean opponent.

    Args:
        opponents: Ratings of the opponents, at least one.
        scores: Mean score per game against each.
        games: Number of games against each.

    Returns:
        The rating, on the Elo scale.
    """
    met = zip(opponents, scores, map(float, games), strict=True)
    played = [(rating, count, score * count) for rating, score, count in met]
    middle = sum(opponents) / len(opponents)
    played.append((middle, 2 * _PRIOR, _PRIOR))
    low, high = min(opponents) - 10 * SCALE, max(opponents) + 10 * SCALE
    for _ in range(_STEPS):
        rating = 0.5 * (low + high)
        if sum(count * expected_score(rating, opponent) - won for opponent, count, won in played) < 0.0:
            low = rating
        else:
            high = rating
    return 0.5 * (low + high)


def league_ratings(scores: Sequence[Sequence[float]], games: Sequence[Sequence[int]]) -> list[float]:
    """Return the ratings of players who played each other, with mean 0.

    They maximise the likelihood of the Bradley-Terry model, by the iteration of Hunter (2004, "MM algorithms for
    generalized Bradley-Terry models", Annals of Statistics 32), with one additional drawn game for each pair that met.

    Args:
        scores: Mean score per game of the row's player against the column's.
        games: Number of games; the diagonals are ignored.
    """
    players = range(len(scores))
    met = [[games[one][other] + 2 * _PRIOR if games[one][other] else 0.0 for other in players] for one in players]
    won = [
        sum(scores[one][other] * games[one][other] + _PRIOR for other in players if other != one and games[one][other])
        for one in players
    ]
    strength = [1.0] * len(scores)
    for _ in range(10_000):
        new = [
            won[one] / sum(met[one][other] / (strength[one] + strength[other]) for other in players if other != one)
            for one in players
        ]
        mean = math.exp(sum(map(math.log, new)) / len(new))
        new = [value / mean for value in new]
        settled = max(abs(math.log(after / before)) for after, before in zip(new, strength, strict=True)) < 1e-9
        strength = new
        if settled:
            break
    return [SCALE * math.log10(value) for value in strength]
