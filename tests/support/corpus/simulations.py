"""Environments of many agents: a block per replica, a thread per agent."""

from __future__ import annotations

import math

import numpy as np
from numba import cuda, float32, int32, uint32

from .cases import case, close, equal

NUM_AGENTS = 6
MOVES = np.array([[0, 0], [0, 1], [1, 0], [0, -1], [-1, 0]], np.int32)
LARGE = np.float32(1e6)


@cuda.jit
def predators_and_prey(x, y, role, alive, action, reward, done, size, timestep, episode_length):
    """All agents move; the prey that a predator stands on is caught and shared by all who stand there."""
    caught = cuda.shared.array(1, int32)
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    if agent == 0:
        timestep[env] += 1
        caught[0] = 0
    cuda.syncthreads()
    if alive[env, agent]:
        move = action[env, agent]
        x[env, agent] = min(max(x[env, agent] + MOVES[move, 0], 0), size - 1)
        y[env, agent] = min(max(y[env, agent] + MOVES[move, 1], 0), size - 1)
    reward[env, agent] = 0
    cuda.syncthreads()
    is_caught = False
    if alive[env, agent] and role[env, agent] == 0:
        hunters = 0
        for other in range(NUM_AGENTS):
            if role[env, other] == 1 and x[env, other] == x[env, agent] and y[env, other] == y[env, agent]:
                hunters += 1
        if hunters > 0:
            is_caught = True
            reward[env, agent] = -1
            for other in range(NUM_AGENTS):
                if role[env, other] == 1 and x[env, other] == x[env, agent] and y[env, other] == y[env, agent]:
                    cuda.atomic.add(reward, (env, other), float32(1) / float32(hunters))
    cuda.syncthreads()
    if is_caught:
        alive[env, agent] = False
    if alive[env, agent] and role[env, agent] == 0:
        cuda.atomic.add(caught, 0, 1)
    cuda.syncthreads()
    if agent == 0:
        done[env] = caught[0] == 0 or timestep[env] == episode_length


@case
def hunting(launch, rng):
    envs, size = 3, 4
    x, y = rng.integers(0, size, (2, envs, NUM_AGENTS)).astype(np.int32)
    role = np.tile(np.array([1, 1, 1, 0, 0, 0], np.int8), (envs, 1))
    alive, reward = np.ones((envs, NUM_AGENTS), np.bool_), np.zeros((envs, NUM_AGENTS), np.float32)
    done, timestep = np.zeros(envs, np.bool_), np.zeros(envs, np.int32)
    place, left = np.stack([x, y], axis=2), alive.copy()
    caught = 0
    for _ in range(3):
        action = rng.integers(0, 5, (envs, NUM_AGENTS)).astype(np.int32)
        launch(predators_and_prey, envs, NUM_AGENTS, x, y, role, alive, action, reward, done, size, timestep, 3)
        expected = np.zeros((envs, NUM_AGENTS))
        place = np.where(left[..., None], np.clip(place + MOVES[action], 0, size - 1), place)
        for env in range(envs):
            for prey in range(3, 6):
                hunters = [h for h in range(3) if (place[env, h] == place[env, prey]).all()]
                if left[env, prey] and hunters:
                    left[env, prey] = False
                    expected[env, hunters] += 1 / len(hunters)
                    expected[env, prey] = -1
                    caught += 1
        equal(np.stack([x, y], axis=2), place)
        equal(alive, left)
        close(reward, expected)
    assert caught > 0 and done.all()


@cuda.jit
def flock(position, velocity, radius, dt):
    """Separation, alignment and cohesion from what the neighbours did before anyone moved."""
    px = cuda.shared.array(NUM_AGENTS, float32)
    py = cuda.shared.array(NUM_AGENTS, float32)
    vx = cuda.shared.array(NUM_AGENTS, float32)
    vy = cuda.shared.array(NUM_AGENTS, float32)
    env, me = cuda.blockIdx.x, cuda.threadIdx.x
    px[me], py[me] = position[env, me, 0], position[env, me, 1]
    vx[me], vy[me] = velocity[env, me, 0], velocity[env, me, 1]
    cuda.syncthreads()
    count = 0
    cx = cy = ax = ay = sx = sy = np.float32(0)
    for other in range(NUM_AGENTS):
        if other == me:
            continue
        dx, dy = px[other] - px[me], py[other] - py[me]
        distance = math.sqrt(dx * dx + dy * dy)
        if distance > radius:
            continue
        count += 1
        cx += dx
        cy += dy
        ax += vx[other]
        ay += vy[other]
        sx -= dx / (distance * distance + np.float32(0.01))
        sy -= dy / (distance * distance + np.float32(0.01))
    if count > 0:
        inverse = np.float32(1) / np.float32(count)
        velocity[env, me, 0] += dt * (cx * inverse + (ax * inverse - vx[me]) + sx)
        velocity[env, me, 1] += dt * (cy * inverse + (ay * inverse - vy[me]) + sy)
    position[env, me, 0] += dt * velocity[env, me, 0]
    position[env, me, 1] += dt * velocity[env, me, 1]


