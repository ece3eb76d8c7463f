"""Races of published environments and simulations, rewritten as kernels: each with a clean counterpart.

What each is modelled on is said in its docstring; none of their code is here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from marked_lines import marked_lines
from numba import cuda, float32, int32
from numba.cuda.random import xoroshiro128p_dtype, xoroshiro128p_uniform_float32

import warpdrive as wd

E, A = 2, 4
CASES: list[Any] = []


def pair(array: str, threads: Any, *arguments: Any, blocks: Any = E) -> Callable[[Any], Any]:
    """Register a kernel in which ``array`` is raced for in the lines that end with ``# race``, and its clean twin."""

    def register(functions: Callable[[], tuple[Any, Any]]) -> Any:
        racy, clean = functions()
        CASES.append(pytest.param(racy, clean, array, blocks, threads, arguments, id=functions.__name__))
        return functions

    return register


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def whole(*shape: int, value: int = 0) -> np.ndarray:
    return np.full(shape, value, np.int32)


def points(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(0, 1, shape).astype(np.float32)


def random_states(count: int) -> np.ndarray:
    states = np.zeros(count, xoroshiro128p_dtype)
    states["s0"], states["s1"] = np.arange(1, count + 1), 7
    return states


TYPES = np.array([1, 0, 0, 0], np.int32)


@wd.device_function
def distance(x, y, env, one, other):
    return math.sqrt((x[env, one] - x[env, other]) ** 2 + (y[env, one] - y[env, other]) ** 2)


@wd.device_function
def nearest_tagger(x, y, env, agent, types):
    nearest = -1
    least = np.float32(9)
    for other in range(x.shape[1]):
        if types[other] == 1 and distance(x, y, env, agent, other) < least:
            least = distance(x, y, env, agent, other)
            nearest = other
    return nearest


@pair("rewards", A, points(E, A), points(E, A), TYPES, zeros(E, A))
def reward_of_the_nearest_tagger():
    """Tag in a continuous world (WarpDrive's tag_continuous and its forks): each runner rewards its tagger."""

    def racy(x, y, types, rewards):
        env, agent = cuda.blockIdx.x, cuda.threadIdx.x
        rewards[env, agent] = np.float32(0)
        cuda.syncthreads()
        if types[agent] == 0:
            tagger = nearest_tagger(x, y, env, agent, types)
            rewards[env, agent] -= np.float32(1)
            rewards[env, tagger] += np.float32(1)  # race

    def clean(x, y, types, rewards):
        env, agent = cuda.blockIdx.x, cuda.threadIdx.x
        rewards[env, agent] = np.float32(0)
        cuda.syncthreads()
        if types[agent] == 0:
            tagger = nearest_tagger(x, y, env, agent, types)
            cuda.atomic.add(rewards, (env, agent), np.float32(-1))
            cuda.atomic.add(rewards, (env, tagger), np.float32(1))

    return racy, clean


@pair("runners_left", A, whole(E, value=3), TYPES, whole(E))
def count_of_those_still_in_the_game():
    """WarpDrive's tag environments: each runner that is caught decrements the count."""

    def racy(runners_left, types, done):
        env, agent = cuda.blockIdx.x, cuda.threadIdx.x
        if types[agent] == 0:
            runners_left[env] -= 1  # race
        cuda.syncthreads()
        if agent == 0 and runners_left[env] == 0:
            done[env] = 1

    def clean(runners_left, types, done):
        env, agent = cuda.blockIdx.x, cuda.threadIdx.x
        if types[agent] == 0:
            cuda.atomic.sub(runners_left, env, 1)
        cuda.syncthreads()
        if agent == 0 and runners_left[env] == 0:
            done[env] = 1

    return racy, clean


@pair("rewards", A, zeros(E, A), TYPES, whole(A, value=0))
def prey_overwrites_what_its_predator_wrote():
    """Predators and prey (a fork of tag_continuous): rewards are assigned, by the prey and by the predator itself."""

    def racy(rewards, types, eaten_by):
        env, agent = cuda.blockIdx.x, cuda.threadIdx.x
        if types[agent] == 1:
            rewards[env, agent] = np.float32(-1)  # race
        else:
            rewards[env, eaten_by[agent]] = np.float32(5)  # race

    def clean(rewards, types, eaten_by):
        env, agent = cuda.blockIdx.x, cuda.threadIdx.x
        rewards[env, agent] = np.float32(-1)
        cuda.syncthreads()
        if types[agent] == 0:
            rewards[env, eaten_by[agent]] = np.float32(5)

    return racy, clean


@pair("reached", A, points(E, A), whole(E))
def shared_counter_cleared_without_a_barrier():
    """WarpDrive's test environment: one thread clears the counter while others count already."""

    def racy(x, done):
        reached = cuda.shared.array(1, int32)
        env, agent = cuda.blockIdx.x, cuda.threadIdx.x
        if agent == 0:
            reached[0] = 0  # race
        if x[env, agent] > 0:
            cuda.atomic.add(reached, 0, 1)  # race
        cuda.syncthreads()
        if agent == 0 and reached[0] > 0:
            done[env] = 1

    def clean(x, done):
        reached = cuda.shared.array(1, int32)
        env, agent = cuda.blockIdx.x, cuda.threadIdx.x
        if agent == 0:
            reached[0] = 0
        cuda.syncthreads()
        if x[env, agent] > 0:
            cuda.atomic.add(reached, 0, 1)
        cuda.syncthreads()
        if agent == 0 and reached[0] > 0:
            done[env] = 1

    return racy, clean


@pair("done", A, whole(E, value=1), whole(E, value=9))
def done_is_taken_back_while_others_read_it():
    """WarpDrive's reset: all threads look at ``done``, and one of them clears it."""

    def racy(done, timestep):
        env, agent = cuda.blockIdx.x, cuda.threadIdx.x
        is_over = done[env] == 1  # race
        if is_over and agent == 0:
            done[env] = 0  # race
            timestep[env] = 0

    def clean(done, timestep):
        env, agent = cuda.blockIdx.x, cuda.threadIdx.x
        if agent == 0 and done[env] == 1:
            done[env] = 0
            timestep[env] = 0

    return racy, clean


@pair("states", A, random_states(E * A), points(3, A), zeros(E, A))
def one_random_state_for_all_threads_of_a_block():
    """WarpDrive's reset from a pool: the threads of a replica draw from one generator, not even the same number."""

    def racy(states, pool, x):
        env, agent = cuda.blockIdx.x, cuda.threadIdx.x
        drawn = xoroshiro128p_uniform_float32(states, env)  # race
        x[env, agent] = pool[int(drawn * np.float32(3)), agent]

    def clean(states, pool, x):
        row = cuda.shared.array(1, int32)
        env, agent = cuda.blockIdx.x, cuda.threadIdx.x
        if agent == 0:
            row[0] = int(xoroshiro128p_uniform_float32(states, env) * np.float32(3))
        cuda.syncthreads()
        x[env, agent] = pool[row[0], agent]

    return racy, clean


@pair("timestep", A, whole(E), zeros(E, A))
def time_is_read_before_all_know_that_it_went_on():
    """Steps that move the time on in one thread, where the barrier after that was forgotten."""

    def racy(timestep, x):
        env, agent = cuda.blockIdx.x, cuda.threadIdx.x
        if agent == 0:
            timestep[env] += 1  # race
        x[env, agent] = timestep[env]  # race

    def clean(timestep, x):
        env, agent = cuda.blockIdx.x, cuda.threadIdx.x
        if agent == 0:
            timestep[env] += 1
        cuda.syncthreads()
        x[env, agent] = timestep[env]

    return racy, clean


@pair("timestep", A, whole(E, value=5), zeros(E, A))
def the_end_sets_the_time_back_while_others_reward():
    """An epidemic's economy (AI Economist, COVID-19): agent 0 ends the episode at once."""

    def racy(timestep, rewards):
        env, agent = cuda.blockIdx.x, cuda.threadIdx.x
        rewards[env, agent] = timestep[env]  # race
        if agent == 0 and timestep[env] == 5:
            timestep[env] = 0  # race

    def clean(timestep, rewards):
        env, agent = cuda.blockIdx.x, cuda.threadIdx.x
        rewards[env, agent] = timestep[env]
        cuda.syncthreads()
        if agent == 0 and timestep[env] == 5:
            timestep[env] = 0

    return racy, clean


@pair("subsidy", A, zeros(E, A), zeros(E))
def the_planner_adds_up_what_states_are_writing():
    """A planner among the agents of the same simulation reads what the states write in that step."""

    def racy(subsidy, total):
        env, agent = cuda.blockIdx.x, cuda.threadIdx.x
        planner = cuda.blockDim.x - 1
        if agent < planner:
            subsidy[env, agent] = agent + 1  # race
        else:
            for state in range(planner):
                total[env] += subsidy[env, state]  # race

    def clean(subsidy, total):
        env, agent = cuda.blockIdx.x, cuda.threadIdx.x
        planner = cuda.blockDim.x - 1
        if agent < planner:
            subsidy[env, agent] = agent + 1
        cuda.syncthreads()
        if agent == planner:
            for state in range(planner):
                total[env] += subsidy[env, state]

    return racy, clean


@pair("agents", 4, points(8, 3), blocks=2)
def the_infected_move_while_they_are_looked_at():
    """An epidemic of agents in one array: each moves, looks who is near and infected, and catches it, in place."""

    def racy(agents):
        i = cuda.grid(1)
        agents[i, 0] += np.float32(0.1)  # race
        for other in range(agents.shape[0]):
            if abs(agents[other, 0] - agents[i, 0]) < np.float32(0.5) and other != i:  # race
                agents[i, 2] = np.float32(i)

    def clean(agents):
        i = cuda.grid(1)
        near = 0
        for other in range(agents.shape[0]):
            if abs(agents[other, 0] - agents[i, 0]) < np.float32(0.5) and other != i:
                near += 1
        agents[i, 2] = np.float32(near)

    return racy, clean


@pair("shown", 2, zeros(4), blocks=(2, 3))
def a_picture_that_blocks_paint_together():
    """Boids: the blocks along y look at one neighbouring cell each, and paint over what the others painted."""

    def racy(shown):
        i = cuda.grid(2)[0]
        if i == 0:
            shown[0] = 1  # race
            shown[cuda.blockIdx.y] = 2 + cuda.blockIdx.y  # race

    def clean(shown):
        i = cuda.grid(2)[0]
        if i == 0:
            cuda.atomic.max(shown, cuda.blockIdx.y, 2 + cuda.blockIdx.y)

    return racy, clean


def cells() -> tuple[np.ndarray, np.ndarray]:
    board = np.random.default_rng(0).integers(0, 2, (6, 6)).astype(np.int32)
    return board[1:-1, 1:-1], board


@pair("cells", (4, 4), *cells(), blocks=1)
def a_view_of_the_board_that_is_written():
    """Game of life: the next board has a border, and the last one is a view of it, so both are one."""

    def racy(last, cells):
        i, j = cuda.grid(2)
        around = 0
        for k in range(-1, 2):
            for m in range(-1, 2):
                around += cells[i + k + 1, j + m + 1]  # race
        last[i, j] = around % 2  # race

    def clean(last, cells):
        i, j = cuda.grid(2)
        around = 0
        for k in range(-1, 2):
            for m in range(-1, 2):
                around += cells[i + k + 1, j + m + 1]
        cuda.syncthreads()
        last[i, j] = around % 2

    return racy, clean


@pair("owner", A, whole(E, A), whole(3, value=-1), blocks=1)
def two_agents_move_into_one_cell():
    """Grid worlds: a cell is tested and then taken, so that two may take it."""

    def racy(wish, owner):
        agent = cuda.threadIdx.x
        cell = wish[0, agent]
        if owner[cell] < 0:  # race
            owner[cell] = agent  # race

    def clean(wish, owner):
        agent = cuda.threadIdx.x
        cell = wish[0, agent]
        cuda.atomic.max(owner, cell, agent)

    return racy, clean


@pair("food", A, whole(E, 2, value=3), points(E, A), zeros(E, A))
def agents_eat_from_one_cell():
    """Foraging: how much is left is read, and what is eaten taken from it, by all in the cell."""

    def racy(food, hunger, eaten):
        env, agent = cuda.blockIdx.x, cuda.threadIdx.x
        if food[env, agent // 2] > 0:  # race
            food[env, agent // 2] -= 1  # race
            eaten[env, agent] += hunger[env, agent]

    def clean(food, hunger, eaten):
        env, agent = cuda.blockIdx.x, cuda.threadIdx.x
        if cuda.atomic.add(food, (env, agent // 2), -1) > 0:
            eaten[env, agent] += hunger[env, agent]

    return racy, clean


@pair("position", A, points(E, A), zeros(E, A))
def agents_push_their_neighbours():
    """Particles and crowds: each moves itself and its neighbour."""

    def racy(position, speed):
        env, agent = cuda.blockIdx.x, cuda.threadIdx.x
        after = (agent + 1) % cuda.blockDim.x
        push = (position[env, after] - position[env, agent]) * np.float32(0.5)  # race
        position[env, agent] += push  # race
        position[env, after] -= push  # race

    def clean(position, speed):
        env, agent = cuda.blockIdx.x, cuda.threadIdx.x
        after = (agent + 1) % cuda.blockDim.x
        push = (position[env, after] - position[env, agent]) * np.float32(0.5)
        cuda.syncthreads()
        cuda.atomic.add(position, (env, agent), push)
        cuda.atomic.sub(position, (env, after), push)

    return racy, clean


@pair("observations", A, points(E, A), zeros(E, A, A))
def observations_of_others_are_corrected():
    """Observations that an agent writes for all others, and each then changes for itself."""

    def racy(x, observations):
        env, agent = cuda.blockIdx.x, cuda.threadIdx.x
        for other in range(x.shape[1]):
            observations[env, other, agent] = x[env, agent]  # race
        for other in range(x.shape[1]):
            observations[env, agent, other] -= x[env, agent]  # race

    def clean(x, observations):
        env, agent = cuda.blockIdx.x, cuda.threadIdx.x
        for other in range(x.shape[1]):
            observations[env, other, agent] = x[env, agent]
        cuda.syncthreads()
        for other in range(x.shape[1]):
            observations[env, agent, other] -= x[env, agent]

    return racy, clean


@pair("log", A, points(E, A), zeros(A))
def the_log_of_one_replica_is_written_by_all():
    """A log of one replica whose kernel forgot to ask which replica it runs in."""

    def racy(x, log):
        log[cuda.threadIdx.x] = x[cuda.blockIdx.x, cuda.threadIdx.x]  # race

    def clean(x, log):
        if cuda.blockIdx.x == 0:
            log[cuda.threadIdx.x] = x[cuda.blockIdx.x, cuda.threadIdx.x]

    return racy, clean


@pair("nearest", A, points(E, A), whole(E))
def the_winner_of_an_auction():
    """Markets: the best bid and who made it are two writes, and not of one thread."""

    def racy(bids, nearest):
        best = cuda.shared.array(1, float32)
        env, agent = cuda.blockIdx.x, cuda.threadIdx.x
        if agent == 0:
            best[0] = np.float32(0)
        cuda.syncthreads()
        if bids[env, agent] > cuda.atomic.max(best, 0, bids[env, agent]):
            nearest[env] = agent  # race

    def clean(bids, nearest):
        best = cuda.shared.array(1, float32)
        env, agent = cuda.blockIdx.x, cuda.threadIdx.x
        if agent == 0:
            best[0] = np.float32(0)
        cuda.syncthreads()
        cuda.atomic.max(best, 0, bids[env, agent])
        cuda.syncthreads()
        if bids[env, agent] == best[0]:
            nearest[env] = agent

    return racy, clean


@pytest.mark.parametrize(("racy", "clean", "array", "blocks", "threads", "arguments"), CASES)
def test_a_published_race_is_found_and_its_clean_twin_is_not(racy, clean, array, blocks, threads, arguments):
    races = wd.check_launch(racy, blocks, threads, *arguments).races
    assert {line for race in races for line in race.lines} == marked_lines(racy, "race")
    assert array in {race.array for race in races}
    for race in races:
        assert len(race.threads) == len(race.blocks) == len(race.lines) == 2
        assert race.threads != race.threads[::-1] or race.blocks != race.blocks[::-1]
        assert race.advice and all(race.sources)
    report = wd.check_launch(clean, blocks, threads, *arguments)
    assert not report.races, str(report)
    assert not report.bounds + report.uninitialised + report.divergence + report.notes


def test_a_barrier_of_one_thread_s_branch_is_divergence():
    """The planner of the epidemic's economy waits for the states at a barrier that only it comes to."""

    @wd.kernel
    def racy(subsidy, total):
        env, agent = cuda.blockIdx.x, cuda.threadIdx.x
        if agent < cuda.blockDim.x - 1:
            subsidy[env, agent] = agent
        else:
            cuda.syncthreads()  # here
            total[env] = subsidy[env, 0]

    (finding,) = wd.check_launch(racy, E, A, zeros(E, A), zeros(E)).divergence
    assert finding.threads == (3, 0)
    assert set(finding.lines) == marked_lines(racy)


def test_a_race_that_only_some_data_has_is_found_with_that_data():
    @wd.kernel
    def tagged(nearest, rewards):
        rewards[nearest[cuda.threadIdx.x]] += np.float32(1)

    assert not wd.check_launch(tagged, 1, 4, np.arange(4, dtype=np.int32), zeros(4)).races
    assert wd.check_launch(tagged, 1, 4, np.array([0, 1, 2, 1], np.int32), zeros(4)).races
