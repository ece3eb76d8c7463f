"""Bodies, springs, molecules and other particles."""

from __future__ import annotations

import math

import numpy as np
from numba import cuda, float32, float64

from .cases import case, close, equal

BLOCK = 8
SOFTENING = 1e-3
EPS = np.float32(0.01)


@cuda.jit(device=True)
def body_body_interaction(xi, yi, zi, xj, yj, zj, mass, ax, ay, az):
    rx, ry, rz = xj - xi, yj - yi, zj - zi
    squared = rx * rx + ry * ry + rz * rz + SOFTENING
    inverse = 1.0 / math.sqrt(squared)
    s = mass * inverse * inverse * inverse
    return ax + s * rx, ay + s * ry, az + s * rz


@cuda.jit
def gravity(bodies, acceleration):
    """Tiles of bodies pass through shared memory."""
    tile = cuda.shared.array((BLOCK, 4), float64)
    i = cuda.grid(1)
    n = bodies.shape[0]
    ax = ay = az = 0.0
    mine = min(i, n - 1)
    x, y, z = bodies[mine, 0], bodies[mine, 1], bodies[mine, 2]
    for start in range(0, n, BLOCK):
        j = start + cuda.threadIdx.x
        if j < n:
            for k in range(4):
                tile[cuda.threadIdx.x, k] = bodies[j, k]
        cuda.syncthreads()
        for j in range(min(BLOCK, n - start)):
            ax, ay, az = body_body_interaction(x, y, z, tile[j, 0], tile[j, 1], tile[j, 2], tile[j, 3], ax, ay, az)
        cuda.syncthreads()
    if i < n:
        acceleration[i, 0] = ax
        acceleration[i, 1] = ay
        acceleration[i, 2] = az


@case
def tiles_of_bodies(launch, rng):
    bodies = rng.normal(size=(13, 4))
    bodies[:, 3] = rng.uniform(0.5, 2, 13)
    acceleration = np.zeros((13, 3))
    launch(gravity, 2, BLOCK, bodies, acceleration)
    r = bodies[None, :, :3] - bodies[:, None, :3]
    weight = bodies[:, 3] / ((r**2).sum(axis=2) + 1e-3) ** 1.5
    close(acceleration, (weight[..., None] * r).sum(axis=1), rtol=1e-10)


@cuda.jit
def leapfrog(pos, vel, acc, dt):
    i = cuda.grid(1)
    if i < pos.shape[0]:
        for d in range(pos.shape[1]):
            vel[i, d] += 0.5 * dt * acc[i, d]
            pos[i, d] += dt * vel[i, d]


@cuda.jit
def springs(pos, acc, stiffness):
    i = cuda.grid(1)
    n = pos.shape[0]
    if i >= n:
        return
    for d in range(pos.shape[1]):
        left = pos[i - 1, d] if i != 0 else pos[n - 1, d]
        acc[i, d] = stiffness * (left + pos[(i + 1) % n, d] - 2.0 * pos[i, d])


@cuda.jit
def half_kick(vel, acc, dt):
    i = cuda.grid(1)
    if i < vel.shape[0]:
        for d in range(vel.shape[1]):
            vel[i, d] += 0.5 * dt * acc[i, d]


@case
def three_kernels_of_an_integrator(launch, rng):
    pos, vel, acc = rng.normal(size=(10, 2)), np.zeros((10, 2)), np.zeros((10, 2))

    def energy():
        stretched = pos - np.roll(pos, 1, axis=0)
        return (vel**2).sum() / 2 + 3.0 * (stretched**2).sum() / 2

    before = energy()
    launch(springs, 2, BLOCK, pos, acc, 3.0)
    for _ in range(5):
        launch(leapfrog, 2, BLOCK, pos, vel, acc, 0.01)
        launch(springs, 2, BLOCK, pos, acc, 3.0)
        launch(half_kick, 2, BLOCK, vel, acc, 0.01)
    close(energy(), before, rtol=1e-4)
    close(vel.sum(axis=0), 0, atol=1e-12)
    assert abs(vel).max() > 0.1