@case
def flocking(launch, rng):
    position, velocity = rng.normal(size=(2, 2, NUM_AGENTS, 2)).astype(np.float32)
    p, v = position.astype(np.float64), velocity.astype(np.float64)
    d = p[:, None] - p[:, :, None]
    distance = np.linalg.norm(d, axis=3)
    near = (distance <= 1.5) & ~np.eye(NUM_AGENTS, dtype=bool)
    count = np.maximum(near.sum(axis=2), 1)[..., None]
    cohesion, alignment = (near[..., None] * d).sum(axis=2) / count, near @ v / count - v * near.any(axis=2)[..., None]
    separation = -(near / (distance**2 + 0.01))[..., None] * d
    v = v + 0.1 * (cohesion + alignment + separation.sum(axis=2))
    launch(flock, 2, NUM_AGENTS, position, velocity, np.float32(1.5), np.float32(0.1))
    close(velocity, v, rtol=1e-3, atol=1e-4)
    close(position, p + 0.1 * v, rtol=1e-3, atol=1e-4)


@cuda.jit
def second_price_auction(bids, budgets, owner, paid, rounds):
    """The best bidder pays the second price; of equal bids the lowest number wins; budgets carry over."""
    effective = cuda.shared.array(NUM_AGENTS, int32)
    env, me = cuda.blockIdx.x, cuda.threadIdx.x
    for r in range(rounds):
        effective[me] = min(bids[env, r, me], budgets[env, me])
        cuda.syncthreads()
        rank, highest_other = 0, 0
        for other in range(NUM_AGENTS):
            if other != me:
                if effective[other] > effective[me] or (effective[other] == effective[me] and other < me):
                    rank += 1
                highest_other = max(highest_other, effective[other])
        if rank == 0:
            owner[env, r] = me
            paid[env, r] = highest_other
            budgets[env, me] -= highest_other
        cuda.syncthreads()


@case
def auctions(launch, rng):
    bids, budgets = rng.integers(0, 10, (2, 5, NUM_AGENTS)).astype(np.int32), np.full((2, NUM_AGENTS), 14, np.int32)
    owner, paid = np.zeros((2, 5), np.int32), np.zeros((2, 5), np.int32)
    purses = budgets.copy()
    launch(second_price_auction, 2, NUM_AGENTS, bids, budgets, owner, paid, 5)
    for env, r in np.ndindex(2, 5):
        offers = np.minimum(bids[env, r], purses[env])
        winner, price = offers.argmax(), np.sort(offers)[-2]
        purses[env, winner] -= price
        equal([owner[env, r], paid[env, r]], [winner, price])
    equal(budgets, purses)


@cuda.jit
def traffic(road, speed, brakes, steps):
    """Nagel and Schreckenberg on a ring: cars see the previous position of the car ahead."""
    position = cuda.shared.array(NUM_AGENTS, int32)
    lane, car = cuda.blockIdx.x, cuda.threadIdx.x
    length = 30
    v = speed[lane, car]
    position[car] = road[lane, car]
    cuda.syncthreads()
    for t in range(steps):
        gap = (position[(car + 1) % NUM_AGENTS] - position[car] - 1) % length
        v = min(v + 1, 5)
        v = min(v, gap)
        if v > 0 and brakes[lane, t, car]:
            v -= 1
        cuda.syncthreads()
        position[car] = (position[car] + v) % length
        cuda.syncthreads()
    road[lane, car] = position[car]
    speed[lane, car] = v


