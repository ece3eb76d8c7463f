"""The console against ale-py, frame by frame: RAM and picture."""

from __future__ import annotations

import inspect
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from paths import ROOT

import warpdrive as wd
from warpdrive.envs.atari import ale_state, beam, frequent, games, machine, opcodes

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


@pytest.mark.parametrize(
    ("name", "on_gpu"), [*((name, False) for name in GAMES), ("pong", True), ("elevator_action", True)]
)
def test_ram_and_picture_are_those_of_ale(name: str, on_gpu: bool) -> None:
    result = atari_check.compare(name, frames=1000, seed=0, registers=True, on_gpu=on_gpu)
    assert result.cartridge == GAMES[name] and result.frames == 1000
    assert (result.ram, result.registers, result.screen) == (None, None, None)


@wd.kernel
def draw_line(registers, objects, screen):
    beam.advance(registers, objects, screen, machine.CLOCKS_PER_LINE, 0, 1, True)


@pytest.mark.parametrize(("control", "left", "right"), [(0, 3, 3), (2, 1, 2), (4, 3, 3), (6, 3, 3)])
def test_the_playfield_in_the_colours_of_the_players_covers_the_ball(control: int, left: int, right: int) -> None:
    """As in ale-py's Carnival, frame 354 of seed 11; where there is no playfield, the ball keeps its colour."""
    registers, screen = np.zeros(machine.SIZE, np.int32), np.zeros((2, 1, machine.WIDTH), np.uint8)
    registers[[machine.COLUP0, machine.COLUP1, machine.COLUPF, machine.COLUBK]] = 1, 2, 3, 4
    registers[machine.PLAYFIELD] = 1  # pixels 0 to 3, and 80 to 83
    registers[[machine.CTRLPF, machine.ENABL, machine.CHANGED]] = control | 0x20, 2, 0x3F
    registers[machine.POSITIONS + 4] = 2  # the ball: pixels 2 to 5
    draw_line[1, 1](registers, np.zeros((6, 4), np.int64), screen)
    assert screen[0, 0, :8].tolist() == [left] * 4 + [3, 3, 4, 4]
    assert screen[0, 0, 80:85].tolist() == [right] * 4 + [4]


def emulate(kind: str, contents: bytes, state: list[np.ndarray], frames: int = 1, on_gpu: bool = False) -> None:
    """Emulate frames without input, in place; ``state`` has RAM, registers, the cartridge's RAM and the screen."""
    kept = [np.zeros((frames, *array.shape), array.dtype) for array in state[:2]]
    rom, number = opcodes.decoded(contents), machine.CARTRIDGES.index(kind)
    lines, inputs = (34, 210, 290), np.array([[0xFF, 0x3F, 0x80, 0x80, -1, -1, -1, -1]] * frames, np.int32)
    ram, registers, cartridge_ram, screen = state
    atari_check.run_frames[1, 1](
        ram, registers, cartridge_ram, rom, screen, number, *lines, True, on_gpu, inputs, *kept,
        np.zeros((frames, *screen.shape[1:]), np.uint8),
    )  # fmt: skip


def powered_on(pc: int) -> list[np.ndarray]:
    """Return RAM, registers, the cartridge's RAM and the screen of a console whose program begins at an address."""
    ram, cartridge_ram = np.zeros((2, 128), np.uint8)
    registers, screen = np.zeros(machine.SIZE, np.int32), np.zeros((2, 210, machine.WIDTH), np.uint8)
    registers[[machine.PC, machine.FRAME_DONE, machine.VSYNC_END]] = pc, 1, 0x7FFFFFFF
    return [ram, registers, cartridge_ram, screen]


