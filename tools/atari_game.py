"""Find the bytes of an Atari game that hold score, lives and the end, by experiments with ale-py.

``python tools/atari_game.py asterix`` writes bytes into the console's memory and observes reward, lives and the end of
the game after one frame. It prints the effect of each relevant byte, and proposes a row of `envs/atari/games.py`, which
`tools/atari_rules_check.py` then compares with ale-py. A byte is given by its address, 0x80 to 0xFF.

The row is a beginning: it has the bytes that are clear in most states. Comparisons of several bytes, and start actions,
are found by reading what is printed.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import ale_py
import numpy as np

from warpdrive.envs.atari import ale_state, games, machine
from warpdrive.errors import nearest

NOOP = 0
RAM = 0x80
SIZE = 128
MASKS = (0xFF, 0x0F, 0xF0, 0x7F, 0x3F, 0x1F, 0x07, 0x03, 0x70, 0xE0, 0xC0, 0xFE, 0xFC, 0xF8, 0x78, 0x38, 0x3C)


def console(name: str, seed: int = 0, mode: int | None = None, difficulty: int | None = None) -> Any:
    """Return ale-py's console with a game at its start, deterministic and with one frame per action."""
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    ale = ale_py.ALEInterface()
    ale.setFloat("repeat_action_probability", 0.0)
    ale.setInt("frame_skip", 1)
    ale.setInt("random_seed", seed)
    ale.loadROM(ale_py.roms.get_rom_path(name))
    if mode is not None:
        ale.setMode(mode)
    if difficulty is not None:
        ale.setDifficulty(difficulty)
    ale.reset_game()
    return ale


def actions(ale: Any, style: str, generator: np.random.Generator) -> Iterator[int]:
    """Yield actions: ``random``, ``held`` for up to 40 frames, ``one`` for ever, ``fire``, ``noop``, ``cycle``."""
    minimal = [action.value for action in ale.getMinimalActionSet()]
    one = int(generator.choice(minimal))
    while True:
        if style == "held":
            action = int(generator.choice(minimal))
            for _ in range(int(generator.integers(1, 40))):
                yield action
        elif style == "cycle":  # a direction for long, with FIRE now and then
            action = int(generator.choice(minimal))
            for _ in range(int(generator.integers(20, 200))):
                yield action if generator.random() < 0.8 else 1
        else:
            yield {"random": int(generator.choice(minimal)), "one": one, "fire": 1, "noop": NOOP}[style]


STYLES = ("random", "held", "cycle", "one", "fire", "noop")


