"""The table of Atari games and its rules, compared with ale-py and with results by hand."""

from __future__ import annotations

import dataclasses
import sys

import numpy as np
import pytest
from exhaustive import exhaustive
from paths import ROOT

from warpdrive.envs.atari import games, roms, rules
from warpdrive.envs.atari.games import Compare, Game, Term
from warpdrive.envs.atari.opcodes import PADDING
from warpdrive.errors import DefinitionError

pytest.importorskip("ale_py")
sys.path.append(str(ROOT / "tools"))

import atari_game
import atari_rules_check

PLAYED = {
    "asterix": 2500, "atlantis": 2500, "beam_rider": 4000, "breakout": 2000, "demon_attack": 2500,
    "ms_pacman": 2500, "pong": 3000, "qbert": 2500, "riverraid": 2500, "space_invaders": 2500, "tennis": 6000,
}  # fmt: skip
NAMES = atari_rules_check.SINGLE
SHOWN = (
    "asterix", "boxing", "breakout", "freeway", "montezuma_revenge", "ms_pacman", "pong", "riverraid", "skiing",
    "space_invaders", "tennis", "wizard_of_wor",
)  # fmt: skip
"""Games whose rules differ in kind."""


def results(game: Game, *rams: dict[int, int]) -> list[list[int]]:
    """Return reward, lives and end after each of some memories; other bytes are 0."""
    memory = np.zeros((len(rams), 128), np.uint8)
    for row, ram in zip(memory, rams, strict=True):
        for address, byte in ram.items():
            row[address - 0x80] = byte
    written = np.zeros((len(rams), 3), np.int32)
    rules.evaluate_frames[1, 1](memory, rules.program(game), written)
    return written.tolist()


def test_games_are_sorted_and_found_by_any_spelling() -> None:
    assert sorted(games.GAMES) == list(games.GAMES)
    assert games.game("BankHeist") is games.game("bank_heist") is games.game("Bank-Heist")
    with pytest.raises(DefinitionError, match=r"no Atari game 'brakout'.*'breakout'"):
        games.game("brakout")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("tetris", r"^ale-py has the ROM of tetris, but there are no rules .* docs/guides/atari\.md#adding-a-game\."),
        ("ALE/AirRaid-v5", "^ale-py has the ROM of air_raid, but"),
        ("pitfall2", r"^pitfall2 is not supported: see docs/guides/atari\.md#limitations\."),
    ],
)
def test_roms_without_rules_are_reported(name: str, told: str) -> None:
    with pytest.raises(DefinitionError, match=told):
        games.game(name)


@pytest.mark.parametrize("name", NAMES)
def test_the_table_agrees_with_ale_py(name: str) -> None:
    game = games.game(name)
    assert roms.load(name, game.md5).size - PADDING in (2048, 4096, 8192, 16384)
    ale = atari_game.console(name)
    assert game.actions == tuple(action.value for action in ale.getMinimalActionSet())
    assert sorted(game.modes) == sorted(ale.getAvailableModes())
    assert sorted(game.difficulties) == sorted(ale.getAvailableDifficulties())
    assert (game.height, 160) == ale.getScreenDims()


# in the other two multi-agent-ale-py also takes points from players who wait
WITH_TWO = [name for name, game in games.GAMES.items() if game.two and name not in ("double_dunk", "tennis")]


@pytest.mark.parametrize("name", exhaustive(WITH_TWO, ("combat", "entombed", "joust", "pong", "space_war")))
def test_rules_for_two_agree_with_multi_agent_ale_py(name: str) -> None:
    pytest.importorskip("multi_agent_ale_py")
    (frames, rewards, _), different = atari_rules_check.compare_two(games.game(name), 2, 2000)
    assert different == [] and (frames == 2000 or name == "entombed")
    assert rewards or name in ("ice_hockey", "mario_bros")


WITH_MODES = [name for name in NAMES if len(games.game(name).modes) > 1]


