"""Life and other automata."""

from __future__ import annotations

import numpy as np
from numba import cuda, uint8

from .cases import case, equal

SIDE = 8


@cuda.jit
def life_with_two_boards(board, following):
    x, y = cuda.grid(2)
    height, width = board.shape
    if x >= height or y >= width:
        return
    alive = 0
    for i in range(max(0, x - 1), min(height, x + 2)):
        for j in range(max(0, y - 1), min(width, y + 2)):
            if not (i == x and j == y):
                alive += board[i, j]
    following[x, y] = 1 if alive == 3 or (alive == 2 and board[x, y] == 1) else 0


def life(board):
    p = np.pad(board, 1)
    height, width = board.shape
    count = sum(p[i : i + height, j : j + width] for i in range(3) for j in range(3)) - board
    return ((count == 3) | ((count == 2) & (board == 1))).astype(board.dtype)


@case
def life_on_many_blocks(launch, rng):
    board = (rng.random((9, 13)) < 0.4).astype(np.int32)
    following, expected = np.zeros_like(board), board.copy()
    for _ in range(3):
        launch(life_with_two_boards, (3, 4), (4, 4), board, following)
        board, following, expected = following, board, life(expected)
    equal(board, expected)


@cuda.jit
def life_in_shared_memory(boards, generations):
    """A board per block, with a frame of dead cells that is never written again."""
    cells = cuda.shared.array((2, SIDE + 2, SIDE + 2), uint8)
    i, j = cuda.threadIdx.x, cuda.threadIdx.y
    for buffer in range(2):
        for row in range(i, SIDE + 2, SIDE):
            for column in range(j, SIDE + 2, SIDE):
                cells[buffer, row, column] = 0
    cuda.syncthreads()
    cells[0, i + 1, j + 1] = boards[cuda.blockIdx.x, i, j]
    cuda.syncthreads()
    now = 0
    for _ in range(generations):
        count = 0
        for di in range(3):
            for dj in range(3):
                count += cells[now, i + di, j + dj]
        count -= cells[now, i + 1, j + 1]
        cells[1 - now, i + 1, j + 1] = count == 3 or (count == 2 and cells[now, i + 1, j + 1] != 0)
        now ^= 1
        cuda.syncthreads()
    boards[cuda.blockIdx.x, i, j] = cells[now, i + 1, j + 1]


@case
def life_in_blocks(launch, rng):
    boards = (rng.random((2, SIDE, SIDE)) < 0.4).astype(np.uint8)
    expected = boards
    for _ in range(3):
        expected = np.stack([life(board) for board in expected])
    launch(life_in_shared_memory, 2, (SIDE, SIDE), boards, 3)
    equal(boards, expected)


@cuda.jit
def elementary(history, rule):
    """A row per step, all rows by one block."""
    i = cuda.threadIdx.x
    n = cuda.blockDim.x
    for t in range(1, history.shape[0]):
        left, centre, right = history[t - 1, (i - 1) % n], history[t - 1, i], history[t - 1, (i + 1) % n]
        history[t, i] = (rule >> (left << 2 | centre << 1 | right)) & 1
        cuda.syncthreads()


@case
def rule_30(launch, rng):
    history = np.zeros((8, 16), np.int32)
    history[0, 8] = 1
    launch(elementary, 1, 16, history, 30)
    for before, after in zip(history, history[1:], strict=False):
        equal(after, np.roll(before, 1) ^ (before | np.roll(before, -1)))


@cuda.jit
def fire(forest, burning, steps, burnt):
    """Fire spreads until it is out or time is; the block agrees on that through shared memory."""
    still = cuda.shared.array(1, dtype=uint8)
    i, j = cuda.threadIdx.y, cuda.threadIdx.x
    h, w = forest.shape
    for step in range(steps):
        if i == 0 and j == 0:
            still[0] = 0
        cuda.syncthreads()
        catches = False
        if forest[i, j] == 1 and not burning[i, j]:
            if i > 0 and burning[i - 1, j]:
                catches = True
            elif i + 1 < h and burning[i + 1, j]:
                catches = True
            elif j > 0 and burning[i, j - 1]:
                catches = True
            elif j + 1 < w and burning[i, j + 1]:
                catches = True
        cuda.syncthreads()
        if burning[i, j]:
            burning[i, j] = False
            forest[i, j] = 2
            cuda.atomic.add(burnt, 0, 1)
        if catches:
            burning[i, j] = True
            still[0] = 1
        cuda.syncthreads()
        if still[0] == 0:
            burnt[1] = step + 1
            break
        cuda.syncthreads()


