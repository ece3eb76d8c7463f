"""Graphs: searches, components, paths, ranks."""

from __future__ import annotations

import math

import numpy as np
from numba import boolean, cuda, float32, int32

from .cases import case, close, equal

N = 20
INFINITY = 1 << 28


def random_graph(rng, nodes=N, edges=26):
    """Undirected edges, both ways, as compressed rows: offsets, targets, and a dense matrix."""
    dense = np.zeros((nodes, nodes), np.bool_)
    ends = rng.integers(0, nodes, (2, edges))
    dense[ends[0], ends[1]] = dense[ends[1], ends[0]] = True
    dense[np.arange(nodes), np.arange(nodes)] = False
    offsets = np.concatenate([[0], dense.sum(axis=1).cumsum()]).astype(np.int32)
    return offsets, np.nonzero(dense)[1].astype(np.int32), dense


def distances_from(dense, source):
    reached = {source: 0}
    front = [source]
    while front:
        front = [
            b for a in front for b in np.flatnonzero(dense[a]) if reached.setdefault(b, reached[a] + 1) > reached[a]
        ]
        front = list(dict.fromkeys(b for b in front if reached[b] == max(reached.values())))
    return np.array([reached.get(node, -1) for node in range(len(dense))])


@cuda.jit
def bfs_level(offsets, targets, distance, level, changed):
    """One level of the search per launch; whoever reaches a node writes the same number."""
    node = cuda.grid(1)
    if node >= distance.size or distance[node] != level:
        return
    for e in range(offsets[node], offsets[node + 1]):
        neighbour = targets[e]
        if cuda.atomic.cas(distance, neighbour, -1, level + 1) == -1:
            changed[0] = 1


@case
def breadth_first_search(launch, rng):
    offsets, targets, dense = random_graph(rng)
    distance, changed = np.full(N, -1, np.int32), np.ones(1, np.int32)
    distance[3] = 0
    level = 0
    while changed[0]:
        changed[0] = 0
        launch(bfs_level, 3, 8, offsets, targets, distance, level, changed)
        level += 1
    equal(distance, distances_from(dense, 3))
    assert distance.max() > 2


@cuda.jit
def bfs_in_a_block(offsets, targets, source, distance):
    """Two queues in shared memory that are swapped after each level; the order in a queue does not matter."""
    queue = cuda.shared.array((2, N), int32)
    length = cuda.shared.array(2, int32)
    t = cuda.threadIdx.x
    if t == 0:
        queue[0, 0] = source
        length[0], length[1] = 1, 0
        distance[source] = 0
    cuda.syncthreads()
    front, depth = 0, 0
    while length[front] > 0:
        back = 1 - front
        for k in range(t, length[front], cuda.blockDim.x):
            node = queue[front, k]
            for e in range(offsets[node], offsets[node + 1]):
                if cuda.atomic.cas(distance, targets[e], -1, depth + 1) == -1:
                    queue[back, cuda.atomic.add(length, back, 1)] = targets[e]
        cuda.syncthreads()
        if t == 0:
            length[front] = 0
        front = back
        depth += 1
        cuda.syncthreads()


@case
def breadth_first_search_with_queues(launch, rng):
    offsets, targets, dense = random_graph(rng)
    distance = np.full(N, -1, np.int32)
    launch(bfs_in_a_block, 1, 8, offsets, targets, 0, distance)
    equal(distance, distances_from(dense, 0))


@cuda.jit
def components_of_a_block(adjacency, label):
    """The smallest label among neighbours wins, until the block agrees that nothing changes."""
    going = cuda.shared.array(1, boolean)
    labels = cuda.shared.array((2, N), int32)
    me = cuda.threadIdx.x
    labels[0, me] = me
    now = 0
    while True:
        cuda.syncthreads()
        if me == 0:
            going[0] = False
        cuda.syncthreads()
        least = labels[now, me]
        for other in range(N):
            if adjacency[me, other]:
                least = min(least, labels[now, other])
        if least != labels[now, me]:
            going[0] = True
        labels[1 - now, me] = least
        cuda.syncthreads()
        now = 1 - now
        if not going[0]:
            break
    label[me] = labels[now, me]


def components(dense):
    label = np.arange(len(dense))
    for _ in range(len(dense)):
        for a, b in np.argwhere(dense):
            label[label == max(label[a], label[b])] = min(label[a], label[b])
    return label


@case
def connected_components(launch, rng):
    _, _, dense = random_graph(rng, edges=16)
    label = np.zeros(N, np.int32)
    launch(components_of_a_block, 1, N, dense, label)
    equal(label, components(dense))
    assert len(set(label)) > 2


@cuda.jit
def floyd_warshall(weights):
    """All pairs, in place in shared memory: row and column k do not change in round k."""
    d = cuda.shared.array((8, 8), int32)
    i, j = cuda.threadIdx.y, cuda.threadIdx.x
    d[i, j] = weights[i, j]
    cuda.syncthreads()
    for k in range(8):
        through = d[i, k] + d[k, j]
        if i != k and j != k and through < d[i, j]:
            d[i, j] = through
        cuda.syncthreads()
    weights[i, j] = d[i, j]


