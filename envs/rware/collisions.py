"""Collisions of robots: the moves that the graph of the package ``rware`` commits, without a graph.

Cells are nodes, and each robot is an edge from its cell to its target cell, a loop if it stays. Cells have one robot at
most, so the robots ahead of a robot form a chain. It ends

- at an empty cell: of the tree of robots that lead there, those on its longest path move;
- at a robot that stays, or in two robots that want to swap cells: no robot in the chain moves;
- in a cycle of three robots or more: those on the cycle move.

Among longest paths of the same length, NetworkX takes the one whose edge comes first in its copy of the component. That
is the order in which nodes were added to the graph, but the order in which Python iterates over the set of the
component's nodes, if these are fewer than half of all nodes. :func:`comes_first` follows both.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import cuda

import warpdrive as wd

NOBODY = -1
SMALLEST_TABLE = 8
"""Slots of the hash table of an empty set in CPython."""
PERTURB_BITS = np.uint64(5)
LINEAR_PROBES = 9


def cell_hashes(rows: int, columns: int) -> npt.NDArray[np.uint64]:
    """Return Python's hash of the tuple (x, y) of each cell, row by row, as ``[rows * columns]`` uint64."""
    hashes = [hash((x, y)) for y in range(rows) for x in range(columns)]
    return np.array(hashes, np.int64).view(np.uint64)


def slots_of_set(number: int) -> int:
    """Return the number of slots that the hash table of a set of up to ``number`` elements has in CPython."""
    slots = SMALLEST_TABLE
    for filled in range(1, number + 1):
        while 5 * filled >= 3 * (slots - 1) and slots <= 4 * filled:
            slots *= 2
    return slots


@wd.device_function
def insert(table, slots, node, code):
    """Insert a node into the hash table of a set: the probing of ``set_add_entry`` in CPython's ``setobject.c``.

    Args:
        table: ``[slots]`` int32, nodes or -1 for free slots, written.
        slots: The number of slots, a power of two.
        node: The node.
        code: The hash of the node, uint64.
    """
    perturb = code
    slot = np.int32(code & np.uint64(slots - 1))
    searching = True
    while searching:
        for probe in range(LINEAR_PROBES + 1):
            if searching and (probe == 0 or slot + LINEAR_PROBES <= slots - 1) and table[slot + probe] < 0:
                table[slot + probe] = node
                searching = False
        perturb = perturb >> PERTURB_BITS
        slot = np.int32((np.uint64(5 * slot + 1) + perturb) & np.uint64(slots - 1))


@wd.device_function
def gather(order, table, slots):
    """Write the nodes of the hash table into ``order``, by slots, and return their number."""
    count = 0
    for slot in range(slots):
        if table[slot] >= 0:
            order[count] = table[slot]
            count += 1
    return count


@wd.device_function
def iterate_over_set(order, spare, table, count, codes):
    """Sort nodes from the order in which they were added to a set into that in which Python iterates over it.

    Args:
        order: ``[count or more]`` int32, nodes, written.
        spare: An array like ``order``, written.
        table: ``[slots_of_set(count) or more]`` int32, written.
        count: The number of nodes.
        codes: ``[nodes]`` uint64, the hash of each node.
    """
    slots = SMALLEST_TABLE
    for slot in range(slots):
        table[slot] = NOBODY
    for i in range(count):
        insert(table, slots, order[i], codes[order[i]])
        if 5 * (i + 1) >= 3 * (slots - 1):
            gather(spare, table, slots)
            while slots <= 4 * (i + 1):
                slots *= 2
            for slot in range(slots):
                table[slot] = NOBODY
            for j in range(i + 1):
                insert(table, slots, spare[j], codes[spare[j]])
    gather(order, table, slots)


@wd.device_function
def added_at(node, here, there, sink, num_agents):
    """Return the rank at which a node is added to the graph: by its robot or by one that wants the cell.

    Args:
        node: A robot, for its cell; ``num_agents`` for the cell ``sink``.
        here: ``[num_agents]`` int32, the cells of robots.
        there: ``[num_agents]`` int32, the cells that they want.
        sink: The empty cell at the end of a chain.
        num_agents: The number of robots.

    Returns:
        An int32; edges are added robot by robot, the cell of each before the one that it wants.
    """
    rank = 2 * node
    cell = here[node] if node < num_agents else sink
    for other in range(num_agents):
        if there[other] == cell:
            rank = min(rank, 2 * other + 1)
    return rank


@wd.device_function
def comes_first(agent, here, there, ahead, behind, sinks, cell_hash, num_agents, num_slots):
    """Return True if an edge precedes those of all robots with the same target cell and as many robots behind them.

    Args:
        agent: The robot, whose chain ends at an empty cell.
        here: ``[num_agents]`` int32, the cells of robots.
        there: ``[num_agents]`` int32, the cells that they want.
        ahead: ``[num_agents]`` int32, the robots there, or -1.
        behind: ``[num_agents]`` int32, the length of the longest chain behind each robot.
        sinks: ``[num_agents]`` int32, the empty cells at which chains end, or -1.
        cell_hash: ``[cells]`` uint64, see :func:`cell_hashes`.
        num_agents: The number of robots.
        num_slots: ``slots_of_set(num_agents + 1)``.

    Returns:
        A bool.
    """
    order = cuda.local.array(num_agents + 1, np.int32)
    spare = cuda.local.array(num_agents + 1, np.int32)
    seen = cuda.local.array(num_agents + 1, np.bool_)
    codes = cuda.local.array(num_agents + 1, np.uint64)
    table = cuda.local.array(num_slots, np.int32)
    sink = sinks[agent]
    in_component, in_graph = 1, num_agents
    for other in range(num_agents):
        in_component += 1 if sinks[other] == sink else 0
        # robots whose next cell is empty: one for each empty cell
        leads = ahead[other] < 0
        for earlier in range(other):
            leads = leads and there[earlier] != there[other]
        in_graph += 1 if leads else 0

    first = agent
    if 2 * in_component >= in_graph:
        rank = added_at(agent, here, there, sink, num_agents)
        for other in range(num_agents):
            is_tied = there[other] == there[agent] and behind[other] == behind[agent]
            if is_tied and added_at(other, here, there, sink, num_agents) < rank:
                first = other
    else:
        start, rank = num_agents, added_at(num_agents, here, there, sink, num_agents)
        for node in range(num_agents):
            seen[node] = False
            codes[node] = cell_hash[here[node]]
            if sinks[node] == sink:
                own = added_at(node, here, there, sink, num_agents)
                if own < rank:
                    start, rank = node, own
        seen[num_agents] = False
        codes[num_agents] = cell_hash[sink]

        # the component's nodes are added to a set by a breadth-first search, then to a second set
        order[0] = start
        seen[start] = True
        count = 1
        for i in range(in_component):
            node = order[i]
            cell = sink
            if node < num_agents:
                cell = here[node]
                after = ahead[node] if ahead[node] >= 0 else num_agents
                if not seen[after]:
                    order[count] = after
                    seen[after] = True
                    count += 1
            for other in range(num_agents):
                if there[other] == cell and not seen[other]:
                    order[count] = other
                    seen[other] = True
                    count += 1
        iterate_over_set(order, spare, table, in_component, codes)
        iterate_over_set(order, spare, table, in_component, codes)
        found = False
        for i in range(in_component):
            node = order[i]
            if not found and node < num_agents and there[node] == there[agent] and behind[node] == behind[agent]:
                first = node
                found = True
    return first == agent