def states(name: str, generator: np.random.Generator, frames: int, wanted: int) -> list[tuple[str, Any, Any]]:
    """Return consoles and saved states: a sample, and states before a reward, a change of lives and the end."""
    kept: dict[str, list[tuple[str, Any, Any]]] = {"any": [], "reward": [], "lives": [], "over": []}
    ale = console(name, int(generator.integers(1000)))
    for number in range(2):
        for episode_style in ("held", "random", "cycle"):
            ale.reset_game()
            kept["any"].append(("start", ale, ale.cloneState()))
            chosen = actions(ale, episode_style, generator)
            lives = ale.lives()
            for frame in range(frames):
                before = ale.cloneState()
                reward = ale.act(next(chosen))
                kinds = [("over", ale.game_over()), ("lives", ale.lives() != lives), ("reward", reward != 0)]
                for kind, true in kinds:
                    if true and len(kept[kind]) < wanted * (number + 1):
                        label = f"{kind} {reward} {lives}->{ale.lives()} at {frame}"
                        kept[kind].append((label, ale, before))
                if frame % (frames // 3) == 50:
                    kept["any"].append((f"at {frame}", ale, before))
                lives = ale.lives()
                if ale.game_over():
                    break
    return [state for group in kept.values() for state in group]


class Pokes:
    """Results of one frame after a byte was written, from one saved state."""

    def __init__(self, ale: Any, state: Any) -> None:
        self.ale, self.state = ale, state
        self.cache: dict[tuple[int, int], tuple[Any, int, int, bool]] = {}
        self.plain = self._frame()

    def _frame(self) -> tuple[Any, int, int, bool]:
        reward = self.ale.act(NOOP)
        return self.ale.getRAM(), reward, self.ale.lives(), self.ale.game_over()

    def restored(self) -> None:
        """Return to the saved state."""
        self.ale.restoreState(self.state)

    def write(self, address: int, value: int) -> tuple[Any, int, int, bool]:
        """Return RAM, reward, lives and the end after a frame in which ``address`` was written before."""
        if (address, value) not in self.cache:
            self.ale.restoreState(self.state)
            self.ale.setRAM(address - RAM, value)
            self.cache[address, value] = self._frame()
        return self.cache[address, value]


def screened(pokes: Pokes, values: Any) -> list[int]:
    """Return the addresses whose bytes change reward, lives or the end."""
    plain = pokes.plain[1:]
    return [
        address
        for address in range(RAM, RAM + SIZE)
        if any(pokes.write(address, int(value))[1:] != plain for value in values)
    ]


def form(address: int, table: dict[int, int]) -> str | None:
    """Return the ``Term`` that has these values of a byte, for all of them but a few, or None."""
    best: tuple[int, str] | None = None
    for bcd in (False, True):
        for mask in MASKS:
            shift = (mask & -mask).bit_length() - 1
            digits = {byte: (byte & mask) >> shift for byte in table}
            if bcd:
                digits = {byte: bits - 6 * (bits >> 4) for byte, bits in digits.items()}
            # the commonest weight and constant of neighbouring bytes
            pairs = [(a, b) for a, b in itertools.pairwise(sorted(table)) if digits[a] != digits[b]]
            slopes = Counter((table[b] - table[a]) / (digits[b] - digits[a]) for a, b in pairs)
            if not slopes:
                continue
            weight = slopes.most_common(1)[0][0]
            constants = Counter(value - weight * digits[byte] for byte, value in table.items())
            constant, number = constants.most_common(1)[0]
            others = {byte: value for byte, value in table.items() if value - weight * digits[byte] != constant}
            if not weight or len(others) > 8:
                continue
            text = f"Term(0x{address:02X}" + (f", {weight:g}" if weight != 1 else "")
            text += (f", mask=0x{mask:02X}" if mask != 0xFF else "") + (f", shift={shift}" if shift else "")
            text += (", bcd=True" if bcd else "") + (f", plus={constant:g}" if constant else "") + ")"
            text += f" except {table_text(others)}" if others else ""
            if best is None or number > best[0]:
                best = number, text
    return best[1] if best else None


def condition(address: int, table: dict[int, int]) -> str | None:
    """Return the ``Compare`` that is true for the values of a byte at which the table has 1, or None."""
    ends = {byte for byte, value in table.items() if value}
    for mask in MASKS:
        values = {byte & mask for byte in ends}
        if {byte for byte in table if byte & mask in values} != ends:
            continue
        others = {byte & mask for byte in table} - values
        if len(values) == 1:
            relation, value = "==", min(values)
        elif len(others) == 1:
            relation, value = "!=", min(others)
        elif min(values) > max(others):
            relation, value = ">=", min(values)
        elif max(values) < min(others):
            relation, value = "<", min(others)
        else:
            continue
        return f'Compare(0x{address:02X}, "{relation}", {value}' + (f", mask=0x{mask:02X})" if mask != 0xFF else ")")
    return None


def ranges(values: Any) -> str:
    """Return numbers as ranges, such as ``3-7 9``."""
    texts: list[str] = []
    start = last = None
    for value in [*sorted(values), None]:
        if last is not None and value == last + 1:
            last = value
            continue
        if start is not None:
            texts.append(f"{start:x}" if start == last else f"{start:x}-{last:x}")
        start = last = value
    return " ".join(texts[:24]) + (" ..." if len(texts) > 24 else "")


def table_text(table: dict[int, int]) -> str:
    """Return the bytes of each value of a table."""
    inverse: dict[int, list[int]] = {}
    for byte, value in table.items():
        inverse.setdefault(value, []).append(byte)
    if len(inverse) > 40:
        low = {byte & 15: value for byte, value in table.items() if byte >> 4 == 0}
        high = {byte >> 4: value for byte, value in table.items() if byte & 15 == 0}
        return f"{len(inverse)} values; low {low}; high {high}"
    return "; ".join(f"{value}: {ranges(found)}" for value, found in sorted(inverse.items()))


class Finding(NamedTuple):
    """How reward, lives or the end depend on a byte, in one state."""

    address: int
    what: str
    term: str
    clear: bool
    """The game left most bytes as they were written."""
    line: str


def describe(pokes: Pokes, address: int) -> list[Finding]:
    """Return how reward, lives and the end depend on a byte."""
    found = []
    plain_ram, *plain = pokes.plain
    results = [pokes.write(address, value) for value in range(256)]
    for place, what in enumerate(("score", "lives", "over")):
        if all(result[1 + place] == plain[place] for result in results):
            continue
        # only bytes that the game left as they were written
        table = {byte: int(rest[place]) for byte, (ram, *rest) in enumerate(results) if int(ram[address - RAM]) == byte}
        if len(set(table.values())) < 2:
            continue
        changed = [ram != plain_ram for ram, *rest in results if rest[place] != plain[place]]
        also = [RAM + i for i in np.nonzero(np.any(changed, axis=0))[0].tolist() if RAM + i != address]
        if what == "score":
            table = {byte: value - table[min(table)] for byte, value in table.items()}
        term = (condition if what == "over" else form)(address, table) or table_text(table)
        line = f"{address:x} {what}: now {int(plain_ram[address - RAM]):x} -> {int(plain[place])}; {term}"
        line += (
            f"; also changed {' '.join(f'{a:x}' for a in also[:12])}{' ...' if len(also) > 12 else ''}" if also else ""
        )
        clear = len(table) > 60
        found.append(Finding(address, what, term, clear, line))
    return found


def ends(name: str, episodes: int, frames: int) -> list[str]:
    """Return the bytes whose values at ends do not occur in other frames with as few lives."""
    last, others = [], []
    for number in range(episodes):
        ale = console(name, number)
        generator = np.random.default_rng(number)
        seen = []
        for action in itertools.islice(actions(ale, ("held", "random", "cycle")[number % 3], generator), frames):
            lives = ale.lives()
            ale.act(action)
            if ale.game_over():
                last.append(ale.getRAM())
                others += [ram for before, ram in seen if before == lives]
                break
            seen.append((lives, ale.getRAM()))
    if not last or not others:
        return [f"  {len(last)} ends"]
    at_end, before = np.array(last), np.array(others)
    lines = [f"  {len(last)} ends, {len(others)} other frames with as few lives"]
    for i in range(SIZE):
        values = set(at_end[:, i].tolist())
        if len(values) <= 3 and not values & set(before[:, i].tolist()):
            lines.append(f"  {RAM + i:x}: {ranges(values)}, before {ranges(set(before[:, i].tolist()))}")
    for mask in (1, 2, 4, 8, 16, 32, 64, 128):
        for i in range(SIZE):
            values = set((at_end[:, i] & mask).tolist())
            if len(values) == 1 and not values & set((before[:, i] & mask).tolist()):
                lines.append(f"  {RAM + i:x} bit {mask:02x}: {ranges(values)}")
    return lines


def equal_bytes(name: str, episodes: int, frames: int) -> list[str]:
    """Return bytes whose bits, plus a constant, are the number of lives in most frames."""
    rams, lives = [], []
    for number in range(episodes):
        ale = console(name, number)
        generator = np.random.default_rng(number)
        for action in itertools.islice(actions(ale, ("held", "random", "cycle")[number % 3], generator), frames):
            ale.act(action)
            if ale.game_over():
                break
            rams.append(ale.getRAM())
            lives.append(ale.lives())
    ram, wanted = np.array(rams, int), np.array(lives)
    if len(set(lives)) < 2:
        return ["  lives do not change"]
    found = []
    for i, mask in itertools.product(range(SIZE), MASKS):
        bits = (ram[:, i] & mask) >> ((mask & -mask).bit_length() - 1)
        for sign in (1, -1):
            plus, number = Counter((wanted - sign * bits).tolist()).most_common(1)[0]
            if len(set(bits.tolist())) > 1:
                found.append((number / len(wanted), f"  {RAM + i:x} mask {mask:02x}: {sign} * bits + {plus}"))
    found.sort(reverse=True)
    return [f"{text} in {share:.4f} of frames" for share, text in found[:4]]


def modes_by_byte(name: str) -> dict[int, dict[int, int]]:
    """Return the bytes that differ between all modes after a reset: their values by mode."""
    modes = console(name).getAvailableModes()
    table = np.array([console(name, 0, mode).getRAM() for mode in modes], int)
    different = [i for i in range(SIZE) if len(set(table[:, i].tolist())) == len(modes) > 1]
    return {RAM + i: dict(zip(modes, table[:, i].tolist(), strict=True)) for i in different}


def row(name: str, terms: dict[str, list[str]], modes: dict[int, dict[int, int]]) -> str:
    """Return a proposed row of the table of games.

    Args:
        name: Name of the ROM.
        terms: Source text of terms of ``score`` and ``lives``, and of comparisons of ``over``.
        modes: As :func:`modes_by_byte` returns.
    """
    ale = console(name)
    state = ale_state.parse(ale.cloneState())
    lines = state.tia.display_start - state.tia.frame_start, state.tia.display_stop - state.tia.display_start
    first_line, height = (clocks // machine.CLOCKS_PER_LINE for clocks in lines)
    before = state.paddles.tolist()
    ale.act(ale_py.Action.RIGHT)
    has_paddles = ale_state.parse(ale.cloneState()).paddles.tolist() != before
    md5 = hashlib.md5(ale_py.roms.get_rom_path(name).read_bytes(), usedforsecurity=False).hexdigest()
    actions = tuple(action.value for action in ale.getMinimalActionSet())
    values: dict[str, str] = {
        "md5": f'"{md5}"',
        "cartridge": f'"{state.cartridge.kind}"',
        "actions": "ALL_ACTIONS" if len(actions) == 18 else str(actions),
        "score": f"({', '.join(terms['score'])},)" if terms["score"] else "()",
    }
    if terms["lives"]:
        values["lives"] = f"({terms['lives'][0]},)"
    values["over"] = f"({', '.join(f'({compare},)' for compare in terms['over'])},)" if terms["over"] else "()"
    if len(ale.getAvailableModes()) > 1:
        values["modes"] = str(tuple(ale.getAvailableModes()))
        texts = [form(address, {byte: mode for mode, byte in table.items()}) for address, table in modes.items()]
        values["mode"] = f"({next((text for text in texts if text and 'except' not in text), '')},)"
    if len(ale.getAvailableDifficulties()) > 1:
        values["difficulties"] = str(tuple(ale.getAvailableDifficulties()))
    if has_paddles:
        values["controller"] = '"paddles"'
    if height == 250:
        values["display"] = '"PAL"'
    defaults = games.Game("", "", "", (), ())
    values |= {"first_line": str(first_line)} if first_line != defaults.first_line else {}
    values |= {"height": str(height)} if height != defaults.height else {}
    return "\n".join(["    Game(", f'        "{name}",', *(f"        {k}={v}," for k, v in values.items()), "    ),"])


def main() -> None:
    """Print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="name of ale-py's ROM, such as asterix")
    parser.add_argument("--frames", type=int, default=6000, help="most frames of an episode")
    parser.add_argument("--states", type=int, default=2, help="saved states of a kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--verbose", action="store_true", help="print all effects of all bytes")
    options = parser.parse_args()
    roms = ale_py.roms.get_all_rom_ids()
    if options.name not in roms:
        sys.exit(f"ale-py has no ROM {options.name!r}.{nearest(options.name, roms)}")
    if not ale_py.ALEInterface.isSupportedROM(ale_py.roms.get_rom_path(options.name)):
        sys.exit(f"ale-py has no rules for {options.name}, so that there is nothing to compare with")
    generator = np.random.default_rng(options.seed)
    ale = console(options.name)
    print(f"{options.name}: lives at the start {ale.lives()}, over {ale.game_over()}")
    modes = modes_by_byte(options.name)
    print("modes:", *(f"  {address:x}: {table}" for address, table in modes.items()), sep="\n")
    print("ends:", *ends(options.name, 9, options.frames), sep="\n")
    print("lives:", *equal_bytes(options.name, 6, options.frames), sep="\n")
    counts: Counter[tuple[int, str, str]] = Counter()
    screenings = 0
    for label, ale, state in states(options.name, generator, options.frames, options.states):
        ale.restoreState(state)
        pokes = Pokes(ale, state)
        values = {0, 1, 2, 0x10, 0xFF, 0x80, *generator.integers(0, 256, 18).tolist()}
        screenings += 1
        if options.verbose or label.startswith("over"):
            _, reward, lives, over = pokes.plain
            print(f"state: {label}; plain frame: reward {reward} lives {lives} over {over}")
        for address in screened(pokes, sorted(values)):
            for found in describe(pokes, address):
                if options.verbose or (label.startswith("over") and found.what == "over" and found.clear):
                    print("  " + found.line)
                if found.clear:
                    counts[found.address, found.what, found.term] += 1
    print(f"clear in at least a quarter of {screenings} states:")
    terms: dict[str, list[str]] = {"score": [], "lives": [], "over": []}
    addresses = set()
    for (address, what, term), number in counts.most_common():
        if number * 4 >= screenings:
            print(f"  {address:x} {what} in {number}: {term}")
            if (address, what) not in addresses and term.startswith(("Term", "Compare")) and "except" not in term:
                addresses.add((address, what))
                terms[what].append(term)
    print("proposed row:", row(options.name, terms, modes), sep="\n")


if __name__ == "__main__":
    main()
