"""Rendezvous of the processes of a run: in a private folder of one machine, or at a store in a trusted network."""

from __future__ import annotations

import atexit
import hashlib
import hmac
import json
import os
import socket
import struct
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import FileStore, PrefixStore, Store as TorchStore, TCPStore

from warpdrive.backends.host.workers import get_num_threads, set_num_threads
from warpdrive.backends.system_info import usable_cores
from warpdrive.errors import TeamError, shown
from warpdrive.training.distributed.folder_store import FolderStore, Store
from warpdrive.training.distributed.heartbeat import Heartbeat
from warpdrive.training.distributed.rank_output import mark_output
from warpdrive.training.distributed.shared_sums import SharedSums
from warpdrive.training.distributed.torch_process_group import TorchProcessGroup

FOLDER = "WARPDRIVE_MEETING"
"""Environment variable with the rendezvous folder of the processes of one machine."""
SECRET = "secret"
"""File in that folder with the shared secret of the processes."""
TEAM_SECRET = "WARPDRIVE_TEAM_SECRET"
"""Environment variable with the shared secret of processes that meet over a network."""

_ANYWHERE = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
_IN_A_NETWORK = (*_ANYWHERE, "MASTER_ADDR", "MASTER_PORT")
_LOOPBACK = "127.0.0.1"
_AGENT_STORE = "TORCHELASTIC_USE_AGENT_STORE"
_SHORTEST_ARRIVAL, _LONGEST_ARRIVAL = 60.0, 300.0  # seconds: processes of one job may start some time apart
_ONE_TRY, _BETWEEN_TRIES = 5.0, 0.2  # seconds
_PREFIX = "warpdrive"
_OUTSIDE, _ANY_PORT = "192.0.2.1", 9
"""Unassigned address (RFC 5737) that determines the outgoing network interface; nothing is sent there."""


@dataclass(frozen=True)
class _Place:
    """Rendezvous point of processes.

    Attributes:
        name: Description for messages.
        store: Rendezvous store.
        connect: Opens a connection to the store; takes the read timeout in seconds.
        group: Creates the store of the ``torch.distributed`` process group; takes the name of the rendezvous.
        own_address: Address of this machine for the other processes; "" if unknown.
        secret: Shared secret that authenticates the processes; "" if there is none.
    """

    name: str
    store: Store
    connect: Callable[[float], Store]
    group: Callable[[str], TorchStore]
    own_address: str
    secret: str


def perform_rendezvous(
    variables: Mapping[str, str], rank: int, size: int, local_size: int, timeout: float
) -> TorchProcessGroup:
    """Perform the rendezvous with the other processes.

    Args:
        variables: Environment variables.
        rank: Rank of this process.
        size: Number of processes.
        local_size: Number of processes on this machine.
        timeout: Seconds to wait for a process that is alive, see ``bootstrap.join``.

    Raises:
        TeamError: If variables are missing or invalid, or processes have not arrived in time: reports which.
    """
    missing = [name for name in (_ANYWHERE if FOLDER in variables else _IN_A_NETWORK) if not variables.get(name)]
    if missing:
        raise TeamError(
            f"WORLD_SIZE is {variables['WORLD_SIZE']}, but {', '.join(missing)} not set: start processes with "
            "`warpdrive train -n N`, with torchrun, or with all of these variables set"
        )
    _share_cores(variables, local_size)
    mark_output(rank)
    patience = min(max(timeout, _SHORTEST_ARRIVAL), _LONGEST_ARRIVAL)
    place = (_in_a_folder if FOLDER in variables else _in_a_network)(variables, rank, size, patience)
    session, addresses = _await_all(place.store, rank, size, place.own_address, patience)
    if FOLDER in variables:
        _stay_within_this_machine()
    else:
        _choose_interface(place.own_address, addresses)
    heartbeat = Heartbeat(place.connect, place.name, f"{_PREFIX}/{session}/watch", rank, size, patience)
    heartbeat.start()
    atexit.register(heartbeat.end)  # also where the rendezvous fails from here on
    with heartbeat.in_collective():
        dist.init_process_group(
            backends(local_size),
            store=place.group(session),
            rank=rank,
            world_size=size,
            timeout=timedelta(seconds=timeout + _LONGEST_ARRIVAL),  # the watch detects failures earlier
        )
    heartbeat.timeout = timeout
    process_group = TorchProcessGroup(rank, size, heartbeat, place.store)
    atexit.register(process_group.leave)
    _check_peers(process_group, place.secret, session)
    if FOLDER in variables:
        process_group.shared = SharedSums.join(process_group)
    _tell_failures(process_group)
    return process_group


