"""Machines on one host: each has its own network, host name and process ids, and all share a folder."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

_TOOLS = ("ip", "unshare")
_NAME_ITSELF = 'echo "$0" > /proc/sys/kernel/hostname; exec "$@"'


class Machine:
    """Network namespace in which commands run as on another machine, whose name cannot be resolved.

    Args:
        name: of the namespace and of the machine.
        address: of its end of the link.

    Attributes:
        jobs: what was started.
    """

    def __init__(self, name: str, address: str) -> None:
        self.name, self.address = name, address
        self.jobs: list[subprocess.Popen[bytes]] = []

    @property
    def link(self) -> str:
        """The name of its end of the link."""
        return f"{self.name}0"

    def start(self, command: Sequence[str], log: Path, variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """Run a command on this machine; what it prints goes to ``log``. All that it starts ends with it."""
        apart = ["unshare", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]
        inside = ["ip", "netns", "exec", self.name, *apart, "sh", "-c", _NAME_ITSELF, self.name]
        with log.open("w") as output:
            job = subprocess.Popen(
                [*inside, *command],
                env={**os.environ, **variables},
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self.jobs.append(job)
        return job

    def set_link(self, up: bool) -> None:
        """Connect the machine, or pull its cable."""
        _ip("-n", self.name, "link", "set", self.link, "up" if up else "down")

    def process(self, rank: int) -> int:
        """The number that this host gives to the process of a rank which runs here."""
        found = subprocess.run(["ip", "netns", "pids", self.name], check=True, capture_output=True)
        for number in found.stdout.decode().split():
            with suppress(OSError):  # it has just ended
                program = Path(f"/proc/{number}/cmdline").read_text().split("\0")[0]
                variables = Path(f"/proc/{number}/environ").read_text().split("\0")
                if Path(program).name.startswith("python") and f"RANK={rank}" in variables:
                    return int(number)
        raise LookupError(f"there is no rank {rank} on {self.name}")

    def kill(self) -> None:
        """End all that was started here at once."""
        for job in self.jobs:
            with suppress(ProcessLookupError):
                os.killpg(job.pid, signal.SIGKILL)
            job.wait()


def why_not() -> str | None:
    """Return the reason why this process cannot create machines, or None."""
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if missing:
        return f"there is no {' and no '.join(missing)}"
    if os.geteuid():
        return "network namespaces need root"
    try:
        with two_machines():
            return None
    except subprocess.CalledProcessError as error:
        return f"network namespaces cannot be made: {error.stderr.decode().strip()}"


@contextmanager
def two_machines() -> Iterator[tuple[Machine, Machine]]:
    """Two machines with a link between them; nothing of them is left after the block.

    Raises:
        CalledProcessError: they cannot be made.
    """
    number = os.getpid() % 65536
    network = f"10.{64 + number // 256 % 64}.{number % 256}"  # two jobs on one host do not meet anyway
    first, second = (Machine(f"wd{number}{end}", f"{network}.{place}") for end, place in (("a", 1), ("b", 2)))
    try:
        for machine in (first, second):
            _ip("netns", "add", machine.name)
        ends = [["netns", machine.name, "name", machine.link] for machine in (first, second)]
        _ip("link", "add", *ends[0][2:], *ends[0][:2], "type", "veth", "peer", *ends[1][2:], *ends[1][:2])
        for machine in (first, second):
            _ip("-n", machine.name, "address", "add", f"{machine.address}/24", "dev", machine.link)
            _ip("-n", machine.name, "link", "set", "lo", "up")
            machine.set_link(True)
        yield first, second
    finally:
        for machine in (first, second):
            machine.kill()
            with suppress(subprocess.CalledProcessError):
                _ip("netns", "delete", machine.name)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
