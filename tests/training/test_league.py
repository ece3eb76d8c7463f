"""Elo ratings, and matches of trained policies."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from resuming import changed_manifest

from warpdrive.errors import CheckpointError, WarpDriveError
from warpdrive.training.cli.main import main
from warpdrive.training.league import Match, load_player, play_matches, ratings
from warpdrive.training.opponents.elo import expected_score, league_ratings, performance_rating
from warpdrive.training.trainer import Trainer

Sections = Callable[..., dict[str, Any]]
TrainerOf = Callable[..., Trainer]


def test_expected_scores_by_hand() -> None:
    assert expected_score(0.0, 0.0) == 0.5
    assert expected_score(400.0, 0.0) == pytest.approx(10 / 11)
    assert expected_score(0.0, 400.0) == pytest.approx(1 / 11)


def test_performance_against_one_opponent_by_hand() -> None:
    """S of n games and half a point of one more: 400 log10 of points won over points lost."""
    for score, games in ((0.75, 40), (1.0, 10), (0.0, 10), (0.5, 3)):
        won = score * games + 0.5
        expected = 50.0 + 400 * math.log10(won / (games + 1 - won))
        assert performance_rating([50.0], [score], [games]) == pytest.approx(expected, abs=1e-6)


def test_ratings_of_a_league_reproduce_the_scores() -> None:
    """Scores predicted by ratings reproduce the ratings; in many games the added draw is negligible."""
    true = [150.0, 0.0, -150.0]
    scores = [[expected_score(one, other) for other in true] for one in true]
    assert league_ratings(scores, [[10**7] * 3] * 3) == pytest.approx(true, abs=0.01)
    two = league_ratings([[0.0, 1.0], [0.0, 0.0]], [[0, 4], [4, 0]])  # 4.5 of 5 points
    assert two == pytest.approx([200 * math.log10(9), -200 * math.log10(9)])


@pytest.fixture
def players(sections: Sections, trainer_of: TrainerOf) -> tuple[Trainer, Any, Any]:
    """One whose policies always do what is wanted of 'even', and another that never does."""
    runs = []
    for sign in (1.0, -1.0):
        trainer = trainer_of(sections(total_steps=4000 if sign > 0 else 200))
        runs.append((trainer, trainer.train().run_folder))
    (trainer, strong), (_, weak) = runs
    return trainer, strong, weak


def test_the_better_policy_wins_in_either_place(
    players: tuple[Trainer, Any, Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer, strong, weak = players
    one, other = load_player(strong), load_player(weak)
    reported: list[Match] = []
    matches = play_matches(trainer, [(one, other)], 40, on_match=reported.append)
    assert reported == matches
    mirrored = play_matches(trainer, [(other, one)], 40)
    assert [match.tag for match in matches] == ["even", "odd"]
    for match, mirror in zip(matches, mirrored, strict=True):
        assert match.won + match.drawn <= 1.0
        assert (mirror.return_of_one, mirror.return_of_other) == (match.return_of_other, match.return_of_one)
        assert mirror.won == pytest.approx(1.0 - match.won - match.drawn)
        assert match.return_of_one > match.return_of_other and match.score > 0.5
    same = play_matches(trainer, [(one, one)], 10)
    assert [(match.drawn, match.score) for match in same] == [(1.0, 0.5)] * 2
    best, worst = ratings([str(strong), str(weak)], matches)
    assert best == -worst > 0
    capsys.readouterr()
    assert main(["evaluate", str(strong), "--against", str(weak), "--episodes", "10"]) == 0
    assert "10 pairs of episodes each" in capsys.readouterr().out
    assert main(["evaluate", str(strong), str(weak), "--league", "--episodes", "10"]) == 0
    assert "Elo ratings" in capsys.readouterr().out
    assert main(["evaluate", str(strong), str(weak), "--episodes", "10"]) == 0
    assert capsys.readouterr().out.count("trained even and odd") == 2

    def interrupted(*_: Any, on_match: Callable[[Match], object], **__: Any) -> None:
        on_match(matches[0])
        raise WarpDriveError("interrupted")

    monkeypatch.setattr("warpdrive.training.cli.evaluate.play_matches", interrupted)
    assert main(["evaluate", str(strong), str(weak), "--league"]) == 2
    assert f"{100 * matches[0].won:.0f} %" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        ({"algorithm": "chess"}, r"damaged: its configuration is invalid in policy\.odd"),
        ({"algorithm": "self_play", "of": "nobody"}, "damaged: the policy of 'odd', 'nobody', was not trained"),
    ],
)
def test_a_damaged_configuration_of_a_player_is_told(
    sections: Sections, trainer_of: TrainerOf, policy: dict[str, Any], told: str
) -> None:
    run = trainer_of(sections(total_steps=200)).train().run_folder
    for path in run.glob("checkpoints/step_*"):
        with changed_manifest(path) as manifest:
            manifest["config"]["policy"]["odd"] = policy
    with pytest.raises(CheckpointError, match=told):
        load_player(run)


def test_who_cannot_play_each_other_is_told(
    players: tuple[Trainer, Any, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    trainer, strong, weak = players
    for arguments, told in (
        ([str(strong), "--league"], "found one run, expected at least two"),
        ([str(strong), "--against", str(weak), "--random", "odd"], "--random cannot be combined with"),
    ):
        assert main(["evaluate", *arguments]) == 2
        assert told in capsys.readouterr().err
    player = load_player(strong)
    policy = player.policies["even"]
    policy.observation_space = type(policy.observation_space)(0.0, 7.0, (3,))
    with pytest.raises(WarpDriveError, match=r"policy 'even' is for Box.* but .* has Box"):
        play_matches(trainer, [(player, player)], 2)
    assert torch.is_grad_enabled()
