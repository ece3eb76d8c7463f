"""Evaluate a policy of ``connect_four`` in PettingZoo's ``connect_four_v3``, against a search of a given depth.

    cd benchmarks && python -m harness.targets.connect_four ../runs/connect_four --depth 4   # needs pygame

The opponent searches that many moves ahead (negamax with alpha-beta pruning on bitboards): it takes wins and avoids
losses within this depth, and chooses at random among equal moves. With ``--depth 0`` it moves at random. The policy
begins every other game.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np
from pettingzoo.classic import connect_four_v3

import warpdrive as wd

ROWS, COLUMNS = 6, 7
HEIGHT = ROWS + 1
"""Bits of a column: its cells from the bottom, and one that stays 0."""
FULL = sum(1 << (HEIGHT * column + row) for column in range(COLUMNS) for row in range(ROWS))
MIDDLE_FIRST = (3, 2, 4, 1, 5, 0, 6)


def has_four(discs: int) -> bool:
    """Return True if a bitboard has four in a line."""
    for shift in (1, HEIGHT - 1, HEIGHT, HEIGHT + 1):
        pairs = discs & (discs >> shift)
        if pairs & (pairs >> 2 * shift):
            return True
    return False


def moves(taken: int) -> Iterator[tuple[int, int]]:
    """Yield each column that is not full, the middle first, and its lowest free cell."""
    for column in MIDDLE_FIRST:
        bottom = 1 << HEIGHT * column
        cell = (taken + bottom) & (bottom * ((1 << HEIGHT) - 1)) & FULL & ~taken
        if cell:
            yield column, cell


def value(own: int, other: int, depth: int, alpha: int, beta: int) -> int:
    """Return the value for the player to move: positive if it wins within ``depth`` moves, sooner ones more."""
    if depth == 0 or own | other == FULL:
        return 0
    for _, cell in moves(own | other):
        alpha = max(alpha, value_of_move(own, other, cell, depth, alpha, beta))
        if alpha >= beta:
            break
    return alpha


def value_of_move(own: int, other: int, cell: int, depth: int, alpha: int, beta: int) -> int:
    """Return the value of the position in which the player takes a cell, for this player."""
    return depth if has_four(own | cell) else -value(other, own | cell, depth - 1, -beta, -alpha)


def searched(own: int, other: int, depth: int, rng: np.random.Generator) -> int:
    """Return a best move, at random among equal ones."""
    values = {
        column: value_of_move(own, other, cell, depth, -depth, depth) if depth else 0
        for column, cell in moves(own | other)
    }
    best = max(values.values())
    return int(rng.choice([column for column, found in values.items() if found == best]))


def bits(plane: Any) -> int:
    """Return the bitboard of ``[rows, columns]``, rows from the top."""
    return sum(1 << (HEIGHT * int(column) + ROWS - 1 - int(row)) for row, column in np.argwhere(plane))


def main() -> None:
    """Play the games, and print wins, draws and losses."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="run folder or checkpoint")
    parser.add_argument(
        "--depth", type=int, default=4, help="moves that the opponent looks ahead (default: %(default)s)"
    )
    parser.add_argument("--games", type=int, default=200, help="default: %(default)s")
    parser.add_argument("--deterministic", action="store_true", help="take the most probable move")
    options = parser.parse_args()
    policy, env, rng = wd.load_policy(options.run, tag="red"), connect_four_v3.raw_env(), np.random.default_rng(0)
    results = {1: 0, 0: 0, -1: 0}
    for game in range(options.games):
        env.reset()
        me = env.possible_agents[game % 2]
        while not any(env.terminations.values()):
            name = env.agent_selection
            seen = env.observe(name)
            planes = np.moveaxis(seen["observation"], 2, 0)
            if name == me:
                mask = np.asarray(seen["action_mask"], bool)
                action = int(policy.act(planes.astype(np.uint8), action_mask=mask, deterministic=options.deterministic))
            else:
                action = searched(bits(planes[0]), bits(planes[1]), options.depth, rng)
            env.step(action)
        results[int(env.rewards[me])] += 1
    print(
        f"{options.games} games against depth {options.depth}: {results[1]} won, {results[0]} drawn, {results[-1]} lost"
    )


if __name__ == "__main__":
    main()