@cuda.jit
def lennard_jones(positions, box, cutoff, forces, energies):
    """Minimum images; pairs beyond the cutoff are passed over."""
    i = cuda.grid(1)
    if i >= positions.shape[0]:
        return
    fx = fy = fz = float32(0)
    energy = float32(0)
    for j in range(positions.shape[0]):
        if j == i:
            continue
        d = cuda.local.array(3, float32)
        r2 = float32(0)
        for k in range(3):
            delta = positions[i, k] - positions[j, k]
            delta -= box * float32(math.floor(delta / box + float32(0.5)))
            d[k] = delta
            r2 += delta * delta
        if r2 > cutoff * cutoff:
            continue
        inverse = float32(1) / r2
        sixth = inverse * inverse * inverse
        energy += float32(2) * sixth * (sixth - float32(1))
        factor = float32(24) * inverse * sixth * (float32(2) * sixth - float32(1))
        fx, fy, fz = fx + factor * d[0], fy + factor * d[1], fz + factor * d[2]
    forces[i, 0], forces[i, 1], forces[i, 2] = fx, fy, fz
    energies[i] = energy


@case
def molecules_in_a_box(launch, rng):
    corners = np.stack(np.meshgrid(*[np.arange(2)] * 3), axis=-1).reshape(-1, 3)
    positions = (1.3 * corners + rng.uniform(-0.1, 0.1, (8, 3))).astype(np.float32)
    box, cutoff = np.float32(2.6), np.float32(1.25)
    forces, energies = np.zeros((8, 3), np.float32), np.zeros(8, np.float32)
    launch(lennard_jones, 2, 4, positions, box, cutoff, forces, energies)
    d = positions[:, None].astype(np.float64) - positions
    d -= 2.6 * np.floor(d / 2.6 + 0.5)
    r2 = (d**2).sum(axis=2) + 100 * np.eye(8)
    near = r2 <= 1.25**2
    assert near.any() and (near.sum(axis=1) < 7).all()
    close(energies, (near * 2 * (r2**-6 - r2**-3)).sum(axis=1), rtol=1e-3, atol=1e-3)
    close(forces, ((near * 24 * (2 * r2**-6 - r2**-3) / r2)[..., None] * d).sum(axis=1), rtol=1e-3, atol=1e-2)


@cuda.jit
def cell_list(cells_of, first, members, counts):
    """Cells as linked lists would be too free: counted, scanned by one thread, and filled in order."""
    cell = cuda.threadIdx.x
    count = 0
    for p in range(cells_of.size):
        if cells_of[p] == cell:
            count += 1
    counts[cell] = count
    cuda.syncthreads()
    start = 0
    for other in range(cell):
        start += counts[other]
    first[cell] = start
    for p in range(cells_of.size):
        if cells_of[p] == cell:
            members[start] = p
            start += 1


@case
def lists_of_neighbours(launch, rng):
    cells_of = rng.integers(0, 6, 25).astype(np.int32)
    first, members = np.zeros(6, np.int32), np.zeros(25, np.int32)
    launch(cell_list, 1, 6, cells_of, first, members, np.zeros(6, np.int32))
    equal(members, np.argsort(cells_of, kind="stable"))
    equal(first, np.searchsorted(np.sort(cells_of), np.arange(6)))


@cuda.jit
def deposit(x, charge, grid):
    """Cloud in cell: each particle to the two nodes around it."""
    p = cuda.grid(1)
    if p < x.shape[0]:
        node = int(x[p])
        fraction = x[p] - node
        cuda.atomic.add(grid, node, charge * (1 - fraction))
        cuda.atomic.add(grid, (node + 1) % grid.shape[0], charge * fraction)


