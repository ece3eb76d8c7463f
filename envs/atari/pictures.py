"""Pictures of the screen as agents observe them: grey levels averaged over areas, or RGB; and stacks of pictures."""

from __future__ import annotations

import numpy as np
from numba import cuda

import warpdrive as wd
from warpdrive.envs.atari.machine import WIDTH


@wd.device_function
def put_grey(target, screen, latest, both, levels, height, size):
    """Write a picture of grey levels, averaged over the area of each pixel.

    A pixel is the mean of what it covers, in integers; OpenCV's ``INTER_AREA`` differs by one grey level at most.

    Args:
        target: uint8 ``[size, size]``, written.
        screen: Colours of two frames, uint8 ``[2, height, 160]``.
        latest: Index of the later frame.
        both: If True, the brighter pixels of both frames are taken.
        levels: Grey level of each colour, uint8 ``[256]``.
        height: Number of lines.
        size: Height and width of the picture, at most 160.
    """
    sums, lights = cuda.local.array(WIDTH, np.int32), cuda.local.array(WIDTH, np.int32)
    other = 1 - latest if both else latest
    for x in range(WIDTH):
        sums[x] = lights[x] = 0
    # lengths are in parts of a line and of a column, of which there are ``size``
    row, free, weight = 0, height, 0
    alike = 0  # number of lines since the last one that differs from the line above
    for line in range(height):
        alike += 1
        if line == 0 or not (_is_as_above(screen, latest, line) and _is_as_above(screen, other, line)):
            alike = 0
            for x in range(WIDTH):
                sums[x] += weight * lights[x]
                lights[x] = max(levels[screen[latest, line, x]], levels[screen[other, line, x]])
            weight = 0
        part = min(size, free)
        weight += part
        free -= part
        if free == 0:
            if row > 0 and alike * size > 2 * height + size:  # both rows consist of such lines
                for column in range(size):
                    target[row, column] = target[row - 1, column]
            else:
                for x in range(WIDTH):
                    sums[x] += weight * lights[x]
                _put_row(target, row, sums, height, size)
            for x in range(WIDTH):
                sums[x] = 0
            row, free, weight = row + 1, height - (size - part), size - part


@wd.device_function
def _is_as_above(screen, frame, line):
    """Return True if a line of the screen is as the one above."""
    different = False
    for x in range(WIDTH):
        different |= screen[frame, line, x] != screen[frame, line - 1, x]
    return not different


@wd.device_function
def _put_row(target, row, sums, height, size):
    """Write the means of the columns of a row, rounded.

    Divides by multiplying with the reciprocal, in units of 2**-40. That is exact, as the number of pixels is below
    2**16.
    """
    pixels = height * WIDTH
    reciprocal = (1 << 40) // pixels + 1
    x, part = 0, 0  # the column begins after ``part`` parts of pixel x
    for column in range(size):
        total = pixels // 2 - part * sums[x]
        part += WIDTH
        while part >= size:
            total += size * sums[x]
            part -= size
            x += 1
        if part > 0:
            total += part * sums[x]
        target[row, column] = total * reciprocal >> 40


@wd.device_function
def put_colours(target, screen, latest, both, palette, height):
    """Write a picture in RGB, uint8 ``[3, height, 160]``; see :func:`put_grey` for the arguments."""
    other = 1 - latest if both else latest
    for line in range(height):
        for x in range(WIDTH):
            one, two = screen[latest, line, x], screen[other, line, x]
            for channel in range(3):
                target[channel, line, x] = max(palette[one, channel], palette[two, channel])


@wd.device_function
def drop_oldest(stack, planes):
    """Move the pictures of a stack, uint8 ``[pictures * planes, height, width]``, over the oldest one."""
    for plane in range(stack.shape[0] - planes):
        _copy(stack, plane + planes, plane)


@wd.device_function
def repeat_newest(stack, planes):
    """Copy the newest picture of a stack, uint8 ``[pictures * planes, height, width]``, over the others."""
    others = stack.shape[0] - planes
    for plane in range(others):
        _copy(stack, others + plane % planes, plane)


@wd.device_function
def _copy(stack, source, target):
    for y in range(stack.shape[1]):
        for x in range(stack.shape[2]):
            stack[target, y, x] = stack[source, y, x]
