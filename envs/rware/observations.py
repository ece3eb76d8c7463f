"""Kernels of the four observation types, and tables of observations by the value of a cell."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import cuda

import warpdrive as wd
from warpdrive.envs.rware.cells import GOAL, LOADED, OUTSIDE, REQUESTED, ROBOT, ROBOT_BIT, ROBOTS, SHELVES

ZERO, ONE = np.float32(0), np.float32(1)
IMAGE_LAYERS = ("shelves", "requests", "agents", "agent_direction", "agent_load", "goals", "accessible")
SEEN = 7
"""Numbers of a flattened observation for each cell in sight, without messages."""


@wd.device_function
def see_cells(
    # out
    observations,
    # indices
    env, agent,
    # state
    loc_y, loc_x, heading, carried, cells,
    # constants
    width, msg_bits, highways, scale_y, scale_x, seen,
):  # fmt: skip
    """Write the robot itself, then robot and shelf of each cell in sight, without messages."""
    y, x = loc_y[env, agent], loc_x[env, agent]
    observations[env, agent, 0] = scale_x[x]
    observations[env, agent, 1] = scale_y[y]
    observations[env, agent, 2] = ONE if carried[env, agent] >= 0 else ZERO
    for direction in range(4):
        observations[env, agent, 3 + direction] = ONE if heading[env, agent] == direction else ZERO
    observations[env, agent, 7] = ONE if highways[y, x] else ZERO
    for row in range(width):
        for column in range(width):
            place = 8 + (row * width + column) * (SEEN + msg_bits)
            cell = np.int32(cells[env, y + row, x + column])
            for i in range(5):
                observations[env, agent, place + i] = seen[cell, i]
            for i in range(5, SEEN):
                observations[env, agent, place + msg_bits + i] = seen[cell, i]


@wd.kernel
def observe_flattened(
    # state
    loc_y, loc_x, heading, carried, cells,
    # constants
    width, highways, scale_y, scale_x, seen,
    # out
    observations,
):  # fmt: skip
    """Write the robot itself, then robot and shelf of each cell in sight."""
    see_cells(
        observations, cuda.blockIdx.x, cuda.threadIdx.x, loc_y, loc_x, heading, carried, cells, width, 0, highways,
        scale_y, scale_x, seen,
    )  # fmt: skip


@wd.kernel
def observe_flattened_with_messages(
    # state
    loc_y, loc_x, heading, carried, messages, cells,
    # constants
    num_agents, width, margin, msg_bits, highways, scale_y, scale_x, seen,
    # out
    observations,
):  # fmt: skip
    """Write the robot itself, then robot, its message and shelf of each cell in sight."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    see_cells(
        observations, env, agent, loc_y, loc_x, heading, carried, cells, width, msg_bits, highways, scale_y, scale_x,
        seen,
    )  # fmt: skip
    for i in range(width * width):
        for bit in range(msg_bits):
            observations[env, agent, 8 + i * (SEEN + msg_bits) + 5 + bit] = ZERO
    for other in range(num_agents):
        row = loc_y[env, other] - loc_y[env, agent] + margin
        column = loc_x[env, other] - loc_x[env, agent] + margin
        if 0 <= row < width and 0 <= column < width:
            for bit in range(msg_bits):
                place = 8 + (row * width + column) * (SEEN + msg_bits) + 5 + bit
                observations[env, agent, place] = np.float32(messages[env, other, bit])


@wd.device_function
def see_parts(
    # out
    location, carrying_shelf, direction, on_highway, has_agent, directions, has_shelf, shelf_requested,
    # indices
    env, agent,
    # state
    loc_y, loc_x, heading, carried, cells,
    # constants
    width, highways, scale_y, scale_x,
):  # fmt: skip
    """Write the arrays of a dictionary of observations, without messages."""
    y, x = loc_y[env, agent], loc_x[env, agent]
    location[env, agent, 0] = np.int32(scale_x[x])
    location[env, agent, 1] = np.int32(scale_y[y])
    carrying_shelf[env, agent, 0] = 1 if carried[env, agent] >= 0 else 0
    direction[env, agent] = heading[env, agent]
    on_highway[env, agent, 0] = 1 if highways[y, x] else 0
    for row in range(width):
        for column in range(width):
            i = row * width + column
            cell = np.int32(cells[env, y + row, x + column])
            robot = cell >> ROBOT_BIT & ROBOTS
            has_agent[env, agent, i] = 1 if robot > 0 else 0
            directions[env, agent, i] = (robot - ROBOT) & 3 if robot > 0 else 0
            has_shelf[env, agent, i] = 1 if (cell & SHELVES) > 0 else 0
            shelf_requested[env, agent, i] = 1 if (cell & SHELVES) == REQUESTED else 0


@wd.kernel
def observe_dict(
    # state
    loc_y, loc_x, heading, carried, cells,
    # constants
    width, highways, scale_y, scale_x,
    # out
    observations_location, observations_carrying_shelf, observations_direction, observations_on_highway,
    observations_sensors_has_agent, observations_sensors_direction, observations_sensors_has_shelf,
    observations_sensors_shelf_requested,
):  # fmt: skip
    """Write the arrays of a dictionary of observations."""
    see_parts(
        observations_location, observations_carrying_shelf, observations_direction, observations_on_highway,
        observations_sensors_has_agent, observations_sensors_direction, observations_sensors_has_shelf,
        observations_sensors_shelf_requested, cuda.blockIdx.x, cuda.threadIdx.x, loc_y, loc_x, heading, carried, cells,
        width, highways, scale_y, scale_x,
    )  # fmt: skip


