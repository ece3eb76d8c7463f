"""How the processes of a run meet at a store whose address the environment variables say."""

from __future__ import annotations

import atexit
import json
import os
import socket
import struct
import sys
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, TCPStore

from warpdrive.backends.cpu.workers import get_num_threads, set_num_threads
from warpdrive.errors import TeamError
from warpdrive.training.distributed.processes import Processes
from warpdrive.training.distributed.rank_output import mark_output
from warpdrive.training.distributed.watch import Watch

_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
_AGENT_STORE = "TORCHELASTIC_USE_AGENT_STORE"
_SHORTEST_ARRIVAL, _LONGEST_ARRIVAL = 60.0, 300.0  # seconds: processes of one job may start some time apart
_ONE_TRY, _BETWEEN_TRIES = 5.0, 0.2  # seconds
_PREFIX = "warpdrive"


def meet(variables: Mapping[str, str], timeout: float) -> Processes:
    """Meet the others. See ``meeting.join``."""
    missing = [name for name in _VARIABLES if not variables.get(name)]
    if missing:
        raise TeamError(
            f"WORLD_SIZE is {variables['WORLD_SIZE']}, but {', '.join(missing)} not set: start processes with "
            "`warpdrive train -n N`, with torchrun, or with all of these variables set"
        )
    rank, size = int(variables["RANK"]), int(variables["WORLD_SIZE"])
    _share_cores(variables)
    address, port = variables["MASTER_ADDR"], int(variables["MASTER_PORT"])
    mark_output(rank)
    patience = min(max(timeout, _SHORTEST_ARRIVAL), _LONGEST_ARRIVAL)

    def connect(seconds: float, serve: bool = False) -> TCPStore:
        return TCPStore(address, port, is_master=serve, timeout=timedelta(seconds=seconds), wait_for_workers=False)

    serves = rank == 0 and variables.get(_AGENT_STORE) != "True"
    if not serves:
        _reach(address, port, rank, patience)
    try:
        store = connect(patience, serves)
    except RuntimeError as error:
        advice = "is the port free?" if serves else "is that rank 0, and does the network let this through?"
        raise TeamError(f"rank {rank}: cannot meet at {address}:{port}: {advice}") from error
    own = _own_address(address, port)
    session, addresses = _roll_call(store, rank, size, own, patience)
    if own.startswith("127."):  # the name of this machine may mean so here, and another address elsewhere
        others = [other for other in addresses if not other.startswith("127.")]
        own = _own_address(others[0], port) if others else own
    _choose_interface(own)
    watch = Watch(connect, f"{address}:{port}", f"{_PREFIX}/{session}/watch", rank, size, patience)
    watch.start()
    both = torch.cuda.is_available()
    with watch.meeting():
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if both else "gloo",
            store=PrefixStore(f"{_PREFIX}/{session}/group", store),
            rank=rank,
            world_size=size,
            timeout=timedelta(seconds=timeout + _LONGEST_ARRIVAL),  # the watch comes before
        )
    watch.timeout = timeout
    team = Processes(rank, size, watch, store)
    atexit.register(team.leave)
    _tell_failures(team)
    return team


def _reach(address: str, port: int, rank: int, patience: float) -> None:
    """Wait until somebody listens where all meet; raise ``TeamError`` if nobody does."""
    until = time.monotonic() + patience
    while True:
        try:
            socket.create_connection((address, port), timeout=_ONE_TRY).close()
            return
        except OSError as error:
            if time.monotonic() > until:
                raise TeamError(
                    f"rank {rank}: nobody can be reached at {address}:{port}{_where(address)} within {patience:.0f} "
                    f"seconds ({error}). MASTER_ADDR and MASTER_PORT must be those of rank 0's machine, in a network "
                    "that leads there, and rank 0 must run; where machines do not know each other's names, give "
                    "torchrun --local-addr <its address> on each"
                ) from error
        time.sleep(_BETWEEN_TRIES)


def _where(address: str) -> str:
    """What a name stands for, where it is another thing."""
    with suppress(OSError):
        found = socket.gethostbyname(address)
        if found != address:
            return f" ({address} is {found} here" + (", this machine itself)" if found.startswith("127.") else ")")
    return ""


def _roll_call(store: TCPStore, rank: int, size: int, address: str, patience: float) -> tuple[str, list[str]]:
    """Wait until everyone is there; return a name for this meeting, and everybody's address.

    A store that outlives processes that are restarted still has what they wrote. So everybody brings a word of their
    own, and process 0 confirms it.
    """
    word, until = uuid.uuid4().hex, time.monotonic() + patience
    here = json.dumps([word, address])
    if rank == 0:
        session = word
        store.set(f"{_PREFIX}/session", session)
    while True:
        if rank:
            session = _read(store, f"{_PREFIX}/session") or ""
        store.set(f"{_PREFIX}/{session}/{rank}", here)
        known = [_read(store, f"{_PREFIX}/{session}/{other}") for other in range(size)]
        if rank == 0 and all(known):
            store.set(f"{_PREFIX}/{session}/complete", json.dumps(known))
        complete = _read(store, f"{_PREFIX}/{session}/complete")
        if complete and here in json.loads(complete):
            return session, [json.loads(sign)[1] for sign in json.loads(complete)]
        if time.monotonic() > until:
            absent = [str(other) for other, sign in enumerate(known) if sign is None]
            who = f"rank{'s' * (len(absent) > 1)} {', '.join(absent)}" if absent else "rank 0"
            raise TeamError(
                f"rank {rank}: {who} of {size} did not arrive within {patience:.0f} seconds; every machine must be "
                "started with the same MASTER_ADDR, MASTER_PORT and number of processes"
            )
        time.sleep(0.05)


def _read(store: TCPStore, key: str) -> str | None:
    return store.get(key).decode() if store.check([key]) else None


def _share_cores(variables: Mapping[str, str]) -> None:
    """Let the processes of a machine share its cores: with more threads than cores, they would wait for each other."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    own = max(1, cores // int(variables.get("LOCAL_WORLD_SIZE") or 1))
    if not variables.get("NUMBA_NUM_THREADS"):
        set_num_threads(min(own, get_num_threads()))
    if not variables.get("OMP_NUM_THREADS"):
        torch.set_num_threads(min(own, torch.get_num_threads()))


def _own_address(address: str, port: int) -> str:
    """This machine's address of IPv4 in the network that leads to ``address``; "" if there is none."""
    with suppress(OSError):
        family, kind, _, _, where = socket.getaddrinfo(address, port, socket.AF_INET, socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(where)  # sends nothing
            return str(probe.getsockname()[0])
    return ""


def _choose_interface(own: str) -> None:
    """Let gloo and nccl use the network in which this machine has an address: its name may lead nowhere."""
    if not sys.platform.startswith("linux"):
        return
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with suppress(OSError):
                asked = struct.pack("256s", name.encode()[:15])
                if socket.inet_ntoa(fcntl.ioctl(probe.fileno(), 0x8915, asked)[20:24]) == own:  # SIOCGIFADDR
                    os.environ.setdefault("GLOO_SOCKET_IFNAME", name)
                    if not own.startswith("127."):
                        os.environ.setdefault("NCCL_SOCKET_IFNAME", f"={name}")  # and none that begins like it
                    return


def _tell_failures(team: Processes) -> None:
    """Let the others know the exception that ends this process."""
    former = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: object) -> None:
        team.watch.fail(f"{kind.__name__}: {error}")
        former(kind, error, trace)  # type: ignore[arg-type]

    sys.excepthook = hook
