"""Compare the rules of `envs/atari/games.py` with ale-py: reward, lives and the end of the game after every frame.

``python tools/atari_rules_check.py [NAME ...]`` compares the kernel of `envs/atari/rules.py` in two ways:

- played: episodes of several styles, modes and difficulties, with ale-py's memory after each frame;
- written: the processor of ale-py's console stands still, and the bytes that the rules read are written between frames,
  so that its results are a function of any memory, also of scores and ends that play does not reach.

With ``--two`` it compares the rules for two players with games that `multi-agent-ale-py` plays.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from typing import Any, NamedTuple

import ale_py
import numpy as np
from atari_game import NOOP, RAM, STYLES, actions, console

from warpdrive.envs.atari import ale_state, games, rules
from warpdrive.envs.atari.games import Compare, Game
from warpdrive.errors import DefinitionError

SINGLE = [name for name in games.GAMES if ale_py.ALEInterface.isSupportedROM(ale_py.roms.get_rom_path(name))]
"""Games that ale-py plays; the others are for two, or only `multi-agent-ale-py` plays them."""


class Record(NamedTuple):
    """Consecutive frames: results after each, and before the first one."""

    what: str
    ram: Any
    rewards: Any
    lives: Any
    over: Any


def compares_of(game: Game) -> list[Compare]:
    """Return all comparisons of the rules of a game."""
    groups = [*game.over, *game.reward_unless, game.score_if, game.lives_if, game.loss_if, game.loss]
    groups += [term.when for term in (*game.score, *game.reward_otherwise, *game.lives)]
    return [compare for group in groups for compare in group]


def bytes_of(game: Game) -> list[int]:
    """Return the addresses that the rules of a game read."""
    terms = [*game.score, *game.reward_otherwise, *game.lives]
    return sorted({t.address for t in terms if t.weight} | {compare.address for compare in compares_of(game)})


def episode(game: Game, number: int, frames: int) -> Record:
    """Play one episode; its style, mode and difficulty follow from its number."""
    generator = np.random.default_rng(number)
    ale, settings = started(game, number, generator)
    style = STYLES[number % len(STYLES)]
    frame = _Frames(ale)
    for action in itertools.islice(actions(ale, style, generator), frames):
        if frame.run(action):
            break
    return frame.record(f"{game.name} episode {number} ({style}, {settings})")


def memories(game: Game, number: int, frames: int) -> list[Record]:
    """Write random bytes into the memories of a few played frames; the processor stands still.

    A byte is arbitrary, two decimal digits, small, close to the previous byte, or close to one that the rules compare
    with.
    """
    generator = np.random.default_rng(number)
    ale, settings = started(game, number, generator)
    state = ale_state.parse(ale.cloneState())
    state.processor.stopped |= 2
    still = ale_py.ALEState(state.serialize())
    bases = episode(game, number, 3000).ram
    places, compared = writable(game), compares_of(game)
    kept = [address - RAM for address in bytes_of(game) if address not in places]
    decimal = {term.address for term in game.score if term.bcd}
    records = []
    while frames > 0:
        ale.restoreState(still)
        frame = _Frames(ale)
        wanted = bases[generator.integers(len(bases))].copy()
        wanted[kept] = frame.ram[0][kept]
        for _ in range(int(generator.integers(2, 60))):
            for address in generator.choice(places, generator.integers(0, 4)):
                values = [compare.value for compare in compared if compare.address == address]
                byte = [
                    int(generator.integers(256)),
                    int(generator.integers(10)) * 16 + int(generator.integers(10)),
                    int(generator.integers(16)),
                    int(wanted[address - RAM]) + int(generator.choice([-1, 1])),
                    int(generator.choice(values or [0])) + int(generator.choice([0, 0, 0, -1, 1, 16, 128])),
                ][generator.integers(5)] & 0xFF
                if address not in decimal or (byte & 15 < 10 and byte < 0xA0) or byte in values:
                    wanted[address - RAM] = byte
            for i in np.nonzero(wanted != ale.getRAM())[0].tolist():
                ale.setRAM(i, int(wanted[i]))
            frames -= 1
            if frame.run(NOOP):
                break
        records.append(frame.record(f"{game.name} memories {number} ({settings})"))
    return records


def writable(game: Game) -> list[int]:
    """Return the addresses to write to, except those whose changes the rules evaluate: they expect the game's own."""
    changing = {compare.address for compare in compares_of(game) if compare.relation in ("by", "not by")}
    return [address for address in bytes_of(game) if address not in changing]


def started(game: Game, number: int, generator: np.random.Generator) -> tuple[Any, str]:
    """Return a console at the start of a game, and mode and difficulty: the first ones, or random in every third."""
    mode, difficulty = game.modes[0], game.difficulties[0]
    if number % 3 == 0:
        mode, difficulty = int(generator.choice(game.modes)), int(generator.choice(game.difficulties))
    return console(game.name, number, mode, difficulty), f"mode {mode}, difficulty {difficulty}"


class _Frames:
    """Results of consecutive frames."""

    def __init__(self, ale: Any) -> None:
        self.ale = ale
        self.ram, self.rewards = [ale.getRAM()], [0]
        self.lives, self.over = [ale.lives()], [ale.game_over()]

    def run(self, action: int) -> bool:
        """Run a frame, and return true at the end of the game."""
        self.rewards.append(self.ale.act(action))
        self.ram.append(self.ale.getRAM())
        self.lives.append(self.ale.lives())
        self.over.append(self.ale.game_over())
        return self.over[-1]

    def record(self, what: str) -> Record:
        """Return the frames so far."""
        return Record(what, *(np.array(values) for values in (self.ram, self.rewards, self.lives, self.over)))