@cuda.jit
def push(x, v, field, dt):
    p = cuda.grid(1)
    if p < x.shape[0]:
        node = int(x[p])
        fraction = x[p] - node
        force = (1 - fraction) * field[node] + fraction * field[(node + 1) % field.shape[0]]
        v[p] += force * dt
        x[p] = (x[p] + v[p] * dt) % field.shape[0]


@case
def particles_in_cells(launch, rng):
    x, v, grid = rng.uniform(0, 8, 20), rng.normal(size=20), np.zeros(8)
    launch(deposit, 3, BLOCK, x, 0.5, grid)
    close(grid.sum(), 10)
    expected = np.zeros(8)
    for place in x:
        expected += 0.5 * np.maximum(0, 1 - np.abs((np.arange(8) - place + 4) % 8 - 4))
    close(grid, expected, rtol=1e-10)
    weight = np.maximum(0, 1 - np.abs((np.arange(8) - x[:, None] + 4) % 8 - 4))
    faster = v + 0.1 * weight @ grid
    further = (x + 0.1 * faster) % 8
    launch(push, 3, BLOCK, x, v, grid, 0.1)
    close(v, faster, rtol=1e-10)
    close(x, further, rtol=1e-10)


@cuda.jit
def bounce(position, velocity, radius, steps):
    """Hard disks on a line that swap velocities when they meet; even pairs first, then odd ones."""
    i = cuda.threadIdx.x
    n = cuda.blockDim.x
    for _ in range(steps):
        position[i] += velocity[i]
        if position[i] < 0 or position[i] > 100:
            velocity[i] = -velocity[i]
        cuda.syncthreads()
        for parity in range(2):
            if i % 2 == parity and i + 1 < n:
                gap = position[i + 1] - position[i]
                if gap < 2 * radius and velocity[i] > velocity[i + 1]:
                    velocity[i], velocity[i + 1] = velocity[i + 1], velocity[i]
            cuda.syncthreads()


@case
def collisions(launch, rng):
    position, velocity = np.arange(0, 99, 10), rng.integers(-4, 5, 10)
    places, speeds = list(position), list(velocity)
    launch(bounce, 1, 10, position, velocity, 2, 6)
    for _ in range(6):
        places = [p + v for p, v in zip(places, speeds, strict=True)]
        speeds = [-v if not 0 <= p <= 100 else v for p, v in zip(places, speeds, strict=True)]
        for left in [*range(0, 9, 2), *range(1, 9, 2)]:
            if places[left + 1] - places[left] < 4:
                speeds[left : left + 2] = sorted(speeds[left : left + 2])
    equal(position, places)
    equal(velocity, speeds)


@cuda.jit
def rotate_all(points, quaternions, out):
    """Points by quaternions, one of each for a thread; small tuples as vectors."""
    i = cuda.grid(1)
    if i >= len(points):
        return
    w, x, y, z = quaternions[i, 0], quaternions[i, 1], quaternions[i, 2], quaternions[i, 3]
    norm = math.sqrt(w * w + x * x + y * y + z * z) + EPS * 0
    axis = (x / norm, y / norm, z / norm)
    w /= norm
    v = (points[i, 0], points[i, 1], points[i, 2])
    t = cross(axis, v)
    t = (2 * t[0], 2 * t[1], 2 * t[2])
    u = cross(axis, t)
    for k in range(3):
        out[i, k] = v[k] + w * t[k] + u[k]


@cuda.jit(device=True)
def cross(a, b):
    return (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


@case
def rotations(launch, rng):
    points, quaternions = rng.normal(size=(9, 3)), rng.normal(size=(9, 4))
    out = np.zeros((9, 3))
    launch(rotate_all, 2, BLOCK, points, quaternions, out)
    for p, q, found in zip(points, quaternions / np.linalg.norm(quaternions, axis=1, keepdims=True), out, strict=True):
        w, x, y, z = q
        matrix = [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
        close(found, matrix @ p, rtol=1e-6)
