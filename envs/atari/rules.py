"""Score, lives and end of a game, computed from the console's memory.

The rules of a game are data, so that one compiled kernel serves all games: rows of integers that :func:`evaluate`
goes through from the first to the last.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

import warpdrive as wd
from warpdrive.envs.atari.games import Compare, Game, Term
from warpdrive.errors import DefinitionError

ROWS = 48
"""Maximum number of rows of a game, with one that ends them."""
COLUMNS = 8

# columns of a row
OPERATION, ADDRESS, MASK, SHIFT, BCD, WEIGHT, PLUS, RELATION = range(COLUMNS)
VALUE = PLUS  # a comparison compares with the column that a term adds
LEAST, MOST = WEIGHT, PLUS  # limits of the reward, in the last row

# operations: a comparison makes the next row that is none depend on it
END, COMPARE, SCORE, LIVES, SCORE_IF, LOSS_IF, OVER = range(7)

RELATIONS = ("==", "!=", "<", ">=")
EQUAL, DIFFERENT, LESS, NOT_LESS = range(len(RELATIONS))

RAM = 0x80
"""Address of the first byte of the memory."""


def program(game: Game) -> npt.NDArray[np.int32]:
    """Return the rules of a game as an array of shape ``(ROWS, COLUMNS)`` for :func:`evaluate`."""
    rows: list[list[int]] = []
    for operation, terms in ((SCORE, game.score), (LIVES, game.lives)):
        for term in terms:
            rows += [_comparison(compare) for compare in term.when]
            rows.append(_sum(operation, term))
    conditions = [(SCORE_IF, game.score_if), (LOSS_IF, game.loss_if), *((OVER, together) for together in game.over)]
    for operation, together in conditions:
        if together:
            rows += [_comparison(compare) for compare in together]
            rows.append([operation, *[0] * (COLUMNS - 1)])
    if len(rows) >= ROWS:
        raise DefinitionError(f"the rules of {game.name} have {len(rows)} rows; at most {ROWS - 1} are possible")
    table = np.zeros((ROWS, COLUMNS), np.int32)
    table[: len(rows)] = rows
    table[ROWS - 1, [LEAST, MOST]] = game.rewards
    return table


def _comparison(compare: Compare) -> list[int]:
    """Return the row of a comparison."""
    row = [COMPARE, compare.address - RAM, compare.mask, 0, 0, 0, 0, RELATIONS.index(compare.relation)]
    row[VALUE] = compare.value
    return row


def _sum(operation: int, term: Term) -> list[int]:
    """Return the row that adds a term."""
    return [operation, term.address - RAM, term.mask, term.shift, int(term.bcd), term.weight, term.plus, 0]


@wd.device_function
def evaluate(ram, rules, score_before, lives_before):
    """Return score, lives and the end of the game, as integers, of the memory of one console.

    ``score_before`` and ``lives_before`` are those of the frame before, or 0: some games have frames in which the
    memory does not give them. At the end of a game there are no lives, whatever the memory says.
    """
    score, lives, over = 0, 0, 0
    holds = True
    row = 0
    while rules[row, OPERATION] != END:
        operation = rules[row, OPERATION]
        bits = ram[rules[row, ADDRESS]] & rules[row, MASK]
        if operation == COMPARE:
            relation, value = rules[row, RELATION], rules[row, VALUE]
            if relation == EQUAL:
                holds = holds and bits == value
            elif relation == DIFFERENT:
                holds = holds and bits != value
            elif relation == LESS:
                holds = holds and bits < value
            else:
                holds = holds and bits >= value
        else:
            if operation == SCORE_IF:
                score = score if holds else score_before
            elif operation == LOSS_IF:
                lives = lives_before if lives == lives_before - 1 and not holds else lives
            elif holds:
                bits >>= rules[row, SHIFT]
                if rules[row, BCD] != 0:
                    bits -= 6 * (bits >> 4)
                amount = rules[row, WEIGHT] * bits + rules[row, PLUS]
                if operation == SCORE:
                    score += amount
                elif operation == LIVES:
                    lives += amount
                else:
                    over = 1
            holds = True
        row += 1
    return score, 0 if over != 0 else lives, over


@wd.device_function
def reward(before, after, rules):
    """Return the reward of a frame from the scores before and after it."""
    return min(max(after - before, rules[ROWS - 1, LEAST]), rules[ROWS - 1, MOST])


@wd.kernel
def evaluate_frames(ram, rules, results):
    """Write reward, lives and end of the game of consecutive frames into ``results``, of shape (frames, 3).

    The first row of ``ram`` is the memory before the first frame, whose reward is 0. One thread does it.
    """
    before, lives, over = evaluate(ram[0], rules, 0, 0)
    for frame in range(ram.shape[0]):
        score, lives, over = evaluate(ram[frame], rules, before, lives)
        results[frame, 0], results[frame, 1], results[frame, 2] = reward(before, score, rules), lives, over
        before = score
