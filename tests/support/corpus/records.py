"""Records, complex numbers, tuples, views and arrays that live on across barriers; memory sized by the launch."""

from __future__ import annotations

import numpy as np
from numba import complex64, cuda, float32, from_dtype, int32
from numba.cuda.random import xoroshiro128p_uniform_float32

import warpdrive as wd

from .cases import case, close, equal

N = 8
PARTICLE = np.dtype([("x", np.float64), ("v", np.float64), ("kind", np.int32), ("alive", np.bool_)], align=True)
CELL = np.dtype([("count", np.int32), ("position", np.float32, (2,))])
NODE = from_dtype(np.dtype([("key", np.int32), ("next", np.int32)], align=True))


@cuda.jit
def move_particles(particles, dt, wall):
    i = cuda.grid(1)
    if i >= particles.size:
        return
    p = particles[i]
    if not p.alive:
        return
    p.x += p.v * dt
    if p.x > wall and p.kind == 1:
        p.v = -p.v
        p.x = 2 * wall - p.x
    elif p.x > wall:
        particles[i].alive = False
        particles[i]["kind"] += 10


@case
def particles_as_records(launch, rng):
    particles = np.zeros(10, PARTICLE)
    particles["x"], particles["v"] = rng.normal(size=(2, 10))
    particles["kind"], particles["alive"] = rng.integers(0, 2, 10), rng.random(10) < 0.8
    before = particles.copy()
    launch(move_particles, 2, N, particles, 0.5, 0.2)
    x = before["x"] + 0.5 * before["v"] * before["alive"]
    out = before["alive"] & (x > 0.2)
    bounced = out & (before["kind"] == 1)
    close(particles["x"], np.where(bounced, 0.4 - x, x))
    close(particles["v"], np.where(bounced, -before["v"], before["v"]))
    equal(particles["alive"], before["alive"] & ~(out & ~bounced))
    equal(particles["kind"], before["kind"] + 10 * (out & ~bounced))


@cuda.jit
def bin_into_cells(points, cells, size):
    """Fields that are arrays; a barrier between counting and dividing."""
    t = cuda.threadIdx.x
    for k in range(t, cells.shape[0], cuda.blockDim.x):
        count = 0
        x, y = float32(0), float32(0)
        for p in range(points.shape[0]):
            if int(points[p, 0] / size) == k:
                count += 1
                x += points[p, 0]
                y += points[p, 1]
        cells[k].count = count
        cells[k].position[0] = x
        cells[k].position[1] = y
    cuda.syncthreads()
    mine = cells[t % cells.shape[0]]
    if t < cells.shape[0] and mine.count > 0:
        mine.position[0] /= float32(mine.count)
        mine.position[1] /= float32(mine.count)