@case
def cars_on_a_ring(launch, rng):
    road = np.sort(np.stack([rng.permutation(30)[:NUM_AGENTS] for _ in range(2)]), axis=1).astype(np.int32)
    speed, brakes = np.zeros((2, NUM_AGENTS), np.int32), rng.random((2, 7, NUM_AGENTS)) < 0.3
    place, v = road.copy(), speed.copy()
    for t in range(7):
        gap = (np.roll(place, -1, axis=1) - place - 1) % 30
        v = np.minimum(np.minimum(v + 1, 5), gap)
        v = np.maximum(v - brakes[:, t], 0)
        place = (place + v) % 30
    launch(traffic, 2, NUM_AGENTS, road, speed, brakes, 7)
    equal(road, place)
    equal(speed, v)


@cuda.jit
def epidemic(state, timer, draws, infectivity, counts):
    """Cells of a torus: susceptible 0, infected 1, recovered 2; a step per launch, a town per block along z."""
    i, j, town = cuda.threadIdx.x, cuda.threadIdx.y, cuda.blockIdx.z
    h, w = cuda.blockDim.x, cuda.blockDim.y
    here = state[town, i, j]
    pressure = 0
    if here == 0:
        for d in range(4):
            if d == 0:
                di, dj = 1, 0
            elif d == 1:
                di, dj = 0, 1
            elif d == 2:
                di, dj = -1, 0
            else:
                di, dj = 0, -1
            if state[town, (i + di) % h, (j + dj) % w] == 1:
                pressure += 1
    cuda.syncthreads()
    if here == 0 and draws[town, i, j] < infectivity * pressure:
        state[town, i, j] = 1
        timer[town, i, j] = 2
    elif here == 1:
        timer[town, i, j] -= 1
        if timer[town, i, j] <= 0:
            state[town, i, j] = 2
    cuda.atomic.add(counts, (town, state[town, i, j]), 1)


@case
def epidemics(launch, rng):
    state, timer = np.zeros((2, 4, 5), np.int8), np.zeros((2, 4, 5), np.int8)
    state[:, 1, 2], timer[:, 1, 2] = 1, 2
    before = state.copy(), timer.copy()
    for _ in range(4):
        draws, counts = rng.random((2, 4, 5)), np.zeros((2, 3), np.int32)
        s, t = before
        sick = s == 1
        pressure = sum(np.roll(sick, step, axis).astype(int) for axis in (1, 2) for step in (1, -1))
        new = (s == 0) & (draws < 0.5 * pressure)
        t = np.where(new, 2, t - sick)
        s = np.where(new, 1, np.where(sick & (t <= 0), 2, s))
        before = s, t
        launch(epidemic, (1, 1, 2), (4, 5), state, timer, draws, 0.5, counts)
        equal(state, s)
        equal(counts, [[(town == k).sum() for k in range(3)] for town in s])
    assert (s == 2).sum() > 2


@cuda.jit
def gather_resources(location, stock, carried, regrow, step_of_env):
    """Agents in one place share what is there; the remainder stays; then every place regrows."""
    visitors = cuda.shared.array(8, int32)
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    for place in range(agent, 8, NUM_AGENTS):
        visitors[place] = 0
    cuda.syncthreads()
    where = location[env, agent]
    if where >= 0:
        cuda.atomic.add(visitors, where, 1)
    cuda.syncthreads()
    share = stock[env, where] // visitors[where] if where >= 0 else 0
    carried[env, agent] += share
    cuda.syncthreads()
    for place in range(agent, 8, NUM_AGENTS):
        n = visitors[place]
        if n > 0:
            stock[env, place] %= n
        stock[env, place] += regrow[place]
    if agent == 0:
        step_of_env[env] += 1


