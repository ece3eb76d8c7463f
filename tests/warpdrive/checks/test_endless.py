"""Checks of endless kernels: they end within a number of steps, and report the locations of the threads."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from gymnasium import spaces
from numba import cuda

import warpdrive as wd
from warpdrive.checks.complete import check_environment


def waits_there_and_back(flag, out):
    if cuda.threadIdx.x == 0:
        while flag[0] == 0:
            pass
        flag[1] = 1
    else:
        while flag[1] == 0:
            pass
        flag[0] = 1
    cuda.syncthreads()
    out[cuda.threadIdx.x] = 1


def runs_on(flag, out):
    cuda.syncthreads()
    if cuda.threadIdx.x == 1:
        while True:
            pass


def turn(flag):
    while flag[0] < 1:
        flag[0] *= 2


def runs_on_in_a_function(flag, out):
    if cuda.threadIdx.x == 1:
        turn(flag)
    cuda.syncthreads()


def goes_round_a_barrier(flag, out):
    while flag[0] == 0:
        out[cuda.threadIdx.x] += 1
        cuda.syncthreads()


def line_of(function, text):
    lines, first = inspect.getsourcelines(function)
    return first + next(place for place, line in enumerate(lines) if text in line)


def finding_line(finding):
    file, _, line = finding.lines[0].rpartition(":")
    assert file == __file__
    return int(line)


READ = "and read 'flag[0]' last, which is 0"
STANDS = {
    waits_there_and_back: (waits_there_and_back, "while flag[0]", ["thread 0 of block 0", READ, "3 not started"]),
    runs_on: (runs_on, "while True", ["thread 1 of block 0", "threads 2, 3 at the barrier", "1 ended"]),
    runs_on_in_a_function: (turn, "flag[0] *= 2", ["thread 1 of", READ, "thread 0 at the barrier", "2 not started"]),
    goes_round_a_barrier: (goes_round_a_barrier, "out[", ["thread 0 of", "threads 1, 2, 3 at the barrier"]),
}
"""By kernel: the function and line of its endless loop, and the description of the threads."""


@pytest.mark.parametrize("function", STANDS, ids=lambda function: function.__name__)
def test_where_threads_stand(function):
    owner, text, told = STANDS[function]
    report = wd.check_launch(function, 2, 4, np.zeros(2, np.int32), np.zeros(4, np.int32), max_steps=1000)
    (finding,) = report.endless
    assert "does not end within 1,000 steps" in finding.message
    assert abs(finding_line(finding) - line_of(owner, text)) <= 1  # a turn has two lines
    assert [words for words in told if words not in finding.message] == [], finding.message


def test_the_steps_of_a_block_are_bounded_too():
    report = wd.check_launch(goes_round_a_barrier, 1, 64, np.zeros(2, np.int32), np.zeros(64, np.int32), max_steps=1000)
    assert "do not end within 10,000 steps together" in report.endless[0].message


def test_a_long_loop_is_no_endless_one():
    def long(flag, out):
        for k in range(900):
            out[0] = k

    assert wd.check_launch(long, 1, 1, np.zeros(1, np.int32), np.zeros(1, np.int32), max_steps=2000).clean


@wd.kernel
def step(level, actions, rewards):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    level[env, agent] += actions[env, agent]
    rewards[env, agent] = level[env, agent]


@wd.kernel
def observe(level, observations):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    observations[env, agent, 0] = level[env, agent]
    while level[env, agent] >= 0:
        level[env, agent] += 1 - level[env, agent] // 1000 * 1000


class Stuck(wd.Environment):
    name = "stuck"
    step, observe = step, observe

    def __init__(self):
        self.num_agents, self.episode_length = 2, 5
        self.policy_tags = {"all": range(2)}
        self.observation_space = spaces.Box(-1000, 1000, (1,), np.float32)
        self.action_space = spaces.Discrete(2)

    def initial_state(self, rng):
        return {"level": np.zeros(2, np.int32)}


def test_an_environment_that_does_not_end_is_not_played():
    report = check_environment(Stuck(), max_steps=2000)
    (finding,) = report.endless
    assert "while level[env, agent] >= 0:" in finding.sources or "level[env, agent] += 1" in str(finding.sources)
    assert report.notes == ["its steps were not run, as its kernels do not end"]