@pytest.mark.parametrize("name", exhaustive(WITH_MODES, SHOWN))
def test_the_memory_gives_the_mode(name: str) -> None:
    game = games.game(name)
    read = Game(game.name, game.md5, game.cartridge, game.actions, score=(), lives=game.mode)
    for mode in game.modes:
        ram = atari_game.console(name, mode=mode).getRAM()
        written = np.zeros((1, 3), np.int32)
        rules.evaluate_frames[1, 1](ram[None], rules.program(read), written)
        assert written[0, 1] == mode


@pytest.mark.parametrize("name", exhaustive(PLAYED, ("breakout", "pong", "space_invaders", "tennis")))
def test_rules_agree_with_ale_py_in_play(name: str) -> None:
    game = games.game(name)
    record = atari_rules_check.episode(game, 1, PLAYED[name])
    assert np.any(record.rewards)
    assert not game.lives or np.any(np.diff(record.lives))
    assert atari_rules_check.differences(game, record) == []


@pytest.mark.parametrize("name", exhaustive(NAMES, SHOWN))
def test_rules_agree_with_ale_py_for_any_memory(name: str) -> None:
    game = games.game(name)
    records = atari_rules_check.memories(game, 1, 300)
    assert [line for record in records for line in atari_rules_check.differences(game, record)] == []
    assert any(np.any(record.rewards) for record in records)
    # a wrong term is noticed
    wrong = dataclasses.replace(game, score=tuple(term._replace(weight=-term.weight) for term in game.score))
    assert any(atari_rules_check.differences(wrong, record) for record in records)


def test_decimal_digits_and_carries() -> None:
    assert results(
        games.game("asterix"),
        {0xDE: 0x00, 0xDF: 0x99, 0xE0: 0x50, 0xD3: 0xF3},
        {0xDE: 0x01, 0xDF: 0x00, 0xE0: 0x00, 0xD3: 0xF2},
        {0xDE: 0x01, 0xDF: 0x00, 0xE0: 0x00, 0xD3: 0xF1, 0xC7: 1},
    ) == [[0, 3, 0], [50, 2, 0], [0, 0, 1]]


def test_a_loss_counts_only_under_its_condition() -> None:
    beam_rider = games.game("beam_rider")
    frames = [{0x85: 2}, {0x85: 1, 0x8C: 5}, {0x85: 2}, {0x85: 1, 0x8C: 1}, {0x85: 0xFF, 0x8C: 1}]
    assert [lives for _, lives, _ in results(beam_rider, *frames)] == [3, 3, 3, 2, 0]


def test_a_score_that_does_not_count_is_kept() -> None:
    atlantis = games.game("atlantis")
    frames = [{0xF1: 2, 0xA2: 0x12}, {0xF1: 2, 0xA2: 0x15}, {0xF1: 0xFF, 0xA1: 0x77}]
    assert results(atlantis, *frames) == [[0, 2, 0], [300, 2, 0], [0, 0, 1]]


def test_a_fall_takes_a_life_and_a_rise_gives_none() -> None:
    frames = [{0x88: byte} for byte in (0, 2, 1, 2, 1, 1, 0, 0xFF, 0xFE)]
    assert [lives for _, lives, _ in results(games.game("qbert"), *frames)] == [4, 4, 3, 3, 2, 2, 1, 0, 0]
    assert results(games.game("qbert"), {0x88: 0xFF}, {0x88: 0xFE, 0xDA: 1})[1] == [0, 0, 1]


def test_lives_are_kept_while_memory_does_not_give_them() -> None:
    frames = [{0xD7: 1, 0x8D: 2}, {0xD7: 1, 0x8D: 2}, {0xD7: 0, 0x8D: 2}, {0xD7: 1, 0x8D: 1}, {0xD7: 0, 0x8D: 1}]
    assert [lives for _, lives, _ in results(games.game("wizard_of_wor"), *frames)] == [3, 3, 2, 2, 1]