@wd.kernel
def observe_dict_with_messages(
    # state
    loc_y, loc_x, heading, carried, messages, cells,
    # constants
    num_agents, width, margin, msg_bits, highways, scale_y, scale_x,
    # out
    observations_location, observations_carrying_shelf, observations_direction, observations_on_highway,
    observations_sensors_has_agent, observations_sensors_direction, observations_sensors_local_message,
    observations_sensors_has_shelf, observations_sensors_shelf_requested,
):  # fmt: skip
    """Write the arrays of a dictionary of observations."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    see_parts(
        observations_location, observations_carrying_shelf, observations_direction, observations_on_highway,
        observations_sensors_has_agent, observations_sensors_direction, observations_sensors_has_shelf,
        observations_sensors_shelf_requested, env, agent, loc_y, loc_x, heading, carried, cells, width, highways,
        scale_y, scale_x,
    )  # fmt: skip
    for i in range(width * width):
        for bit in range(msg_bits):
            observations_sensors_local_message[env, agent, i, bit] = 0
    for other in range(num_agents):
        row = loc_y[env, other] - loc_y[env, agent] + margin
        column = loc_x[env, other] - loc_x[env, agent] + margin
        if 0 <= row < width and 0 <= column < width:
            for bit in range(msg_bits):
                observations_sensors_local_message[env, agent, row * width + column, bit] = messages[env, other, bit]


@wd.device_function
def see_image(
    # out
    image,
    # indices
    env, agent,
    # state
    loc_y, loc_x, heading, cells,
    # constants
    rows, columns, margin, width, directional, num_layers, is_transposed, layer_values,
):  # fmt: skip
    """Write the layers of the cells in sight; if they are directional, cells ahead of the robot are in row 0."""
    y, x = loc_y[env, agent], loc_x[env, agent]
    facing = heading[env, agent] if directional else 0
    for row in range(width):
        for column in range(width):
            from_row = row if facing == 0 else (width - 1 - row if facing == 1 else column)
            from_column = column if facing == 0 else (width - 1 - column if facing == 1 else row)
            if facing == 2:
                from_row = width - 1 - column
            if facing == 3:
                from_column = width - 1 - row
            there_y, there_x = y + from_row, x + from_column
            cell = np.int32(cells[env, there_y, there_x])
            # layers that the original fills with x for the row and y for the column
            is_inside = 0 <= there_x - margin < rows and 0 <= there_y - margin < columns and cell < OUTSIDE
            mirrored = OUTSIDE
            if is_inside:
                mirrored = np.int32(cells[env, there_x, there_y])
            for layer in range(num_layers):
                source = mirrored if is_transposed[layer] else cell
                image[env, agent, layer, row, column] = layer_values[layer, source]


@wd.kernel
def observe_image(
    # state
    loc_y, loc_x, heading, cells,
    # constants
    rows, columns, margin, width, directional, num_layers, is_transposed, layer_values,
    # out
    observations,
):  # fmt: skip
    """Write the layers of the cells in sight."""
    see_image(
        observations, cuda.blockIdx.x, cuda.threadIdx.x, loc_y, loc_x, heading, cells, rows, columns, margin, width,
        directional, num_layers, is_transposed, layer_values,
    )  # fmt: skip


@wd.kernel
def observe_image_dict(
    # state
    loc_y, loc_x, heading, carried, cells,
    # constants
    rows, columns, margin, width, directional, num_layers, is_transposed, layer_values, highways,
    # out
    observations_image, observations_features,
):  # fmt: skip
    """Write the layers of the cells in sight, and the robot itself."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    see_image(
        observations_image, env, agent, loc_y, loc_x, heading, cells, rows, columns, margin, width, directional,
        num_layers, is_transposed, layer_values,
    )  # fmt: skip
    for direction in range(4):
        observations_features[env, agent, direction] = ONE if heading[env, agent] == direction else ZERO
    observations_features[env, agent, 4] = ONE if highways[loc_y[env, agent], loc_x[env, agent]] else ZERO
    observations_features[env, agent, 5] = ONE if carried[env, agent] >= 0 else ZERO


def _codes() -> tuple[npt.NDArray[Any], ...]:
    """Return for each value of a cell its bits of shelves and of robots, each ``[256]``."""
    code = np.arange(256)
    return code & SHELVES, code >> ROBOT_BIT & ROBOTS, code


def seen_of_cells() -> npt.NDArray[np.float32]:
    """Return the numbers of a flattened observation for each value of a cell, ``[256, SEEN]`` float32."""
    shelf, robot, code = _codes()
    seen = np.zeros((256, SEEN), np.float32)
    seen[:, 0] = robot > 0
    seen[code, 1 + np.where(robot > 0, (robot - ROBOT) % 4, 0)] = 1
    seen[:, 5], seen[:, 6] = shelf > 0, shelf == REQUESTED
    return seen


def values_of_layers() -> npt.NDArray[np.float32]:
    """Return the value of each layer for each value of a cell, ``[len(IMAGE_LAYERS), 256]`` float32."""
    shelf, robot, code = _codes()
    values = {
        "shelves": shelf > 0,
        "requests": shelf == REQUESTED,
        "agents": robot > 0,
        "agent_direction": np.where(robot > 0, (robot - ROBOT) % 4 + 1, 0),
        "agent_load": robot >= LOADED,
        "goals": code & GOAL > 0,
        "accessible": (robot == 0) & (code & OUTSIDE == 0),
    }
    return np.array([values[name] for name in IMAGE_LAYERS], np.float32)
