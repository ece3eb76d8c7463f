"""Simulate a system without the interfaces of Unix in this process: ``foreign_system.py windows|apple FILE arguments``.

Modules are missing that only Unix has, and names in ``os``, ``signal``, ``time``, ``socket`` and ``mmap``, and files of
Linux; a stub stands for ``msvcrt``. On the simulated Windows, folders cannot be opened, files that were opened for
reading cannot be synced, and processes are sent no signal but SIGTERM. Paths, the platform's name and the loader are
those of this machine.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.abc
import mmap
import os
import runpy
import shutil
import signal
import socket
import subprocess
import sys
import time
from types import ModuleType, SimpleNamespace

UNIX_MODULES = "fcntl grp pwd pty resource termios tty syslog _posixshmem _posixsubprocess"
LINUX_ONLY = "sched_getaffinity sched_setaffinity sched_getcpu memfd_create eventfd pidfd_open"
UNIX_ONLY = """
    fork forkpty getuid geteuid getgid getegid getpgid setpgid setpgrp getpgrp setsid killpg wait waitid wait3 wait4
    register_at_fork sysconf sysconf_names getloadavg uname chown fchmod fchown mkfifo nice getpriority openpty ttyname
    statvfs WNOHANG O_NOFOLLOW O_DIRECTORY O_CLOEXEC O_NONBLOCK get_blocking set_blocking posix_fallocate
"""
UNIX_SIGNALS = "SIGHUP SIGKILL SIGQUIT SIGALRM SIGUSR1 SIGUSR2 SIGCHLD SIGPIPE SIGSTOP SIGCONT"


class _Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name in UNIX_MODULES.split():
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)


def _remove(owner: object, *names: str) -> None:
    for name in names:
        if hasattr(owner, name):
            delattr(owner, name)


def import_others() -> None:
    """Import libraries, whose builds for other systems do without these names."""
    for name in (
        "numpy",
        "numba.core.registry",
        "numba.np.ufunc",
        "llvmlite.binding",
        "torch",
        "yaml",
        "safetensors.torch",
    ):
        importlib.import_module(name)
    for name in ("asyncio", "multiprocessing.spawn", "multiprocessing.shared_memory", "platformdirs", "subprocess"):
        importlib.import_module(name)
    if "train" in sys.argv:
        importlib.import_module("safetensors.torch")
    subprocess.signal, subprocess.os = SimpleNamespace(**vars(signal)), SimpleNamespace(**vars(os))


def simulate_apple() -> None:
    """Remove what macOS lacks."""
    import_others()
    _remove(os, *LINUX_ONLY.split())
    _remove(time, "pthread_getcpuclockid")
    _remove(mmap, "MAP_NORESERVE", "MAP_POPULATE")
    opened, stat = builtins.open, os.stat

    def is_of_linux(path: object) -> bool:
        return isinstance(path, (str, os.PathLike)) and os.fspath(path).startswith(("/proc", "/sys", "/dev/shm"))

    def open_elsewhere(file, *args, **kwargs):
        if is_of_linux(file):
            raise FileNotFoundError(2, "No such file or directory", file)
        return opened(file, *args, **kwargs)

    def stat_elsewhere(path, *args, **kwargs):
        if is_of_linux(path):
            raise FileNotFoundError(2, "No such file or directory", path)
        return stat(path, *args, **kwargs)

    import io

    builtins.open = io.open = open_elsewhere
    os.stat = stat_elsewhere


def simulate_windows() -> None:
    """Remove what Windows lacks."""
    simulate_apple()
    for name in UNIX_MODULES.split():
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, _Missing())
    _remove(os, *UNIX_ONLY.split())
    _remove(signal, *UNIX_SIGNALS.split(), "pthread_kill", "pthread_sigmask", "setitimer", "alarm", "sigwait")
    _remove(socket, "AF_UNIX", "socketpair")
    _remove(mmap, "MAP_PRIVATE", "MAP_ANONYMOUS", "MAP_SHARED", "PROT_READ", "PROT_WRITE")
    msvcrt = ModuleType("msvcrt")
    msvcrt.LK_LOCK, msvcrt.LK_NBLCK, msvcrt.LK_UNLCK = 1, 2, 0
    msvcrt.locking = lambda handle, mode, length: None
    sys.modules["msvcrt"] = msvcrt
    simulate_files_of_windows()

    def send_signal(process: subprocess.Popen[bytes], number: int) -> None:
        if number != signal.SIGTERM:
            raise ValueError(f"Unsupported signal: {number}")
        process.terminate()

    subprocess.Popen.send_signal = send_signal


def simulate_files_of_windows() -> None:
    """Let folders not be opened, and files that were opened for reading not be synced."""
    opened, closed, synced = os.open, os.close, os.fsync
    for_reading = set()

    def open_files(path, flags, *args, **kwargs):
        if isinstance(path, (str, os.PathLike)) and os.path.isdir(path):
            raise PermissionError(13, "Permission denied", os.fspath(path))
        handle = opened(path, flags, *args, **kwargs)
        if flags & (os.O_WRONLY | os.O_RDWR) == 0:
            for_reading.add(handle)
        return handle

    def close(handle):
        for_reading.discard(handle)
        closed(handle)

    def sync(handle):
        if handle in for_reading:
            raise OSError(9, "Bad file descriptor")
        synced(handle)

    os.open, os.close, os.fsync = open_files, close, sync
    shutil._use_fd_functions = False  # rmtree, which opens folders


if __name__ == "__main__":
    system, *sys.argv = sys.argv[1:]
    {"windows": simulate_windows, "apple": simulate_apple}[system]()
    runpy.run_path(sys.argv[0], run_name="__main__")