@case
def records_with_arrays_in_them(launch, rng):
    points = rng.integers(0, 40, (16, 2)).astype(np.float32)
    cells = np.zeros(5, CELL)
    launch(bin_into_cells, 1, N, points, cells, np.float32(10))
    for k, cell in enumerate(cells):
        inside = points[points[:, 0] // 10 == k]
        equal(cell["count"], len(inside))
        close(cell["position"], inside.mean(axis=0) if len(inside) else 0)


@cuda.jit
def linked_list(keys, heads, out):
    """Records in shared memory; all threads traverse a list built by one."""
    nodes = cuda.shared.array(N, NODE)
    i = cuda.threadIdx.x
    nodes[i].key = keys[i]
    nodes[i].next = i + 1 if i + 1 < N else -1
    cuda.syncthreads()
    if i == 0:
        heads[0] = 0
        for k in range(1, N):  # take out what is odd
            if nodes[k].key % 2:
                before = k - 1
                while before > 0 and nodes[before].key % 2:
                    before -= 1
                nodes[before].next = nodes[k].next
    cuda.syncthreads()
    place, total = heads[0], 0
    while place >= 0:
        total = total * 3 + nodes[place].key
        place = nodes[place].next
    out[i] = total


@case
def lists_in_shared_memory(launch, rng):
    keys, out = rng.integers(0, 9, N).astype(np.int32), np.zeros(N, np.int64)
    launch(linked_list, 1, N, keys, np.zeros(1, np.int32), out)
    total = int(keys[0])
    for key in keys[1:]:
        total = total * 3 + int(key) if key % 2 == 0 else total
    equal(out, total)


@cuda.jit
def swap_names(values, out, steps):
    """Double buffering as it is written most often: two arrays that change their names."""
    now = cuda.shared.array(N, float32)
    later = cuda.shared.array(N, float32)
    i = cuda.threadIdx.x
    now[i] = values[i]
    cuda.syncthreads()
    for _ in range(steps):
        later[i] = now[i] + now[(i + 1) % N] - now[(i + N - 1) % N]
        cuda.syncthreads()
        now, later = later, now
    out[i] = now[i]


@case
def buffers_that_change_names(launch, rng):
    values, out = rng.integers(-5, 5, N).astype(np.float32), np.zeros(N, np.float32)
    launch(swap_names, 1, N, values, out, 5)
    for _ in range(5):
        values = values + np.roll(values, -1) - np.roll(values, 1)
    equal(out, values)


@cuda.jit
def rows_and_pairs(table, out):
    """Views and tuples are made before a barrier and used after it."""
    env, i = cuda.blockIdx.x, cuda.threadIdx.x
    mine = table[env, i]
    world = table[env]
    bounds = (mine[0], mine[table.shape[2] - 1])
    cuda.syncthreads()
    if i == 0:
        for row in range(world.shape[0]):
            world[row, 1] += 100
    cuda.syncthreads()
    low, high = bounds
    out[env, i] = mine[1] + 1000 * (high - low)


@case
def views_and_tuples_across_barriers(launch, rng):
    table, out = rng.integers(0, 9, (2, N, 3)), np.zeros((2, N), np.int64)
    launch(rows_and_pairs, 2, N, table, out)
    equal(out, table[:, :, 1] + 1000 * (table[:, :, 2] - table[:, :, 0]))
    assert (table[:, :, 1] >= 100).all()


@cuda.jit
def complex_butterflies(signal, out):
    """A transform with complex numbers in shared memory."""
    data = cuda.shared.array(N, complex64)
    t = cuda.threadIdx.x
    data[t] = signal[t]
    cuda.syncthreads()
    half = N // 2
    while half > 0:
        partner = t ^ half
        mine, other = data[t], data[partner]
        cuda.syncthreads()
        if t & half:
            data[t] = other - mine
        else:
            data[t] = mine + other
        cuda.syncthreads()
        half //= 2
    value = data[t]
    out[t] = value * value.conjugate() + complex64(1j) * value.imag


@case
def complex_numbers_across_barriers(launch, rng):
    signal = (rng.integers(-4, 5, N) + 1j * rng.integers(-4, 5, N)).astype(np.complex64)
    out = np.zeros(N, np.complex64)
    matrix = np.array([[1]])
    for _ in range(3):
        matrix = np.kron(matrix, [[1, 1], [1, -1]])
    launch(complex_butterflies, 1, N, signal, out)
    value = matrix @ signal
    close(out, abs(value) ** 2 + 1j * value.imag)


@cuda.jit
def sized_by_the_launch(values, out):
    """Dynamic shared memory: its size is said by the launch, its halves are views."""
    memory = cuda.shared.array(0, float32)
    n = cuda.blockDim.x
    first, second = memory[:n], memory[n : 2 * n]
    i = cuda.threadIdx.x
    first[i] = values[cuda.grid(1)]
    cuda.syncthreads()
    second[i] = first[n - 1 - i] + first[0]
    cuda.syncthreads()
    out[cuda.grid(1)] = second[(i + 1) % n]


@case
def dynamic_shared_memory(launch, rng):
    values = rng.integers(-9, 9, 24).astype(np.float32)
    for threads in (6, 8):
        out = np.zeros(24, np.float32)
        launch(sized_by_the_launch, 24 // threads, threads, values, out, shared=8 * threads)
        rows = values.reshape(-1, threads)
        equal(out, np.roll(rows[:, ::-1] + rows[:, :1], -1, axis=1).ravel())


def xoroshiro(state):
    """Return what one step of xoroshiro128+ draws, and the state after it."""
    a, b = state
    word = 2**64 - 1
    drawn = (a + b) & word
    b ^= a
    a, b = ((a << 55 | a >> 9) & word) ^ b ^ (b << 14 & word), (b << 36 | b >> 28) & word
    return drawn, (a, b)


@cuda.jit
def monte_carlo_pi(rng_states, iterations, out):
    """Numba's own example of its random numbers."""
    thread_id = cuda.grid(1)
    inside = 0
    for _ in range(iterations):
        x = xoroshiro128p_uniform_float32(rng_states, thread_id)
        y = xoroshiro128p_uniform_float32(rng_states, thread_id)
        if x**2 + y**2 <= np.float32(1.0):
            inside += 1
    out[thread_id] = np.float32(4.0) * np.float32(inside) / np.float32(iterations)


@case
def random_numbers_of_numba(launch, rng):
    states, out = wd.random.xoroshiro128p_states(6, 5), np.zeros(6, np.float32)
    pairs = [(int(a), int(b)) for a, b in states.tolist()]
    launch(monte_carlo_pi, 2, 3, states, 25, out)
    for state, estimate in zip(pairs, out, strict=True):
        inside = 0
        for _ in range(25):
            point = []
            for _ in range(2):
                drawn, state = xoroshiro(state)
                point.append(float(np.float32((drawn >> 11) * 2.0**-53)))
            inside += point[0] ** 2 + point[1] ** 2 <= 1
        close(estimate, 4 * inside / 25)


@cuda.jit
def struct_of_small_arrays(agents, order, out):
    """Records are copied between the places of an array through the fields of a local one."""
    own = cuda.local.array(1, int32)
    i = cuda.threadIdx.x
    own[0] = agents[order[i]].kind
    x = agents[order[i]].x
    cuda.syncthreads()
    agents[i].kind = own[0]
    agents[i].x = x
    cuda.syncthreads()
    out[i] = agents[(i + 1) % cuda.blockDim.x].kind


@case
def records_permuted(launch, rng):
    agents = np.zeros(N, PARTICLE)
    agents["x"], agents["kind"] = rng.normal(size=N), rng.permutation(N)
    before, order, out = agents.copy(), rng.permutation(N).astype(np.int32), np.zeros(N, np.int32)
    launch(struct_of_small_arrays, 1, N, agents, order, out)
    equal(agents["x"], before["x"][order])
    equal(out, np.roll(before["kind"][order], -1))