def backends(local_size: int) -> str:
    """Return the backends of ``torch.distributed`` for this many processes of a machine.

    On GPUs NCCL is used, unless processes share one, which NCCL refuses.
    """
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return f"cpu:gloo,cuda:{'nccl' if local_size <= gpus else 'gloo'}" if gpus else "gloo"


def _in_a_folder(variables: Mapping[str, str], rank: int, size: int, patience: float) -> _Place:
    folder = Path(variables[FOLDER])
    return _Place(
        str(folder),
        FolderStore(folder, patience),
        lambda seconds: FolderStore(folder, seconds),
        lambda session: FileStore(str(folder / f"group-{session}"), size),
        _LOOPBACK,
        (folder / SECRET).read_text(encoding="ascii"),
    )


def _in_a_network(variables: Mapping[str, str], rank: int, size: int, patience: float) -> _Place:
    address, port = variables["MASTER_ADDR"], _port(variables["MASTER_PORT"])

    def connect(seconds: float, listening: socket.socket | None = None) -> TCPStore:
        host = listening.getsockname()[0] if listening else address
        handle = listening.detach() if listening else None
        return TCPStore(
            host,
            port,
            is_master=handle is not None,
            timeout=timedelta(seconds=seconds),
            wait_for_workers=False,
            master_listen_fd=handle,
        )

    listening = None
    if rank == 0 and variables.get(_AGENT_STORE) != "True":
        listening = _listen(address, port, alone=variables.get("LOCAL_WORLD_SIZE") == variables["WORLD_SIZE"])
        address = listening.getsockname()[0]
    else:
        _reach(address, port, rank, patience)
    try:
        store = connect(patience, listening)
    except RuntimeError as error:
        advice = "check that it is the address of rank 0, and that no firewall blocks it"
        raise TeamError(f"rank {rank}: no rendezvous at {address}:{port}: {advice}") from error
    return _Place(
        f"{address}:{port}",
        store,
        connect,
        lambda session: PrefixStore(f"{_PREFIX}/{session}/group", store),
        _own_address(address, port),
        variables.get(TEAM_SECRET, ""),
    )


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise TeamError(f"MASTER_PORT: found {shown(text)}, expected a number from 1 to 65535")
    return int(text)


def _listen(address: str, port: int, alone: bool) -> socket.socket:
    """Return a socket that listens on ``address`` only.

    A machine may resolve its own name to a loopback address. If other machines are to connect, its address in the
    outgoing network is used instead.
    """
    try:
        found = socket.gethostbyname(address)
        if found.startswith("127.") and not alone and address != "localhost" and found != address:
            found = _own_address(_OUTSIDE, port) or found
        listening = socket.create_server((found, port), backlog=1024)
    except OSError as error:
        raise TeamError(
            f"rank 0: cannot listen at {address}:{port}{_where(address)}: {error.strerror or error}: MASTER_ADDR must "
            "be an address of this machine, and MASTER_PORT be free"
        ) from error
    return listening


def _check_peers(process_group: TorchProcessGroup, secret: str, session: str) -> None:
    """Check that the peers of this process know the secret of the run.

    gloo accepts the first connection. Data from a stranger would never be run as code, but would be trained on.

    Raises:
        TeamError: If a peer does not know the secret.
    """

    def proof(rank: int) -> str:
        return hmac.new(secret.encode(), f"{session} {rank}".encode(), hashlib.sha256).hexdigest()

    for rank, found in enumerate(process_group.all_gather_values(proof(process_group.rank))):
        if secret and not (isinstance(found, str) and hmac.compare_digest(found, proof(rank))):
            raise TeamError(
                f"rank {process_group.rank}: the peer connected as rank {rank} belongs to another run, or has another "
                f"{TEAM_SECRET}"
            )


