"""The console against ale-py, frame by frame: RAM and picture."""

from __future__ import annotations

import sys

import pytest
from paths import ROOT

pytest.importorskip("ale_py", reason="the extra `atari` brings ale-py")
sys.path.append(str(ROOT / "tools"))

import atari_check

GAMES = {
    "breakout": "2K",
    "pong": "2K",
    "backgammon": "4K",
    "seaquest": "4K",
    "space_invaders": "4K",
    "mr_do": "F8",
    "ms_pacman": "F8",
    "elevator_action": "F8SC",
    "solaris": "F6",
    "darkchambers": "F6SC",
    "montezuma_revenge": "E0",
    "robotank": "FE",
}


@pytest.mark.parametrize("name", GAMES)
def test_ram_and_picture_are_those_of_ale(name: str) -> None:
    result = atari_check.compare(name, frames=1000, seed=0, registers=True)
    assert result.cartridge == GAMES[name] and result.frames == 1000
    assert (result.ram, result.registers, result.screen) == (None, None, None)


def test_another_action_is_a_difference() -> None:
    """The comparison notices a console that runs otherwise."""
    ale = atari_check.ale_console("breakout", 0)
    state = atari_check.ale_state.parse(ale.cloneState())
    ours, controllers = atari_check.Ours("breakout", state, False), atari_check.Inputs("breakout", state)
    inputs = [controllers.words(1) for _ in range(20)]
    for _ in inputs:
        ale.act(0)
    rams, _, _ = ours.run(atari_check.np.array(inputs, atari_check.np.int32))
    assert (rams[-1] != ale.getRAM()).any()