@case
def forest_fire(launch, rng):
    forest = (rng.random((5, 6)) < 0.75).astype(np.int8)
    forest[2, 3] = 1
    burning = np.zeros((5, 6), np.bool_)
    burning[2, 3] = True
    reached, steps = {(2, 3)}, 0
    front = [(2, 3)]
    while front:
        steps += 1
        found = {(i + a, j + b) for i, j in front for a, b in ((0, 1), (0, -1), (1, 0), (-1, 0))}
        front = [p for p in found - reached if 0 <= p[0] < 5 and 0 <= p[1] < 6 and forest[p]]
        reached |= set(front)
    burnt = np.zeros(2, np.int32)
    launch(fire, 1, (6, 5), forest, burning, 40, burnt)
    equal(burnt, [len(reached), steps])
    equal(np.argwhere(forest == 2), sorted(reached))


@cuda.jit
def sand(pile, topplings):
    """Piles of four or more topple, all at once, until none does."""
    moving = cuda.shared.array(1, np.int32)
    i, j = cuda.threadIdx.x + 1, cuda.threadIdx.y + 1
    while True:
        cuda.syncthreads()
        if i == 1 and j == 1:
            moving[0] = 0
        cuda.syncthreads()
        if pile[i, j] >= 4:
            cuda.atomic.add(moving, 0, 1)
        topples = pile[i, j] >= 4
        cuda.syncthreads()
        if moving[0] == 0:
            return
        if topples:
            cuda.atomic.sub(pile, (i, j), 4)
            cuda.atomic.add(pile, (i - 1, j), 1)
            cuda.atomic.add(pile, (i + 1, j), 1)
            cuda.atomic.add(pile, (i, j - 1), 1)
            cuda.atomic.add(pile, (i, j + 1), 1)
            cuda.atomic.add(topplings, 0, 1)


@case
def sandpile(launch, rng):
    pile = np.zeros((6, 6), np.int32)
    pile[1:-1, 1:-1] = rng.integers(2, 6, (4, 4))
    expected, count = pile.copy(), 0
    while (expected[1:-1, 1:-1] >= 4).any():
        i, j = np.argwhere(expected[1:-1, 1:-1] >= 4)[0] + 1  # one at a time: the order does not matter
        expected[i, j] -= 4
        for a, b in ((0, 1), (0, -1), (1, 0), (-1, 0)):
            expected[i + a, j + b] += 1
        count += 1
    topplings = np.zeros(1, np.int32)
    launch(sand, 1, (4, 4), pile, topplings)
    equal(pile, expected)
    equal(topplings, [count])


@cuda.jit
def ising(spins, energies, thresholds, colour, coupling):
    """Half of a chessboard is updated; the other half waits for the next launch."""
    x, y = cuda.grid(2)
    if x >= spins.shape[0] or y >= spins.shape[1] or (x + y) % 2 != colour:
        return
    h, w = spins.shape
    field = spins[(x - 1) % h, y] + spins[(x + 1) % h, y] + spins[x, (y - 1) % w] + spins[x, (y + 1) % w]
    change = 2 * coupling * spins[x, y] * field
    if change <= thresholds[x, y]:
        spins[x, y] = -spins[x, y]
        cuda.atomic.add(energies, 0, change)


@case
def spins_on_a_chessboard(launch, rng):
    spins = rng.choice(np.array([-1, 1], np.int32), (6, 6))
    thresholds = rng.integers(0, 9, (6, 6)).astype(np.int32)

    def energy():
        return -(spins * (np.roll(spins, 1, 0) + np.roll(spins, 1, 1))).sum()

    before, change = energy(), np.zeros(1, np.int32)
    for colour in (0, 1, 0):
        launch(ising, (2, 2), (3, 4), spins, change, thresholds, colour, 1)
    assert abs(spins).min() == 1 and change[0] != 0
    equal(change, [energy() - before])