def _reach(address: str, port: int, rank: int, patience: float) -> None:
    """Wait until the rendezvous address accepts connections.

    Args:
        address: Host name or address.
        port: Port.
        rank: Rank of this process.
        patience: Timeout in seconds.

    Raises:
        TeamError: If the address accepts no connection within the timeout.
    """
    until = time.monotonic() + patience
    while True:
        try:
            socket.create_connection((address, port), timeout=_ONE_TRY).close()
            return
        except OSError as error:
            if time.monotonic() > until:
                raise TeamError(
                    f"rank {rank}: cannot connect to {address}:{port}{_where(address)} within {patience:.0f} "
                    f"seconds ({error}). MASTER_ADDR and MASTER_PORT must be those of rank 0's machine, which must "
                    "be reachable, and rank 0 must be running; if machines cannot resolve each other's names, run "
                    "torchrun with --local-addr <its address> on each"
                ) from error
        time.sleep(_BETWEEN_TRIES)


def _where(address: str) -> str:
    """Return the resolved address of a name, if it differs."""
    with suppress(OSError):
        found = socket.gethostbyname(address)
        if found != address:
            return f" ({address} is {found} here" + (", this machine itself)" if found.startswith("127.") else ")")
    return ""


def _await_all(store: Store, rank: int, size: int, address: str, patience: float) -> tuple[str, list[str]]:
    """Wait until all processes have arrived; return a name for this rendezvous, and the addresses of all.

    A store that outlives restarted processes still has their old entries. Therefore each process writes a new token,
    which rank 0 confirms.

    Args:
        store: Rendezvous store.
        rank: Rank of this process.
        size: Number of processes.
        address: Address of this machine.
        patience: Timeout in seconds.
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


def _read(store: Store, key: str) -> str | None:
    return store.get(key).decode() if store.check([key]) else None


def _share_cores(variables: Mapping[str, str], local_size: int) -> None:
    """Divide the cores of a machine among its processes: more threads than cores would wait for each other."""
    own = max(1, usable_cores() // local_size)
    if not variables.get("NUMBA_NUM_THREADS"):
        set_num_threads(min(own, get_num_threads()))
    if not variables.get("OMP_NUM_THREADS"):
        torch.set_num_threads(min(own, torch.get_num_threads()))


def _own_address(address: str, port: int) -> str:
    """Return this machine's IPv4 address in the network that leads to ``address``; "" if there is none."""
    with suppress(OSError):
        family, kind, _, _, where = socket.getaddrinfo(address, port, socket.AF_INET, socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(where)  # sends nothing
            return str(probe.getsockname()[0])
    return ""


def _stay_within_this_machine() -> None:
    """Restrict gloo and nccl to the loopback interface, whatever the environment variables say."""
    name = "lo0" if sys.platform == "darwin" else _interface_of(_LOOPBACK)
    if name:
        os.environ["GLOO_SOCKET_IFNAME"], os.environ["NCCL_SOCKET_IFNAME"] = name, f"={name}"


def _choose_interface(own: str, addresses: Sequence[str]) -> None:
    """Set the interface of gloo and nccl to that of this machine's address: its host name may not be routable."""
    if own.startswith("127."):  # the host name may resolve to loopback here only
        others = [other for other in addresses if not other.startswith("127.")]
        own = _own_address(others[0], _ANY_PORT) if others else own
    name = _interface_of(own)
    if name:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", name)
        if not own.startswith("127."):
            os.environ.setdefault("NCCL_SOCKET_IFNAME", f"={name}")  # exact match instead of a prefix


def _interface_of(own: str) -> str:
    """Return the name of the network interface with an address; "" if it cannot be determined."""
    if not sys.platform.startswith("linux"):
        return ""
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with suppress(OSError):
                asked = struct.pack("256s", name.encode()[:15])
                if socket.inet_ntoa(fcntl.ioctl(probe.fileno(), 0x8915, asked)[20:24]) == own:  # SIOCGIFADDR
                    return name
    return ""


def _tell_failures(process_group: TorchProcessGroup) -> None:
    """Report the exception that ends this process to the other processes."""
    former = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: object) -> None:
        process_group.heartbeat.fail(f"{kind.__name__}: {error}")
        former(kind, error, trace)  # type: ignore[arg-type]

    sys.excepthook = hook