def differences(game: Game, record: Record) -> list[str]:
    """Return a line for each frame in which the rules differ from ale-py."""
    results = np.zeros((len(record.ram), 3), np.int32)
    rules.evaluate_frames[1, 1](record.ram, rules.program(game), results)
    expected = np.stack([record.rewards, record.lives, record.over], axis=1)
    lines = []
    for frame in np.nonzero(np.any(results != expected, axis=1))[0].tolist():
        ram = " ".join(
            f"{a:x}:{record.ram[max(frame - 1, 0)][a - RAM]:02x}>{record.ram[frame][a - RAM]:02x}"
            for a in bytes_of(game)
        )
        lines.append(
            f"{record.what}, frame {frame}: reward, lives, over {results[frame].tolist()} "
            f"instead of {expected[frame].tolist()}; {ram}"
        )
    return lines


def compare_two(game: Game, number: int, frames: int) -> tuple[np.ndarray, list[str]]:
    """Play an episode of two players; return frames, rewards and ends, and a line for each frame that differs."""
    generator = np.random.default_rng(number)
    ale = console_of_two(game, number, int(generator.choice(game.two.modes)) if number % 3 == 0 else game.two.modes[0])
    chosen, held = ale.getMinimalActionSet(), (4, 8, 20, 1)[number % 4]
    memories, rewards, over = [ale.getRAM().copy()], [[0, 0]], [False]
    while not over[-1] and len(over) <= frames:
        if (len(over) - 1) % held == 0:
            both = generator.choice(chosen, 2).astype(np.int32)
        rewards.append([int(reward) for reward in ale.act(both)])
        memories.append(ale.getRAM().copy())
        over.append(bool(ale.game_over()))
    ram, expected = np.array(memories), np.column_stack([rewards, over])
    results, second = np.zeros((2, len(ram), 3), np.int32)
    rules.evaluate_frames[1, 1](ram, rules.program(game.for_two()), results)
    second[:, 0] = -results[:, 0]
    if game.two.second_score:
        rules.evaluate_frames[1, 1](ram, rules.sum_of(game.two.second_score, game), second)
    found = np.column_stack([results[:, 0], second[:, 0], results[:, 2]])
    lines = [
        f"{game.name} episode {number}, frame {frame}: rewards, over {found[frame].tolist()} instead of "
        f"{expected[frame].tolist()}"
        for frame in np.nonzero(np.any(found != expected, axis=1))[0].tolist()
    ]
    counts = np.array([len(ram) - 1, np.count_nonzero(rewards), over[-1]])
    return counts, lines


def console_of_two(game: Game, seed: int, wanted: int) -> Any:
    """Return the console of `multi-agent-ale-py` at the start of a mode, which has another number there."""
    import multi_agent_ale_py

    table = rules.sum_of(game.mode, game)
    ale = multi_agent_ale_py.ALEInterface()
    ale.setInt(b"random_seed", seed)
    ale.setFloat(b"repeat_action_probability", 0.0)
    ale.loadROM(str(ale_py.roms.get_rom_path(game.name)).encode())
    for mode in ale.getAvailableModes(2):
        ale.setMode(mode)
        ale.reset_game()
        if not game.mode or rules.score_and_lives(ale.getRAM(), table)[0] == wanted:
            return ale
    raise ValueError(f"multi-agent-ale-py has no mode {wanted} of {game.name}.")


def main() -> int:
    """Compare the named games, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="names of ale-py's ROMs (default: all that it plays)")
    parser.add_argument("--episodes", type=int, default=12)
    parser.add_argument("--first", type=int, default=0, help="number of the first episode")
    parser.add_argument("--frames", type=int, default=5000, help="most frames of an episode")
    parser.add_argument("--written", type=int, default=2000, help="frames with written bytes, for each episode")
    parser.add_argument("--show", type=int, default=6, help="most differences shown of a game")
    parser.add_argument("--two", action="store_true", help="compare two players (needs multi-agent-ale-py)")
    options = parser.parse_args()
    try:
        names = [games.game(name).name for name in options.names] or SINGLE
    except DefinitionError as error:
        sys.exit(str(error))
    for name in names if not options.two else ():
        if name not in SINGLE:
            sys.exit(f"ale-py has no rules for {name}: compare it with --two")
    numbers = range(options.first, options.first + options.episodes)
    failed = False
    if options.two:
        for name in options.names or [game.name for game in games.GAMES.values() if game.two]:
            episodes = [compare_two(games.game(name), number, options.frames) for number in numbers]
            frames, rewards, ends = sum(counts for counts, _ in episodes)
            lines = [line for _, found in episodes for line in found]
            print(f"{name}: {frames} frames, {rewards} rewards, {ends} ends; {len(lines)} differences", flush=True)
            print(*lines[: options.show], sep="\n", end="\n" if lines else "")
            failed |= bool(lines)
        return int(failed)
    for name in names:
        game = games.game(name)
        counts, lines = [], []
        for kind in ("played", "written"):
            frames, rewarded, lost, ends = 0, 0, 0, 0
            for number in numbers:
                if kind == "played":
                    records = [episode(game, number, options.frames)]
                else:
                    records = memories(game, number, options.written)
                for record in records:
                    frames += len(record.rewards) - 1
                    rewarded += int(np.count_nonzero(record.rewards))
                    lost += int(np.count_nonzero(np.diff(record.lives)))
                    ends += int(record.over[-1])
                    lines += differences(game, record)
            counts.append(f"{kind} {frames} frames, {rewarded} rewards, {lost} changes of lives, {ends} ends")
        print(f"{name}: {'; '.join(counts)}; {len(lines)} differences", flush=True)
        print(*lines[: options.show], sep="\n", end="\n" if lines else "")
        failed |= bool(lines)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