@pytest.mark.parametrize("kind", ["F8SC", "F6SC"])
def test_programs_run_in_the_ram_of_the_cartridge(kind: str) -> None:
    """``LDA #$2A``, ``STA $90``, and in ROM ``JMP $10FD``: the operand of ``STA`` is the first byte after the RAM."""
    contents = bytearray(0x4000 if kind == "F6SC" else 0x2000)
    contents[0xFD:0x104] = bytes.fromhex("A9 13 85 90 4C FD 10")
    ram, _, cartridge_ram, _ = state = powered_on(0x10FD)
    cartridge_ram[0x7D:] = 0xA9, 0x2A, 0x85
    emulate(kind, bytes(contents), state)
    assert ram.nonzero()[0].tolist() == [0x10] and ram[0x10] == 0x2A


@pytest.mark.parametrize(("kind", "size"), [("2K", 0x800), ("F6", 0x4000), ("E0", 0x2000)])
def test_frequent_instructions_do_what_their_table_entries_say(kind: str, size: int) -> None:
    """The short forms of host processors against the form of GPUs, in programs of random bytes."""
    text = inspect.getsource(frequent)
    opcode = np.array([number for number in range(256) if f"opcode == 0x{number:02X}" in text])
    random = np.random.default_rng(7)
    for _ in range(40):
        contents = np.where(random.random(size) < 0.5, random.choice(opcode, size), random.integers(0, 256, size))
        state = powered_on(int(random.integers(0x1000, 0x2000)))
        state[0][:] = random.integers(0, 256, 128)
        state[1][[machine.A, machine.X, machine.Y, machine.S, machine.P]] = random.integers(0, 256, 5)
        other = [array.copy() for array in state]
        emulate(kind, contents.astype(np.uint8).tobytes(), state, frames=3)
        emulate(kind, contents.astype(np.uint8).tobytes(), other, frames=3, on_gpu=True)
        for ours, theirs in zip(state, other, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def compare_program(ale: Any, code: list[int], state: ale_state.AleState) -> None:
    """Compare registers, RAM and time after a program in RAM, which ends the frame with VSYNC, with those of ale-py."""
    ends_frame = [0xA9, 2, 0x85, 0x00, 0x85, 0x02, 0x85, 0x02, 0xA9, 0, 0x85, 0x00]
    state.processor.pc = 0x80
    state.riot.ram[: len(code) + len(ends_frame)] = code + ends_frame
    ours, controllers = atari_check.Ours("pong", state, False), atari_check.Inputs("pong", state)
    ram, registers, _ = ours.run(np.array([controllers.words(0)], np.int32))
    ale.restoreState(atari_check.ale_py.ALEState(state.serialize()))
    ale.act(0)
    assert ram[0].tolist() == ale.getRAM().tolist(), bytes(code).hex(" ")
    expected = wd.atari.from_ale(ale.cloneState())["registers"]
    assert registers[0, : machine.CYCLES + 1].tolist() == expected[: machine.CYCLES + 1].tolist(), bytes(code).hex(" ")


JUMPS = opcodes.BRANCH, opcodes.BRK, opcodes.JMP, opcodes.JSR, opcodes.RTI, opcodes.RTS, opcodes.JAM
UNSTABLE = opcodes.ARR, opcodes.LAS, opcodes.SHA, opcodes.SHX, opcodes.SHY, opcodes.TAS
STORED = [0x08, 0x85, 0xC4, 0x86, 0xC5, 0x84, 0xC6]
"""PHP, STA, STX and STY."""


def test_instructions_have_the_results_of_ale() -> None:
    """Each one in all its modes, on random bytes."""
    ale, random = atari_check.ale_console("pong", 0), np.random.default_rng(1)
    serialized, target, pointer = ale.cloneState().serialize(), 0xB0, 0xC0
    for opcode, entry in enumerate(opcodes.DECODED.tolist()):
        operation, mode, length = entry & 0x7F, entry >> 7 & 0xF, entry >> 11 & 3
        if operation in (*JUMPS, *UNSTABLE):
            continue
        state = ale_state.parse(serialized)
        cpu, memory = state.processor, random.integers(0, 256, 128)
        cpu.a, cpu.x, cpu.y = random.integers(0, 256, 3).tolist()
        cpu.n, cpu.v, cpu.d, cpu.i, cpu.not_z, cpu.c = random.integers(0, 2, 6).astype(bool).tolist()
        cpu.s = 0xF8
        if operation == opcodes.TXS:
            cpu.x = 0xF4
        by_x = mode in (opcodes.ZERO_PAGE_X, opcodes.ABSOLUTE_X)
        by_y = mode in (opcodes.ZERO_PAGE_Y, opcodes.ABSOLUTE_Y, opcodes.INDIRECT_Y)
        address = (target - (cpu.x if by_x else cpu.y if by_y else 0)) & 0xFFFF
        if mode in (opcodes.INDIRECT_X, opcodes.INDIRECT_Y):
            memory[pointer - 0x80], memory[pointer - 0x7F] = address & 0xFF, address >> 8
            address = pointer if mode == opcodes.INDIRECT_Y else (pointer - cpu.x) & 0xFF
        elif mode == opcodes.IMMEDIATE:
            address = int(random.integers(256))
        state.riot.ram[:] = memory
        compare_program(ale, [opcode, address & 0xFF, address >> 8][:length] + STORED, state)


@pytest.mark.parametrize("opcode", [0x69, 0xE9])
def test_digits_above_nine_are_added_and_subtracted_as_in_ale(opcode: int) -> None:
    ale = atari_check.ale_console("pong", 0)
    for a, value in ((0x16, 0xEF), (0x00, 0xFF), (0xAF, 0x0B), (0xFF, 0xFF)):
        code = [0xF8, 0x38, 0xA9, a, opcode, value, *STORED]  # SED, SEC, LDA
        compare_program(ale, code, ale_state.parse(ale.cloneState()))


def test_an_input_without_a_paddle_is_high_if_ports_are_swapped() -> None:
    """All of INPT0 to INPT5, with the capacitors of the paddles discharged, and before and after they are charged."""
    ale = atari_check.ale_console("pong", 0)
    reads = [byte for place in range(8, 14) for byte in (0xA5, place, 0x85, 0xE8 + place)]
    wait = [0xA2, 200, 0x85, 0x02, 0xCA, 0xD0, 0xFB]
    for vblank in (0x80, 0x00):
        for before in ([], wait):
            compare_program(ale, [0xA9, vblank, 0x85, 0x01, *before, *reads], ale_state.parse(ale.cloneState()))


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


@pytest.mark.parametrize("name", ["entombed", "flag_capture", "gopher", "mario_bros", "name_this_game"])
def test_a_game_begins_as_after_a_reset_of_ale(name: str) -> None:
    """Games with presses of SELECT or RESET, or with start actions, of their own."""
    assert atari_check.compare_start(name, 0, resets=1).differing == []


@pytest.mark.parametrize(
    ("name", "mode", "difficulty"),
    [("alien", 2, 3), ("atlantis", 2, 0), ("berzerk", 3, 0), ("mario_bros", 4, 0), ("ms_pacman", 3, 0), ("pong", 1, 2)],
)
def test_a_mode_begins_as_after_a_reset_of_ale(name: str, mode: int, difficulty: int) -> None:
    """Games in which SELECT is pressed for 1, 2, 5 or 10 frames, or later."""
    assert atari_check.compare_start(name, 0, 1, mode, difficulty).differing == []


def test_the_command_names_the_bytes_that_differ_after_a_reset(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Gopher with one press of RESET fewer than in ale-py: its random number, two bytes, is another one."""
    monkeypatch.setitem(games.GAMES, "gopher", replace(games.GAMES["gopher"], resets=2))
    monkeypatch.setattr(sys, "argv", ["atari_check.py", "pong", "gopher", "--starts"])
    assert atari_check.main() == 1
    printed = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert printed[0] == "pong memory at the beginning is equal"
    assert printed[1].startswith("gopher memory at the beginning differs in ") and "0xd7 0xd8" in printed[1]
    assert printed[2] == "memory at the beginning is equal in 1 of 2 games"