@case
def shortest_paths_of_all_pairs(launch, rng):
    weights = np.where(rng.random((8, 8)) < 0.3, rng.integers(1, 20, (8, 8)), INFINITY).astype(np.int32)
    np.fill_diagonal(weights, 0)
    expected = weights.astype(np.int64)
    for _ in range(8):  # products in the algebra of least and plus
        expected = (expected[:, :, None] + expected[None, :, :]).min(axis=1)
    launch(floyd_warshall, 1, (8, 8), weights)
    equal(np.minimum(weights, INFINITY), np.minimum(expected, INFINITY))


@cuda.jit
def bellman_ford(edges, weights, distance, rounds):
    """Edges relax into copies of the distances; a negative cycle would never end."""
    old = cuda.shared.array(N, float32)
    new = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    if t < N:
        old[t] = distance[t]
        new[t] = distance[t]
    cuda.syncthreads()
    for _ in range(rounds):
        for e in range(t, edges.shape[0], cuda.blockDim.x):
            cuda.atomic.min(new, edges[e, 1], old[edges[e, 0]] + weights[e])
        cuda.syncthreads()
        if t < N:
            old[t] = new[t]
        cuda.syncthreads()
    if t < N:
        distance[t] = old[t]


@case
def shortest_paths_from_one_node(launch, rng):
    edges = rng.integers(0, N, (50, 2)).astype(np.int32)
    weights = rng.integers(1, 10, 50).astype(np.float32)
    distance = np.full(N, math.inf, np.float32)
    distance[0] = 0
    expected = distance.copy()
    for _ in range(N):
        np.minimum.at(expected, edges[:, 1], expected[edges[:, 0]] + weights)
    launch(bellman_ford, 1, 24, edges, weights, distance, N)
    equal(distance, expected)


@cuda.jit
def page_rank(offsets, sources, out_degree, rank, new_rank, damping):
    page = cuda.grid(1)
    n = rank.shape[0]
    if page < n:
        total = 0.0
        for e in range(offsets[page], offsets[page + 1]):
            total += rank[sources[e]] / out_degree[sources[e]]
        new_rank[page] = (1.0 - damping) / n + damping * total


@case
def ranks_of_pages(launch, rng):
    dense = rng.random((12, 12)) < 0.3
    dense[np.arange(12), (np.arange(12) + 1) % 12] = True
    offsets = np.concatenate([[0], dense.sum(axis=1).cumsum()]).astype(np.int32)
    sources, out_degree = np.nonzero(dense)[1].astype(np.int32), dense.sum(axis=0).astype(np.int32)
    rank, new_rank = np.full(12, 1 / 12), np.zeros(12)
    expected = rank.copy()
    for _ in range(4):
        launch(page_rank, 2, 8, offsets, sources, out_degree, rank, new_rank, 0.85)
        rank, new_rank = new_rank, rank
        expected = 0.15 / 12 + 0.85 * (dense / dense.sum(axis=0)) @ expected
    close(rank, expected, rtol=1e-10)


@cuda.jit
def triangles(offsets, targets, count):
    """Two sorted lists are merged for every edge."""
    u = cuda.grid(1)
    if u >= offsets.size - 1:
        return
    mine = 0
    for e in range(offsets[u], offsets[u + 1]):
        v = targets[e]
        if v <= u:
            continue
        i, j = offsets[u], offsets[v]
        while i < offsets[u + 1] and j < offsets[v + 1]:
            if targets[i] == targets[j]:
                mine += 1 if targets[i] > v else 0
                i += 1
                j += 1
            elif targets[i] < targets[j]:
                i += 1
            else:
                j += 1
    cuda.atomic.add(count, 0, mine)


@case
def number_of_triangles(launch, rng):
    offsets, targets, dense = random_graph(rng, edges=70)
    count = np.zeros(1, np.int64)
    launch(triangles, 3, 8, offsets, targets, count)
    whole = dense.astype(np.int64)
    equal(count, [np.trace(whole @ whole @ whole) // 6])


@cuda.jit
def colour(adjacency, priority, colours, rounds):
    """Jones and Plassmann: a node takes the least free colour once all neighbours before it have theirs."""
    node = cuda.threadIdx.x
    for _ in range(rounds):
        is_ready = colours[node] < 0
        used = 0
        for other in range(adjacency.shape[0]):
            if adjacency[node, other]:
                c = colours[other]
                if c >= 0:
                    used |= 1 << c
                elif priority[other] > priority[node]:
                    is_ready = False
        cuda.syncthreads()
        if is_ready:
            c = 0
            while used >> c & 1:
                c += 1
            colours[node] = c
        cuda.syncthreads()


@case
def colouring(launch, rng):
    _, _, dense = random_graph(rng, edges=50)
    priority, colours = rng.permutation(N).astype(np.int32), np.full(N, -1, np.int32)
    expected = np.full(N, -1)
    for node in np.argsort(-priority):
        expected[node] = min(set(range(N)) - set(expected[dense[node]]))
    launch(colour, 1, N, dense, priority, colours, N)
    equal(colours, expected)