@case
def gathering(launch, rng):
    location, stock = (
        rng.integers(-1, 8, (2, NUM_AGENTS)).astype(np.int32),
        rng.integers(0, 20, (2, 8)).astype(np.int32),
    )
    carried, steps = np.zeros((2, NUM_AGENTS), np.int32), np.zeros(2, np.int32)
    regrow = rng.integers(0, 3, 8).astype(np.int32)
    total = stock.sum()
    before = stock.copy()
    launch(gather_resources, 2, NUM_AGENTS, location, stock, carried, regrow, steps)
    equal(carried.sum() + stock.sum(), total + 2 * regrow.sum())
    for env in range(2):
        for agent, where in enumerate(location[env]):
            together = (location[env] == where).sum()
            equal(carried[env, agent], before[env, where] // together if where >= 0 else 0)
    equal(steps, 1)


@cuda.jit
def observe_nearest(x, y, active, observations):
    """The three nearest others, by selecting the nearest again and again; agents out of the game see zeros."""
    env, me = cuda.blockIdx.x, cuda.threadIdx.x
    taken = cuda.local.array(NUM_AGENTS, np.bool_)
    for other in range(NUM_AGENTS):
        taken[other] = other == me or not active[env, other]
    for k in range(3):
        nearest = -1
        best = LARGE
        for other in range(NUM_AGENTS):
            if taken[other]:
                continue
            dx, dy = x[env, other] - x[env, me], y[env, other] - y[env, me]
            distance = dx * dx + dy * dy
            if distance < best:
                nearest, best = other, distance
        if nearest < 0 or not active[env, me]:
            observations[env, me, 2 * k] = 0
            observations[env, me, 2 * k + 1] = 0
        else:
            taken[nearest] = True
            observations[env, me, 2 * k] = x[env, nearest] - x[env, me]
            observations[env, me, 2 * k + 1] = y[env, nearest] - y[env, me]


@case
def observations_of_the_nearest(launch, rng):
    x, y = rng.normal(size=(2, 3, NUM_AGENTS)).astype(np.float32)
    active = rng.random((3, NUM_AGENTS)) < 0.7
    observations = np.full((3, NUM_AGENTS, 6), 9, np.float32)
    launch(observe_nearest, 3, NUM_AGENTS, x, y, active, observations)
    for env, me in np.ndindex(3, NUM_AGENTS):
        others = [o for o in range(NUM_AGENTS) if active[env, o] and o != me] if active[env, me] else []
        relative = np.array([[x[env, o] - x[env, me], y[env, o] - y[env, me]] for o in others]).reshape(-1, 2)
        relative = relative[np.argsort((relative**2).sum(axis=1))][:3]
        close(observations[env, me], np.pad(relative.ravel(), (0, 6 - relative.size)))


@cuda.jit
def pole(state, action, reward, terminated, steps):
    """Classic control: a replica per thread, no barrier, several steps per launch."""
    env = cuda.grid(1)
    if env >= state.shape[0]:
        return
    x, v, angle, spin = state[env, 0], state[env, 1], state[env, 2], state[env, 3]
    for t in range(steps):
        if terminated[env]:
            break
        force = np.float32(10) if action[t, env] == 1 else np.float32(-10)
        c, s = math.cos(angle), math.sin(angle)
        temp = (force + np.float32(0.05) * spin * spin * s) / np.float32(1.1)
        turn = (np.float32(9.8) * s - c * temp) / (
            np.float32(0.5) * (np.float32(4.0 / 3.0) - np.float32(0.1) * c * c / np.float32(1.1))
        )
        push = temp - np.float32(0.05) * turn * c / np.float32(1.1)
        x, v = x + np.float32(0.02) * v, v + np.float32(0.02) * push
        angle, spin = angle + np.float32(0.02) * spin, spin + np.float32(0.02) * turn
        reward[env] += np.float32(1)
        if abs(x) > np.float32(2.4) or abs(angle) > np.float32(0.2094):
            terminated[env] = True
    state[env, 0] = x
    state[env, 1] = v
    state[env, 2] = angle
    state[env, 3] = spin


@case
def cart_and_pole(launch, rng):
    state = rng.uniform(-0.2, 0.2, (7, 4)).astype(np.float32)
    state[0], state[1] = [0, 0, 0.2, 0.5], [0, 0, 0.02, 0]
    action = rng.integers(0, 2, (12, 7)).astype(np.int32)
    action[:, 1] = np.arange(12) % 2
    reward, terminated = np.zeros(7, np.float32), np.zeros(7, np.bool_)
    expected = state.astype(np.float64)
    lasted = []
    for env, s in enumerate(expected):
        for t in range(12):
            c, n = np.cos(s[2]), np.sin(s[2])
            temp = (20 * action[t, env] - 10 + 0.05 * s[3] ** 2 * n) / 1.1
            turn = (9.8 * n - c * temp) / (0.5 * (4 / 3 - 0.1 * c**2 / 1.1))
            s += 0.02 * np.array([s[1], temp - 0.05 * turn * c / 1.1, s[3], turn])
            if abs(s[0]) > 2.4 or abs(s[2]) > 0.2094:
                break
        lasted.append(t + 1)
    launch(pole, 2, 4, state, action, reward, terminated, 12)
    equal(reward, lasted)
    close(state, expected, rtol=1e-3, atol=1e-4)
    assert 0 < terminated.sum() < 7


@cuda.jit(device=True)
def hash_of(env, agent, step):
    """An integer hash as a source of chance, in 32 bits."""
    h = uint32(env * 73856093) ^ uint32(agent * 19349663) ^ uint32(step * 83492791)
    h = uint32((h ^ (h >> uint32(16))) * uint32(0x45D9F3B))
    h = uint32((h ^ (h >> uint32(13))) * uint32(0x45D9F3B))
    return uint32(h ^ (h >> uint32(16)))


@cuda.jit
def random_walkers(position, visited, meetings, steps):
    """Walkers on a line; the block counts who meets, and all go on to the last step."""
    line = cuda.shared.array(16, int32)
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    n_agents = cuda.blockDim.x
    where = position[env, agent]
    for step in range(steps):
        for cell in range(agent, 16, n_agents):
            line[cell] = 0
        cuda.syncthreads()
        move = int32(hash_of(env, agent, step) % uint32(3)) - 1
        where = (where + move) % 16
        cuda.atomic.add(line, where, 1)
        cuda.atomic.max(visited, (env, where), step + 1)
        cuda.syncthreads()
        if line[where] > 1:
            meetings[env, agent] += 1
        cuda.syncthreads()
    position[env, agent] = where


@case
def walkers(launch, rng):
    position = rng.integers(0, 16, (2, NUM_AGENTS)).astype(np.int32)
    visited, meetings = np.zeros((2, 16), np.int32), np.zeros((2, NUM_AGENTS), np.int32)
    where, seen, met = position.copy(), visited.copy(), meetings.copy()
    for step in range(6):
        for env, agent in np.ndindex(2, NUM_AGENTS):
            h = (env * 73856093 ^ agent * 19349663 ^ step * 83492791) % 2**32
            for shift in (16, 13):
                h = (h ^ h >> shift) * 0x45D9F3B % 2**32
            where[env, agent] = (where[env, agent] + (h ^ h >> 16) % 3 - 1) % 16
            seen[env, where[env, agent]] = step + 1
        met += [[(row == place).sum() > 1 for place in row] for row in where]
    launch(random_walkers, 2, NUM_AGENTS, position, visited, meetings, 6)
    equal(position, where)
    equal(visited, seen)
    equal(meetings, met)


@cuda.jit
def market(inventory, coins, sells, price, trades):
    """Each round, buyers are matched with sellers of the same rank; all by one block through ranks."""
    side = cuda.shared.array(8, int32)
    partner = cuda.shared.array(8, int32)
    me = cuda.threadIdx.x
    for r in range(sells.shape[0]):
        wants = 0
        if sells[r, me] and inventory[me] > 0:
            wants = -1
        elif not sells[r, me] and coins[me] >= price[r]:
            wants = 1
        side[me] = wants
        partner[me] = -1
        cuda.syncthreads()
        if wants == -1:
            rank = 0
            for other in range(me):
                if side[other] == -1:
                    rank += 1
            seen = 0
            for other in range(cuda.blockDim.x):
                if side[other] == 1:
                    if seen == rank:
                        partner[me] = other
                        partner[other] = me
                        break
                    seen += 1
        cuda.syncthreads()
        if partner[me] >= 0:
            if wants == -1:
                inventory[me] -= 1
                coins[me] += price[r]
                cuda.atomic.add(trades, 0, 1)
            else:
                inventory[me] += 1
                coins[me] -= price[r]
        cuda.syncthreads()


@case
def trade(launch, rng):
    inventory, coins = rng.integers(0, 4, 8).astype(np.int32), rng.integers(0, 20, 8).astype(np.int32)
    sells, price = rng.random((6, 8)) < 0.5, rng.integers(2, 8, 6).astype(np.int32)
    trades, goods, money, count = np.zeros(1, np.int32), inventory.copy(), coins.copy(), 0
    for r in range(6):
        sellers = [a for a in range(8) if sells[r, a] and goods[a] > 0]
        buyers = [a for a in range(8) if not sells[r, a] and money[a] >= price[r]]
        for seller, buyer in zip(sellers, buyers, strict=False):
            goods[[seller, buyer]] += [-1, 1]
            money[[seller, buyer]] += [price[r], -price[r]]
            count += 1
    launch(market, 1, 8, inventory, coins, sells, price, trades)
    equal(inventory, goods)
    equal(coins, money)
    equal(trades, [count])