def test_the_frame_before_decides_about_the_end() -> None:
    riverraid = games.game("riverraid")
    assert [over for _, _, over in results(riverraid, {0xC0: 0x58}, {0xC0: 0x58}, {0xC0: 0x59}, {0xC0: 0x58})] == [
        0, 0, 0, 1,
    ]  # fmt: skip


def test_a_game_counts_more_than_the_points_that_end_with_it() -> None:
    points, games_won = {0xC5: 3, 0xC6: 2}, {0xC7: 1}
    frames = [{0xC5: 2, 0xC6: 2}, points, games_won, games_won, {0xC7: 1, 0xC6: 1}, {0xC7: 1, 0xC8: 1}]
    assert [reward for reward, *_ in results(games.game("tennis"), *frames)] == [0, 1, 1, 0, -1, -1]
    frames = [{0xC7: 6, 0xC8: 5, 0xC6: 3}, {}, {0xC7: 5, 0xC8: 6, 0xC5: 3}, {}]
    assert [reward for reward, *_ in results(games.game("tennis"), *frames)][1::2] == [-1, 1]


def test_a_score_beyond_the_last_digit_begins_anew() -> None:
    assert [reward for reward, *_ in results(games.game("space_invaders"), {0xE6: 0x99, 0xE8: 0x90}, {0xE8: 0x15})] == [
        0, 25,
    ]  # fmt: skip


def test_rewards_are_limited() -> None:
    assert [reward for reward, *_ in results(games.game("freeway"), {0xE7: 9}, {0xE7: 0x10}, {0xE7: 0x15}, {})] == [
        0, 1, 1, 0,
    ]  # fmt: skip


def test_relations() -> None:
    compares = [
        Compare(0x80, "==", 3, mask=0x0F),
        Compare(0x80, "!=", 3),
        Compare(0x80, "<", 3),
        Compare(0x80, ">=", 3),
    ]
    for compare, expected in zip(compares, ([0, 1, 0, 1], [1, 0, 1, 1], [1, 0, 0, 0], [0, 1, 1, 1]), strict=True):
        game = dataclasses.replace(games.game("pong"), over=((compare,),))
        assert [over for _, _, over in results(game, *({0x80: byte} for byte in (2, 3, 4, 0x13)))] == expected


def test_relations_to_the_frame_before() -> None:
    frames = [{0x80: byte} for byte in (3, 3, 2, 0, 0xFF)]
    compares = [Compare(0x80, "was", 3), Compare(0x80, "by", 0xFF), Compare(0x80, "not by", 0)]
    for compare, expected in zip(compares, ([0, 1, 1, 0, 0], [0, 0, 1, 0, 1], [0, 0, 1, 1, 1]), strict=True):
        game = dataclasses.replace(games.game("pong"), over=((compare,),))
        assert [over for _, _, over in results(game, *frames)][1:] == expected[1:]


def test_too_many_rows_are_rejected() -> None:
    game = dataclasses.replace(games.game("pong"), score=(Term(0x80),) * rules.ROWS)
    with pytest.raises(DefinitionError, match="rules of pong have"):
        rules.program(game)


def test_another_version_of_a_rom_is_rejected() -> None:
    with pytest.raises(DefinitionError, match=r"pong\.bin: the MD5 of the ROM is 60e0.*, expected 0000"):
        roms.load("pong", "0" * 32)


def test_a_rom_that_is_missing_is_reported() -> None:
    with pytest.raises(DefinitionError, match=r"ROM of nothing is not in the installed package ale-py: .*nothing\.bin"):
        roms.load("nothing", "0" * 32)


def test_a_missing_ale_py_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roms, "find_spec", lambda name: None)
    with pytest.raises(DefinitionError, match=r"not installed: pip install 'warpdrive\[atari\]'"):
        roms.load("pong", "0" * 32)
