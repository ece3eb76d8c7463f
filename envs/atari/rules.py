"""Score, lives and end of a game, computed from the console's memory.

The rules of a game are data, so that all games share one compiled kernel: rows of integers that :func:`evaluate`
processes in order.
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
LEAST, MOST, WRAP, START_LIVES = WEIGHT, PLUS, ADDRESS, MASK  # in the last row

# operations: a comparison makes the next row that is none depend on it
END, COMPARE, SCORE, OTHERWISE, LIVES, SCORE_IF, NO_SCORE, LIVES_IF, LOSS_IF, LOSS, OVER = range(11)

RELATIONS = ("==", "!=", "<", ">=", "was", "by", "not by")
EQUAL, DIFFERENT, LESS, NOT_LESS, FORMER, CHANGE, NO_CHANGE = range(len(RELATIONS))

RAM = 0x80
"""Address of the first byte of the memory."""


def program(game: Game) -> npt.NDArray[np.int32]:
    """Return the rules of a game as an array of shape ``(ROWS, COLUMNS)`` for :func:`evaluate`."""
    rows: list[list[int]] = []
    for operation, terms in ((SCORE, game.score), (OTHERWISE, game.reward_otherwise), (LIVES, game.lives)):
        for term in terms:
            rows += [_comparison(compare) for compare in term.when]
            rows.append(_sum(operation, term))
    conditions = [(SCORE_IF, game.score_if), *((NO_SCORE, together) for together in game.reward_unless)]
    conditions += [(LIVES_IF, game.lives_if), (LOSS_IF, game.loss_if), (LOSS, game.loss)]
    conditions += [(OVER, together) for together in game.over]
    for operation, together in conditions:
        if together:
            rows += [_comparison(compare) for compare in together]
            rows.append([operation, *[0] * (COLUMNS - 1)])
    if len(rows) >= ROWS:
        raise DefinitionError(f"the rules of {game.name} have {len(rows)} rows; at most {ROWS - 1} are possible")
    table = np.zeros((ROWS, COLUMNS), np.int32)
    table[: len(rows)] = np.reshape(rows, (-1, COLUMNS))
    table[ROWS - 1, [LEAST, MOST]] = game.rewards
    table[ROWS - 1, [WRAP, START_LIVES]] = game.score_limit, game.start_lives
    return table


def sum_of(terms: tuple[Term, ...], game: Game) -> npt.NDArray[np.int32]:
    """Return rules whose score is the sum of the terms."""
    return program(Game(game.name, game.md5, game.cartridge, game.actions, score=terms))


def score_and_lives(ram: npt.NDArray[np.uint8], table: npt.NDArray[np.int32]) -> tuple[int, int]:
    """Return score and lives before the first frame of an episode, from a console's memory."""
    numbers = np.zeros(2, np.int32)
    evaluate_start[1, 1](ram, table, numbers)
    return int(numbers[0]), int(numbers[1])


def _comparison(compare: Compare) -> list[int]:
    """Return the row of a comparison."""
    row = [COMPARE, compare.address - RAM, compare.mask, 0, 0, 0, 0, RELATIONS.index(compare.relation)]
    row[VALUE] = compare.value
    return row


def _sum(operation: int, term: Term) -> list[int]:
    """Return the row that adds a term."""
    return [operation, term.address - RAM, term.mask, term.shift, int(term.bcd), term.weight, term.plus, 0]


@wd.device_function
def evaluate(before, ram, rules, score_before, lives_before):
    """Return score, reward, lives and the end of the game, as integers, of a frame of one console.

    ``before``, ``score_before`` and ``lives_before`` are the memory, score and lives before the frame: some games have
    frames in which the memory does not give them. At the end of a game there are no lives, whatever the memory says.
    """
    score, otherwise, lives, over = 0, 0, 0, 0
    holds = has_score = True
    row = 0
    while rules[row, OPERATION] != END:
        operation = rules[row, OPERATION]
        address, mask = rules[row, ADDRESS], rules[row, MASK]
        bits = ram[address] & mask
        if operation == COMPARE:
            relation, value = rules[row, RELATION], rules[row, VALUE]
            if relation == FORMER:
                holds = holds and before[address] & mask == value
            elif relation == CHANGE:
                holds = holds and (np.int32(ram[address]) - before[address]) & mask == value
            elif relation == NO_CHANGE:
                holds = holds and (np.int32(ram[address]) - before[address]) & mask != value
            elif relation == EQUAL:
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
            elif operation == NO_SCORE:
                has_score = has_score and not holds
            elif operation == LIVES_IF:
                lives = lives if holds else lives_before
            elif operation == LOSS:
                lives = lives_before - 1 if holds else lives_before
            elif operation == LOSS_IF:
                lives = lives_before if lives == lives_before - 1 and not holds else lives
            elif holds:
                bits >>= rules[row, SHIFT]
                if rules[row, BCD] != 0:
                    bits -= 6 * (bits >> 4)
                amount = rules[row, WEIGHT] * bits + rules[row, PLUS]
                if operation == SCORE:
                    score += amount
                elif operation == OTHERWISE:
                    otherwise += amount
                elif operation == LIVES:
                    lives += amount
                else:
                    over = 1
            holds = True
        row += 1
    reward = score - score_before
    if not has_score:
        reward = otherwise
    elif reward < 0:
        reward += rules[ROWS - 1, WRAP]
    reward = min(max(reward, rules[ROWS - 1, LEAST]), rules[ROWS - 1, MOST])
    return score, reward, 0 if over != 0 else lives, over


@wd.device_function
def start(ram, rules):
    """Return score and lives before the first frame of an episode."""
    score, _, lives, _ = evaluate(ram, ram, rules, 0, rules[ROWS - 1, START_LIVES])
    return score, lives


@wd.kernel
def evaluate_start(ram, rules, numbers):
    """Write score and lives before the first frame into ``numbers [2]``."""
    numbers[0], numbers[1] = start(ram, rules)


@wd.kernel
def evaluate_frames(ram, rules, results):
    """Write reward, lives and end of the game of consecutive frames into ``results``, of shape (frames, 3).

    The first row of ``ram`` is the memory before the first frame, whose reward is 0. One thread does it.
    """
    score, lives = start(ram[0], rules)
    for frame in range(ram.shape[0]):
        score, reward, lives, over = evaluate(ram[max(frame - 1, 0)], ram[frame], rules, score, lives)
        results[frame, 0], results[frame, 1], results[frame, 2] = reward, lives, over
