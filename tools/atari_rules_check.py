"""Compare the rows of `envs/atari/games.py` with ale-py: reward, lives and the end of the game after every frame.

``python tools/atari_rules_check.py [NAME ...] [--frames N]`` plays each game in several styles, modes and difficulties,
and computes the same from ale-py's memory by the kernel of `envs/atari/rules.py`. Every second episode also writes
bytes of the score and the lives into the memory now and then, so that high scores, carries and ends occur; others
write any byte (``--any``).
"""

from __future__ import annotations

import argparse
import itertools
import sys
from typing import Any, NamedTuple

import numpy as np
from atari_game import RAM, STYLES, actions, console

from warpdrive.envs.atari import games, rules
from warpdrive.envs.atari.games import Game


class Record(NamedTuple):
    """Frames of one episode; ``ram`` has one row more, from before the first frame."""

    what: str
    ram: Any
    rewards: Any
    lives: Any
    over: Any
    written: list[str]


def bytes_of(game: Game) -> list[int]:
    """Return the addresses that the rules of a game read."""
    terms = [*game.score, *game.lives]
    groups = (*game.over, game.score_if, game.reward_if, game.lives_if, game.loss_if, game.loss)
    compares = [c for group in groups for c in group] + [c for term in terms for c in term.when]
    return sorted({t.address for t in terms if t.weight} | {c.address for c in compares})


def writable(game: Game) -> list[int]:
    """Return the addresses to write to: not those whose changes count, since the rules know only those of the game."""
    groups = (game.reward_if, game.lives_if, game.loss)
    changing = {c.address for group in groups for c in group if c.relation in ("by", "not by")}
    return [address for address in bytes_of(game) if address not in changing]


def episode(game: Game, number: int, frames: int, anywhere: bool = False) -> Record:
    """Play one episode; its style, mode and writes follow from its number."""
    generator = np.random.default_rng(number)
    ale = console(game.name, number)
    modes, difficulties = ale.getAvailableModes(), ale.getAvailableDifficulties()
    mode, difficulty = (0, 0) if number % 3 else (int(generator.choice(modes)), int(generator.choice(difficulties)))
    mode = mode if mode in modes else modes[0]
    if number % 3 == 0:
        ale.setMode(mode)
        ale.setDifficulty(difficulty)
        ale.reset_game()
    style = STYLES[number % len(STYLES)]
    writes = anywhere or number // len(STYLES) % 2 == 1
    places = list(range(RAM, RAM + 128)) if anywhere else writable(game)
    ram, rewards, lives, over, written = [ale.getRAM()], [], [ale.lives()], [ale.game_over()], [""]
    for action in itertools.islice(actions(ale, style, generator), frames):
        note = ""
        if writes and generator.random() < 0.03:
            address = int(generator.choice(places))
            kind = generator.integers(4)  # any byte, digits, small numbers, a byte close to the present one
            decimal = any(term.bcd and term.address == address for term in game.score)
            kind = 1 if decimal and kind == 0 and not anywhere else kind
            byte = int(generator.integers(256))
            if kind == 1:
                byte = int(generator.integers(10)) * 16 + int(generator.integers(10))
            elif kind == 2:
                byte = int(generator.integers(10))
            elif kind == 3:
                byte = (int(ale.getRAM()[address - RAM]) + int(generator.choice([-1, 1]))) & 255
            ale.setRAM(address - RAM, byte)
            note = f"wrote {byte:02x} to {address:x}"
        rewards.append(ale.act(action))
        ram.append(ale.getRAM())
        lives.append(ale.lives())
        over.append(ale.game_over())
        written.append(note)
        if over[-1]:
            break
    what = f"{game.name} episode {number} ({style}, mode {mode}, difficulty {difficulty}{', writes' if writes else ''})"
    return Record(what, np.array(ram), np.array(rewards), np.array(lives), np.array(over), written)


def differences(game: Game, record: Record) -> list[str]:
    """Return a line for each frame in which the rules differ from ale-py."""
    results = np.zeros((len(record.ram), 3), np.int32)
    rules.evaluate_frames[1, 1](record.ram, rules.program(game), results)
    rewards = results[1:, 0]
    bad = (results[:, 1] != record.lives) | (results[:, 2] != record.over)
    bad[1:] |= rewards != record.rewards
    lines = []
    for frame in np.nonzero(bad)[0].tolist():
        reward, expected = (int(rewards[frame - 1]), int(record.rewards[frame - 1])) if frame else (0, 0)
        ram = " ".join(
            f"{a:x}:{record.ram[max(frame - 1, 0)][a - RAM]:02x}>{record.ram[frame][a - RAM]:02x}"
            for a in bytes_of(game)
        )
        lines.append(
            f"{record.what}, frame {frame}: reward {reward} instead of {expected}, lives {results[frame, 1]} instead "
            f"of {record.lives[frame]}, over {results[frame, 2]} instead of {int(record.over[frame])}; {ram} "
            f"{record.written[frame]}"
        )
    return lines


def main() -> int:
    """Compare the named games, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="names of ale-py's ROMs (default: all of the table)")
    parser.add_argument("--episodes", type=int, default=24)
    parser.add_argument("--first", type=int, default=0, help="number of the first episode")
    parser.add_argument("--frames", type=int, default=5000, help="most frames of an episode")
    parser.add_argument("--any", action="store_true", help="write any byte of the memory in every episode")
    parser.add_argument("--show", type=int, default=6, help="most differences shown of a game")
    options = parser.parse_args()
    failed = False
    for name in options.names or games.GAMES:
        game = games.game(name)
        frames, rewarded, lost, ends, lines = 0, 0, 0, 0, []
        for number in range(options.first, options.first + options.episodes):
            record = episode(game, number, options.frames, options.any)
            frames += len(record.rewards)
            rewarded += int(np.count_nonzero(record.rewards))
            lost += int(np.count_nonzero(np.diff(record.lives)))
            ends += int(record.over[-1])
            lines += differences(game, record)
        print(
            f"{name}: {frames} frames, {rewarded} with a reward, {lost} changes of lives, {ends} ends of "
            f"{options.episodes} episodes; {len(lines)} differences",
            flush=True,
        )
        print(*lines[: options.show], sep="\n", end="\n" if lines else "")
        failed |= bool(lines)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
