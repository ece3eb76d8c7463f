"""Dynamic programming over sequences, mostly in wavefronts."""

from __future__ import annotations

import numpy as np
from numba import cuda, float32, int16, int32

from .cases import case, close, equal

LENGTH = 10
MATCH, MISMATCH, GAP = 3, -2, -2


@cuda.jit
def edit_distance(a, b, table):
    """A thread per row; anti-diagonals one after the other."""
    i = cuda.threadIdx.x
    n, m = a.size, b.size
    for j in range(i, m + 1, cuda.blockDim.x):
        table[0, j] = j
    table[i + 1, 0] = i + 1
    cuda.syncthreads()
    for wave in range(n + m - 1):
        j = wave - i
        if 0 <= j < m:
            cost = 0 if a[i] == b[j] else 1
            best = table[i, j] + cost
            best = min(best, table[i, j + 1] + 1)
            best = min(best, table[i + 1, j] + 1)
            table[i + 1, j + 1] = best
        cuda.syncthreads()


@case
def levenshtein(launch, rng):
    a, b = np.frombuffer(b"intention", np.uint8).copy(), np.frombuffer(b"executions", np.uint8).copy()
    table = np.zeros((10, 11), np.int32)
    launch(edit_distance, 1, 9, a, b, table)
    row = list(range(11))
    for i, x in enumerate(a):
        row, above = [i + 1], row
        for j, y in enumerate(b):
            row.append(min(above[j] + (x != y), above[j + 1] + 1, row[-1] + 1))
    equal(table[-1], row)
    assert table[9, 10] == 6


@cuda.jit
def smith_waterman(queries, target, scores, ends):
    """Local alignment of a query per block, three anti-diagonals in shared memory."""
    diagonals = cuda.shared.array((3, LENGTH + 1), int32)
    best = cuda.shared.array(LENGTH, int32)
    i, q = cuda.threadIdx.x + 1, cuda.blockIdx.x
    m = target.shape[0]
    for k in range(3):
        diagonals[k, i] = 0
        if i == 1:
            diagonals[k, 0] = 0
    mine = 0
    cuda.syncthreads()
    old, last, now = 0, 1, 2
    for wave in range(LENGTH + m - 1):
        j = wave - (i - 1)
        score = 0
        if j >= 0 and j < m:
            similarity = MATCH if queries[q, i - 1] == target[j] else MISMATCH
            above = diagonals[last, i - 1] if j >= 0 else 0
            left = diagonals[last, i] if j > 0 else 0
            corner = diagonals[old, i - 1] if j > 0 else 0
            score = max(0, corner + similarity, above + GAP, left + GAP)
            mine = max(mine, score)
        diagonals[now, i] = score
        cuda.syncthreads()
        old, last, now = last, now, old
    best[i - 1] = mine
    cuda.syncthreads()
    if i == 1:
        highest = 0
        for k in range(LENGTH):
            if best[k] > highest:
                highest = best[k]
                ends[q] = k
        scores[q] = highest


def local_alignment(query, target):
    h = np.zeros((len(query) + 1, len(target) + 1), int)
    for i, x in enumerate(query):
        for j, y in enumerate(target):
            h[i + 1, j + 1] = max(0, h[i, j] + (3 if x == y else -2), h[i, j + 1] - 2, h[i + 1, j] - 2)
    return h[1:]


@case
def local_alignments(launch, rng):
    queries, target = rng.integers(0, 4, (3, LENGTH)).astype(np.int8), rng.integers(0, 4, 14).astype(np.int8)
    scores, ends = np.zeros(3, np.int32), np.zeros(3, np.int32)
    launch(smith_waterman, 3, LENGTH, queries, target, scores, ends)
    for query, score, end in zip(queries, scores, ends, strict=True):
        table = local_alignment(query, target)
        equal(score, table.max())
        equal(end, table.max(axis=1).argmax())


@cuda.jit
def warping(series, pattern, out):
    """Dynamic time warping within a band; a series per thread, two rows in local memory."""
    s = cuda.grid(1)
    if s >= series.shape[0]:
        return
    previous = cuda.local.array(LENGTH + 1, float32)
    current = cuda.local.array(LENGTH + 1, float32)
    for j in range(LENGTH + 1):
        previous[j] = np.inf
    previous[0] = 0
    for i in range(series.shape[1]):
        for j in range(LENGTH + 1):
            current[j] = np.inf
        for j in range(max(0, i - 3), min(LENGTH, i + 4)):
            d = series[s, i] - pattern[j]
            current[j + 1] = d * d + min(previous[j], min(previous[j + 1], current[j]))
        for j in range(LENGTH + 1):
            previous[j] = current[j]
    out[s] = previous[LENGTH]


@case
def dynamic_time_warping(launch, rng):
    series, pattern = rng.normal(size=(5, LENGTH)).astype(np.float32), rng.normal(size=LENGTH).astype(np.float32)
    out = np.zeros(5, np.float32)
    launch(warping, 2, 4, series, pattern, out)
    for one, found in zip(series, out, strict=True):
        table = np.full((LENGTH + 1, LENGTH + 1), np.inf)
        table[0, 0] = 0
        for i, j in np.ndindex(LENGTH, LENGTH):
            if abs(i - j) <= 3:
                table[i + 1, j + 1] = (one[i] - pattern[j]) ** 2 + table[i : i + 2, j : j + 2].ravel()[:3].min()
        close(found, table[-1, -1])


@cuda.jit
def longest_common(a, b, lengths):
    """Pairs of sequences along y, wavefronts along x, padded with -1 at the end."""
    rows = cuda.shared.array((2, 3, LENGTH + 1), int16)
    i, pair = cuda.threadIdx.x, cuda.threadIdx.y
    for k in range(3):
        for place in range(i, LENGTH + 1, LENGTH):
            rows[pair, k, place] = 0
    cuda.syncthreads()
    for wave in range(2 * LENGTH - 1):
        j = wave - i
        value = int16(0)
        if j >= 0 and j < LENGTH:
            left = rows[pair, (wave + 2) % 3, i + 1] if j > 0 else 0
            corner = rows[pair, (wave + 1) % 3, i] if j > 0 else 0
            if a[pair, i] == b[pair, j] and a[pair, i] >= 0:
                value = corner + 1
            else:
                value = max(left, rows[pair, (wave + 2) % 3, i])
        rows[pair, wave % 3, i + 1] = value
        cuda.syncthreads()
    if i == LENGTH - 1:
        lengths[pair] = rows[pair, (2 * LENGTH - 2) % 3, LENGTH]


@case
def longest_common_subsequence(launch, rng):
    a, b = rng.integers(0, 4, (2, 2, LENGTH)).astype(np.int16)
    a[1, 7:] = -1
    lengths = np.zeros(2, np.int32)
    launch(longest_common, 1, (LENGTH, 2), a, b, lengths)
    for x, y, found in zip(a, b, lengths, strict=True):
        longest = {(-1, j): 0 for j in range(-1, 10)} | {(i, -1): 0 for i in range(10)}
        for i, j in np.ndindex(10, 10):
            is_same = x[i] == y[j] and x[i] >= 0
            longest[i, j] = max(longest[i - 1, j - 1] + 1 if is_same else 0, longest[i - 1, j], longest[i, j - 1])
        equal(found, longest[9, 9])


@cuda.jit
def viterbi(log_start, log_step, log_emit, observed, back, path):
    """The likeliest states of a chain, traced back by one thread."""
    score = cuda.shared.array((2, 4), np.float64)
    state = cuda.threadIdx.x
    n = observed.shape[0]
    score[0, state] = log_start[state] + log_emit[state, observed[0]]
    for t in range(1, n):
        cuda.syncthreads()
        best, origin = -np.inf, 0
        for before in range(4):
            candidate = score[(t - 1) % 2, before] + log_step[before, state]
            if candidate > best:
                best, origin = candidate, before
        score[t % 2, state] = best + log_emit[state, observed[t]]
        back[t, state] = origin
    cuda.syncthreads()
    if state != 0:
        return
    last = 0
    for s in range(1, 4):
        if score[(n - 1) % 2, s] > score[(n - 1) % 2, last]:
            last = s
    for t in range(n - 1, -1, -1):
        path[t] = last
        if t > 0:
            last = back[t, last]


@case
def hidden_states(launch, rng):
    start, step, emit = rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(4), 4), rng.dirichlet(np.ones(3), 4)
    observed = rng.integers(0, 3, 6).astype(np.int32)
    path = np.zeros(6, np.int32)
    tables = np.log(start), np.log(step), np.log(emit)
    launch(viterbi, 1, 4, *tables, observed, np.zeros((6, 4), np.int32), path)
    paths = np.array(list(np.ndindex(*[4] * 6)))  # all there are
    likelihood = (
        start[paths[:, 0]] * emit[paths, observed].prod(axis=1) * step[paths[:, :-1], paths[:, 1:]].prod(axis=1)
    )
    equal(path, paths[likelihood.argmax()])


@cuda.jit
def find_pattern(text, pattern, hits, first):
    """Positions are shared out in strides; a mismatch leaves the inner loop early."""
    for start in range(cuda.grid(1), text.size - pattern.size + 1, cuda.gridsize(1)):
        for k in range(pattern.size):
            if text[start + k] != pattern[k]:
                break
        else:
            cuda.atomic.add(hits, 0, 1)
            cuda.atomic.min(first, 0, start)


@case
def pattern_matching(launch, rng):
    text = b"abracadabra, said the cobra to the zebra in abracadabra"
    hits, first = np.zeros(1, np.int32), np.full(1, 99, np.int32)
    arrays = [np.frombuffer(part, np.uint8).copy() for part in (text, b"bra")]
    launch(find_pattern, 2, 8, *arrays, hits, first)
    equal([hits[0], first[0]], [text.count(b"bra"), text.find(b"bra")])
